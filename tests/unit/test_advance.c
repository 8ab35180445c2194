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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_window_that_was_just_added_stays, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
