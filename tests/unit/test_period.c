/*
 * Period keys: the file and every damage to it, the ratchet, what is forgotten, and hashing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "store/period.h"
#include "store/zone.h"
#include "tests/unit/scratch.h"

#define assert_error(got, wanted) assert_string_equal(error_text(got), error_text(wanted))

#define DAY_MS   86400000LL
#define HEAD     26 /* magic 8, version, count, uuid 16 */
#define ENTRY    52 /* code 4, generation 8, period 8, key 32 */
#define NOW_MS   (20000 * DAY_MS + 12345678)
#define FILE_MAX 4096

static const uint8_t secret[MAC_SIZE] = "a secret of thirty-two bytes...";
static const uint8_t other_secret[MAC_SIZE] = "A secret of thirty-two bytes...";
static const uint8_t uuid[16] = "the store's uuid";
static const uint8_t other_uuid[16] = "the store's UUID";
static const struct zone utc;

static const char *const windows[] = {"hour", "day", "month", "10s", "1h",
                                      "1d",   "7d",  "30d",   "366d"};
#define WINDOWS (sizeof windows / sizeof windows[0])

static struct window window_of(const char *text)
{
    struct window w;
    assert_true(window_parse(text, &w));
    return w;
}

static void add_window(struct periods *p, const char *text, int64_t t_ms)
{
    struct window w = window_of(text);
    assert_error(periods_add(p, window_code(w), window_oldest_period(w, &utc, t_ms)),
                 ERROR_NONE);
}

static struct periods some_periods(void)
{
    struct periods p = {.n = 0};
    for (size_t i = 0; i < WINDOWS; i++)
        add_window(&p, windows[i], NOW_MS);
    return p;
}

static size_t read_at(int directory, const char *path, uint8_t out[FILE_MAX])
{
    int fd = openat(directory, path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    ssize_t n = read(fd, out, FILE_MAX);
    assert_true(n >= 0 && n < FILE_MAX);
    close(fd);
    return (size_t)n;
}

static size_t read_bytes(const char *path, uint8_t out[FILE_MAX])
{
    return read_at(AT_FDCWD, path, out);
}

static bool contains(const void *hay, size_t n, const void *needle, size_t n_needle)
{
    return n >= n_needle && memmem(hay, n, needle, n_needle) != NULL;
}

/* Whether any file of the scratch directory holds the key. */
static bool on_disk(const uint8_t key[MAC_SIZE])
{
    DIR *d = opendir(scratch_directory);
    bool found = false;
    assert_non_null(d);
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        uint8_t data[FILE_MAX];
        if (e->d_name[0] == '.' && (!e->d_name[1] || e->d_name[1] == '.'))
            continue;
        size_t n = read_at(dirfd(d), e->d_name, data);
        found = found || contains(data, n, key, MAC_SIZE);
    }
    closedir(d);
    return found;
}

static void assert_same(const struct periods *a, const struct periods *b)
{
    assert_int_equal(a->n, b->n);
    for (unsigned i = 0; i < a->n; i++) {
        assert_int_equal(a->entry[i].code, b->entry[i].code);
        assert_true(a->entry[i].generation == b->entry[i].generation);
        assert_true(a->entry[i].period == b->entry[i].period);
        assert_memory_equal(a->entry[i].key, b->entry[i].key, MAC_SIZE);
    }
}

/* ---- the file ---- */

static void test_what_is_written_is_read(void **state)
{
    (void)state;
    const char *path = scratch_path("periods");
    struct periods none = {.n = 0}, some = some_periods(), back;
    struct stat st;
    assert_error(periods_write(path, secret, uuid, &none), ERROR_NONE);
    assert_error(periods_read(path, secret, uuid, &back), ERROR_NONE);
    assert_same(&none, &back);
    assert_error(periods_write(path, secret, uuid, &some), ERROR_NONE);
    assert_error(periods_read(path, secret, uuid, &back), ERROR_NONE);
    assert_same(&some, &back);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(scratch_count(), 1);
}

