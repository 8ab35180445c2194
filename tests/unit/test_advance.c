/* Period keys are advanced in the file as it is once the lock is held: what another process has
 * added to it while this one waited for the lock must not get lost. */
#include "tests/unit/ledger_fixture.h"

#include "store/ledger_parts.h"

struct round {
    struct fixture *fixture;
    struct window added;
    enum error result;
};

static void file_of(struct fixture *f, struct periods *out)
{
    char path[128];

    path_of(f, "periods", path);
    assert_int_equal(periods_read(path, f->options.secret, f->ledger->schema.uuid, out),
                     ERROR_NONE);
}

/* Called once the lock is held: the other process has just given it back. */
static struct op *add_and_take(void *arg)
{
    struct round *r = arg;
    struct fixture *f = r->fixture;
    struct periods p;
    char path[128];

    file_of(f, &p);
    assert_int_equal(periods_add(&p, window_code(r->added), 1000), ERROR_NONE);
    path_of(f, "periods", path);
    assert_int_equal(periods_write(path, f->options.secret, f->ledger->schema.uuid, &p),
                     ERROR_NONE);
    return op_new(OP_MAINTAIN, &f->policy);
}

static void note_result(void *arg, struct op *list)
{
    ((struct round *)arg)->result = list->error;
    free(list);
}

static void a_window_that_was_just_added_stays(void **state)
{
    struct fixture *f = *state;
    struct round r = {.fixture = f, .result = ERROR_SYSTEM};
    const struct window day = {WINDOW_DAY, 0};
    struct periods before, after;

    file_of(f, &before);
    pass(20 * HOUR_MS); /* within a step that is believed at once */
    assert_int_equal(ledger_maintain(f->ledger, &f->policy), ERROR_NONE);
    pass(20 * HOUR_MS);
    assert_true(window_parse("1h", &r.added));
    batch_run(f->ledger, add_and_take, note_result, &r);
    assert_int_equal(r.result, ERROR_NONE);
    file_of(f, &after);
    assert_non_null(periods_find(&after, window_code(r.added)));
    assert_true(periods_find(&after, window_code(day))->period >
                periods_find(&before, window_code(day))->period);
    assert_int_equal(ledger_verify(f->ledger), ERROR_NONE);
}

/*
 * Of a site where nobody asks: timed work ends the old day's key by a time that the store then
 * has, too. Otherwise a clock that is a little behind after a boot leads back into a day whose
 * key is gone, and nobody could be counted.
 */
static void the_time_by_which_keys_went_stays(void **state)
{
    static const struct {
        const char *why;
        int64_t back_ms;
        bool boot;
    } rows[] = {
        {"the clock is put back a little", 10 * 60000, false},
        {"it is put back by days", 3 * DAY_MS, false},
        {"a boot, and the clock is where it was saved before", 10 * 60000, true},
        {"a boot, and the clock is days behind", 3 * DAY_MS, true},
    };
    struct fixture *f = *state;
    struct periods before, after;
    struct answer a;

    add_limit(f, "mine", SUBJECT_ADDRESS, UNIT_CALLS, "day", 100);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct reservation r;

        print_message("    %s\n", rows[i].why);
        assert_int_equal(ask(f, &a, &r), DECISION_ADMITTED);
        settle(f, &r, SETTLE_USAGE, 10, 10);
        file_of(f, &before);
        for (unsigned day = 0; day < 3; day++) { /* none of them a step */
            pass(DAY_MS - HOUR_MS);
            assert_int_equal(ledger_maintain(f->ledger, &f->policy), ERROR_NONE);
        }
        file_of(f, &after);
        assert_true(after.entry[0].period > before.entry[0].period);
        fake_now.wall_ms -= rows[i].back_ms;
        if (rows[i].boot) {
            close_ledger(f);
            fake_now.boot_ms = 20000;
            fake_now.boot_id[0]++;
            open_ledger(f);
        }
        assert_int_equal(ledger_check(f->ledger, &f->policy, &f->demand, &a), ERROR_NONE);
        assert_int_equal(a.decision, DECISION_ADMITTED);
        pass(4 * DAY_MS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_window_that_was_just_added_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_time_by_which_keys_went_stays, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
