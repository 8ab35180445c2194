/*
 * The machine's clocks. The kernel's clocks and the file with the boot id are played here where
 * a row needs wrong ones, and passed through where it does not.
 */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <time.h>

#include <cmocka.h>

#include "platform/clock.h"
#include "platform/file.h"
#include "tests/unit/scratch.h"

#define REAL_TIME INT64_MIN

static struct {
    int64_t wall_ms; /* what CLOCK_REALTIME says, or REAL_TIME */
    bool wall_fails, boot_fails;
    const char *boot_id; /* the content of the file, NULL: the real one */
    enum error boot_id_error;
} machine;

/* Both SYS_clock_gettime64 and that of 64-bit machines take two 64-bit numbers. */
static int real_clock(clockid_t clock, struct timespec *out)
{
    int64_t t[2];
#ifdef SYS_clock_gettime64
    long rc = syscall(SYS_clock_gettime64, clock, t);
#else
    long rc = syscall(SYS_clock_gettime, clock, t);
#endif
    out->tv_sec = (time_t)t[0];
    out->tv_nsec = (long)t[1];
    return (int)rc;
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
    if ((clock == CLOCK_REALTIME && machine.wall_fails) ||
        (clock == CLOCK_BOOTTIME && machine.boot_fails)) {
        errno = EINVAL;
        return -1;
    }
    if (clock != CLOCK_REALTIME || machine.wall_ms == REAL_TIME)
        return real_clock(clock, out);
    out->tv_sec = (time_t)(machine.wall_ms / 1000);
    out->tv_nsec = (long)(machine.wall_ms % 1000) * 1000000;
    return 0;
}

static char *read_real_boot_id(size_t *n)
{
    char *text = malloc(64);
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");

    assert_non_null(text);
    assert_non_null(f);
    *n = fread(text, 1, 63, f);
    text[*n] = '\0';
    fclose(f);
    return text;
}

enum error file_read(const char *path, size_t max, char **out, size_t *n)
{
    assert_string_equal(path, "/proc/sys/kernel/random/boot_id");
    if (machine.boot_id_error != ERROR_NONE)
        return machine.boot_id_error;
    if (machine.boot_id == NULL) {
        *out = read_real_boot_id(n);
    } else {
        *n = strlen(machine.boot_id);
        *out = strdup(machine.boot_id);
    }
    if (*n <= max)
        return ERROR_NONE;
    free(*out);
    return ERROR_TOO_LARGE;
}

static int reset(void **state)
{
    (void)state;
    memset(&machine, 0, sizeof machine);
    machine.wall_ms = REAL_TIME;
    return 0;
}

static void test_clocks_agree_with_the_kernel(void **state)
{
    struct clock_now now;
    struct sysinfo info;

    (void)state;
    int64_t before_ms = (int64_t)time(NULL) * 1000;
    assert_int_equal(clock_read(&now), ERROR_NONE);
    assert_int_equal(sysinfo(&info), 0);
    assert_true(now.wall_ms >= before_ms - 1000 && now.wall_ms < before_ms + 60000);
    int64_t uptime_ms = (int64_t)info.uptime * 1000;
    assert_true(now.boot_ms > uptime_ms - 60000 && now.boot_ms < uptime_ms + 1000);
}

