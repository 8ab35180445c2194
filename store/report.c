/*
 * Figures for the owner and names for the log, from read transactions. What is on the board but
 * not yet folded is added to today, so that stats are never behind what callers were told.
 */
#include <stdio.h>
#include <string.h>

#include "store/ledger_parts.h"
#include "store/rows.h"

/* History */

struct history_walk {
    const struct policy *policy;
    int64_t first, today;
    bool saw_today;
    uint32_t board[FIGURES];
    void (*visit)(void *arg, const struct history_day *d);
    void *arg;
};

/* The rows before the board: what they say is folded has to be on it, or the rest would wrap. */
void ledger_unfolded(const struct view_context *c, uint32_t out[FIGURES])
{
    uint8_t id[16];

    atomic_thread_fence(memory_order_acquire);

    board_id(c->ledger->board, id);
    bool same = memcmp(id, c->state->board_id, sizeof id) == 0;
    for (unsigned i = 0; i < FIGURES; i++)
        out[i] = figure_since(board_get(c->ledger->board, i), same ? c->state->folded[i] : 0);
}

static void show_day(struct history_walk *w, struct history_day *d)
{
    if (d->day == w->today) {
        w->saw_today = true;
        for (unsigned i = 0; i < FIGURES; i++)
            d->figures[i] += w->board[i];
    }
    w->visit(w->arg, d);
}

static bool any(const uint32_t *figures)
{
    for (unsigned i = 0; i < FIGURES; i++)
        if (figures[i] != 0)
            return true;
    return false;
}

static enum error visit_day(void *arg, struct kv_cursor *c, const struct kv_slice *key,
                            const struct kv_slice *value)
{
    struct history_walk *w = arg;
    struct history_day d;

    (void)c;
    if (!key_history_day(key, &d.day))
        return ERROR_NOT_FOUND;
    if (!record_history_read(value, &d))
        return ERROR_STORE_INVALID;
    show_day(w, &d);
    return ERROR_NONE;
}

static enum error history(void *arg, const struct view_context *c)
{
    struct history_walk *w = arg;
    struct row_key from;

    w->today =
        zone_day(view_zone(c->ledger, w->policy), storetime_now(&c->state->time, c->now));
    ledger_unfolded(c, w->board);
    key_history(w->first, &from);
    enum error e = rows_each(c->txn, &from, visit_day, w);
    if (e == ERROR_NONE && !w->saw_today && any(w->board)) {
        struct history_day d = {.day = w->today};
        show_day(w, &d);
    }
    return e;
}

enum error ledger_history(struct ledger *l, const struct policy *p, int64_t first,
                          void (*visit)(void *arg, const struct history_day *d), void *arg)
{
    struct history_walk w = {.policy = p, .first = first, .visit = visit, .arg = arg};

    return ledger_reading(l, history, &w);
}

/* How a shared limit stands */

struct use_question {
    const struct policy *policy;
    const struct limit *limit;
    struct limit_use out;
};

static enum error limit_use(void *arg, const struct view_context *c)
{
    struct use_question *q = arg;
    struct use u;
    enum error e = use_charged(c, q->policy, q->limit, &u);

    if (e == ERROR_NONE)
        e = use_reserved(c, &u);
    q->out.used = u.charged;
    q->out.reserved = u.reserved;
    q->out.released = u.released;
    q->out.frees_ms = storetime_wait_ms(&c->state->time, c->now, u.frees_ms);
    return e;
}

enum error ledger_limit_use(struct ledger *l, const struct policy *p, unsigned limit,
                            struct limit_use *out)
{
    struct use_question q = {.policy = p, .limit = &p->limits[limit]};
    enum error e = ledger_reading(l, limit_use, &q);

    if (e == ERROR_NONE)
        *out = q.out;
    return e;
}

/* State */

struct state_walk {
    const struct policy *policy;
    struct live *live;
    struct ledger_state out;
};

static enum error count_open(void *arg, uint64_t id, const struct hold_places *p,
                             const struct kv_slice *value)
{
    struct state_walk *w = arg;

    (void)p;
    (void)value;
    w->out.open_streams += live_is_held(w->live, id);
    return ERROR_NONE;
}

static enum error state_now(void *arg, const struct view_context *c)
{
    struct state_walk *w = arg;
    struct ledger_state *s = &w->out;

    memset(s, 0, sizeof *s);
    w->live = c->ledger->live;
    s->paused = c->state->paused;
    s->store_ms = storetime_now(&c->state->time, c->now);
    s->clock_ms = c->now->wall_ms;
    s->today = zone_day(view_zone(c->ledger, w->policy), s->store_ms);
    memcpy(s->zone, c->ledger->schema.zone, sizeof s->zone);
    memcpy(s->uuid, c->ledger->schema.uuid, sizeof s->uuid);
    enum error e = kv_usage(c->txn, &s->usage);
    if (e == ERROR_NONE)
        e = alert_count(c->txn, &s->alerts);
    return e == ERROR_NONE ? view_holds(c, count_open, w) : e;
}

enum error ledger_state(struct ledger *l, const struct policy *p, struct ledger_state *out)
{
    struct state_walk w = {.policy = p};
    enum error e = ledger_reading(l, state_now, &w);

    if (e != ERROR_NONE)
        return e;
    if (l->options.lease)
        w.out.copied_ms = file_stamp(l->path_copy).mtime_ns / 1000000;
    *out = w.out;
    return ERROR_NONE;
}

/* The subject in the log */

struct naming {
    const struct policy *policy;
    struct demand *demand;
    enum subject subject;
    uint8_t hash[SUBJECT_HASH];
};

static enum error day_hash(void *arg, const struct view_context *c)
{
    struct naming *n = arg;
    const struct periods *p = &c->ledger->periods;
    const struct period_entry *e = periods_find(p, window_code((struct window){WINDOW_DAY, 0}));
    int64_t day =
        zone_day(view_zone(c->ledger, n->policy), storetime_now(&c->state->time, c->now));

    if (!e || !view_hash(c, e, day, n->subject, n->demand, n->hash))
        return ERROR_PERIODS;
    return ERROR_NONE;
}

void ledger_name(const struct ledger *l, const uint8_t hash[SUBJECT_HASH], char out[17])
{
    uint8_t mac[MAC_SIZE];

    mac_compute(l->display_key, "log", hash, SUBJECT_HASH, mac);
    for (unsigned i = 0; i < 8; i++)
        snprintf(out + 2 * i, 3, "%02x", mac[i]);
}

enum error ledger_display(struct ledger *l, const struct policy *p, struct demand *d,
                          enum subject s, char out[17])
{
    struct naming n = {.policy = p, .demand = d, .subject = s};

    if (d->caller.id[s].n == 0) {
        snprintf(out, 17, "-");
        return ERROR_NONE;
    }
    enum error e = ledger_reading(l, day_hash, &n);
    if (e == ERROR_NONE)
        ledger_name(l, n.hash, out);
    return e;
}
