/*
 * The archive. Security stance: the directory must be ours alone before anything in it is
 * opened; a data file that LMDB could die of is first walked in a child; and whatever a
 * process leaves behind when it is killed, the next one to open the archive finishes.
 *
 *   data.mdb, lock.mdb  the environment
 *   walked              which data file was walked in which boot
 *   new/                an environment in the making
 *   old.mdb             a data file that is to be overwritten
 */
#include "store/archive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/file.h"
#include "store/mark.h"

#define DIRECTORY "transcripts"

/* Of the map; the last quarter is for pages that are freed and cannot be used at once. */
#define TAKEN_PARTS     3
#define TAKEN_OF        4
#define ROW_OF_MAP      16   /* a row is at most this part of it, and so is one transaction */
#define ROW_EXTRA       8192 /* pages that a row takes beside its own bytes */
#define WIPE_BYTES      16384
#define REBUILD_COMMITS 1048576 /* bytes of one transaction: it is held in memory */

enum {
    PATH_DATA,
    PATH_LOCK,
    PATH_WALKED,
    PATH_NEW,
    PATH_NEW_DATA,
    PATH_NEW_LOCK,
    PATH_OLD,
    PATHS
};

static const char *const names[PATHS] = {
    [PATH_DATA] = "data.mdb",         [PATH_LOCK] = "lock.mdb",
    [PATH_WALKED] = "walked",         [PATH_NEW] = "new",
    [PATH_NEW_DATA] = "new/data.mdb", [PATH_NEW_LOCK] = "new/lock.mdb",
    [PATH_OLD] = "old.mdb",
};

struct archive {
    struct archive_options options; /* store is not kept */
    char *directory;
    char *path[PATHS];
    int fd; /* of the directory, which is locked by it; -1 */
    struct file_id id;
    struct kv *kv; /* or NULL */
};

const struct transcript_key archive_first = {.time_ms = -1, .sequence = UINT32_MAX};

/* ---- making and freeing ---- */

enum error archive_new(const struct archive_options *o, struct archive **out)
{
    struct archive *a = calloc(1, sizeof *a);
    bool ok;

    if (a == NULL)
        return ERROR_MEMORY;
    a->fd = -1;
    a->options = *o;
    a->options.store = NULL;
    a->directory = file_join(o->store, DIRECTORY);
    ok = a->directory != NULL;
    for (size_t i = 0; i < PATHS && ok; i++)
        ok = (a->path[i] = file_join(a->directory, names[i])) != NULL;
    if (!ok) {
        archive_free(a);
        return ERROR_MEMORY;
    }
    *out = a;
    return ERROR_NONE;
}

static void close_files(struct archive *a)
{
    kv_close(a->kv);
    a->kv = NULL;
}

static void close_directory(struct archive *a)
{
    close_files(a);
    if (a->fd >= 0)
        close(a->fd);
    a->fd = -1;
}

void archive_free(struct archive *a)
{
    if (a == NULL)
        return;
    close_directory(a);
    for (size_t i = 0; i < PATHS; i++)
        free(a->path[i]);
    free(a->directory);
    free(a);
}

size_t archive_row_max(size_t map_bytes)
{
    size_t most = map_bytes / ROW_OF_MAP;

    if (most < TRANSCRIPT_MIN)
        return TRANSCRIPT_MIN;
    return most < TRANSCRIPT_MAX ? most : TRANSCRIPT_MAX;
}

/* ---- the directory and its lock ---- */

static enum error open_directory(struct archive *a, bool create)
{
    struct stat st;

