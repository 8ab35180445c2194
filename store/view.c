/*
 * One request against the rows: which counters its limits need, under which hashed keys they
 * lie, what they hold, and the verdict. Reads only; the same code decides in a read transaction
 * (refusals) and in a write transaction (reservations), so that the two cannot disagree.
 */
#include <string.h>

#include "store/ledger_parts.h"
#include "store/rows.h"

_Static_assert(VIEW_LIMITS_MAX <= RULE_LIMITS_MAX, "a dry run of each has a bit");

static const struct zone utc;

const struct zone *view_zone(const struct ledger *l, const struct policy *p)
{
    return p->local_time ? &l->zone : &utc;
}

static bool caller_has(const struct caller *c, enum subject s)
{
    if (c->bypass || s == SUBJECT_BYPASS)
        return c->bypass && s == SUBJECT_BYPASS;
    if (s == SUBJECT_EVERYONE)
        return true;
    return s == SUBJECT_ANONYMOUS ? c->anonymous : c->id[s].n > 0;
}

static void subject_mac(const struct mac_key *key, enum subject s, const struct subject_id *id,
                        uint8_t out[SUBJECT_HASH])
{
    uint8_t text[1 + SUBJECT_ID_MAX], mac[MAC_SIZE];

    text[0] = (uint8_t)s;
    memcpy(text + 1, id->bytes, id->n);
    mac_with(key, "subject", text, 1U + id->n, mac);
    memcpy(out, mac, SUBJECT_HASH);
}

/* Under secret and boot id, so that midnight changes nothing. */
void view_hash_places(const struct view_context *c, struct demand *d, uint32_t subjects)
{
    struct hashes *h = &d->hashes;

    for (unsigned s = 0; s < SUBJECTS; s++)
        if (subjects & ~h->live_known & 1U << s && !subject_is_shared((enum subject)s))
            subject_mac(&c->ledger->live_key, (enum subject)s, &d->caller.id[s], h->live[s]);
    h->live_known |= subjects;
}

bool view_hash(const struct view_context *c, const struct period_entry *e, int64_t period,
               enum subject s, struct demand *d, uint8_t out[SUBJECT_HASH])
{
    const struct subject_id *id = &d->caller.id[s];
    struct hashes *h = &d->hashes;

    for (unsigned i = 0; i < h->n; i++)
        if (h->kept[i].period == period && h->kept[i].code == e->code &&
            h->kept[i].subject == s && h->kept[i].generation == e->generation) {
            memcpy(out, h->kept[i].hash, SUBJECT_HASH);
            return true;
        }
    if (!periods_hash(e, &c->cache[e - c->ledger->periods.entry], c->ledger->options.secret,
                      period, (uint8_t)s, id->bytes, id->n, out))
        return false;
    if (h->n < HASHES_KEPT) {
        h->kept[h->n].code = e->code;
        h->kept[h->n].subject = (uint8_t)s;
        h->kept[h->n].generation = e->generation;
        h->kept[h->n].period = period;
        memcpy(h->kept[h->n++].hash, out, SUBJECT_HASH);
    }
    return true;
}

enum error view_window(const struct view_context *c, struct window w,
                       const struct period_entry **out)
{
    const struct periods *p = &c->ledger->periods;
    uint32_t code = window_code(w);

    for (unsigned i = 0; i < c->state->n_windows; i++) {
        if (c->state->window[i].code != code)
            continue;
        const struct period_entry *e = periods_find(p, code);
        if (!e || e->generation != c->state->window[i].generation)
            return ERROR_PERIODS;
        *out = e;
        return ERROR_NONE;
    }
    *out = NULL;
    return ERROR_NONE;
}

/* Reads the slots of one counter, hashing the subject once per period that they touch. */
static enum error read_counter(const struct view_context *c, const struct zone *z,
                               struct demand *d, struct counter *out, struct row_key *row)
{
    bool shared = subject_is_shared(out->subject);
    const struct period_entry *entry = NULL;
    uint8_t hash[SUBJECT_HASH] = {0};
    struct slot slot[WINDOW_SLOTS_MAX];
    int64_t t = storetime_now(&c->state->time, c->now);
    enum error e = ERROR_NONE;

