/*
 * The key-value store on LMDB. Security stance: LMDB trusts its files, so it is not given any
 * that have not been looked at (store/kv_files.h), a file that may be broken is first walked
 * in a child, and whatever LMDB reports that is not understood here is an I/O error: the caller
 * refuses.
 *
 * MDB_WRITEMAP never: a full disk would kill the process by SIGBUS. MDB_NOSYNC never where money
 * is counted: what has been admitted must be on the disk before it is spent. MDB_NOTLS: a read
 * handle belongs to who holds it, and threads that come and go leave no reader slots behind.
 */
#include "store/kv.h"

#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "platform/file.h"
#include "store/kv_files.h"
#include "store/kv_gate.h"
#include "store/kv_walk.h"

#define MAIN_TABLE    1 /* LMDB's own numbers: the free list is 0, the unnamed table is 1 */
#define FREE_TABLE    0
#define META_PAGES    2
#define OPEN_TRIES    5 /* of 16000 opens in a bad churn 952, 13, 1, 0 fail this often */
#define BEGIN_TRIES   3 /* the map can grow again while one follows it, and commits overtake */
#define REMAP_WAIT_MS 2000 /* for the transactions of this process; no caller waits longer */

struct kv_txn {
    struct kv *kv;
    MDB_txn *txn;
    bool active;
    bool writes;
};

struct kv {
    MDB_env *env;
    struct kv_files files;
    struct kv_gate gate;
    bool lost;            /* the map is gone; changed only by who is alone in the gate */
    struct kv_txn writer; /* the only one: write transactions are one thread's */
};

/* Where LMDB's codes and errno mean more than "reading or writing failed". */
static const struct {
    int code;
    enum error error;
} errors[] = {
    {MDB_SUCCESS, ERROR_NONE},
    {MDB_NOTFOUND, ERROR_NOT_FOUND},
    {MDB_MAP_FULL, ERROR_STORE_FULL},
    {MDB_TXN_FULL, ERROR_STORE_FULL},
    {MDB_INVALID, ERROR_STORE_INVALID},
    {MDB_VERSION_MISMATCH, ERROR_STORE_INVALID},
    {MDB_INCOMPATIBLE, ERROR_STORE_INVALID},
    {MDB_CORRUPTED, ERROR_STORE_INVALID},
    {MDB_PAGE_NOTFOUND, ERROR_STORE_INVALID},
    {MDB_CURSOR_FULL, ERROR_STORE_INVALID},
    {MDB_BAD_VALSIZE, ERROR_TOO_LARGE},
    {MDB_READERS_FULL, ERROR_BUSY},
    {MDB_MAP_RESIZED, ERROR_BUSY},
    {EAGAIN, ERROR_BUSY},
    {ENOMEM, ERROR_MEMORY},
    {ENOENT, ERROR_STORE_MISSING},
    {ENOTDIR, ERROR_STORE_MISSING},
    {ENODEV, ERROR_UNSUPPORTED},
    {ENOLCK, ERROR_UNSUPPORTED},
    {ENOSYS, ERROR_UNSUPPORTED},
    {EOPNOTSUPP, ERROR_UNSUPPORTED},
};

static enum error error_of(int rc)
{
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].code == rc)
            return errors[i].error;
    return ERROR_STORE_IO;
}

/* jffs2 refuses to map a file that is open for writing with EINVAL. Later EINVAL is LMDB
 * 0.9.26-0.9.31 in a race with another process (ITS#9278), and opening anew mends it. */
static enum error error_of_open(int rc)
{
    return rc == EINVAL ? ERROR_UNSUPPORTED : error_of(rc);
}

/* ---- opening ---- */

static enum error env_open(const char *directory, size_t map_bytes, unsigned flags,
                           MDB_env **out)
{
    /* Down to whole pages: LMDB never maps less than is in use, and up could overflow. */
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    MDB_env *env;
    int rc = mdb_env_create(&env);
    if (rc)
        return error_of(rc);
    rc = mdb_env_set_mapsize(env, map_bytes - map_bytes % page);
    if (!rc)
        rc = mdb_env_set_maxreaders(env, KV_READERS);
    if (!rc)
        rc = mdb_env_open(env, directory, flags | MDB_NOTLS, 0600);
    if (rc) {
        mdb_env_close(env);
        return error_of_open(rc);
    }
    *out = env;
    return ERROR_NONE;
}

/*
 * That LMDB has opened the files that are held, and not others. If data.mdb is taken away
 * between the look and LMDB's open, LMDB makes an empty one, which cannot be told from outside
 * to be ours: it is left there. It has no commits, so it never opens as a store
 * (check_content).
 */
