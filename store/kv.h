/*
 * The key-value store: the one file that includes lmdb.h (store/kv.c). One environment, LMDB's
 * main table alone: tables are key prefixes (store/record.h), because a named table costs a
 * further page write in every transaction. Never creates anything but in kv_create.
 *
 * Threads: read transactions from any thread, one at a time each; write transactions from one
 * thread of the process only. Never fork with a kv open, but by kv_walk for another directory:
 * its child touches nothing of what it inherits.
 */
#ifndef STORE_KV_H
#define STORE_KV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "platform/error.h"
#include "platform/file.h"

#define KV_KEY_MAX 64  /* longest key of ours; LMDB's own limit is 511 */
#define KV_READERS 512 /* reader slots: processes x workers, CGI processes one each */

struct kv;
struct kv_txn;

struct kv_slice {
    const void *data; /* valid until the next write in the transaction or its end */
    size_t n;
};

/* Makes data.mdb and lock.mdb (0600) in an existing directory, commits to it twice and syncs
 * all. ERROR_EXISTS if one is there; ERROR_UNSUPPORTED if the file system cannot map or lock;
 * ERROR_STORE_MISSING without the directory; ERROR_STORE_IO. Leaves nothing on failure. */
enum error kv_create(const char *directory, size_t map_bytes);

/*
 * Opens what is there. Before LMDB sees the files: both exist, are regular, no links, and
 * data.mdb is not empty (LMDB would initialise it silently). After it: the open files are those
 * at the path, something has been committed, and the table is a plain one. If data.mdb ends
 * before the last page ever taken, it is walked (kv_walk), since a sound file can be so. Clears
 * dead readers. A data.mdb that vanishes between look and open is made anew by LMDB: that is
 * ERROR_STORE_REPLACED, and from then on ERROR_STORE_INVALID; the file stays, since it cannot
 * be told to be ours. ERROR_STORE_MISSING, _INVALID, _IO, _REPLACED, ERROR_MEMORY, ERROR_BUSY,
 * ERROR_UNSUPPORTED, ERROR_SYSTEM. The map is map_bytes, down to whole pages, or what the file
 * needs if that is more.
 */
enum error kv_open(const char *directory, size_t map_bytes, struct kv **out);

/* The same, but its commits are not synced, for what may be lost: a power loss can take the last
 * of them, or break the file, which a walk tells (kv_walk) before it is opened in the next
 * boot. The death of a process breaks nothing. */
enum error kv_open_unsynced(const char *directory, size_t map_bytes, struct kv **out);

/* Ends it; every transaction and read handle has been freed. A process that serves one request
 * rather calls _exit: with LMDB 0.9.26-0.9.31 closing makes others' opening slow (ITS#9278). */
void kv_close(struct kv *kv);

/*
 * The open files are still those at the path, and not shorter than this process has seen them.
 * A stat call each; before each decision. ERROR_STORE_MISSING, _REPLACED, _INVALID, _IO: unless
 * the same files come back, only opening anew can help.
 */
enum error kv_check_files(struct kv *kv);

/* Which file data.mdb is. */
struct file_id kv_data_id(const struct kv *kv);

/*
 * Walks the free list and every row of every page in a forked child (a broken file can kill it
 * by SIGBUS): keys ascend, each is found by a search, no page is free twice or claimed twice.
 * Not while a kv of that directory is open in this process. ERROR_STORE_BROKEN if the child
 * says so, dies, or takes longer than 60 s; ERROR_SYSTEM without a child; otherwise as kv_open.
 * `visit` (may be NULL) is called in the child for each row and may refuse it; the process may
 * have threads, so it must not use stdio, the log or locks. What it writes to `arg` stays in the
 * child.
 */
typedef bool kv_visit_fn(void *arg, const void *key, size_t nkey, const void *value,
                         size_t nvalue);
enum error kv_walk(const char *directory, size_t map_bytes, kv_visit_fn *visit, void *arg);

/*
 * Transactions. A read transaction handle may be kept and reused: kv_begin_read(kv, &t) with
 * *t not NULL renews it, kv_end_read(t) leaves it for reuse, kv_free_read(t) gives the reader
 * slot back (takes NULL). Follows another process's larger map by itself (MDB_MAP_RESIZED), in
 * which case all transactions of the process are waited for, 2 s at most: ERROR_BUSY; as when
 * all KV_READERS slots are taken. ERROR_STORE_IO: open anew. ERROR_STORE_ROLLED_BACK: an older
 * copy was put in place while a process held the store; it opens again once all have closed it.
 */
enum error kv_begin_read(struct kv *kv, struct kv_txn **t);
void kv_end_read(struct kv_txn *t);
void kv_free_read(struct kv_txn *t);

/* kv_begin_write waits for the write lock without bound. On ERROR_STORE_FULL from any call:
 * abort, kv_clear_readers, and try again. kv_commit ends the transaction either way; after
 * a failed one it may have happened. */
enum error kv_begin_write(struct kv *kv, struct kv_txn **out);
enum error kv_commit(struct kv_txn *t);
void kv_abort(struct kv_txn *t);
void kv_clear_readers(struct kv *kv);

/* The id of the last committed transaction as this transaction sees it. */
uint64_t kv_last_id(const struct kv_txn *t);

/* ERROR_NOT_FOUND if there is no such key. kv_put overwrites; ERROR_TOO_LARGE for a key that is
 * empty or longer than KV_KEY_MAX. */
enum error kv_get(struct kv_txn *t, const void *key, size_t n, struct kv_slice *out);
enum error kv_put(struct kv_txn *t, const void *key, size_t n, const void *value,
                  size_t nvalue);
enum error kv_delete(struct kv_txn *t, const void *key, size_t n);

/*
 * A cursor: positions on the first key >= the given one (n = 0: on the first), then goes on in
 * order. ERROR_NOT_FOUND at the end, and from then on until the next seek. kv_cursor_delete
 * removes the row it stands on (write transactions; the next kv_cursor_next yields the one
 * after it); ERROR_NOT_FOUND if it stands on none. Rows may be put and deleted
 * beside it, but the one it stands on goes through it alone. Close it before the transaction
 * ends.
 */
struct kv_cursor;
enum error kv_cursor_open(struct kv_txn *t, struct kv_cursor **out);
enum error kv_cursor_seek(struct kv_cursor *c, const void *key, size_t n,
                          struct kv_slice *found, struct kv_slice *value);
enum error kv_cursor_next(struct kv_cursor *c, struct kv_slice *found, struct kv_slice *value);
enum error kv_cursor_delete(struct kv_cursor *c);
void kv_cursor_close(struct kv_cursor *c);

/* The size of the map, how much of it has been reached so far, and how much of that is free to be
 * used again. In a read transaction. */
struct kv_usage {
    uint64_t map_bytes, reached_bytes, free_bytes;
};
enum error kv_usage(struct kv_txn *t, struct kv_usage *out);
/* What is in use: the store is full when that is all of the map, however far it was reached. */
uint64_t kv_used_bytes(const struct kv_usage *u);
/* More than three quarters of the map: time to tell the owner. */
bool kv_is_filling(const struct kv_usage *u);

/* What rows and free list take up themselves, in pages, as the transaction sees it; in a write
 * transaction too. */
enum error kv_taken(struct kv_txn *t, uint64_t *map_bytes, uint64_t *taken_bytes);

#endif
