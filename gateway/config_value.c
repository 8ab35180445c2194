/*
 * Reads and writes the values of options. Every reader is strict: the whole text or nothing, no
 * sign, no leading zero, no fraction that would be cut, no wrap. A typing error must never
 * become "no limit".
 */
#include "gateway/config_value.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "gateway/config.h"
#include "gateway/config_list.h"
#include "platform/mac.h"

#define SECOND ((uint64_t)1000)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)
#define DAY    (86400 * SECOND)
#define KIB    ((uint64_t)1024)
#define MIB    (1024 * KIB)

/* ---- numbers ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Decimal digits from *text on, no needless leading zero; *text is put behind them. */
static bool read_digits(const char **text, uint64_t *out)
{
    const char *p = *text;
    uint64_t v = 0;

    if (!is_digit(*p) || (*p == '0' && is_digit(p[1])))
        return false;
    for (; is_digit(*p); p++) {
        if (v > (UINT64_MAX - 9) / 10)
            return false;
        v = v * 10 + (uint64_t)(*p - '0');
    }
    *text = p;
    *out = v;
    return true;
}

struct suffix {
    char letter;
    uint64_t times;
};
static const struct suffix counts[] = {{'\0', 1}};
static const struct suffix sizes[] = {{'G', 1024 * MIB}, {'M', MIB}, {'K', KIB}, {'\0', 1}};
static const struct suffix durations[] = {
    {'d', DAY}, {'h', 3600 * SECOND}, {'m', 60 * SECOND}, {'s', SECOND}};

#define SUFFIXES(a) (a), sizeof(a) / sizeof((a)[0])

static const struct number {
    const struct suffix *suffix; /* from large to small; NULL: read and written otherwise */
    size_t n;
    const char *looks; /* "is not ..."; NULL: no number */
} numbers[OPTION_KINDS] = {
    [OPTION_COUNT] = {SUFFIXES(counts), "a whole number such as 40"},
    [OPTION_SIZE] = {SUFFIXES(sizes), "a size such as 65536, 128K or 16M"},
    [OPTION_DURATION] = {SUFFIXES(durations), "a time such as 10s, 5m, 2h or 7d"},
    [OPTION_MONEY] = {NULL, 0, "an amount of dollars such as '$0.15'"},
    [OPTION_FACTOR] = {NULL, 0, "a factor such as 1 or 1.25"},
    [OPTION_MODE] = {NULL, 0, "a mode of four octal digits such as 0660"},
};

static bool read_suffixed(const char *text, const struct number *k, uint64_t *out)
{
    uint64_t v;

    if (!read_digits(&text, &v))
        return false;
    for (size_t i = 0; i < k->n; i++) {
        const struct suffix *s = &k->suffix[i];

        if (*text != s->letter || (*text != '\0' && text[1] != '\0'))
            continue;
        return !__builtin_mul_overflow(v, s->times, out);
    }
    return false;
}

static bool read_factor(const char *text, uint64_t *out)
{
    uint64_t v;

    if (!read_digits(&text, &v) || v > UINT64_MAX / 1000 - 1)
        return false;
    v *= 1000;
    if (*text == '.') {
        if (!is_digit(*++text))
            return false;
        for (uint64_t unit = 100; is_digit(*text) && unit > 0; unit /= 10)
            v += (uint64_t)(*text++ - '0') * unit;
    }
    *out = v;
    return *text == '\0';
}

static bool read_mode(const char *text, uint64_t *out)
{
    if (strlen(text) != 4 || strspn(text, "01234567") != 4 || text[0] != '0')
        return false;
    *out = strtoul(text, NULL, 8);
    return true;
}

static bool read_number(unsigned kind, const char *text, uint64_t *out)
{
    if (kind == OPTION_MONEY)
        return price_parse(text, AMOUNT_MAX, out);
    if (kind == OPTION_FACTOR)
        return read_factor(text, out);
    if (kind == OPTION_MODE)
        return read_mode(text, out);
    return read_suffixed(text, &numbers[kind], out);
}

