/*
 * The lease: its file, what is granted and when, where segments end, what is given back, and what
 * is charged after a power loss.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/lease_fixture.h"

#define N(a) (sizeof(a) / sizeof((a)[0]))

/* ---- the file ---- */

static struct lease full_lease(void)
{
    struct lease l = {.copied = 5, .n = LEASE_SEGMENTS};

    for (unsigned i = 0; i < l.n; i++)
        l.segment[i] = (struct lease_segment){.serial = 5 + i,
                                              .from_ms = START_MS + i,
                                              .until_ms = START_MS + HOUR_MS,
                                              .day = START_DAY,
                                              .granted = {{{1, 2, AMOUNT_MAX}}, {{4, 5, 6}}}};
    return l;
}

static void the_file_comes_back_as_it_was(void **state)
{
    const struct lease l = full_lease(), empty = {0};
    const char *path = scratch_path("file");
    struct lease read;

    (void)state;
    assert_error(lease_read(path, secret, uuid, &read), ERROR_STORE_MISSING);
    assert_error(lease_write(path, secret, uuid, &l), ERROR_NONE);
    assert_true(size_of(path) < 1024);
    memset(&read, 0, sizeof read);
    assert_error(lease_read(path, secret, uuid, &read), ERROR_NONE);
    assert_memory_equal(&read, &l, sizeof l);
    assert_error(lease_write(path, secret, uuid, &empty), ERROR_NONE);
    assert_error(lease_read(path, secret, uuid, &read), ERROR_NONE);
    assert_memory_equal(&read, &empty, sizeof empty);
}

static void expect_refused(const char *path, const unsigned char *data, size_t n)
{
    const struct lease before = full_lease();
    struct lease read = before;

    scratch_write(path, 0600, data, n);
    enum error e = lease_read(path, secret, uuid, &read);
    assert_true(e == ERROR_STORE_INVALID || e == ERROR_STORE_VERSION);
    assert_memory_equal(&read, &before, sizeof read);
}

static void no_byte_of_the_file_can_change(void **state)
{
    const struct lease l = full_lease();
    const char *path = scratch_path("file");
    unsigned char *data;
    size_t n;

    (void)state;
    assert_error(lease_write(path, secret, uuid, &l), ERROR_NONE);
    data = read_file(path, &n);
    for (size_t i = 0; i < n; i++)
        for (unsigned bit = 0; bit < 8; bit++) {
            data[i] ^= (unsigned char)(1U << bit);
            expect_refused(path, data, n);
            data[i] ^= (unsigned char)(1U << bit);
        }
    for (size_t cut = 0; cut < n; cut++)
        expect_refused(path, data, cut);
    expect_refused(path, data, n + 1);
    free(data);
}

static void the_file_is_of_one_store_and_secret(void **state)
{
    static const uint8_t other_secret[MAC_SIZE] = {43}, other_uuid[16] = {1, 2, 4};
    const struct lease l = full_lease();
    const char *path = scratch_path("file");
    struct lease read;

    (void)state;
    assert_error(lease_write(path, secret, uuid, &l), ERROR_NONE);
    assert_error(lease_read(path, other_secret, uuid, &read), ERROR_STORE_INVALID);
    assert_error(lease_read(path, secret, other_uuid, &read), ERROR_STORE_INVALID);
    assert_error(lease_read(scratch_directory, secret, uuid, &read), ERROR_STORE_INVALID);
}

/* With a right MAC, as only a fault of ours could write it. */
static void segments_are_sound(void **state)
{
    static const struct {
        const char *why;
        uint64_t serial;
        int64_t from_ms, until_ms, day;
        uint64_t cost;
        bool ok;
    } rows[] = {
        {"the next", 6, 1, 2, 0, AMOUNT_MAX, true},
        {"the same again", 5, 1, 2, 0, 0, false},
        {"one that is in the copy", 4, 1, 2, 0, 0, false},
        {"after which there is none", UINT64_MAX, 1, 2, 0, 0, false},
        {"ends as it begins", 6, 2, 2, 0, 0, false},
        {"begins before 1970", 6, -1, 2, 0, 0, false},
        {"ends after the last instant", 6, 1, INSTANT_MAX_MS + 1, 0, 0, false},
        {"of no date", 6, 1, 2, -1, 0, false},
        {"of a date after the last", 6, 1, 2, INSTANT_MAX_MS / DAY_MS + 1, 0, false},
        {"grants what would wrap", 6, 1, 2, 0, AMOUNT_MAX + 1, false},
    };
    const char *path = scratch_path("file");

    (void)state;
    for (size_t i = 0; i < N(rows); i++) {
        struct lease l = full_lease(), read;

        l.n = 2;
        l.segment[1] = (struct lease_segment){.serial = rows[i].serial,
                                              .from_ms = rows[i].from_ms,
                                              .until_ms = rows[i].until_ms,
                                              .day = rows[i].day,
                                              .granted = {{{0, 0, rows[i].cost}}}};
        assert_error(lease_write(path, secret, uuid, &l), ERROR_NONE);
        if ((lease_read(path, secret, uuid, &read) == ERROR_NONE) != rows[i].ok)
            fail_msg("%s", rows[i].why);
    }
}

