/*
 * When the live rows of durability `lease` are copied to flash, and in which steps, which
 * store/lease.h tells the reasons of. Processes of a site take turns by the lock of the store's
 * directory. Writing to flash takes seconds: a process that stays has a thread of its own for it,
 * so that its writer goes on; only when the lease's file is full, or an older one, the writer
 * itself copies, since nothing can be admitted before.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/log.h"
#include "store/copy.h"
#include "store/lease.h"
#include "store/ledger_parts.h"
#include "store/mark.h"

#define EVERY_MS     (3600LL * 1000)
#define RETRY_MS     (600LL * 1000) /* a flash that is full must not be written to all the time */
#define URGENT_MS    (10LL * 1000) /* where nobody is admitted before */
#define WAIT_MS      30000         /* for the copy that another process is making */
#define LAST_TRIES   3             /* at a stop */
#define COPIER_STACK (128 * 1024)  /* a block, a row and two paths: 20 KB */

/* How an operation is carried out: by the writer, or by itself. Takes the operation over. */
typedef enum error perform(struct ledger *l, struct op *op, bool *done);

/* ---- what has been copied ---- */

static enum error last_id(struct ledger *l, uint64_t *out)
{
    struct kv_txn *t = NULL;
    enum error e = kv_begin_read(l->kv, &t);

    if (e != ERROR_NONE)
        return e;
    *out = kv_last_id(t);
    kv_free_read(t);
    return ERROR_NONE;
}

static bool is_copied(const struct ledger *l, uint64_t id)
{
    struct mark_copied m;

    return mark_copied(l->path_copied, &m) && m.last_id >= id;
}

bool ledger_copy_is_due(struct ledger *l)
{
    struct mark_copied m;
    struct clock_now now;
    uint64_t id;

    if (!l->options.lease || last_id(l, &id) != ERROR_NONE)
        return false;
    if (!mark_copied(l->path_copied, &m))
        return true;
    return m.last_id < id && l->options.clock(&now) == ERROR_NONE &&
           now.boot_ms - m.boot_ms >= (m.tried ? RETRY_MS : EVERY_MS);
}

/* A flood must not have a full flash written to by each of its requests. */
static bool is_tried(struct ledger *l)
{
    struct mark_copied m;
    struct clock_now now;

    return mark_copied(l->path_copied, &m) && m.tried && l->options.clock(&now) == ERROR_NONE &&
           now.boot_ms - m.boot_ms < URGENT_MS;
}

/* ---- one copy ---- */

/* For what a copy is made: by whom, and under which policy; NULL: the one last seen. */
struct copying {
    struct ledger *ledger;
    perform *how;
    const struct policy *policy;
    bool anyway; /* although it would be as the one before */
};

static enum error order(const struct copying *c, enum op_kind kind, const void *what, size_t n)
{
    struct ledger *l = c->ledger;
    struct op *op = c->policy ? op_new(kind, c->policy) : ledger_timed_op(l, kind);
    enum error e;
    bool done = false;

    if (!op || !op_order(op, what, n)) {
        op_free(op);
        return ERROR_MEMORY;
    }
    e = c->how(l, op, &done);
    if (done)
        op_free(op);
    return e;
}

static enum error by_writer(struct ledger *l, struct op *op, bool *done)
{
    enum error e = writer_do(l, op);

    *done = e == ERROR_NONE; /* else it is gone */
    return e;
}

static enum error by_batch(struct ledger *l, struct op *op, bool *done)
{
    *done = true;
    return batch_one(l, op);
}

/* Which segments the transaction contains is told by its own row. *open: somebody has begun one
 * since it was closed for the copy. */
static enum error first_left(struct kv_txn *t, uint64_t *out, bool *open)
{
    struct lease_row row;
    struct kv_slice value;
    struct row_key key;

    key_lease(&key);
    enum error e = kv_get(t, key.bytes, key.n, &value);
    if (e != ERROR_NONE && e != ERROR_NOT_FOUND)
        return e;
    if (e == ERROR_NONE && !record_lease_read(&value, &row))
        return ERROR_STORE_INVALID;
    *out = lease_first_after(e == ERROR_NONE ? &row : NULL);
    *open = e == ERROR_NONE && !row.closed;
    return ERROR_NONE;
}

/*
 * *id: the last transaction that is in it, untouched if a segment is under way. The copy has that
 * one only in part then, and it is charged once more when it is restored: another copy must
 * follow, of whoever stops last.
 */
static enum error write_rows(struct ledger *l, uint64_t *first, uint64_t *id)
{
    struct kv_txn *t = NULL;
    bool open = false;
    enum error e = kv_begin_read(l->kv, &t);

    if (e != ERROR_NONE)
        return e;
    if ((e = first_left(t, first, &open)) == ERROR_NONE)
        e = copy_write(l->path_copy, l->options.secret, l->schema.uuid, t);
    if (!open)
        *id = kv_last_id(t);
    kv_free_read(t);
    return e;
}

/* First of all: neither one that fails, nor one that is cut off, as CGI processes are, nor one
 * whose note tmpfs has no room for, may have flash written to by each request. */
static enum error note_try(const struct ledger *l, struct mark_copied *m)
{
    struct clock_now now;
    enum error e = l->options.clock(&now);

