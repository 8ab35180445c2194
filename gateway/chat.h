/*
 * POST /v1/chat/completions: from the exchange to the settled reservation. Every way out before
 * the reservation costs nothing and writes nothing; every way out after it settles.
 */
#ifndef GATEWAY_CHAT_H
#define GATEWAY_CHAT_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/exchange.h"
#include "gateway/line.h"
#include "gateway/place.h"
#include "gateway/recorder.h"
#include "gateway/reply.h"
#include "gateway/site.h"
#include "gateway/upstream.h"

/* What it works with. */
struct chat_job {
    struct exchange *x;
    struct site *site;
    const struct site_use *use; /* code is CODE_NONE */
    struct upstream *upstream;
    struct places *places;
    struct reply *reply;
    struct recorder *recorder;
};

/* What came of it, for the log line. */
struct chat_log {
    const char *what;  /* as route_name */
    enum code code;    /* CODE_NONE: answered */
    bool gone;         /* the caller left */
    bool admitted;     /* a call was charged */
    const char *model; /* alias, "-" as long as none is chosen; the configuration's */
    char subject[17];  /* as ledger_display; "-" */
    const char *usage; /* "reported", "estimated" (charged as reserved), "none" */
    unsigned calls;    /* upstream */
    uint64_t tokens_in, tokens_out;
    int64_t first_ms;           /* -1: nothing came */
    char limit[LIMIT_NAME_MAX]; /* that refused it; or "" */
    int64_t decision_us;        /* of the meter, all it was asked together; -1: it was not */
    struct line line;
};

/* What came of it in one word, for log and transcript: ok, gone, or the code's name. */
const char *chat_result(const struct chat_log *log);

/* Answers the exchange. All of the log but `what` is set. */
void chat_handle(const struct chat_job *job, struct chat_log *log);

#endif