static enum error check_opened(struct kv *kv)
{
    int fd;
    struct file_id id;
    if (mdb_env_get_fd(kv->env, &fd) || file_id_fd(fd, &id))
        return ERROR_STORE_IO;
    if (!file_id_equal(id, kv->files.file[KV_FILE_DATA].id))
        return ERROR_STORE_REPLACED;
    /* LMDB leaves this one open across exec. */
    if (fcntl(fd, F_SETFD, FD_CLOEXEC))
        return ERROR_STORE_IO;
    return kv_files_check(&kv->files);
}

struct file_id kv_data_id(const struct kv *kv)
{
    return kv->files.file[KV_FILE_DATA].id;
}

/* The main table's comparison is set up once, as LMDB wants it; a table of another kind, with
 * duplicates or integer keys, is not ours. */
static enum error open_table(struct kv *kv)
{
    struct kv_txn *t = NULL;
    enum error e = kv_begin_read(kv, &t);
    if (e)
        return e;
    MDB_dbi dbi = 0;
    unsigned flags = 0;
    int rc = mdb_dbi_open(t->txn, NULL, 0, &dbi);
    if (!rc)
        rc = mdb_dbi_flags(t->txn, dbi, &flags);
    kv_free_read(t);
    if (rc)
        return error_of(rc);
    return dbi == MAIN_TABLE && flags == 0 ? ERROR_NONE : ERROR_STORE_INVALID;
}

static enum error open_held(struct kv *kv, const char *directory, size_t map_bytes,
                            unsigned flags)
{
    enum error e = env_open(directory, map_bytes, flags, &kv->env);
    if (e)
        return e;
    e = check_opened(kv);
    if (!e)
        e = open_table(kv);
    if (e)
        mdb_env_close(kv->env);
    return e;
}

static enum error open_checked(const char *directory, size_t map_bytes, unsigned flags,
                               struct kv **out)
{
    struct kv *kv = calloc(1, sizeof *kv);
    if (!kv)
        return ERROR_MEMORY;
    enum error e = kv_gate_init(&kv->gate);
    if (e) {
        free(kv);
        return e;
    }
    kv->writer = (struct kv_txn){.kv = kv, .writes = true};
    e = kv_files_hold(directory, &kv->files);
    if (!e) {
        e = open_held(kv, directory, map_bytes, flags);
        if (e)
            kv_files_release(&kv->files);
    }
    if (e) {
        kv_gate_destroy(&kv->gate);
        free(kv);
        return e;
    }
    *out = kv;
    return ERROR_NONE;
}

/*
 * LMDB 0.9.26-0.9.31 (ITS#9278): the last to close an environment destroys its mutexes, and who
 * is just then waiting to open finds them as they are; the first transaction fails with EINVAL.
 * They are made anew by who opens alone, and so all who have met must let go. On a loaded machine
 * one that does not get its turn keeps the others for longer than they take, hence the doubled
 * waits: 127 ms in all.
 */
static enum error open_persistently(const char *directory, size_t map_bytes, unsigned flags,
                                    struct kv **out)
{
    enum error e = open_checked(directory, map_bytes, flags, out);
    for (int i = 0; i < OPEN_TRIES && e == ERROR_STORE_IO; i++) {
        poll(NULL, 0, 1 << i);
        e = open_checked(directory, map_bytes, flags, out);
    }
    return e;
}

static enum error commit_if(enum error e, struct kv_txn *t)
{
    if (!e)
        return kv_commit(t);
    kv_abort(t);
    return e;
}

/*
 * Two commits: a store without any is one that LMDB has made by itself. The second one sees the
 * row of the first through the map, or the file system is of no use.
 */
static enum error make_first_commits(struct kv *kv)
{
    struct kv_txn *t = NULL;
    enum error e = kv_begin_write(kv, &t);
    if (!e)
        e = commit_if(kv_put(t, "probe", 5, "", 0), t);
    if (!e)
        e = kv_begin_write(kv, &t);
    if (!e)
        e = commit_if(kv_delete(t, "probe", 5), t);
    return e == ERROR_NOT_FOUND ? ERROR_UNSUPPORTED : e;
}

static enum error initialise(const char *directory, size_t map_bytes)
{
    MDB_env *env = NULL;
    struct kv *kv;
    enum error e = env_open(directory, map_bytes, 0, &env);
    if (e)
        return e;
    mdb_env_close(env);
    e = open_persistently(directory, map_bytes, 0, &kv);
    if (e)
        return e;
    e = make_first_commits(kv);
    kv_close(kv);
    return e;
}

