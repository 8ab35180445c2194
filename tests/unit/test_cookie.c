/* F41: cookies that are forged, cut, changed, from elsewhere, oversized or there twice. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "gateway/cookie.h"

#define N(rows) (sizeof(rows) / sizeof((rows)[0]))
#define TODAY   20000

static const char alphabet[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static const uint8_t key[MAC_SIZE] = "a site's key, 32 bytes of it ...";
static const uint8_t other_key[MAC_SIZE] = "another site's key, also 32 ....";

/* From a block of exactly this size, so that a sanitizer sees a read beyond it. */
static bool read_at(const uint8_t k[MAC_SIZE], const char *text, size_t n, int64_t today,
                    struct cookie *out)
{
    char *exact = malloc(n > 0 ? n : 1);
    struct cookie before;

    assert_non_null(exact);
    memcpy(exact, text, n);
    memset(out, 0x5a, sizeof *out);
    before = *out;
    bool ok = cookie_read(k, exact, n, today, out);
    if (!ok)
        assert_memory_equal(out, &before, sizeof before);
    free(exact);
    return ok;
}

static bool is_ours(const char *text, size_t n)
{
    struct cookie c;

    return read_at(key, text, n, TODAY, &c);
}

static struct cookie random_cookie(int64_t day)
{
    struct cookie c = {.day = day};

    for (unsigned i = 0; i < COOKIE_ID; i++)
        c.id[i] = (uint8_t)random();
    return c;
}

static void what_was_written_is_read(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2000; i++) {
        struct cookie c = random_cookie(random() % 30000), out;
        char text[COOKIE_TEXT_MAX];

        cookie_write(key, &c, text);
        assert_true(strlen(text) < COOKIE_TEXT_MAX);
        assert_int_equal(strspn(text + 2, alphabet), 22);
        assert_true(read_at(key, text, strlen(text), c.day, &out));
        assert_memory_equal(out.id, c.id, COOKIE_ID);
        assert_true(out.day == c.day);
    }
}

/* The form is a promise: visitors bring it back after an update. Computed with Python. */
static void the_form_does_not_change(void **state)
{
    struct cookie c = {.day = TODAY};
    char text[COOKIE_TEXT_MAX], name[COOKIE_NAME_MAX];

    (void)state;
    for (unsigned i = 0; i < COOKIE_ID; i++)
        c.id[i] = (uint8_t)(0xf0 + i);
    cookie_write(key, &c, text);
    assert_string_equal(text, "1.8PHy8_T19vf4-fr7_P3-_w.20000.xvU7_lsk-gQ9vbfxZkxcjQ");
    cookie_name(key, name);
    assert_string_equal(name, "pennygate_49f4b4b8");
}

static void the_name_is_the_sites(void **state)
{
    char a[COOKIE_NAME_MAX], b[COOKIE_NAME_MAX], digits[9];

    (void)state;
    cookie_name(key, a);
    cookie_name(other_key, b);
    assert_string_not_equal(a, b);
    assert_int_equal(strlen(a), 18);
    assert_int_equal(strncmp(a, "pennygate_", 10), 0);
    assert_int_equal(strspn(a + 10, "0123456789abcdef"), 8);
    snprintf(digits, sizeof digits, "%02x%02x%02x%02x", key[0], key[1], key[2], key[3]);
    assert_string_not_equal(a + 10, digits); /* it shows nothing of the key */
}