/* The row, and its like that nobody wrote. */
static void the_row_is_bounded(void **state)
{
    struct lease_row row, read;
    struct row_key key;
    struct record r;

    (void)state;
    row = (struct lease_row){.segment = full_lease().segment[0]};
    memcpy(row.charged, row.segment.granted, sizeof row.charged);
    key_lease(&key);
    record_lease(&row, &r);
    assert_true(record_row_ok(key.bytes, key.n, r.bytes, r.n));
    assert_false(record_row_ok(key.bytes, key.n, r.bytes, r.n - 1));
    assert_true(record_lease_read(&(struct kv_slice){r.bytes, r.n}, &read));
    assert_memory_equal(&read.segment, &row.segment, sizeof row.segment);
    assert_memory_equal(read.charged, row.charged, sizeof row.charged);
    assert_false(read.closed);
    row.charged[LEASE_ANONYMOUS].of[UNIT_COST]++; /* more than is granted */
    record_lease(&row, &r);
    assert_false(record_row_ok(key.bytes, key.n, r.bytes, r.n));
    row.charged[LEASE_ANONYMOUS].of[UNIT_COST]--;
    row.segment.until_ms = row.segment.from_ms - 1;
    record_lease(&row, &r);
    assert_false(record_row_ok(key.bytes, key.n, r.bytes, r.n));
    key.bytes[key.n++] = 'x';
    row.segment.until_ms = row.segment.from_ms;
    record_lease(&row, &r);
    assert_false(record_row_ok(key.bytes, key.n, r.bytes, r.n));
}

/* ---- granting ---- */

static uint64_t granted(const struct leased *f, enum lease_subject s, unsigned unit)
{
    return lease_row(f).segment.granted[s].of[unit];
}

static void a_limit_grants_a_part_of_its_max(void **state)
{
    static const struct {
        const char *why, *window, *other;
        uint64_t max, other_max, used, weight, granted;
        bool dry;
    } rows[] = {
        {"a day's", "day", NULL, 640, 0, 0, 1, 1 + 20, false},
        {"a month's", "month", NULL, 640, 0, 0, 1, 1 + 20, false},
        {"the smaller of two", "day", "hour", 640, 320, 0, 1, 1 + 10, false},
        {"of two in any order", "hour", "day", 320, 640, 0, 1, 1 + 10, false},
        {"not that of a short window", "day", "10s", 640, 32, 0, 1, 1 + 20, false},
        {"a sliding hour's", "1h", NULL, 640, 0, 0, 1, 1 + 20, false},
        {"a short one's alone: twice", "10s", NULL, 640, 0, 0, 3, 6, false},
        {"without a max: twice", "day", NULL, LIMIT_UNLIMITED, 0, 0, 3, 6, false},
        {"a dry run's: twice", "day", NULL, 640, 0, 0, 3, 6, true},
        {"a small one's: what is needed", "day", NULL, 31, 0, 0, 1, 1, false},
        {"not beyond what is left", "day", NULL, 640, 0, 630, 1, 10, false},
        {"what is needed when nothing is left", "day", NULL, 640, 0, 639, 1, 1, false},
        {"what is needed if it were over", "day", NULL, 640, 0, 700, 5, 5, false},
        {"the largest", "day", NULL, AMOUNT_MAX, 0, 0, 32, 32 + AMOUNT_MAX / 32, false},
        {"at most what can be summed", "day", NULL, LIMIT_UNLIMITED, 0, 0, AMOUNT_MAX,
         AMOUNT_MAX, false},
    };

    for (size_t i = 0; i < N(rows); i++) {
        struct leased *f;

        assert_int_equal(lease_set_up(state), 0);
        f = *state;
        lease_limit(f, SUBJECT_EVERYONE, UNIT_CALLS, rows[i].window, rows[i].max)->dry_run =
            rows[i].dry;
        f->view.counter[0].slot[0].used.of[UNIT_CALLS] = rows[i].used;
        if (rows[i].other)
            lease_limit(f, SUBJECT_EVERYONE, UNIT_CALLS, rows[i].other, rows[i].other_max);
        lease_limit(f, SUBJECT_ADDRESS, UNIT_CALLS, "hour", 32);
        lease_limit(f, SUBJECT_EVERYONE, UNIT_TOKENS, "hour", 32);
        lease_charged(f, rows[i].weight, 0, 0);
        if (granted(f, LEASE_EVERYONE, UNIT_CALLS) != rows[i].granted)
            fail_msg("%s: %llu", rows[i].why,
                     (unsigned long long)granted(f, LEASE_EVERYONE, UNIT_CALLS));
        assert_int_equal(granted(f, LEASE_ANONYMOUS, UNIT_CALLS), 0);
        lease_tear_down(state);
    }
}

