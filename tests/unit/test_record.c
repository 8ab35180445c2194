/* Rows that nobody wrote: what a decoder lets through, the program computes with. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "store/record.h"
#include "store/transcript.h"

#define N(a) (sizeof(a) / sizeof((a)[0]))

static bool row_ok(const struct row_key *key, const struct record *r)
{
    return record_row_ok(key->bytes, key->n, r->bytes, r->n);
}

/* Doubled, a pause of this wrapped. */
static void the_times_of_a_breaker_are_bounded(void **state)
{
    static const struct {
        const char *why;
        int64_t open_until_ms, pause_ms, probing_until_ms;
        bool ok;
    } rows[] = {
        {"what is written", 5000000, 60000, 6000000, true},
        {"the longest pause", 5000000, BREAKER_PAUSE_MAX_MS, 0, true},
        {"a longer one", 5000000, BREAKER_PAUSE_MAX_MS + 1, 0, false},
        {"one that wraps when it is doubled", 1, INT64_MAX, 0, false},
        {"one before it began", 1, -1, 0, false},
        {"the last instant", INSTANT_MAX_MS, 1, INSTANT_MAX_MS, true},
        {"open until after the last", INSTANT_MAX_MS + 1, 1, 0, false},
        {"tried until after the last", 1, 1, INT64_MAX, false},
        {"open until before the boot", -1, 1, 0, false},
    };
    struct row_key key;

    (void)state;
    key_breaker("demo", &key);
    for (size_t i = 0; i < N(rows); i++) {
        const struct breaker b = {.failures = 3,
                                  .open_until_ms = rows[i].open_until_ms,
                                  .pause_ms = rows[i].pause_ms,
                                  .probing_until_ms = rows[i].probing_until_ms};
        struct record r;

        record_breaker(&b, &r);
        if (row_ok(&key, &r) != rows[i].ok)
            fail_msg("%s", rows[i].why);
    }
}

static struct row_key of_bytes(uint8_t first, uint8_t n)
{
    struct row_key key = {.n = n, .bytes = {first}};

    return key;
}

/* A settle writes amounts to the rows that a reservation names. */
static void a_reservation_names_rows_of_counters_alone(void **state)
{
    static const struct {
        const char *why;
        uint8_t table, n;
        bool ok;
    } rows[] = {
        {"a day's counter", TABLE_DAY, 9 + 1 + SUBJECT_HASH, true},
        {"another counter", TABLE_COUNTER, 9 + 4 + 1 + SUBJECT_HASH, true},
        {"nothing", TABLE_DAY, 0, false},
        {"a table's byte alone", TABLE_DAY, 1, false},
        {"a day's counter that is cut", TABLE_DAY, 9 + SUBJECT_HASH, false},
        {"another one that is as short", TABLE_COUNTER, 9 + 1 + SUBJECT_HASH, false},
        {"the state", TABLE_META, 2, false},
        {"a history", TABLE_HISTORY, 9, false},
        {"a reservation", TABLE_RESERVATION, 9 + 8, false},
        {"no table", 0, 9 + 1 + SUBJECT_HASH, false},
    };
    struct row_key key;

    (void)state;
    key_reservation(1000, 7, &key);
    for (size_t i = 0; i < N(rows); i++) {
        struct hold h = {.day = 20787, .n_rows = 2};
        struct record r;

        h.row[0] = of_bytes(TABLE_COUNTER, 9 + 4 + 1 + SUBJECT_HASH);
        h.row[1] = of_bytes(rows[i].table, rows[i].n);
        record_hold(&h, &r);
        if (row_ok(&key, &r) != rows[i].ok)
            fail_msg("%s", rows[i].why);
    }
}

static void what_else_a_reservation_says_is_bounded(void **state)
{
    static const struct {
        const char *why;
        int64_t day;
        uint64_t tokens_in, tokens_out;
        uint8_t subject;
        bool ok;
    } rows[] = {
        {"what is written", 20787, 100, 100, SUBJECT_EVERYONE, true},
        {"a day that never ends", INT64_MAX, 1, 1, SUBJECT_EVERYONE, false},
        {"a day before all", -1, 1, 1, SUBJECT_EVERYONE, false},
        {"tokens that wrap", 20787, AMOUNT_MAX + 1, 1, SUBJECT_EVERYONE, false},
        {"tokens out that wrap", 20787, 1, UINT64_MAX, SUBJECT_EVERYONE, false},
        {"a place of no subject", 20787, 1, 1, SUBJECTS, false},
    };
    struct row_key key;

    (void)state;
    key_reservation(1000, 7, &key);
    for (size_t i = 0; i < N(rows); i++) {
        struct hold h = {.day = rows[i].day,
                         .tokens_in = rows[i].tokens_in,
                         .tokens_out = rows[i].tokens_out,
                         .n_live = 1};
        struct record r;

        h.live[0].subject = rows[i].subject;
        record_hold(&h, &r);
        if (row_ok(&key, &r) != rows[i].ok)
            fail_msg("%s", rows[i].why);
    }
}