enum error kv_create(const char *directory, size_t map_bytes)
{
    enum error e = kv_files_create(directory);
    if (e)
        return e;
    e = initialise(directory, map_bytes);
    if (!e)
        e = kv_files_sync(directory);
    if (e)
        kv_files_remove(directory);
    return e;
}

/* That the store was made by kv_create, and whether data.mdb ends before the last page that was
 * ever taken. */
static enum error check_content(struct kv *kv, bool *is_short)
{
    MDB_envinfo info;
    MDB_stat stat;
    uint64_t size;
    if (mdb_env_info(kv->env, &info) || mdb_env_stat(kv->env, &stat))
        return ERROR_STORE_IO;
    enum error e = kv_files_data_size(&kv->files, &size);
    if (e)
        return e;
    uint64_t pages = size / stat.ms_psize;
    if (info.me_last_txnid == 0 || pages < META_PAGES)
        return ERROR_STORE_INVALID;
    *is_short = pages <= info.me_last_pgno;
    return ERROR_NONE;
}

/*
 * A sound file can be short: a page that a transaction took at the end and freed again is
 * counted and never written. Only a walk can tell such a file from one that has been cut.
 */
static enum error open_sound(const char *directory, size_t map_bytes, unsigned flags,
                             struct kv **out)
{
    struct kv *kv;
    bool is_short = false;
    enum error e = open_persistently(directory, map_bytes, flags, &kv);
    if (!e) {
        e = check_content(kv, &is_short);
        if (e || is_short)
            kv_close(kv);
    }
    if (!e && is_short) {
        e = kv_walk(directory, map_bytes, NULL, NULL);
        if (e == ERROR_STORE_BROKEN)
            e = ERROR_STORE_INVALID;
        if (!e)
            e = open_persistently(directory, map_bytes, flags, &kv);
    }
    if (e)
        return e;
    kv_clear_readers(kv);
    *out = kv;
    return ERROR_NONE;
}

enum error kv_open(const char *directory, size_t map_bytes, struct kv **out)
{
    return open_sound(directory, map_bytes, 0, out);
}

enum error kv_open_unsynced(const char *directory, size_t map_bytes, struct kv **out)
{
    return open_sound(directory, map_bytes, MDB_NOSYNC, out);
}

void kv_close(struct kv *kv)
{
    if (!kv)
        return;
    mdb_env_close(kv->env);
    kv_files_release(&kv->files);
    kv_gate_destroy(&kv->gate);
    free(kv);
}

enum error kv_check_files(struct kv *kv)
{
    return kv_files_check(&kv->files);
}

/* ---- transactions ---- */

/*
 * Takes up a map that another process has made larger. If it cannot be mapped, LMDB has already
 * given the old one up and would read freed memory: the environment is of no further use.
 */
static enum error follow_map(struct kv *kv)
{
    enum error e = kv_gate_alone(&kv->gate, REMAP_WAIT_MS);
    if (e)
        return e;
    if (!kv->lost && mdb_env_set_mapsize(kv->env, 0))
        kv->lost = true;
    kv_gate_reopen(&kv->gate);
    return ERROR_NONE;
}

static int start(struct kv_txn *t)
{
    if (t->kv->lost)
        return MDB_PANIC;
    if (t->writes)
        return mdb_txn_begin(t->kv->env, NULL, 0, &t->txn);
    if (t->txn)
        return mdb_txn_renew(t->txn);
    return mdb_txn_begin(t->kv->env, NULL, MDB_RDONLY, &t->txn);
}

/*
 * LMDB numbers transactions by the lock file for as long as any process holds it, and not by
 * data.mdb: an older copy that is put in place meanwhile would pass for the newest. Its own
 * pages tell. They are never behind in a sound store, since a commit writes them first.
 * A number 0 beside pages of a later one: whoever made the lock file was killed before it had
 * one, and who waited for it goes on with what there is. All must let go, to make it anew.
 * A reader that loses its turn between the number and the page of its parity can be overtaken by
 * two commits, and reads the later of them, which may not be on the disk yet: a sum could fall, and
 * a walk take pages for freed in the future. ERROR_BUSY: it begins again.
 */
static enum error check_number(const struct kv_txn *t)
{
    MDB_envinfo info;
#ifndef __SANITIZE_THREAD__ /* gcc's knows no fences, and LMDB is not instrumented */
    atomic_thread_fence(memory_order_acquire); /* the pages are read after the number */
#endif
    if (mdb_env_info(t->kv->env, &info) || info.me_last_txnid < kv_last_id(t))
        return ERROR_STORE_ROLLED_BACK;
    if (kv_last_id(t) == 0 && info.me_last_txnid > 0)
        return ERROR_STORE_IO;
    return info.me_last_txnid > kv_last_id(t) + 1 ? ERROR_BUSY : ERROR_NONE;
}

