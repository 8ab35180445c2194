/*
 * The lease: how durability `lease` keeps invariant 1 across power loss while the live store is
 * on tmpfs and reaches flash only as a copy (store/copy.h), hourly.
 *
 * What everyone and anonymous are charged is counted in segments, one after the other, each with a
 * serial number. A segment lies within one UTC hour and is counted under one civil date, so that
 * all of its charges went into the same calendar windows, whatever the zone was. Its row in the
 * live store has what has been charged in it and how much may be; the file STORE/lease, on flash,
 * has the latter for each segment that the copy on flash does not contain as a whole. The file is
 * written (new file, fsync, rename) before the row is committed, always under LMDB's write lock,
 * so at any moment
 *
 *     what the file grants >= what the committed row grants >= what has been charged.
 *
 * A copy is made so: a transaction closes the segment, so that the next charge begins another one;
 * then all rows are copied from a read transaction; then, under the write lock, the file lets go of
 * the segments that the copy contains. A copy tells by itself which these are: it has the row. So a
 * crash between any two steps only means that more is charged than was used.
 *
 * After an unclean start the copy is loaded, and each segment that it does not contain as a
 * whole is charged in full, as far as its windows are still open: a calendar window's slot of the
 * segment's hour or date; the newest slot of a sliding window, as of now, because it is not known
 * when in the segment something was charged. A segment that began before what went before it is
 * one from after a clock reset that no copy contains: the restored store has the time from before
 * it, so the segment is charged in all windows as of now.
 *
 * The file names the live rows that it grants to, and only these may be granted more, or be copied.
 * Who restores gives them a name of their own, and writes it into the file under the lock under
 * which it read the segments. So it is of no matter where other rows are left: somebody has emptied
 * the run directory, it is another one now, or another one is mounted over it. Who has them open
 * can charge what they grant, all of which the restore has charged, in the transaction that is
 * under way, and no more: each begins with a look at whom the file names, since a short window soon
 * lets go of what was charged then.
 *
 * What is given back by a settle counts for the segment only if the reservation was charged in
 * it. Everything errs towards more: use is never forgotten for the site.
 */
#ifndef STORE_LEASE_H
#define STORE_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "platform/error.h"
#include "platform/mac.h"
#include "store/rule.h"

/* Without a copy for so many hours with use one is made before the next begins: bounds the file to
 * less than 1 KiB. */
#define LEASE_SEGMENTS 8
#define LEASE_ROWS     16 /* bytes by which live rows are named (store/liverows.h) */

enum lease_subject { LEASE_EVERYONE, LEASE_ANONYMOUS, LEASE_SUBJECTS };

struct lease_segment {
    uint64_t serial;           /* from 1; ascends */
    int64_t from_ms, until_ms; /* store time: charged from the one on, before the other */
    int64_t day;               /* the civil date whose counters are charged, since 1970 */
    struct amounts granted[LEASE_SUBJECTS];
};

/* STORE/lease: magic, version, n, uuid, rows, copied, segments, HMAC over it under the secret. */
struct lease {
    uint8_t rows[LEASE_ROWS]; /* the live rows whose segments these are */
    uint64_t copied; /* segments of a smaller serial are in the copy that was made last */
    unsigned n;
    struct lease_segment segment[LEASE_SEGMENTS]; /* serials ascend, all >= copied */
};

/* The segment under way, a row of the live store (record.h). closed: the next charge begins
 * another one. */
struct lease_row {
    struct lease_segment segment;
    struct amounts charged[LEASE_SUBJECTS]; /* net of what was given back */
    bool closed;
};

/* ERROR_STORE_MISSING; ERROR_STORE_INVALID: damaged, of another store or secret;
 * ERROR_STORE_VERSION; ERROR_STORE_IO, ERROR_MEMORY. */
enum error lease_read(const char *path, const uint8_t secret[MAC_SIZE], const uint8_t uuid[16],
                      struct lease *out);
/* Replaces the file. ERROR_STORE_IO. */
enum error lease_write(const char *path, const uint8_t secret[MAC_SIZE], const uint8_t uuid[16],
                       const struct lease *l);

/* The lock under which the file is read and written again, wherever the rows are; close *fd to let
 * go of it. ERROR_STORE_MISSING, ERROR_STORE_IO; ERROR_BUSY after wait_ms; ERROR_UNSUPPORTED. */
enum error lease_lock(const char *path, int64_t wait_ms, int *fd);

/* Whether what is charged at the instant under the date belongs to the segment under way. */
bool lease_covers(const struct lease_row *r, int64_t store_ms, int64_t day);

/*
 * Puts the segment in its place, over one of the same serial. Where there is no room for a new one
 * two of the same hour and date become one, which a copy must contain both of: each copy that
 * fails ends a segment. The last stays as it is: should the transaction fail, it is put again, with
 * what it grants by itself. False, l untouched: it is full.
 */
bool lease_put(struct lease *l, const struct lease_segment *s);

/* Lets go of the segments below `first`, which a copy contains. False: there is nothing to do. */
bool lease_prune(struct lease *l, uint64_t first);

/* Whether the file lets the segment be charged as its row in the live store does, or has let go of
 * it. It does, unless it is an older one that was put in its place. */
bool lease_has(const struct lease *l, const struct lease_segment *of_row);

/* The first serial that a copy with this row (NULL: none yet) does not contain as a whole. */
uint64_t lease_first_after(const struct lease_row *in_copy);

#endif
