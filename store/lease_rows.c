/*
 * The lease in transactions. Why no power loss lets everyone or anonymous use more than a limit's
 * max again:
 *   - Whoever is charged adds to the segment's row in the same transaction, and not beyond what the
 *     row grants; and what the row grants was in the file, on flash, before that transaction could
 *     commit. If it does not commit, the file grants more than the row, which is the safe side.
 *   - The file lets go of a segment only once a copy lies on flash that was taken after the segment
 *     was closed: nothing is charged in it after that, and the copy has all that was.
 *   - So each charge is in the copy, or in a segment that is charged in full when it is restored.
 *     A segment's charges all went into the hour and the date that are noted in it; into sliding
 *     windows no later than now.
 *   - A reservation is given back to the segment only where it was charged, and each holds no less
 *     than what its calls have come to. What a call has used beyond its reservation is charged as
 *     of now, since its own segment may be in a copy already, but under the date whose counters it
 *     goes to.
 *   - Rows that go while processes run (somebody empties the run directory, or it is another one
 *     now) are restored by one of them, with all that the file grants. Another one may be in a
 *     transaction on the old rows: what it charges within their grant is charged by the restore,
 *     too, and it is granted no more, as the file is of other rows from then on.
 */
#include <string.h>
#include <unistd.h>

#include "store/batch.h"
#include "store/liverows.h"
#include "store/rows.h"

static const enum subject subject_of[LEASE_SUBJECTS] = {
    [LEASE_EVERYONE] = SUBJECT_EVERYONE,
    [LEASE_ANONYMOUS] = SUBJECT_ANONYMOUS,
};

/*
 * What is granted at once beyond what is needed: this part of the smallest max over an hour or
 * longer. So a limit costs at most about 32 writes of 1 KB in each of its windows, and each hour
 * with use one more: some 60 a day for a day's limits, nothing to flash that bears 10000
 * erasures of each block. One unclean stop wastes at most this part, and what was given back
 * since it was granted, for each segment that the copy lacks: one or two with a copy each hour,
 * LEASE_SEGMENTS where only a full file has one made, and one more for each copy that failed.
 */
#define SHARE        32
#define LONG_SECONDS 3600 /* in a shorter window what is wasted is soon forgotten */
#define LOCK_WAIT_MS 250  /* who restores has the file longer, and we have lost it then */

/* What is to be charged. */
struct charge {
    uint32_t subjects; /* bit 1 << subject */
    struct amounts more;
    int64_t day;
    const struct view *view; /* whose limits say what is granted beyond it; NULL: nothing is */
};

static bool is_charged(const struct charge *c, unsigned i)
{
    return c->subjects & 1U << subject_of[i];
}

/* ---- the row ---- */

static enum error read_row(struct kv_txn *t, struct lease_row *out)
{
    struct row_key key;
    struct kv_slice value;

    key_lease(&key);
    enum error e = kv_get(t, key.bytes, key.n, &value);
    if (e == ERROR_NONE)
        return record_lease_read(&value, out) ? ERROR_NONE : ERROR_STORE_INVALID;
    memset(out, 0, sizeof *out);
    out->closed = true;
    return e == ERROR_NOT_FOUND ? ERROR_NONE : e;
}

static enum error put_row(struct batch *b, const struct lease_row *row)
{
    struct row_key key;
    struct record value;

    key_lease(&key);
    record_lease(row, &value);
    return batch_put(b, &key, &value);
}

/* ---- granting ---- */

static bool bounds(const struct limit *l, enum subject s, unsigned unit)
{
    return l->subject == s && (unsigned)l->unit == unit && !l->dry_run &&
           l->max != LIMIT_UNLIMITED && window_seconds(l->window) >= LONG_SECONDS;
}

static uint64_t left_of(const struct view *v, const struct limit *l)
{
    const struct counter *c = rule_counter(v->counter, v->n, l);
    uint64_t left = l->max;

    for (unsigned i = 0; c && i < c->slots; i++)
        left = amount_subtract(left, c->slot[i].used.of[l->unit]);
    return left;
}

/* What is granted beyond the weight, by the limits that bound the unit. False, out untouched: none
 * does. */
static bool spare(const struct view *v, enum subject s, unsigned unit, uint64_t weight,
                  uint64_t *out)
{
    uint64_t share = AMOUNT_MAX, left = AMOUNT_MAX;
    bool any = false;

    for (unsigned i = 0; i < v->n_limits; i++) {
        const struct limit *l = &v->limits[i];

        if (!bounds(l, s, unit))
            continue;
        any = true;
        share = l->max / SHARE < share ? l->max / SHARE : share;
        left = left_of(v, l) < left ? left_of(v, l) : left;
    }
    if (!any)
        return false;
    left = amount_subtract(left, weight);
    *out = share < left ? share : left;
    return true;
}

