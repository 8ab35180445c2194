/*
 * The two forms of a line of the log. What a text holds is hostile: the line stays one line, an
 * object stays an object that a strict parser takes, and no member comes twice.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "platform/logform.h"

#define BEGIN "{\"time\":\"2026-01-31T23:59:59Z\",\"level\":\"info\""
#define AT    1769903999 /* 2026-01-31 23:59:59 */

static const char *json_of(const char *text, unsigned suppressed)
{
    static char line[LOG_LINE_MAX + 1];
    const struct logform l = {"pennygate", AT, "info", text, suppressed};
    size_t n = logform_json(&l, line);

    assert_int_equal(strlen(line), n);
    assert_true(n <= LOG_LINE_MAX);
    assert_int_equal(strcspn(line, "\n"), n - 1);
    return line;
}

static json_t *parsed(const char *line)
{
    json_error_t why;
    json_t *j = json_loads(line, JSON_REJECT_DUPLICATES, &why);

    if (j == NULL)
        fail_msg("%s: %s", why.text, line);
    assert_string_equal(json_string_value(json_object_get(j, "level")), "info");
    assert_string_equal(json_string_value(json_object_get(j, "time")), "2026-01-31T23:59:59Z");
    return j;
}

static void test_json(void **state)
{
    static const struct {
        const char *what, *text, *rest;
    } rows[] = {
        {"nothing", "", "}"},
        {"words alone", "a=b c_2=d", ",\"a\":\"b\",\"c_2\":\"d\"}"},
        {"words, then a text", "event=x n=4 it was so a=b",
         ",\"event\":\"x\",\"n\":4,\"message\":\"it was so a=b\"}"},
        {"a text alone", "configuration: /etc/x:3: a=b",
         ",\"message\":\"configuration: /etc/x:3: a=b\"}"},
        {"integers", "a=0 b=-1 c=123456789012345 d=7",
         ",\"a\":0,\"b\":-1,\"c\":123456789012345,\"d\":7}"},
        {"no integers", "a=00 b=-0 c=1234567890123456 d=1.5 e=- f=0x1 g=1e3 h= i=-01 j=+1",
         ",\"a\":\"00\",\"b\":\"-0\",\"c\":\"1234567890123456\",\"d\":\"1.5\",\"e\":\"-\","
         "\"f\":\"0x1\",\"g\":\"1e3\",\"h\":\"\",\"i\":\"-01\",\"j\":\"+1\"}"},
        {"a name that comes twice", "a=1 a=2 b=3", ",\"a\":1,\"message\":\"a=2 b=3\"}"},
        {"the line's own names", "a=1 level=error", ",\"a\":1,\"message\":\"level=error\"}"},
        {"the message's name", "message=x y=1", ",\"message\":\"message=x y=1\"}"},
        {"names that begin alike", "a=1 aa=2 ab=3", ",\"a\":1,\"aa\":2,\"ab\":3}"},
        {"no names", "A=1", ",\"message\":\"A=1\"}"},
        {"no name at all", "=1", ",\"message\":\"=1\"}"},
        {"a long name",
         "a2345678901234567890123456789012=1 b23456789012345678901234567890123=1",
         ",\"a2345678901234567890123456789012\":1,"
         "\"message\":\"b23456789012345678901234567890123=1\"}"},
        {"a value with an equals sign", "a=b=c", ",\"a\":\"b=c\"}"},
        {"a colon behind the words", "a=x n=5: b=1 so",
         ",\"a\":\"x\",\"n\":5,\"message\":\"b=1 so\"}"},
        {"colons in values", "a=b:c d=:", ",\"a\":\"b:c\",\"d\":\":\"}"},
        {"nothing but a colon", "a=: b", ",\"a\":\"\",\"message\":\"b\"}"},
        {"several blanks", "a=1   b=2  c", ",\"a\":1,\"b\":2,\"message\":\"c\"}"},
        {"a member forged", "a=x\",\"admin\":\"y", ",\"a\":\"x\\\",\\\"admin\\\":\\\"y\"}"},
        {"a line forged", "no\n{\"level\":\"error\"}",
         ",\"message\":\"no\\u000a{\\\"level\\\":\\\"error\\\"}\"}"},
        {"control characters", "\x01\t\r\x1b[31m\x7f",
         ",\"message\":\"\\u0001\\u0009\\u000d\\u001b[31m\\u007f\"}"},
        {"backslashes", "\\u0041 \\", ",\"message\":\"\\\\u0041 \\\\\"}"},
        {"characters of each length", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
         ",\"message\":\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\"}"},
        {"bytes that begin none", "a=\x80\xff\xc0", ",\"a\":\"\ufffd\ufffd\ufffd\"}"},
        {"longer than it must be", "\xc0\xaf\xe0\x80\xaf",
         ",\"message\":\"\ufffd\ufffd\ufffd\ufffd\ufffd\"}"},
        {"a surrogate", "\xed\xa0\x80", ",\"message\":\"\ufffd\ufffd\ufffd\"}"},
        {"above the last character", "\xf4\x90\x80\x80",
         ",\"message\":\"\ufffd\ufffd\ufffd\ufffd\"}"},
        {"the last characters", "\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf",
         ",\"message\":\"\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf\"}"},
        {"one that is cut off", "\xf0\x9f\x98", ",\"message\":\"\ufffd\ufffd\ufffd\"}"},
        {"one cut off by a quote", "\xe2\x82\"", ",\"message\":\"\ufffd\ufffd\\\"\"}"},
    };
    char expected[LOG_LINE_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        snprintf(expected, sizeof expected, BEGIN "%s\n", rows[i].rest);
        if (strcmp(json_of(rows[i].text, 0), expected) != 0)
            fail_msg("%s: %s", rows[i].what, json_of(rows[i].text, 0));
        json_decref(parsed(json_of(rows[i].text, 0)));
    }
    assert_string_equal(json_of("a=1 b", 4294967295U),
                        BEGIN ",\"suppressed\":4294967295,\"a\":1,\"message\":\"b\"}\n");
    assert_string_equal(json_of("suppressed=1", 2),
                        BEGIN ",\"suppressed\":2,\"message\":\"suppressed=1\"}\n");
}

