/*
 * The lease where a ledger is around it: which operations charge and settle it, and which windows
 * are named so that it can be restored into them. The ledger is opened as with durability commit;
 * how one with a lease is opened is tested elsewhere.
 */
#include "tests/unit/ledger_fixture.h"

#include "platform/file.h"
#include "store/export.h"
#include "store/lease.h"
#include "store/ledger_parts.h"
#include "store/rows.h"

static char *path_before;

static int set_up_with_lease(void **state)
{
    const struct lease empty = {0};
    struct fixture *f;

    assert_int_equal(set_up(state), 0);
    f = *state;
    path_before = f->ledger->path_lease;
    f->ledger->path_lease = file_join(f->dir, "lease");
    f->ledger->options.lease = true;
    assert_int_equal(lease_write(f->ledger->path_lease, f->ledger->options.secret,
                                 f->ledger->schema.uuid, &empty),
                     ERROR_NONE);
    return 0;
}

static int tear_down_leased(void **state)
{
    struct fixture *f = *state;

    f->ledger->options.lease = false;
    free(f->ledger->path_lease);
    f->ledger->path_lease = path_before;
    return tear_down(state);
}

static enum error read_row(void *arg, const struct view_context *c)
{
    struct lease_row *out = arg;
    struct kv_slice value;
    struct row_key key;

    key_lease(&key);
    if (kv_get(c->txn, key.bytes, key.n, &value) == ERROR_NONE)
        return record_lease_read(&value, out) ? ERROR_NONE : ERROR_STORE_INVALID;
    *out = (struct lease_row){.closed = true};
    return ERROR_NONE;
}

static struct lease_row row_of(struct fixture *f)
{
    struct lease_row row;

    assert_int_equal(ledger_reading(f->ledger, read_row, &row), ERROR_NONE);
    return row;
}

static uint64_t tokens_of(struct fixture *f)
{
    return row_of(f).charged[LEASE_EVERYONE].of[UNIT_TOKENS];
}

static void a_call_is_charged_and_settled(void **state)
{
    struct fixture *f = *state;
    struct reservation r;

    add_limit(f, "site-day", SUBJECT_EVERYONE, UNIT_CALLS, "day", 2);
    r = must_admit(f);
    assert_int_equal(r.segment, 1);
    assert_int_equal(r.segment_day, START_MS / DAY_MS);
    assert_int_equal(tokens_of(f), 100);
    assert_int_equal(row_of(f).charged[LEASE_ANONYMOUS].of[UNIT_TOKENS], 100);
    settle(f, &r, SETTLE_USAGE, 30, 300);
    assert_int_equal(tokens_of(f), 30);
    settle(f, &r, SETTLE_USAGE, 30, 300); /* twice */
    assert_int_equal(tokens_of(f), 30);
    r = must_admit(f);
    settle(f, &r, SETTLE_USAGE, 150, 1000);
    assert_int_equal(tokens_of(f), 180);
    ledger_release(f->ledger, &r);
}

static void a_refusal_charges_nothing(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    struct reservation r;

    add_limit(f, "site-day", SUBJECT_EVERYONE, UNIT_CALLS, "day", 1);
    r = must_admit(f);
    settle(f, &r, SETTLE_UNKNOWN, 0, 0);
    assert_int_equal(ledger_reserve(f->ledger, &f->policy, &f->demand, &a, &r), ERROR_NONE);
    assert_int_equal(a.decision, DECISION_REFUSED);
    assert_int_equal(tokens_of(f), 100);
}

/* The replacement is charged in the segment of its own time, and settled there. */
static void a_replacement_is_charged_where_it_is_made(void **state)
{
    const struct settlement first = {.kind = SETTLE_UNKNOWN, .breaker_after = 3};
    struct fixture *f = *state;
    struct demand other;
    struct reservation r;
    struct answer a;

    add_limit(f, "site-day", SUBJECT_EVERYONE, UNIT_CALLS, "day", 9);
    r = must_admit(f);
    other = f->demand;
    other.weights.of[UNIT_TOKENS] = 400;
    assert_int_equal(ledger_replace(f->ledger, &f->policy, &other, &first, &a, &r), ERROR_NONE);
    assert_int_equal(r.segment, 1);
    assert_int_equal(tokens_of(f), 400); /* the first was given back */
    settle(f, &r, SETTLE_NOTHING, 0, 0);
    assert_int_equal(tokens_of(f), 0);
    fake_now.wall_ms += 17 * HOUR_MS - 1000; /* short of midnight */
    r = must_admit(f);
    pass(2000);
    assert_int_equal(ledger_replace(f->ledger, &f->policy, &other, &first, &a, &r), ERROR_NONE);
    assert_int_equal(r.segment, 3);
    assert_int_equal(r.segment_day, START_MS / DAY_MS + 1);
    assert_int_equal(r.day, START_MS / DAY_MS); /* of the history */
    settle(f, &r, SETTLE_USAGE, 10, 10);
    assert_int_equal(tokens_of(f), 10);
}

static void a_clock_reset_ends_the_segment(void **state)
{
    struct fixture *f = *state;
    struct reservation r;

    add_limit(f, "site-day", SUBJECT_EVERYONE, UNIT_CALLS, "day", 9);
    r = must_admit(f);
    assert_int_equal(ledger_clock_reset(f->ledger, &f->policy), ERROR_NONE);
    assert_true(row_of(f).closed);
    settle(f, &r, SETTLE_USAGE, 900, 900); /* it goes nowhere */
    assert_int_equal(row_of(f).segment.serial, 1);
    assert_int_equal(must_admit(f).segment, 2);
}

/* A window of everyone's alone needs no key to hash anybody; but it must be known to be one. */
static void windows_that_only_everyone_has_are_named(void **state)
{
    struct fixture *f = *state;
    struct window month;
    struct periods p;

    assert_true(window_parse("month", &month));
    add_limit(f, "visitor-day", SUBJECT_ADDRESS, UNIT_CALLS, "day", 9);
    (void)must_admit(f);
    ledger_periods_copy(f->ledger, &p);
    assert_null(periods_find(&p, window_code(month)));
    add_limit(f, "site-month", SUBJECT_EVERYONE, UNIT_CALLS, "month", 9);
    (void)must_admit(f);
    ledger_periods_copy(f->ledger, &p);
    assert_non_null(periods_find(&p, window_code(month)));
}

static void an_export_has_no_lease(void **state)
{
    struct fixture *f = *state;
    uint64_t rows, with;
    FILE *out = tmpfile();

    assert_non_null(out);
    add_limit(f, "site-day", SUBJECT_EVERYONE, UNIT_CALLS, "day", 9);
    f->ledger->options.lease = false;
    (void)must_admit(f);
    assert_int_equal(ledger_export(f->ledger, out, &rows), ERROR_NONE);
    f->ledger->options.lease = true;
    (void)must_admit(f); /* one reservation more, and the row */
    assert_int_equal(row_of(f).segment.serial, 1);
    assert_int_equal(ledger_export(f->ledger, out, &with), ERROR_NONE);
    assert_int_equal(with, rows + 1);
    fclose(out);
}

#define test(name) cmocka_unit_test_setup_teardown(name, set_up_with_lease, tear_down_leased)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(a_call_is_charged_and_settled),
        test(a_refusal_charges_nothing),
        test(a_replacement_is_charged_where_it_is_made),
        test(a_clock_reset_ends_the_segment),
        test(windows_that_only_everyone_has_are_named),
        test(an_export_has_no_lease),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
