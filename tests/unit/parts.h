/* A part of an answer as one line of text, for tables of what a dialect makes of some JSON. */
#ifndef TESTS_UNIT_PARTS_H
#define TESTS_UNIT_PARTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/provider.h"

typedef bool read_fn(const char *text, size_t n, struct part *out);

/* "input,cached,written,output", and "?" if it is provisional, "~" if it lacks the input. */
static inline void usage_text(const struct usage *u, char *out, size_t room)
{
    if (!u->known)
        snprintf(out, room, "-");
    else
        snprintf(out, room, "%llu,%llu,%llu,%llu%s%s", (unsigned long long)u->input,
                 (unsigned long long)u->cached_input, (unsigned long long)u->cache_write,
                 (unsigned long long)u->output, u->doubtful ? "?" : "",
                 u->lacks_input ? "~" : "");
}

static inline const char *finish_text(enum finish f)
{
    static const char *const finishes[] = {"-", "stop", "length", "filter", "other"};
    return finishes[f];
}

/* A part as "text/finish/usage/flags"; "nonsense" if it is none. */
static inline void expect_part(read_fn *read, const char *json, const char *expected)
{
    struct part p;
    char text[256], usage[96];
    memset(&p, 0x5A, sizeof p);
    if (!read(json, strlen(json), &p)) {
        assert_int_equal(p.bytes, (size_t)0x5A5A5A5A5A5A5A5A); /* untouched */
        if (strcmp(expected, "nonsense") != 0)
            fail_msg("%s: nonsense", json);
        return;
    }
    assert_int_equal(p.bytes, p.text == NULL ? 0 : strlen(p.text));
    usage_text(&p.usage, usage, sizeof usage);
    snprintf(text, sizeof text, "%s/%s/%s/%s%s%s", p.text == NULL ? "-" : p.text,
             finish_text(p.finish), usage, p.error ? "error" : "", p.refused ? " refused" : "",
             p.done ? "done" : "");
    if (strcmp(text, expected) != 0)
        fail_msg("%s: %s", json, text);
    part_free(&p);
    assert_null(p.text);
}

#endif
