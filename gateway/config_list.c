/*
 * Lists of origins, of proxies, of percentages and of accounts. Each entry is as strict as a
 * value by itself, and none may be there twice.
 */
#include "gateway/config_list.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "gateway/config.h"
#include "gateway/config_value.h"

#define ENTRY_MAX 288 /* an origin's name of 253 letters, scheme and port */

static bool read_origin(const char *text, void *out, char why[CONFIG_WHY_MAX])
{
    if (strcmp(text, "*") == 0)
        snprintf(why, CONFIG_WHY_MAX,
                 "'*' would let every page on the web spend this budget through its visitors: "
                 "name the pages' hosts");
    else if (strcmp(text, "null") == 0)
        snprintf(why, CONFIG_WHY_MAX,
                 "'null' is what any sandboxed frame of any page calls itself");
    else
        return origin_parse(text, out) ||
               config_value_not(
                   text, "an origin such as 'https://www.example.org', without a path", why);
    return false;
}

static bool read_prefix(const char *text, void *out, char why[CONFIG_WHY_MAX])
{
    return prefix_parse(text, out) ||
           config_value_not(
               text,
               "an address or a prefix such as 10.0.0.0/8 or 'fd00::/8' (no bits set behind "
               "its length)",
               why);
}

static bool read_percent(const char *text, void *out, char why[CONFIG_WHY_MAX])
{
    size_t n = strspn(text, "0123456789");
    unsigned long percent = n <= 3 && text[n] == '\0' ? strtoul(text, NULL, 10) : 0;

    if (percent < 1 || percent > 100 || text[0] == '0')
        return config_value_not(text, "a percentage from 1 to 100", why);
    *(uint8_t *)out = (uint8_t)percent;
    return true;
}

static bool read_name(const char *text, void *out, char why[CONFIG_WHY_MAX])
{
    for (const char *p = text; *p != '\0'; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return config_value_not(text, "an account: it has a control character", why);
    }
    if (strlen(text) >= CONFIG_ACCOUNT_MAX)
        return config_value_not(text, "an account: it is too long", why);
    snprintf(out, CONFIG_ACCOUNT_MAX, "%s", text);
    return true;
}

static bool same_origin(const void *a, const void *b)
{
    return origin_equal(a, b);
}

static bool same_prefix(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct prefix)) == 0;
}

static bool same_percent(const void *a, const void *b)
{
    return *(const uint8_t *)a == *(const uint8_t *)b;
}

/* A to Z as a to z, as callers' accounts are counted. */
static bool same_name(const void *a, const void *b)
{
    return strcasecmp(a, b) == 0;
}

static void write_origin(const void *entry, char out[ENTRY_MAX])
{
    const struct origin *o = entry;

    snprintf(out, ENTRY_MAX, "http%s://%s", o->https ? "s" : "", o->host);
    if (o->port != (o->https ? 443 : 80))
        snprintf(out + strlen(out), ENTRY_MAX - strlen(out), ":%u", o->port);
}

static void write_prefix(const void *entry, char out[ENTRY_MAX])
{
    const struct prefix *p = entry;

    inet_ntop(p->family == 4 ? AF_INET : AF_INET6, p->bytes, out, ENTRY_MAX);
    if (p->bits < (p->family == 4 ? 32 : 128))
        snprintf(out + strlen(out), ENTRY_MAX - strlen(out), "/%u", p->bits);
}

static void write_percent(const void *entry, char out[ENTRY_MAX])
{
    snprintf(out, ENTRY_MAX, "%u", *(const uint8_t *)entry);
}

static void write_name(const void *entry, char out[ENTRY_MAX])
{
    snprintf(out, ENTRY_MAX, "%s", (const char *)entry);
}

static const struct list {
    bool (*read)(const char *text, void *out, char why[CONFIG_WHY_MAX]);
    bool (*same)(const void *a, const void *b);
    void (*write)(const void *entry, char out[ENTRY_MAX]);
    size_t size, number; /* of an entry; where struct config says how many there are */
    bool ascending;      /* as bytes */
} lists[OPTION_KINDS] = {
    [OPTION_ORIGINS] = {read_origin, same_origin, write_origin, sizeof(struct origin),
                        offsetof(struct config, n_allowed_origins), false},
    [OPTION_PREFIXES] = {read_prefix, same_prefix, write_prefix, sizeof(struct prefix),
                         offsetof(struct config, n_trusted_proxies), false},
    [OPTION_PERCENTS] = {read_percent, same_percent, write_percent, 1,
                         offsetof(struct config, n_alert_at), true},
    [OPTION_NAMES] = {read_name, same_name, write_name, CONFIG_ACCOUNT_MAX,
                      offsetof(struct config, n_dashboard_accounts), false},
};