    if (create && mkdir(a->directory, 0700) != 0 && errno != EEXIST)
        return errno == ENOENT || errno == ENOTDIR ? ERROR_STORE_MISSING : ERROR_STORE_IO;
    a->fd = open(a->directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (a->fd < 0 && errno == ENOENT)
        return ERROR_STORE_MISSING;
    if (a->fd < 0)
        return errno == EACCES || errno == ENOTDIR || errno == ELOOP ? ERROR_OWNER
                                                                     : ERROR_STORE_IO;
    if (fstat(a->fd, &st) != 0)
        return ERROR_STORE_IO;
    a->id = (struct file_id){st.st_dev, st.st_ino};
    return st.st_uid == geteuid() && (st.st_mode & 077) == 0 ? ERROR_NONE : ERROR_OWNER;
}

static bool is_in_place(const struct archive *a)
{
    struct file_id id;

    return file_id_path(a->directory, &id) == ERROR_NONE && file_id_equal(id, a->id);
}

static enum error enter_directory(struct archive *a, bool create, int64_t wait_ms)
{
    enum error e = ERROR_NONE;

    if (a->fd >= 0 && !is_in_place(a))
        close_directory(a);
    if (a->fd < 0)
        e = open_directory(a, create);
    if (e == ERROR_NONE)
        e = file_lock(a->fd, wait_ms);
    if (e != ERROR_NONE && e != ERROR_BUSY)
        close_directory(a);
    return e;
}

/* ---- putting files in place and wiping them ---- */

static enum error sync_directory(const struct archive *a)
{
    return fsync(a->fd) == 0 ? ERROR_NONE : ERROR_STORE_IO;
}

static enum error wipe_file(const char *path)
{
    static char zeros[WIPE_BYTES]; /* not const, or they would all be in the program's file */
    int fd = open(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    bool ok = fd >= 0 && fstat(fd, &st) == 0;

    for (off_t at = 0; ok && at < st.st_size; at += WIPE_BYTES) {
        size_t n = st.st_size - at < WIPE_BYTES ? (size_t)(st.st_size - at) : WIPE_BYTES;

        ok = pwrite(fd, zeros, n, at) == (ssize_t)n;
    }
    ok = ok && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    return ok ? ERROR_NONE : ERROR_STORE_IO;
}

/*
 * Overwrites old.mdb, unless it is still the data file too: then its maker did not get to
 * replacing it. Processes that hold it open see by kv_check_files that it is not the archive
 * any more before they look into it, and nobody is in a transaction.
 */
static enum error wipe_old(struct archive *a)
{
    struct file_id old, data;
    enum error e = file_id_path(a->path[PATH_OLD], &old);

    if (e == ERROR_NOT_FOUND)
        return ERROR_NONE;
    if (e != ERROR_NONE)
        return ERROR_STORE_IO;
    if (file_id_path(a->path[PATH_DATA], &data) != ERROR_NONE || !file_id_equal(old, data))
        e = wipe_file(a->path[PATH_OLD]);
    if (e == ERROR_NONE && unlink(a->path[PATH_OLD]) != 0)
        e = ERROR_STORE_IO;
    return e;
}

static enum error tidy(struct archive *a)
{
    unlink(a->path[PATH_NEW_DATA]);
    unlink(a->path[PATH_NEW_LOCK]);
    rmdir(a->path[PATH_NEW]);
    return wipe_old(a);
}

/* An empty environment in new/. */
static enum error make_new(struct archive *a, size_t map_bytes)
{
    if (mkdir(a->path[PATH_NEW], 0700) != 0)
        return ERROR_STORE_IO;
    return kv_create(a->path[PATH_NEW], map_bytes);
}

/* The lock file first: without its data file it is none of an archive. */
static enum error put_in_place(struct archive *a)
{
    if (rename(a->path[PATH_NEW_LOCK], a->path[PATH_LOCK]) != 0 ||
        rename(a->path[PATH_NEW_DATA], a->path[PATH_DATA]) != 0)
        return ERROR_STORE_IO;
    rmdir(a->path[PATH_NEW]);
    return sync_directory(a);
}

/* ---- opening ---- */

static enum error walk(struct archive *a)
{
    struct clock_now now;
    struct file_id id;
    enum error e = a->options.clock(&now);

