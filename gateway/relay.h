/*
 * An admitted request's way to the model and back: an upstream call, its answer rebuilt for
 * the caller, plain or streamed. Whatever happens, it is told once what the call came to,
 * before the last byte is sent, because a CGI process may be killed as soon as its caller has
 * that.
 *
 * What is charged when it does not end well, since no provider can be asked afterwards:
 *
 *   nothing sent (no connection)                  nothing
 *   answered 401, 402, 404, 405 or 429            nothing: the breaker keeps callers from asking
 *                                                 an API that refuses us without end
 *   answered otherwise (400, 403, 5xx, no JSON)   all that was reserved: filters bill what they
 *                                                 stop, a proxy's 504 can follow a billed call
 *   sent, no answer; cut; an error inside a 200   all that was reserved
 *   the caller left, however early                all that was reserved (invariant 6)
 *
 * Where nothing is charged and nothing has gone to the caller, who is still there, a second call
 * can follow: to the model's fallback if it has one, else to the same model if it could not be
 * connected to, or said with a 429 that it works again within seconds. There is never a third,
 * and the first model's total timeout bounds both.
 *
 * What it says of the API's health, for the model's breaker:
 *
 *   an answer, also one that the caller has begun to get and left      good
 *   401, 402, 429, or an error inside a 200 that speaks of these       it refuses us
 *   404, 405, 5xx, unreachable, timeout, nonsense, cut, an error       it failed
 *   403: our key, or a filter that a caller's text has met             the owner is told
 *   other 4xx: no caller's input closes the site                       nothing
 *   the total time ran out after text had come, or was less than the   nothing
 *     model's own: a slow reader, a long answer, a first call did it
 *   the caller left before anything came; we are stopping              nothing
 */
#ifndef GATEWAY_RELAY_H
#define GATEWAY_RELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/config.h"
#include "gateway/place.h"
#include "gateway/provider.h"
#include "gateway/reply.h"
#include "gateway/request.h"
#include "gateway/upstream.h"
#include "store/ledger.h"

/* What a call came to, the last of the request's. */
struct relay_end {
    enum code code; /* CODE_NONE: answered */
    bool gone;      /* the caller left, or read too slowly */
    enum settle_kind kind;
    struct usage usage;     /* for SETTLE_USAGE: as reported, not checked */
    enum health health;     /* what it says of the API */
    unsigned calls;         /* that were made, with this one */
    int64_t retry_after_ms; /* HEALTH_REFUSED: what the API asked for; 0: it did not */
};

/* The text of an answer as it comes, up to its bound; whoever passes it on frees `at`. */
struct relay_text {
    char *at;
    size_t n, room;
    bool cut; /* there was more */
};

struct relay_job {
    struct upstream *upstream; /* loaded */
    struct places *places;
    struct place *place; /* taken */
    const struct config *config;
    const struct config_model *model;
    const struct request *request;
    struct reply *reply; /* nothing has been sent yet */
    const struct answer *rates;
    struct relay_text *text; /* what came is kept here, however it ends; NULL: it is not */
    /* The model does not work and has a fallback: puts the reservation for that one in the place
     * of the first. NULL: it stays with the first failure. Called at most once. */
    const struct config_model *(*replace)(void *arg, const struct relay_end *end);
    /* Whether the same model may be asked once more: its breaker is not open meanwhile. */
    bool (*again)(void *arg);
    void (*settle)(void *arg, const struct relay_end *end); /* called exactly once, last */
    void *arg;
};

/* Answers the request. *first_ms: until the first byte for the caller to read, -1 if none came.
 */
void relay_run(const struct relay_job *job, struct relay_end *end, int64_t *first_ms);

#endif
