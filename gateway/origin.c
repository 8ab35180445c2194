/*
 * Origins. Security: what a browser writes in Origin and Host has one form; whatever departs
 * from it is no origin and no host, and so equals none.
 */
#include "gateway/origin.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "platform/address.h"

#define LABEL_MAX   63 /* RFC 1035 */
#define PORT_DIGITS 5
#define PORT_MAX    65535

static const struct {
    const char *text;
    uint16_t port;
} schemes[] = {
    [false] = {"http://", 80},
    [true] = {"https://", 443},
};

static uint16_t own_port(bool https)
{
    return schemes[https].port;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* All of text[0..n) as a port: no sign, no leading zero, 1 to 65535. 0: none. */
static uint16_t parse_port(const char *text, size_t n)
{
    unsigned port = 0;

    if (n == 0 || n > PORT_DIGITS || text[0] == '0')
        return 0;
    for (size_t i = 0; i < n; i++) {
        if (!is_digit(text[i]))
            return 0;
        port = port * 10 + (unsigned)(text[i] - '0');
    }
    return port <= PORT_MAX ? (uint16_t)port : 0;
}

static char lower(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (char)(c - 'A' + 'a');
    return c;
}

/* '_' is none of a host name's characters, but names of private networks have it. */
static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || is_digit(c) || c == '-' || c == '_';
}

/* A name or a dotted IPv4 address. */
static bool parse_name(const char *text, size_t n, char out[ORIGIN_HOST_MAX + 1])
{
    struct address unused;
    size_t label = 0;   /* characters of the label so far */
    bool digits = true; /* only such in it */

    if (n == 0 || n > ORIGIN_HOST_MAX)
        return false;
    for (size_t i = 0; i < n; i++) {
        char c = out[i] = lower(text[i]);
        if (c == '.' && label > 0) {
            label = 0;
            digits = true;
        } else if (is_name_char(c) && label < LABEL_MAX) {
            label++;
            digits = digits && is_digit(c);
        } else {
            return false;
        }
    }
    out[n] = '\0';
    /* What ends in a number is an address to browsers, who rewrite all but the plain form. */
    return label > 0 && (!digits || address_parse(out, n, &unused));
}

/* "[address]" in the library's spelling, since several are the same host. */
static bool parse_ipv6(const char *text, size_t n, char out[ORIGIN_HOST_MAX + 1])
{
    struct address address;

    if (memchr(text, '%', n) || !address_parse(text, n, &address) || address.family != 6)
        return false;
    out[0] = '[';
    if (!inet_ntop(AF_INET6, address.bytes, out + 1, INET6_ADDRSTRLEN))
        return false;
    size_t end = strlen(out);
    out[end] = ']';
    out[end + 1] = '\0';
    return true;
}

/* "host" (*port becomes 0) or "host:port". */
static bool parse_authority(const char *text, char host[ORIGIN_HOST_MAX + 1], uint16_t *port)
{
    size_t n = strlen(text), host_n;
    bool ipv6 = text[0] == '[';
    const char *end = strchr(text, ipv6 ? ']' : ':');

    if (ipv6 && !end)
        return false;
    host_n = end ? (size_t)(end - text) + ipv6 : n;
    *port = 0;
    if (host_n < n) {
        *port = text[host_n] == ':' ? parse_port(text + host_n + 1, n - host_n - 1) : 0;
        if (*port == 0)
            return false;
    }
    return ipv6 ? parse_ipv6(text, host_n, host) : parse_name(text, host_n, host);
}

bool origin_parse(const char *text, struct origin *out)
{
    for (unsigned i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        size_t n = strlen(schemes[i].text);
        struct origin parsed = {.https = i == true};

        if (strncasecmp(text, schemes[i].text, n) != 0)
            continue;
        if (!parse_authority(text + n, parsed.host, &parsed.port))
            return false;
        if (parsed.port == 0)
            parsed.port = schemes[i].port;
        *out = parsed;
        return true;
    }
    return false;
}

bool origin_equal(const struct origin *a, const struct origin *b)
{
    return a->https == b->https && a->port == b->port && strcmp(a->host, b->host) == 0;
}

bool origin_is_host(const struct origin *o, const char *http_host, const char *server_port)
{
    char host[ORIGIN_HOST_MAX + 1];
    uint16_t port;

    if (!http_host || !parse_authority(http_host, host, &port) || strcmp(host, o->host) != 0)
        return false;
    if (port != 0)
        return port == o->port;
    return o->port == own_port(o->https) ||
           (server_port && o->port == parse_port(server_port, strlen(server_port)));
}
