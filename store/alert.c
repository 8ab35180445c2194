/*
 * What the owner is told: queued by the transaction that has the reason, with a flag that keeps
 * it from being queued again, so that it is queued once over all processes; handed out under a
 * lease to whoever delivers it. All of it is bounded: a flag for each limit and threshold, and
 * ALERT_ROWS alerts that wait.
 */
#include <string.h>

#include "platform/log.h"
#include "store/batch.h"
#include "store/rows.h"

#define ALERT_ROWS     64 /* whoever has not read so many will not read more */
#define PERCENT_MAX    100
#define LEASE_MAX_MS   (60LL * 60 * 1000)
#define GIVE_UP_MS     (3LL * 24 * 60 * 60 * 1000)
#define IDS_EACH_WRITE 256 /* more than a transaction can queue */

static const char *const kind_names[ALERT_KINDS] = {
    [ALERT_THRESHOLD] = "threshold",           [ALERT_UPSTREAM_REFUSED] = "upstream_refused",
    [ALERT_BREAKER_OPEN] = "breaker_open",     [ALERT_METER] = "meter_unavailable",
    [ALERT_BOUND_EXCEEDED] = "bound_exceeded",
};

const char *alert_kind_name(enum alert_kind k)
{
    return kind_names[k];
}

/* Flags */

/* A limit's flag is moot once it is renamed, changed or gone. Not every operation knows them.
 * */
static bool is_configured(const struct policy *p, const struct alert_reason *r)
{
    if (r->kind != ALERT_THRESHOLD || p->n_limits == 0)
        return true;
    for (unsigned i = 0; i < p->n_limits; i++)
        if (strcmp(p->limits[i].name, r->name) == 0)
            return memchr(p->alert_at, (int)r->percent, p->n_alert_at) != NULL;
    return false;
}

struct flags {
    const struct policy *policy;
    int64_t store_ms;
    struct batch *batch; /* NULL: only looks */
    bool found;          /* one that can go */
};

static enum error see_flag(void *arg, struct kv_cursor *c, const struct kv_slice *key,
                           const struct kv_slice *value)
{
    struct flags *w = arg;
    struct alert_reason reason;
    struct alert_flag flag;

    if (!key_alert_reason(key, &reason))
        return ERROR_NOT_FOUND;
    if (!record_alert_flag_read(value, &flag))
        return ERROR_STORE_INVALID;
    if (flag.until_ms > w->store_ms && is_configured(w->policy, &reason))
        return ERROR_NONE;
    w->found = true;
    if (!w->batch)
        return ERROR_NOT_FOUND;
    w->batch->changed = true;
    return kv_cursor_delete(c);
}

static enum error each_flag(struct kv_txn *t, struct flags *w)
{
    struct row_key from;

    key_alert_flags(&from);
    return rows_each(t, &from, see_flag, w);
}

static enum error sweep_flags(struct batch *b)
{
    struct flags w = {&b->policy, b->state.time.time_ms, b, false};

    return each_flag(b->txn, &w);
}

/* *fresh: it was not set for this window of this limit, and is now. */
static enum error set_flag(struct batch *b, const struct alert_reason *r,
                           const struct alert_flag *flag, bool *fresh)
{
    struct alert_flag old;
    struct row_key key;
    struct kv_slice value;
    struct record record;

    key_alert_flag(r->kind, r->percent, r->name, &key);
    enum error e = kv_get(b->txn, key.bytes, key.n, &value);
    if (e != ERROR_NONE && e != ERROR_NOT_FOUND)
        return e;
    if (e == ERROR_NONE && !record_alert_flag_read(&value, &old))
        return ERROR_STORE_INVALID;
    *fresh = e == ERROR_NOT_FOUND || old.until_ms <= b->state.time.time_ms ||
             old.window != flag->window || old.unit != flag->unit || old.max != flag->max;
    if (!*fresh)
        return ERROR_NONE;
    record_alert_flag(flag, &record);
    e = sweep_flags(b);
    return e == ERROR_NONE ? batch_put(b, &key, &record) : e;
}