/* How often flash is written to: the claim beside SHARE. */
static void few_charges_write_the_file(void **state)
{
    struct leased *f = *state;
    unsigned writes = 0;

    f->view.present |= 1U << SUBJECT_ANONYMOUS;
    lease_limit(f, SUBJECT_EVERYONE, UNIT_CALLS, "day", 640);
    for (unsigned i = 0; i < 640; i++) {
        const struct lease before = lease_file(f);

        f->view.counter[0].slot[0].used.of[UNIT_CALLS] = i;
        assert_int_equal(lease_charged(f, 1, 100, 1000), 1);
        const struct lease after = lease_file(f);
        writes += memcmp(&before, &after, sizeof before) != 0;
    }
    assert_true(writes <= 32 + 10); /* and 10 that double what has no limit */
    assert_int_equal(granted(f, LEASE_EVERYONE, UNIT_CALLS), 640);
    assert_true(granted(f, LEASE_ANONYMOUS, UNIT_COST) >= 640000);
}

static void what_is_within_is_not_written(void **state)
{
    struct leased *f = *state;

    lease_limit(f, SUBJECT_EVERYONE, UNIT_CALLS, "day", 64);
    lease_charged(f, 1, 0, 0);
    fsync_fails = 1;
    assert_int_equal(lease_charged(f, 1, 0, 0), 1);
    assert_int_equal(lease_charged(f, 1, 0, 0), 1);
    assert_error(lease_charge(f, 1, 0, 0, &f->op.reservation), ERROR_STORE_IO);
    assert_int_equal(lease_row(f).charged[LEASE_EVERYONE].of[UNIT_CALLS], 3);
    fsync_fails = 0;
    assert_int_equal(lease_charged(f, 1, 0, 0), 1);
}

/* What may have been granted in vain is on flash, and nothing has been charged. */
static void the_file_comes_before_the_row(void **state)
{
    struct leased *f = *state;
    struct reservation r;

    f->op.demand.weights = (struct amounts){{1, 2, 3}};
    lease_begin(f);
    assert_error(batch_lease_charge(&f->b, &f->op, &f->view, &r), ERROR_NONE);
    assert_int_equal(lease_file(f).n, 1);
    kv_abort(f->b.txn); /* a commit that failed */
    assert_int_equal(lease_row(f).segment.serial, 0);
    f->b.state.time.time_ms += 2 * HOUR_MS;
    assert_int_equal(lease_charged(f, 1, 2, 3), 1); /* in place of the one that never was */
    assert_int_equal(lease_file(f).n, 1);
    assert_int_equal(lease_file(f).segment[0].from_ms, START_MS + 2 * HOUR_MS);
}

static void a_file_that_is_missing_admits_nobody(void **state)
{
    struct leased *f = *state;
    struct reservation r;

    lease_charged(f, 1, 0, 0);
    assert_int_equal(unlink(f->ledger.path_lease), 0);
    f->b.state.time.time_ms += HOUR_MS;
    assert_error(lease_charge(f, 1, 0, 0, &r), ERROR_STORE_MISSING);
    assert_int_equal(r.segment, 0);
    assert_error(lease_let_go(f, 1), ERROR_STORE_MISSING);
    assert_int_equal(access(f->ledger.path_lease, F_OK), -1);
}

static void with_commit_there_is_no_lease(void **state)
{
    struct leased *f = *state;

    f->ledger.options.lease = false;
    assert_int_equal(unlink(f->ledger.path_lease), 0);
    assert_int_equal(lease_charged(f, 1, 2, 3), 0);
    assert_error(lease_settle(f, &(struct reservation){.reserved = {{1, 2, 3}}}, 1, f->none),
                 ERROR_NONE);
    assert_error(lease_close(f), ERROR_NONE);
    assert_error(lease_let_go(f, 5), ERROR_NONE);
    assert_int_equal(count_rows(f->ledger.kv), 0);
}

/* The owner's own calls are nobody else's. */
static void who_is_not_everyone_needs_none(void **state)
{
    struct leased *f = *state;

    f->view.present = 1U << SUBJECT_BYPASS;
    assert_int_equal(lease_charged(f, 1, 2, 3), 0);
    assert_int_equal(lease_file(f).n, 0);
}

/* ---- segments ---- */