    if (!shared)
        e = view_window(c, out->window, &entry);
    if (e != ERROR_NONE)
        return e;
    out->slots = window_slots(out->window, z, t, slot);
    out->begins_ms = window_begins_ms(out->window, z, t);
    row->n = 0;
    for (unsigned i = 0; i < out->slots; i++) {
        struct row_key key;

        out->slot[i].frees_ms = window_frees_ms(out->window, z, t, &slot[i]);
        memset(&out->slot[i].used, 0, sizeof out->slot[i].used);
        if (!shared && !entry)
            continue;
        if (!shared && (i == 0 || slot[i].period != slot[i - 1].period) &&
            !view_hash(c, entry, slot[i].period, out->subject, d, hash))
            return ERROR_PERIODS;
        key_counter(out->window, &slot[i], out->subject, hash, &key);
        if (i == 0)
            *row = key;
        if ((e = rows_amounts(c->txn, &key, &out->slot[i].used)) != ERROR_NONE)
            return e;
    }
    return ERROR_NONE;
}

/* Asked anew in each transaction: a key that was revoked since the check refuses. */
static enum error take_key(const struct view_context *c, const struct policy *p,
                           struct demand *d)
{
    struct view *v = c->view;
    struct subject_id *id = &d->caller.id[SUBJECT_KEY];
    struct ledger_key k;

    v->limits = p->limits;
    v->n_limits = p->n_limits;
    v->no_key = false;
    if (!d->caller.has_key || d->caller.bypass)
        return ERROR_NONE;
    id->n = 0;
    enum error e = key_find(c->txn, d->caller.key_hash, &k);
    if (e != ERROR_NONE) {
        v->no_key = e == ERROR_NOT_FOUND;
        return v->no_key ? ERROR_NONE : e;
    }
    id->n = sizeof k.id;
    memcpy(id->bytes, k.id, sizeof k.id);
    if (k.n_limits == 0)
        return ERROR_NONE;
    v->n_limits = rule_limits(p->limits, p->n_limits, k.limits, k.n_limits, v->own);
    v->limits = v->own;
    return ERROR_NONE;
}

/* Each reservation holds a place of one of these, and of no more. */
#define EVERY_STREAM (1U << SUBJECT_EVERYONE | 1U << SUBJECT_BYPASS)

static uint32_t counts_live(const struct policy *p, const struct view *v)
{
    uint32_t wanted = 0;

    for (unsigned i = 0; i < v->n_limits; i++)
        if (v->limits[i].unit == UNIT_CONCURRENT)
            wanted |= 1U << v->limits[i].subject;
    return (wanted & v->present) | (p->site_streams > 0 ? EVERY_STREAM : 0);
}

enum error view_build(const struct view_context *c, const struct policy *p, struct demand *d)
{
    struct view *out = c->view;
    const struct zone *z = view_zone(c->ledger, p);
    enum error e = take_key(c, p, d);

    out->n = 0;
    out->present = 0;
    out->store_ms = storetime_now(&c->state->time, c->now);
    if (e != ERROR_NONE || out->no_key)
        return e;
    for (unsigned s = 0; s < SUBJECTS; s++)
        if (caller_has(&d->caller, (enum subject)s))
            out->present |= 1U << s;
    view_hash_places(c, d, out->present & counts_live(p, out));
    for (unsigned i = 0; i < out->n_limits; i++) {
        const struct limit *l = &out->limits[i];
        struct counter *k = &out->counter[out->n];

        if (l->unit == UNIT_CONCURRENT || !(out->present & 1U << l->subject) ||
            rule_counter(out->counter, out->n, l))
            continue;
        k->subject = l->subject;
        k->window = l->window;
        if ((e = read_counter(c, z, d, k, &out->row[out->n])) != ERROR_NONE)
            return e;
        out->n++;
    }
    return ERROR_NONE;
}

struct holds {
    const struct view_context *context;
    hold_visit *visit;
    void *arg;
};

static enum error visit_hold(void *arg, struct kv_cursor *c, const struct kv_slice *key,
                             const struct kv_slice *value)
{
    const struct holds *w = arg;
    const struct clock_now *now = w->context->now;
    struct hold_places h;
    int64_t deadline;

    (void)c;
    if (!key_instant(TABLE_RESERVATION, key, &deadline))
        return ERROR_NOT_FOUND;
    if (!record_hold_places(value, &h))
        return ERROR_STORE_INVALID;
    if (memcmp(h.boot_id, now->boot_id, sizeof now->boot_id) != 0)
        return ERROR_NONE;
    return w->visit(w->arg, hold_id(key), &h, value);
}