/* What no limit bounds is granted, too: there may be one tomorrow, and today's use counts for it.
 * Twice what is needed costs few writes and, as long as there is no limit, nobody anything. */
static uint64_t grant(const struct charge *c, enum subject s, unsigned unit, uint64_t charged,
                      uint64_t granted)
{
    uint64_t need = amount_add(charged, c->more.of[unit]), more = 0;

    if (c->view && !spare(c->view, s, unit, c->more.of[unit], &more) && need > granted)
        more = need;
    need = amount_add(need, more);
    return need > granted ? need : granted;
}

static void grant_all(const struct charge *c, struct lease_row *row)
{
    for (unsigned i = 0; i < LEASE_SUBJECTS; i++)
        for (unsigned u = 0; u < UNITS_SUMMED && is_charged(c, i); u++) {
            uint64_t *granted = &row->segment.granted[i].of[u];

            *granted = grant(c, subject_of[i], u, row->charged[i].of[u], *granted);
        }
}

static void begin_segment(const struct batch *b, const struct zone *z, const struct charge *c,
                          uint64_t serial, struct lease_row *row)
{
    int64_t t = b->state.time.time_ms, date_ends = zone_next_day_ms(z, t);
    struct slot hour[WINDOW_SLOTS_MAX];

    (void)window_slots((struct window){WINDOW_HOUR, 0}, z, t, hour);
    memset(row, 0, sizeof *row);
    row->segment.serial = serial;
    row->segment.from_ms = t;
    row->segment.until_ms = hour->end_ms < date_ends ? hour->end_ms : date_ends;
    row->segment.day = c->day;
}

/* Once a copy has been made, the batch is tried again. */
static enum error ask_for_copy(struct ledger *l)
{
    atomic_store(&l->wants_copy, true);
    return ERROR_BUSY;
}

static bool is_ours(const struct ledger *l, const struct lease *file)
{
    return memcmp(file->rows, l->rows_name, sizeof file->rows) == 0;
}

/*
 * With its lock, if it is to be written; one that is missing is never made anew. Of other rows it
 * has what ours have been granted, too, and more: these do not count on. Only an older file, of
 * rows before ours, has not.
 */
static enum error read_file(struct ledger *l, const struct lease_row *row, struct lease *out)
{
    enum error e = lease_read(l->path_lease, l->options.secret, l->schema.uuid, out);

    if (e != ERROR_NONE || is_ours(l, out) || !lease_has(out, &row->segment))
        return e;
    liverows_forsake(l);
    return ERROR_STORE_REPLACED;
}

enum error lease_look(struct ledger *l, struct kv_txn *t)
{
    const struct file_stamp stamp = file_stamp(l->path_lease);
    struct lease_row row;
    struct lease file;

    if (stamp.exists && file_stamp_equal(&stamp, &l->looked_at))
        return ERROR_NONE;
    enum error e = read_row(t, &row);
    if (e == ERROR_NONE)
        e = read_file(l, &row, &file);
    if (e == ERROR_NONE)
        l->looked_at = stamp;
    return e;
}

static enum error write_file(struct ledger *l, struct lease *file)
{
    memcpy(file->rows, l->rows_name, sizeof file->rows);
    return lease_write(l->path_lease, l->options.secret, l->schema.uuid, file);
}

/* Of an older file nobody knows what has been charged since: a copy makes that good. */
static enum error extend(struct batch *b, const struct zone *z, const struct charge *c,
                         struct lease_row *row)
{
    struct ledger *l = b->ledger;
    struct lease file;
    enum error e = read_file(l, row, &file);

    if (e != ERROR_NONE)
        return e;
    if (!lease_has(&file, &row->segment))
        return ask_for_copy(l);
    if (!lease_covers(row, b->state.time.time_ms, c->day)) {
        uint64_t next = row->segment.serial + 1;

        begin_segment(b, z, c, next > file.copied ? next : file.copied, row);
    }
    grant_all(c, row);
    if (!lease_put(&file, &row->segment))
        return ask_for_copy(l);
    return write_file(l, &file);
}

/* Under LMDB's write lock, and that of the file: who restores reads what is written here, or we
 * read that they have. */
static enum error extend_locked(struct batch *b, const struct zone *z, const struct charge *c,
                                struct lease_row *row)
{
    int lock;
    enum error e = lease_lock(b->ledger->path_lease, LOCK_WAIT_MS, &lock);

    if (e != ERROR_NONE)
        return e;
    e = extend(b, z, c, row);
    close(lock);
    return e;
}

/* ---- charging ---- */

static bool fits(const struct charge *c, const struct lease_row *row)
{
    for (unsigned i = 0; i < LEASE_SUBJECTS; i++)
        for (unsigned u = 0; u < UNITS_SUMMED && is_charged(c, i); u++)
            if (amount_add(row->charged[i].of[u], c->more.of[u]) >
                row->segment.granted[i].of[u])
                return false;
    return true;
}