static void test_every_byte_and_pair_of_bytes_makes_valid_json(void **state)
{
    char text[] = "a=?? ??";

    (void)state;
    for (unsigned first = 1; first < 256; first++)
        for (unsigned second = 1; second < 256; second++) {
            text[2] = text[5] = (char)first;
            text[3] = text[6] = (char)second;
            json_decref(parsed(json_of(text, 1)));
        }
}

/* Units of each length, so that the bound falls on each of their bytes. */
static void test_a_long_text_is_cut_and_stays_json(void **state)
{
    static const char *const units[] = {"x", "\"", "\x01", "\xf0\x9f\x98\x80", "\xff"};
    static const char *const before[] = {"", "a=", "a=1 b="};
    static char text[2 * LOG_LINE_MAX];

    (void)state;
    for (size_t b = 0; b < sizeof before / sizeof before[0]; b++)
        for (size_t u = 0; u < sizeof units / sizeof units[0]; u++)
            for (size_t shift = 0; shift < 8; shift++) {
                size_t n = (size_t)snprintf(text, sizeof text, "%s%.*s", before[b], (int)shift,
                                            "yyyyyyyy");
                while (n + 4 < sizeof text)
                    n += (size_t)snprintf(text + n, sizeof text - n, "%s", units[u]);
                const char *line = json_of(text, 7);
                assert_in_range(strlen(line), LOG_LINE_MAX - 6, LOG_LINE_MAX);
                json_decref(parsed(line));
            }
}

static void test_members_without_end_are_cut_and_stay_json(void **state)
{
    static char text[2 * LOG_LINE_MAX];
    size_t n = 0;
    json_t *j;

    (void)state;
    for (unsigned i = 0; n + 8 < sizeof text; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "a%u=%u ", i, i);
    j = parsed(json_of(text, 0));
    assert_int_equal(json_object_size(j), 2 + LOGFORM_WORDS + 1);
    json_decref(j);

    for (size_t value = 1; value < 60; value++) { /* the bound falls everywhere in a member */
        n = 0;
        for (unsigned i = 0; i < LOGFORM_WORDS; i++)
            n += (size_t)snprintf(text + n, sizeof text - n, "a%u=%0*u ", i, (int)value, 0);
        json_decref(parsed(json_of(text, 0)));
    }
}

static void test_the_time_of_words(void **state)
{
    static const struct {
        int64_t time_s;
        const char *line;
    } rows[] = {
        {-1, "pennygate: level=info x\n"},
        {0, "pennygate: time=1970-01-01T00:00:00Z level=info x\n"},
        {951782400, "pennygate: time=2000-02-29T00:00:00Z level=info x\n"},
        {AT, "pennygate: time=2026-01-31T23:59:59Z level=info x\n"},
        {AT + 1, "pennygate: time=2026-02-01T00:00:00Z level=info x\n"},
        {INT64_MAX, "pennygate: time=9999-12-31T23:59:59Z level=info x\n"},
    };
    char line[LOG_LINE_MAX + 1];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct logform l = {"pennygate", rows[i].time_s, "info", "x", 0};

        assert_int_equal(logform_words(&l, line), strlen(rows[i].line));
        assert_string_equal(line, rows[i].line);
    }
    const struct logform nameless = {NULL, -1, "error", "a\"b", 3};
    logform_words(&nameless, line);
    assert_string_equal(line, "level=error a\\x22b suppressed=3\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_every_byte_and_pair_of_bytes_makes_valid_json),
        cmocka_unit_test(test_a_long_text_is_cut_and_stays_json),
        cmocka_unit_test(test_members_without_end_are_cut_and_stay_json),
        cmocka_unit_test(test_the_time_of_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
