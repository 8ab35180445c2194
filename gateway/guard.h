/*
 * Who may see the owner's pages (/dashboard, /dashboard.json, /metrics): who shows the password
 * that `pennygate dashboard-password` has made (Basic, any user name), or an account of the web
 * server (REMOTE_USER) that `dashboard { accounts }` lists. Without either nobody may.
 */
#ifndef GATEWAY_GUARD_H
#define GATEWAY_GUARD_H

#include "gateway/config.h"
#include "gateway/exchange.h"

enum guard {
    GUARD_OPEN,
    GUARD_ASK,    /* no password was shown: it would help */
    GUARD_WRONG,  /* one was shown, or what is none, and it is not the site's */
    GUARD_CLOSED, /* there is no password to show */
    GUARD_ERROR   /* the store could not be asked: *e */
};
enum guard guard_check(const struct exchange *x, const struct config *c, struct ledger *l,
                       enum error *e);

/* What `ledger_set_password` and `ledger_password` keep of a password. */
void guard_hash(const struct ledger *l, const void *password, size_t n, uint8_t out[KEY_HASH]);

/* The password of a Basic header's value, decoded into out: RFC 7617, and base64 as RFC 4648 has
 * it, to the last bit. NULL: it is none. */
#define GUARD_TEXT_MAX 256 /* name and password: ours has 26 letters, and names are short */
const uint8_t *guard_password(const char *header, uint8_t out[GUARD_TEXT_MAX], size_t *n);

#endif
