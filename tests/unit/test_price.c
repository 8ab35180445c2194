/* Prices: worst cases are upper bounds, real cases are exact, texts are strict. */
#include "gateway/price.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DOLLAR UINT64_C(1000000000)

/* $0.15 in, $0.60 out, half price for cached input. */
#define USAGE(is, in, cached, written, out, doubts)                                            \
    {                                                                                          \
        .known = is, .input = in, .cached_input = cached, .cache_write = written,              \
        .output = out, .doubtful = doubts                                                      \
    }

static const struct price small = {
    .known = true,
    .input_nano = 150000000,
    .cached_input_nano = 75000000,
    .cache_write_nano = 150000000,
    .output_nano = 600000000,
    .max_output_tokens = 300,
    .overhead_per_call = 3,
    .overhead_per_message = 4,
    .input_factor_milli = 1000,
};

static void test_worst_case(void **state)
{
    static const struct {
        const char *what;
        size_t bytes;
        unsigned messages;
        uint64_t extra;
        uint64_t in, cost;
    } rows[] = {
        {"nothing but overhead, and the whole cap", 0, 0, 0, 3, 180450},
        {"one byte is one token at most", 1, 1, 0, 8, 181200},
        {"F26: 100 Chinese characters are 300 bytes, never 25 tokens", 300, 1, 0, 307, 226050},
        {"F26: an emoji is 4 bytes", 4, 1, 0, 11, 181650},
        {"a learnt overhead counts too", 1, 1, 1000, 1008, 331200},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct price_request r = {rows[i].bytes, rows[i].messages, rows[i].extra};
        struct amounts a;
        uint64_t in, out;
        price_worst(&small, &r, &a, &in, &out);
        if (in != rows[i].in || a.of[UNIT_COST] != rows[i].cost)
            fail_msg("%s: %llu tokens, %llu", rows[i].what, (unsigned long long)in,
                     (unsigned long long)a.of[UNIT_COST]);
        assert_int_equal(out, 300);
        assert_int_equal(a.of[UNIT_CALLS], 1);
        assert_int_equal(a.of[UNIT_TOKENS], in + out);
    }
}

static struct amounts worst(const struct price *p, size_t bytes)
{
    struct price_request r = {bytes, 1, 0};
    struct amounts a;
    uint64_t in, out;
    price_worst(p, &r, &a, &in, &out);
    assert_int_equal(a.of[UNIT_TOKENS], amount_add(in, out));
    return a;
}

static void test_worst_case_takes_the_dearest_input(void **state)
{
    struct price p = small;
    (void)state;
    uint64_t plain = worst(&p, 1000).of[UNIT_COST];
    p.cache_write_nano = 187500000;
    uint64_t written = worst(&p, 1000).of[UNIT_COST];
    assert_true(written > plain);
    p.cached_input_nano = 300000000;
    assert_true(worst(&p, 1000).of[UNIT_COST] > written);
}

static void test_worst_case_counts_thinking_and_factor(void **state)
{
    struct price p = small;
    (void)state;
    p.thinking_tokens = 1024;
    assert_int_equal(worst(&p, 0).of[UNIT_TOKENS], 3 + 4 + 300 + 1024);
    p = small;
    p.input_factor_milli = 1;
    assert_int_equal(worst(&p, 0).of[UNIT_TOKENS], 307);
    assert_int_equal(worst(&p, 1).of[UNIT_TOKENS], 308);
    assert_int_equal(worst(&p, 1000).of[UNIT_TOKENS], 308);
    assert_int_equal(worst(&p, 1001).of[UNIT_TOKENS], 309);
}

static void test_worst_case_saturates(void **state)
{
    struct price p = small;
    (void)state;
    p.input_nano = PRICE_MAX_NANO;
    p.overhead_per_message = UINT32_MAX;
    p.input_factor_milli = UINT32_MAX;
    assert_true(worst(&p, SIZE_MAX).of[UNIT_TOKENS] >= SIZE_MAX / 4);
    assert_int_equal(worst(&p, SIZE_MAX).of[UNIT_COST], AMOUNT_MAX);
    struct price_request r = {10, 1, UINT64_MAX};
    struct amounts a;
    uint64_t in, out;
    price_worst(&p, &r, &a, &in, &out);
    assert_int_equal(in, AMOUNT_MAX);
    assert_int_equal(a.of[UNIT_TOKENS], AMOUNT_MAX);
    assert_int_equal(a.of[UNIT_COST], AMOUNT_MAX);
}