/* Its name goes into the log and into a JSON text as it is. */
static void an_alert_that_waits_is_bounded(void **state)
{
    static const struct {
        const char *why, *name;
        unsigned kind, percent;
        int64_t time_s, queued_ms;
        bool ok;
    } rows[] = {
        {"what is written", "site-day", 0, 80, 1796022000, 1796022000000, true},
        {"a model's alias", "-gpt-4.1_mini", 0, 0, 1796022000, 1796022000000, true},
        {"the last kind", "site-day", ALERT_KINDS - 1, 0, 1, 1, true},
        {"of no kind", "site-day", ALERT_KINDS, 0, 1, 1, false},
        {"of the largest kind", "site-day", UINT8_MAX, 0, 1, 1, false},
        {"more than all of it", "site-day", 0, 101, 1, 1, false},
        {"told before 1970", "site-day", 0, 80, -1, 1, false},
        {"told in no year", "site-day", 0, 80, INT64_MAX, 1, false},
        {"queued before 1970", "site-day", 0, 80, 1, -1, false},
        {"queued after all", "site-day", 0, 80, 1, INT64_MAX, false},
        {"another line of the log", "a\nevent=x", 0, 80, 1, 1, false},
        {"an end of the JSON text", "a\",\"b", 0, 80, 1, 1, false},
        {"no name", "", 0, 80, 1, 1, false},
    };
    struct row_key key;

    (void)state;
    key_alert(1796022000000, 7, &key);
    for (size_t i = 0; i < N(rows); i++) {
        struct alert_row a = {
            .reason = {.kind = (enum alert_kind)rows[i].kind, .percent = rows[i].percent},
            .time_s = rows[i].time_s,
            .queued_ms = rows[i].queued_ms};
        struct record r;

        memcpy(a.reason.name, rows[i].name, strlen(rows[i].name));
        record_alert(&a, &r);
        if (row_ok(&key, &r) != rows[i].ok)
            fail_msg("%s", rows[i].why);
    }
}

/* Its name goes into pages and texts as it is. */
static void an_alert_that_is_shown_is_bounded(void **state)
{
    static const struct {
        const char *why, *name;
        unsigned kind, percent;
        int64_t time_s;
        unsigned told;
        bool ok;
    } rows[] = {
        {"what is written", "site-day", ALERT_THRESHOLD, 80, 1796022000, TOLD_HERE, true},
        {"the last of each", "a", ALERT_KINDS - 1, 100, 0, TOLD_GIVEN_UP, true},
        {"of no kind", "site-day", ALERT_KINDS, 80, 1, TOLD_HERE, false},
        {"more than all of it", "site-day", 0, 101, 1, TOLD_HERE, false},
        {"told before 1970", "site-day", 0, 80, -1, TOLD_HERE, false},
        {"told in no year", "site-day", 0, 80, INT64_MAX, TOLD_HERE, false},
        {"something else has become of it", "site-day", 0, 80, 1, TOLD_GIVEN_UP + 1, false},
        {"an element of the page", "<b>", 0, 80, 1, TOLD_HERE, false},
        {"no name", "", 0, 80, 1, TOLD_HERE, false},
    };
    struct row_key key;

    (void)state;
    key_told(&key);
    for (size_t i = 0; i < N(rows); i++) {
        struct told_list l = {.n = TOLD_MAX};
        struct record r;

        for (unsigned k = 0; k < TOLD_MAX; k++) {
            l.row[k].time_s = 1;
            l.row[k].reason.name[0] = 'a';
        }
        struct told_row *last = &l.row[TOLD_MAX - 1];
        last->reason.kind = (enum alert_kind)rows[i].kind;
        last->reason.percent = rows[i].percent;
        last->time_s = rows[i].time_s;
        last->told = (enum told)rows[i].told;
        memset(last->reason.name, 0, sizeof last->reason.name);
        memcpy(last->reason.name, rows[i].name, strlen(rows[i].name));
        record_told(&l, &r);
        if (row_ok(&key, &r) != rows[i].ok)
            fail_msg("%s", rows[i].why);
    }
}