static enum error begin(struct kv_txn *t)
{
    struct kv *kv = t->kv;
    enum error e = ERROR_NONE;
    int rc = 0;
    for (int i = 0; i < BEGIN_TRIES && !e; i++) {
        kv_gate_enter(&kv->gate);
        rc = start(t);
        if (!rc)
            e = check_number(t);
        t->active = !rc && !e;
        if (t->active)
            return ERROR_NONE;
        if (!rc) {
            mdb_txn_abort(t->txn);
            t->txn = NULL;
        }
        kv_gate_leave(&kv->gate);
        if (rc == MDB_MAP_RESIZED)
            e = follow_map(kv);
        else if (rc == MDB_READERS_FULL)
            kv_clear_readers(kv);
        else if (e != ERROR_BUSY || i + 1 == BEGIN_TRIES)
            break;
        else
            e = ERROR_NONE;
    }
    return e ? e : error_of(rc);
}

static void ended(struct kv_txn *t)
{
    t->active = false;
    kv_gate_leave(&t->kv->gate);
}

enum error kv_begin_read(struct kv *kv, struct kv_txn **t)
{
    if (*t)
        return begin(*t);
    struct kv_txn *new = malloc(sizeof *new);
    if (!new)
        return ERROR_MEMORY;
    *new = (struct kv_txn){.kv = kv};
    enum error e = begin(new);
    if (e)
        free(new);
    else
        *t = new;
    return e;
}

void kv_end_read(struct kv_txn *t)
{
    mdb_txn_reset(t->txn);
    ended(t);
}

void kv_free_read(struct kv_txn *t)
{
    if (!t)
        return;
    mdb_txn_abort(t->txn);
    if (t->active)
        ended(t);
    free(t);
}

enum error kv_begin_write(struct kv *kv, struct kv_txn **out)
{
    enum error e = begin(&kv->writer);
    if (!e)
        *out = &kv->writer;
    return e;
}

enum error kv_commit(struct kv_txn *t)
{
    int rc = mdb_txn_commit(t->txn);
    ended(t);
    return error_of(rc);
}

void kv_abort(struct kv_txn *t)
{
    mdb_txn_abort(t->txn);
    ended(t);
}

void kv_clear_readers(struct kv *kv)
{
    int dead;
    mdb_reader_check(kv->env, &dead);
}

uint64_t kv_last_id(const struct kv_txn *t)
{
    uint64_t id = mdb_txn_id(t->txn);
    return t->writes ? id - 1 : id;
}

/* ---- rows ---- */

/* LMDB takes keys and values by pointers that are not const, and does not write through
 * them. */
static MDB_val val_of(const void *data, size_t n)
{
    MDB_val v = {.mv_size = n};
    memcpy(&v.mv_data, &data, sizeof data);
    return v;
}

static struct kv_slice slice_of(const MDB_val *v)
{
    return (struct kv_slice){.data = v->mv_data, .n = v->mv_size};
}

enum error kv_get(struct kv_txn *t, const void *key, size_t n, struct kv_slice *out)
{
    MDB_val k = val_of(key, n), v;
    int rc = mdb_get(t->txn, MAIN_TABLE, &k, &v);
    if (!rc)
        *out = slice_of(&v);
    return error_of(rc);
}

enum error kv_put(struct kv_txn *t, const void *key, size_t n, const void *value, size_t nvalue)
{
    if (n > KV_KEY_MAX)
        return ERROR_TOO_LARGE;
    MDB_val k = val_of(key, n), v = val_of(value, nvalue);
    return error_of(mdb_put(t->txn, MAIN_TABLE, &k, &v, 0));
}

enum error kv_delete(struct kv_txn *t, const void *key, size_t n)
{
    MDB_val k = val_of(key, n);
    return error_of(mdb_del(t->txn, MAIN_TABLE, &k, NULL));
}

/*
 * LMDB's own cursor starts anew from the first row after the end, still deletes the last one
 * there, and after a deletion skips a row that was put just behind the deleted one. So the
 * place is kept here too, and after a deletion the next row is searched.
 */
struct kv_cursor {
    MDB_cursor *cursor;
    enum { NOWHERE, ON_ROW, AT_DELETED } place;
    size_t n_deleted;
    unsigned char deleted[KV_KEY_MAX];
};

