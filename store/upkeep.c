/*
 * What rides on every write transaction: the day's history, the board's differences, rows that
 * have ended, and the period keys. Each step is bounded, so that no request pays for a backlog
 * at once; nothing that a verdict depends on waits for it.
 */
#include <string.h>

#include "platform/log.h"
#include "store/batch.h"
#include "store/rows.h"

/* History */

enum error batch_history_flush(struct batch *b)
{
    struct row_key key;
    struct record r;

    if (!b->day_changed)
        return ERROR_NONE;
    b->day_changed = false;
    key_history(b->day.day, &key);
    record_history(&b->day, &r);
    return batch_put(b, &key, &r);
}

enum error batch_history(struct batch *b, int64_t day, struct history_day **out)
{
    struct row_key key;
    struct kv_slice value;
    enum error e;

    if (!b->day_loaded || b->day.day != day) {
        if ((e = batch_history_flush(b)) != ERROR_NONE)
            return e;
        memset(&b->day, 0, sizeof b->day);
        b->day.day = day;
        key_history(day, &key);
        e = kv_get(b->txn, key.bytes, key.n, &value);
        if (e != ERROR_NONE && e != ERROR_NOT_FOUND)
            return e;
        if (e == ERROR_NONE && !record_history_read(&value, &b->day))
            return ERROR_STORE_INVALID;
        b->day_loaded = true;
    }
    b->day_changed = true;
    *out = &b->day;
    return ERROR_NONE;
}

void history_unknown(struct history_day *day, const struct hold *h)
{
    day->unknown++;
    day->tokens_in = amount_add(day->tokens_in, h->tokens_in);
    day->tokens_out = amount_add(day->tokens_out, h->tokens_out);
    day->cost_nano = amount_add(day->cost_nano, h->reserved.of[UNIT_COST]);
}

/* Ended without a settle. */
static enum error count_unknown(struct batch *b, const struct hold *h)
{
    struct history_day *day;
    enum error e = batch_history(b, h->day, &day);

    if (e != ERROR_NONE)
        return e;
    history_unknown(day, h);
    return alert_thresholds(b, &b->policy, h);
}

/* Erasing */

/* Whether the row under the cursor has ended; false also for a row of another table. */
static bool has_ended(const struct batch *b, enum table t, const struct kv_slice *key)
{
    int64_t at, store_ms = storetime_erase_ms(&b->state.time, b->state.time.time_ms);

    if (!key_instant(t, key, &at))
        return false;
    switch (t) {
    case TABLE_HISTORY:
    case TABLE_DRY:
        return at < zone_day(view_zone(b->ledger, &b->policy), store_ms) - HISTORY_DAYS;
    case TABLE_DAY:
        return store_ms - b->policy.retention_ms >= at;
    case TABLE_RESERVATION:
        return at <= b->now.boot_ms;
    default:
        return at <= store_ms;
    }
}

static enum error erase_row(struct batch *b, enum table t, struct kv_cursor *c,
                            const struct kv_slice *value)
{
    struct hold h;
    enum error e = ERROR_NONE;

    if (t == TABLE_RESERVATION) {
        if (!record_hold_read(value, &h))
            return ERROR_STORE_INVALID;
        e = count_unknown(b, &h);
    } else if (t == TABLE_HISTORY) {
        e = totals_erased(b, value);
    }
    /* They may put a row: LMDB moves the open cursor along, but `value` is gone. */
    b->changed = true;
    return e == ERROR_NONE ? kv_cursor_delete(c) : e;
}

struct erasing {
    struct batch *batch;
    enum table table;
    unsigned left;
};

/* A history row that goes must not come back with what the batch has read of it. */
static void forget_day(struct batch *b, const struct kv_slice *key)
{
    int64_t day;

    if (key_history_day(key, &day) && day == b->day.day)
        b->day_loaded = false;
}

static enum error erase_ended(void *arg, struct kv_cursor *c, const struct kv_slice *key,
                              const struct kv_slice *value)
{
    struct erasing *w = arg;

    if (w->left == 0 || !has_ended(w->batch, w->table, key))
        return ERROR_NOT_FOUND;
    w->left--;
    forget_day(w->batch, key);
    return erase_row(w->batch, w->table, c, value);
}

static enum error erase_table(struct batch *b, enum table t, unsigned *left)
{
    struct erasing w = {b, t, *left};
    struct row_key from;

    key_table(t, &from);
    enum error e = rows_each(b->txn, &from, erase_ended, &w);
    *left = w.left;
    return e;
}

enum error batch_erase(struct batch *b, unsigned most)
{
    static const enum table tables[] = {TABLE_DAY, TABLE_COUNTER, TABLE_HISTORY, TABLE_DRY};
    unsigned holds = most;
    /* Reservations go by boot time, which does not step: no hold applies to them. */
    enum error e = erase_table(b, TABLE_RESERVATION, &holds);

