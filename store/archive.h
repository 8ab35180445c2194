/*
 * The archive: transcripts in an LMDB environment of their own, STORE/transcripts, apart from
 * what counts money. Losing it costs nothing, so its commits are not synced, and none of its
 * errors is the ledger's.
 *
 * Several processes work on it at once (gateways, the owner's commands), each holding a lock on
 * the directory for as long as an operation takes, so that nobody is in a transaction while the
 * files are put in place of others: that is how erasing works. LMDB leaves deleted bytes in free
 * pages and in the gaps of live ones; therefore what stays is written to new files, they take
 * the place of the old ones, and the old ones are overwritten with zeros.
 *
 * One thread at a time. Call it from no thread that a caller waits for: it waits for the lock,
 * and walks the file before it opens it (kv_walk: 10 ms for 12 MB).
 */
#ifndef STORE_ARCHIVE_H
#define STORE_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "platform/clock.h"
#include "platform/error.h"
#include "store/transcript.h"

struct archive;

struct archive_options {
    const char *store; /* the store's directory; copied */
    size_t map_bytes;
    int64_t keep_ms; /* older ones are removed with every write */
    /* That another process has walked the file in this boot is enough: for a process that serves
     * one request. All others walk before they open it, since a file that is damaged later must
     * not end them either. */
    bool trusting;
    clock_fn *clock;
};

/* Touches no file yet. ERROR_MEMORY. */
enum error archive_new(const struct archive_options *o, struct archive **out);
void archive_free(struct archive *a);

/* The longest row: so that a few of them never fill the map. */
size_t archive_row_max(size_t map_bytes);

/* A row to be: of transcript_encode, made at this time. */
struct archive_item {
    int64_t time_ms;
    struct kv_slice row;
};

/*
 * Adds them, making directory (0700) and files where there are none. Removes those too old, and
 * the oldest as long as more than three quarters of the map would be taken, in the same
 * transaction. `wait_ms` for others: ERROR_BUSY. ERROR_OWNER if the directory is not ours alone;
 * ERROR_STORE_*, ERROR_CLOCK, ERROR_MEMORY, ERROR_SYSTEM. After an error some may have been
 * added.
 */
enum error archive_add(struct archive *a, const struct archive_item *items, size_t n,
                       int64_t wait_ms);

/* Removes those too old; writes nothing if there are none. ERROR_STORE_MISSING: there is no
 * archive. */
enum error archive_expire(struct archive *a, int64_t wait_ms);

/*
 * The first one after *key, which is moved on to it; begin with archive_first. *row is malloc'd,
 * nothing is held between calls. ERROR_NOT_FOUND at the end, ERROR_STORE_MISSING without an
 * archive.
 */
extern const struct transcript_key archive_first;
enum error archive_next(struct archive *a, struct transcript_key *key, uint8_t **row, size_t *n,
                        int64_t wait_ms);

/*
 * Erases those for which `drop` says so: afterwards their bytes are in no file of the archive
 * and in none that another process holds open, as far as the file system overwrites in place.
 * What had been removed before and had left its bytes goes with them. *erased: how many.
 */
typedef bool archive_drop(void *arg, const struct transcript_key *key,
                          const struct transcript *t);
enum error archive_erase(struct archive *a, archive_drop *drop, void *arg, int64_t wait_ms,
                         unsigned *erased);

/* Erases all, also of a damaged archive. */
enum error archive_erase_all(struct archive *a, int64_t wait_ms);

#endif
