/* Period keys are advanced in the file as it is once the lock is held: what another process has
 * added to it while this one waited for the lock must not get lost. */
#include "tests/unit/ledger_fixture.h"

#include "store/ledger_parts.h"
#include "store/rows.h"

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

static enum error count_row(void *arg, struct kv_cursor *c, const struct kv_slice *key,
                            const struct kv_slice *value)
{
    int64_t at;

    (void)c;
    (void)value;
    if (!key_instant(TABLE_COUNTER, key, &at))
        return ERROR_NOT_FOUND;
    ++*(unsigned *)arg;
    return ERROR_NONE;
}

static unsigned counters(struct fixture *f)
{
    struct row_key from;
    struct kv_txn *t = NULL;
    unsigned n = 0;

    key_table(TABLE_COUNTER, &from);
    assert_int_equal(kv_begin_read(f->ledger->kv, &t), ERROR_NONE);
    assert_int_equal(rows_each(t, &from, count_row, &n), ERROR_NONE);
    kv_end_read(t);
    kv_free_read(t);
    return n;
}

/* On for two hours twice a week: each boot is a step, and each day's hold never ends. */
static void a_machine_that_is_hardly_ever_on(void **state)
{
    struct fixture *f = *state;
    struct periods p;

    add_limit(f, "mine", SUBJECT_ADDRESS, UNIT_CALLS, "1h", 100);
    for (unsigned day = 0; day < 40; day++) {
        struct answer a;
        struct reservation r;

        close_ledger(f);
        fake_now.wall_ms += 84 * HOUR_MS;
        fake_now.boot_ms = 20000;
        fake_now.boot_id[0]++;
        open_ledger(f);
        for (unsigned i = 0; i < 60; i++) {
            set_address(&f->demand, (uint8_t)i);
            assert_int_equal(ask(f, &a, &r), DECISION_ADMITTED);
            settle(f, &r, SETTLE_USAGE, 10, 10);
            pass(2 * 60000);
        }
        assert_int_equal(ledger_maintain(f->ledger, &f->policy), ERROR_NONE);
        assert_true(counters(f) <=
                    3 * 60); /* of one time, the one before, and not yet looked at */
    }
    file_of(f, &p);
    for (unsigned i = 0; i < p.n; i++) /* the keys of the last time and of this one */
        assert_true(p.entry[i].period >= fake_now.wall_ms / DAY_MS - 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_window_that_was_just_added_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_machine_that_is_hardly_ever_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_time_by_which_keys_went_stays, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
