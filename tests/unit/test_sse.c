/* The event reader: the same events for every split of the bytes and every line ending. */
#include "gateway/sse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Events as "name=data|name=data|". */
struct seen {
    char text[512];
    size_t n;
    unsigned events, stop_after; /* 0: never */
};

static bool see(void *arg, const char *event, const char *data, size_t n)
{
    struct seen *s = arg;
    assert_int_equal(data[n], '\0');
    if (n < 200)
        s->n += (size_t)snprintf(s->text + s->n, sizeof s->text - s->n, "%s=%s|", event, data);
    assert_true(s->n < sizeof s->text);
    return ++s->events != s->stop_after;
}

static void expect(const char *what, const char *bytes, size_t n, const char *events)
{
    for (size_t step = 1; step <= n; step++) {
        struct sse s;
        struct seen seen = {.n = 0};
        sse_init(&s);
        for (size_t i = 0; i < n; i += step)
            assert_true(sse_feed(&s, bytes + i, step < n - i ? step : n - i, see, &seen));
        sse_free(&s);
        if (strcmp(seen.text, events) != 0)
            fail_msg("%s, %zu bytes a time: '%s', not '%s'", what, step, seen.text, events);
    }
}

#define ROW(what, bytes, events)                                                               \
    {                                                                                          \
        what, bytes, sizeof bytes - 1, events                                                  \
    }