static void f41_its_days(void **state)
{
    static const struct {
        const char *why;
        int64_t issued, today;
        bool ok;
    } days[] = {
        {"of today", TODAY, TODAY, true},
        {"of yesterday", TODAY - 1, TODAY, true},
        {"of the last day that counts", TODAY - COOKIE_DAYS, TODAY, true},
        {"too old", TODAY - COOKIE_DAYS - 1, TODAY, false},
        {"of tomorrow: a clock was set back", TODAY + 1, TODAY, true},
        {"of the day after", TODAY + 2, TODAY, false},
        {"of the far future", 9999999, TODAY, false},
        {"of the first day", 0, 0, true},
        {"at the end of days that can be read", 9999999, 9999999, true},
        {"after it", 10000000, 10000000, false},
        {"before 1970", -1, 0, false},
        {"when the clock is nonsense", TODAY, INT64_MAX, false},
        {"when it is nonsense the other way", TODAY, INT64_MIN, false},
    };

    (void)state;
    for (size_t i = 0; i < N(days); i++) {
        struct cookie c = random_cookie(days[i].issued), out;
        char text[COOKIE_TEXT_MAX];

        cookie_write(key, &c, text);
        if (read_at(key, text, strlen(text), days[i].today, &out) != days[i].ok)
            fail_msg("%s", days[i].why);
    }
    struct cookie longest = random_cookie(INT64_MIN);
    char text[COOKIE_TEXT_MAX];
    cookie_write(key, &longest, text);
    assert_false(is_ours(text, strlen(text)));
}

static void f41_of_another_site(void **state)
{
    struct cookie c = random_cookie(TODAY), out;
    char text[COOKIE_TEXT_MAX];

    (void)state;
    cookie_write(other_key, &c, text);
    assert_false(is_ours(text, strlen(text)));
    assert_true(read_at(other_key, text, strlen(text), TODAY, &out));
}

static void f41_any_changed_byte(void **state)
{
    struct cookie c = random_cookie(TODAY);
    char text[COOKIE_TEXT_MAX];

    (void)state;
    cookie_write(key, &c, text);
    size_t n = strlen(text);
    for (size_t at = 0; at < n; at++) {
        char good = text[at];

        for (int value = 0; value < 256; value++) {
            text[at] = (char)value;
            if (is_ours(text, n) != ((char)value == good))
                fail_msg("byte %zu as %d", at, value);
        }
        text[at] = good;
    }
}

static void f41_cut_or_lengthened(void **state)
{
    struct cookie c = random_cookie(TODAY);
    char text[COOKIE_TEXT_MAX], more[COOKIE_TEXT_MAX + 1];

    (void)state;
    cookie_write(key, &c, text);
    size_t n = strlen(text);
    for (size_t i = 0; i < n; i++) {
        assert_false(is_ours(text, i));
        assert_false(is_ours(text + n - i, i));
        memcpy(more, text, i); /* one in the middle is missing */
        memcpy(more + i, text + i + 1, n - i - 1);
        assert_false(is_ours(more, n - 1));
        for (int value = 0; value < 256; value++) { /* or too many */
            memcpy(more, text, i);
            more[i] = (char)value;
            memcpy(more + i + 1, text + i, n - i);
            assert_false(is_ours(more, n + 1));
        }
    }
    for (int value = 0; value < 256; value++) { /* a NUL, '=' or a space behind */
        memset(more, value, sizeof more);
        memcpy(more, text, n);
        for (size_t length = n + 1; length <= sizeof more; length++)
            assert_false(is_ours(more, length));
    }
}

static void f41_forged(void **state)
{
    struct cookie c = random_cookie(TODAY);
    char good[COOKIE_TEXT_MAX], text[2 * COOKIE_TEXT_MAX];

    (void)state;
    cookie_write(key, &c, good);
    const char *id = good + 2, *mac = good + strlen(good) - 22;
    const char *const bad[] = {
        "1.%.22s.20000.",  "2.%.22s.20000.",  "1.%.22s.020000.",  "1.%.22s.+20000.",
        "1.%.22s. 20000.", "1.%.22s.20001.",  "1.%.22s..",        "1.%.22s.-1.",
        "01.%.22s.20000.", "1.%.22s.20000..", "1.%.22s==.20000.", "%.22s.20000.",
        "1.%.21s.20000.",  "1..20000.%.0s",
    };
    for (size_t i = 0; i < N(bad); i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(text, sizeof text, bad[i], id);
#pragma GCC diagnostic pop
        size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, "%s", i == 0 ? "" : mac);
        if (is_ours(text, strlen(text)))
            fail_msg("%s", text);
    }
    assert_false(is_ours("", 0));
    assert_false(is_ours("1.", 2));
    memset(text, 'A', sizeof text);
    for (size_t n = 0; n < sizeof text; n++)
        assert_false(is_ours(text, n));
}