enum error kv_cursor_open(struct kv_txn *t, struct kv_cursor **out)
{
    struct kv_cursor *c = malloc(sizeof *c);
    if (!c)
        return ERROR_MEMORY;
    c->place = NOWHERE;
    int rc = mdb_cursor_open(t->txn, MAIN_TABLE, &c->cursor);
    if (rc)
        free(c);
    else
        *out = c;
    return error_of(rc);
}

static enum error move(struct kv_cursor *c, MDB_val *k, MDB_cursor_op op,
                       struct kv_slice *found, struct kv_slice *value)
{
    MDB_val v;
    int rc = mdb_cursor_get(c->cursor, k, &v, op);
    c->place = rc ? NOWHERE : ON_ROW;
    if (!rc) {
        *found = slice_of(k);
        *value = slice_of(&v);
    }
    return error_of(rc);
}

enum error kv_cursor_seek(struct kv_cursor *c, const void *key, size_t n,
                          struct kv_slice *found, struct kv_slice *value)
{
    MDB_val k = val_of(key, n);
    return move(c, &k, n ? MDB_SET_RANGE : MDB_FIRST, found, value);
}

enum error kv_cursor_next(struct kv_cursor *c, struct kv_slice *found, struct kv_slice *value)
{
    MDB_val k = val_of(c->deleted, c->n_deleted);
    if (c->place == NOWHERE)
        return ERROR_NOT_FOUND;
    return move(c, &k, c->place == AT_DELETED ? MDB_SET_RANGE : MDB_NEXT, found, value);
}

enum error kv_cursor_delete(struct kv_cursor *c)
{
    MDB_val k, v;
    if (c->place != ON_ROW)
        return ERROR_NOT_FOUND;
    c->place = NOWHERE;
    int rc = mdb_cursor_get(c->cursor, &k, &v, MDB_GET_CURRENT);
    if (!rc && k.mv_size > KV_KEY_MAX)
        return ERROR_STORE_INVALID;
    if (!rc) {
        memcpy(c->deleted, k.mv_data, k.mv_size);
        c->n_deleted = k.mv_size;
        rc = mdb_cursor_del(c->cursor, 0);
    }
    if (!rc)
        c->place = AT_DELETED;
    return error_of(rc);
}

void kv_cursor_close(struct kv_cursor *c)
{
    if (!c)
        return;
    mdb_cursor_close(c->cursor);
    free(c);
}

/* ---- the inside, for usage and the walk ---- */

enum error kv_each_free(struct kv_txn *t, kv_free_fn *visit, void *arg)
{
    MDB_cursor *c;
    MDB_val k, v;
    int rc = mdb_cursor_open(t->txn, FREE_TABLE, &c);
    if (rc)
        return error_of(rc);
    bool go_on = true;
    while (go_on && !(rc = mdb_cursor_get(c, &k, &v, MDB_NEXT)))
        go_on = visit(arg, slice_of(&k), slice_of(&v));
    mdb_cursor_close(c);
    if (!go_on)
        return ERROR_STORE_INVALID;
    return rc == MDB_NOTFOUND ? ERROR_NONE : error_of(rc);
}

static uint64_t pages_of(const MDB_stat *s)
{
    return (uint64_t)s->ms_branch_pages + s->ms_leaf_pages + s->ms_overflow_pages;
}

enum error kv_sums(struct kv_txn *t, struct kv_sums *out)
{
    MDB_envinfo info;
    MDB_stat rows, freed;
    int rc = mdb_env_info(t->kv->env, &info);
    if (!rc)
        rc = mdb_stat(t->txn, MAIN_TABLE, &rows);
    if (!rc)
        rc = mdb_stat(t->txn, FREE_TABLE, &freed);
    if (rc)
        return error_of(rc);
    *out = (struct kv_sums){
        .map_bytes = info.me_mapsize,
        .page_bytes = rows.ms_psize,
        .pages = (uint64_t)info.me_last_pgno + 1,
        .pages_used = META_PAGES + pages_of(&rows) + pages_of(&freed),
        .rows = rows.ms_entries,
    };
    return ERROR_NONE;
}

static void die_of_assertion(MDB_env *env, const char *text)
{
    (void)env;
    (void)text;
    _exit(1);
}

enum error kv_open_for_walk(const char *directory, size_t map_bytes, struct kv **out)
{
    struct kv *kv;
    bool is_short;
    enum error e = open_persistently(directory, map_bytes, MDB_RDONLY, &kv);
    if (e)
        return e;
    mdb_env_set_assert(kv->env, die_of_assertion);
    e = check_content(kv, &is_short);
    if (e)
        kv_close(kv);
    else
        *out = kv;
    return e;
}