/* Without the noughts at the end, but for those of a whole number. */
static void write_factor(uint64_t v, char out[CONFIG_VALUE_MAX])
{
    int n = snprintf(out, CONFIG_VALUE_MAX, "%" PRIu64 ".%03u", v / 1000, (unsigned)(v % 1000));

    while (n > 0 && out[n - 1] == '0')
        out[--n] = '\0';
    if (n > 0 && out[n - 1] == '.')
        out[n - 1] = '\0';
}

static char *write_number(unsigned kind, uint64_t v, char out[CONFIG_VALUE_MAX])
{
    const struct number *k = &numbers[kind];
    size_t i = 0;

    if (kind == OPTION_MONEY)
        return price_format(v, out);
    if (kind == OPTION_FACTOR) {
        write_factor(v, out);
    } else if (kind == OPTION_MODE) {
        snprintf(out, CONFIG_VALUE_MAX, "%04o", (unsigned)v);
    } else {
        while (i + 1 < k->n && (v == 0 || v % k->suffix[i].times != 0))
            i++;
        snprintf(out, CONFIG_VALUE_MAX, "%" PRIu64 "%.1s", v / k->suffix[i].times,
                 &k->suffix[i].letter);
    }
    return out;
}

/* ---- messages ---- */

#define QUOTED_MAX (CONFIG_QUOTED_MAX - 8) /* of the value, beside quotes and dots */

const char *config_value_quoted(const char *text, char out[CONFIG_QUOTED_MAX])
{
    unsigned char before = 0, c;
    size_t n = 0;

    out[0] = '\'';
    for (; *text != '\0' && n < QUOTED_MAX; text++, before = c) {
        c = (unsigned char)*text;
        if (before < 0x80 || (c & 0xc0) != 0x80) /* one mark for each character of UTF-8 */
            out[++n] = (char)(c < 0x20 || c >= 0x7f ? '?' : c);
    }
    snprintf(out + 1 + n, CONFIG_QUOTED_MAX - 1 - n, "%s'", *text != '\0' ? "..." : "");
    return out;
}

static bool is_ascii(const char *text)
{
    while (*text != '\0' && (unsigned char)*text < 0x80)
        text++;
    return *text == '\0';
}

bool config_value_not(const char *text, const char *looks, char why[CONFIG_WHY_MAX])
{
    char q[CONFIG_QUOTED_MAX];

    snprintf(why, CONFIG_WHY_MAX, "%s is not %s%s", config_value_quoted(text, q), looks,
             is_ascii(text) ? "" : " (it is not plain ASCII)");
    return false;
}

/* ---- reading and writing targets ---- */

static void put_integer(void *target, size_t width, uint64_t v)
{
    uint8_t v8 = (uint8_t)v;
    uint32_t v32 = (uint32_t)v;

    if (width == sizeof v8)
        memcpy(target, &v8, sizeof v8);
    else if (width == sizeof v32)
        memcpy(target, &v32, sizeof v32);
    else if (width == sizeof v)
        memcpy(target, &v, sizeof v);
}

static uint64_t get_integer(const void *target, size_t width)
{
    uint8_t v8 = 0;
    uint32_t v32 = 0;
    uint64_t v = 0;

    if (width == sizeof v8) {
        memcpy(&v8, target, sizeof v8);
        return v8;
    }
    if (width == sizeof v32) {
        memcpy(&v32, target, sizeof v32);
        return v32;
    }
    if (width == sizeof v)
        memcpy(&v, target, sizeof v);
    return v;
}

static bool put_string(char **target, const char *text, size_t n, char why[CONFIG_WHY_MAX])
{
    char *copy = strndup(text, n);

    if (copy == NULL) {
        snprintf(why, CONFIG_WHY_MAX, "out of memory");
        return false;
    }
    free(*target);
    *target = copy;
    return true;
}