/* The bytes themselves: a file must mean the same on every machine and in later versions. */
static void test_layout_of_the_file(void **state)
{
    (void)state;
    const char *path = scratch_path("periods");
    struct periods p = {.n = 1};
    p.entry[0] = (struct period_entry){
        .code = 0x80000002, .generation = 0x0123456789ABCDEF, .period = -2};
    memset(p.entry[0].key, 0x5A, MAC_SIZE);
    static const uint8_t wanted[HEAD + 20] = {
        'P',  'G',  'P',  'E',  'R',  'I',  'O',  'D',  1,    1,    't',  'h',
        'e',  ' ',  's',  't',  'o',  'r',  'e',  '\'', 's',  ' ',  'u',  'u',
        'i',  'd',  0x80, 0,    0,    2,    0x01, 0x23, 0x45, 0x67, 0x89, 0xAB,
        0xCD, 0xEF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFE};
    uint8_t data[FILE_MAX], mac[MAC_SIZE];
    assert_error(periods_write(path, secret, uuid, &p), ERROR_NONE);
    assert_int_equal(read_bytes(path, data), HEAD + ENTRY + MAC_SIZE);
    assert_memory_equal(data, wanted, sizeof wanted);
    assert_memory_equal(data + HEAD + 20, p.entry[0].key, MAC_SIZE);
    mac_compute(secret, "period-file", data, HEAD + ENTRY, mac);
    assert_memory_equal(data + HEAD + ENTRY, mac, MAC_SIZE);
}

/* Writes the bytes, and sees them refused without *out being touched. */
static void refused(const uint8_t *data, size_t n, enum error wanted)
{
    const char *path = scratch_path("periods");
    struct periods out, before;
    memset(&out, 0xA5, sizeof out);
    memcpy(&before, &out, sizeof out);
    scratch_write(path, 0600, data, n);
    assert_error(periods_read(path, secret, uuid, &out), wanted);
    assert_memory_equal(&out, &before, sizeof out);
}

static void test_every_flipped_bit_is_seen_F42(void **state)
{
    (void)state;
    struct periods p = some_periods();
    uint8_t data[FILE_MAX];
    assert_error(periods_write(scratch_path("periods"), secret, uuid, &p), ERROR_NONE);
    size_t n = read_bytes(scratch_path("periods"), data);
    for (size_t i = 0; i < n * 8; i++) {
        data[i / 8] ^= (uint8_t)(1U << i % 8);
        refused(data, n, ERROR_PERIODS);
        data[i / 8] ^= (uint8_t)(1U << i % 8);
    }
}

static void test_every_other_length_is_refused_F42(void **state)
{
    (void)state;
    struct periods p = some_periods();
    uint8_t data[FILE_MAX] = {0};
    assert_error(periods_write(scratch_path("periods"), secret, uuid, &p), ERROR_NONE);
    size_t n = read_bytes(scratch_path("periods"), data);
    for (size_t i = 0; i < n; i++)
        refused(data, i, ERROR_PERIODS);
    for (size_t i = n + 1; i < FILE_MAX; i += i < n + 100 ? 1 : 100)
        refused(data, i, ERROR_PERIODS);
}

/* Rightly signed, by a newer program or a broken one. */
static void test_signed_but_not_ours_F42(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        size_t at;
        uint8_t value;
        unsigned entries;
    } rows[] = {
        {"a newer version", 8, 2, 1},
        {"version 0", 8, 0, 1},
        {"one entry too few", 9, 2, 1},
        {"one entry too many", 9, 1, 2},
        {"seventeen windows", 9, PERIOD_WINDOWS + 1, PERIOD_WINDOWS + 1},
        {"another magic", 0, 'Q', 1},
        {"another store", 10, 'T', 1},
    };
    struct periods one = {.n = 0};
    uint8_t head[FILE_MAX];
    add_window(&one, "day", NOW_MS);
    assert_error(periods_write(scratch_path("periods"), secret, uuid, &one), ERROR_NONE);
    read_bytes(scratch_path("periods"), head);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        print_message("  %s\n", rows[i].what);
        uint8_t data[FILE_MAX] = {0};
        size_t n = HEAD + rows[i].entries * (size_t)ENTRY;
        memcpy(data, head, HEAD);
        data[rows[i].at] = rows[i].value;
        mac_compute(secret, "period-file", data, n, data + n);
        refused(data, n + MAC_SIZE, ERROR_PERIODS);
    }
}