    if (e != ERROR_NONE)
        return e;
    if (file_id_path(a->path[PATH_DATA], &id) != ERROR_NONE)
        return ERROR_STORE_MISSING;
    if (a->options.trusting && mark_walked(a->path[PATH_WALKED], now.boot_id, id))
        return ERROR_NONE;
    e = kv_walk(a->directory, a->options.map_bytes, transcript_row_ok, NULL);
    if (e == ERROR_NONE && !mark_walked(a->path[PATH_WALKED], now.boot_id, id))
        mark_walked_note(a->path[PATH_WALKED], now.boot_id, id);
    return e;
}

/* The size may have been made smaller than the file is. Even to remove rows takes new pages. */
static size_t map_for(const struct archive *a)
{
    struct stat st;
    uint64_t least = 0;

    if (lstat(a->path[PATH_DATA], &st) == 0 && st.st_size > 0)
        least = (uint64_t)st.st_size / TAKEN_PARTS * TAKEN_OF;
    if (least > SIZE_MAX / 2)
        least = 0; /* no file of ours: kv_open says so */
    return least > a->options.map_bytes ? (size_t)least : a->options.map_bytes;
}

static enum error open_files(struct archive *a, bool create)
{
    struct file_id id;
    enum error e = tidy(a);

    if (e == ERROR_NONE && file_id_path(a->path[PATH_DATA], &id) == ERROR_NOT_FOUND) {
        if (!create)
            return ERROR_STORE_MISSING;
        e = make_new(a, a->options.map_bytes);
        if (e == ERROR_NONE)
            e = put_in_place(a);
    }
    if (e == ERROR_NONE)
        e = walk(a);
    if (e == ERROR_NONE)
        e = kv_open_unsynced(a->directory, map_for(a), &a->kv);
    return e;
}

static void leave(struct archive *a)
{
    if (a->fd >= 0)
        flock(a->fd, LOCK_UN);
}

/* Alone in the archive, and it is open; leave() ends it. */
static enum error enter(struct archive *a, bool create, int64_t wait_ms)
{
    enum error e = enter_directory(a, create, wait_ms);

    if (e != ERROR_NONE)
        return e;
    if (a->kv != NULL && kv_check_files(a->kv) != ERROR_NONE)
        close_files(a);
    if (a->kv == NULL)
        e = open_files(a, create);
    if (e != ERROR_NONE)
        leave(a);
    return e;
}

/* Ends what enter() began. What went wrong may be mended by opening anew. */
static enum error done(struct archive *a, enum error e)
{
    if (e != ERROR_NONE && e != ERROR_NOT_FOUND)
        close_files(a);
    leave(a);
    return e;
}

/* ---- removing ---- */

typedef enum error front_visit(void *arg, struct kv_txn *t, const struct kv_slice *key,
                               bool *remove);

/* Removes from the front as long as `visit` says so. */
static enum error remove_front(struct kv_txn *t, front_visit *visit, void *arg)
{
    struct kv_slice key, row;
    struct kv_cursor *c;
    bool remove = true;
    enum error e = kv_cursor_open(t, &c);

    if (e != ERROR_NONE)
        return e;
    e = kv_cursor_seek(c, "", 0, &key, &row);
    while (e == ERROR_NONE && (e = visit(arg, t, &key, &remove)) == ERROR_NONE && remove &&
           (e = kv_cursor_delete(c)) == ERROR_NONE)
        e = kv_cursor_next(c, &key, &row);
    kv_cursor_close(c);
    return e == ERROR_NOT_FOUND ? ERROR_NONE : e;
}

static enum error is_older(void *arg, struct kv_txn *t, const struct kv_slice *key,
                           bool *remove)
{
    const int64_t *oldest_ms = arg;
    struct transcript_key k;

    (void)t;
    if (!transcript_key_read(key, &k))
        return ERROR_STORE_INVALID;
    *remove = k.time_ms < *oldest_ms;
    return ERROR_NONE;
}

static enum error is_over(void *arg, struct kv_txn *t, const struct kv_slice *key, bool *remove)
{
    const uint64_t *most = arg;
    uint64_t map, taken;
    enum error e = kv_taken(t, &map, &taken);