static bool out_of_range(const struct option *o, const char *text, char why[CONFIG_WHY_MAX])
{
    char q[CONFIG_QUOTED_MAX], least[CONFIG_VALUE_MAX], most[CONFIG_VALUE_MAX];

    snprintf(why, CONFIG_WHY_MAX, "%s is out of range: %.40s to %.40s",
             config_value_quoted(text, q), write_number(o->kind, o->min, least),
             write_number(o->kind, o->max, most));
    return false;
}

static bool set_number(const struct option *o, const char *text, void *target,
                       char why[CONFIG_WHY_MAX])
{
    uint64_t v;

    if (!read_number(o->kind, text, &v))
        return config_value_not(text, numbers[o->kind].looks, why);
    if (v < o->min || v > o->max)
        return out_of_range(o, text, why);
    put_integer(target, o->width, v);
    return true;
}

/* The index of a word, or -1 with the reason. */
static int find_word(const struct option *o, const char *text, char why[CONFIG_WHY_MAX])
{
    char q[CONFIG_QUOTED_MAX];
    size_t n;

    for (int i = 0; o->words[i] != NULL; i++) {
        if (strcmp(text, o->words[i]) == 0)
            return i;
    }
    n = (size_t)snprintf(why, CONFIG_WHY_MAX, "%s is none of:", config_value_quoted(text, q));
    for (int i = 0; o->words[i] != NULL && n < CONFIG_WHY_MAX; i++)
        n += (size_t)snprintf(why + n, CONFIG_WHY_MAX - n, " %s", o->words[i]);
    return -1;
}

/* Text without anything that could end a header line or a log line. */
static bool printable(const char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return false;
    }
    return true;
}

static bool looks_path(const char *text)
{
    return text[0] == '/';
}

/* What follows the scheme, or NULL if that is none of ours or no host follows. */
static const char *behind_scheme(const char *text)
{
    const char *host = strstr(text, "://");

    if (host == NULL || (strncmp(text, "https://", 8) != 0 && strncmp(text, "http://", 7) != 0))
        return NULL;
    host += 3;
    return strspn(host, "/:.-?") == 0 && *host != '\0' ? host : NULL;
}

/* http(s)://host[:port][/path]. What comes after `?` or before `@` could hold a secret, and
 * the provider's path could not be appended. */
static bool looks_url(const char *text)
{
    const char *host = behind_scheme(text);

    return host != NULL && strpbrk(host, " ?#@\\\"<>") == NULL;
}

/* The whole URL is a secret, and nothing is appended to it. */
static bool looks_hook(const char *text)
{
    const char *host = behind_scheme(text);

    return host != NULL && strpbrk(host, " #@\\\"<>") == NULL;
}

/* /a/b or the root, in characters that need no escaping, without empty or dotted parts. */
static bool looks_mount(const char *text)
{
    const char *plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~/";

    return text[0] == '/' && text[strspn(text, plain)] == '\0' && strstr(text, "//") == NULL &&
           strstr(text, "/.") == NULL;
}

static bool looks_text(const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        if ((unsigned char)*p > 0x7e)
            return false;
    }
    return text[0] != ' ' && text[strlen(text) - 1] != ' ';
}

/* A name that neither the servers before us nor we use for something else. */
static bool looks_header(const char *text)
{
    static const char *const taken[] = {"Accept",
                                        "Accept-Encoding",
                                        "Accept-Language",
                                        "Authorization",
                                        "Connection",
                                        "Content-Length",
                                        "Content-Type",
                                        "Cookie",
                                        "Date",
                                        "Expect",
                                        "Forwarded",
                                        "Host",
                                        "Keep-Alive",
                                        "Origin",
                                        "Proxy",
                                        "Proxy-Authorization",
                                        "Proxy-Connection",
                                        "Range",
                                        "Referer",
                                        "TE",
                                        "Trailer",
                                        "Transfer-Encoding",
                                        "Upgrade",
                                        "User-Agent",
                                        "Via",
                                        "X-Forwarded-For",
                                        "X-Forwarded-Host",
                                        "X-Forwarded-Proto",
                                        "X-Real-IP"};
    const char *plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-";

    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        if (strcasecmp(text, taken[i]) == 0)
            return false;
    }
    return text[0] != '-' && text[strspn(text, plain)] == '\0';
}

