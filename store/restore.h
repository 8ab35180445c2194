/*
 * Making the live rows of durability `lease` anew, of what lies on flash: after a boot, or when
 * they have gone otherwise.
 *
 * The copy says what had been counted when it was made; the lease, how much more everyone and
 * anonymous can have been charged since, and that is charged in full (store/lease.h). All that
 * is changed on flash is which rows the lease is of, so that a crash at any moment of it only means
 * that it is done again, by the same rules from the same files: never to less.
 *
 * Why it gives nobody a fresh budget: copy, lease and period keys are believed under MACs of the
 * secret and must be of one uuid; none of them is made here if it is missing. The lease knows the
 * last copy: an older one is refused until the owner adopts it. Calls that were under way stay
 * charged in full. Store time is no earlier than the copy's, than the begin of the last segment,
 * and than what the period keys can count.
 */
#ifndef STORE_RESTORE_H
#define STORE_RESTORE_H

#include "store/ledger_parts.h"

/*
 * With the lock of the run directory (store/liverows.h). ERROR_STORE_MISSING: the copy or the
 * lease is; ERROR_STORE_INVALID, _SECRET, _VERSION, _IO; ERROR_PERIODS; ERROR_STORE_ROLLED_BACK:
 * the copy is not the last one that was made, or the lease older than it, unless `adopt`; otherwise
 * as kv_create and kv_open.
 */
enum error restore_rows(struct ledger *l, const struct clock_now *now, bool adopt);

#endif
