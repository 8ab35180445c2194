/*
 * Whether a request may go ahead, as far as that is known before anything is charged: who asks,
 * by which policy, and what the ledger and the model's breaker say. POST and GET /status ask
 * through this one door, so that what is shown is what is enforced (F5).
 */
#ifndef GATEWAY_ADMISSION_H
#define GATEWAY_ADMISSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/caller.h"
#include "gateway/place.h"
#include "gateway/reply.h"
#include "gateway/site.h"

struct admission {
    const struct exchange *x;
    struct site *site;
    const struct site_use *use; /* code is CODE_NONE */
    const struct config *config;
    struct ledger *ledger;
    int64_t today; /* days since 1970 */
    struct policy policy;
    struct asker asker;
    const struct config_model *model;
    uint64_t overhead; /* the model's learnt one */
    struct demand demand;
    struct answer answer; /* the last one */
    int64_t decision_us;  /* the ledger's time so far; -1: it was not asked */
};

/* Of a request: what its messages hold. */
struct admission_size {
    size_t bytes;
    unsigned messages;
};

/*
 * All that follow return false with *no filled: the answer to be given instead. They are called
 * in this order.
 */

/* Who asks, and whether the configuration lets such a caller in. `now_s`: wall clock. */
bool admission_begin(struct admission *a, const struct exchange *x, struct site *site,
                     const struct site_use *use, int64_t now_s, struct reply_error *no);

/* Instead of all that follow, for what costs nothing: whether a key that was shown is one of
 * the site's. */
bool admission_known(struct admission *a, struct reply_error *no);

/* Whether there is room for a call at all, whatever it holds: whoever is over a limit already
 * hears so for as little as it can cost. Sees to it that the store can be read, too. */
bool admission_room(struct admission *a, struct reply_error *no);

/* By its alias; NULL or one that is not offered: the default one. */
void admission_choose(struct admission *a, const char *alias);

/* Whether the model's breaker is closed, and there is room for the worst case of a request of
 * this size, the system prompt added. Where the breaker is open, the model becomes its fallback
 * if both are true of that. */
bool admission_weigh(struct admission *a, const struct admission_size *size,
                     struct reply_error *no);

/* The breaker has opened since: the model becomes its fallback, weighed, if it has one with a
 * closed breaker and room. Otherwise all is as before. */
bool admission_fall_back(struct admission *a, const struct admission_size *size);

/* The model's call came to nothing: as ledger_replace, with the model's fallback, which becomes
 * the model. After an error (ERROR_BUSY: it was refused) the model is the first, and *r is still
 * to be settled, with SETTLE_NOTHING. */
enum error admission_replace(struct admission *a, const struct admission_size *size,
                             const struct settlement *first, struct reservation *r);

/* Charges the worst case: ledger_reserve of the demand. */
enum error admission_reserve(struct admission *a, struct reservation *r);

/* Goes on only with a verdict, and only with that one: the answer that `e` and a->answer call
 * for. */
bool admission_decided(struct admission *a, enum error e, struct reply_error *no);

/* Of an admitted request: the value of Set-Cookie, "" if none is due. */
void admission_cookie(const struct admission *a, char out[CALLER_COOKIE_MAX]);

/* The worst case alone. */
void admission_worst(const struct admission *a, size_t bytes, unsigned messages,
                     uint64_t overhead, struct demand *out);

/* Streams that may run at once in this process. A process that serves one request takes its
 * place site-wide, by policy.site_streams. */
unsigned admission_streams(const struct admission *a);

#endif
