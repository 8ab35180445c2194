/*
 * The lines of an export. Security stance: a line is hostile until it has been parsed, bounded,
 * written again and found to be the same; what its row means is for others to judge
 * (record_row_ok), and whether it is ours at all for the MAC.
 */
#include "store/export_line.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

static const char *const table_names[TABLE_END] = {
    [TABLE_META] = "meta",   [TABLE_HISTORY] = "history",
    [TABLE_DAY] = "day",     [TABLE_COUNTER] = "counter",
    [TABLE_ALERT] = "alert", [TABLE_RESERVATION] = "reservation",
    [TABLE_DRY] = "dry",
};

#define HEX(n)          (2 * (n) + 1)
#define GENERATION_TEXT 21 /* the longest 64-bit decimal and its NUL */

static const char digits[] = "0123456789abcdef";

static void to_hex(const uint8_t *bytes, size_t n, char *out)
{
    for (size_t i = 0; i < n; i++) {
        *out++ = digits[bytes[i] >> 4];
        *out++ = digits[bytes[i] & 15];
    }
    *out = '\0';
}

/* Upper case too: it is not what would be written. */
static int digit(char c)
{
    const char *at = c != '\0' ? strchr(digits, c) : NULL;

    return at != NULL ? (int)(at - digits) : -1;
}

static bool from_hex(const char *text, size_t max, uint8_t *out, size_t *n)
{
    size_t length = strlen(text);

    if (length % 2 != 0 || length / 2 > max)
        return false;
    for (size_t i = 0; i < length / 2; i++) {
        int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        out[i] = (uint8_t)(high << 4 | low);
    }
    *n = length / 2;
    return true;
}

/* Of this length and no other. */
static bool from_hex_exactly(const char *text, size_t n, uint8_t *out)
{
    size_t have;

    return strlen(text) == 2 * n && from_hex(text, n, out, &have);
}

/* ---- writing ---- */

static int write_window(const struct period_entry *w, char out[EXPORT_LINE_MAX])
{
    char key[HEX(MAC_SIZE)];
    int n;

    to_hex(w->key, sizeof w->key, key);
    n = snprintf(out, EXPORT_LINE_MAX,
                 "{\"window\":%" PRIu32 ",\"generation\":\"%" PRIu64 "\",\"period\":%" PRId64
                 ",\"key\":\"%s\"}\n",
                 w->code, w->generation, w->period, key);
    mac_wipe(key, sizeof key);
    return n;
}

static int write_row(const struct export_line *l, char out[EXPORT_LINE_MAX])
{
    char key[HEX(KV_KEY_MAX)], value[HEX(RECORD_MAX)];

    to_hex(l->key.bytes, l->key.n, key);
    to_hex(l->value.bytes, l->value.n, value);
    return snprintf(out, EXPORT_LINE_MAX, "{\"row\":\"%s\",\"key\":\"%s\",\"value\":\"%s\"}\n",
                    table_names[l->key.bytes[0]], key, value);
}

size_t export_line_write(const struct export_line *l, char out[EXPORT_LINE_MAX])
{
    char mac[HEX(MAC_SIZE)];
    int n = 0;

    switch (l->kind) {
    case EXPORT_HEAD:
        n = snprintf(out, EXPORT_LINE_MAX, "{\"pennygate\":\"store\",\"format\":%d}\n",
                     EXPORT_FORMAT);
        break;
    case EXPORT_WINDOW:
        n = write_window(&l->window, out);
        break;
    case EXPORT_ROW:
        n = write_row(l, out);
        break;
    case EXPORT_END:
        to_hex(l->mac, sizeof l->mac, mac);
        n = snprintf(out, EXPORT_LINE_MAX, "{\"rows\":%" PRIu64 ",\"mac\":\"%s\"}\n", l->rows,
                     mac);
        break;
    }
    return (size_t)n;
}

/* ---- reading ---- */

static enum error read_head(json_t *j, struct export_line *out)
{
    json_int_t format;
    const char *what;

    (void)out;
    if (json_unpack(j, "{s:s, s:I!}", "pennygate", &what, "format", &format) != 0)
        return ERROR_SYNTAX;
    return format == EXPORT_FORMAT ? ERROR_NONE : ERROR_STORE_VERSION;
}

