/*
 * The caller's address behind proxies. Security: each trusted proxy appends one element, so
 * the header is read from its right end and no further than the first hop that is not trusted;
 * what stands left of that one was written by a stranger and is not looked at.
 *
 * That holds for quoted strings too. An element as a proxy writes it has its quotes in pairs
 * and no backslash outside them, so from the end leftwards a quote outside a string is always
 * one that closes, and the next one without a backslash before it opens. A stranger's unpaired
 * quote comes into play left of all this.
 */
#include "gateway/forwarded.h"

#include <string.h>
#include <strings.h>

#define HOPS_MAX 64 /* a chain is a few hops long; beyond this it is the peer */

struct span {
    const char *at;
    size_t n;
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

static struct span trim(struct span s)
{
    while (s.n > 0 && is_space(s.at[0])) {
        s.at++;
        s.n--;
    }
    while (s.n > 0 && is_space(s.at[s.n - 1]))
        s.n--;
    return s;
}

static bool has_bit(const uint8_t *bytes, unsigned bit)
{
    return bytes[bit / 8] >> (7 - bit % 8) & 1;
}

/* All of text: no leading zero, at most max. */
static bool parse_bits(const char *text, unsigned max, unsigned *out)
{
    unsigned value = 0;
    size_t n = strnlen(text, 4);

    if (n == 0 || n > 3 || (text[0] == '0' && n > 1))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = value * 10 + (unsigned)(text[i] - '0');
    }
    *out = value;
    return value <= max;
}

bool prefix_parse(const char *text, struct prefix *out)
{
    size_t n = strcspn(text, "/");
    struct span s = {text, n};
    struct prefix p = {0};
    struct address a;
    unsigned bits;

    /* no brackets, zones or ports here */
    if (strcspn(text, "[%") < n || !address_parse(s.at, s.n, &a))
        return false;
    bool dotted = !memchr(text, ':', n); /* otherwise of 128 bits, even if it is mapped */
    if (!dotted && a.family == 4 && !strchr(strchr(text, ':') + 1, ':'))
        return false; /* a port */
    bits = dotted ? 32 : 128;
    if (text[n] == '/' && !parse_bits(text + n + 1, bits, &bits))
        return false;
    if (!dotted && a.family == 4) {
        if (bits < 96)
            return false; /* its ones stand beyond */
        bits -= 96;
    }
    for (unsigned i = bits; i < 128; i++) {
        if (has_bit(a.bytes, i))
            return false;
    }
    p.family = a.family;
    p.bits = (uint8_t)bits;
    memcpy(p.bytes, a.bytes, sizeof p.bytes);
    *out = p;
    return true;
}

bool prefix_has(const struct prefix *p, const struct address *a)
{
    if (p->family != a->family)
        return false;
    for (unsigned i = 0; i < p->bits; i++) {
        if (has_bit(p->bytes, i) != has_bit(a->bytes, i))
            return false;
    }
    return true;
}

bool prefix_any_has(const struct prefix *p, unsigned n, const struct address *a)
{
    for (unsigned i = 0; i < n; i++) {
        if (prefix_has(&p[i], a))
            return true;
    }
    return false;
}

/* Where the quoted string whose last quote is s.at[close] begins: at a quote that is not
 * escaped, since it stands behind '='. s.n if there is none. */
static size_t find_opening(struct span s, size_t close)
{
    for (size_t i = close; i-- > 0;) {
        if (s.at[i] == '"' && (i == 0 || s.at[i - 1] != '\\'))
            return i;
    }
    return s.n;
}

/* Cuts the last element off; false if where it begins cannot be told. *more: whether a comma
 * stood before it. */
static bool cut_last(struct span *s, enum forwarded_form form, struct span *element, bool *more)
{
    size_t i = s->n;

    for (; i > 0 && s->at[i - 1] != ','; i--) {
        if (form == FORWARDED_RFC7239 && s->at[i - 1] == '"') {
            size_t opening = find_opening(*s, i - 1);
            if (opening == s->n)
                return false;
            i = opening + 1;
        }
    }
    *element = trim((struct span){s->at + i, s->n - i});
    *more = i > 0;
    s->n = i > 0 ? i - 1 : 0;
    return true;
}

