/*
 * Reserving and settling, inside a write transaction. A reservation charges the newest slot of
 * every counter that the request's limits count and remembers those rows; its settle corrects
 * exactly these rows and deletes the reservation with them, which makes it happen once, whoever
 * tries. A call that came to nothing can have its reservation replaced by that of another model's
 * call. Nothing here waits for anything.
 */
#include <string.h>

#include "platform/log.h"
#include "platform/random.h"
#include "store/batch.h"

/*
 * A window that never had a row has no key yet; only an admission makes one. Counters of shared
 * subjects need none, but with a lease their windows must be named, too: it is restored into the
 * windows that have one.
 */
static bool lacks_windows(const struct batch *b, const struct view *v)
{
    for (unsigned i = 0; i < v->n; i++)
        if (v->row[i].n == 0 ||
            (b->ledger->options.lease && !batch_has_window(b, v->counter[i].window)))
            return true;
    return false;
}

static enum error build(struct batch *b, struct op *op)
{
    struct view_context c = batch_context(b);

    pthread_rwlock_rdlock(&b->ledger->periods_lock);
    enum error e = view_build(&c, &op->policy, &op->demand);
    pthread_rwlock_unlock(&b->ledger->periods_lock);
    return e;
}

/* As ledger_reading: another process may have put new period keys a moment ago. */
static enum error build_twice(struct batch *b, struct op *op)
{
    enum error e = build(b, op);

    if (e == ERROR_PERIODS && (e = ledger_periods_refresh(b->ledger, true)) == ERROR_NONE)
        e = build(b, op);
    return e;
}

static enum error charge_rows(struct batch *b, const struct view *v, const struct amounts *w)
{
    for (unsigned i = 0; i < v->n; i++) {
        struct amounts sum = v->counter[i].slot[0].used;
        struct record r;

        for (unsigned u = 0; u < UNITS_SUMMED; u++)
            sum.of[u] = amount_add(sum.of[u], w->of[u]);
        record_amounts(&sum, &r);
        enum error e = batch_put(b, &v->row[i], &r);
        if (e != ERROR_NONE)
            return e;
    }
    return ERROR_NONE;
}

/* Every subject holds a place: a limit that bounds them may be added meanwhile. */
static void fill_hold(struct batch *b, struct op *op, const struct view *v, struct hold *h)
{
    const struct view_context c = batch_context(b);

    view_hash_places(&c, &op->demand, v->present);
    memcpy(h->boot_id, b->now.boot_id, sizeof h->boot_id);
    h->day = op->reservation.day;
    h->reserved = op->demand.weights;
    h->tokens_in = op->demand.tokens_in;
    h->tokens_out = op->demand.tokens_out;
    h->n_live = 0;
    for (unsigned s = 0; s < SUBJECTS; s++) {
        if (!(v->present & 1U << s))
            continue;
        h->live[h->n_live].subject = (uint8_t)s;
        memcpy(h->live[h->n_live++].hash, op->demand.hashes.live[s], SUBJECT_HASH);
    }
    h->n_rows = v->n;
    memcpy(h->row, v->row, v->n * sizeof *v->row);
}

/* The place is held before the row that others count can commit. */
static enum error take_place(struct ledger *l, uint64_t *id)
{
    for (int tries = 0; tries < 3; tries++) {
        enum error e = random_bytes(id, sizeof *id);

        if (e != ERROR_NONE)
            return e;
        *id &= INT64_MAX;
        if ((e = live_hold(l->live, *id)) != ERROR_BUSY)
            return e;
    }
    return ERROR_BUSY;
}

/* The rows that a reservation is made of: what it charges, and what its settle must find. */
static enum error write_hold(struct batch *b, struct op *op, const struct view *v,
                             struct reservation *r)
{
    struct row_key key;
    struct record value;
    struct hold h;
    enum error e = batch_lease_charge(b, op, v, r);

    if (e != ERROR_NONE || (e = charge_rows(b, v, &op->demand.weights)) != ERROR_NONE)
        return e;
    fill_hold(b, op, v, &h);
    record_hold(&h, &value);
    key_reservation(r->deadline_boot_ms, r->id, &key);
    return batch_put(b, &key, &value);
}

static enum error write_reservation(struct batch *b, struct op *op, const struct view *v)
{
    struct reservation *r = &op->reservation;
    struct history_day *day;
    enum error e = write_hold(b, op, v, r);

