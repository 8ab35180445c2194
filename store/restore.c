/* Restoring the live rows: one transaction, put in its place once it is committed. */
#include "store/restore.h"

#include <string.h>
#include <unistd.h>

#include "platform/log.h"
#include "store/copy.h"
#include "store/intake.h"
#include "store/lease.h"
#include "store/liverows.h"
#include "store/mark.h"

struct restoring {
    struct ledger *ledger;
    const struct clock_now *now;
    bool adopt;
    struct intake in;
    uint8_t uuid[16];
    int lock; /* on the lease's file, from before it is read until it names our rows; or -1 */
    struct lease lease;
    struct lease_row row; /* the copy's */
    bool has_row;
    bool is_older;     /* one of both, than what was written last */
    int64_t copied_ms; /* its store time */
    int64_t keys_ms;   /* before it nobody can be counted */
    unsigned charged;  /* segments */
    uint64_t last_id;  /* of the transaction */
};

static enum error take_row(void *arg, struct row_key *key, struct record *value)
{
    struct restoring *r = arg;
    enum error e = intake_row(&r->in, key, value);

    return e == ERROR_SYNTAX ? ERROR_STORE_INVALID : e;
}

static enum error read_copy(struct restoring *r)
{
    const struct ledger *l = r->ledger;
    enum error e = copy_read(l->path_copy, l->options.secret, r->uuid, take_row, r);

    if (e != ERROR_NONE)
        return e;
    return r->in.has_schema && r->in.has_state &&
                   memcmp(r->uuid, r->in.schema.uuid, sizeof r->uuid) == 0
               ? ERROR_NONE
               : ERROR_STORE_INVALID;
}

static enum error read_lease(struct restoring *r)
{
    const struct ledger *l = r->ledger;
    struct kv_slice value;
    struct row_key key;
    enum error e = lease_read(l->path_lease, l->options.secret, r->uuid, &r->lease);

    if (e != ERROR_NONE)
        return e;
    key_lease(&key);
    e = kv_get(r->in.txn, key.bytes, key.n, &value);
    if (e != ERROR_NONE)
        return e == ERROR_NOT_FOUND ? ERROR_NONE : e;
    r->has_row = record_lease_read(&value, &r->row);
    return r->has_row ? ERROR_NONE : ERROR_STORE_INVALID;
}

static const struct lease_row *row_of(const struct restoring *r)
{
    return r->has_row ? &r->row : NULL;
}

/*
 * The period file is younger than the copy, or as old: its windows are the store's. One that the
 * copy has and the file has not was let go of, and so were the keys of its rows; one that only the
 * file has is a window that came after the copy, and a segment can have been charged in it.
 */
static enum error take_windows(struct restoring *r)
{
    const struct ledger *l = r->ledger;
    struct state *s = &r->in.state;
    struct periods p;
    enum error e = periods_read(l->path_periods, l->options.secret, r->uuid, &p);

    if (e != ERROR_NONE)
        return e;
    s->n_windows = p.n;
    for (unsigned i = 0; i < p.n; i++) {
        s->window[i].code = p.entry[i].code;
        s->window[i].generation = p.entry[i].generation;
    }
    r->keys_ms = periods_begin_ms(&p);
    mac_wipe(&p, sizeof p);
    return ERROR_NONE;
}

/*
 * Of a machine without a clock battery nothing else may be known of the time than what it has been:
 * at the copy, when the last segment began, and when the period keys were moved, which is done by a
 * time that was committed and so is not beyond where the store was. The clock may have been wrong.
 */
static void advance(struct restoring *r)
{
    struct storetime *t = &r->in.state.time;

    r->copied_ms = t->time_ms;
    storetime_advance(t, r->now);
    for (unsigned i = 0; i < r->lease.n; i++) {
        const struct lease_segment *s = &r->lease.segment[i];

        if (s->serial >= lease_first_after(row_of(r)))
            storetime_raise(t, s->from_ms);
    }
    storetime_raise(t, r->keys_ms);
}

static enum error charge(struct restoring *r)
{
    const struct state *s = &r->in.state;
    struct zone zone;
    const struct restore_time when = {&zone, r->copied_ms, s->time.time_ms};
    uint32_t codes[PERIOD_WINDOWS];