    if (e != ERROR_NONE)
        return e;
    (void)mark_copied(l->path_copied, m);
    m->boot_ms = now.boot_ms;
    m->tried = true;
    return mark_copied_note(l->path_copied, m);
}

static enum error copy_locked(const struct copying *c)
{
    struct ledger *l = c->ledger;
    struct mark_copied m = {.last_id = 0};
    uint64_t first;
    enum error e;

    if ((e = note_try(l, &m)) != ERROR_NONE ||
        (e = order(c, OP_LEASE_CLOSE, NULL, 0)) != ERROR_NONE ||
        (e = write_rows(l, &first, &m.last_id)) != ERROR_NONE ||
        (e = order(c, OP_LEASE_PRUNE, &first, sizeof first)) != ERROR_NONE)
        return e;
    m.tried = false;
    return mark_copied_note(l->path_copied, &m);
}

static bool is_done(const struct copying *c, uint64_t id)
{
    return !c->anyway && is_copied(c->ledger, id);
}

/* Unless what has been committed by now is in a copy when our turn comes. */
static enum error copy_unless_done(const struct copying *c)
{
    struct ledger *l = c->ledger;
    int lock = open(l->options.store, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    uint64_t id;
    enum error e = lock >= 0 ? last_id(l, &id) : ERROR_STORE_MISSING;

    if (e == ERROR_NONE && !is_done(c, id) && (e = file_lock(lock, WAIT_MS)) == ERROR_NONE &&
        !is_done(c, id))
        e = copy_locked(c);
    if (lock >= 0)
        close(lock);
    return e;
}

enum error copy_first(const struct ledger *l, const uint8_t uuid[16], struct kv_txn *t)
{
    struct lease none = {.copied = 1};
    enum error e = copy_write(l->path_copy, l->options.secret, uuid, t);

    memcpy(none.rows, l->rows_name, sizeof none.rows);
    return e == ERROR_NONE ? lease_write(l->path_lease, l->options.secret, uuid, &none) : e;
}

enum error copy_by_batch(struct ledger *l)
{
    const struct copying c = {l, by_batch, NULL, true};

    return is_tried(l) ? ERROR_BUSY : copy_unless_done(&c);
}

enum error ledger_copy(struct ledger *l, const struct policy *p)
{
    const struct copying c = {l, by_writer, p, false};

    return l->options.lease ? copy_unless_done(&c) : ERROR_NONE;
}

enum error ledger_copy_hourly(struct ledger *l, const struct policy *p)
{
    return ledger_copy_is_due(l) ? ledger_copy(l, p) : ERROR_NONE;
}

/* ---- its thread ---- */

void copier_init(struct copier *c)
{
    pthread_mutex_init(&c->lock, NULL);
    writer_cond_init(&c->ended);
}

static void tell(enum error e)
{
    static struct log_once once;

    if (e != ERROR_NONE)
        log_line_once(&once, (int)e, LOG_LEVEL_ERROR,
                      "event=not_copied: %s: what was counted since the last copy is on tmpfs "
                      "alone",
                      error_text(e));
}

static void *copier_main(void *arg)
{
    struct ledger *l = arg;

    tell(ledger_copy(l, NULL));
    pthread_mutex_lock(&l->copier.lock);
    l->copier.running = false;
    pthread_cond_broadcast(&l->copier.ended);
    pthread_mutex_unlock(&l->copier.lock);
    return NULL;
}

/* Does nothing if it runs. */
static void begin(struct ledger *l)
{
    struct copier *c = &l->copier;

    pthread_mutex_lock(&c->lock);
    if (!c->running) {
        if (c->to_join)
            pthread_join(c->thread, NULL);
        c->to_join = writer_thread(&c->thread, COPIER_STACK, copier_main, l) == 0;
        c->running = c->to_join;
    }
    pthread_mutex_unlock(&c->lock);
}

void copier_begin_due(struct ledger *l)
{
    if (ledger_copy_is_due(l))
        begin(l);
}

bool copier_wait(struct ledger *l, int64_t until_ms)
{
    struct copier *c = &l->copier;
    struct timespec until = clock_timespec(until_ms);

    pthread_mutex_lock(&c->lock);
    while (c->running && pthread_cond_timedwait(&c->ended, &c->lock, &until) != ETIMEDOUT)
        ;
    bool ended = !c->running;
    if (ended && c->to_join) {
        pthread_join(c->thread, NULL);
        c->to_join = false;
    }
    pthread_mutex_unlock(&c->lock);
    return ended;
}

/* The settles that wait go before it, and what is on the board. Others may be charging while it
 * is made: what it lacks of that, nobody may be there to copy later. */
void ledger_copy_last(struct ledger *l, int64_t bound_ms)
{
    int64_t until = clock_monotonic_ms() + bound_ms;
    uint64_t id;

    if (!l->options.lease || !copier_wait(l, until))
        return;
    if (writer_running(l))
        (void)order(&(struct copying){l, by_writer, NULL, false}, OP_MAINTAIN, NULL, 0);
    for (unsigned i = 0; i < LAST_TRIES; i++) {
        if (last_id(l, &id) == ERROR_NONE && is_copied(l, id))
            return;
        begin(l);
        if (!copier_wait(l, until))
            return;
    }
}