static void test_largest_bounds_do_not_wrap(void **state)
{
    struct price p = {.known = true,
                      .input_nano = PRICE_MAX_NANO,
                      .cached_input_nano = PRICE_MAX_NANO - 1,
                      .cache_write_nano = PRICE_MAX_NANO - 1,
                      .output_nano = PRICE_MAX_NANO - 1,
                      .per_call_nano = PRICE_MAX_NANO};
    struct usage u = USAGE(true, PRICE_COUNTED, PRICE_COUNTED / 2, 1, PRICE_COUNTED, false);
    struct amounts a;
    (void)state;
    price_real(&p, &u, &a);
    /* 2 x 67,108,864 tokens at a dollar per thousand, less a little, and $1000 */
    assert_true(a.of[UNIT_COST] > 135217 * DOLLAR && a.of[UNIT_COST] < 135218 * DOLLAR);
}

/* F22: of 100 input tokens 80 were cached: 20 at the full price and 80 at the cached one. */
static void test_f22_cached_tokens_are_counted_once(void **state)
{
    struct usage u = USAGE(true, 100, 80, 0, 10, false);
    struct amounts a;
    (void)state;
    price_real(&small, &u, &a);
    assert_int_equal(a.of[UNIT_CALLS], 1);
    assert_int_equal(a.of[UNIT_TOKENS], 110);
    assert_int_equal(a.of[UNIT_COST], 20 * 150 + 80 * 75 + 10 * 600);
    u.cache_write = 20;
    price_real(&small, &u, &a);
    assert_int_equal(a.of[UNIT_COST], 20 * 150 + 80 * 75 + 10 * 600);
}

static void test_rounds_up_once_per_call(void **state)
{
    struct price p = {.known = true,
                      .input_nano = 500000, /* half a nano-dollar a token */
                      .output_nano = 500000,
                      .per_call_nano = 7};
    struct usage u = USAGE(true, 1, 0, 0, 1, false);
    struct amounts a;
    (void)state;
    price_real(&p, &u, &a);
    assert_int_equal(a.of[UNIT_COST], 1 + 7);
    u.output = 2;
    price_real(&p, &u, &a);
    assert_int_equal(a.of[UNIT_COST], 2 + 7);
    p.input_nano = 1;
    p.output_nano = 0;
    price_real(&p, &u, &a);
    assert_int_equal(a.of[UNIT_COST], 1 + 7);
}