static void test_boot_id_is_the_kernels(void **state)
{
    struct clock_now now;
    char text[64] = "";
    size_t n, at = 0;
    char *kernels = read_real_boot_id(&n);

    (void)state;
    assert_int_equal(clock_read(&now), ERROR_NONE);
    for (unsigned i = 0; i < sizeof now.boot_id; i++)
        at +=
            (size_t)snprintf(text + at, sizeof text - at, "%s%02x",
                             i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", now.boot_id[i]);
    text[at] = '\n';
    assert_string_equal(text, kernels);
    free(kernels);
}

static bool is_believed(int64_t wall_ms)
{
    struct clock_now now;

    machine.wall_ms = wall_ms;
    enum error e = clock_read(&now);
    assert_true(e == ERROR_NONE || e == ERROR_CLOCK);
    assert_true(e != ERROR_NONE || now.wall_ms == wall_ms);
    return e == ERROR_NONE;
}

/* The build date is found from outside: the first millisecond that is believed. */
static void test_F44_before_the_build_date_is_no_time(void **state)
{
    int64_t too_early = 0, believed = (int64_t)time(NULL) * 1000;

    (void)state;
    assert_false(is_believed(too_early));
    assert_false(is_believed(1));
    assert_false(is_believed(INT64_C(946684800000))); /* 2000: routers without a battery */
    assert_true(is_believed(believed));
    assert_true(is_believed(INT64_C(7258118400000))); /* 2200 */
    while (believed - too_early > 1) {
        int64_t middle = too_early + (believed - too_early) / 2;
        *(is_believed(middle) ? &believed : &too_early) = middle;
    }
    assert_int_equal(believed % 1000, 0);
#ifdef BUILD_TIME
    assert_int_equal(believed, (int64_t)BUILD_TIME * 1000);
#endif
}

static void test_an_unreadable_clock_is_an_error(void **state)
{
    struct clock_now now, before;

    (void)state;
    memset(&now, 0xa5, sizeof now);
    before = now;
    machine.wall_fails = true;
    assert_int_equal(clock_read(&now), ERROR_CLOCK);
    machine.wall_fails = false;
    machine.boot_fails = true;
    assert_int_equal(clock_read(&now), ERROR_CLOCK);
    assert_memory_equal(&now, &before, sizeof now);
    machine.boot_fails = false;
    assert_int_equal(clock_read(&now), ERROR_NONE);
}

static void test_monotonic_time_is_monotonic(void **state)
{
    (void)state;
    machine.wall_ms = 0; /* has nothing to do with it */
    int64_t last = clock_monotonic_ms();
    assert_true(last > 0);
    for (unsigned i = 0; i < 1000; i++) {
        int64_t now = clock_monotonic_ms();
        assert_true(now >= last && now < last + 60000);
        last = now;
    }
}

static void test_microseconds_are_of_the_same_clock(void **state)
{
    (void)state;
    machine.wall_ms = 0;
    for (unsigned i = 0; i < 1000; i++) {
        int64_t before_ms = clock_monotonic_ms(), us = clock_monotonic_us();

        assert_in_range(us / 1000, before_ms, clock_monotonic_ms());
    }
}

static const struct {
    const char *says, *content;
    enum error read, expected;
} boot_ids[] = {
    {"as the kernel writes it", "01234567-89ab-cdef-0123-456789abcdef\n", 0, ERROR_NONE},
    {"unreadable", "", ERROR_NOT_FOUND, ERROR_CLOCK},
    {"empty", "", 0, ERROR_CLOCK},
    {"without its newline", "01234567-89ab-cdef-0123-456789abcdef", 0, ERROR_CLOCK},
    {"cut short", "01234567-89ab-cdef-0123-456789abcde\n", 0, ERROR_CLOCK},
    {"too long", "01234567-89ab-cdef-0123-456789abcdef0\n", 0, ERROR_CLOCK},
    {"a letter that is no digit", "01234567-89ab-cdef-0123-456789abcdeg\n", 0, ERROR_CLOCK},
    {"upper case is not the kernel's", "01234567-89AB-cdef-0123-456789abcdef\n", 0,
     ERROR_CLOCK},
    {"a hyphen is missing", "01234567089ab-cdef-0123-456789abcdef\n", 0, ERROR_CLOCK},
    {"a hyphen too many", "0123456--89ab-cdef-0123-456789abcdef\n", 0, ERROR_CLOCK},
};

/* Returned as an exit status: each process keeps the first boot id that it could read. */
static int first_read(size_t row)
{
    static const uint8_t expected[16] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
                                         0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef};
    struct clock_now now;

    machine.boot_id = boot_ids[row].content;
    machine.boot_id_error = boot_ids[row].read;
    enum error e = clock_read(&now);
    if (e == ERROR_NONE && memcmp(now.boot_id, expected, sizeof expected) != 0)
        return 100;
    machine.boot_id = "ffffffff-ffff-ffff-ffff-ffffffffffff\n";
    machine.boot_id_error = ERROR_NONE;
    struct clock_now again;
    if (clock_read(&again) != ERROR_NONE) /* no restart is needed once it can be read */
        return 101;
    if (e == ERROR_NONE && memcmp(again.boot_id, now.boot_id, sizeof now.boot_id) != 0)
        return 102;
    return (int)e;
}

static void test_hostile_boot_ids(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof boot_ids / sizeof boot_ids[0]; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(first_read(i));
        int status = scratch_wait(child);
        if (status != (int)boot_ids[i].expected)
            fail_msg("%s: %d", boot_ids[i].says, status);
    }
}

static void test_an_instant_as_timespec(void **state)
{
    static const struct {
        int64_t ms, s;
        long ns;
    } rows[] = {{0, 0, 0}, {999, 0, 999000000}, {1000, 1, 0}, {3600001, 3600, 1000000}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct timespec t = clock_timespec(rows[i].ms);

        assert_int_equal(t.tv_sec, rows[i].s);
        assert_int_equal(t.tv_nsec, rows[i].ns);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_hostile_boot_ids, reset), /* before any other read */
        cmocka_unit_test(test_an_instant_as_timespec),
        cmocka_unit_test_setup(test_clocks_agree_with_the_kernel, reset),
        cmocka_unit_test_setup(test_boot_id_is_the_kernels, reset),
        cmocka_unit_test_setup(test_F44_before_the_build_date_is_no_time, reset),
        cmocka_unit_test_setup(test_an_unreadable_clock_is_an_error, reset),
        cmocka_unit_test_setup(test_monotonic_time_is_monotonic, reset),
        cmocka_unit_test_setup(test_microseconds_are_of_the_same_clock, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