/* Of each group of bits that a decoder drops, one spelling alone is ours. */
static void f41_a_second_spelling_of_the_same_bytes(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 100; i++) {
        struct cookie c = random_cookie(TODAY);
        char text[COOKIE_TEXT_MAX];

        cookie_write(key, &c, text);
        size_t n = strlen(text);
        for (unsigned end = 0; end < 2; end++) {
            char *last = text + (end ? n - 1 : 2 + 21), good = *last;
            size_t at = (size_t)(strchr(alphabet, good) - alphabet);

            assert_int_equal(at % 16, 0);
            for (unsigned bits = 1; bits < 16; bits++) {
                *last = alphabet[at + bits];
                assert_false(is_ours(text, n));
            }
            *last = good;
        }
    }
}

static void f41_any_text_that_looks_alike(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 20000; i++) {
        char text[COOKIE_TEXT_MAX];
        int n =
            snprintf(text, sizeof text, "1.%22s.%d.%22s", "", TODAY - (int)(random() % 30), "");

        for (int at = 0; at < n; at++) {
            if (text[at] == ' ')
                text[at] = alphabet[(unsigned)random() % 64];
        }
        assert_false(is_ours(text, (size_t)n));
    }
}

#define US "pennygate_0123abcd"

static const struct {
    const char *why, *first, *second; /* headers; NULL: none */
    unsigned found;
    const char *value; /* if one is found */
} headers[] = {
    {"alone", US "=v", NULL, 1, "v"},
    {"among others", "a=1; " US "=v; b=2", NULL, 1, "v"},
    {"first of others", US "=v; b=2", NULL, 1, "v"},
    {"last of others", "a=1; " US "=v", NULL, 1, "v"},
    {"no space", "a=1;" US "=v;b=2", NULL, 1, "v"},
    {"more spaces and tabs", " a=1 ;\t " US " = v \t; b=2", NULL, 1, "v"},
    {"Apache joins two headers", "a=1, " US "=v, b=2", NULL, 1, "v"},
    {"quotes around", US "=\"v\"", NULL, 1, "v"},
    {"spaces around the quotes", US "= \"v\" ;", NULL, 1, "v"},
    {"spaces in the quotes are its own", US "=\" v \"", NULL, 1, " v "},
    {"one quote", US "=\"v", NULL, 1, "\"v"},
    {"a quote alone", US "=\"", NULL, 1, "\""},
    {"no value", US "=", NULL, 1, ""},
    {"an empty value in quotes", US "=\"\"", NULL, 1, ""},
    {"an equals sign in the value", US "=v=w", NULL, 1, "v=w"},
    {"empty parts", ";;, ;" US "=v;;", NULL, 1, "v"},
    {"in the second header", "a=1", US "=v", 1, "v"},
    {"in the first header", US "=v", "a=1", 1, "v"},

    {"no header", NULL, NULL, 0, NULL},
    {"an empty header", "", NULL, 0, NULL},
    {"no cookie", "; , ;", NULL, 0, NULL},
    {"others only", "a=1; b=2", NULL, 0, NULL},
    {"the name alone", US, NULL, 0, NULL},
    {"the name without its sign", US "; a=v", NULL, 0, NULL},
    {"a name that ends alike", "x" US "=v", NULL, 0, NULL},
    {"a name that ends alike, after a space", "x " US "=v", NULL, 0, NULL},
    {"a name that begins alike", US "e=v", NULL, 0, NULL},
    {"a name that is shorter", "pennygate_0123abc=v", NULL, 0, NULL},
    {"another site's", "pennygate_ffffffff=v", NULL, 0, NULL},
    {"capitals", "Pennygate_0123abcd=v", NULL, 0, NULL},
    {"the name in quotes", "\"" US "\"=v", NULL, 0, NULL},
    {"the name as a value", "a=" US, NULL, 0, NULL},
    {"the whole as a value", "a=" US "=v", NULL, 0, NULL},

    {"F41 twice", US "=v; " US "=w", NULL, 2, NULL},
    {"F41 the same twice", US "=v; " US "=v", NULL, 2, NULL},
    {"F41 twice, joined", US "=v, " US "=w", NULL, 2, NULL},
    {"F41 in two headers", US "=v", US "=w", 2, NULL},
    {"F41 one of them empty", US "=v; " US "=", NULL, 2, NULL},
    {"F41 three times", US "=v; " US "=w", "a=1, " US "=x", 3, NULL},
};