enum error view_holds(const struct view_context *c, hold_visit *visit, void *arg)
{
    struct holds w = {c, visit, arg};
    struct row_key from;

    key_reservation(c->now->boot_ms, 0, &from);
    return rows_each(c->txn, &from, visit_hold, &w);
}

struct live_count {
    struct live *live;
    const struct hashes *hashes;
    uint32_t wanted; /* subjects whose places some limit bounds */
    uint32_t of[SUBJECTS];
};

/* Compares hashes first: asking whether a holder lives is a system call. */
static enum error count_live(void *arg, uint64_t id, const struct hold_places *p,
                             const struct kv_slice *value)
{
    struct live_count *n = arg;
    uint32_t mine = 0;

    (void)value;

    for (unsigned s = 0; s < SUBJECTS; s++)
        if (n->wanted & 1U << s && places_have(p, s, n->hashes->live[s]))
            mine |= 1U << s;
    if (mine == 0 || !live_is_held(n->live, id))
        return ERROR_NONE;
    for (unsigned s = 0; s < SUBJECTS; s++)
        if (mine & 1U << s)
            n->of[s]++;
    return ERROR_NONE;
}

/* A copy: a key's own limits are gone with the view. */
static void name_limit(const struct view *v, struct answer *out)
{
    if (out->decision != DECISION_ADMITTED)
        memcpy(out->limit, v->limits[out->verdict.limit].name, sizeof out->limit);
}

static void answer_from_verdict(const struct view_context *c, struct answer *out)
{
    static const enum decision of[] = {
        [OUTCOME_ADMITTED] = DECISION_ADMITTED,
        [OUTCOME_REFUSED] = DECISION_REFUSED,
        [OUTCOME_TOO_LONG] = DECISION_TOO_LONG,
    };
    const struct storetime *t = &c->state->time;

    out->decision = of[out->verdict.outcome];
    if (out->decision == DECISION_REFUSED)
        out->wait_ms = storetime_wait_ms(t, c->now, out->verdict.until_ms);
    name_limit(c->view, out);
    for (unsigned i = 0; i < out->verdict.n_standings; i++)
        out->standing_wait_ms[i] =
            storetime_wait_ms(t, c->now, out->verdict.standings[i].more_ms);
}

/* What cannot be priced cannot be counted. A configuration with such a limit does not get so far,
 * but a key can have one of its own. */
static bool lacks_price(const struct view *v, const struct demand *d)
{
    for (unsigned i = 0; i < v->n_limits && d->unpriced; i++)
        if (v->limits[i].unit == UNIT_COST && (v->present & 1U << v->limits[i].subject))
            return true;
    return false;
}

enum error view_decide(const struct view_context *c, const struct policy *p,
                       const struct demand *d, struct answer *out)
{
    const struct view *v = c->view;
    struct live_count live = {
        .live = c->ledger->live, .hashes = &d->hashes, .wanted = counts_live(p, v)};
    struct rule_input in = {.limits = v->limits,
                            .n_limits = v->n_limits,
                            .counters = v->counter,
                            .n_counters = v->n,
                            .present = v->present,
                            .weights = d->weights,
                            .now_ms = v->store_ms};

    memset(out, 0, sizeof *out);
    if (v->no_key || c->state->paused) {
        out->decision = v->no_key ? DECISION_NO_KEY : DECISION_PAUSED;
        return ERROR_NONE;
    }
    if (lacks_price(v, d))
        return ERROR_PRICE;
    if (live.wanted) {
        enum error e = view_holds(c, count_live, &live);
        if (e != ERROR_NONE)
            return e;
        memcpy(in.live, live.of, sizeof in.live);
    }
    rule_decide(&in, &out->verdict);
    answer_from_verdict(c, out);
    if (out->decision == DECISION_ADMITTED && p->site_streams > 0 &&
        live.of[SUBJECT_EVERYONE] + live.of[SUBJECT_BYPASS] >= p->site_streams)
        out->decision = DECISION_BUSY;
    return breaker_decide(c, d->model, out);
}
