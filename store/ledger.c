/*
 * The ledger's doors: opening a store or saying why not, checking before each decision that the
 * open files are still the store, and asking from a read transaction.
 * Fails closed: whatever is missing, older, foreign, unreadable or cut is an error with a name,
 * and nothing but ledger_create makes a store.
 */
#include "store/ledger.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/ledger_parts.h"
#include "store/liverows.h"
#include "store/mark.h"
#include "store/upgrade.h"

#define OPEN_TRIES    3
#define PERIODS_TRIES 3 /* the file changes once a day or with the configuration */

/* What stands at a path of the store, as far as this user can see. */
static enum error look_at(const char *directory, const char *name)
{
    char *path = file_join(directory, name);
    struct stat st;
    enum error e = ERROR_MEMORY;

    if (path && lstat(path, &st) == 0)
        e = ERROR_NONE;
    else if (path)
        e = errno == EACCES ? ERROR_OWNER : ERROR_STORE_MISSING;
    free(path);
    return e;
}

enum error ledger_look(const char *store)
{
    static const char *const names[] = {FILE_DATA, FILE_LEASE, FILE_COPY};
    enum error e = ERROR_STORE_MISSING;

    for (size_t i = 0; i < sizeof names / sizeof *names && e == ERROR_STORE_MISSING; i++)
        e = look_at(store, names[i]);
    return e;
}

/* Of two kinds of store at one place nobody can say which has counted last. */
enum error ledger_check_kind(const struct ledger *l)
{
    const char *other = l->options.lease ? FILE_DATA : FILE_LEASE;

    return look_at(l->options.store, other) == ERROR_NONE ? ERROR_STORE_DURABILITY : ERROR_NONE;
}

static bool set_path(char **out, const char *directory, const char *name)
{
    *out = file_join(directory, name);
    return *out != NULL;
}

static enum error set_paths(struct ledger *l, const struct ledger_options *o)
{
    l->options = *o;
    l->options.store = strdup(o->store);
    l->run = o->run ? strdup(o->run) : file_join(o->store, "run");
    l->options.run = l->run;
    if (!l->options.store || !l->run)
        return ERROR_MEMORY;
    l->rows = o->lease ? file_join(l->run, "store") : strdup(o->store);
    return l->rows && set_path(&l->path_periods, o->store, FILE_PERIODS) &&
                   set_path(&l->path_copy, o->store, FILE_COPY) &&
                   set_path(&l->path_lease, o->store, FILE_LEASE) &&
                   set_path(&l->path_mark, l->run, "mark") &&
                   set_path(&l->path_live, l->run, "live") &&
                   set_path(&l->path_board, l->run, "board") &&
                   set_path(&l->path_walked, l->run, "walked") &&
                   set_path(&l->path_copied, l->rows, "copied")
               ? ERROR_NONE
               : ERROR_MEMORY;
}

enum error ledger_run_directory(const char *run, bool make)
{
    struct stat st;

    if (make && mkdir(run, 0700) != 0 && errno != EEXIST)
        return ERROR_SYSTEM;
    if (lstat(run, &st) != 0)
        return errno == EACCES ? ERROR_OWNER : ERROR_RUN_MISSING;
    if (!S_ISDIR(st.st_mode))
        return ERROR_RUN_MISSING;
    return st.st_uid == geteuid() && (st.st_mode & 077) == 0 ? ERROR_NONE : ERROR_OWNER;
}

enum error ledger_open_rows(struct ledger *l)
{
    if (!l->options.lease)
        return kv_open(l->rows, l->options.map_bytes, &l->kv);
    enum error e = kv_open_unsynced(l->rows, l->options.map_bytes, &l->kv);
    return e == ERROR_NONE ? liverows_name(l) : e;
}

/* Once a boot and file: LMDB has no checksums and can die on a broken file, so a child
 * looks. */
static enum error walk_once(struct ledger *l, const struct clock_now *now)
{
    char *data = file_join(l->rows, FILE_DATA);
    struct upgrade_look look = {0};
    struct file_id id;
    enum error e = data ? ERROR_NONE : ERROR_MEMORY;

    if (e == ERROR_NONE && file_id_path(data, &id) != ERROR_NONE)
        e = ERROR_STORE_MISSING;
    else if (e == ERROR_NONE && !mark_walked(l->path_walked, now->boot_id, id) &&
             (e = kv_walk(l->rows, l->options.map_bytes, upgrade_row_ok, &look)) == ERROR_NONE)
        mark_walked_note(l->path_walked, now->boot_id, id);
    free(data);
    return e;
}