static void segments_end_with_the_hour_and_the_date(void **state)
{
    static const struct {
        const char *why, *zone;
        int64_t first_ms, then_ms;
        bool same;
    } rows[] = {
        {"the hour's first and last", "UTC0", START_MS, START_MS + HOUR_MS - 1, true},
        {"the next hour", "UTC0", START_MS, START_MS + HOUR_MS, false},
        {"a time before it", "UTC0", START_MS + 1, START_MS, false},
        {"midnight and a month's end", "UTC0", START_MS + 17 * HOUR_MS - 1,
         START_MS + 17 * HOUR_MS, false},
        /* 2026-11-30 18:30 UTC is 00:00 of the next day and month in India */
        {"a zone's midnight within an hour", "IST-5:30", START_MS + 11 * HOUR_MS + 1799999,
         START_MS + 11 * HOUR_MS + 1800000, false},
        {"before it", "IST-5:30", START_MS + 11 * HOUR_MS, START_MS + 11 * HOUR_MS + 1799999,
         true},
        {"the hour, whose date goes on", "IST-5:30", START_MS + 12 * HOUR_MS - 1,
         START_MS + 12 * HOUR_MS, false},
        /* 2026-10-25 01:00 UTC: 03:00 CEST becomes 02:00 CET */
        {"summer time ends", "CET-1CEST,M3.5.0,M10.5.0/3", 1792890000000 - 1, 1792890000000,
         false},
        {"after it", "CET-1CEST,M3.5.0,M10.5.0/3", 1792890000000, 1792890000000 + 1799999,
         true},
        /* 2026-11-01 00:10 becomes 2026-10-31 23:10, at 02:40 UTC: dates 1, then 31 again */
        {"clocks are put back over midnight", "NST3:30NDT,M3.2.0,M11.1.0/0:10", 1793500500000,
         1793501100000, false},
    };

    for (size_t i = 0; i < N(rows); i++) {
        struct leased *f;

        assert_int_equal(lease_set_up(state), 0);
        f = *state;
        assert_true(zone_parse(rows[i].zone, &f->ledger.zone));
        f->op.policy.local_time = true;
        f->b.state.time.time_ms = rows[i].first_ms;
        assert_int_equal(lease_charged(f, 1, 0, 0), 1);
        f->b.state.time.time_ms = rows[i].then_ms;
        if (lease_charged(f, 1, 0, 0) != (rows[i].same ? 1U : 2U))
            fail_msg("%s", rows[i].why);
        assert_int_equal(lease_row(f).segment.day, zone_day(&f->ledger.zone, rows[i].then_ms));
        lease_tear_down(state);
    }
}

/* Only where it names another date is a changed zone another segment. */
static void a_changed_zone_is_another_date(void **state)
{
    struct leased *f = *state;

    assert_true(zone_parse("NZST-12NZDT,M9.5.0,M4.1.0/3", &f->ledger.zone));
    assert_int_equal(lease_charged(f, 1, 0, 0), 1);
    f->op.policy.local_time = true; /* 20:00 of the same date */
    assert_int_equal(lease_charged(f, 1, 0, 0), 1);
    f->b.state.time.time_ms += 5 * HOUR_MS; /* 01:00 of the next */
    assert_int_equal(lease_charged(f, 1, 0, 0), 2);
    assert_int_equal(lease_row(f).segment.day, START_DAY + 1);
    f->op.policy.local_time = false;
    assert_int_equal(lease_charged(f, 1, 0, 0), 3);
    assert_int_equal(lease_row(f).segment.day, START_DAY);
}

static void a_full_file_wants_a_copy(void **state)
{
    struct leased *f = *state;

    for (unsigned i = 0; i < LEASE_SEGMENTS; i++, f->b.state.time.time_ms += HOUR_MS)
        assert_int_equal(lease_charged(f, 1, 0, 0), i + 1);
    assert_false(atomic_load(&f->ledger.wants_copy));
    assert_error(lease_charge(f, 1, 0, 0, &f->op.reservation), ERROR_BUSY);
    assert_true(atomic_load(&f->ledger.wants_copy));
    assert_int_equal(lease_row(f).segment.serial, LEASE_SEGMENTS);
    lease_copied(f);
    assert_int_equal(lease_charged(f, 1, 0, 0), LEASE_SEGMENTS + 1);
    assert_int_equal(lease_file(f).n, 1);
    assert_int_equal(lease_file(f).copied, LEASE_SEGMENTS + 1);
}

/* Each ends a segment; the site goes on as long as it would without one. */
static void copies_that_fail_do_not_fill_the_file(void **state)
{
    struct leased *f = *state;
    struct lease file;
    uint64_t granted = 0;

    for (unsigned i = 0; i < 3 * LEASE_SEGMENTS; i++, f->b.state.time.time_ms += 1000) {
        assert_int_equal(lease_charged(f, 1, 0, 0), i + 1);
        assert_error(lease_close(f), ERROR_NONE);
    }
    assert_false(atomic_load(&f->ledger.wants_copy));
    file = lease_file(f);
    for (unsigned i = 0; i < file.n; i++)
        granted += file.segment[i].granted[LEASE_EVERYONE].of[UNIT_CALLS];
    assert_true(granted >= 3 * LEASE_SEGMENTS);
    f->b.state.time.time_ms += HOUR_MS;
    for (unsigned i = 0; i + 1 < LEASE_SEGMENTS; i++, f->b.state.time.time_ms += HOUR_MS)
        lease_charged(f, 1, 0, 0);
    assert_error(lease_charge(f, 1, 0, 0, &f->op.reservation), ERROR_BUSY);
}

/*
 * A full file in which the row's segment is the last, and the one before it is of the same hour and
 * date. A settle of yesterday's begins another one, for which there is room once two have become
 * one; but its transaction fails, and so the row's goes on.
 */
