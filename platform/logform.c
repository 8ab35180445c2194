/*
 * Lines of the log. Security: a text holds what callers, the model API and the owner's files
 * say; it must neither end a line, nor begin a member, nor make the line longer than its bound.
 */
#include "platform/logform.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define TIME_TEXT   72             /* six numbers, were they any */
#define TIME_MAX    253402300799LL /* the last second of the year 9999 */
#define UNIT        6              /* the longest that a character becomes: \u001f */
#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* ---- what both forms share ---- */

struct out {
    char *at;
    size_t n, max;
    bool full; /* something did not fit */
};

/* All of it or nothing. */
static void put(struct out *o, const char *bytes, size_t n)
{
    o->full |= n > o->max - o->n;
    if (o->full)
        return;
    memcpy(o->at + o->n, bytes, n);
    o->n += n;
}

static void put_text(struct out *o, const char *text)
{
    put(o, text, strlen(text));
}

static void put_number(struct out *o, unsigned n)
{
    char digits[12];

    put(o, digits, (size_t)snprintf(digits, sizeof digits, "%u", n));
}

/* By hand: strftime's words are those of a locale. */
static void time_text(int64_t time_s, char out[TIME_TEXT])
{
    const time_t t = (time_t)(time_s < TIME_MAX ? time_s : TIME_MAX);
    struct tm utc;

    if (gmtime_r(&t, &utc) == NULL)
        utc = (struct tm){.tm_year = 70, .tm_mday = 1};
    snprintf(out, TIME_TEXT, "%04d-%02d-%02dT%02d:%02d:%02dZ", utc.tm_year + 1900,
             utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec);
}

/* Writes how one character looks to `unit`, with *n its length, and returns how many bytes of
 * the text it took. */
typedef size_t unit_fn(const char *text, const char *end, char unit[UNIT + 1], size_t *n);

/* From `text` on to `end`, or as far as there is room; never half a unit. */
static void put_escaped(struct out *o, const char *text, const char *end, unit_fn *escape)
{
    while (text < end && !o->full) {
        char unit[UNIT + 1];
        size_t n, took = escape(text, end, unit, &n);

        put(o, unit, n);
        text += took;
    }
}

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c != 0x7f && c != '"' && c != '\\';
}

/* ---- words ---- */

static size_t words_unit(const char *text, const char *end, char unit[UNIT + 1], size_t *n)
{
    const unsigned char c = (unsigned char)*text;

    (void)end;
    unit[0] = *text;
    *n = is_plain(c) ? 1 : (size_t)snprintf(unit, UNIT + 1, "\\x%02x", c);
    return 1;
}

size_t logform_words(const struct logform *l, char line[LOG_LINE_MAX + 1])
{
    char suffix[32] = "\n", stamp[TIME_TEXT];
    struct out o = {.at = line};

    if (l->suppressed > 0)
        snprintf(suffix, sizeof suffix, " suppressed=%u\n", l->suppressed);
    o.max = LOG_LINE_MAX - strlen(suffix);
    if (l->program != NULL) {
        put_text(&o, l->program);
        put_text(&o, ": ");
    }
    if (l->time_s >= 0) {
        time_text(l->time_s, stamp);
        put_text(&o, "time=");
        put_text(&o, stamp);
        put_text(&o, " ");
    }
    put_text(&o, "level=");
    put_text(&o, l->level);
    put_text(&o, " ");
    put_escaped(&o, l->text, l->text + strlen(l->text), words_unit);
    memcpy(line + o.n, suffix, strlen(suffix) + 1);
    return o.n + strlen(suffix);
}

/* ---- JSON ---- */

/* By a character's first byte: how long it is, and what its second may be (RFC 3629), so that
 * nothing is written in a longer way than it must be, no surrogate and nothing above 0x10ffff. */
static const struct {
    unsigned char first, last, length, second_min, second_max;
} characters[] = {
    {0x00, 0x7f, 1, 0, 0},       {0xc2, 0xdf, 2, 0x80, 0xbf}, {0xe0, 0xe0, 3, 0xa0, 0xbf},
    {0xe1, 0xec, 3, 0x80, 0xbf}, {0xed, 0xed, 3, 0x80, 0x9f}, {0xee, 0xef, 3, 0x80, 0xbf},
    {0xf0, 0xf0, 4, 0x90, 0xbf}, {0xf1, 0xf3, 4, 0x80, 0xbf}, {0xf4, 0xf4, 4, 0x80, 0x8f},
};

static bool is_between(char c, unsigned char least, unsigned char most)
{
    return (unsigned char)c >= least && (unsigned char)c <= most;
}

/* How long the character at `text` is; 0: it is none. */
static size_t character(const char *text, const char *end)
{
    size_t i = 0, length;

    while (i < sizeof characters / sizeof characters[0] &&
           !is_between(*text, characters[i].first, characters[i].last))
        i++;
    if (i == sizeof characters / sizeof characters[0])
        return 0;
    length = characters[i].length;
    if ((size_t)(end - text) < length)
        return 0;
    if (length > 1 && !is_between(text[1], characters[i].second_min, characters[i].second_max))
        return 0;
    for (size_t k = 2; k < length; k++)
        if (!is_between(text[k], 0x80, 0xbf))
            return 0;
    return length;
}

