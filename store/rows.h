/*
 * Walking and reading rows: what every user of the store's tables would otherwise write again.
 */
#ifndef STORE_ROWS_H
#define STORE_ROWS_H

#include "store/kv.h"
#include "store/record.h"

/*
 * Called for a row; the cursor stands on it (kv_cursor_delete). ERROR_NONE goes on,
 * ERROR_NOT_FOUND means that it has seen enough, anything else ends the walk as its result.
 */
typedef enum error rows_visit(void *arg, struct kv_cursor *c, const struct kv_slice *key,
                              const struct kv_slice *value);

/* Visits the rows from `from` on, in the order of their keys, over the ends of tables. */
enum error rows_each(struct kv_txn *t, const struct row_key *from, rows_visit *visit,
                     void *arg);

/* The amounts of a counter's row; zero if there is none: who has no row has used nothing. */
enum error rows_amounts(struct kv_txn *t, const struct row_key *key, struct amounts *out);

#endif