/* An entry's text without the blanks around it. */
static bool cut_entry(const char **text, char out[ENTRY_MAX])
{
    const char *from = *text + strspn(*text, " ");
    size_t n = strcspn(from, ",");

    *text = from[n] == ',' ? from + n + 1 : NULL;
    while (n > 0 && from[n - 1] == ' ')
        n--;
    snprintf(out, ENTRY_MAX, "%.*s", (int)(n < ENTRY_MAX ? n : 0), from);
    return n > 0 && n < ENTRY_MAX;
}

static bool add_entry(const struct list *k, const char *text, char *entries, unsigned n,
                      char why[CONFIG_WHY_MAX])
{
    char q[CONFIG_QUOTED_MAX], *entry = entries + n * k->size;

    if (!k->read(text, entry, why))
        return false;
    for (unsigned i = 0; i < n; i++) {
        if (k->same(entries + i * k->size, entry)) {
            snprintf(why, CONFIG_WHY_MAX, "has %s twice", config_value_quoted(text, q));
            return false;
        }
    }
    if (k->ascending && n > 0 && entry[-1] > entry[0]) {
        snprintf(why, CONFIG_WHY_MAX, "must ascend, and %s is below what stands before it",
                 config_value_quoted(text, q));
        return false;
    }
    return true;
}

/* "a, b" or, for none, "". */
bool config_list_set(const struct option *o, const char *text, void *base,
                     char why[CONFIG_WHY_MAX])
{
    const struct list *k = &lists[o->kind];
    const size_t max = (size_t)o->max;
    char entry[ENTRY_MAX], *entries = calloc(max, k->size);
    unsigned n = 0;
    bool ok = entries != NULL;

    snprintf(why, CONFIG_WHY_MAX, "out of memory");
    if (text[strspn(text, " ")] == '\0')
        text = NULL;
    while (ok && text != NULL) {
        ok = n < max;
        if (!ok)
            snprintf(why, CONFIG_WHY_MAX, "has more than %zu entries", max);
        else if (!cut_entry(&text, entry))
            ok = config_value_not(entry, "an entry: it is empty or far too long", why);
        else
            ok = add_entry(k, entry, entries, n++, why);
    }
    if (ok && n < o->min) {
        snprintf(why, CONFIG_WHY_MAX, "is empty");
        ok = false;
    }
    if (ok) {
        memcpy((char *)base + o->offset, entries, max * k->size);
        memcpy((char *)base + k->number, &n, sizeof n);
    }
    free(entries);
    return ok;
}

unsigned config_list_entries(const struct option *o, const void *base)
{
    unsigned n;

    memcpy(&n, (const char *)base + lists[o->kind].number, sizeof n);
    return n;
}

char *config_list_entry(const struct option *o, const void *base, unsigned i,
                        char out[CONFIG_VALUE_MAX])
{
    const struct list *k = &lists[o->kind];

    k->write((const char *)base + o->offset + i * k->size, out);
    return out;
}

/* As many entries as there is room for. */
void config_list_text(const struct option *o, const void *base, char out[CONFIG_VALUE_MAX])
{
    unsigned number = config_list_entries(o, base);
    char entry[CONFIG_VALUE_MAX];
    size_t n = 0;

    if (number == 0)
        return;
    for (unsigned i = 0; i < number && n < CONFIG_VALUE_MAX; i++)
        n += (size_t)snprintf(out + n, CONFIG_VALUE_MAX - n, "%s%s", i == 0 ? "{" : ", ",
                              config_list_entry(o, base, i, entry));
    if (n + 1 < CONFIG_VALUE_MAX)
        snprintf(out + n, CONFIG_VALUE_MAX - n, "}");
    else
        snprintf(out + CONFIG_VALUE_MAX - 5, 5, "...}");
}
