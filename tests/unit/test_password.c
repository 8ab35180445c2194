/* The password of the owner's pages: one row, the same for all processes. */
#include "tests/unit/ledger_fixture.h"

#include <sys/wait.h>

static void expect(struct fixture *f, uint8_t filled)
{
    uint8_t want[KEY_HASH], got[KEY_HASH];

    memset(want, filled, sizeof want);
    assert_int_equal(ledger_password(f->ledger, got), ERROR_NONE);
    assert_memory_equal(got, want, sizeof got);
}

static void set(struct fixture *f, uint8_t filled)
{
    uint8_t hash[KEY_HASH];

    memset(hash, filled, sizeof hash);
    assert_int_equal(ledger_set_password(f->ledger, &f->policy, hash), ERROR_NONE);
}

static void there_is_none_at_first(void **state)
{
    struct fixture *f = *state;
    uint8_t got[KEY_HASH] = {5};

    assert_int_equal(ledger_password(f->ledger, got), ERROR_NOT_FOUND);
    assert_int_equal(got[0], 5);
    assert_int_equal(ledger_set_password(f->ledger, &f->policy, NULL), ERROR_NOT_FOUND);
}

static void it_is_set_replaced_and_taken_away(void **state)
{
    struct fixture *f = *state;
    uint8_t got[KEY_HASH];

    set(f, 1);
    expect(f, 1);
    set(f, 2);
    expect(f, 2);
    reopen(f);
    expect(f, 2);
    assert_int_equal(ledger_set_password(f->ledger, &f->policy, NULL), ERROR_NONE);
    assert_int_equal(ledger_password(f->ledger, got), ERROR_NOT_FOUND);
    reopen(f);
    assert_int_equal(ledger_password(f->ledger, got), ERROR_NOT_FOUND);
}

static void another_process_knows_it_at_once(void **state)
{
    const uint8_t hash[KEY_HASH] = {3};
    struct fixture *f = *state;
    uint8_t got[KEY_HASH];
    int go[2], status;
    char byte = 0;

    close_ledger(f);
    assert_int_equal(pipe(go), 0);
    pid_t child = fork();
    if (child == 0) {
        bool ok = read(go[0], &byte, 1) == 1 &&
                  ledger_open(&f->options, false, &f->ledger) == ERROR_NONE &&
                  ledger_set_password(f->ledger, &f->policy, hash) == ERROR_NONE;
        _exit(ok && ledger_close(f->ledger, 5000) ? 0 : 1);
    }
    open_ledger(f);
    assert_int_equal(ledger_password(f->ledger, got), ERROR_NOT_FOUND);
    assert_int_equal(write(go[1], &byte, 1), 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(ledger_password(f->ledger, got), ERROR_NONE);
    assert_memory_equal(got, hash, sizeof got);
    close(go[0]);
    close(go[1]);
}

static void it_outlives_the_clocks_reset_and_the_walk(void **state)
{
    struct fixture *f = *state;
    char note[128];

    set(f, 4);
    pass(500 * DAY_MS);
    assert_int_equal(ledger_clock_reset(f->ledger, &f->policy), ERROR_NONE);
    close_ledger(f);
    path_of(f, "run/walked", note);
    assert_int_equal(unlink(note), 0);
    open_ledger(f);
    expect(f, 4);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(there_is_none_at_first),
        T(it_is_set_replaced_and_taken_away),
        T(another_process_knows_it_at_once),
        T(it_outlives_the_clocks_reset_and_the_walk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
