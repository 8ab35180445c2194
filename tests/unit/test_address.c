/* Addresses: every spelling of one caller is one subject (F39), and nothing else is any. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "platform/address.h"

#define ROUNDS 20000

/* What a text is: 4 or 6 and the bytes that are the subject, or nothing. */
static const struct {
    const char *text;
    uint8_t family;
    uint8_t bytes[8];
} rows[] = {
    {"192.0.2.1", 4, {192, 0, 2, 1}},
    {"0.0.0.0", 4, {0}},
    {"255.255.255.255", 4, {255, 255, 255, 255}},
    {"192.0.2.1:80", 4, {192, 0, 2, 1}},
    {"192.0.2.1:0", 4, {192, 0, 2, 1}},
    {"192.0.2.1:65535", 4, {192, 0, 2, 1}},
    {"::ffff:192.0.2.1", 4, {192, 0, 2, 1}},
    {"::FFFF:192.0.2.1", 4, {192, 0, 2, 1}},
    {"::ffff:c000:201", 4, {192, 0, 2, 1}},
    {"0:0:0:0:0:ffff:c000:0201", 4, {192, 0, 2, 1}},
    {"[::ffff:192.0.2.1]:8080", 4, {192, 0, 2, 1}},
    {"::ffff:0:0", 4, {0}},
    {"2001:db8::1", 6, {0x20, 0x01, 0x0d, 0xb8}},
    {"2001:DB8::1", 6, {0x20, 0x01, 0x0d, 0xb8}},
    {"2001:0db8:0000:0000:ffff:ffff:ffff:ffff", 6, {0x20, 0x01, 0x0d, 0xb8}},
    {"2001:db8:0:1::", 6, {0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 1}},
    {"[2001:db8::1]", 6, {0x20, 0x01, 0x0d, 0xb8}},
    {"[2001:db8::1]:443", 6, {0x20, 0x01, 0x0d, 0xb8}},
    {"fe80::1%eth0", 6, {0xfe, 0x80}},
    {"[fe80::1%br-lan.1]:80", 6, {0xfe, 0x80}},
    {"fe80::1%1", 6, {0xfe, 0x80}},
    {"::", 6, {0}},
    {"::1", 6, {0}},
    {"::192.0.2.1", 6, {0}},                                   /* not the mapped form */
    {"::fffe:192.0.2.1", 6, {0}},                              /* nor this */
    {"64:ff9b::192.0.2.1", 6, {0x00, 0x64, 0xff, 0x9b}},       /* nor a translated one */
    {"0000:0000:0000:0000:0000:fffe:255.255.255.255", 6, {0}}, /* the longest */

    {"", 0, {0}},
    {" ", 0, {0}},
    {"localhost", 0, {0}},
    {"unknown", 0, {0}},
    {"_hidden", 0, {0}},
    {"1", 0, {0}},
    {"1.2.3", 0, {0}},      /* inet_aton knows short forms */
    {"3221225985", 0, {0}}, /* and plain numbers */
    {"0xc0.0.2.1", 0, {0}}, /* and hexadecimal */
    {"0300.0.2.1", 0, {0}}, /* and octal */
    {"192.0.2.01", 0, {0}}, /* which this is to some */
    {"192.0.2.00", 0, {0}},
    {"192.0.2.256", 0, {0}},
    {"192.0.2.1000", 0, {0}},
    {"192.0.2.-1", 0, {0}},
    {"192.0.2.+1", 0, {0}},
    {"192.0.2.", 0, {0}},
    {".192.0.2.1", 0, {0}},
    {"192..0.2", 0, {0}},
    {"192.0.2.1.", 0, {0}},
    {"192.0.2.1.5", 0, {0}},
    {" 192.0.2.1", 0, {0}},
    {"192.0.2.1 ", 0, {0}},
    {"192.0.2.1\n", 0, {0}},
    {"192.0.2.1,192.0.2.2", 0, {0}},
    {"192.0.2.1/32", 0, {0}},
    {"192.0.2.1%eth0", 0, {0}},
    {"192.0.2.1:", 0, {0}},
    {"192.0.2.1:65536", 0, {0}},
    {"192.0.2.1:000080", 0, {0}},
    {"192.0.2.1:8o", 0, {0}},
    {"192.0.2.1:80:", 0, {0}},
    {":80", 0, {0}},
    {"[192.0.2.1]", 0, {0}},
    {"[192.0.2.1]:80", 0, {0}},
    {":", 0, {0}},
    {":::", 0, {0}},
    {"1::2::3", 0, {0}},
    {":1:2:3:4:5:6:7", 0, {0}},
    {"1:2:3:4:5:6:7:", 0, {0}},
    {"1:2:3:4:5:6:7", 0, {0}},
    {"1:2:3:4:5:6:7:8:9", 0, {0}},
    {"1:2:3:4:5:6:7::8", 0, {0}}, /* the gap would stand for nothing */
    {"1:2:3:4::5:6:7:8", 0, {0}},
    {"::1:2:3:4:5:6:7:8", 0, {0}},
    {"1:2:3:4:5:6:7:1.2.3.4", 0, {0}},
    {"2001:db8::12345", 0, {0}},
    {"2001:db8::g", 0, {0}},
    {"2001:db8::1/64", 0, {0}},
    {"2001:db8::1 ", 0, {0}},
    {"::ffff:192.0.2.01", 0, {0}},
    {"::ffff:192.0.2", 0, {0}},
    {"::ffff:192.0.2.256", 0, {0}},
    {"192.0.2.1::", 0, {0}},
    {"::192.0.2.1:1", 0, {0}},
    {"fe80::1%", 0, {0}},
    {"fe80::1%eth 0", 0, {0}},
    {"fe80::1%eth0:80", 0, {0}},
    {"fe80::1%eth0]", 0, {0}},
    {"%eth0", 0, {0}},
    {"[", 0, {0}},
    {"]", 0, {0}},
    {"[]", 0, {0}},
    {"[]:80", 0, {0}},
    {"[::1", 0, {0}},
    {"::1]", 0, {0}},
    {"[[::1]]", 0, {0}},
    {"[::1]80", 0, {0}},
    {"[::1]:", 0, {0}},
    {"[::1]:65536", 0, {0}},
    {"[::1] :80", 0, {0}},
    {"x[::1]", 0, {0}},
};

