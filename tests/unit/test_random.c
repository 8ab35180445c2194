/*
 * Random bytes. The kernel and the clock are played here, so that a boot with an unseeded pool
 * takes no time.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "platform/clock.h"
#include "platform/random.h"

static struct {
    int error;         /* what getrandom fails with, 0: not at all */
    int times;         /* how often, -1: always */
    int64_t seeded_ms; /* with EAGAIN: until then */
    int64_t now_ms;
    unsigned calls, flags;
} kernel;

int64_t clock_monotonic_ms(void)
{
    return kernel.now_ms += 100;
}

ssize_t getrandom(void *out, size_t n, unsigned flags)
{
    kernel.calls++;
    kernel.flags = flags;
    if (kernel.times != 0 && kernel.error != 0 &&
        (kernel.error != EAGAIN || kernel.now_ms < kernel.seeded_ms)) {
        kernel.times -= kernel.times > 0;
        errno = kernel.error;
        return -1;
    }
    return syscall(SYS_getrandom, out, n, flags);
}

static int reset(void **state)
{
    (void)state;
    memset(&kernel, 0, sizeof kernel);
    kernel.times = -1;
    return 0;
}

static void test_lengths(void **state)
{
    static const struct {
        size_t n;
        enum error expected;
    } rows[] = {
        {0, ERROR_NONE},
        {1, ERROR_NONE},
        {32, ERROR_NONE},
        {RANDOM_MAX, ERROR_NONE},
        {RANDOM_MAX + 1, ERROR_TOO_LARGE},
        {SIZE_MAX, ERROR_TOO_LARGE},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint8_t bytes[RANDOM_MAX + 2], untouched[RANDOM_MAX + 2];
        size_t written = rows[i].expected == ERROR_NONE ? rows[i].n : 0;

        memset(bytes, 0xa5, sizeof bytes);
        memset(untouched, 0xa5, sizeof untouched);
        assert_int_equal(random_bytes(bytes, rows[i].n), rows[i].expected);
        assert_memory_equal(bytes + written, untouched, sizeof bytes - written);
    }
}

static void test_all_of_it_is_random(void **state)
{
    uint8_t first[32], next[32], varied[32] = {0};

    (void)state;
    assert_int_equal(random_bytes(first, sizeof first), ERROR_NONE);
    for (unsigned draw = 0; draw < 64; draw++) {
        assert_int_equal(random_bytes(next, sizeof next), ERROR_NONE);
        assert_memory_not_equal(first, next, sizeof first);
        for (unsigned i = 0; i < sizeof next; i++)
            varied[i] |= first[i] ^ next[i];
    }
    for (unsigned i = 0; i < sizeof varied; i++)
        assert_int_equal(varied[i], 0xff); /* wrong once in 2^56 runs */
}

static void test_the_pool_is_asked_without_waiting_in_the_kernel(void **state)
{
    uint8_t byte;

    (void)state;
    assert_int_equal(random_bytes(&byte, 1), ERROR_NONE);
    assert_int_equal(kernel.flags, GRND_NONBLOCK);
}

static void test_failing_kernels(void **state)
{
    static const struct {
        const char *says;
        int error, times;
        int64_t seeded_ms;
        enum error expected;
        int expected_errno;
        unsigned min_calls, max_calls;
    } rows[] = {
        {"interrupted twice", EINTR, 2, 0, ERROR_NONE, 0, 3, 3},
        {"seeded after a second", EAGAIN, -1, 1000, ERROR_NONE, 0, 5, 15},
        {"never seeded: given up after two seconds", EAGAIN, -1, INT64_MAX, ERROR_SYSTEM,
         EAGAIN, 15, 25},
        {"no such call: given up at once", ENOSYS, -1, 0, ERROR_SYSTEM, ENOSYS, 1, 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint8_t bytes[16] = {0}, zeros[16] = {0};

        reset(NULL);
        kernel.error = rows[i].error;
        kernel.times = rows[i].times;
        kernel.seeded_ms = rows[i].seeded_ms;
        enum error e = random_bytes(bytes, sizeof bytes);
        int error = errno;
        if (e != rows[i].expected)
            fail_msg("%s: %d", rows[i].says, e);
        if (e != ERROR_NONE) {
            assert_int_equal(error, rows[i].expected_errno);
            assert_memory_equal(bytes, zeros, sizeof bytes);
        }
        assert_in_range(kernel.calls, rows[i].min_calls, rows[i].max_calls);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_lengths, reset),
        cmocka_unit_test_setup(test_all_of_it_is_random, reset),
        cmocka_unit_test_setup(test_the_pool_is_asked_without_waiting_in_the_kernel, reset),
        cmocka_unit_test_setup(test_failing_kernels, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
