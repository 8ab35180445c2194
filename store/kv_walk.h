/*
 * What the walk and the usage of a store need of its inside; for store/kv*.c alone.
 */
#ifndef STORE_KV_WALK_H
#define STORE_KV_WALK_H

#include "store/kv.h"

/* Opens for reading alone, in a child: an assertion of LMDB ends the process quietly. */
enum error kv_open_for_walk(const char *directory, size_t map_bytes, struct kv **out);

/* As the meta page says, in whatever state the store is. */
struct kv_sums {
    uint64_t map_bytes, page_bytes;
    uint64_t pages;      /* ever taken */
    uint64_t pages_used; /* by meta pages, rows and the free list itself */
    uint64_t rows;
};
enum error kv_sums(struct kv_txn *t, struct kv_sums *out);

/*
 * Calls visit for each record of the free list, in order, until it says false
 * (ERROR_STORE_INVALID then). Key: the transaction, one size_t. Record: size_t numbers: how
 * many pages, then their numbers from high to low. In a read transaction.
 */
typedef bool kv_free_fn(void *arg, struct kv_slice key, struct kv_slice record);
enum error kv_each_free(struct kv_txn *t, kv_free_fn *visit, void *arg);

#endif
