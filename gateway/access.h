/*
 * Which pages may ask (F52), and what their browsers are told of it (CORS): a page of another
 * site must not spend the budget through its visitors' browsers, unless the owner has listed
 * its origin. Who sends no Origin is no page, or a page of our own that only reads.
 */
#ifndef GATEWAY_ACCESS_H
#define GATEWAY_ACCESS_H

#include <stdbool.h>

#include "gateway/config.h"
#include "gateway/exchange.h"

struct access {
    bool present;       /* an Origin came */
    bool refused;       /* of a page that may not ask */
    const char *origin; /* a listed one, exactly as it came (the exchange's), or NULL; of what
                           is shared alone, as the next two */
    bool varies;        /* other origins get other headers: no cache may mix them */
    bool credentials;   /* listed pages may send the visitor's cookie */
};

/* `c` may be NULL: then only our own host's pages may ask; so also if what is asked for is not
 * `shared` (route_shared), and no browser is told anything of it. */
void access_of(const struct exchange *x, const struct config *c, bool shared,
               struct access *out);

/*
 * Of the header names that a preflight asks for those that a page may send: what the interface
 * knows, and what the clients of OpenAI add by themselves. Divided by ", ". What does not fit is
 * left out. `asked` is NULL where the web server keeps the question to itself (uhttpd does): then
 * those that no request can do without.
 */
#define ACCESS_HEADERS_MAX 1024 /* of some ten names; OpenAI's client asks for 200 bytes */
void access_headers(const char *asked, char out[ACCESS_HEADERS_MAX]);

#endif