/* From a block of exactly this size, so that a sanitizer sees a read beyond it. */
static bool parse(const char *text, size_t n, struct address *out)
{
    char *exact = malloc(n > 0 ? n : 1);

    assert_non_null(exact);
    memcpy(exact, text, n);
    bool ok = address_parse(exact, n, out);
    free(exact);
    return ok;
}

static void test_F39_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct address out, expected = {.family = rows[i].family};
        bool ok = rows[i].family != 0;

        memcpy(expected.bytes, rows[i].bytes, sizeof rows[i].bytes);
        memset(&out, 0xa5, sizeof out);
        if (!ok)
            expected = out; /* untouched */
        if (parse(rows[i].text, strlen(rows[i].text), &out) != ok)
            fail_msg("'%s'", rows[i].text);
        if (!address_equal(&out, &expected))
            fail_msg("'%s': other bytes", rows[i].text);
    }
}

static void test_a_nul_is_no_end(void **state)
{
    struct address out;

    (void)state;
    assert_false(parse("192.0.2.1\0", 10, &out));
    assert_false(parse("::1\0", 4, &out));
    assert_false(parse("[::1]\0", 6, &out));
    assert_false(parse("fe80::1%e\0", 10, &out));
    assert_false(parse("\0", 1, &out));
    assert_true(parse("192.0.2.1xyz", 9, &out)); /* n is */
}

static void test_the_longest_text(void **state)
{
    char text[ADDRESS_TEXT_MAX + 2];
    struct address out;

    (void)state;
    memset(text, 'z', sizeof text);
    memcpy(text, "fe80::1%", 8);
    assert_true(parse(text, ADDRESS_TEXT_MAX, &out));
    assert_false(parse(text, ADDRESS_TEXT_MAX + 1, &out));
}

static unsigned random_below(unsigned n)
{
    return (unsigned)random() % n;
}