static void test_missing_or_of_another_store_F42(void **state)
{
    (void)state;
    const char *path = scratch_path("periods");
    struct periods p = some_periods(), out;
    assert_error(periods_read(path, secret, uuid, &out), ERROR_PERIODS);
    assert_error(periods_read(scratch_path("none/periods"), secret, uuid, &out), ERROR_PERIODS);
    assert_error(periods_read(scratch_directory, secret, uuid, &out), ERROR_PERIODS);
    assert_error(periods_write(path, secret, uuid, &p), ERROR_NONE);
    assert_error(periods_read(path, secret, other_uuid, &out), ERROR_PERIODS);
    assert_error(periods_read(path, other_secret, uuid, &out), ERROR_PERIODS);
    assert_int_equal(chmod(path, 0640), 0);
    assert_error(periods_read(path, secret, uuid, &out), ERROR_LOOSE_MODE);
    assert_int_equal(chmod(path, 0600), 0);
    assert_error(periods_read(path, secret, uuid, &out), ERROR_NONE);
}

static void test_a_write_that_fails_keeps_the_old_file(void **state)
{
    (void)state;
    struct periods p = some_periods();
    assert_true(periods_write(scratch_path("none/periods"), secret, uuid, &p) != ERROR_NONE);
    assert_int_equal(scratch_count(), 0);
}

/* ---- entries ---- */

static void test_sixteen_windows_and_not_one_more(void **state)
{
    (void)state;
    const char *path = scratch_path("periods");
    struct periods p = {.n = 0}, back;
    for (uint32_t i = 0; i < PERIOD_WINDOWS; i++) {
        assert_null(periods_find(&p, 10 + i));
        assert_error(periods_add(&p, 10 + i, 100 + (int64_t)i), ERROR_NONE);
        assert_error(periods_add(&p, 10 + i, 5), ERROR_EXISTS);
        assert_ptr_equal(periods_find(&p, 10 + i), &p.entry[i]);
        assert_true(p.entry[i].period == 100 + (int64_t)i);
    }
    assert_error(periods_add(&p, 9, 1), ERROR_TOO_MANY_WINDOWS);
    assert_null(periods_find(&p, 9));
    assert_int_equal(p.n, PERIOD_WINDOWS);
    for (unsigned i = 1; i < p.n; i++) {
        assert_memory_not_equal(p.entry[i].key, p.entry[0].key, MAC_SIZE);
        assert_true(p.entry[i].generation != p.entry[0].generation);
    }
    assert_error(periods_write(path, secret, uuid, &p), ERROR_NONE);
    assert_error(periods_read(path, secret, uuid, &back), ERROR_NONE);
    assert_same(&p, &back);
}

/* ---- the ratchet ---- */

static void next_key(uint8_t key[MAC_SIZE])
{
    mac_compute(key, "next", "", 0, key);
}

static bool hash_fresh(const struct period_entry *e, int64_t period, uint8_t out[16])
{
    struct period_cache cache = {0};
    return periods_hash(e, &cache, secret, period, 1, "caller", 6, out);
}