    if (e != ERROR_NONE || (e = batch_history(b, r->day, &day)) != ERROR_NONE)
        return e;
    day->admitted++;
    day->bypassed += op->demand.caller.bypass;
    return batch_dry(b, v, &op->answer.verdict, r->day);
}

static void fill_amounts(const struct op *op, struct reservation *r)
{
    r->reserved = op->demand.weights;
    r->tokens_in = op->demand.tokens_in;
    r->tokens_out = op->demand.tokens_out;
    memcpy(r->model, op->demand.model, sizeof r->model);
}

static void fill_reservation(const struct batch *b, const struct op *op, struct reservation *r)
{
    memset(r, 0, sizeof *r);
    r->deadline_boot_ms = b->now.boot_ms + op->demand.hold_ms;
    r->day = zone_day(view_zone(b->ledger, &op->policy), b->state.time.time_ms);
    fill_amounts(op, r);
}

/* The verdict on the operation's demand; of one that is admitted every row has a key. Whether
 * there is one shows in op->error. */
static enum error decide(struct batch *b, struct op *op)
{
    struct view_context c = batch_context(b);

    if ((op->error = build_twice(b, op)) != ERROR_NONE ||
        (op->error = view_decide(&c, &op->policy, &op->demand, &op->answer)) != ERROR_NONE ||
        op->answer.decision != DECISION_ADMITTED || !lacks_windows(b, c.view))
        return ERROR_NONE;
    enum error e = batch_windows(b, op);
    if (e == ERROR_NONE && op->error == ERROR_NONE)
        op->error = build(b, op);
    return e;
}

static bool is_admitted(const struct op *op)
{
    return op->error == ERROR_NONE && op->answer.decision == DECISION_ADMITTED;
}

enum error batch_reserve(struct batch *b, struct op *op)
{
    enum error e = decide(b, op);

    if (e != ERROR_NONE || !is_admitted(op))
        return e;
    fill_reservation(b, op, &op->reservation);
    if ((op->error = take_place(b->ledger, &op->reservation.id)) != ERROR_NONE)
        return ERROR_NONE;
    op->charged = true;
    e = write_reservation(b, op, &b->ledger->writer_view);
    return e == ERROR_NONE ? batch_probe(b, &op->reservation) : e;
}

/* Settling */

static enum error settle_row(struct batch *b, const struct row_key *key,
                             const struct amounts *reserved, const struct amounts *real)
{
    struct kv_slice value;
    struct amounts used;
    struct record r;
    enum error e = kv_get(b->txn, key->bytes, key->n, &value);

    if (e == ERROR_NOT_FOUND)
        return ERROR_NONE; /* its window has ended and it is erased */
    if (e != ERROR_NONE)
        return e;
    if (!record_amounts_read(&value, &used))
        return ERROR_STORE_INVALID;
    amounts_settle(&used, reserved, real);
    record_amounts(&used, &r);
    return batch_put(b, key, &r);
}

/* Raised once per model and day; the overhead only grows, and never above its bound. */
static enum error learn_overhead(struct batch *b, const struct op *op)
{
    const struct settlement *s = &op->settlement;
    uint64_t seen = s->input_over < s->overhead_max ? s->input_over : s->overhead_max;
    struct overhead o = {0, -1};
    struct row_key key;
    struct kv_slice value;
    struct record r;

    key_overhead(op->reservation.model, &key);
    enum error e = kv_get(b->txn, key.bytes, key.n, &value);
    if (e != ERROR_NONE && e != ERROR_NOT_FOUND)
        return e;
    if (e == ERROR_NONE && !record_overhead_read(&value, &o))
        return ERROR_STORE_INVALID;
    if (o.day != op->reservation.day) {
        log_line(LOG_LEVEL_WARNING, "event=bound_exceeded model=%s over_tokens=%llu",
                 op->reservation.model, (unsigned long long)s->input_over);
        e = alert_queue(b, ALERT_BOUND_EXCEEDED, op->reservation.model);
        if (e != ERROR_NONE)
            return e;
    } else if (seen <= o.tokens) {
        return ERROR_NONE;
    }
    o.day = op->reservation.day;
    o.tokens = seen > o.tokens ? seen : o.tokens;
    record_overhead(&o, &r);
    return batch_put(b, &key, &r);
}

/* What the rows become, by the kind of settlement. */
static void real_amounts(const struct settlement *s, const struct hold *h, struct amounts *real)
{
    memset(real, 0, sizeof *real);
    if (s->kind == SETTLE_USAGE)
        *real = s->real;
    else if (s->kind == SETTLE_UNKNOWN)
        *real = h->reserved;
}

