/* The bounded buffer of a call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/callbuf.h"

#define MOST 16384

static struct callbuf b;
static unsigned char out[MOST + 1], in[MOST + 1];

static int setup(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof in; i++)
        in[i] = (unsigned char)(i * 7 + i / 256);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    callbuf_free(&b);
    assert_null(b.bytes);
    return 0;
}

static void holds_exactly_what_it_may(void **state)
{
    (void)state;
    assert_false(callbuf_put(&b, in, MOST + 1, MOST));
    assert_int_equal(b.n, 0);
    assert_true(callbuf_put(&b, in, MOST, MOST));
    assert_false(callbuf_put(&b, in, 1, MOST));
    assert_true(callbuf_put(&b, in, 0, MOST));
    assert_int_equal(callbuf_take(&b, out, sizeof out), MOST);
    assert_memory_equal(out, in, MOST);
    assert_int_equal(callbuf_take(&b, out, sizeof out), 0);
}

static void an_empty_one_gives_nothing(void **state)
{
    (void)state;
    assert_int_equal(callbuf_take(&b, out, 10), 0);
    assert_true(callbuf_put(&b, in, 0, MOST));
    assert_int_equal(callbuf_take(&b, out, 10), 0);
}

static void all_or_nothing_is_put(void **state)
{
    (void)state;
    assert_true(callbuf_put(&b, in, MOST - 2, MOST));
    assert_false(callbuf_put(&b, in, 3, MOST));
    assert_int_equal(b.n, MOST - 2);
    assert_true(callbuf_put(&b, in, 2, MOST));
}

static void it_grows_by_need(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        assert_true(callbuf_put(&b, in, 1000, MOST));
        assert_int_equal(callbuf_take(&b, out, 2000), 1000);
    }
    assert_int_equal(b.room, 2048);
    assert_int_equal(b.head, 0); /* empty: it begins at its front again */
    assert_true(callbuf_put(&b, in, 2000, MOST));
    assert_int_equal(callbuf_take(&b, out, 1500), 1500);
    assert_true(callbuf_put(&b, in + 2000, 3000, MOST)); /* around the edge, then larger */
    assert_int_equal(b.room, 4096);
    assert_int_equal(callbuf_take(&b, out, MOST), 3500);
    assert_memory_equal(out, in + 1500, 3500);
    assert_true(callbuf_put(&b, in, 9000, 10000));
    assert_int_equal(b.room, 10000); /* not 16384: that is more than it may hold */
}

static void bytes_keep_their_order_around_the_edge(void **state)
{
    size_t put = 0, taken = 0, n;

    (void)state;
    for (unsigned round = 0; round < 20000; round++) {
        n = 1 + round * 31 % 5000;
        unsigned char chunk[5000];

        for (size_t i = 0; i < n; i++)
            chunk[i] = (unsigned char)((put + i) % 251);
        if (callbuf_put(&b, chunk, n, MOST))
            put += n;
        n = callbuf_take(&b, out, 1 + round * 17 % 4000);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(out[i], (taken + i) % 251);
        taken += n;
    }
    assert_int_equal(put - taken, b.n);
    assert_true(put > 10 * MOST);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(holds_exactly_what_it_may),
        TEST(an_empty_one_gives_nothing),
        TEST(all_or_nothing_is_put),
        TEST(it_grows_by_need),
        TEST(bytes_keep_their_order_around_the_edge),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
