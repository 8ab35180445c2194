/*
 * One call as a libcurl handle: its options and what libcurl calls while it runs. Private to
 * upstream.c, which owns the handles.
 */
#ifndef GATEWAY_TRANSFER_H
#define GATEWAY_TRANSFER_H

#include <stdbool.h>

#include "gateway/call.h"
#include "gateway/libcurl.h"

/* Copies the request's headers into the call. False: out of memory. */
bool transfer_headers(struct call *c, const struct call_request *r);

/* Overwrites and frees them: one may hold the key. */
void transfer_wipe(struct call *c);

/* Makes c->easy, a handle without options, a transfer of the call. */
bool transfer_set(struct call *c, CURLSH *sessions);

#endif