    if (e != ERROR_NONE || (e = batch_history_flush(b)) != ERROR_NONE)
        return e; /* flushed: a row that goes is added to the totals as it is in the store */
    for (unsigned i = 0; i < sizeof tables / sizeof *tables && e == ERROR_NONE; i++)
        e = erase_table(b, tables[i], &most);
    return e;
}

static enum error end_old_hold(void *arg, struct kv_cursor *c, const struct kv_slice *key,
                               const struct kv_slice *value)
{
    struct batch *b = arg;
    struct hold_places h;
    int64_t deadline;

    if (!key_instant(TABLE_RESERVATION, key, &deadline))
        return ERROR_NOT_FOUND;
    if (!record_hold_places(value, &h))
        return ERROR_STORE_INVALID;
    if (memcmp(h.boot_id, b->now.boot_id, sizeof b->now.boot_id) == 0)
        return ERROR_NONE;
    return erase_row(b, TABLE_RESERVATION, c, value);
}

/* Reservations of an earlier boot: their holders are gone, their money stays charged. */
enum error batch_new_boot(struct batch *b)
{
    struct row_key from;

    key_table(TABLE_RESERVATION, &from);
    return rows_each(b->txn, &from, end_old_hold, b);
}

/* The board */

uint32_t figure_since(uint32_t now, uint32_t folded)
{
    uint32_t more = now - folded; /* wraps as the board does */

    return more <= FOLD_MOST ? more : 0;
}

/* Takes what the board has come to as folded. False if nothing has changed. */
static bool take_figures(struct batch *b, uint32_t more[FIGURES])
{
    static struct log_once once;
    bool any = false;

    for (unsigned i = 0; i < FIGURES; i++) {
        uint32_t now = board_get(b->ledger->board, i), *folded = &b->state.folded[i];

        more[i] = figure_since(now, *folded);
        if (more[i] == 0 && now != *folded)
            log_line_once(
                &once, 1, LOG_LEVEL_WARNING,
                "event=board_not_believed: a figure has leapt, the history leaves it out");
        any = any || now != *folded;
        *folded = now;
    }
    return any;
}

enum error batch_fold(struct batch *b)
{
    struct state *s = &b->state;
    struct history_day *day;
    uint8_t id[16];
    uint32_t more[FIGURES];

    board_id(b->ledger->board, id);
    if (memcmp(id, s->board_id, sizeof id) != 0) {
        memcpy(s->board_id, id, sizeof id);
        memset(s->folded, 0, sizeof s->folded);
    }
    if (!take_figures(b, more))
        return ERROR_NONE;
    b->changed = true;
    enum error e =
        batch_history(b, zone_day(view_zone(b->ledger, &b->policy), s->time.time_ms), &day);
    if (e != ERROR_NONE)
        return e;
    for (unsigned i = 0; i < FIGURES; i++)
        day->figures[i] += more[i];
    return ERROR_NONE;
}

/* Period keys. The file is only written under LMDB's write lock, so that no process can put an
 * older set over a newer one. */

static enum error write_periods(struct ledger *l, const struct periods *p)
{
    enum error e = periods_write(l->path_periods, l->options.secret, l->schema.uuid, p);

    if (e == ERROR_NONE)
        e = ledger_periods_refresh(l, true);
    return e;
}

/* Whether keys in p are needed no more at the store time of s; they have gone from p then. */
static bool advance(const struct batch *b, const struct state *s, struct periods *p)
{
    ledger_periods_copy(b->ledger, p);
    return periods_advance(p, view_zone(b->ledger, &b->policy),
                           storetime_erase_ms(&s->time, s->time.time_ms));
}

/*
 * A key goes only by a time that is committed: if the store did not have it, a clock that is put
 * back, or a boot, could lead back to a time whose key is gone, and nobody could be counted.
 */
void batch_periods(struct batch *b)
{
    struct periods p;

    b->old_keys = advance(b, &b->state, &p);
    b->changed = b->changed || b->old_keys;
    mac_wipe(&p, sizeof p);
}

/* Under the lock, as other processes write the file, too. */
static enum error drop_keys(struct batch *b)
{
    struct ledger *l = b->ledger;
    struct state s;
    struct periods p;
    enum error e = ledger_read_state(b->txn, &s);

    if (e != ERROR_NONE || (e = ledger_periods_refresh(l, false)) != ERROR_NONE)
        return e;
    if (advance(b, &s, &p))
        e = write_periods(l, &p);
    mac_wipe(&p, sizeof p);
    return e;
}

/* After the commit. Whether the old keys stay a while longer is no matter of counting: a failure is
 * only told. */