/* Invariant 6; F29. */
static void test_f29_believable(void **state)
{
    static const struct {
        const char *what;
        struct usage usage;
        bool believable;
    } rows[] = {
        {"no usage", USAGE(false, 1, 0, 0, 1, false), false},
        {"the last report was nonsense", USAGE(true, 1, 0, 0, 1, true), false},
        {"nothing said of the input", {.known = true, .output = 1, .lacks_input = true}, false},
        {"no prompt has no tokens", USAGE(true, 0, 0, 0, 1, false), false},
        {"sixteen times the input", USAGE(true, 1600, 0, 0, 1, false), true},
        {"one token more", USAGE(true, 1601, 0, 0, 1, false), false},
        {"sixteen times the output", USAGE(true, 1, 0, 0, 160, false), true},
        {"one more of those", USAGE(true, 1, 0, 0, 161, false), false},
        {"all input cached", USAGE(true, 100, 100, 0, 1, false), true},
        {"more cached than there was", USAGE(true, 100, 101, 0, 1, false), false},
        {"cached and written together above the input", USAGE(true, 100, 60, 41, 1, false),
         false},
        {"cached and written make up the input", USAGE(true, 100, 60, 40, 1, false), true},
        {"hostile: sums that wrap", USAGE(true, 100, 2, UINT64_MAX, 1, false), false},
        {"hostile: the largest number", USAGE(true, UINT64_MAX, 0, 0, UINT64_MAX, false),
         false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (usage_believable(&rows[i].usage, 100, 10) != rows[i].believable)
            fail_msg("%s", rows[i].what);
}

/* F19: 5, 9, 14 are running totals. F20: zeros and nothing after a real report. */
static void test_f19_f20_running_totals(void **state)
{
    static const struct usage reports[] = {
        USAGE(true, 10, 4, 0, 5, false),     USAGE(true, 10, 4, 2, 9, false),
        USAGE(true, 10, 4, 2, 14, false),    USAGE(true, 0, 0, 0, 0, false),
        USAGE(false, 99, 99, 99, 99, false), USAGE(true, 10, 0, 0, 3, false),
    };
    struct usage total = {0};
    (void)state;
    for (size_t i = 0; i < sizeof reports / sizeof reports[0]; i++)
        usage_merge(&total, &reports[i]);
    assert_true(total.known);
    assert_int_equal(total.input, 10);
    assert_int_equal(total.cached_input, 4);
    assert_int_equal(total.cache_write, 2);
    assert_int_equal(total.output, 14);
    usage_merge(&total, &(struct usage){.doubtful = true}); /* F29 */
    usage_merge(&total, &(struct usage){.known = false});   /* a placeholder mends nothing */
    assert_true(total.known && total.doubtful);
    usage_merge(&total, &reports[0]);
    assert_true(total.known && !total.doubtful);
}

/*
 * F21: what a stream's first event says of its output is provisional, and its last one may leave
 * out the input: neither counts alone.
 */
static void test_f21_a_provisional_report_and_the_last_one(void **state)
{
    static const struct usage first = {
        .known = true, .input = 30, .cached_input = 10, .output = 1, .doubtful = true};
    static const struct usage last = {.known = true, .output = 15, .lacks_input = true};
    struct usage total = {0};
    (void)state;
    usage_merge(&total, &first);
    assert_false(usage_whole(&total));
    usage_merge(&total, &last);
    assert_true(usage_whole(&total) && usage_believable(&total, 30, 15));
    assert_int_equal(total.input, 30);
    assert_int_equal(total.cached_input, 10);
    assert_int_equal(total.output, 15);
    total = (struct usage){0};
    usage_merge(&total, &last);
    usage_merge(&total, &last);
    assert_false(usage_whole(&total));
    usage_merge(&total, &first); /* in the wrong order, and so a lie */
    assert_false(usage_whole(&total));
}

/* F8: prices are per million; above the sanity bound a unit was mistaken. */
static void test_f8_parse(void **state)
{
    static const struct {
        const char *text;
        bool ok;
        uint64_t nano;
    } rows[] = {
        {"0", true, 0},
        {"$0", true, 0},
        {"0.15", true, 150000000},
        {"$0.15", true, 150000000},
        {"$1.50", true, 1500000000},
        {"0.000000001", true, 1},
        {"0.123456789", true, 123456789},
        {"1000", true, PRICE_MAX_NANO},
        {"1000.000000000", true, PRICE_MAX_NANO},
        {"1000.000000001", false, 0},
        {"1001", false, 0},
        {"150000", false, 0}, /* per token times a million, twice */
        {"0.0000000001", false, 0},
        {"", false, 0},
        {"$", false, 0},
        {"$$1", false, 0},
        {"1$", false, 0},
        {".5", false, 0},
        {"1.", false, 0},
        {"1.5.0", false, 0},
        {"1,50", false, 0},
        {"-1", false, 0},
        {"+1", false, 0},
        {"$-1", false, 0},
        {" 1", false, 0},
        {"1 ", false, 0},
        {"$ 1", false, 0},
        {"1e3", false, 0},
        {"0x10", false, 0},
        {"010", false, 0},
        {"00", false, 0},
        {"00.5", false, 0},
        {"nan", false, 0},
        {"18446744073709551617", false, 0}, /* 2^64 + 1 */
        {"18446744073.709551616", false, 0},
        {"99999999999999999999999999999999999999", false, 0},
        {"\xD9\xA1", false, 0}, /* an Arabic digit */
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t nano = 4711;
        bool ok = price_parse(rows[i].text, PRICE_MAX_NANO, &nano);
        if (ok != rows[i].ok || nano != (ok ? rows[i].nano : 4711))
            fail_msg("'%s': %d, %llu", rows[i].text, ok, (unsigned long long)nano);
    }
    uint64_t nano;
    assert_true(price_parse("18446744072.999999999", UINT64_MAX, &nano));
    assert_true(nano == UINT64_C(18446744072999999999));
    assert_false(price_parse("0.000000001", 0, &nano));
}

static void test_format(void **state)
{
    static const struct {
        uint64_t nano;
        const char *text;
    } rows[] = {
        {0, "$0.00"},          {1, "$0.000000001"},
        {1500000000, "$1.50"}, {1000000000, "$1.00"},
        {150000000, "$0.15"},  {123000000, "$0.123"},
        {10000000, "$0.01"},   {UINT64_MAX, "$18446744073.709551615"},
    };
    char text[PRICE_TEXT_MAX];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_string_equal(price_format(rows[i].nano, text), rows[i].text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worst_case),
        cmocka_unit_test(test_worst_case_takes_the_dearest_input),
        cmocka_unit_test(test_worst_case_counts_thinking_and_factor),
        cmocka_unit_test(test_worst_case_saturates),
        cmocka_unit_test(test_largest_bounds_do_not_wrap),
        cmocka_unit_test(test_f22_cached_tokens_are_counted_once),
        cmocka_unit_test(test_rounds_up_once_per_call),
        cmocka_unit_test(test_f29_believable),
        cmocka_unit_test(test_f19_f20_running_totals),
        cmocka_unit_test(test_f21_a_provisional_report_and_the_last_one),
        cmocka_unit_test(test_f8_parse),
        cmocka_unit_test(test_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
