/*
 * Who sent a request: the subjects of an exchange. Of the caller's own words only what this
 * site has signed or issued is believed (cookie, key, the owner's secret); the address and the
 * account are what the web server says they are (REMOTE_ADDR, REMOTE_USER), and forwarding
 * headers are read as far as trusted proxies have written them.
 */
#ifndef GATEWAY_CALLER_H
#define GATEWAY_CALLER_H

#include "gateway/code.h"
#include "gateway/config.h"
#include "gateway/cookie.h"
#include "gateway/exchange.h"
#include "platform/address.h"
#include "store/ledger.h"

#define CALLER_KEY_PREFIX "pg_" /* of the tokens that `keys add` makes */
#define CALLER_KEY_MAX    128   /* longest token looked at; `keys add` makes ones of 35 */

struct asker {
    struct caller caller;   /* for the ledger */
    struct address address; /* the caller's, for who is allowed to keep it */
    bool trusted;           /* the peer is a trusted proxy */
    bool proxied; /* a forwarding header came from a private address that is not trusted */
    /* A cookie is to be issued if the request is admitted: some limit is per visitor, and the
     * caller has shown none or an old one. */
    bool cookie_due, cookie_known; /* known: `cookie` is the old one */
    struct cookie cookie;
};

/*
 * CODE_NONE with *out filled. CODE_NO_ADDRESS if REMOTE_ADDR is missing, no address, or there
 * twice: a caller that cannot be counted is not served. CODE_UNAUTHORIZED if what
 * the configuration requires is not there, or a key that cannot be one of the site's was shown;
 * whether a well-formed one is, the ledger says. `today`: days since 1970.
 */
enum code caller_of(const struct exchange *x, const struct config *c, const struct ledger *l,
                    int64_t today, struct asker *out);

/* The address alone: CODE_NO_ADDRESS, or CODE_NONE with address, trusted and proxied filled. */
enum code caller_address(const struct exchange *x, const struct config *c, struct asker *out);
/* Whether the caller's own connection is encrypted, as the web server or a trusted proxy says. */
bool caller_https(const struct exchange *x, const struct asker *a);

/* The value of Set-Cookie for an asker with cookie_due; "" if there is no randomness. */
#define CALLER_COOKIE_MAX 256
void caller_cookie(const struct exchange *x, const struct config *c, const struct ledger *l,
                   int64_t today, const struct asker *a, char out[CALLER_COOKIE_MAX]);

/*
 * What makes a caller one subject: for whoever counts and for whoever forgives. An address is
 * its family, so that no IPv4 address equals the start of an IPv6 one, and the part that
 * counts (platform/address.h); an account is its name, or a hash of a long one, without the
 * blanks around it and in small letters, since to many user databases ann and Ann are one: at
 * worst two share a quota. False, and out all zero: a name of blanks is none. A key's is
 * ledger_key.id. All visitors of one address that show no cookie are the shared one of its id.
 */
void caller_address_id(const struct address *a, struct subject_id *out);
void caller_shared_id(const struct subject_id *address, struct subject_id *out);
bool caller_account_id(const struct ledger *l, const char *name, struct subject_id *out);
/* Whether two names are the same account. One of blanks is none, and the same as no other. */
bool caller_account_equal(const char *a, const char *b);

#endif