    (void)key;
    if (e == ERROR_NONE)
        *remove = taken > *most;
    return e;
}

static enum error oldest_kept(const struct archive *a, int64_t *ms)
{
    struct clock_now now;
    enum error e = a->options.clock(&now);

    if (e == ERROR_NONE)
        *ms = now.wall_ms - a->options.keep_ms;
    return e;
}

static enum error end_write(struct kv_txn *t, enum error e)
{
    if (e == ERROR_NONE)
        return kv_commit(t);
    kv_abort(t);
    return e;
}

/* ---- adding ---- */

static enum error put_row(struct kv_txn *t, const struct archive_item *item)
{
    struct transcript_key k = {.time_ms = item->time_ms};
    uint8_t key[TRANSCRIPT_KEY_BYTES];
    struct kv_slice there;
    enum error e;

    for (;; k.sequence++) {
        transcript_key_write(&k, key);
        e = kv_get(t, key, sizeof key, &there);
        if (e != ERROR_NONE)
            break;
    }
    return e == ERROR_NOT_FOUND ? kv_put(t, key, sizeof key, item->row.data, item->row.n) : e;
}

/* By the map that is wanted: the file's can be larger, from when more was. */
static enum error make_room(const struct archive *a, struct kv_txn *t, size_t wanted)
{
    uint64_t most = a->options.map_bytes / TAKEN_OF * TAKEN_PARTS;

    most = most > wanted + ROW_EXTRA ? most - wanted - ROW_EXTRA : 0;
    return remove_front(t, is_over, &most);
}

/* As many as fit one transaction, and at least one. */
static size_t part_of(const struct archive *a, const struct archive_item *items, size_t n)
{
    size_t bytes = items[0].row.n, i = 1;

    while (i < n && bytes + items[i].row.n <= archive_row_max(a->options.map_bytes))
        bytes += items[i++].row.n;
    return i;
}

static enum error add_part(struct archive *a, const struct archive_item *items, size_t n)
{
    struct kv_txn *t;
    int64_t oldest_ms;
    enum error e = oldest_kept(a, &oldest_ms);

    if (e == ERROR_NONE)
        e = kv_begin_write(a->kv, &t);
    if (e != ERROR_NONE)
        return e;
    e = remove_front(t, is_older, &oldest_ms);
    for (size_t i = 0; i < n && e == ERROR_NONE; i++) {
        e = make_room(a, t, items[i].row.n);
        if (e == ERROR_NONE)
            e = put_row(t, &items[i]);
    }
    return end_write(t, e);
}

/* Lets half of what is there go, a part at a time: what a transaction frees, only the next but
 * one can use. */
static enum error halve(struct archive *a)
{
    enum error e = ERROR_NONE;

    kv_clear_readers(a->kv); /* one that has died keeps all pages from being used again */
    for (unsigned i = 0; i < 2 && e == ERROR_NONE; i++) {
        uint64_t map, taken;
        struct kv_txn *t;

        e = kv_begin_write(a->kv, &t);
        if (e != ERROR_NONE)
            return e;
        e = kv_taken(t, &map, &taken);
        taken = taken / TAKEN_OF * TAKEN_PARTS;
        if (e == ERROR_NONE)
            e = remove_front(t, is_over, &taken);
        e = end_write(t, e);
    }
    return e;
}

enum error archive_add(struct archive *a, const struct archive_item *items, size_t n,
                       int64_t wait_ms)
{
    enum error e = enter(a, true, wait_ms);

    if (e != ERROR_NONE)
        return e;
    for (size_t i = 0, part; i < n && e == ERROR_NONE; i += part) {
        part = part_of(a, items + i, n - i);
        e = add_part(a, items + i, part);
        if (e == ERROR_STORE_FULL && (e = halve(a)) == ERROR_NONE)
            e = add_part(a, items + i, part);
    }
    return done(a, e);
}

/* ---- looking ---- */

/* Copies the first row from `from` on. */
static enum error read_from(struct archive *a, const uint8_t from[TRANSCRIPT_KEY_BYTES],
                            struct transcript_key *key, uint8_t **row, size_t *n)
{
    struct kv_txn *t = NULL;
    struct kv_cursor *c;
    struct kv_slice k, v;
    enum error e = kv_begin_read(a->kv, &t);