static void the_last_alerts_are_so_many(void **state)
{
    struct told_list l = {.n = 0};
    struct row_key key;
    struct record r;

    (void)state;
    key_told(&key);
    record_told(&l, &r);
    assert_true(row_ok(&key, &r));
    r.bytes[1] = TOLD_MAX + 1;
    assert_false(row_ok(&key, &r));
    r.bytes[1] = 1; /* and is not there */
    assert_false(row_ok(&key, &r));
    r.bytes[1] = 0;
    r.n++;
    assert_false(row_ok(&key, &r));
    r.n--;
    r.bytes[0]++; /* of a later program */
    assert_false(row_ok(&key, &r));
    r.bytes[0]--;
    key.n++; /* no such name */
    assert_false(row_ok(&key, &r));
}

static void a_sum_and_a_password_have_one_row_each(void **state)
{
    const struct history_day sum = {.admitted = 7};
    const uint8_t hash[KEY_HASH] = {1, 2, 3};
    struct history_day day = {0};
    uint8_t read[KEY_HASH] = {0};
    struct row_key key;
    struct record r;

    (void)state;
    key_erased(&key);
    record_history(&sum, &r);
    assert_true(row_ok(&key, &r));
    assert_true(record_history_read(&(struct kv_slice){r.bytes, r.n}, &day));
    assert_int_equal(day.admitted, 7);
    key.n++;
    assert_false(row_ok(&key, &r));
    key_password(&key);
    record_password(hash, &r);
    assert_true(row_ok(&key, &r));
    assert_true(record_password_read(&(struct kv_slice){r.bytes, r.n}, read));
    assert_memory_equal(read, hash, sizeof read);
    r.n--;
    assert_false(row_ok(&key, &r));
    r.n += 2;
    assert_false(row_ok(&key, &r));
    r.n--;
    key.n++;
    assert_false(row_ok(&key, &r));
}

/* One that never ends would keep its threshold quiet for ever. */
static void the_flag_of_an_alert_is_bounded(void **state)
{
    static const struct {
        const char *why;
        int64_t until_ms;
        uint8_t unit;
        bool ok;
    } rows[] = {
        {"what is written", 1796022000000, UNIT_COST, true},
        {"one that never ends", INT64_MAX, UNIT_COST, false},
        {"one that ended before 1970", -1, UNIT_COST, false},
        {"of a unit that is no sum", 1796022000000, UNIT_CONCURRENT, false},
    };
    struct row_key key;

    (void)state;
    key_alert_flag(ALERT_THRESHOLD, 80, "site-day", &key);
    for (size_t i = 0; i < N(rows); i++) {
        const struct alert_flag f = {.until_ms = rows[i].until_ms, .unit = rows[i].unit};
        struct record r;

        record_alert_flag(&f, &r);
        if (row_ok(&key, &r) != rows[i].ok)
            fail_msg("%s", rows[i].why);
    }
}

static void the_overhead_that_was_learnt_is_bounded(void **state)
{
    static const struct {
        const char *why;
        struct overhead o;
        bool ok;
    } rows[] = {
        {"what is written", {1000, 20787}, true},
        {"one that wraps a sum", {AMOUNT_MAX + 1, 20787}, false},
        {"one of no day", {1000, INT64_MAX}, false},
    };
    struct row_key key;

    (void)state;
    key_overhead("demo", &key);
    for (size_t i = 0; i < N(rows); i++) {
        struct record r;

        record_overhead(&rows[i].o, &r);
        if (row_ok(&key, &r) != rows[i].ok)
            fail_msg("%s", rows[i].why);
    }
}

static void a_key_was_issued_in_some_year(void **state)
{
    struct ledger_key k = {.name = "ann", .created_s = INSTANT_MAX_MS / 1000}, out;
    struct record r;

    (void)state;
    record_issued(&k, &r);
    assert_true(record_issued_read(&(struct kv_slice){r.bytes, r.n}, &out));
    k.created_s++;
    record_issued(&k, &r);
    assert_false(record_issued_read(&(struct kv_slice){r.bytes, r.n}, &out));
}