/* The queue */

typedef enum error queue_visit(void *arg, struct kv_cursor *c, const struct row_key *key,
                               const struct alert_row *row);
struct queue_walk {
    queue_visit *visit;
    void *arg;
};

static enum error see_row(void *arg, struct kv_cursor *c, const struct kv_slice *key,
                          const struct kv_slice *value)
{
    const struct queue_walk *w = arg;
    struct row_key copy;
    struct alert_row row;
    int64_t due;

    if (!key_instant(TABLE_ALERT, key, &due))
        return ERROR_NOT_FOUND;
    if (key->n > sizeof copy.bytes || !record_alert_read(value, &row))
        return ERROR_STORE_INVALID;
    copy.n = (uint8_t)key->n;
    memcpy(copy.bytes, key->data, key->n);
    return w->visit(w->arg, c, &copy, &row);
}

static enum error each_row(struct kv_txn *t, queue_visit *visit, void *arg)
{
    struct queue_walk w = {visit, arg};
    struct row_key from;

    key_table(TABLE_ALERT, &from);
    return rows_each(t, &from, see_row, &w);
}

static struct kv_slice slice_of(const struct row_key *key)
{
    return (struct kv_slice){key->bytes, key->n};
}

static int64_t due_of(const struct row_key *key)
{
    const struct kv_slice k = slice_of(key);
    int64_t due = INT64_MAX;

    (void)key_instant(TABLE_ALERT, &k, &due);
    return due;
}

static uint64_t id_of(const struct row_key *key)
{
    const struct kv_slice k = slice_of(key);

    return hold_id(&k);
}

static enum error put_row(struct batch *b, int64_t due_ms, uint64_t id,
                          const struct alert_row *row)
{
    struct row_key key;
    struct record r;

    key_alert(due_ms, id, &key);
    record_alert(row, &r);
    return batch_put(b, &key, &r);
}

static enum error delete_row(struct batch *b, const struct row_key *key)
{
    b->changed = true;
    return kv_delete(b->txn, key->bytes, key->n);
}

struct tally {
    unsigned n;
    uint64_t next_id;
};

static enum error count_row(void *arg, struct kv_cursor *c, const struct row_key *key,
                            const struct alert_row *row)
{
    struct tally *t = arg;
    uint64_t id = id_of(key);

    (void)c;
    (void)row;
    t->n++;
    if (id >= t->next_id)
        t->next_id = id + 1;
    return ERROR_NONE;
}

enum error alert_count(struct kv_txn *t, unsigned *n)
{
    struct tally all = {0, 0};
    enum error e = each_row(t, count_row, &all);

    *n = all.n;
    return e;
}

/* An id is never used again, so that who is late with a delivery marks no other alert. */
static enum error queue(struct batch *b, const struct alert_row *row)
{
    static struct log_once once;
    struct tally t = {0, kv_last_id(b->txn) * IDS_EACH_WRITE};
    const struct alert_reason *r = &row->reason;
    enum error e = each_row(b->txn, count_row, &t);

    if (e != ERROR_NONE)
        return e;
    if (t.n >= ALERT_ROWS) {
        log_line_once(&once, (int)r->kind, LOG_LEVEL_WARNING,
                      "event=alert_dropped kind=%s name=%s: %u wait to be delivered",
                      alert_kind_name(r->kind), r->name, t.n);
        return told_note(b, 0, row, TOLD_GIVEN_UP);
    }
    if ((e = told_note(b, t.next_id, row, TOLD_WAITS)) != ERROR_NONE)
        return e;
    b->alerts++;
    return put_row(b, b->state.time.time_ms, t.next_id, row);
}

static enum error raise_alert(struct batch *b, const struct alert_reason *r)
{
    const struct alert_row row = {
        .reason = *r, .time_s = b->now.wall_ms / 1000, .queued_ms = b->state.time.time_ms};

    return b->policy.alert_deliver ? queue(b, &row) : told_note(b, 0, &row, TOLD_HERE);
}

