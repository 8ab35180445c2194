/* One write transaction under way (the writer's thread only), and what is done in it. */
#ifndef STORE_BATCH_H
#define STORE_BATCH_H

#include "store/ledger_parts.h"

struct batch {
    struct ledger *ledger;
    struct kv_txn *txn;
    struct state state; /* advanced to `now`; written back if anything changed */
    struct clock_now now;
    unsigned added;         /* rows that may have been added: twice as many ended ones go */
    bool erased;            /* ended rows were looked for */
    bool changed;           /* otherwise the transaction is aborted: refusals write nothing */
    struct policy policy;   /* of the last operation: zone and retention for upkeep */
    struct history_day day; /* the history record in hand; written when another is needed */
    bool day_loaded, day_changed;
};

/* An error of batch_* ends the whole batch: nobody in it is admitted. op->error is one
 * operation's own. */
enum error batch_put(struct batch *b, const struct row_key *key, const struct record *value);
struct view_context batch_context(struct batch *b);

/* charge.c */
enum error batch_reserve(struct batch *b, struct op *op);
enum error batch_settle(struct batch *b, struct op *op);

/* upkeep.c */
enum error batch_history(struct batch *b, int64_t day, struct history_day **out);
enum error batch_history_flush(struct batch *b);
/* A reservation that ended without a settle stays charged: it goes into its day as unknown. */
enum error batch_hold_expired(struct batch *b, const struct hold *h);
enum error batch_new_boot(struct batch *b);
enum error batch_fold(struct batch *b);
enum error batch_erase(struct batch *b, unsigned most);
enum error batch_periods(struct batch *b);
enum error batch_windows(struct batch *b, struct op *op);

/* dry.c: counts what the dry runs of the view would have refused of what is admitted */
enum error batch_dry(struct batch *b, const struct view *v, const struct verdict *verdict,
                     int64_t day);

/* reset.c */
enum error batch_clock_reset(struct batch *b, struct op *op);

/* breaker.c */
/* If the model's breaker is half open, the reservation becomes the probe. */
enum error batch_probe(struct batch *b, struct reservation *r);
/* What a settled call says of its model. */
enum error batch_health(struct batch *b, const struct op *op);
enum error batch_forgive_model(struct batch *b, struct op *op);

/* forgive.c */
enum error batch_forgive(struct batch *b, struct op *op);

/* keys.c */
enum error batch_key_add(struct batch *b, struct op *op);
enum error batch_key_revoke(struct batch *b, struct op *op);

#endif