void ledger_secret_check(const uint8_t secret[SECRET_SIZE], const uint8_t uuid[16],
                         uint8_t out[MAC_SIZE])
{
    mac_compute(secret, "store", uuid, 16, out);
}

enum error ledger_schema(const struct kv_slice *value, const uint8_t secret[SECRET_SIZE],
                         struct schema *out)
{
    uint8_t check[MAC_SIZE];
    struct schema s;
    struct zone zone;
    enum error e = record_schema_read(value, &s);

    if (e != ERROR_NONE)
        return e;
    ledger_secret_check(secret, s.uuid, check);
    if (!mac_equal(check, s.check, sizeof check))
        return ERROR_STORE_SECRET;
    if (!zone_parse(s.zone, &zone))
        return ERROR_STORE_INVALID;
    *out = s;
    return ERROR_NONE;
}

/* Of an older program's store: as it will be once it has been upgraded. */
static enum error read_schema(struct ledger *l, struct kv_txn *t)
{
    struct row_key schema, key;
    struct record r;
    struct kv_slice name, value;

    key_schema(&schema);
    name = (struct kv_slice){schema.bytes, schema.n};
    enum error e = kv_get(t, schema.bytes, schema.n, &value);
    if (e != ERROR_NONE)
        return e == ERROR_NOT_FOUND ? ERROR_STORE_INVALID : e;
    if (!record_take(&name, &value, &key, &r))
        return ERROR_STORE_INVALID;
    l->older = upgrade_version(&name, &value) < RECORD_VERSION;
    if (l->older && (e = upgrade_row(&key, &r)) != ERROR_NONE)
        return e;
    value = (struct kv_slice){r.bytes, r.n};
    if ((e = ledger_schema(&value, l->options.secret, &l->schema)) != ERROR_NONE)
        return e;
    (void)zone_parse(l->schema.zone, &l->zone);
    return ERROR_NONE;
}

/* That the first row of every decision can be read; an older one cannot yet. */
static enum error try_state(struct ledger *l, struct kv_txn *t)
{
    struct state s;

    return l->older ? ERROR_NONE : ledger_read_state(t, &s);
}

/* Another process may be writing the mark at this moment; a torn read is read again. */
static enum error read_mark(int fd, struct mark *m)
{
    enum error e = mark_read(fd, m);

    for (int i = 0; i < OPEN_TRIES && e == ERROR_STORE_INVALID; i++)
        e = mark_read(fd, m);
    return e;
}

/* Runs fn in a read transaction of its own. */
static enum error
with_rows(struct ledger *l,
          enum error (*fn)(struct ledger *l, struct kv_txn *t, struct mark *m), struct mark *m)
{
    struct kv_txn *t = NULL;
    enum error e = kv_begin_read(l->kv, &t);

    if (e != ERROR_NONE)
        return e;
    e = fn(l, t, m);
    kv_end_read(t);
    kv_free_read(t);
    return e;
}

static enum error make_mark(struct ledger *l, struct kv_txn *t, struct mark *m)
{
    enum error e = read_schema(l, t);

    if (e != ERROR_NONE || (e = try_state(l, t)) != ERROR_NONE)
        return e;
    m->last_id = kv_last_id(t);
    memcpy(m->uuid, l->schema.uuid, sizeof m->uuid);
    return mark_create(l->path_mark, m);
}

static enum error check_rows(struct ledger *l, struct kv_txn *t, struct mark *m)
{
    enum error e = read_schema(l, t);

    if (e != ERROR_NONE || (e = try_state(l, t)) != ERROR_NONE)
        return e;
    if (memcmp(m->uuid, l->schema.uuid, sizeof m->uuid) != 0)
        return ERROR_STORE_REPLACED;
    return kv_last_id(t) < m->last_id ? ERROR_STORE_ROLLED_BACK : ERROR_NONE;
}

/* The mark is read before the rows: others go on committing meanwhile. It is compared before
 * anything is upgraded: that would make a copy that was rolled back look younger. */
static enum error check_store(struct ledger *l, bool adopt)
{
    struct mark m;
    enum error e;

