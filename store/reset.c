/*
 * `pennygate clock reset`: store time becomes the clock's on purpose. Fresh period keys make
 * the old callers' rows unreachable, so these go; what the shared subjects (everyone,
 * anonymous, bypass) have used in the windows that were open, or are open at the new time, is
 * carried into the new ones. Errs towards more: use is never forgotten for the site, at most
 * counted in a newer slot; and what calls under way have reserved is carried in full, and
 * stays.
 */
#include <string.h>

#include "store/batch.h"
#include "store/rows.h"

static const enum subject shared[] = {SUBJECT_EVERYONE, SUBJECT_ANONYMOUS, SUBJECT_BYPASS};
#define SHARED 3

struct carried {
    struct window window;
    struct amounts sum[SHARED];
};

static bool is_among(const struct slot *s, const struct slot *list, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (list[i].number == s->number)
            return true;
    return false;
}

/* Adds what each slot of list that is not in `without` holds for the shared subjects. */
static enum error add_slots(struct batch *b, struct carried *c, const struct slot *list,
                            unsigned n, const struct slot *without, unsigned n_without)
{
    static const uint8_t none[SUBJECT_HASH];

    for (unsigned i = 0; i < n * SHARED; i++) {
        const struct slot *s = &list[i / SHARED];
        struct amounts *sum = &c->sum[i % SHARED], a;
        struct row_key key;

        if (is_among(s, without, n_without))
            continue;
        key_counter(c->window, s, shared[i % SHARED], none, &key);
        enum error e = rows_amounts(b->txn, &key, &a);
        if (e != ERROR_NONE)
            return e;
        for (unsigned u = 0; u < UNITS_SUMMED; u++)
            sum->of[u] = amount_add(sum->of[u], a.of[u]);
    }
    return ERROR_NONE;
}

static enum error collect(struct batch *b, const struct op *op, struct carried *c,
                          int64_t old_ms, int64_t new_ms)
{
    const struct zone *z = view_zone(b->ledger, &op->policy);
    struct slot was[WINDOW_SLOTS_MAX], is[WINDOW_SLOTS_MAX];
    unsigned n_was = window_slots(c->window, z, old_ms, was);
    unsigned n_is = window_slots(c->window, z, new_ms, is);
    enum error e = add_slots(b, c, was, n_was, NULL, 0);

    return e == ERROR_NONE ? add_slots(b, c, is, n_is, was, n_was) : e;
}

static enum error put_carried(struct batch *b, const struct op *op, const struct carried *c)
{
    static const uint8_t none[SUBJECT_HASH];
    struct slot is[WINDOW_SLOTS_MAX];

    (void)window_slots(c->window, view_zone(b->ledger, &op->policy), b->state.time.time_ms, is);
    for (unsigned i = 0; i < SHARED; i++) {
        struct row_key key;
        struct record r;

        key_counter(c->window, &is[0], shared[i], none, &key);
        record_amounts(&c->sum[i], &r);
        enum error e = batch_put(b, &key, &r);
        if (e != ERROR_NONE)
            return e;
    }
    return ERROR_NONE;
}

static enum error clear_row(void *arg, struct kv_cursor *c, const struct kv_slice *key,
                            const struct kv_slice *value)
{
    const enum table *t = arg;
    int64_t at;

    (void)value;
    return key_instant(*t, key, &at) ? kv_cursor_delete(c) : ERROR_NOT_FOUND;
}

static enum error clear_table(struct batch *b, enum table t)
{
    struct row_key from;

    key_table(t, &from);
    return rows_each(b->txn, &from, clear_row, &t);
}

/*
 * What it was charged to is carried elsewhere. Its old rows may come round again, and a settle
 * would take away there what others have charged since: it keeps its place and its day alone.
 */
static enum error forget_rows(void *arg, struct kv_cursor *c, const struct kv_slice *key,
                              const struct kv_slice *value)
{
    struct batch *b = arg;
    struct row_key copy;
    struct record r;
    struct hold h;
    int64_t at;

    (void)c;
    if (!key_instant(TABLE_RESERVATION, key, &at))
        return ERROR_NOT_FOUND;
    if (key->n > sizeof copy.bytes || !record_hold_read(value, &h))
        return ERROR_STORE_INVALID;
    copy.n = (uint8_t)key->n;
    memcpy(copy.bytes, key->data, key->n);
    h.n_rows = 0;
    record_hold(&h, &r);
    return batch_put(b, &copy, &r); /* LMDB keeps the open cursor on the row */
}

static enum error free_holds(struct batch *b)
{
    struct row_key from;

    key_table(TABLE_RESERVATION, &from);
    return rows_each(b->txn, &from, forget_rows, b);
}

/* Fresh keys for every window of the store; replaces a file that does not match, too. */
static enum error fresh_periods(struct batch *b, const struct op *op)
{
    struct ledger *l = b->ledger;
    struct state *s = &b->state;
    struct periods p;
    enum error e = ERROR_NONE;

    memset(&p, 0, sizeof p);
    for (unsigned i = 0; i < s->n_windows && e == ERROR_NONE; i++) {
        struct window w;

        if (!window_from_code(s->window[i].code, &w))
            return ERROR_STORE_INVALID;
        e = periods_add(&p, s->window[i].code,
                        window_oldest_period(w, view_zone(l, &op->policy), s->time.time_ms));
        s->window[i].generation = p.entry[i].generation;
    }
    if (e == ERROR_NONE)
        e = periods_write(l->path_periods, l->options.secret, l->schema.uuid, &p);
    mac_wipe(&p, sizeof p);
    return e == ERROR_NONE ? ledger_periods_refresh(l, true) : e;
}

enum error batch_clock_reset(struct batch *b, struct op *op)
{
    struct window windows[LIMITS_MAX];
    struct carried c[LIMITS_MAX];
    unsigned n = rule_windows(op->policy.limits, op->policy.n_limits, windows, 0, LIMITS_MAX);
    int64_t old_ms = b->state.time.time_ms;
    enum error e = ERROR_NONE;

    memset(c, 0, sizeof c);
    for (unsigned i = 0; i < n && e == ERROR_NONE; i++) {
        c[i].window = windows[i];
        e = collect(b, op, &c[i], old_ms, b->now.wall_ms);
    }
    if (e != ERROR_NONE || (e = clear_table(b, TABLE_DAY)) != ERROR_NONE ||
        (e = clear_table(b, TABLE_COUNTER)) != ERROR_NONE || (e = free_holds(b)) != ERROR_NONE)
        return e;
    b->state.time.time_ms = b->now.wall_ms;
    b->state.time.hold_until_ms = 0;
    b->state.time.before_ms = 0;
    b->changed = true;
    e = batch_lease_close(b, op);
    if (e == ERROR_NONE)
        e = alert_reset(b);
    for (unsigned i = 0; i < n && e == ERROR_NONE; i++)
        e = put_carried(b, op, &c[i]);
    return e == ERROR_NONE ? fresh_periods(b, op) : e;
}
