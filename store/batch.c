/*
 * One write transaction over the operations that wait. Either everything that it was told is
 * committed and synced, or nothing is and nobody in it is admitted. A full map is tried again
 * after dead readers have been cleared, a lease once a copy has been made; any other failure is
 * final for the batch.
 */
#include "store/batch.h"

#include <poll.h>
#include <string.h>

#include "platform/log.h"
#include "store/mark.h"
#include "store/rows.h"

#define ERASE_SPARE    8  /* ended rows that go although nothing was added */
#define ERASE_ROWS     64 /* looking costs as much as two rows: not in every transaction */
#define ERASE_EVERY_MS 1000
#define AHEAD_S        60  /* NTP slews less than this; more is a clock that was wrong */
#define ERASE_TIMED    512 /* for timed work: nobody waits for it */

struct view_context batch_context(struct batch *b)
{
    return (struct view_context){.ledger = b->ledger,
                                 .txn = b->txn,
                                 .state = &b->state,
                                 .now = &b->now,
                                 .cache = b->ledger->writer_cache,
                                 .view = &b->ledger->writer_view};
}

enum error batch_put(struct batch *b, const struct row_key *key, const struct record *value)
{
    b->changed = true;
    b->added++;
    return kv_put(b->txn, key->bytes, key->n, value->bytes, value->n);
}

/* Under the write lock: what this transaction found must not be older than what was noted. */
static enum error check_mark(struct batch *b)
{
    struct ledger *l = b->ledger;
    struct mark m;
    enum error e = mark_read(l->mark_fd, &m);

    if (e != ERROR_NONE)
        return e;
    if (memcmp(m.uuid, l->schema.uuid, sizeof m.uuid) != 0)
        return ERROR_STORE_REPLACED;
    if (kv_last_id(b->txn) < m.last_id)
        return ERROR_STORE_ROLLED_BACK;
    m.last_id = kv_last_id(b->txn);
    return mark_write(l->mark_fd, &m);
}

/* A newer program may have taken the store over, or another one been written over it. */
static enum error check_schema(const struct batch *b)
{
    const struct schema *open = &b->ledger->schema;
    struct row_key key;
    struct kv_slice value;
    struct schema now;

    key_schema(&key);
    enum error e = kv_get(b->txn, key.bytes, key.n, &value);
    if (e != ERROR_NONE)
        return e == ERROR_NOT_FOUND ? ERROR_STORE_INVALID : e;
    if ((e = record_schema_read(&value, &now)) != ERROR_NONE)
        return e;
    return memcmp(now.uuid, open->uuid, sizeof now.uuid) == 0 ? ERROR_NONE
                                                              : ERROR_STORE_REPLACED;
}

static enum error begin(struct batch *b)
{
    struct ledger *l = b->ledger;
    enum error e = l->options.clock(&b->now);

    if (e != ERROR_NONE || (e = check_schema(b)) != ERROR_NONE ||
        (e = ledger_read_state(b->txn, &b->state)) != ERROR_NONE ||
        (e = check_mark(b)) != ERROR_NONE ||
        (e = ledger_periods_refresh(l, false)) != ERROR_NONE)
        return e;
    bool new_boot = memcmp(b->state.time.boot_id, b->now.boot_id, sizeof b->now.boot_id) != 0;
    b->committed_ms = b->state.time.time_ms;
    b->must_note = storetime_must_note(&b->state.time, &b->now);
    storetime_advance(&b->state.time, &b->now);
    return new_boot ? batch_new_boot(b) : ERROR_NONE;
}

static enum error pause(struct batch *b, struct op *op)
{
    const bool *paused = op->order;

    b->changed = b->changed || b->state.paused != *paused;
    b->state.paused = *paused;
    return ERROR_NONE;
}

static enum error maintain(struct batch *b, struct op *op)
{
    enum error e = alert_sweep(b);

    (void)op;
    b->changed = b->changed || b->must_note;
    return e == ERROR_NONE ? batch_erase(b, ERASE_TIMED) : e;
}

static enum error (*const perform[])(struct batch *, struct op *) = {
    [OP_RESERVE] = batch_reserve,
    [OP_SETTLE] = batch_settle,
    [OP_REPLACE] = batch_replace,
    [OP_PAUSE] = pause,
    [OP_MAINTAIN] = maintain,
    [OP_CLOCK_RESET] = batch_clock_reset,
    [OP_KEY_ADD] = batch_key_add,
    [OP_KEY_REVOKE] = batch_key_revoke,
    [OP_ALERT_TAKE] = batch_alert_take,
    [OP_ALERT_DONE] = batch_alert_done,
    [OP_FORGIVE] = batch_forgive,
    [OP_FORGIVE_MODEL] = batch_forgive_model,
    [OP_PASSWORD] = batch_password,
    [OP_LEASE_CLOSE] = batch_lease_close,
    [OP_LEASE_PRUNE] = batch_lease_prune,
};