static void a_segment_that_goes_on_keeps_what_it_has_taken_in(void **state)
{
    struct leased *f = *state;
    const struct reservation of_yesterday = {.segment_day = START_DAY - 1};
    struct lease file;
    uint64_t granted = 0;

    lease_limit(f, SUBJECT_EVERYONE, UNIT_CALLS, "day", 31); /* nothing is granted ahead */
    for (unsigned i = 0; i < LEASE_SEGMENTS; i++) {
        assert_int_equal(lease_charged(f, 10, 0, 0), i + 1);
        if (i + 1 < LEASE_SEGMENTS)
            assert_error(lease_close(f), ERROR_NONE);
        if (i + 2 < LEASE_SEGMENTS)
            f->b.state.time.time_ms += HOUR_MS;
    }
    assert_int_equal(lease_file(f).n, LEASE_SEGMENTS);
    struct hold h = {.n_rows = 1, .n_live = 1, .live = {{.subject = SUBJECT_EVERYONE}}};
    f->op.reservation = of_yesterday;
    lease_begin(f);
    (void)batch_lease_settle(&f->b, &f->op, &h, &(struct amounts){{1, 0, 0}});
    assert_error(lease_end(f, ERROR_STORE_IO), ERROR_STORE_IO);
    assert_int_equal(lease_charged(f, 100, 0, 0), LEASE_SEGMENTS);
    file = lease_file(f);
    for (unsigned i = 0; i < file.n; i++)
        granted += file.segment[i].granted[LEASE_EVERYONE].of[UNIT_CALLS];
    assert_true(granted >= 10 * LEASE_SEGMENTS + 100);
}

static void only_segments_of_the_same_windows_become_one(void **state)
{
    static const struct lease_segment next = {.serial = 5 + LEASE_SEGMENTS};
    struct lease l = full_lease(), before = l;
    struct lease_segment *s = l.segment;

    (void)state;
    assert_true(lease_put(&l, &next));
    assert_int_equal(l.n, LEASE_SEGMENTS);
    assert_int_equal(s[0].serial, 6);
    assert_int_equal(s[0].from_ms, START_MS + 1);
    assert_int_equal(s[0].granted[0].of[0], 2);
    assert_int_equal(s[0].granted[0].of[2], AMOUNT_MAX);
    assert_int_equal(s[0].granted[1].of[1], 10);
    assert_int_equal(s[1].serial, 7);
    for (unsigned i = 0; i < LEASE_SEGMENTS; i++)
        assert_true(lease_has(&l, &before.segment[i]));
    assert_int_equal(s[LEASE_SEGMENTS - 1].serial, next.serial);
    l = full_lease();
    for (unsigned i = 0; i < l.n;
         i++) /* another hour, another date, or a clock reset between */
        s[i] = (struct lease_segment){.serial = 5 + i,
                                      .from_ms = START_MS + 10 - (i + 2) / 3,
                                      .until_ms = START_MS + HOUR_MS + (i + 1) / 3,
                                      .day = START_DAY + i / 3};
    before = l;
    assert_false(lease_put(&l, &next));
    assert_memory_equal(&l, &before, sizeof l);
}

static void a_copy_lets_go_of_what_it_has(void **state)
{
    struct leased *f = *state;
    struct lease_row row;

    assert_error(lease_close(f), ERROR_NONE); /* there is none */
    assert_int_equal(count_rows(f->ledger.kv), 0);
    lease_charged(f, 1, 0, 0);
    assert_error(lease_close(f), ERROR_NONE);
    assert_int_equal(lease_charged(f, 1, 0, 0), 2); /* before the copy's rows are read */
    row = lease_row(f);
    assert_int_equal(lease_first_after(&row), 2);
    assert_int_equal(lease_charged(f, 100, 0, 0), 2);
    assert_error(lease_let_go(f, lease_first_after(&row)), ERROR_NONE);
    assert_int_equal(lease_file(f).n, 1);
    assert_int_equal(lease_file(f).segment[0].serial, 2);
    assert_error(lease_let_go(f, 1), ERROR_NONE); /* a copy that was overtaken */
    assert_int_equal(lease_file(f).copied, 2);
    fsync_fails = 1;
    assert_error(lease_let_go(f, 2), ERROR_NONE); /* nothing to do, and so nothing is written */
    assert_error(lease_let_go(f, 3), ERROR_STORE_IO);
    assert_int_equal(lease_first_after(NULL), 1);
    row.closed = true;
    assert_int_equal(lease_first_after(&row), 3);
}

/* A store that has begun anew beside a file that has not. */
static void a_serial_is_never_one_that_a_copy_has(void **state)
{
    struct leased *f = *state;

    assert_error(lease_let_go(f, 9), ERROR_NONE);
    assert_int_equal(lease_charged(f, 1, 0, 0), 9);
    assert_int_equal(lease_charged(f, 1, 0, 0), 9);
}

/* ---- settling ---- */