void batch_drop_keys(struct batch *b)
{
    static struct log_once once;
    enum error e;

    if (!b->old_keys)
        return;
    if ((e = kv_begin_write(b->ledger->kv, &b->txn)) == ERROR_NONE) {
        e = drop_keys(b);
        kv_abort(b->txn);
    }
    if (e != ERROR_NONE)
        log_line_once(&once, (int)e, LOG_LEVEL_WARNING, "event=period_keys_not_advanced: %s",
                      error_text(e));
}

/* Whether one of the limits that hold for the request names the window. */
static bool in_view(const struct view *v, uint32_t code)
{
    for (unsigned i = 0; i < v->n_limits; i++)
        if (v->limits[i].unit != UNIT_CONCURRENT && window_code(v->limits[i].window) == code)
            return true;
    return false;
}

struct search {
    uint32_t code;
    int64_t store_ms;
    bool found;
};

static enum error seek_live_row(void *arg, struct kv_cursor *c, const struct kv_slice *key,
                                const struct kv_slice *value)
{
    struct search *w = arg;
    int64_t at;

    (void)c;
    (void)value;
    if (!key_instant(TABLE_COUNTER, key, &at))
        return ERROR_NOT_FOUND;
    w->found = at > w->store_ms && key_window(key) == w->code;
    return w->found ? ERROR_NOT_FOUND : ERROR_NONE;
}

static enum error has_live_row(struct batch *b, uint32_t code, bool *out)
{
    struct search w = {code, b->state.time.time_ms, false};
    struct row_key from;

    key_table(TABLE_COUNTER, &from);
    enum error e = rows_each(b->txn, &from, seek_live_row, &w);
    *out = w.found;
    return e;
}

/*
 * Makes room for a new window when configurations of the past, or keys, have used up all
 * places: one that no limit of this request names and no live row uses. Rare, so it may look at
 * every counter.
 */
static enum error drop_unused_window(struct batch *b, const struct view *v, struct periods *p)
{
    struct state *s = &b->state;

    for (unsigned i = 0; i < s->n_windows; i++) {
        bool live = true;
        uint32_t code = s->window[i].code;
        enum error e = ERROR_NONE;

        if (!in_view(v, code) && code != window_code((struct window){WINDOW_DAY, 0}))
            e = has_live_row(b, code, &live);
        if (e != ERROR_NONE)
            return e;
        if (live)
            continue;
        s->window[i] = s->window[--s->n_windows];
        for (unsigned k = 0; k < p->n; k++)
            if (p->entry[k].code == code)
                p->entry[k] = p->entry[--p->n];
        return ERROR_NONE;
    }
    return ERROR_TOO_MANY_WINDOWS;
}

static bool state_has(const struct state *s, uint32_t code)
{
    for (unsigned i = 0; i < s->n_windows; i++)
        if (s->window[i].code == code)
            return true;
    return false;
}

bool batch_has_window(const struct batch *b, struct window w)
{
    return state_has(&b->state, window_code(w));
}

/* The key goes into the file before the store names it: a crash between leaves an entry that
 * the next try takes over. */
static enum error add_window(struct batch *b, const struct op *op, struct window w,
                             struct periods *p)
{
    struct state *s = &b->state;
    uint32_t code = window_code(w);
    enum error e = ERROR_NONE;

    if (state_has(s, code))
        return ERROR_NONE;
    if (s->n_windows == PERIOD_WINDOWS || p->n == PERIOD_WINDOWS)
        e = drop_unused_window(b, &b->ledger->writer_view, p);
    if (e == ERROR_NONE && !periods_find(p, code))
        e = periods_add(
            p, code,
            window_oldest_period(w, view_zone(b->ledger, &op->policy), b->committed_ms));
    if (e != ERROR_NONE)
        return e;
    s->window[s->n_windows].code = code;
    s->window[s->n_windows++].generation = periods_find(p, code)->generation;
    b->changed = true;
    return ERROR_NONE;
}

/* For the limits of the writer's view. */
enum error batch_windows(struct batch *b, struct op *op)
{
    struct ledger *l = b->ledger;
    const struct view *v = &l->writer_view;
    const struct state before = b->state;
    struct periods p;

    if ((op->error = ledger_periods_refresh(l, false)) != ERROR_NONE)
        return ERROR_NONE;
    ledger_periods_copy(l, &p);
    for (unsigned i = 0; i < v->n_limits && op->error == ERROR_NONE; i++)
        if (v->limits[i].unit != UNIT_CONCURRENT)
            op->error = add_window(b, op, v->limits[i].window, &p);
    if (op->error == ERROR_NONE)
        op->error = write_periods(l, &p);
    if (op->error != ERROR_NONE)
        b->state = before;
    mac_wipe(&p, sizeof p);
    return ERROR_NONE;
}