static struct alert_reason reason_of(enum alert_kind kind, unsigned percent, const char *name)
{
    struct alert_reason r = {.kind = kind, .percent = percent};

    memcpy(r.name, name, strnlen(name, sizeof r.name - 1));
    return r;
}

enum error alert_queue(struct batch *b, enum alert_kind kind, const char *name)
{
    const struct alert_reason r = reason_of(kind, 0, name);
    bool fresh = true;
    enum error e = ERROR_NONE;

    if (b->policy.n_alert_at == 0)
        return ERROR_NONE;
    if (kind == ALERT_UPSTREAM_REFUSED || kind == ALERT_BREAKER_OPEN) {
        const struct zone *z = view_zone(b->ledger, &b->policy);
        const struct alert_flag today = {.until_ms =
                                             zone_next_day_ms(z, b->state.time.time_ms)};

        e = set_flag(b, &r, &today, &fresh);
    }
    return e == ERROR_NONE && fresh ? raise_alert(b, &r) : e;
}

/* Thresholds */

bool alert_watches(const struct limit *l)
{
    return (l->subject == SUBJECT_EVERYONE || l->subject == SUBJECT_ANONYMOUS) &&
           l->unit != UNIT_CONCURRENT && !l->dry_run && l->max > 0 && l->max != LIMIT_UNLIMITED;
}

/* The least use that is so many percent of max; no product can wrap, whatever max is. */
static uint64_t percent_of(uint64_t max, unsigned percent)
{
    return max / PERCENT_MAX * percent + (max % PERCENT_MAX * percent + 99) / PERCENT_MAX;
}

static int64_t window_ends(const struct use *u, int64_t store_ms)
{
    struct window w = u->limit->window;

    return w.kind == WINDOW_SLIDING ? store_ms + (int64_t)w.seconds * 1000 : u->ends_ms;
}

static bool is_reached(const struct use *u, uint64_t settled, bool spent, unsigned percent)
{
    return percent > 0 && percent <= PERCENT_MAX &&
           ((spent && percent == PERCENT_MAX) || settled >= percent_of(u->limit->max, percent));
}

/* Of several thresholds that are reached at once the highest is told, unless it has been. */
static enum error cross(struct batch *b, const struct policy *p, const struct use *u,
                        uint64_t settled, bool spent)
{
    const struct limit *l = u->limit;
    const struct alert_flag flag = {.until_ms = window_ends(u, b->state.time.time_ms),
                                    .window = window_code(l->window),
                                    .unit = (uint8_t)l->unit,
                                    .max = l->max};
    struct alert_reason told = {.percent = 0};
    unsigned reached = 0;

    for (unsigned i = 0; i < p->n_alert_at; i++) {
        unsigned percent = p->alert_at[i];
        struct alert_reason r = reason_of(ALERT_THRESHOLD, percent, l->name);
        bool fresh;

        if (!is_reached(u, settled, spent, percent))
            continue;
        enum error e = set_flag(b, &r, &flag, &fresh);
        if (e != ERROR_NONE)
            return e;
        if (percent > reached)
            reached = percent;
        if (fresh && percent > told.percent)
            told = r;
    }
    return reached > 0 && told.percent == reached ? raise_alert(b, &told) : ERROR_NONE;
}

static bool has_place(const struct hold *h, enum subject s)
{
    for (unsigned i = 0; i < h->n_live; i++)
        if (h->live[i].subject == s)
            return true;
    return false;
}

static bool is_spent(const struct limit *l, const struct hold *h, uint64_t settled)
{
    return has_place(h, l->subject) && amount_add(settled, h->reserved.of[l->unit]) > l->max;
}

/*
 * Money and tokens hardly ever come to the max exactly: `spent`, where another call like this
 * one would not fit any more, is all of it. A call itself has happened as soon as it is
 * admitted; what it may use of the rest has not. Reservations are looked at where it matters
 * only.
 */