/* Twice as many rows go as were added since the last look, so that nothing grows. */
static enum error erase(struct batch *b)
{
    struct ledger *l = b->ledger;
    unsigned added = l->rows_added + b->added;

    if (added < ERASE_ROWS && clock_monotonic_ms() < l->erase_ms)
        return ERROR_NONE;
    b->erased = true;
    return batch_erase(b, 2 * added + ERASE_SPARE);
}

static void note_committed(const struct batch *b)
{
    struct ledger *l = b->ledger;

    atomic_fetch_add(&l->alerts, b->alerts);
    l->rows_added = b->erased ? 0 : l->rows_added + b->added;
    if (b->erased)
        l->erase_ms = clock_monotonic_ms() + ERASE_EVERY_MS;
}

/* What rides along; only if the transaction writes anyway, or if it is there for this. */
static enum error finish(struct batch *b, bool timed)
{
    struct row_key key;
    struct record r;
    enum error e;

    if (!b->changed && !timed)
        return ERROR_NONE;
    if ((e = batch_fold(b)) != ERROR_NONE || (e = erase(b)) != ERROR_NONE ||
        (e = batch_history_flush(b)) != ERROR_NONE)
        return e;
    batch_periods(b);
    if (!b->changed)
        return ERROR_NONE;
    key_state(&key);
    record_state(&b->state, &r);
    return batch_put(b, &key, &r);
}

static enum error run_ops(struct batch *b, struct op *list)
{
    bool timed = false;

    for (struct op *op = list; op; op = op->next) {
        op->error = ERROR_NONE;
        b->policy = op->policy;
        timed = timed || op->kind == OP_MAINTAIN;
        enum error e = perform[op->kind](b, op);
        if (e != ERROR_NONE)
            return e;
    }
    return finish(b, timed);
}

/* Places taken in a transaction that did not commit. */
static void drop_places(struct ledger *l, struct op *list)
{
    for (struct op *op = list; op; op = op->next) {
        if (op->charged)
            live_drop(l->live, op->reservation.id);
        op->charged = false;
    }
}

/*
 * Live rows that went while the lock was waited for may have been restored without what the batch
 * would write, and the lease's file is theirs then. Those that were restored elsewhere know of it,
 * but only as of then: a short window has let go of it again, and orders are given to them.
 */
static enum error verify_live_rows(struct ledger *l, struct kv_txn *t)
{
    enum error e = ledger_verify_files(l);

    if (e != ERROR_NONE)
        return e;
    /* without the file they have what they were granted */
    return lease_look(l, t) == ERROR_STORE_REPLACED ? ERROR_STORE_REPLACED : ERROR_NONE;
}

/* One try. *list is filled once the write lock is held, so that waiters can withdraw until
 * then. */
static enum error attempt(struct ledger *l, struct op *(*take)(void *), void *arg,
                          struct op **list, bool *taken)
{
    struct batch b;
    enum error e;

    memset(&b, 0, sizeof b);
    b.ledger = l;
    if ((e = ledger_verify_files(l)) != ERROR_NONE ||
        (e = kv_begin_write(l->kv, &b.txn)) != ERROR_NONE)
        return e;
    if (l->options.lease && (e = verify_live_rows(l, b.txn)) != ERROR_NONE) {
        kv_abort(b.txn);
        return e;
    }
    if (!*taken)
        *list = take(arg);
    *taken = true;
    if (!*list || (e = begin(&b)) != ERROR_NONE || (e = run_ops(&b, *list)) != ERROR_NONE ||
        !b.changed) {
        kv_abort(b.txn);
        return e;
    }
    e = kv_commit(b.txn);
    if (e == ERROR_NONE) {
        note_committed(&b);
        batch_drop_keys(&b);
    } else if (e != ERROR_STORE_FULL) {
        ledger_break(l, e);
    }
    return e;
}

static struct op *take_one(void *arg)
{
    return arg;
}

enum error batch_one(struct ledger *l, struct op *op)
{
    struct op *list = NULL;
    bool taken = false;
    enum error e = attempt(l, take_one, op, &list, &taken);

    return e == ERROR_NONE ? op->error : e;
}

/* A reader that lost its turn keeps pages, too, where a commit takes microseconds, as on tmpfs; it
 * gives them back as soon as it is on again. */
static enum error attempt_with_room(struct ledger *l, struct op *(*take)(void *), void *arg,
                                    struct op **list, bool *taken)
{
    static const int naps_ms[] = {0, 5, 15, 30};
    enum error e = ERROR_STORE_FULL;