static void give_backs_are_of_the_segment_that_was_charged(void **state)
{
    static const struct {
        const char *why;
        uint64_t segment;
        bool closed;
        struct amounts real, charged;
    } rows[] = {
        {"what was not used", 1, false, {{1, 30, 300}}, {{2, 130, 1300}}},
        {"all of it", 1, false, {{0, 0, 0}}, {{1, 100, 1000}}},
        {"of another segment", 7, false, {{1, 30, 300}}, {{2, 200, 2000}}},
        {"of none", 0, false, {{1, 30, 300}}, {{2, 200, 2000}}},
        {"once a copy may have it", 1, true, {{1, 30, 300}}, {{2, 200, 2000}}},
        {"more than was reserved", 1, false, {{1, 150, 1000}}, {{2, 250, 2000}}},
        {"more, of another segment", 7, false, {{1, 150, 1500}}, {{2, 250, 2500}}},
        {"more of one, less of the other", 1, false, {{1, 150, 500}}, {{2, 250, 1500}}},
    };

    for (size_t i = 0; i < N(rows); i++) {
        const struct reservation r = {
            .segment = rows[i].segment, .segment_day = START_DAY, .reserved = {{1, 100, 1000}}};
        struct leased *f;

        assert_int_equal(lease_set_up(state), 0);
        f = *state;
        f->view.present |= 1U << SUBJECT_ANONYMOUS;
        lease_charged(f, 1, 100, 1000);
        lease_charged(f, 1, 100, 1000);
        if (rows[i].closed)
            assert_error(lease_close(f), ERROR_NONE);
        assert_error(lease_settle(f, &r, 1, rows[i].real), ERROR_NONE);
        for (unsigned s = 0; s < LEASE_SUBJECTS; s++)
            if (memcmp(&lease_row(f).charged[s], &rows[i].charged, sizeof rows[i].charged) != 0)
                fail_msg("%s", rows[i].why);
        assert_int_equal(lease_row(f).closed, rows[i].closed);
        lease_tear_down(state);
    }
}

/* What comes on top goes to flash before it is charged, in the segment of now. */
static void more_than_was_reserved_is_leased(void **state)
{
    const struct amounts real = {{1, 1000, 0}};
    struct reservation r = {.segment = 1, .segment_day = START_DAY, .reserved = {{1, 100, 0}}};
    struct leased *f = *state;

    lease_charged(f, 1, 100, 0);
    f->b.state.time.time_ms += HOUR_MS;
    fsync_fails = 1;
    assert_error(lease_settle(f, &r, 1, real), ERROR_STORE_IO);
    assert_int_equal(lease_row(f).segment.serial, 1);
    fsync_fails = 0;
    assert_error(lease_settle(f, &r, 0, real),
                 ERROR_NONE); /* after a clock reset it has no rows */
    assert_int_equal(lease_row(f).segment.serial, 1);
    assert_error(lease_settle(f, &r, 1, real), ERROR_NONE);
    assert_int_equal(lease_row(f).segment.serial, 2);
    assert_int_equal(lease_row(f).charged[LEASE_EVERYONE].of[UNIT_TOKENS], 900);
    assert_int_equal(granted(f, LEASE_EVERYONE, UNIT_TOKENS), 900); /* no more than is needed */
    assert_int_equal(lease_file(f).segment[1].granted[LEASE_EVERYONE].of[UNIT_TOKENS], 900);
    r.segment_day--; /* it was charged before midnight */
    assert_error(lease_settle(f, &r, 1, real), ERROR_NONE);
    assert_int_equal(lease_row(f).segment.serial, 3);
    assert_int_equal(lease_row(f).segment.day, START_DAY - 1);
}

static void a_settle_never_goes_below_zero(void **state)
{
    const struct reservation r = {.segment = 1, .reserved = {{5, 50, 50}}};
    struct leased *f = *state;

    lease_charged(f, 1, 10, 10);
    assert_error(lease_settle(f, &r, 1, f->none), ERROR_NONE);
    assert_memory_equal(&lease_row(f).charged[LEASE_EVERYONE], &f->none, sizeof f->none);
}

/* ---- after a power loss ---- */

static uint64_t calls_in(struct kv_txn *t, const char *window, const char *zone, int64_t t_ms,
                         enum subject s)
{
    static const uint8_t none[SUBJECT_HASH];
    struct slot slot[WINDOW_SLOTS_MAX];
    struct window w;
    struct zone z;
    uint64_t sum = 0;

    assert_true(window_parse(window, &w) && zone_parse(zone, &z));
    unsigned n = window_slots(w, &z, t_ms, slot);
    for (unsigned i = 0; i < n; i++) {
        struct amounts a;
        struct row_key key;

        key_counter(w, &slot[i], s, none, &key);
        assert_error(rows_amounts(t, &key, &a), ERROR_NONE);
        sum += a.of[UNIT_CALLS];
    }
    return sum;
}

#define COPIED_MS (START_MS - 10 * DAY_MS)
static const char *const windows[] = {"hour", "day", "month", "10s", "8h", "30d"};
#define WINDOWS N(windows)