static enum error look_at(struct batch *b, const struct policy *p, const struct limit *l,
                          const struct hold *h)
{
    const struct view_context c = batch_context(b);
    struct use u;
    bool near = false;
    enum error e = use_charged(&c, p, l, &u);
    uint64_t settled = u.charged;

    for (unsigned i = 0; i < p->n_alert_at; i++)
        near = near || is_reached(&u, settled, is_spent(l, h, settled), p->alert_at[i]);
    if (e == ERROR_NONE && near && l->unit != UNIT_CALLS)
        e = use_reserved(&c, &u);
    if (e != ERROR_NONE || !near)
        return e;
    settled = amount_subtract(u.charged, u.reserved);
    return cross(b, p, &u, settled, is_spent(l, h, settled));
}

enum error alert_thresholds(struct batch *b, const struct policy *p, const struct hold *settled)
{
    enum error e = ERROR_NONE;

    for (unsigned i = 0; i < p->n_limits && p->n_alert_at > 0 && e == ERROR_NONE; i++)
        if (alert_watches(&p->limits[i]))
            e = look_at(b, p, &p->limits[i], settled);
    return e;
}

/* Taking and marking */

struct alert_order {
    struct ledger_alert alert;
    int64_t ms; /* for so long it is nobody else's */
    bool delivered;
};

struct search {
    uint64_t id;  /* OP_ALERT_DONE */
    bool by_time; /* OP_ALERT_TAKE: the first that is due at store_ms */
    int64_t store_ms;
    bool found;
    struct row_key key;
    struct alert_row row;
};

static enum error seek_row(void *arg, struct kv_cursor *c, const struct row_key *key,
                           const struct alert_row *row)
{
    struct search *w = arg;

    (void)c;
    w->found = w->by_time ? due_of(key) <= w->store_ms : id_of(key) == w->id;
    w->key = *key;
    w->row = *row;
    return w->found || w->by_time ? ERROR_NOT_FOUND : ERROR_NONE;
}

enum error batch_alert_take(struct batch *b, struct op *op)
{
    struct search w = {.by_time = true, .store_ms = b->state.time.time_ms};
    struct alert_order *o = op->order;
    enum error e = each_row(b->txn, seek_row, &w);

    if (e != ERROR_NONE)
        return e;
    if (!w.found) {
        op->error = ERROR_NOT_FOUND; /* somebody else was first */
        return ERROR_NONE;
    }
    w.row.attempts += w.row.attempts < UINT32_MAX;
    o->alert = (struct ledger_alert){.id = id_of(&w.key),
                                     .kind = w.row.reason.kind,
                                     .percent = w.row.reason.percent,
                                     .time_s = w.row.time_s,
                                     .attempts = w.row.attempts};
    memcpy(o->alert.name, w.row.reason.name, sizeof o->alert.name);
    if ((e = delete_row(b, &w.key)) != ERROR_NONE)
        return e;
    return put_row(b, w.store_ms + o->ms, o->alert.id, &w.row);
}

/* After a jump of the clock nothing is old because of it. */
static bool is_moot(const struct storetime *t, const struct alert_row *row)
{
    return storetime_erase_ms(t, t->time_ms) - row->queued_ms >= GIVE_UP_MS;
}

static enum error give_up(struct batch *b, uint64_t id, const struct alert_row *row)
{
    log_line(LOG_LEVEL_WARNING, "event=alert_given_up kind=%s name=%s attempts=%u",
             alert_kind_name(row->reason.kind), row->reason.name, row->attempts);
    return told_mark(b, id, TOLD_GIVEN_UP);
}

enum error batch_alert_done(struct batch *b, struct op *op)
{
    const struct alert_order *o = op->order;
    struct search w = {.id = o->alert.id};
    enum error e = each_row(b->txn, seek_row, &w);

    if (e != ERROR_NONE || !w.found || (!o->delivered && w.row.attempts != o->alert.attempts) ||
        (e = delete_row(b, &w.key)) != ERROR_NONE)
        return e;
    if (o->delivered)
        return told_mark(b, o->alert.id, TOLD_DELIVERED);
    if (!is_moot(&b->state.time, &w.row))
        return put_row(b, b->state.time.time_ms + o->ms, o->alert.id, &w.row);
    return give_up(b, o->alert.id, &w.row);
}