static void test_the_ratchet_turns_as_told(void **state)
{
    (void)state;
    struct periods p = {.n = 0};
    uint8_t key[MAC_SIZE];
    add_window(&p, "10s", NOW_MS);
    int64_t first = p.entry[0].period;
    memcpy(key, p.entry[0].key, MAC_SIZE);
    assert_false(periods_advance(&p, &utc, NOW_MS)); /* is there already */
    assert_memory_equal(p.entry[0].key, key, MAC_SIZE);
    for (int day = 1; day <= 40; day += day % 3 + 1) {
        int64_t t = NOW_MS + day * DAY_MS;
        int64_t oldest = window_oldest_period(window_of("10s"), &utc, t);
        for (int64_t i = p.entry[0].period; i < oldest; i++)
            next_key(key);
        assert_true(periods_advance(&p, &utc, t));
        assert_true(p.entry[0].period == oldest && oldest == first + day);
        assert_memory_equal(p.entry[0].key, key, MAC_SIZE);
        assert_false(periods_advance(&p, &utc, t));
    }
}

static void test_the_ratchet_never_turns_back(void **state)
{
    (void)state;
    struct periods p = some_periods(), before;
    static const int64_t times[] = {0, NOW_MS - 1, NOW_MS - 400 * DAY_MS, INT64_MIN / 4};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        before = p;
        assert_false(periods_advance(&p, &utc, times[i]));
        assert_same(&p, &before);
    }
}

/* However far it has turned, a slot that still counts is hashed as it was when charged. */
static void test_every_live_slot_keeps_its_hash(void **state)
{
    (void)state;
    struct zone zones[2];
    assert_true(zone_parse("UTC0", &zones[0]));
    assert_true(zone_parse("NZST-12NZDT,M9.5.0,M4.1.0/3", &zones[1]));
    for (size_t z = 0; z < 2; z++) {
        struct periods old = some_periods(), p = old;
        for (int64_t t = NOW_MS; t < NOW_MS + 120 * DAY_MS; t += 13 * 3600000 + 1234567) {
            periods_advance(&p, &zones[z], t);
            for (unsigned i = 0; i < p.n; i++) {
                struct slot slots[WINDOW_SLOTS_MAX];
                struct window w;
                uint8_t was[16], is[16];
                assert_true(window_from_code(p.entry[i].code, &w));
                unsigned n = window_slots(w, &zones[z], t, slots);
                unsigned k = (unsigned)(t / 1000) % n; /* each of them in its turn */
                assert_true(hash_fresh(&p.entry[i], slots[k].period, is));
                assert_true(hash_fresh(&p.entry[i], slots[n - 1].period, was));
                assert_true(hash_fresh(&old.entry[i], slots[k].period, was));
                assert_memory_equal(was, is, 16);
            }
        }
    }
}

static void test_steps_are_bounded(void **state)
{
    (void)state;
    struct periods p = {.n = 0}, before;
    uint8_t out[16];
    add_window(&p, "10s", NOW_MS);
    int64_t first = p.entry[0].period;
    assert_true(hash_fresh(&p.entry[0], first + PERIOD_STEP_MAX, out));
    assert_false(hash_fresh(&p.entry[0], first + PERIOD_STEP_MAX + 1, out));
    assert_false(hash_fresh(&p.entry[0], INT64_MAX, out));
    assert_false(hash_fresh(&p.entry[0], INT64_MIN, out));

    before = p;
    assert_false(periods_advance(&p, &utc, NOW_MS + (PERIOD_STEP_MAX + 1) * DAY_MS));
    assert_same(&p, &before);
    assert_true(periods_advance(&p, &utc, NOW_MS + PERIOD_STEP_MAX * DAY_MS));
    assert_true(p.entry[0].period == first + PERIOD_STEP_MAX);

    p.entry[0].period = INT64_MIN; /* no signed overflow on the way to "too far" */
    assert_false(periods_advance(&p, &utc, NOW_MS));
    assert_false(hash_fresh(&p.entry[0], INT64_MAX, out));
}