static void an_instant_in_a_key_is_bounded(void **state)
{
    struct row_key key;
    int64_t at;

    (void)state;
    key_dry(INSTANT_MAX_MS, "a", &key);
    assert_true(key_instant(TABLE_DRY, &(struct kv_slice){key.bytes, key.n}, &at));
    key_dry(INSTANT_MAX_MS + 1, "a", &key);
    assert_false(key_instant(TABLE_DRY, &(struct kv_slice){key.bytes, key.n}, &at));
}

static void test_a_day_is_one_of_an_instant(void **state)
{
    const int64_t last = INSTANT_MAX_MS / (24 * 3600 * 1000);

    (void)state;
    for (int64_t day = last - 1; day <= last + 1; day++) {
        const struct overhead in = {.tokens = 1, .day = day};
        struct overhead out;
        struct record r;

        record_overhead(&in, &r);
        assert_int_equal(record_overhead_read(&(struct kv_slice){r.bytes, r.n}, &out),
                         day <= last);
    }
}

static void test_what_is_no_value_changes_nothing(void **state)
{
    const struct amounts in = {{1, 2, 3}};
    struct amounts out = {{7, 7, 7}};
    struct record r;

    (void)state;
    record_amounts(&in, &r);
    assert_false(record_amounts_read(&(struct kv_slice){r.bytes, r.n - 1}, &out));
    for (unsigned u = 0; u < UNITS_SUMMED; u++)
        assert_int_equal(out.of[u], 7);
}

/* Whatever is not 0 is true, and a bool has no third value. */
static void test_a_truth_is_none_or_one(void **state)
{
    const struct state in = {.paused = true};
    struct state out;
    struct record r;
    uint8_t byte;

    (void)state;
    record_state(&in, &r);
    for (size_t i = 0; i < r.n; i++) /* paused is the one member that is 1 in it */
        if (i > 0 && r.bytes[i] == 1)
            r.bytes[i] = 2;
    assert_true(record_state_read(&(struct kv_slice){r.bytes, r.n}, &out));
    memcpy(&byte, &out.paused, 1);
    assert_int_equal(byte, 1);
}

/* One without a step is as it always was: nobody has to upgrade a store. */
static void test_a_state_says_when_its_last_step_was(void **state)
{
    static const int64_t before_ms[] = {0, 1, INSTANT_MAX_MS};
    size_t n_without = 0;

    (void)state;
    for (size_t i = 0; i < sizeof before_ms / sizeof *before_ms; i++) {
        struct state in = {.time = {.time_ms = 5, .before_ms = before_ms[i]}, .n_windows = 1};
        struct state out;
        struct record r;

        record_state(&in, &r);
        n_without = i == 0 ? r.n : n_without;
        assert_int_equal(r.n, n_without + (i == 0 ? 0 : 8));
        assert_true(record_state_read(&(struct kv_slice){r.bytes, r.n}, &out));
        assert_int_equal(out.time.before_ms, before_ms[i]);
        assert_false(record_state_read(&(struct kv_slice){r.bytes, r.n - 1}, &out));
        memset(r.bytes + n_without, 0, 8);
        assert_false(record_state_read(&(struct kv_slice){r.bytes, n_without + 8}, &out));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_times_of_a_breaker_are_bounded),
        cmocka_unit_test(a_reservation_names_rows_of_counters_alone),
        cmocka_unit_test(what_else_a_reservation_says_is_bounded),
        cmocka_unit_test(an_alert_that_waits_is_bounded),
        cmocka_unit_test(an_alert_that_is_shown_is_bounded),
        cmocka_unit_test(the_last_alerts_are_so_many),
        cmocka_unit_test(a_sum_and_a_password_have_one_row_each),
        cmocka_unit_test(the_flag_of_an_alert_is_bounded),
        cmocka_unit_test(the_overhead_that_was_learnt_is_bounded),
        cmocka_unit_test(a_key_was_issued_in_some_year),
        cmocka_unit_test(an_instant_in_a_key_is_bounded),
        cmocka_unit_test(test_a_day_is_one_of_an_instant),
        cmocka_unit_test(test_what_is_no_value_changes_nothing),
        cmocka_unit_test(test_a_truth_is_none_or_one),
        cmocka_unit_test(test_a_state_says_when_its_last_step_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