    if (adopt && unlink(l->path_mark) != 0 && errno != ENOENT)
        return ERROR_SYSTEM;
    if ((e = mark_open(l->path_mark, &l->mark_fd)) == ERROR_NOT_FOUND &&
        (e = with_rows(l, make_mark, &m)) == ERROR_NONE)
        e = mark_open(l->path_mark, &l->mark_fd);
    if (e != ERROR_NONE || (e = file_id_fd(l->mark_fd, &l->mark_id)) != ERROR_NONE ||
        (e = read_mark(l->mark_fd, &m)) != ERROR_NONE)
        return e;
    if ((e = with_rows(l, check_rows, &m)) != ERROR_NONE || !l->older)
        return e;
    e = upgrade_store(l->kv);
    return e == ERROR_NONE ? with_rows(l, check_rows, &m) : e;
}

/* What does not go together may only have been opened while others put rows in place. */
static enum error check_opened(struct ledger *l, bool adopt)
{
    enum error e = check_store(l, adopt);
    enum error files = e == ERROR_NONE ? ERROR_NONE : kv_check_files(l->kv);

    return files == ERROR_NONE ? e : files;
}

static enum error open_rows(struct ledger *l, const struct clock_now *now, bool adopt)
{
    enum error e = l->options.lease ? liverows_need(l, now, adopt) : ERROR_NONE;

    if (e == ERROR_NONE)
        e = walk_once(l, now);
    if (e == ERROR_NONE)
        e = ledger_open_rows(l);
    return e == ERROR_NONE ? check_opened(l, adopt) : e;
}

static enum error look_at_lease(struct ledger *l, struct kv_txn *t, struct mark *m)
{
    (void)m;
    return lease_look(l, t);
}

/* Rows that do not count on any more are made anew. A lease that cannot be read grants nothing, and
 * what the rows say can be seen. */
static enum error open_last_rows(struct ledger *l, const struct clock_now *now, bool adopt)
{
    enum error e = open_rows(l, now, adopt);

    if (e != ERROR_NONE || !l->options.lease ||
        with_rows(l, look_at_lease, NULL) != ERROR_STORE_REPLACED)
        return e;
    kv_close(l->kv);
    l->kv = NULL;
    close(l->mark_fd);
    l->mark_fd = -1;
    atomic_store(&l->broken, ERROR_NONE);
    return open_rows(l, now, adopt);
}

static enum error open_files(struct ledger *l, bool adopt)
{
    struct clock_now now;
    uint8_t key[MAC_SIZE];
    enum error e;

    if ((e = ledger_look(l->options.store)) != ERROR_NONE ||
        (e = l->options.clock(&now)) != ERROR_NONE ||
        (e = ledger_run_directory(l->run, false)) != ERROR_NONE ||
        (e = ledger_check_kind(l)) != ERROR_NONE ||
        (e = open_last_rows(l, &now, adopt)) != ERROR_NONE)
        return e;
    if ((e = ledger_periods_refresh(l, true)) != ERROR_NONE ||
        (e = live_open(l->path_live, &l->live)) != ERROR_NONE ||
        (e = file_id_fd(live_fd(l->live), &l->live_id)) != ERROR_NONE ||
        (e = board_open(l->path_board, &l->board)) != ERROR_NONE ||
        (e = file_id_fd(board_fd(l->board), &l->board_id)) != ERROR_NONE)
        return e;
    livecount_begin(l, &now);
    mac_compute(l->options.secret, "live", now.boot_id, sizeof now.boot_id, key);
    mac_prepare(key, &l->live_key);
    mac_wipe(key, sizeof key);
    mac_compute(l->options.secret, "display", "", 0, l->display_key);
    return ERROR_NONE;
}

void ledger_free(struct ledger *l)
{
    if (!l)
        return;
    for (struct reader *r = l->readers, *next; r; r = next) {
        next = r->next;
        if (r->txn)
            kv_free_read(r->txn);
        mac_wipe(r, sizeof *r);
        free(r);
    }
    if (l->kv)
        kv_close(l->kv);
    live_close(l->live);
    board_close(l->board);
    if (l->mark_fd >= 0)
        close(l->mark_fd);
    free((char *)(uintptr_t)l->options.store);
    free(l->run);
    free(l->rows);
    free(l->path_periods);
    free(l->path_copy);
    free(l->path_lease);
    free(l->path_mark);
    free(l->path_live);
    free(l->path_board);
    free(l->path_walked);
    free(l->path_copied);
    mac_wipe(l, sizeof *l);
    free(l);
}

