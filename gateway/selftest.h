/*
 * POST /v1/self-test: what `pennygate check --through` asks, by way of the real web server, and
 * what it gets back: how its request arrived, or a stream with known gaps. Spends nothing and
 * writes nothing. Only the owner gets an answer, everybody else the 404 of any unknown path.
 *
 * The owner is known by a token that only whoever can read the site's secret can make:
 *
 *   {"self_test":"PROBE.SECONDS.EXPIRY.MAC","pad":"    "}       at the beginning of the body
 *
 * In the body, because that is what no web server strips (some hide Authorization, some every
 * header they do not know, and a rewritten URL can lose its query), and what none of them logs. It
 * is bound to its probe and to a minute rather than to one use, which would have to be written
 * down: whoever overhears one learns how his own requests arrive, and holds one worker, or as
 * CGI a process for each, until the minute has passed.
 */
#ifndef GATEWAY_SELFTEST_H
#define GATEWAY_SELFTEST_H

#include <stdatomic.h>
#include <stdbool.h>

#include "gateway/code.h"
#include "gateway/reply.h"
#include "gateway/site.h"

#define SELFTEST_PATH "/v1/self-test"

enum selftest_probe {
    SELFTEST_SEEN,   /* how the request arrived: the JSON of gateway/through.h */
    SELFTEST_STREAM, /* SELFTEST_CHUNKS comments, SELFTEST_GAP_MS apart, and [DONE] */
    SELFTEST_QUIET,  /* a comment, silence for so many seconds, and [DONE] */
    SELFTEST_PROBES
};
#define SELFTEST_CHUNKS      6 /* together longer than what servers find too short to compress */
#define SELFTEST_GAP_MS      200
#define SELFTEST_SECONDS_MAX 25
#define SELFTEST_ANSWER_MS   30000 /* a worker's time for it; one stream at once */
#define SELFTEST_TOKEN_S     60    /* from when it is made */

/* What the probe sends besides, to see whether it arrives. */
#define SELFTEST_HEADER "X-Pennygate-Self-Test"
#define SELFTEST_COOKIE "pennygate_self_test"

#define SELFTEST_BODY_MIN 128 /* the token and what is around it have at most 96 bytes */

/* The body of n bytes, at least SELFTEST_BODY_MIN; `out` has room for them and a NUL. */
void selftest_body(const struct ledger *l, enum selftest_probe probe, unsigned seconds,
                   int64_t now_s, size_t n, char *out);

struct selftest_job {
    const struct site_use *use;
    struct reply *reply;
    atomic_flag *running;        /* a stream is, of this process */
    const atomic_bool *stopping; /* the process leaves: cut it short */
};

/* Answers the exchange, *gone set if its caller left; or CODE_NOT_FOUND or another code that is
 * still to be answered. */
enum code selftest_handle(const struct selftest_job *job, bool *gone);

#endif