static enum error charge(struct batch *b, const struct zone *z, const struct charge *c,
                         struct lease_row *row)
{
    enum error e = ERROR_NONE;

    if (!lease_covers(row, b->state.time.time_ms, c->day) || !fits(c, row))
        e = extend_locked(b, z, c, row);
    for (unsigned i = 0; i < LEASE_SUBJECTS && e == ERROR_NONE; i++)
        for (unsigned u = 0; u < UNITS_SUMMED && is_charged(c, i); u++)
            row->charged[i].of[u] = amount_add(row->charged[i].of[u], c->more.of[u]);
    return e;
}

#define LEASED (1U << SUBJECT_EVERYONE | 1U << SUBJECT_ANONYMOUS)

enum error batch_lease_charge(struct batch *b, const struct op *op, const struct view *v,
                              struct reservation *r)
{
    const struct zone *z = view_zone(b->ledger, &op->policy);
    const struct charge c = {.subjects = v->present & LEASED,
                             .more = op->demand.weights,
                             .day = zone_day(z, b->state.time.time_ms),
                             .view = v};
    struct lease_row row;

    r->segment = 0;
    if (!b->ledger->options.lease || c.subjects == 0)
        return ERROR_NONE;
    enum error e = read_row(b->txn, &row);
    if (e == ERROR_NONE)
        e = charge(b, z, &c, &row);
    if (e == ERROR_NONE)
        e = put_row(b, &row);
    if (e == ERROR_NONE)
        r->segment = row.segment.serial;
    r->segment_day = c.day;
    return e;
}

/* ---- settling ---- */

/* a - b of each unit, never below zero; whether anything is left. */
static bool less(const struct amounts *a, const struct amounts *b, struct amounts *out)
{
    bool any = false;

    for (unsigned u = 0; u < UNITS_SUMMED; u++) {
        out->of[u] = amount_subtract(a->of[u], b->of[u]);
        any = any || out->of[u] > 0;
    }
    return any;
}

static uint32_t subjects_of(const struct hold *h)
{
    uint32_t subjects = 0;

    for (unsigned i = 0; i < h->n_live; i++)
        subjects |= 1U << h->live[i].subject;
    return subjects & LEASED;
}

enum error batch_lease_settle(struct batch *b, const struct op *op, const struct hold *h,
                              const struct amounts *real)
{
    const struct zone *z = view_zone(b->ledger, &op->policy);
    struct charge c = {.subjects = subjects_of(h), .day = op->reservation.segment_day};
    struct lease_row row;
    struct amounts back;
    enum error e;

    if (!b->ledger->options.lease || c.subjects == 0)
        return ERROR_NONE;
    if ((e = read_row(b->txn, &row)) != ERROR_NONE)
        return e;
    bool over = less(real, &h->reserved, &c.more) && h->n_rows > 0; /* else it goes nowhere */
    bool under = less(&h->reserved, real, &back) && !row.closed &&
                 row.segment.serial == op->reservation.segment;
    for (unsigned i = 0; i < LEASE_SUBJECTS && under; i++)
        if (is_charged(&c, i))
            (void)less(&row.charged[i], &back, &row.charged[i]);
    if (over)
        e = charge(b, z, &c, &row);
    return e == ERROR_NONE && (over || under) ? put_row(b, &row) : e;
}

/* ---- copies ---- */

enum error batch_lease_close(struct batch *b, struct op *op)
{
    struct lease_row row;
    struct lease file;

    (void)op;
    if (!b->ledger->options.lease)
        return ERROR_NONE;
    enum error e = read_row(b->txn, &row);
    if (e == ERROR_NONE)
        e = read_file(b->ledger, &row, &file);
    if (e != ERROR_NONE || row.closed)
        return e;
    row.closed = true;
    return put_row(b, &row);
}

static enum error prune(struct batch *b, uint64_t first)
{
    struct ledger *l = b->ledger;
    struct lease file;
    struct lease_row row;
    enum error e = read_row(b->txn, &row);

    if (e == ERROR_NONE)
        e = read_file(l, &row, &file);
    if (e != ERROR_NONE || (!lease_prune(&file, first) && is_ours(l, &file)))
        return e;
    return write_file(l, &file);
}

/* The row stays as it is: the transaction is there for its lock. */
enum error batch_lease_prune(struct batch *b, struct op *op)
{
    const uint64_t *first = op->order;
    int lock;
    enum error e;

    if (!b->ledger->options.lease)
        return ERROR_NONE;
    if ((e = lease_lock(b->ledger->path_lease, LOCK_WAIT_MS, &lock)) != ERROR_NONE)
        return e;
    e = prune(b, *first);
    close(lock);
    return e;
}