static bool looks_word(const char *text)
{
    return strchr(text, ' ') == NULL && looks_text(text);
}

static const struct string {
    bool (*looks)(const char *text);
    bool trim_slash;
    /* Values are not quoted: a key pasted in place of a file's name must not leak. */
    const char *wrong;
} strings[OPTION_KINDS] = {
    [OPTION_TEXT] = {looks_text, false, "is not plain ASCII text"},
    [OPTION_PATH] = {looks_path, false, "must be an absolute path"},
    [OPTION_URL] = {looks_url, true,
                    "must be like 'https://host/path', in quotes, without user, query or #"},
    [OPTION_HOOK] = {looks_hook, false,
                     "must be like 'https://host/path', in quotes, without user or #"},
    [OPTION_MOUNT] = {looks_mount, true, "must be a path such as '/ai'"},
    [OPTION_HEADER] = {looks_header, false,
                       "must be the name of a header (letters, digits, -) that nothing else "
                       "uses"},
    [OPTION_SECRET] = {looks_word, false, "is not one word of plain ASCII"},
};

static bool set_string(const struct option *o, const char *text, void *target,
                       char why[CONFIG_WHY_MAX])
{
    const struct string *k = &strings[o->kind];
    size_t n = strlen(text);

    if (n < o->min || n > o->max) {
        snprintf(why, CONFIG_WHY_MAX, n == 0 ? "is empty" : "is longer than %u characters",
                 (unsigned)o->max);
        return false;
    }
    if (!printable(text) || !k->looks(text)) {
        snprintf(why, CONFIG_WHY_MAX, "%s", k->wrong);
        return false;
    }
    while (k->trim_slash && n > 1 && text[n - 1] == '/')
        n--;
    return put_string(target, text, n, why);
}

static bool set_window(const char *text, void *target, char why[CONFIG_WHY_MAX])
{
    struct window w;

    if (!window_parse(text, &w))
        return config_value_not(
            text, "hour, day, month or a time such as 10s or 7d (a week), at most 366d", why);
    memcpy(target, &w, sizeof w);
    return true;
}

static uint8_t kind_of_unit(enum unit u)
{
    return u == UNIT_COST ? OPTION_MONEY : OPTION_COUNT;
}

/* The limit that has a WINDOW or a MAX. */
static const struct limit *limit_of(const struct option *o, const void *base)
{
    size_t within =
        o->kind == OPTION_MAX ? offsetof(struct limit, max) : offsetof(struct limit, window);

    return (const void *)((const char *)base + o->offset - within);
}

static bool set_max(const struct option *o, const char *text, void *target, enum unit unit,
                    char why[CONFIG_WHY_MAX])
{
    struct option as = *o;
    const uint64_t unlimited = LIMIT_UNLIMITED;

    if (strcmp(text, "unlimited") == 0) {
        memcpy(target, &unlimited, sizeof unlimited);
        return true;
    }
    as.kind = kind_of_unit(unit);
    return set_number(&as, text, target, why);
}

/* ---- any value ---- */

bool config_value_set(const struct option *o, const char *text, void *base,
                      char why[CONFIG_WHY_MAX])
{
    void *target = (char *)base + o->offset;
    int word;

    if (numbers[o->kind].looks != NULL)
        return set_number(o, text, target, why);
    if (strings[o->kind].looks != NULL)
        return set_string(o, text, target, why);
    if (o->kind == OPTION_WINDOW)
        return set_window(text, target, why);
    if (o->kind == OPTION_MAX)
        return set_max(o, text, target, limit_of(o, base)->unit, why);
    if (config_option_lists(o))
        return config_list_set(o, text, base, why);
    word = find_word(o, text, why);
    if (word < 0)
        return false;
    if (o->kind == OPTION_CHOICE)
        return put_string(target, text, strlen(text), why);
    put_integer(target, o->width, (uint64_t)word);
    return true;
}