static void f41_how_a_cookie_is_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(headers); i++) {
        const char *list[] = {headers[i].first, headers[i].second};
        unsigned n = headers[i].second ? 2 : headers[i].first ? 1 : 0;
        const char *value = "untouched";
        size_t length = 9;

        if (cookie_find(list, n, US, &value, &length) != headers[i].found)
            fail_msg("%s", headers[i].why);
        if (headers[i].found == 1 && (length != strlen(headers[i].value) ||
                                      memcmp(value, headers[i].value, length) != 0))
            fail_msg("%s: '%.*s'", headers[i].why, (int)length, value);
        if (headers[i].found == 0)
            assert_string_equal(value, "untouched");
    }
}

#define HUGE ((size_t)100 * 1024)

static void f41_headers_of_100_kilobytes(void **state)
{
    static const char *const fillers[] = {"a", ";", "=", ",", "\"", " ", "a=1; ", US, US "; "};
    char *text = malloc(HUGE + 64);
    const char *value;
    size_t n;

    (void)state;
    assert_non_null(text);
    for (size_t i = 0; i < N(fillers); i++) {
        size_t step = strlen(fillers[i]), at = 0;
        const char *list[] = {text};

        for (; at + step < HUGE; at += step)
            memcpy(text + at, fillers[i], step);
        snprintf(text + at, 64, ";" US "=v");
        assert_int_equal(cookie_find(list, 1, US, &value, &n), 1);
        assert_int_equal(n, 1);
    }
    memset(text, 'A', HUGE);
    memcpy(text, US "=1.", strlen(US) + 3);
    text[HUGE] = '\0';
    assert_int_equal(cookie_find((const char *const[]){text}, 1, US, &value, &n), 1);
    assert_int_equal(n, HUGE - strlen(US) - 1);
    assert_false(is_ours(value, n));
    free(text);
}

static void the_way_round(void **state)
{
    struct cookie c = random_cookie(TODAY), out;
    char name[COOKIE_NAME_MAX], text[COOKIE_TEXT_MAX], header[256];
    const char *list[] = {header}, *value;
    size_t n;

    (void)state;
    cookie_name(key, name);
    cookie_write(key, &c, text);
    snprintf(header, sizeof header, "theme=dark; %s=%s; lang=eo", name, text);
    assert_int_equal(cookie_find(list, 1, name, &value, &n), 1);
    assert_true(cookie_read(key, value, n, TODAY + COOKIE_RENEW, &out));
    assert_memory_equal(out.id, c.id, COOKIE_ID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read),
        cmocka_unit_test(the_form_does_not_change),
        cmocka_unit_test(the_name_is_the_sites),
        cmocka_unit_test(f41_its_days),
        cmocka_unit_test(f41_of_another_site),
        cmocka_unit_test(f41_any_changed_byte),
        cmocka_unit_test(f41_cut_or_lengthened),
        cmocka_unit_test(f41_forged),
        cmocka_unit_test(f41_a_second_spelling_of_the_same_bytes),
        cmocka_unit_test(f41_any_text_that_looks_alike),
        cmocka_unit_test(f41_how_a_cookie_is_found),
        cmocka_unit_test(f41_headers_of_100_kilobytes),
        cmocka_unit_test(the_way_round),
    };
    const char *seed = getenv("TEST_SEED");
    unsigned start = seed ? (unsigned)strtoul(seed, NULL, 10) : (unsigned)time(NULL);

    printf("TEST_SEED=%u\n", start);
    srandom(start);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
