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
    uint16_t port; /* the scheme's own if none is written */
    char host[ORIGIN_HOST_MAX + 1]; /* small letters; IPv6 in brackets */
};

/* "https://host[:port]", nothing behind it. False, out untouched, for anything else ("null",
 * "*", other schemes, user names, paths). */
bool origin_parse(const char *text, struct origin *out);
bool origin_equal(const struct origin *a, const struct origin *b);

/*
 * Whether the origin is the host that the request was sent to: HTTP_HOST, of which some servers
 * have cut the port (facts, section 2: nginx), then SERVER_PORT says it. The scheme is not
 * compared, because behind a terminating proxy nobody knows it. Both may be NULL.
 */
bool origin_is_host(const struct origin *o, const char *http_host, const char *server_port);

#endif