/* Appends one group in a random spelling: with or without leading zeros, in any case. */
static void spell_group(char *out, unsigned value)
{
    char digits[8];

    snprintf(digits, sizeof digits, "%0*x", (int)(1 + random_below(4)), value);
    for (char *c = digits; *c; c++) {
        if (*c >= 'a' && random_below(2))
            *c = (char)(*c - 'a' + 'A');
    }
    memcpy(out + strlen(out), digits, strlen(digits) + 1);
}

/* A random run of zero groups for "::"; its length may be 0. */
static void choose_run(const uint8_t bytes[16], unsigned groups, unsigned *start, unsigned *n)
{
    *start = random_below(groups);
    *n = 0;
    while (*start + *n < groups && bytes[2 * (*start + *n)] == 0 &&
           bytes[2 * (*start + *n) + 1] == 0)
        (*n)++;
    if (*n > 0)
        *n = random_below(*n + 1);
}

static void spell_ipv6(const uint8_t bytes[16], char out[64])
{
    bool dotted = random_below(3) == 0;
    unsigned groups = dotted ? 6 : 8, start, run;

    out[0] = '\0';
    choose_run(bytes, groups, &start, &run);
    for (unsigned i = 0; i < groups;) {
        if (run > 0 && i == start) {
            snprintf(out + strlen(out), 64 - strlen(out), i == 0 ? "::" : ":");
            i += run;
            continue;
        }
        spell_group(out, (unsigned)bytes[2 * i] << 8 | bytes[2 * i + 1]);
        i++;
        if (i < 8)
            snprintf(out + strlen(out), 64 - strlen(out), ":");
    }
    if (dotted)
        snprintf(out + strlen(out), 64 - strlen(out), "%u.%u.%u.%u", bytes[12], bytes[13],
                 bytes[14], bytes[15]);
}

/* Puts what is dropped around an address. */
static void decorate(const char *inner, char out[128])
{
    static const char *const zones[] = {"", "", "%e", "%25lan", "%wl-1.2"};
    static const char *const ends[] = {"", ":1", ":443", ":65535"};
    const char *zone = zones[random_below(5)];

    if (strlen(inner) > 48)
        zone = "";
    if (random_below(2))
        snprintf(out, 128, "[%s%s]%s", inner, zone, ends[random_below(4)]);
    else
        snprintf(out, 128, "%s%s", inner, zone);
}

/* Bytes among which zero groups, and mapped addresses, are frequent. */
static void random_ipv6(uint8_t bytes[16])
{
    for (unsigned i = 0; i < 16; i++)
        bytes[i] = random_below(2) ? 0 : (uint8_t)random();
    if (random_below(4) == 0)
        memset(bytes, 0, 10);
    if (random_below(4) == 0) {
        memset(bytes, 0, 10);
        bytes[10] = bytes[11] = 0xff;
    }
}

static struct address address_of(const uint8_t bytes[16])
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    struct address a = {.family = 6};

    if (memcmp(bytes, mapped, 12) == 0) {
        a.family = 4;
        memcpy(a.bytes, bytes + 12, 4);
    } else {
        memcpy(a.bytes, bytes, 16);
    }
    return a;
}

static void test_F39_any_spelling_is_the_same_address(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint8_t bytes[16];
        char inner[64], text[128];
        struct address expected, out;

        random_ipv6(bytes);
        expected = address_of(bytes);
        for (unsigned spelling = 0; spelling < 4; spelling++) {
            spell_ipv6(bytes, inner);
            decorate(inner, text);
            if (!parse(text, strlen(text), &out) || memcmp(&out, &expected, sizeof out) != 0)
                fail_msg("'%s'", text);
        }
    }
}

static void test_F39_hosts_of_one_64_are_one_subject(void **state)
{
    struct address first, next;
    char text[64];

    (void)state;
    assert_true(parse("2001:db8:1:2::1", 15, &first));
    for (unsigned host = 0; host < 1000; host++) {
        snprintf(text, sizeof text, "2001:db8:1:2:%x:%x:%x:%x", random_below(65536),
                 random_below(65536), random_below(65536), random_below(65536));
        assert_true(parse(text, strlen(text), &next));
        assert_true(address_equal(&first, &next));
    }
    for (unsigned bit = 0; bit < 64; bit++) {
        struct address other = first;
        other.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_false(address_equal(&first, &other));
    }
}

