/*
 * One alert as one POST of JSON to the owner's webhook. What it says is for a chat room or a
 * log of somebody else's: names of limits and aliases, percentages and times; no money, price,
 * real model name, address or key. Security: the other side is hostile, and its URL is a secret
 * (whoever knows it can post there): neither it nor anything of the answer is ever told.
 */
#ifndef GATEWAY_WEBHOOK_H
#define GATEWAY_WEBHOOK_H

#include <stdbool.h>
#include <stdint.h>

#include "store/ledger.h"

/* Borrowed for the call. */
struct webhook {
    const char *url;
    const char *token;   /* sent as a bearer token, or NULL */
    const char *ca_file; /* or NULL: the library's own */
    int64_t timeout_ms;  /* for all of it, names and connecting included */
};

struct webhook_result {
    bool delivered;     /* a status 2xx came, whatever became of the rest */
    int status;         /* 0: none came */
    const char *reason; /* without a status: why; static text */
};

#define WEBHOOK_BODY_MAX 1024 /* the longest is half of it */

/* {"event", "limit" or "model", "percent", "time", "text", "content"}: what of it applies. */
void webhook_body(const struct ledger_alert *a, char out[WEBHOOK_BODY_MAX]);

/*
 * Sends it and waits for the status; ends early once stop_fd is readable (-1: nothing to watch).
 * Loads libcurl if need be. SIGPIPE must be blocked or ignored.
 */
void webhook_post(const struct webhook *w, const char *body, int stop_fd,
                  struct webhook_result *out);

#endif
