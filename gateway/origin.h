/*
 * Origins (pure): which web pages may ask. A browser names the page that asks in the Origin
 * header; a page of another site must not spend the budget through its visitors' browsers.
 */
#ifndef GATEWAY_ORIGIN_H
#define GATEWAY_ORIGIN_H

#include <stdbool.h>
#include <stdint.h>

#define ORIGIN_HOST_MAX 253 /* a name's longest: RFC 1035 */

struct origin {
    bool https;
    uint16_t port;                  /* the scheme's own if none is written */
    char host[ORIGIN_HOST_MAX + 1]; /* small letters; IPv6 in brackets, in one spelling */
};

/* "https://host[:port]", nothing behind it, in any case of letters; the host a name in ASCII, an
 * IPv4 address in its plain form, or an IPv6 address in brackets. False, out untouched, for
 * anything else ("null", "*", other schemes, user names, paths, ports with leading zeros). */
bool origin_parse(const char *text, struct origin *out);
bool origin_equal(const struct origin *a, const struct origin *b);

/*
 * Whether the origin is the host that the request was sent to. The scheme is not compared,
 * because behind a terminating proxy nobody knows it. A port in HTTP_HOST must be the origin's.
 * Without one (it is the scheme's own, or was cut off, as nginx on Debian does) the origin's
 * must be its scheme's own or SERVER_PORT. Both may be NULL, and hold anything: what
 * is no host equals none.
 */
bool origin_is_host(const struct origin *o, const char *http_host, const char *server_port);

#endif
