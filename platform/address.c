/*
 * Addresses from hostile text: headers and parameters that a web server passes on. Whatever is
 * not certainly one address is refused, so that nobody has a second identity by spelling.
 * IPv4 is parsed here because the libraries disagree on octal and on short forms; IPv6 by
 * inet_pton after the text was reduced to digits, colons and a strict IPv4 tail.
 */
#include "platform/address.h"

#include <arpa/inet.h>
#include <string.h>

#define PORT_DIGITS 5
#define PORT_MAX    65535
#define IPV6_BYTES  16

struct span {
    const char *at;
    size_t n;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex_digit(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static struct span tail(struct span s, size_t from)
{
    return (struct span){s.at + from, s.n - from};
}

/* The index of the first c, or s.n. */
static size_t find(struct span s, char c)
{
    const char *hit = s.n > 0 ? memchr(s.at, c, s.n) : NULL;

    return hit ? (size_t)(hit - s.at) : s.n;
}

/* A decimal number of at most max_digits that is all of the span. */
static bool parse_number(struct span s, size_t max_digits, unsigned max, unsigned *out)
{
    unsigned value = 0;

    if (s.n == 0 || s.n > max_digits)
        return false;
    for (size_t i = 0; i < s.n; i++) {
        if (!is_digit(s.at[i]))
            return false;
        value = value * 10 + (unsigned)(s.at[i] - '0');
    }
    *out = value;
    return value <= max;
}

static bool parse_ipv4(struct span s, uint8_t out[4])
{
    for (unsigned i = 0; i < 4; i++) {
        size_t n = find(s, '.');
        unsigned value;

        if ((i < 3) != (n < s.n))
            return false;
        if (!parse_number((struct span){s.at, n}, 3, 255, &value))
            return false;
        if (n > 1 && s.at[0] == '0') /* octal to some readers */
            return false;
        out[i] = (uint8_t)value;
        s = tail(s, n < s.n ? n + 1 : n);
    }
    return true;
}

/* "" or ":port"; the port is checked and dropped. */
static bool is_port(struct span s)
{
    unsigned port;

    return s.n == 0 ||
           (s.at[0] == ':' && parse_number(tail(s, 1), PORT_DIGITS, PORT_MAX, &port));
}

/* Cuts a zone id off; false if it is empty or holds what no interface is called. */
static bool drop_zone(struct span *s)
{
    size_t n = find(*s, '%');

    if (n == s->n)
        return true;
    if (n + 1 == s->n)
        return false;
    for (size_t i = n + 1; i < s->n; i++) {
        if (s->at[i] <= ' ' || s->at[i] > '~' || strchr("[]:/,;\"", s->at[i]))
            return false;
    }
    s->n = n;
    return true;
}

/* Only hexadecimal groups, but for an IPv4 address behind the last colon. */
static bool is_ipv6_text(struct span s)
{
    size_t last = 0; /* where the last group begins */

    for (size_t i = 0; i < s.n; i++) {
        if (s.at[i] == ':')
            last = i + 1;
    }
    if (find(tail(s, last), '.') < s.n - last) {
        uint8_t unused[4];

        if (!parse_ipv4(tail(s, last), unused))
            return false;
        s.n = last;
    }
    for (size_t i = 0; i < s.n; i++) {
        if (s.at[i] != ':' && !is_hex_digit(s.at[i]))
            return false;
    }
    return true;
}

static bool parse_ipv6(struct span s, struct address *out)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    char text[ADDRESS_TEXT_MAX + 1];
    uint8_t bytes[IPV6_BYTES];

    if (!drop_zone(&s) || s.n > ADDRESS_TEXT_MAX || !is_ipv6_text(s))
        return false;
    memcpy(text, s.at, s.n);
    text[s.n] = '\0';
    if (inet_pton(AF_INET6, text, bytes) != 1)
        return false;
    if (memcmp(bytes, mapped, sizeof mapped) == 0) {
        out->family = 4;
        memcpy(out->bytes, bytes + sizeof mapped, 4);
    } else {
        out->family = 6;
        memcpy(out->bytes, bytes, IPV6_BYTES);
    }
    return true;
}

static bool parse_bracketed(struct span s, struct address *out)
{
    size_t close = find(s, ']');

    if (close == s.n || !is_port(tail(s, close + 1)))
        return false;
    return parse_ipv6((struct span){s.at + 1, close - 1}, out);
}

static bool parse_dotted(struct span s, struct address *out)
{
    size_t colon = find(s, ':');

    if (!is_port(tail(s, colon)))
        return false;
    out->family = 4;
    return parse_ipv4((struct span){s.at, colon}, out->bytes);
}

bool address_parse(const char *text, size_t n, struct address *out)
{
    struct span s = {text, n};
    struct address parsed = {0};
    bool ok;

    if (n == 0 || n > ADDRESS_TEXT_MAX)
        return false;
    size_t colon = find(s, ':');
    if (text[0] == '[')
        ok = parse_bracketed(s, &parsed);
    else if (colon < n && find(tail(s, colon + 1), ':') < n - colon - 1)
        ok = parse_ipv6(s, &parsed); /* two colons: an address, not a port */
    else
        ok = parse_dotted(s, &parsed);
    if (ok)
        *out = parsed;
    return ok;
}

unsigned address_subject_bytes(const struct address *a)
{
    return a->family == 4 ? 4 : 8;
}

bool address_equal(const struct address *a, const struct address *b)
{
    return a->family == b->family && memcmp(a->bytes, b->bytes, address_subject_bytes(a)) == 0;
}
