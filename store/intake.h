/*
 * Filling a store with the rows of another one that was told row by row: of an export
 * (store/import.c) or of the copy on flash (store/restore.c). One write transaction, which the
 * caller commits once all of it has been believed.
 */
#ifndef STORE_INTAKE_H
#define STORE_INTAKE_H

#include "store/ledger_parts.h"

/* Begins as zero but for txn and secret. */
struct intake {
    struct kv_txn *txn;
    const uint8_t *secret; /* borrowed */
    bool has_schema, has_state;
    struct schema schema;
    struct state state; /* is not put: its time and windows are the caller's to settle */
    struct row_key last;
    uint64_t rows;
    unsigned under_way; /* calls that stay charged in full: nobody is left to settle them */
};

/*
 * Takes the row, of this program's version or an older one's, which must come behind the one
 * before it in the order of keys; both are changed. ERROR_SYNTAX: no row of ours, or out of
 * order; ERROR_STORE_SECRET, ERROR_STORE_VERSION; otherwise as kv_put.
 */
enum error intake_row(struct intake *in, struct row_key *key, struct record *value);

/* Puts in->state. */
enum error intake_state(struct intake *in);

#endif