static enum error settle_history(struct batch *b, const struct settlement *s,
                                 const struct hold *h, const struct amounts *real)
{
    struct history_day *day;
    bool usage = s->kind == SETTLE_USAGE;
    bool nothing = s->kind == SETTLE_NOTHING;
    enum error e = batch_history(b, h->day, &day);

    if (e != ERROR_NONE)
        return e;
    day->settled += usage;
    day->unknown += s->kind == SETTLE_UNKNOWN;
    day->given_back += nothing;
    day->cost_nano = amount_add(day->cost_nano, real->of[UNIT_COST]);
    if (nothing)
        return ERROR_NONE;
    day->tokens_in = amount_add(day->tokens_in, usage ? s->tokens_in : h->tokens_in);
    day->tokens_out = amount_add(day->tokens_out, usage ? s->tokens_out : h->tokens_out);
    return ERROR_NONE;
}

/* ERROR_NOT_FOUND: settled already, or ended: what was charged stays. */
static enum error find_hold(const struct batch *b, const struct reservation *r,
                            struct row_key *key, struct hold *h)
{
    struct kv_slice value;

    key_reservation(r->deadline_boot_ms, r->id, key);
    enum error e = kv_get(b->txn, key->bytes, key->n, &value);
    if (e != ERROR_NONE)
        return e;
    return record_hold_read(&value, h) ? ERROR_NONE : ERROR_STORE_INVALID;
}

/* What was reserved becomes what it really was, and the reservation goes. */
static enum error end_hold(struct batch *b, const struct op *op, const struct row_key *key,
                           const struct hold *h, const struct amounts *real)
{
    bool same = memcmp(real, &h->reserved, sizeof *real) == 0;
    enum error e = same ? ERROR_NONE : batch_lease_settle(b, op, h, real);

    for (unsigned i = 0; i < h->n_rows && !same && e == ERROR_NONE; i++)
        e = settle_row(b, &h->row[i], &h->reserved, real);
    if (e != ERROR_NONE)
        return e;
    b->changed = true;
    return kv_delete(b->txn, key->bytes, key->n);
}

enum error batch_settle(struct batch *b, struct op *op)
{
    const struct settlement *s = &op->settlement;
    struct amounts real;
    struct row_key key;
    struct hold h;
    enum error e = find_hold(b, &op->reservation, &key, &h);

    if (e != ERROR_NONE)
        return e == ERROR_NOT_FOUND ? ERROR_NONE : e;
    real_amounts(s, &h, &real);
    if ((e = end_hold(b, op, &key, &h, &real)) != ERROR_NONE ||
        (e = settle_history(b, s, &h, &real)) != ERROR_NONE ||
        (e = batch_health(b, op)) != ERROR_NONE ||
        (e = alert_thresholds(b, &op->policy, &h)) != ERROR_NONE)
        return e;
    return s->input_over > 0 ? learn_overhead(b, op) : ERROR_NONE;
}

/* The new reservation stands where the old one stood: under its key, so that a settle finds
 * whichever of the two there is. The history's request has been counted with the first. */
static enum error write_replacement(struct batch *b, struct op *op)
{
    const struct view *v = &b->ledger->writer_view;
    enum error e = write_hold(b, op, v, &op->replacement);

    op->replacement.probe = false;
    fill_amounts(op, &op->replacement);
    return e == ERROR_NONE ? batch_probe(b, &op->replacement) : e;
}

/* The old reservation goes first, so that the verdict on the new one counts neither its amounts
 * nor its place. If that is a refusal, its going is all that happens. */
enum error batch_replace(struct batch *b, struct op *op)
{
    static const struct amounts nothing;
    struct row_key key;
    struct hold h;
    enum error e = find_hold(b, &op->reservation, &key, &h);

    op->replacement = op->reservation;
    if (e == ERROR_NONE && op->reservation.deadline_boot_ms <= b->now.boot_ms)
        e = ERROR_NOT_FOUND; /* ended, and only not erased yet */
    if (e == ERROR_NOT_FOUND) {
        op->error = e;
        return ERROR_NONE;
    }
    if (e != ERROR_NONE || (e = end_hold(b, op, &key, &h, &nothing)) != ERROR_NONE ||
        (e = batch_health(b, op)) != ERROR_NONE || (e = decide(b, op)) != ERROR_NONE)
        return e;
    if (is_admitted(op))
        return write_replacement(b, op);
    return settle_history(b, &op->settlement, &h, &nothing);
}