static bool is_token_char(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

static struct span skip(struct span s, size_t n)
{
    return (struct span){s.at + n, s.n - n};
}

static size_t token_length(struct span s)
{
    size_t n = 0;

    while (n < s.n && is_token_char(s.at[n]))
        n++;
    return n;
}

/* A parameter's value, unescaped, as far as an address can be long: *out_n is its length,
 * above ADDRESS_TEXT_MAX if it is longer. False: it breaks the grammar. */
static bool take_value(struct span *s, char out[ADDRESS_TEXT_MAX], size_t *out_n)
{
    size_t i = 1, n = 0;

    if (s->n == 0 || s->at[0] != '"') {
        n = token_length(*s);
        memcpy(out, s->at, n < ADDRESS_TEXT_MAX ? n : ADDRESS_TEXT_MAX);
        *out_n = n;
        *s = skip(*s, n);
        return n > 0;
    }
    for (; i < s->n && s->at[i] != '"'; i++) {
        if (s->at[i] == '\\' && ++i == s->n)
            return false;
        if (((unsigned char)s->at[i] < ' ' && s->at[i] != '\t') || s->at[i] == 0x7f)
            return false;
        if (n < ADDRESS_TEXT_MAX)
            out[n] = s->at[i];
        n++;
    }
    if (i >= s->n)
        return false;
    *out_n = n;
    *s = skip(*s, i + 1);
    return true;
}

/* Takes `name=value` off; *is_for: whether it is who sent the request. */
static bool take_pair(struct span *s, bool *is_for, char value[ADDRESS_TEXT_MAX],
                      size_t *value_n)
{
    size_t n = token_length(*s);

    if (n == 0 || n == s->n || s->at[n] != '=')
        return false;
    *is_for = n == 3 && strncasecmp(s->at, "for", 3) == 0;
    *s = skip(*s, n + 1);
    return take_value(s, value, value_n);
}

/* The address of `for=` among the parameters of one element; each may be there once. */
static bool parse_rfc7239(struct span s, struct address *out)
{
    unsigned found = 0;

    for (;;) {
        char value[ADDRESS_TEXT_MAX];
        bool is_for = false;
        size_t n = 0;

        s = trim(s);
        if (s.n > 0 && s.at[0] != ';' && !take_pair(&s, &is_for, value, &n))
            return false;
        if (is_for && (found++ > 0 || !address_parse(value, n, out)))
            return false;
        s = trim(s);
        if (s.n == 0)
            return found == 1;
        if (s.at[0] != ';')
            return false;
        s = skip(s, 1);
    }
}

/* Only the end of a long value is looked at. */
static struct span last_bytes(const char *value, bool *cut)
{
    size_t n = strlen(value);

    *cut = n > FORWARDED_LOOK;
    return *cut ? (struct span){value + n - FORWARDED_LOOK, FORWARDED_LOOK}
                : (struct span){value, n};
}

void forwarded_find(const struct address *peer, const char *value, enum forwarded_form form,
                    const struct prefix *trusted, unsigned n_trusted, struct address *out)
{
    struct address hop = *peer;
    struct span left, element;
    bool more = true, cut;

    *out = *peer;
    if (!value || !prefix_any_has(trusted, n_trusted, peer))
        return;
    left = last_bytes(value, &cut);
    for (unsigned hops = 0; more; hops++) {
        if (hops == HOPS_MAX || !cut_last(&left, form, &element, &more) || (cut && !more))
            return;
        if (form == FORWARDED_RFC7239 ? !parse_rfc7239(element, &hop)
                                      : !address_parse(element.at, element.n, &hop))
            return;
        if (!prefix_any_has(trusted, n_trusted, &hop))
            break;
    }
    *out = hop;
}

/* Families: where a private network, or the machine itself, is. */
static const struct prefix private_prefixes[] = {
    {4, 8, {127}},        {4, 8, {10}},        {4, 12, {172, 16}},
    {4, 16, {192, 168}},  {4, 16, {169, 254}}, {4, 10, {100, 64}},
    {6, 128, {[15] = 1}}, {6, 7, {0xfc}},      {6, 10, {0xfe, 0x80}},
};

bool forwarded_is_private(const struct address *a)
{
    return prefix_any_has(private_prefixes,
                          sizeof private_prefixes / sizeof private_prefixes[0], a);
}
