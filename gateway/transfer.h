/*
 * One call as a libcurl handle: its options and what libcurl calls while it runs, for
 * upstream.c, which owns the handles. With it what every transfer of ours is bound to, also
 * those of webhook.c.
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

/* Adds a line to a list that transfer_wipe_headers takes. False: out of memory. */
bool transfer_add_header(struct curl_slist **headers, const char *line);
/* Overwrites and frees them; *headers becomes NULL. */
void transfer_wipe_headers(struct curl_slist **headers);

/* A POST over http or https only, without redirects, proxies or signals. False: not taken. */
bool transfer_fix(CURL *easy);

/* Trusts the certificates of this file alone; NULL: those that libcurl was built for. False: not
 * taken. */
bool transfer_trust(CURL *easy, const char *ca_file);

/* Makes c->easy, a handle without options, a transfer of the call. */
bool transfer_set(struct call *c, CURLSH *sessions);

#endif
