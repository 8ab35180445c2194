/*
 * Who may see the owner's pages (/dashboard, /dashboard.json, /metrics): who shows the password
 * that `pennygate dashboard-password` has made (Basic, any user name), or an account of the web
 * server (REMOTE_USER) that `dashboard { accounts }` lists. Without either nobody may.
 */
#ifndef GATEWAY_GUARD_H
#define GATEWAY_GUARD_H

#include "gateway/code.h"
#include "gateway/config.h"
#include "gateway/exchange.h"

/* CODE_NONE; CODE_UNAUTHORIZED: a password would help; CODE_DASHBOARD_CLOSED: there is none yet;
 * or of an error of the store. */
enum code guard_check(const struct exchange *x, const struct config *c, struct ledger *l);

#endif