/* ---- writing values back ---- */

char *config_value_amount(enum unit unit, uint64_t v, char out[CONFIG_VALUE_MAX])
{
    if (v != LIMIT_UNLIMITED)
        return write_number(kind_of_unit(unit), v, out);
    snprintf(out, CONFIG_VALUE_MAX, "unlimited");
    return out;
}

char *config_value_duration(uint64_t ms, char out[CONFIG_VALUE_MAX])
{
    return write_number(OPTION_DURATION, ms, out);
}

char *config_value_span(uint64_t ms, char out[CONFIG_VALUE_MAX])
{
    uint64_t unit = ms >= 2 * DAY ? HOUR : ms >= 2 * HOUR ? MINUTE : SECOND;

    return config_value_duration(ms / unit * unit, out);
}

/* NULL once it has been written to out by itself. */
static const char *window_text(const struct limit *l, char out[CONFIG_VALUE_MAX])
{
    static const char *const names[] = {
        [WINDOW_HOUR] = "hour", [WINDOW_DAY] = "day", [WINDOW_MONTH] = "month"};

    if (l->unit == UNIT_CONCURRENT)
        return NULL;
    if (l->window.kind != WINDOW_SLIDING)
        return names[l->window.kind];
    config_value_duration(l->window.seconds * SECOND, out);
    return NULL;
}

static bool on_heap(const struct option *o)
{
    return o->kind <= OPTION_CHOICE;
}

static char *string_at(const void *target)
{
    char *text;

    memcpy(&text, target, sizeof text);
    return text;
}

/* A secret URL's scheme and host. */
static char *write_host(const char *url, char out[CONFIG_VALUE_MAX])
{
    const char *host = strstr(url, "://") + 3;
    size_t n = strcspn(host, "/?");

    snprintf(out, CONFIG_VALUE_MAX, "%.*s%s", (int)((size_t)(host - url) + n), url,
             host[n] != '\0' ? "/..." : "");
    return out;
}

char *config_value_text(const struct option *o, const void *base, char out[CONFIG_VALUE_MAX])
{
    const void *target = (const char *)base + o->offset;
    const char *text = NULL;

    out[0] = '\0';
    if (numbers[o->kind].looks != NULL)
        return write_number(o->kind, get_integer(target, o->width), out);
    if (o->kind == OPTION_MAX)
        return config_value_amount(limit_of(o, base)->unit, limit_of(o, base)->max, out);
    if (o->kind == OPTION_WORD)
        text = o->words[get_integer(target, o->width)];
    else if (o->kind == OPTION_WINDOW)
        text = window_text(limit_of(o, base), out);
    else if (config_option_lists(o))
        config_list_text(o, base, out);
    else
        text = string_at(target);
    if (text != NULL && o->kind == OPTION_SECRET)
        text = "(set)";
    if (text != NULL && o->kind == OPTION_HOOK)
        return write_host(text, out);
    if (text != NULL)
        snprintf(out, CONFIG_VALUE_MAX, "%s", text);
    return out;
}

bool config_value_same(const struct option *o, const void *a, const void *b)
{
    const void *x = (const char *)a + o->offset, *y = (const char *)b + o->offset;
    const char *s, *t;

    if (!on_heap(o))
        return memcmp(x, y, o->width) == 0;
    s = string_at(x);
    t = string_at(y);
    return s == t || (s != NULL && t != NULL && strcmp(s, t) == 0);
}

void config_value_free(enum config_section s, void *base)
{
    unsigned n;
    const struct option *o = config_section_options(s, &n);

    for (; n > 0; o++, n--) {
        char *text = on_heap(o) ? string_at((char *)base + o->offset) : NULL;

        if (text != NULL)
            mac_wipe(text, strlen(text)); /* some are secrets */
        free(text);
    }
}