    (void)zone_parse(r->in.schema.zone, &zone);
    for (unsigned i = 0; i < s->n_windows; i++)
        codes[i] = s->window[i].code;
    return lease_restore(r->in.txn, &r->lease, row_of(r), &when, codes, s->n_windows,
                         &r->charged);
}

/* No serial is given twice, or a copy would be taken to contain what it does not. */
static enum error put_lease_row(struct restoring *r)
{
    struct lease_row row = {.closed = true};
    struct lease_segment *s = &row.segment;
    struct row_key key;
    struct record value;

    if (r->has_row)
        *s = r->row.segment;
    if (r->lease.n > 0 && r->lease.segment[r->lease.n - 1].serial > s->serial)
        *s = r->lease.segment[r->lease.n - 1];
    if (r->lease.copied > s->serial + 1)
        s->serial = r->lease.copied - 1;
    if (s->serial == 0)
        return ERROR_NONE; /* nothing has ever been charged */
    key_lease(&key);
    record_lease(&row, &value);
    return kv_put(r->in.txn, key.bytes, key.n, value.bytes, value.n);
}

/* Everything in the transaction, but its commit. */
static enum error fill(struct restoring *r)
{
    enum error e;

    if ((e = read_copy(r)) != ERROR_NONE || (e = read_lease(r)) != ERROR_NONE)
        return e;
    r->is_older = r->lease.copied > lease_first_after(row_of(r)) ||
                  !lease_has(&r->lease, &r->row.segment);
    if (r->is_older && !r->adopt)
        return ERROR_STORE_ROLLED_BACK;
    if ((e = take_windows(r)) != ERROR_NONE)
        return e;
    advance(r);
    if ((e = charge(r)) != ERROR_NONE || (e = put_lease_row(r)) != ERROR_NONE)
        return e;
    return intake_state(&r->in);
}

static enum error commit(struct restoring *r)
{
    struct ledger *l = r->ledger;
    struct mark m;
    enum error e = lease_lock(l->path_lease, LEDGER_WAIT_MS, &r->lock);

    if (e != ERROR_NONE || (e = kv_begin_write(l->kv, &r->in.txn)) != ERROR_NONE)
        return e;
    r->last_id = m.last_id = kv_last_id(r->in.txn) + 1;
    e = fill(r);
    if (e != ERROR_NONE) {
        kv_abort(r->in.txn);
        return e;
    }
    memcpy(m.uuid, r->uuid, sizeof m.uuid);
    e = kv_commit(r->in.txn);
    return e == ERROR_NONE ? mark_replace(l->path_mark, &m) : e;
}

/* From now on the rows before ours, wherever they are, are granted no more. */
static enum error take_lease(struct restoring *r)
{
    const struct ledger *l = r->ledger;

    memcpy(r->lease.rows, l->rows_name, sizeof r->lease.rows);
    return lease_write(l->path_lease, l->options.secret, r->uuid, &r->lease);
}

enum error restore_rows(struct ledger *l, const struct clock_now *now, bool adopt)
{
    struct restoring r = {.ledger = l, .now = now, .adopt = adopt, .lock = -1};
    enum error e = liverows_begin(l);

    r.in.secret = l->options.secret;
    if (e == ERROR_NONE)
        e = commit(&r);
    if (e == ERROR_NONE)
        e = take_lease(&r);
    if (r.lock >= 0)
        close(r.lock);
    if (e == ERROR_NONE)
        e = liverows_publish(l, now);
    if (e != ERROR_NONE) {
        liverows_discard(l);
        return e;
    }
    /* They are as on flash then: another copy can wait, as it must not be made at each boot. */
    if (r.charged == 0 && !r.is_older)
        (void)mark_copied_note(l->path_copied,
                               &(struct mark_copied){r.last_id, now->boot_ms, false});
    log_line(LOG_LEVEL_INFO, "event=restored rows=%llu segments_charged=%u calls_under_way=%u",
             (unsigned long long)r.in.rows, r.charged, r.in.under_way);
    return ERROR_NONE;
}