static void restore(struct leased *f, const struct lease *l, const struct lease_row *in_copy,
                    const char *zone, int64_t copied_ms, int64_t store_ms, unsigned wanted)
{
    uint32_t codes[WINDOWS];
    unsigned charged = 99;
    struct zone z;
    const struct restore_time when = {&z, copied_ms, store_ms};

    assert_true(zone_parse(zone, &z));
    for (unsigned i = 0; i < WINDOWS; i++) {
        struct window w;

        assert_true(window_parse(windows[i], &w));
        codes[i] = window_code(w);
    }
    f->b.txn = begin_write(f->ledger.kv);
    assert_error(lease_restore(f->b.txn, l, in_copy, &when, codes, WINDOWS, &charged),
                 ERROR_NONE);
    assert_int_equal(charged, wanted);
}

/* One segment: 07:00 to 08:00 of 2026-11-30, 20 calls granted. */
static struct lease one_segment(int64_t day)
{
    struct lease l = {.n = 1};

    l.segment[0] = (struct lease_segment){
        .serial = 3, .from_ms = START_MS, .until_ms = START_MS + HOUR_MS, .day = day};
    l.segment[0].granted[LEASE_EVERYONE].of[UNIT_CALLS] = 20;
    return l;
}

static void a_segment_is_charged_where_its_windows_are_open(void **state)
{
    static const struct {
        const char *why;
        int64_t after_ms, day;
        uint64_t calls[WINDOWS];
        unsigned charged;
    } rows[] = {
        {"at once", 0, 0, {20, 20, 20, 20, 20, 20}, 1},
        {"in its last moment", HOUR_MS - 1, 0, {20, 20, 20, 20, 20, 20}, 1},
        {"in the next hour", HOUR_MS, 0, {0, 20, 20, 20, 20, 20}, 1},
        {"as long as ten seconds count", HOUR_MS + 11249, 0, {0, 20, 20, 20, 20, 20}, 1},
        {"no longer", HOUR_MS + 11250, 0, {0, 20, 20, 0, 20, 20}, 1},
        {"as long as eight hours count",
         HOUR_MS + 9 * HOUR_MS - 1,
         0,
         {0, 20, 20, 0, 20, 20},
         1},
        {"no longer", HOUR_MS + 9 * HOUR_MS, 0, {0, 20, 20, 0, 0, 20}, 1},
        {"the next day and month", 17 * HOUR_MS, 0, {0, 0, 0, 0, 0, 20}, 1},
        {"of a date of the next month", 17 * HOUR_MS, 1, {0, 20, 20, 0, 0, 20}, 1},
        {"when all is over", 40 * DAY_MS, 0, {0, 0, 0, 0, 0, 0}, 0},
    };

    for (size_t i = 0; i < N(rows); i++) {
        const struct lease l = one_segment(START_DAY + rows[i].day);
        int64_t t = START_MS + rows[i].after_ms;
        struct leased *f;

        assert_int_equal(lease_set_up(state), 0);
        f = *state;
        restore(f, &l, NULL, "UTC0", COPIED_MS, t, rows[i].charged);
        for (unsigned w = 0; w < WINDOWS; w++)
            if (calls_in(f->b.txn, windows[w], "UTC0", t, SUBJECT_EVERYONE) != rows[i].calls[w])
                fail_msg("%s: %s", rows[i].why, windows[w]);
        kv_abort(f->b.txn);
        lease_tear_down(state);
    }
}

static void only_what_the_copy_lacks_is_charged(void **state)
{
    static const struct {
        const char *why;
        uint64_t serial;
        bool closed;
        uint64_t calls;
    } rows[] = {
        {"it is in the copy", 3, true, 0},
        {"a part may be in the copy", 3, false, 20},
        {"the copy is from before it", 2, true, 20},
        {"as is this one", 2, false, 20},
        {"the copy is later", 4, false, 0},
    };
    const struct lease l = one_segment(START_DAY);

    for (size_t i = 0; i < N(rows); i++) {
        const struct lease_row row = {.segment.serial = rows[i].serial,
                                      .closed = rows[i].closed};
        struct leased *f;

        assert_int_equal(lease_set_up(state), 0);
        f = *state;
        restore(f, &l, &row, "UTC0", START_MS - 1, START_MS, rows[i].calls > 0);
        if (calls_in(f->b.txn, "day", "UTC0", START_MS, SUBJECT_EVERYONE) != rows[i].calls)
            fail_msg("%s", rows[i].why);
        assert_int_equal(calls_in(f->b.txn, "day", "UTC0", START_MS, SUBJECT_ANONYMOUS), 0);
        kv_abort(f->b.txn);
        if (rows[i].calls == 0)
            assert_int_equal(count_rows(f->ledger.kv), 0); /* nothing makes no rows */
        lease_tear_down(state);
    }
}

