/*
 * Who sent a request: the subjects of an exchange. Of the caller's own words nothing is
 * believed; an address is what the web server says it is (REMOTE_ADDR), because forwarded-for
 * headers are written by whoever likes to.
 */
#ifndef GATEWAY_CALLER_H
#define GATEWAY_CALLER_H

#include "gateway/code.h"
#include "gateway/exchange.h"
#include "store/ledger.h"

/*
 * CODE_NONE with *out filled. CODE_NO_ADDRESS if REMOTE_ADDR is missing, no address, or there
 * twice: a caller that cannot be counted is not served.
 */
enum code caller_of(const struct exchange *x, struct caller *out);

#endif