enum error ledger_new(const struct ledger_options *o, struct ledger **out)
{
    struct ledger *l = calloc(1, sizeof *l);
    enum error e;

    if (!l)
        return ERROR_MEMORY;
    l->mark_fd = -1;
    pthread_rwlock_init(&l->periods_lock, NULL);
    pthread_mutex_init(&l->readers_lock, NULL);
    pthread_mutex_init(&l->timed_lock, NULL);
    l->timed.retention_ms = HISTORY_DAYS * 86400000LL; /* as long as no policy is known */
    writer_init(&l->writer);
    copier_init(&l->copier);
    if ((e = set_paths(l, o)) == ERROR_NONE)
        *out = l;
    else
        ledger_free(l);
    return e;
}

/* Half of one is none: it is to be made, not to be put back. */
static enum error half_made(const struct ledger *l, enum error e)
{
    bool half =
        e == ERROR_STORE_INVALID && look_at(l->options.store, FILE_MAKING) == ERROR_NONE;

    return half ? ERROR_STORE_MISSING : e;
}

enum error ledger_open(const struct ledger_options *o, bool adopt, struct ledger **out)
{
    struct ledger *l;
    enum error e = ledger_new(o, &l);

    if (e != ERROR_NONE)
        return e;
    if ((e = open_files(l, adopt)) != ERROR_NONE) {
        e = half_made(l, e);
        ledger_free(l);
        return e;
    }
    ledger_is_made(l);
    *out = l;
    return ERROR_NONE;
}

bool ledger_close(struct ledger *l, int64_t bound_ms)
{
    int64_t until = clock_monotonic_ms() + bound_ms, now;

    if (!l)
        return true;
    if (!copier_wait(l, until))
        return false;
    now = clock_monotonic_ms();
    if (!writer_stop(l, now < until ? until - now : 0))
        return false;
    ledger_log_tell(l, 0);
    ledger_free(l);
    return true;
}

/* Before each decision */

void ledger_break(struct ledger *l, enum error e)
{
    atomic_store(&l->broken, (int)e);
}

static bool is_still(const char *path, struct file_id id)
{
    struct file_id now;

    return file_id_path(path, &now) == ERROR_NONE && file_id_equal(now, id);
}

enum error ledger_verify_files(struct ledger *l)
{
    enum error e = (enum error)atomic_load(&l->broken);

    if (e != ERROR_NONE || (e = kv_check_files(l->kv)) != ERROR_NONE)
        return e;
    return is_still(l->path_mark, l->mark_id) && is_still(l->path_live, l->live_id) &&
                   is_still(l->path_board, l->board_id)
               ? ERROR_NONE
               : ERROR_RUN_MISSING;
}

enum error ledger_verify(struct ledger *l)
{
    enum error e = ledger_verify_files(l);

    return e == ERROR_NONE ? ledger_periods_refresh(l, false) : e;
}

enum error ledger_read_state(struct kv_txn *txn, struct state *out)
{
    struct row_key key;
    struct kv_slice value;

    key_state(&key);
    enum error e = kv_get(txn, key.bytes, key.n, &value);
    if (e != ERROR_NONE)
        return e == ERROR_NOT_FOUND ? ERROR_STORE_INVALID : e;
    return record_state_read(&value, out) ? ERROR_NONE : ERROR_STORE_INVALID;
}

/* Takes up what was read under the stamp, unless the file has been replaced since: another
 * thread may have read that one already, and the writer would put the older keys over it. */
static bool take_periods(struct ledger *l, const struct periods *fresh,
                         const struct file_stamp *stamp)
{
    pthread_rwlock_wrlock(&l->periods_lock);
    struct file_stamp now = file_stamp(l->path_periods);
    bool newest = file_stamp_equal(&now, stamp);
    if (newest) {
        l->periods = *fresh;
        l->periods_stamp = *stamp;
    }
    pthread_rwlock_unlock(&l->periods_lock);
    return newest;
}

enum error ledger_periods_refresh(struct ledger *l, bool force)
{
    for (int i = 0; i < PERIODS_TRIES; i++) {
        struct file_stamp stamp = file_stamp(l->path_periods);
        struct periods fresh;

        pthread_rwlock_rdlock(&l->periods_lock);
        bool same = file_stamp_equal(&stamp, &l->periods_stamp);
        pthread_rwlock_unlock(&l->periods_lock);
        if (same && !force)
            return ERROR_NONE;
        enum error e = periods_read(l->path_periods, l->options.secret, l->schema.uuid, &fresh);
        if (e != ERROR_NONE)
            return e;
        bool taken = take_periods(l, &fresh, &stamp);
        mac_wipe(&fresh, sizeof fresh);
        if (taken)
            return ERROR_NONE;
    }
    return ERROR_BUSY;
}