    kv_clear_readers(l->kv);
    for (size_t i = 0; i < sizeof naps_ms / sizeof *naps_ms && e == ERROR_STORE_FULL; i++) {
        poll(NULL, 0, naps_ms[i]);
        drop_places(l, *list);
        e = attempt(l, take, arg, list, taken);
    }
    return e;
}

/* Again where that can help: readers kept pages, or the lease's file waits for a copy. */
static enum error attempt_again(struct ledger *l, struct op *(*take)(void *), void *arg,
                                struct op **list, bool *taken)
{
    enum error e = attempt(l, take, arg, list, taken);

    if (e == ERROR_STORE_FULL)
        return attempt_with_room(l, take, arg, list, taken);
    if (!atomic_exchange(&l->wants_copy, false) || e != ERROR_BUSY)
        return e;
    drop_places(l, *list);
    e = copy_by_batch(l);
    return e == ERROR_NONE ? attempt(l, take, arg, list, taken) : e;
}

void batch_run(struct ledger *l, struct op *(*take)(void *arg),
               void (*give)(void *arg, struct op *list), void *arg)
{
    struct op *list = NULL;
    bool taken = false;
    enum error e = attempt_again(l, take, arg, &list, &taken);

    if (!taken)
        list = take(arg);
    if (e != ERROR_NONE) {
        drop_places(l, list);
        for (struct op *op = list; op; op = op->next)
            op->error = e;
    }
    give(arg, list);
}

struct front {
    enum table table;
    int64_t at;
};

static enum error see_front(void *arg, struct kv_cursor *c, const struct kv_slice *key,
                            const struct kv_slice *value)
{
    struct front *f = arg;

    (void)c;
    (void)value;
    if (!key_instant(f->table, key, &f->at))
        f->at = INT64_MAX;
    return ERROR_NOT_FOUND;
}

/* Whether the front row of a table has ended. */
static bool front_has_ended(const struct view_context *c, enum table t, int64_t by_ms)
{
    struct front f = {t, INT64_MAX};
    struct row_key from;

    key_table(t, &from);
    return rows_each(c->txn, &from, see_front, &f) == ERROR_NONE && f.at <= by_ms;
}

static bool board_differs(const struct view_context *c)
{
    uint8_t id[16];

    board_id(c->ledger->board, id);
    bool same = memcmp(id, c->state->board_id, sizeof id) == 0;
    for (unsigned i = 0; i < FIGURES; i++)
        if (board_get(c->ledger->board, i) != (same ? c->state->folded[i] : 0))
            return true;
    return false;
}

struct wanted {
    const struct policy *policy;
    bool is;
};

/* What the owner should hear of before it refuses, or although it does not. */
static void tell_owner(const struct view_context *c, int64_t store_ms)
{
    static struct log_once filling, ahead;
    int64_t ahead_s = (store_ms - c->now->wall_ms) / 1000;
    struct kv_usage u;

    if (kv_usage(c->txn, &u) == ERROR_NONE && kv_is_filling(&u))
        log_line_once(&filling, 1, LOG_LEVEL_WARNING,
                      "event=store_filling kib=%llu of=%llu: raise store-size",
                      (unsigned long long)(kv_used_bytes(&u) / 1024),
                      (unsigned long long)(u.map_bytes / 1024));
    if (ahead_s > AHEAD_S)
        log_line_once(&ahead, 1, LOG_LEVEL_WARNING,
                      "event=store_ahead_of_clock seconds=%lld: if the clock is right, "
                      "`pennygate clock reset` mends it",
                      (long long)ahead_s);
}

static enum error look(void *arg, const struct view_context *c)
{
    struct wanted *w = arg;
    int64_t t = storetime_now(&c->state->time, c->now);
    struct periods p = c->ledger->periods;

    tell_owner(c, t);
    w->is = board_differs(c) || storetime_must_note(&c->state->time, c->now) ||
            front_has_ended(c, TABLE_RESERVATION, c->now->boot_ms) || alert_wanted(c, t);
    t = storetime_erase_ms(&c->state->time, t);
    w->is = w->is || front_has_ended(c, TABLE_COUNTER, t) ||
            front_has_ended(c, TABLE_DAY, t - w->policy->retention_ms) ||
            periods_advance(&p, view_zone(c->ledger, w->policy), t);
    mac_wipe(&p, sizeof p);
    return ERROR_NONE;
}

bool batch_wanted(struct ledger *l, const struct policy *p)
{
    struct wanted w = {p, false};

    return ledger_reading(l, look, &w) == ERROR_NONE && w.is;
}