/* Processes that race, and one that had crashed on an older state, come to the same keys. */
static void test_racing_processes_agree(void **state)
{
    (void)state;
    enum { PROCESSES = 6 };
    const char *path = scratch_path("periods");
    struct periods start = some_periods(), wanted = start, end;
    pid_t pid[PROCESSES];
    assert_error(periods_write(path, secret, uuid, &start), ERROR_NONE);
    assert_true(periods_advance(&wanted, &utc, NOW_MS + 50 * DAY_MS));
    for (int i = 0; i < PROCESSES; i++) {
        pid[i] = fork();
        assert_true(pid[i] >= 0);
        if (pid[i] > 0)
            continue;
        struct periods mine;
        enum error e = periods_read(path, secret, uuid, &mine);
        for (int day = 1; day <= 50 && !e; day++) {
            if (i % 2 == 0 && day % 7 == 0) /* even ones take up what others have written */
                e = periods_read(path, secret, uuid, &mine);
            if (!e && periods_advance(&mine, &utc, NOW_MS + day * DAY_MS))
                e = periods_write(path, secret, uuid, &mine);
        }
        _exit((int)e);
    }
    for (int i = 0; i < PROCESSES; i++)
        assert_int_equal(scratch_wait(pid[i]), ERROR_NONE);
    assert_error(periods_read(path, secret, uuid, &end), ERROR_NONE);
    periods_advance(&end, &utc, NOW_MS + 50 * DAY_MS); /* the last writer may have been late */
    assert_same(&end, &wanted);
    assert_int_equal(scratch_count(), 1);
}

/* ---- what is forgotten ---- */

static void test_old_keys_are_gone(void **state)
{
    (void)state;
    const char *path = scratch_path("periods");
    struct periods p = {.n = 0};
    struct period_cache cache = {0};
    struct mac_key ready;
    uint8_t key[MAC_SIZE], derived[MAC_SIZE], out[16], kept[16];
    add_window(&p, "day", NOW_MS);
    assert_error(periods_write(path, secret, uuid, &p), ERROR_NONE);
    int64_t first = p.entry[0].period;
    memcpy(key, p.entry[0].key, MAC_SIZE);
    mac_compute(secret, "period", key, MAC_SIZE, derived);
    mac_prepare(derived, &ready);
    assert_true(periods_hash(&p.entry[0], &cache, secret, first, 1, "caller", 6, out));
    assert_true(contains(&p, sizeof p, key, MAC_SIZE)); /* or the test would prove nothing */
    assert_true(contains(&cache, sizeof cache, &ready, sizeof ready));
    assert_true(on_disk(key));

    assert_true(periods_advance(&p, &utc, NOW_MS + 3 * DAY_MS));
    assert_error(periods_write(path, secret, uuid, &p), ERROR_NONE);
    for (int i = 0; i < 3; i++) { /* nor any key on the way */
        assert_false(contains(&p, sizeof p, key, MAC_SIZE));
        assert_false(on_disk(key));
        next_key(key);
    }
    memcpy(kept, out, 16);
    assert_false(periods_hash(&p.entry[0], &cache, secret, first, 1, "caller", 6, out));
    assert_memory_equal(out, kept, 16);
    assert_false(contains(&cache, sizeof cache, &ready, sizeof ready));
}

/* ---- hashing ---- */

static void test_hash_is_what_the_header_says(void **state)
{
    (void)state;
    struct periods p = {.n = 0};
    uint8_t key[MAC_SIZE], mac[MAC_SIZE], out[16];
    add_window(&p, "30d", NOW_MS);
    memcpy(key, p.entry[0].key, MAC_SIZE);
    for (int i = 0; i < 2; i++)
        next_key(key);
    mac_compute(secret, "period", key, MAC_SIZE, mac);
    mac_compute(mac, "subject", "\001caller", 7, mac);
    assert_true(hash_fresh(&p.entry[0], p.entry[0].period + 2, out));
    assert_memory_equal(out, mac, 16);
}

