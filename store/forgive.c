/*
 * `pennygate forgive`: a subject has its quota back. Its rows are not simply deleted: calls
 * under way have charged them at worst, and their settles will correct these very rows. On a row
 * that is gone such a settle would do nothing, and on one that is there again it would take away
 * what another call has charged since. So each row becomes what open reservations have charged
 * to it, and a forgiven counter holds at least what is reserved.
 */
#include <string.h>

#include "store/batch.h"
#include "store/rows.h"

#define WINDOWS_MAX (LIMITS_MAX + KEY_LIMITS_MAX)
#define ENDED_MOST  512 /* reservations that ended unsettled and would count as open */

struct forgive_order {
    enum subject subject;
    struct subject_id id;
    unsigned rows; /* in which there was anything to forgive */
};

/* The rows of one window, and what open reservations have charged to each. */
struct forgiven {
    unsigned n;
    struct row_key row[WINDOW_SLOTS_MAX];
    struct amounts reserved[WINDOW_SLOTS_MAX];
};

static enum error find_rows(struct batch *b, struct op *op, struct window w, struct forgiven *f)
{
    const struct forgive_order *o = op->order;
    struct view_context c = batch_context(b);
    bool shared = subject_is_shared(o->subject);
    const struct period_entry *entry = NULL;
    uint8_t hash[SUBJECT_HASH] = {0};
    struct slot slot[WINDOW_SLOTS_MAX];

    memset(f, 0, sizeof *f);
    enum error e = shared ? ERROR_NONE : view_window(&c, w, &entry);
    if (e != ERROR_NONE || (!shared && !entry))
        return e;
    unsigned n =
        window_slots(w, view_zone(b->ledger, &op->policy), b->state.time.time_ms, slot);
    for (unsigned i = 0; i < n; i++) {
        if (!shared && !view_hash(&c, entry, slot[i].period, o->subject, &op->demand, hash))
            return ERROR_PERIODS;
        key_counter(w, &slot[i], o->subject, hash, &f->row[i]);
    }
    f->n = n;
    return ERROR_NONE;
}

static void add_hold(struct forgiven *f, const struct hold *h)
{
    for (unsigned k = 0; k < f->n; k++)
        for (unsigned u = 0; u < UNITS_SUMMED && hold_has_row(h, &f->row[k]); u++)
            f->reserved[k].of[u] = amount_add(f->reserved[k].of[u], h->reserved.of[u]);
}

/* All that are in the table are of this boot, and a settle will find them. */
static enum error add_reservation(void *arg, struct kv_cursor *c, const struct kv_slice *key,
                                  const struct kv_slice *value)
{
    int64_t deadline;
    struct hold h;

    (void)c;
    if (!key_instant(TABLE_RESERVATION, key, &deadline))
        return ERROR_NOT_FOUND;
    if (!record_hold_read(value, &h))
        return ERROR_STORE_INVALID;
    add_hold(arg, &h);
    return ERROR_NONE;
}

static bool is_nothing(const struct amounts *a)
{
    for (unsigned u = 0; u < UNITS_SUMMED; u++)
        if (a->of[u] > 0)
            return false;
    return true;
}

static enum error forgive_row(struct batch *b, const struct row_key *key,
                              const struct amounts *reserved, unsigned *rows)
{
    struct amounts used;
    struct record r;
    enum error e = rows_amounts(b->txn, key, &used);

    if (e != ERROR_NONE || is_nothing(&used) || memcmp(&used, reserved, sizeof used) == 0)
        return e;
    ++*rows;
    if (!is_nothing(reserved)) {
        record_amounts(reserved, &r);
        return batch_put(b, key, &r);
    }
    b->changed = true;
    return kv_delete(b->txn, key->bytes, key->n);
}

static enum error forgive_window(struct batch *b, struct op *op, struct window w)
{
    struct forgive_order *o = op->order;
    struct forgiven f;
    struct row_key from;
    enum error e = find_rows(b, op, w, &f);

    key_table(TABLE_RESERVATION, &from);
    if (e != ERROR_NONE || (e = rows_each(b->txn, &from, add_reservation, &f)) != ERROR_NONE)
        return e;
    for (unsigned i = 0; i < f.n && e == ERROR_NONE; i++)
        e = forgive_row(b, &f.row[i], &f.reserved[i], &o->rows);
    return e;
}

struct window_list {
    const struct forgive_order *order;
    unsigned n;
    struct window of[WINDOWS_MAX];
};

static enum error list_own(void *arg, struct kv_cursor *c, const struct ledger_key *k)
{
    struct window_list *w = arg;

    (void)c;
    if (w->order->id.n == sizeof k->id && memcmp(w->order->id.bytes, k->id, sizeof k->id) == 0)
        w->n = rule_windows(k->limits, k->n_limits, w->of, w->n, WINDOWS_MAX);
    return ERROR_NONE;
}

/* An error ends the transaction: nothing is half forgiven. */
static enum error forgive(struct batch *b, struct op *op)
{
    struct forgive_order *o = op->order;
    struct window_list w = {.order = o};
    enum error e = batch_erase(b, ENDED_MOST);

    o->rows = 0;
    w.n = rule_windows(op->policy.limits, op->policy.n_limits, w.of, 0, WINDOWS_MAX);
    if (e == ERROR_NONE && o->subject == SUBJECT_KEY)
        e = keys_each(b->txn, list_own, &w);
    for (unsigned i = 0; i < w.n && e == ERROR_NONE; i++)
        e = forgive_window(b, op, w.of[i]);
    return e;
}

enum error batch_forgive(struct batch *b, struct op *op)
{
    const struct forgive_order *o = op->order;

    memset(&op->demand, 0, sizeof op->demand);
    op->demand.caller.id[o->subject] = o->id;
    pthread_rwlock_rdlock(&b->ledger->periods_lock);
    enum error e = forgive(b, op);
    pthread_rwlock_unlock(&b->ledger->periods_lock);
    return e;
}

enum error ledger_forgive(struct ledger *l, const struct policy *p, enum subject s,
                          const struct subject_id *id, unsigned *rows)
{
    struct forgive_order o = {.subject = s};
    enum error e;

    if (!subject_is_shared(s))
        o.id = *id;
    e = ledger_order(l, p, OP_FORGIVE, &o, sizeof o);
    /* as ledger_reading: another process may have put new period keys a moment ago */
    if (e == ERROR_PERIODS && (e = ledger_periods_refresh(l, true)) == ERROR_NONE)
        e = ledger_order(l, p, OP_FORGIVE, &o, sizeof o);
    if (e == ERROR_NONE)
        *rows = o.rows;
    return e;
}
