/*
 * The visitor's cookie. Security: a cookie is ours if it is, byte for byte, what cookie_write
 * makes of what it says; so there is one spelling of each, and no decoder of macs to fool.
 */
#include "gateway/cookie.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define CODED      16 /* bytes of an id, and those that are kept of a mac */
#define CODED_TEXT 22 /* the same in base64url without padding */
#define DAY_DIGITS 7  /* until the year 29349 */
#define SLACK_DAYS 1  /* the clock may have been set back since */

_Static_assert(COOKIE_ID == CODED && MAC_SIZE >= CODED, "both are coded alike");

static const char base64url[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* The last character holds two bits and four zeros. */
static void encode(const uint8_t in[CODED], char out[CODED_TEXT + 1])
{
    for (unsigned i = 0; i < CODED_TEXT; i++) {
        unsigned bit = i * 6, byte = bit / 8;
        unsigned two = (unsigned)in[byte] << 8 | (byte + 1 < CODED ? in[byte + 1] : 0u);

        out[i] = base64url[two >> (10 - bit % 8) & 0x3f];
    }
    out[CODED_TEXT] = '\0';
}

/* The bits that are left over are not looked at: cookie_read compares the whole. */
static bool decode(const char in[CODED_TEXT], uint8_t out[CODED])
{
    memset(out, 0, CODED);
    for (unsigned i = 0; i < CODED_TEXT; i++) {
        const char *at = in[i] ? strchr(base64url, in[i]) : NULL;
        unsigned bit = i * 6, byte = bit / 8;

        if (!at)
            return false;
        unsigned two = (unsigned)(at - base64url) << (10 - bit % 8);
        out[byte] = (uint8_t)(out[byte] | two >> 8);
        if (byte + 1 < CODED)
            out[byte + 1] = (uint8_t)(out[byte + 1] | (two & 0xff));
    }
    return true;
}

void cookie_name(const uint8_t key[MAC_SIZE], char out[COOKIE_NAME_MAX])
{
    uint8_t mac[MAC_SIZE];

    mac_compute(key, "cookie name", NULL, 0, mac);
    snprintf(out, COOKIE_NAME_MAX, COOKIE_PREFIX "%02x%02x%02x%02x", mac[0], mac[1], mac[2],
             mac[3]);
}

void cookie_write(const uint8_t key[MAC_SIZE], const struct cookie *c,
                  char out[COOKIE_TEXT_MAX])
{
    char id[CODED_TEXT + 1], mac_text[CODED_TEXT + 1];
    uint8_t mac[MAC_SIZE];

    encode(c->id, id);
    int n = snprintf(out, COOKIE_TEXT_MAX, "1.%s.%" PRId64, id, c->day);
    mac_compute(key, "cookie", out, (size_t)n, mac);
    encode(mac, mac_text);
    snprintf(out + n, COOKIE_TEXT_MAX - (size_t)n, ".%s", mac_text);
}

/* The number up to the dot; false if there is none, or a long one. */
static bool parse_day(const char *text, int64_t *out)
{
    int64_t day = 0;
    unsigned i = 0;

    for (; text[i] >= '0' && text[i] <= '9' && i < DAY_DIGITS; i++)
        day = day * 10 + (text[i] - '0');
    *out = day;
    return i > 0 && text[i] == '.';
}

bool cookie_read(const uint8_t key[MAC_SIZE], const char *text, size_t n, int64_t today,
                 struct cookie *out)
{
    char given[COOKIE_TEXT_MAX] = {0}, ours[COOKIE_TEXT_MAX] = {0};
    struct cookie c;

    if (n >= sizeof given)
        return false;
    memcpy(given, text, n); /* ends with a NUL now, that no part takes for its own */
    if (memcmp(given, "1.", 2) != 0 || !decode(given + 2, c.id) ||
        given[2 + CODED_TEXT] != '.' || !parse_day(given + 2 + CODED_TEXT + 1, &c.day))
        return false;
    cookie_write(key, &c, ours);
    if (!mac_equal(given, ours, sizeof given) || strlen(ours) != n)
        return false;
    if (c.day - SLACK_DAYS > today || c.day + COOKIE_DAYS < today)
        return false;
    *out = c;
    return true;
}

struct part {
    const char *at;
    size_t n;
};

static struct part trim(struct part p)
{
    while (p.n > 0 && (p.at[0] == ' ' || p.at[0] == '\t')) {
        p.at++;
        p.n--;
    }
    while (p.n > 0 && (p.at[p.n - 1] == ' ' || p.at[p.n - 1] == '\t'))
        p.n--;
    return p;
}

static struct part unquote(struct part p)
{
    if (p.n >= 2 && p.at[0] == '"' && p.at[p.n - 1] == '"')
        return (struct part){p.at + 1, p.n - 2};
    return p;
}

/* Whether a part is `name = value`. */
static bool is_named(struct part p, const char *name, struct part *value)
{
    const char *equals = p.n > 0 ? memchr(p.at, '=', p.n) : NULL;

    if (!equals)
        return false;
    size_t n = (size_t)(equals - p.at);
    struct part left = trim((struct part){p.at, n});
    if (left.n != strlen(name) || memcmp(left.at, name, left.n) != 0)
        return false;
    *value = unquote(trim((struct part){equals + 1, p.n - n - 1}));
    return true;
}

unsigned cookie_find(const char *const *headers, unsigned n_headers, const char *name,
                     const char **value, size_t *n)
{
    struct part hit;
    unsigned found = 0;

    for (unsigned i = 0; i < n_headers; i++) {
        const char *at = headers[i];

        for (;;) {
            struct part p = {at, strcspn(at, ";,")};
            if (is_named(p, name, &hit) && found++ == 0) {
                *value = hit.at;
                *n = hit.n;
            }
            if (at[p.n] == '\0')
                break;
            at += p.n + 1;
        }
    }
    return found;
}