static enum error read_window(json_t *j, struct export_line *out)
{
    struct period_entry *w = &out->window;
    const char *generation, *key;
    json_int_t code, period;
    struct window window;

    if (json_unpack(j, "{s:I, s:s, s:I, s:s!}", "window", &code, "generation", &generation,
                    "period", &period, "key", &key) != 0 ||
        code < 0 || code > UINT32_MAX || !window_from_code((uint32_t)code, &window) ||
        period < 0 || period > INSTANT_MAX_MS || strlen(generation) >= GENERATION_TEXT ||
        !from_hex_exactly(key, sizeof w->key, w->key))
        return ERROR_SYNTAX;
    w->code = (uint32_t)code;
    w->period = period;
    w->generation = strtoull(generation, NULL, 10);
    return ERROR_NONE;
}

static enum error read_row(json_t *j, struct export_line *out)
{
    const char *table, *key, *value;
    size_t n;

    if (json_unpack(j, "{s:s, s:s, s:s!}", "row", &table, "key", &key, "value", &value) != 0 ||
        !from_hex(key, sizeof out->key.bytes, out->key.bytes, &n) || n == 0 ||
        !from_hex(value, sizeof out->value.bytes, out->value.bytes, &out->value.n) ||
        out->key.bytes[0] < TABLE_META || out->key.bytes[0] >= TABLE_END)
        return ERROR_SYNTAX;
    out->key.n = (uint8_t)n;
    return ERROR_NONE;
}

static enum error read_end(json_t *j, struct export_line *out)
{
    const char *mac;
    json_int_t rows;

    if (json_unpack(j, "{s:I, s:s!}", "rows", &rows, "mac", &mac) != 0 || rows < 0 ||
        !from_hex_exactly(mac, sizeof out->mac, out->mac))
        return ERROR_SYNTAX;
    out->rows = (uint64_t)rows;
    return ERROR_NONE;
}

static const struct {
    const char *field; /* that only this kind has */
    enum error (*read)(json_t *j, struct export_line *out);
} kinds[] = {
    [EXPORT_HEAD] = {"pennygate", read_head},
    [EXPORT_WINDOW] = {"window", read_window},
    [EXPORT_ROW] = {"row", read_row},
    [EXPORT_END] = {"rows", read_end},
};

static enum error read_object(json_t *j, struct export_line *out)
{
    for (unsigned i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (json_object_get(j, kinds[i].field) != NULL) {
            out->kind = (enum export_kind)i;
            return kinds[i].read(j, out);
        }
    }
    return ERROR_SYNTAX;
}

/* Nothing of ours has an object or array within: the parser, which recurses, sees none. */
static bool is_flat(const char *text, size_t n)
{
    return n > 1 && n < EXPORT_LINE_MAX && text[0] == '{' &&
           memchr(text + 1, '{', n - 1) == NULL && memchr(text, '[', n) == NULL;
}

static bool is_written_so(const struct export_line *l, const char *text, size_t n)
{
    char again[EXPORT_LINE_MAX];
    bool same = export_line_write(l, again) == n && memcmp(again, text, n) == 0;

    mac_wipe(again, sizeof again);
    return same;
}

enum error export_line_read(const char *text, size_t n, struct export_line *out)
{
    enum error e;
    json_t *j;

    if (!is_flat(text, n))
        return ERROR_SYNTAX;
    j = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
    if (j == NULL)
        return ERROR_SYNTAX;
    e = read_object(j, out);
    json_decref(j);
    if (e == ERROR_NONE && !is_written_so(out, text, n))
        e = ERROR_SYNTAX;
    return e;
}

/* ---- the MAC ---- */

void export_mac_begin(struct export_mac *m, const uint8_t secret[MAC_SIZE])
{
    memset(m, 0, sizeof *m);
    mac_prepare(secret, &m->key);
}

void export_mac_add(struct export_mac *m, const char *text, size_t n)
{
    uint8_t link[MAC_SIZE + EXPORT_LINE_MAX];

    memcpy(link, m->running, MAC_SIZE);
    memcpy(link + MAC_SIZE, text, n);
    mac_with(&m->key, "export", link, MAC_SIZE + n, m->running);
    mac_wipe(link, sizeof link);
}