static size_t json_unit(const char *text, const char *end, char unit[UNIT + 1], size_t *n)
{
    const size_t length = character(text, end);

    if (length == 0)
        *n = (size_t)snprintf(unit, UNIT + 1, REPLACEMENT);
    else if (*text == '"' || *text == '\\')
        *n = (size_t)snprintf(unit, UNIT + 1, "\\%c", *text);
    else if (length == 1 && !is_plain((unsigned char)*text))
        *n = (size_t)snprintf(unit, UNIT + 1, "\\u%04x", (unsigned)(unsigned char)*text);
    else
        memcpy(unit, text, *n = length);
    return length > 0 ? length : 1;
}

static void put_member(struct out *o, const char *name, const char *value)
{
    put_text(o, o->n > 1 ? ",\"" : "\"");
    put_text(o, name);
    put_text(o, "\":\"");
    put_escaped(o, value, value + strlen(value), json_unit);
    put_text(o, "\"");
}

/* A word of the text: name=value. A colon behind it ends the words. */
struct word {
    const char *name, *value, *end;
    size_t n_name;
    bool last;
};

static bool begins_name(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool in_name(char c)
{
    return begins_name(c) || c == '_' || (c >= '0' && c <= '9');
}

static bool is_word(const char *text, struct word *out)
{
    const char *c = text;

    if (!begins_name(*c))
        return false;
    while (in_name(*c))
        c++;
    *out = (struct word){.name = text, .value = c + 1, .n_name = (size_t)(c - text)};
    if (*c != '=' || out->n_name > LOGFORM_NAME)
        return false;
    out->end = out->value + strcspn(out->value, " ");
    out->last = out->end[0] == ' ' && out->end[-1] == ':';
    out->end -= out->last;
    return true;
}

static bool is_named(const struct word *w, const char *name, size_t n)
{
    return n == w->n_name && memcmp(name, w->name, n) == 0;
}

/* Whether a member of that name is there or may still come. */
static bool is_taken(const struct word *w, const struct word *before, size_t n)
{
    static const char *const own[] = {"time", "level", "suppressed", "message"};

    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (is_named(w, own[i], strlen(own[i])))
            return true;
    for (size_t i = 0; i < n; i++)
        if (is_named(w, before[i].name, before[i].n_name))
            return true;
    return false;
}

/* As JSON writes one: no leading zero, no "-0". */
static bool is_integer(const struct word *w)
{
    const char *c = w->value;
    size_t n;

    c += *c == '-';
    n = strspn(c, "0123456789");
    return n > 0 && n <= LOGFORM_INTEGER && c + n == w->end &&
           (*c != '0' || (n == 1 && c == w->value));
}

/* The member as a whole, or false and nothing of it. */
static bool put_word(struct out *o, const struct word *w)
{
    const size_t before = o->n;
    const char *quote = is_integer(w) ? "" : "\"";

    put_text(o, ",\"");
    put(o, w->name, w->n_name);
    put_text(o, "\":");
    put_text(o, quote);
    put_escaped(o, w->value, w->end, json_unit);
    put_text(o, quote);
    if (!o->full)
        return true;
    o->n = before;
    o->full = false;
    return false;
}

/* Returns what is left of the text. */
static const char *put_words(struct out *o, const char *text)
{
    struct word words[LOGFORM_WORDS];

    bool last = false;

    for (size_t n = 0; n < LOGFORM_WORDS && !last; n++) {
        if (!is_word(text, &words[n]) || is_taken(&words[n], words, n) ||
            !put_word(o, &words[n]))
            break;
        last = words[n].last;
        text = words[n].end + last;
        text += strspn(text, " ");
    }
    return text;
}

static void put_message(struct out *o, const char *text)
{
    static const char name[] = ",\"message\":\"";

    if (*text == '\0' || o->max - o->n < sizeof name + UNIT)
        return;
    put_text(o, name);
    o->max--; /* for the quote */
    put_escaped(o, text, text + strlen(text), json_unit);
    o->max++;
    o->full = false; /* it is cut */
    put_text(o, "\"");
}

size_t logform_json(const struct logform *l, char line[LOG_LINE_MAX + 1])
{
    static const char tail[] = "}\n";
    struct out o = {.at = line, .max = LOG_LINE_MAX - (sizeof tail - 1)};
    char stamp[TIME_TEXT];

    put_text(&o, "{");
    if (l->time_s >= 0) {
        time_text(l->time_s, stamp);
        put_member(&o, "time", stamp);
    }
    put_member(&o, "level", l->level);
    if (l->suppressed > 0) {
        put_text(&o, ",\"suppressed\":");
        put_number(&o, l->suppressed);
    }
    put_message(&o, put_words(&o, l->text));
    memcpy(line + o.n, tail, sizeof tail);
    return o.n + sizeof tail - 1;
}