static void what_is_restored_is_added(void **state)
{
    struct leased *f = *state;
    struct lease l = one_segment(START_DAY);

    l.segment[1] = l.segment[0];
    l.segment[1].serial = 4;
    l.segment[1].granted[LEASE_EVERYONE].of[UNIT_CALLS] = AMOUNT_MAX - 30;
    l.segment[1].granted[LEASE_ANONYMOUS].of[UNIT_CALLS] = 7;
    l.n = 2;
    restore(f, &l, NULL, "UTC0", COPIED_MS, START_MS, 2);
    assert_int_equal(calls_in(f->b.txn, "day", "UTC0", START_MS, SUBJECT_EVERYONE),
                     AMOUNT_MAX - 10);
    kv_commit(f->b.txn);
    restore(f, &l, NULL, "UTC0", COPIED_MS, START_MS, 2);
    assert_int_equal(calls_in(f->b.txn, "day", "UTC0", START_MS, SUBJECT_EVERYONE), AMOUNT_MAX);
    assert_int_equal(calls_in(f->b.txn, "hour", "UTC0", START_MS, SUBJECT_ANONYMOUS), 14);
    kv_abort(f->b.txn);
}

/* The copy is of 2031, when the clock was wrong; then it was reset, and the power went before
 * there was another copy. What was used since then counts in the windows of 2031. */
static void use_since_a_clock_reset_counts_as_of_now(void **state)
{
    const struct lease_row before = {.segment.serial = 2, .closed = true};
    int64_t wrong_ms =
        START_MS + 1826 * DAY_MS + 20 * HOUR_MS; /* 08:00 of the next day there */
    struct leased *f = *state;
    struct lease l = one_segment(START_DAY);

    restore(f, &l, &before, "NZST-12", wrong_ms, wrong_ms, 1);
    for (unsigned w = 0; w < WINDOWS; w++)
        assert_int_equal(calls_in(f->b.txn, windows[w], "UTC0", wrong_ms, SUBJECT_EVERYONE),
                         20);
    assert_int_equal(calls_in(f->b.txn, "day", "NZST-12", wrong_ms, SUBJECT_EVERYONE), 20);
    kv_abort(f->b.txn);
    /* a segment that is in the copy with its beginning is none of these */
    const struct lease_row open = {.segment = l.segment[0]};
    restore(f, &l, &open, "UTC0", wrong_ms, wrong_ms, 0);
    kv_abort(f->b.txn);
    /* the same when no copy knows the wrong time, but a segment */
    l.segment[1] = l.segment[0];
    l.segment[0].from_ms = wrong_ms;
    l.segment[0].until_ms = wrong_ms + HOUR_MS;
    l.segment[0].day = wrong_ms / DAY_MS;
    l.segment[1].serial = 4;
    l.n = 2;
    restore(f, &l, &before, "UTC0", START_MS, wrong_ms, 2);
    assert_int_equal(calls_in(f->b.txn, "hour", "UTC0", wrong_ms, SUBJECT_EVERYONE), 40);
    kv_abort(f->b.txn);
}

static void a_window_that_is_none_restores_nothing(void **state)
{
    struct leased *f = *state;
    const struct lease l = one_segment(START_DAY);
    const struct restore_time when = {&f->ledger.zone, COPIED_MS, START_MS};
    unsigned charged;

    f->b.txn = begin_write(f->ledger.kv);
    assert_error(lease_restore(f->b.txn, &l, NULL, &when, &(uint32_t){0}, 1, &charged),
                 ERROR_STORE_INVALID);
    kv_abort(f->b.txn);
}

#define test(name) cmocka_unit_test_setup_teardown(name, lease_set_up, lease_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_file_comes_back_as_it_was),
        cmocka_unit_test(no_byte_of_the_file_can_change),
        cmocka_unit_test(the_file_is_of_one_store_and_secret),
        cmocka_unit_test(segments_are_sound),
        cmocka_unit_test(the_row_is_bounded),
        cmocka_unit_test(a_limit_grants_a_part_of_its_max),
        test(few_charges_write_the_file),
        test(what_is_within_is_not_written),
        test(the_file_comes_before_the_row),
        test(a_file_that_is_missing_admits_nobody),
        test(with_commit_there_is_no_lease),
        test(who_is_not_everyone_needs_none),
        cmocka_unit_test(segments_end_with_the_hour_and_the_date),
        test(a_changed_zone_is_another_date),
        test(a_full_file_wants_a_copy),
        test(copies_that_fail_do_not_fill_the_file),
        test(a_segment_that_goes_on_keeps_what_it_has_taken_in),
        test(only_segments_of_the_same_windows_become_one),
        test(a_copy_lets_go_of_what_it_has),
        test(a_serial_is_never_one_that_a_copy_has),
        cmocka_unit_test(give_backs_are_of_the_segment_that_was_charged),
        test(more_than_was_reserved_is_leased),
        test(a_settle_never_goes_below_zero),
        cmocka_unit_test(a_segment_is_charged_where_its_windows_are_open),
        cmocka_unit_test(only_what_the_copy_lacks_is_charged),
        test(what_is_restored_is_added),
        test(use_since_a_clock_reset_counts_as_of_now),
        test(a_window_that_is_none_restores_nothing),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