void ledger_periods_copy(struct ledger *l, struct periods *out)
{
    pthread_rwlock_rdlock(&l->periods_lock);
    *out = l->periods;
    pthread_rwlock_unlock(&l->periods_lock);
}

static struct reader *reader_take(struct ledger *l)
{
    pthread_mutex_lock(&l->readers_lock);
    struct reader *r = l->readers;
    if (r)
        l->readers = r->next;
    pthread_mutex_unlock(&l->readers_lock);
    return r ? r : calloc(1, sizeof *r);
}

static void reader_give(struct ledger *l, struct reader *r)
{
    pthread_mutex_lock(&l->readers_lock);
    r->next = l->readers;
    l->readers = r;
    pthread_mutex_unlock(&l->readers_lock);
}

static enum error read_once(struct ledger *l, struct reader *r, reading *fn, void *arg)
{
    struct clock_now now;
    struct state state;
    struct view_context c = {.ledger = l,
                             .state = &state,
                             .now = &now,
                             .cache = r->cache,
                             .view = &r->view,
                             .asked = &r->asked};
    enum error e = kv_begin_read(l->kv, &r->txn);

    if (e != ERROR_NONE)
        return e;
    c.txn = r->txn;
    /* The clock after the snapshot: a younger state row would put store time before it. */
    if ((e = l->options.clock(&now)) == ERROR_NONE &&
        (e = ledger_read_state(r->txn, &state)) == ERROR_NONE) {
        pthread_rwlock_rdlock(&l->periods_lock);
        e = fn(arg, &c);
        pthread_rwlock_unlock(&l->periods_lock);
    }
    kv_end_read(r->txn);
    return e;
}

enum error ledger_reading(struct ledger *l, reading *fn, void *arg)
{
    struct reader *r = reader_take(l);

    if (!r)
        return ERROR_MEMORY;
    enum error e = read_once(l, r, fn, arg);
    if (e == ERROR_PERIODS && (e = ledger_periods_refresh(l, true)) == ERROR_NONE)
        e = read_once(l, r, fn, arg);
    reader_give(l, r);
    return e;
}

/* Asking */

struct question {
    const struct policy *policy;
    struct demand *demand;
    struct answer *answer;
};

/* Only what was computed under the keys of now. Which subject a shown key is, the store says anew
 * each time. */
static void recall(const struct view_context *c, struct demand *d)
{
    const struct asked *a = c->asked;

    if (d->hashes.n == 0 && d->hashes.live_known == 0 && !d->caller.has_key &&
        file_stamp_equal(&a->periods, &c->ledger->periods_stamp) &&
        memcmp(&a->caller, &d->caller, sizeof a->caller) == 0)
        d->hashes = a->hashes;
}

static void remember(const struct view_context *c, const struct demand *d)
{
    c->asked->periods = c->ledger->periods_stamp;
    c->asked->caller = d->caller;
    c->asked->hashes = d->hashes;
}

static enum error check(void *arg, const struct view_context *c)
{
    struct question *q = arg;

    recall(c, q->demand);
    enum error e = view_build(c, q->policy, q->demand);
    if (e != ERROR_NONE)
        return e;
    if (!q->demand->caller.has_key)
        remember(c, q->demand);
    return view_decide(c, q->policy, q->demand, q->answer);
}

enum error ledger_check(struct ledger *l, const struct policy *p, struct demand *d,
                        struct answer *out)
{
    struct answer a;
    struct question q = {p, d, &a};
    enum error e = ledger_verify(l);

    if (e == ERROR_NONE)
        e = ledger_reading(l, check, &q);
    if (e == ERROR_NONE)
        *out = a;
    return e;
}

static void note_policy(struct ledger *l, const struct policy *p)
{
    pthread_mutex_lock(&l->timed_lock);
    l->timed = *p;
    l->timed.limits = l->watched;
    l->timed.n_limits = 0;
    for (unsigned i = 0; i < p->n_limits && p->n_alert_at > 0; i++)
        if (alert_watches(&p->limits[i]))
            l->watched[l->timed.n_limits++] = p->limits[i];
    pthread_mutex_unlock(&l->timed_lock);
}