static int64_t bounded(int64_t ms)
{
    return ms < LEASE_MAX_MS ? ms : LEASE_MAX_MS;
}

static enum error see_due(void *arg, const struct view_context *c)
{
    struct search *w = arg;

    w->store_ms = storetime_now(&c->state->time, c->now);
    return each_row(c->txn, seek_row, w);
}

enum error ledger_alert_take(struct ledger *l, const struct policy *p, int64_t lease_ms,
                             struct ledger_alert *out)
{
    struct search w = {.by_time = true};
    struct alert_order o = {.ms = bounded(lease_ms)};
    enum error e = ledger_verify(l);

    if (e == ERROR_NONE)
        e = ledger_reading(l, see_due, &w);
    if (e == ERROR_NONE && !w.found)
        e = ERROR_NOT_FOUND;
    if (e == ERROR_NONE)
        e = ledger_order(l, p, OP_ALERT_TAKE, &o, sizeof o);
    if (e == ERROR_NONE)
        *out = o.alert;
    return e;
}

enum error ledger_alert_done(struct ledger *l, const struct policy *p,
                             const struct ledger_alert *a, bool delivered, int64_t retry_ms)
{
    struct alert_order o = {.alert = *a, .ms = bounded(retry_ms), .delivered = delivered};

    return ledger_order(l, p, OP_ALERT_DONE, &o, sizeof o);
}

unsigned ledger_alerts_queued(const struct ledger *l)
{
    return atomic_load(&l->alerts);
}

/* Removing */

struct sweep {
    const struct storetime *time; /* the store's, advanced */
    struct batch *batch;          /* NULL: only looks */
    bool found;
};

static enum error sweep_row(void *arg, struct kv_cursor *c, const struct row_key *key,
                            const struct alert_row *row)
{
    struct sweep *w = arg;

    if (!is_moot(w->time, row))
        return ERROR_NONE;
    w->found = true;
    if (!w->batch)
        return ERROR_NOT_FOUND;
    w->batch->changed = true;
    enum error e = give_up(w->batch, id_of(key), row);
    return e == ERROR_NONE ? kv_cursor_delete(c) : e;
}

enum error alert_sweep(struct batch *b)
{
    struct sweep w = {&b->state.time, b, false};
    enum error e = sweep_flags(b);

    return e == ERROR_NONE ? each_row(b->txn, sweep_row, &w) : e;
}

bool alert_wanted(const struct view_context *c, int64_t store_ms)
{
    static const struct policy none;
    struct storetime now = c->state->time;
    struct flags flags = {&none, store_ms, NULL, false};
    struct sweep rows = {&now, NULL, false};

    now.time_ms = store_ms;
    return (each_flag(c->txn, &flags) == ERROR_NONE && flags.found) ||
           (each_row(c->txn, sweep_row, &rows) == ERROR_NONE && rows.found);
}

/* The clock's reset */

struct taken {
    unsigned n;
    uint64_t id[ALERT_ROWS];
    struct alert_row row[ALERT_ROWS];
};

static enum error take_row(void *arg, struct kv_cursor *c, const struct row_key *key,
                           const struct alert_row *row)
{
    struct taken *t = arg;

    if (t->n < ALERT_ROWS) {
        t->id[t->n] = id_of(key);
        t->row[t->n++] = *row;
    }
    return kv_cursor_delete(c);
}

enum error alert_reset(struct batch *b)
{
    struct flags all = {&b->policy, INT64_MAX, b, false};
    struct taken t = {.n = 0};
    enum error e = each_flag(b->txn, &all);

    if (e == ERROR_NONE)
        e = each_row(b->txn, take_row, &t);
    for (unsigned i = 0; i < t.n && e == ERROR_NONE; i++) {
        t.row[i].queued_ms = b->state.time.time_ms;
        e = put_row(b, b->state.time.time_ms, t.id[i], &t.row[i]);
    }
    return e;
}
