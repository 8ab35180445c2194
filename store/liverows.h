/*
 * The live rows of durability `lease`: RUN/store, a directory on tmpfs with LMDB's files and two
 * notes: `boot`, the boot that they are of, the name by which the lease grants to them
 * (store/lease.h) and which file they are, and `copied`, of the last copy to flash. They are made
 * under the lock of the run directory, as RUN/new, and put in their place whole, so that there
 * are all of them or none. Those of another boot are none: their commits were not synced. Nor is a
 * copy of the directory one: it would be granted what they are.
 */
#ifndef STORE_LIVEROWS_H
#define STORE_LIVEROWS_H

#include "store/ledger_parts.h"

/* Sees to it that they are there: of all processes that find none exactly one restores them
 * (store/restore.h), and the others wait for it, up to LEDGER_WAIT_MS, since callers wait for them.
 * ERROR_BUSY: it takes longer; otherwise as restore_rows. */
enum error liverows_need(struct ledger *l, const struct clock_now *now, bool adopt);

/* The lock; close *fd to let go of it. ERROR_BUSY, ERROR_RUN_MISSING, ERROR_UNSUPPORTED. */
enum error liverows_lock(const struct ledger *l, int *fd);

/* Which ones l->kv is of, once it is open: l->rows_name. ERROR_STORE_REPLACED: they have gone. */
enum error liverows_name(struct ledger *l);

/* The lease is of other rows now: whoever opens a ledger here next restores, unless others are in
 * their place already. */
void liverows_forsake(struct ledger *l);

/* With the lock. Begins anew in RUN/new, with a new name, and opens them as l->kv: kv_create,
 * kv_open. */
enum error liverows_begin(struct ledger *l);
/* With the lock. Closes l->kv, puts them in their place, and notes that they need not be walked.
 * Also fails if they are not in RUN/new any more. */
enum error liverows_publish(struct ledger *l, const struct clock_now *now);
/* With the lock. Throws away what liverows_begin began. */
void liverows_discard(struct ledger *l);

#endif