static void test_hash_depends_on_everything(void **state)
{
    (void)state;
    struct periods p = {.n = 0};
    static const uint8_t long_id[255];
    uint8_t out[8][16];
    assert_error(periods_add(&p, 1, 20000), ERROR_NONE);
    assert_error(periods_add(&p, 2, 20000), ERROR_NONE);
    const struct period_entry *e = &p.entry[0];
    struct period_cache c[8] = {0};
    int64_t at = e->period;
    assert_true(periods_hash(e, &c[0], secret, at, 1, "caller", 6, out[0]));
    assert_true(periods_hash(e, &c[1], secret, at, 2, "caller", 6, out[1]));
    assert_true(periods_hash(e, &c[2], secret, at, 1, "callers", 7, out[2]));
    assert_true(periods_hash(e, &c[3], secret, at + 1, 1, "caller", 6, out[3]));
    assert_true(periods_hash(e, &c[4], other_secret, at, 1, "caller", 6, out[4]));
    assert_true(periods_hash(&p.entry[1], &c[5], secret, at, 1, "caller", 6, out[5]));
    assert_true(periods_hash(e, &c[6], secret, at, 1, "", 0, out[6]));
    assert_true(periods_hash(e, &c[7], secret, at, 1, long_id, 255, out[7]));
    for (int i = 0; i < 8; i++)
        for (int k = 0; k < i; k++)
            assert_memory_not_equal(out[i], out[k], 16);
}

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* Whatever was asked before, an answer from the cache is the answer without one. */
static void test_cache_never_changes_an_answer(void **state)
{
    (void)state;
    struct periods p = {.n = 0};
    struct period_cache cache = {0};
    uint32_t seed = 1;
    add_window(&p, "1d", NOW_MS);
    struct period_entry *e = &p.entry[0];
    int64_t t = NOW_MS;
    for (int i = 0; i < 5000; i++) {
        uint32_t what = next_random(&seed) % 100;
        if (what < 2) {
            t += DAY_MS;
            periods_advance(&p, &utc, t);
        } else if (what < 4) { /* `clock reset`: same window, same period, a fresh key */
            struct periods fresh = {.n = 0};
            assert_error(periods_add(&fresh, e->code, e->period), ERROR_NONE);
            *e = fresh.entry[0];
        }
        int64_t period = e->period - 3 + next_random(&seed) % (PERIOD_CACHED + 6);
        uint8_t cached[16] = {0}, fresh[16] = {0};
        bool ok = periods_hash(e, &cache, secret, period, 1, "caller", 6, cached);
        assert_int_equal(ok, period >= e->period);
        assert_int_equal(hash_fresh(e, period, fresh), ok);
        assert_memory_equal(cached, fresh, 16);
    }
}

/* One cache for all entries is wasteful, and still right. */
static void test_cache_shared_by_entries(void **state)
{
    (void)state;
    struct periods p = some_periods();
    struct period_cache cache = {0};
    for (int round = 0; round < 3; round++) {
        for (unsigned i = 0; i < p.n; i++) {
            uint8_t cached[16], fresh[16];
            int64_t period = p.entry[i].period + round;
            assert_true(
                periods_hash(&p.entry[i], &cache, secret, period, 1, "caller", 6, cached));
            assert_true(hash_fresh(&p.entry[i], period, fresh));
            assert_memory_equal(cached, fresh, 16);
        }
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, scratch_make, scratch_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_what_is_written_is_read),
        TEST(test_layout_of_the_file),
        TEST(test_every_flipped_bit_is_seen_F42),
        TEST(test_every_other_length_is_refused_F42),
        TEST(test_signed_but_not_ours_F42),
        TEST(test_missing_or_of_another_store_F42),
        TEST(test_a_write_that_fails_keeps_the_old_file),
        TEST(test_sixteen_windows_and_not_one_more),
        TEST(test_the_ratchet_turns_as_told),
        TEST(test_the_ratchet_never_turns_back),
        TEST(test_every_live_slot_keeps_its_hash),
        TEST(test_steps_are_bounded),
        TEST(test_racing_processes_agree),
        TEST(test_old_keys_are_gone),
        TEST(test_hash_is_what_the_header_says),
        TEST(test_hash_depends_on_everything),
        TEST(test_cache_never_changes_an_answer),
        TEST(test_cache_shared_by_entries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