    if (e != ERROR_NONE)
        return e;
    e = kv_cursor_open(t, &c);
    if (e == ERROR_NONE) {
        e = kv_cursor_seek(c, from, TRANSCRIPT_KEY_BYTES, &k, &v);
        if (e == ERROR_NONE && (v.n > TRANSCRIPT_MAX || !transcript_key_read(&k, key)))
            e = ERROR_STORE_INVALID;
        if (e == ERROR_NONE && (*row = malloc(v.n + 1)) == NULL)
            e = ERROR_MEMORY;
        if (e == ERROR_NONE) {
            memcpy(*row, v.data, v.n);
            *n = v.n;
        }
        kv_cursor_close(c);
    }
    kv_free_read(t);
    return e;
}

/* The first one behind *key, in an archive that is entered. */
static enum error read_next(struct archive *a, struct transcript_key *key, uint8_t **row,
                            size_t *n)
{
    struct transcript_key next = *key;
    uint8_t from[TRANSCRIPT_KEY_BYTES];

    if (++next.sequence == 0 && ++next.time_ms < 0)
        return ERROR_NOT_FOUND;
    transcript_key_write(&next, from);
    return read_from(a, from, key, row, n);
}

enum error archive_next(struct archive *a, struct transcript_key *key, uint8_t **row, size_t *n,
                        int64_t wait_ms)
{
    enum error e = enter(a, false, wait_ms);

    return e == ERROR_NONE ? done(a, read_next(a, key, row, n)) : e;
}

static enum error expire(struct archive *a, int64_t oldest_ms)
{
    struct transcript_key first = archive_first;
    struct kv_txn *t;
    uint8_t *row = NULL;
    size_t n;
    enum error e = read_next(a, &first, &row, &n);

    free(row);
    if (e != ERROR_NONE || first.time_ms >= oldest_ms)
        return e == ERROR_NOT_FOUND ? ERROR_NONE : e;
    e = kv_begin_write(a->kv, &t);
    return e == ERROR_NONE ? end_write(t, remove_front(t, is_older, &oldest_ms)) : e;
}

enum error archive_expire(struct archive *a, int64_t wait_ms)
{
    int64_t oldest_ms;
    enum error e = oldest_kept(a, &oldest_ms);

    if (e == ERROR_NONE)
        e = enter(a, false, wait_ms);
    return e == ERROR_NONE ? done(a, expire(a, oldest_ms)) : e;
}

/* ---- erasing ---- */

struct rebuild {
    struct archive *archive;
    struct kv *to;
    struct kv_txn *txn; /* or NULL */
    size_t bytes;       /* in it */
    archive_drop *drop;
    void *arg;
    unsigned dropped;
};

static enum error flush_copy(struct rebuild *r)
{
    struct kv_txn *t = r->txn;