/* F30, F31, F32: each row is fed in pieces of every size. */
static void test_f30_f31_f32_events(void **state)
{
    static const struct {
        const char *what;
        const char *bytes;
        size_t n;
        const char *events;
    } rows[] = {
        ROW("an event", "data: a\n\n", "message=a|"),
        ROW("F31: CR LF", "data: a\r\n\r\ndata: b\r\n\r\n", "message=a|message=b|"),
        ROW("F31: CR LF within an event", "data: a\r\ndata: b\r\n\r\n", "message=a\nb|"),
        ROW("F31: lone CR", "data: a\r\rdata: b\r\r", "message=a|message=b|"),
        ROW("F31: endings mixed", "data: a\r\n\rdata: b\n\r\n\ndata: c\r\r\n",
            "message=a|message=b|message=c|"),
        ROW("F31: no blank after the colon", "data:a\n\n", "message=a|"),
        ROW("F31: only one blank is left out", "data:  a \n\n", "message= a |"),
        ROW("F31: a byte order mark",
            "\xEF\xBB\xBF"
            "data: a\n\n",
            "message=a|"),
        ROW("F31: only the first mark is one",
            "\xEF\xBB\xBF\xEF\xBB\xBF"
            "data: a\n\ndata: b\n\n",
            "message=b|"),
        ROW("half a mark begins an unknown field",
            "\xEF\xBB"
            "data: a\n\ndata: b\n\n",
            "message=b|"),
        ROW("half a mark, then a blank line", "\xEF\n\ndata: b\n\n", "message=b|"),
        ROW("F30: comments", ": OPENROUTER PROCESSING\n\n:\n\n:data: x\ndata: a\n:\n\n",
            "message=a|"),
        ROW("F32: lines are joined", "data: a\ndata: b\ndata\ndata:\ndata: c\n\n",
            "message=a\nb\n\n\nc|"),
        ROW("F32: an empty line of data", "data:\n\n", "message=|"),
        ROW("F32: two of them", "data\ndata\n\n", "message=\n|"),
        ROW("F32: cut UTF-8 and U+2028", "data: \xF0\x9F\x98\x80\xE2\x80\xA8x\n\n",
            "message=\xF0\x9F\x98\x80\xE2\x80\xA8x|"),
        ROW("a name", "event: ping\ndata: a\n\n", "ping=a|"),
        ROW("the last name counts", "event: a\nevent:b\ndata: c\n\n", "b=c|"),
        ROW("an empty name is none", "event: a\nevent\ndata: c\n\n", "message=c|"),
        ROW("a name without data is no event, and is forgotten", "event: a\n\ndata: b\n\n",
            "message=b|"),
        ROW("a long name is cut",
            "event: 0123456789012345678901234567890123456789\ndata: a\n\n",
            "0123456789012345678901234567890=a|"),
        ROW("hostile: a NUL ends a name, wherever the bytes are cut",
            "event: ab\0cd\ndata: a\n\nevent: \0\ndata: b\n\n", "ab=a|message=b|"),
        ROW("other fields", "id: 1\nretry: 5\ndatax: 1\ndat: 2\nDATA: 3\n data: 4\ndata: a\n\n",
            "message=a|"),
        ROW("a field of 300 bytes",
            "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
            "data: b\ndata: a\n\n",
            "message=a|"),
        ROW("a colon in the data", "data: {\"a\":\"data: \"}\n\n",
            "message={\"a\":\"data: \"}|"),
        ROW("an unfinished event is none", "data: a\n\ndata: b\n", "message=a|"),
        ROW("not even with its line cut", "data: a\n\ndata: b", "message=a|"),
        ROW("blank lines", "\n\r\n\r\r\n\ndata: a\n\n\n\n", "message=a|"),
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        expect(rows[i].what, rows[i].bytes, rows[i].n, rows[i].events);
}

/* Feeds n bytes of data in one event, then a blank line. */
static bool feed_large(size_t n, struct seen *seen)
{
    struct sse s;
    char piece[1000];
    memset(piece, 'x', sizeof piece);
    sse_init(&s);
    bool ok = sse_feed(&s, "data: ", 6, see, seen);
    for (size_t left = n; left > 0;) {
        size_t part = left < sizeof piece ? left : sizeof piece;
        ok = sse_feed(&s, piece, part, see, seen);
        left -= part;
    }
    bool ended = sse_feed(&s, "\n\n", 2, see, seen);
    assert_true(ok || !ended);
    sse_free(&s);
    return ended;
}

static void test_f32_size_is_bounded(void **state)
{
    struct seen seen = {.n = 0};
    (void)state;
    assert_true(feed_large(SSE_EVENT_MAX, &seen));
    assert_int_equal(seen.events, 1);
    assert_false(feed_large(SSE_EVENT_MAX + 1, &seen));
    assert_int_equal(seen.events, 1);
}

static void test_hostile_lines_without_end(void **state)
{
    struct sse s;
    struct seen seen = {.n = 0};
    char piece[1000];
    (void)state;
    memset(piece, ':', sizeof piece);
    sse_init(&s);
    for (int i = 0; i < 1000; i++) /* a comment of a megabyte takes no memory */
        assert_true(sse_feed(&s, piece, sizeof piece, see, &seen));
    assert_null(s.data);
    assert_true(sse_feed(&s, "\ndata\n", 6, see, &seen));
    for (int i = 0; i < SSE_EVENT_MAX; i++)
        assert_true(sse_feed(&s, "data\n", 5, see, &seen));
    assert_false(sse_feed(&s, "data\n", 5, see, &seen)); /* empty lines of data add up too */
    assert_int_equal(seen.events, 0);
    sse_free(&s);
}

static void test_stops_when_told(void **state)
{
    static const char bytes[] = "data: a\n\ndata: b\n\ndata: c\n\n";
    struct sse s;
    struct seen seen = {.stop_after = 2};
    (void)state;
    sse_init(&s);
    assert_false(sse_feed(&s, bytes, sizeof bytes - 1, see, &seen));
    assert_false(sse_feed(&s, bytes, sizeof bytes - 1, see, &seen));
    assert_string_equal(seen.text, "message=a|message=b|");
    sse_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f30_f31_f32_events),
        cmocka_unit_test(test_f32_size_is_bounded),
        cmocka_unit_test(test_hostile_lines_without_end),
        cmocka_unit_test(test_stops_when_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
