/*
 * Durability lease, and somebody empties the run directory while processes run: another process
 * restores the rows in the middle of our transaction on the old ones, and goes on. Whatever either
 * admits, the rows that are left know of it.
 */
#include "tests/unit/ledger_fixture.h"

#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "store/lease.h"
#include "store/ledger_parts.h"

#define BEFORE 3 /* admitted here before, and there afterwards */
#define AFTER  5

struct site {
    struct fixture f; /* first */
    char store[LEASED_PATH], run[LEASED_PATH];
    pid_t other;
};

static atomic_int is_wiping;
static int ask_other, hear_other;

/* A batch looks at the clock once it has seen that the files are in their place. */
static enum error wiping_clock(struct clock_now *out)
{
    char byte = 0;

    if (atomic_exchange(&is_wiping, 0) != 0 &&
        (write(ask_other, &byte, 1) != 1 || read(hear_other, &byte, 1) != 1))
        return ERROR_CLOCK;
    return fake_clock(out);
}

static unsigned reserve(struct fixture *f, unsigned n)
{
    struct answer a;
    struct reservation r;
    unsigned admitted = 0;

    for (unsigned i = 0; i < n; i++)
        admitted += ledger_reserve(f->ledger, &f->policy, &f->demand, &a, &r) == ERROR_NONE &&
                    a.decision == DECISION_ADMITTED;
    return admitted;
}

/* It waits until it is asked, and lives on with what it has restored until we let go. */
static _Noreturn void wipe_and_go_on(struct site *s, int asked, int say)
{
    char command[128], byte;
    bool ok = read(asked, &byte, 1) == 1;

    snprintf(command, sizeof command, "rm -rf '%s'/*", s->run);
    ok = ok && system(command) == 0 &&
         ledger_open(&s->f.options, false, &s->f.ledger) == ERROR_NONE &&
         reserve(&s->f, AFTER) == AFTER && write(say, &byte, 1) == 1;
    _exit(ok && read(asked, &byte, 1) == 0 ? 0 : 1);
}

static void begin_other(struct site *s)
{
    int ask_ends[2], say_ends[2];

    assert_int_equal(pipe(ask_ends) | pipe(say_ends), 0);
    s->other = fork();
    assert_true(s->other >= 0);
    if (s->other == 0) {
        close(ask_ends[1]);
        close(say_ends[0]);
        wipe_and_go_on(s, ask_ends[0], say_ends[1]);
    }
    close(ask_ends[0]);
    close(say_ends[1]);
    ask_other = ask_ends[1];
    hear_other = say_ends[0];
}

static void end_other(struct site *s)
{
    int status;

    close(ask_other);
    close(hear_other);
    assert_int_equal(waitpid(s->other, &status, 0), s->other);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static int set_up_site(void **state)
{
    struct site *s = calloc(1, sizeof *s);

    assert_non_null(s);
    set_up_leased(&s->f, s->store, s->run);
    *state = s;
    atomic_store(&is_wiping, 0);
    return 0;
}

/* What a last process knows in the end, and after a power loss. */
static void assert_known(struct site *s, unsigned admitted)
{
    close_ledger(&s->f);
    end_other(s);
    open_ledger(&s->f);
    assert_true(used(&s->f, 0) >= admitted);
    close_ledger(&s->f);
    fake_now.boot_id[0]++;
    open_ledger(&s->f);
    assert_true(used(&s->f, 0) >= admitted);
}

/* Everything that is charged and granted up to the other's restore, and what it is asked then. */
static unsigned go_on_after_a_wipe(struct site *s, uint64_t max)
{
    unsigned admitted;

    add_limit(&s->f, "site", SUBJECT_EVERYONE, UNIT_CALLS, "day", max);
    assert_int_equal(ledger_create(&s->f.options, "UTC0"), ERROR_NONE);
    begin_other(s);
    s->f.options.clock = wiping_clock;
    open_ledger(&s->f);
    assert_int_equal(reserve(&s->f, BEFORE), BEFORE);
    atomic_store(&is_wiping, 1);
    admitted = reserve(&s->f, 1);
    assert_int_equal(atomic_load(&is_wiping), 0);
    assert_int_equal(reserve(&s->f, 1), 0); /* and from the next one on it is seen */
    return admitted;
}

/* 1/32 is granted ahead, and the restore charges it. */
static void what_fits_the_grant_is_known_to_whoever_restored(void **state)
{
    struct site *s = *state;

    assert_int_equal(go_on_after_a_wipe(s, 3200), 1);
    assert_known(s, BEFORE + 1 + AFTER);
}

/* Of so few nothing is granted ahead. */
static void nothing_more_is_granted_to_rows_that_are_gone(void **state)
{
    struct site *s = *state;
    struct lease l;

    assert_int_equal(go_on_after_a_wipe(s, 31), 0);
    assert_int_equal(
        lease_read(s->f.ledger->path_lease, s->f.options.secret, s->f.ledger->schema.uuid, &l),
        ERROR_NONE);
    assert_int_equal(l.n, 2);
    assert_int_equal(l.segment[0].granted[LEASE_EVERYONE].of[UNIT_CALLS], BEFORE);
    assert_int_equal(l.segment[1].granted[LEASE_EVERYONE].of[UNIT_CALLS], AFTER);
    assert_known(s, BEFORE + AFTER);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up_site, tear_down)
    const struct CMUnitTest tests[] = {
        T(what_fits_the_grant_is_known_to_whoever_restored),
        T(nothing_more_is_granted_to_rows_that_are_gone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