    r->txn = NULL;
    r->bytes = 0;
    return t != NULL ? kv_commit(t) : ERROR_NONE;
}

static enum error copy_row(struct rebuild *r, const struct transcript_key *key,
                           const struct kv_slice *row)
{
    uint8_t bytes[TRANSCRIPT_KEY_BYTES];
    enum error e = ERROR_NONE;

    transcript_key_write(key, bytes);
    if (r->txn == NULL)
        e = kv_begin_write(r->to, &r->txn);
    if (e == ERROR_NONE)
        e = kv_put(r->txn, bytes, sizeof bytes, row->data, row->n);
    r->bytes += row->n;
    if (e == ERROR_NONE && r->bytes >= REBUILD_COMMITS)
        e = flush_copy(r);
    return e;
}

/* Copies the row or leaves it out. One that does not decode cannot be asked about: it goes. */
static enum error sift_row(struct rebuild *r, const struct transcript_key *key,
                           const struct kv_slice *row)
{
    struct transcript t;
    bool drop = true;
    enum error e = transcript_decode(row, &t);

    if (e == ERROR_MEMORY)
        return e;
    if (e == ERROR_NONE) {
        drop = r->drop(r->arg, key, &t);
        transcript_free(&t);
    }
    r->dropped += drop;
    return drop ? ERROR_NONE : copy_row(r, key, row);
}

static enum error sift(struct rebuild *r)
{
    struct transcript_key key = archive_first;
    enum error e = ERROR_NONE;
    uint8_t *row;
    size_t n;

    while (e == ERROR_NONE && (e = read_next(r->archive, &key, &row, &n)) == ERROR_NONE) {
        e = sift_row(r, &key, &(struct kv_slice){row, n});
        free(row);
    }
    if (e == ERROR_NOT_FOUND)
        e = flush_copy(r);
    else if (r->txn != NULL)
        kv_abort(r->txn);
    return e;
}

/* The map as it is, so that all that is there has room again. */
static enum error map_of(struct archive *a, size_t *map_bytes)
{
    struct kv_txn *t = NULL;
    uint64_t map, taken;
    enum error e = kv_begin_read(a->kv, &t);

    if (e == ERROR_NONE)
        e = kv_taken(t, &map, &taken);
    kv_free_read(t);
    if (e == ERROR_NONE)
        *map_bytes = (size_t)map;
    return e;
}

/* What stays, synced, in new/. The old files stay open. */
static enum error build_new(struct rebuild *r)
{
    struct archive *a = r->archive;
    size_t map_bytes;
    enum error e = map_of(a, &map_bytes);

    if (e == ERROR_NONE)
        e = make_new(a, map_bytes);
    if (e == ERROR_NONE)
        e = kv_open(a->path[PATH_NEW], map_bytes, &r->to);
    if (e != ERROR_NONE)
        return e;
    e = sift(r);
    kv_close(r->to);
    return e;
}

/* old.mdb is a second name of the data file, so that whoever comes after a crash can still wipe
 * it. */
static enum error exchange(struct archive *a)
{
    enum error e;

    close_files(a);
    if (link(a->path[PATH_DATA], a->path[PATH_OLD]) != 0)
        return ERROR_STORE_IO;
    e = put_in_place(a);
    return e == ERROR_NONE ? wipe_old(a) : e;
}

enum error archive_erase(struct archive *a, archive_drop *drop, void *arg, int64_t wait_ms,
                         unsigned *erased)
{
    struct rebuild r = {.archive = a, .drop = drop, .arg = arg};
    enum error e = enter(a, false, wait_ms);

    if (e != ERROR_NONE)
        return e;
    e = tidy(a);
    if (e == ERROR_NONE)
        e = build_new(&r);
    if (e == ERROR_NONE)
        e = exchange(a);
    if (e == ERROR_NONE)
        *erased = r.dropped;
    return done(a, e);
}

/* Never opened: it may be one that LMDB dies of. */
static enum error wipe_all(struct archive *a)
{
    enum error e = tidy(a);

    close_files(a);
    if (e == ERROR_NONE && rename(a->path[PATH_DATA], a->path[PATH_OLD]) != 0)
        e = errno == ENOENT ? ERROR_NONE : ERROR_STORE_IO;
    unlink(a->path[PATH_LOCK]);
    if (e == ERROR_NONE)
        e = wipe_old(a);
    return e == ERROR_NONE ? sync_directory(a) : e;
}

enum error archive_erase_all(struct archive *a, int64_t wait_ms)
{
    enum error e = enter_directory(a, false, wait_ms);

    return e == ERROR_NONE ? done(a, wipe_all(a)) : e;
}