static void test_families_are_never_equal(void **state)
{
    struct address four, six;

    (void)state;
    assert_true(parse("0.0.0.0", 7, &four));
    assert_true(parse("::", 2, &six));
    assert_false(address_equal(&four, &six));
}

static void test_all_bytes_are_kept(void **state)
{
    static const struct {
        const char *text;
        struct address is;
    } whole[] = {
        {"2001:db8:1:2:3:4:5:6", {6, {0x20, 1, 0xd, 0xb8, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6}}},
        {"[fe80::1%eth0]:80", {6, {0xfe, 0x80, [15] = 1}}},
        {"::192.0.2.1", {6, {[12] = 192, [14] = 2, [15] = 1}}},
        {"::ffff:192.0.2.1", {4, {192, 0, 2, 1}}},
        {"192.0.2.1:80", {4, {192, 0, 2, 1}}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        struct address out;

        memset(&out, 0xa5, sizeof out);
        assert_true(parse(whole[i].text, strlen(whole[i].text), &out));
        if (memcmp(&out, &whole[i].is, sizeof out) != 0)
            fail_msg("'%s'", whole[i].text);
    }
}

static void test_the_bytes_of_a_subject(void **state)
{
    struct address four, six;

    (void)state;
    assert_true(parse("::ffff:192.0.2.1", 16, &four));
    assert_true(parse("2001:db8::1", 11, &six));
    assert_int_equal(address_subject_bytes(&four), 4);
    assert_int_equal(address_subject_bytes(&six), 8);
}

/* The plain text of an address, as the library writes it. */
static void library_text(const struct address *a, char out[INET6_ADDRSTRLEN])
{
    assert_non_null(
        inet_ntop(a->family == 4 ? AF_INET : AF_INET6, a->bytes, out, INET6_ADDRSTRLEN));
}

/* Garbage that looks like addresses: what is accepted is one, and what is not changes nothing.
 */
static void test_garbage(void **state)
{
    static const char alphabet[] = "0123456789abcfF::::....%[] x";
    unsigned accepted = 0;

    (void)state;
    for (unsigned i = 0; i < 10 * ROUNDS; i++) {
        char text[ADDRESS_TEXT_MAX], plain[INET6_ADDRSTRLEN];
        size_t n = random_below(i % 2 ? 12 : ADDRESS_TEXT_MAX);
        struct address out, again, untouched;

        if (i % 4 == 0) { /* one character of a good one is wrong */
            const char *good = rows[random_below(27)].text;
            n = strlen(good);
            memcpy(text, good, n);
            text[random_below((unsigned)n)] = alphabet[random_below(sizeof alphabet - 1)];
        } else {
            for (size_t at = 0; at < n; at++)
                text[at] = alphabet[random_below(sizeof alphabet - 1)];
        }
        memset(&out, 0xa5, sizeof out);
        untouched = out;
        if (!parse(text, n, &out)) {
            assert_memory_equal(&out, &untouched, sizeof out);
            continue;
        }
        accepted++;
        library_text(&out, plain);
        assert_true(parse(plain, strlen(plain), &again));
        if (memcmp(&out, &again, sizeof out) != 0)
            fail_msg("'%.*s' is '%s'", (int)n, text, plain);
    }
    assert_true(accepted > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_F39_table),
        cmocka_unit_test(test_a_nul_is_no_end),
        cmocka_unit_test(test_the_longest_text),
        cmocka_unit_test(test_F39_any_spelling_is_the_same_address),
        cmocka_unit_test(test_F39_hosts_of_one_64_are_one_subject),
        cmocka_unit_test(test_families_are_never_equal),
        cmocka_unit_test(test_all_bytes_are_kept),
        cmocka_unit_test(test_the_bytes_of_a_subject),
        cmocka_unit_test(test_garbage),
    };
    const char *seed = getenv("TEST_SEED");
    unsigned start = seed ? (unsigned)strtoul(seed, NULL, 10) : (unsigned)time(NULL);

    printf("TEST_SEED=%u\n", start);
    srandom(start);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