struct op *ledger_timed_op(struct ledger *l, enum op_kind kind)
{
    pthread_mutex_lock(&l->timed_lock);
    struct op *op = op_new(kind, &l->timed);
    pthread_mutex_unlock(&l->timed_lock);
    return op;
}

enum error ledger_reserve(struct ledger *l, const struct policy *p, const struct demand *d,
                          struct answer *out, struct reservation *r)
{
    struct op *op;
    enum error e;

    if (d->hold_ms <= 0 || d->hold_ms > LIVE_HOLD_MAX_MS)
        return ERROR_TOO_LARGE;
    note_policy(l, p);
    if (!(op = op_new(OP_RESERVE, p)))
        return ERROR_MEMORY;
    op->demand = *d;
    if ((e = writer_do(l, op)) != ERROR_NONE)
        return e;
    *out = op->answer;
    *r = op->reservation;
    op_free(op);
    return ERROR_NONE;
}

enum error ledger_replace(struct ledger *l, const struct policy *p, const struct demand *d,
                          const struct settlement *first, struct answer *out,
                          struct reservation *r)
{
    struct op *op = op_new(OP_REPLACE, p);
    enum error e;

    if (!op)
        return ERROR_MEMORY;
    op->demand = *d;
    op->settlement = *first;
    op->settlement.kind = SETTLE_NOTHING;
    op->reservation = *r;
    if ((e = writer_do(l, op)) != ERROR_NONE)
        return e;
    *out = op->answer;
    *r = op->replacement;
    op_free(op);
    return ERROR_NONE;
}

void ledger_release(struct ledger *l, const struct reservation *r)
{
    if (!r->probe)
        live_drop(l->live, r->id);
}

enum error ledger_settle(struct ledger *l, const struct reservation *r,
                         const struct settlement *s, bool now)
{
    struct op *op = ledger_timed_op(l, OP_SETTLE);

    ledger_release(l, r);
    if (!op)
        return ERROR_MEMORY;
    op->reservation = *r;
    op->settlement = *s;
    enum error e = now ? writer_do(l, op) : writer_post(l, op);
    if (now && e == ERROR_NONE)
        op_free(op);
    if (now || e != ERROR_NONE) /* also a probe's place */
        live_drop(l->live, r->id);
    return e;
}

/* For the owner */

bool op_order(struct op *op, const void *order, size_t n)
{
    if (n > 0 && (op->order = malloc(n)))
        memcpy(op->order, order, n);
    return n == 0 || op->order;
}

enum error ledger_order(struct ledger *l, const struct policy *p, enum op_kind kind,
                        void *order, size_t n)
{
    struct op *op = op_new(kind, p);
    enum error e;

    if (!op || !op_order(op, order, n)) {
        op_free(op);
        return ERROR_MEMORY;
    }
    if ((e = writer_do(l, op)) != ERROR_NONE)
        return e;
    if (n > 0)
        memcpy(order, op->order, n);
    op_free(op);
    return ERROR_NONE;
}

enum error ledger_set_paused(struct ledger *l, const struct policy *p, bool paused)
{
    return ledger_order(l, p, OP_PAUSE, &paused, sizeof paused);
}

enum error ledger_maintain(struct ledger *l, const struct policy *p)
{
    enum error e = ledger_verify(l);

    if (e != ERROR_NONE || !batch_wanted(l, p))
        return e;
    return ledger_order(l, p, OP_MAINTAIN, NULL, 0);
}

void ledger_begin_timed(struct ledger *l, const struct policy *p)
{
    if (writer_running(l)) /* by a newer policy perhaps */
        return;
    note_policy(l, p);
    writer_begin(l);
}

bool ledger_is_timed(const struct ledger *l)
{
    return writer_running(l);
}

enum error ledger_clock_reset(struct ledger *l, const struct policy *p)
{
    return ledger_order(l, p, OP_CLOCK_RESET, NULL, 0);
}

void ledger_mac(const struct ledger *l, const char *label, const void *data, size_t n,
                uint8_t out[MAC_SIZE])
{
    mac_bound(l->options.secret, label, l->schema.uuid, data, n, out);
}

void ledger_figure(struct ledger *l, enum figure f)
{
    board_add(l->board, (unsigned)f, 1);
}