/* ---- after an unclean start ---- */

/* A segment of the file, and the windows that it is charged in. */
struct restoring {
    struct kv_txn *txn;
    const struct restore_time *when;
    const struct lease_segment *segment;
    bool as_of_now; /* it is from after a clock reset that the copy does not contain */
    bool charged;
};

static enum error add_to_slot(struct restoring *r, struct window w, const struct slot *slot)
{
    static const uint8_t none[SUBJECT_HASH];
    static const struct amounts zero;
    enum error e = ERROR_NONE;

    for (unsigned i = 0; i < LEASE_SUBJECTS && e == ERROR_NONE; i++) {
        const struct amounts *granted = &r->segment->granted[i];
        struct amounts sum;
        struct row_key key;
        struct record value;

        if (memcmp(granted, &zero, sizeof zero) == 0)
            continue;
        key_counter(w, slot, subject_of[i], none, &key);
        if ((e = rows_amounts(r->txn, &key, &sum)) != ERROR_NONE)
            return e;
        for (unsigned u = 0; u < UNITS_SUMMED; u++)
            sum.of[u] = amount_add(sum.of[u], granted->of[u]);
        record_amounts(&sum, &value);
        e = kv_put(r->txn, key.bytes, key.n, value.bytes, value.n);
        r->charged = true;
    }
    return e;
}

/* The newest slot at the instant; by its end it is known whether anything can still count it. */
static enum error add_at(struct restoring *r, struct window w, const struct zone *z,
                         int64_t t_ms)
{
    struct slot slot[WINDOW_SLOTS_MAX];

    (void)window_slots(w, z, t_ms, slot);
    return slot->end_ms > r->when->store_ms ? add_to_slot(r, w, slot) : ERROR_NONE;
}

/* Which zone names the days, the configuration says later: the date of either is charged. */
static enum error add_today(struct restoring *r, struct window w)
{
    static const struct zone utc;
    struct slot here[WINDOW_SLOTS_MAX], there[WINDOW_SLOTS_MAX];
    int64_t t = r->when->store_ms;

    (void)window_slots(w, &utc, t, here);
    (void)window_slots(w, r->when->zone, t, there);
    enum error e = add_to_slot(r, w, here);
    return e == ERROR_NONE && here->number != there->number ? add_to_slot(r, w, there) : e;
}

static enum error add_to_window(struct restoring *r, struct window w)
{
    static const struct zone utc;
    const struct lease_segment *s = r->segment;
    int64_t t = r->when->store_ms;

    if (r->as_of_now)
        return add_today(r, w);
    switch (w.kind) {
    case WINDOW_HOUR:
        return add_at(r, w, &utc, s->from_ms);
    case WINDOW_DAY:
    case WINDOW_MONTH: /* named by the civil date alone, which begins so in UTC */
        return add_at(r, w, &utc, s->day * 86400000);
    case WINDOW_SLIDING:
        break;
    }
    /* what was charged last is counted for the window and one of its slots longer */
    int64_t counts_ms = (int64_t)w.seconds * 1000 / WINDOW_PARTS * WINDOW_SLOTS_MAX;
    return s->until_ms + counts_ms > t ? add_at(r, w, &utc, t) : ERROR_NONE;
}

static enum error add_to_windows(struct restoring *r, const uint32_t *codes, unsigned n)
{
    enum error e = ERROR_NONE;

    for (unsigned i = 0; i < n && e == ERROR_NONE; i++) {
        struct window w;

        e = window_from_code(codes[i], &w) ? add_to_window(r, w) : ERROR_STORE_INVALID;
    }
    return e;
}

/* Whether it began before what went before it; of an open one the copy has the beginning. */
static bool went_back(const struct lease_segment *s, const struct lease_row *in_copy,
                      int64_t latest_ms)
{
    return s->from_ms < latest_ms && (!in_copy || s->serial != in_copy->segment.serial);
}

enum error lease_restore(struct kv_txn *t, const struct lease *l,
                         const struct lease_row *in_copy, const struct restore_time *when,
                         const uint32_t *codes, unsigned n_codes, unsigned *charged)
{
    const uint64_t first = lease_first_after(in_copy);
    int64_t latest = when->copied_ms;
    unsigned n = 0;

    for (unsigned i = 0; i < l->n; i++) {
        struct restoring r = {.txn = t, .when = when, .segment = &l->segment[i]};

        if (r.segment->serial < first)
            continue;
        r.as_of_now = went_back(r.segment, in_copy, latest);
        enum error e = add_to_windows(&r, codes, n_codes);
        if (e != ERROR_NONE)
            return e;
        latest = r.segment->from_ms > latest ? r.segment->from_ms : latest;
        n += r.charged;
    }
    *charged = n;
    return ERROR_NONE;
}
