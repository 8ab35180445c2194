/* One write transaction under way (the writer's thread only), and what is done in it. */
#ifndef STORE_BATCH_H
#define STORE_BATCH_H

#include "store/ledger_parts.h"

struct batch {
    struct ledger *ledger;
    struct kv_txn *txn;
    struct state state; /* advanced to `now`; written back if anything changed */
    struct clock_now now;
    int64_t committed_ms; /* store time as it was found */
    bool must_note;       /* it should be written although nothing else is, by timed work */
    unsigned added;       /* rows that may have been added: twice as many ended ones go */
    bool erased;          /* ended rows were looked for */
    bool old_keys;        /* period keys can go, once the time by which they can is committed */
    bool changed;         /* otherwise the transaction is aborted: refusals write nothing */
    struct policy policy; /* of the last operation: zone and retention for upkeep */
    struct history_day day; /* the history record in hand; written when another is needed */
    bool day_loaded, day_changed;
    unsigned alerts; /* queued in it */
};

/* An error of batch_* ends the whole batch: nobody in it is admitted. op->error is one
 * operation's own. */
enum error batch_put(struct batch *b, const struct row_key *key, const struct record *value);
struct view_context batch_context(struct batch *b);

/* charge.c */
enum error batch_reserve(struct batch *b, struct op *op);
enum error batch_settle(struct batch *b, struct op *op);
enum error batch_replace(struct batch *b, struct op *op);

/* upkeep.c */
enum error batch_history(struct batch *b, int64_t day, struct history_day **out);
enum error batch_history_flush(struct batch *b);
enum error batch_new_boot(struct batch *b);
enum error batch_fold(struct batch *b);
enum error batch_erase(struct batch *b, unsigned most);
void batch_periods(struct batch *b);
void batch_drop_keys(struct batch *b);
enum error batch_windows(struct batch *b, struct op *op);
bool batch_has_window(const struct batch *b, struct window w);

/*
 * alert.c. alert_queue: an event; nothing happens if alerts are off. Of a breaker that opens,
 * and of an API that refuses us, once a model and day each: callers who can make it fail must
 * not fill the owner's hook. Everything else each time: who calls knows what once is.
 */
enum error alert_queue(struct batch *b, enum alert_kind kind, const char *name);
/*
 * Looks at the watched limits' thresholds, once a call has been settled: on what is settled,
 * since most of what a call may use at worst comes back; and once one has ended without a
 * settle, because its process has died.
 */
enum error alert_thresholds(struct batch *b, const struct policy *p,
                            const struct hold *settled);
enum error batch_alert_take(struct batch *b, struct op *op);
enum error batch_alert_done(struct batch *b, struct op *op);
/* Removes what has ended; whether there is something to remove. */
enum error alert_sweep(struct batch *b);
bool alert_wanted(const struct view_context *c, int64_t store_ms);
/* The store's time goes back: all windows are new ones, and what waits is due. */
enum error alert_reset(struct batch *b);

/* dry.c: counts what the dry runs of the view would have refused of what is admitted */
enum error batch_dry(struct batch *b, const struct view *v, const struct verdict *verdict,
                     int64_t day);

/* told.c: the last alerts, in the transaction that raises or ends them */
enum error told_note(struct batch *b, uint64_t id, const struct alert_row *alert,
                     enum told told);
/* What has become of one that waits; nothing if newer ones have taken its place. */
enum error told_mark(struct batch *b, uint64_t id, enum told told);

/* totals.c: a day's row that goes; its bytes are gone after it */
enum error totals_erased(struct batch *b, const struct kv_slice *day);

/* password.c */
enum error batch_password(struct batch *b, struct op *op);

/*
 * lease_rows.c; with durability commit they do nothing. In the write transaction, and the file
 * before the row (store/lease.h).
 * batch_lease_charge: what the view's everyone and anonymous are about to be charged is within the
 * lease, for which it is extended or a new segment begun; which one is noted in r. ERROR_BUSY
 * with ledger->wants_copy: the file is full, a copy must be made first.
 * batch_lease_settle: the hold's amounts become the real ones; what is given back goes to the
 * segment if the hold was charged in it, what is charged on top always to the one under way.
 * batch_lease_close: the next charge begins another segment; also when store time goes back.
 * batch_lease_prune: op->order, uint64_t: segments below it are in the copy that is now on flash.
 */
enum error batch_lease_charge(struct batch *b, const struct op *op, const struct view *v,
                              struct reservation *r);
enum error batch_lease_settle(struct batch *b, const struct op *op, const struct hold *h,
                              const struct amounts *real);
enum error batch_lease_close(struct batch *b, struct op *op);
enum error batch_lease_prune(struct batch *b, struct op *op);

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
