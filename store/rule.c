/*
 * The rule engine: one pass over the limits decides, a second one says how the caller's own
 * limits stand. Pure, and cheap, since every request comes through here, refused ones above
 * all. Fails closed: sums saturate above every max, and a limit without its counter refuses.
 */
#include "store/rule.h"

#include <string.h>

#define BURST_SECONDS 60 /* a shorter window is named burst, whoever's it is */
#define OWN_SUBJECTS                                                                           \
    ((1U << SUBJECT_ADDRESS) | (1U << SUBJECT_VISITOR) | (1U << SUBJECT_ACCOUNT) |             \
     (1U << SUBJECT_KEY))

static const enum refusal refusal_of[SUBJECTS] = {
    [SUBJECT_ADDRESS] = REFUSAL_ADDRESS,     [SUBJECT_VISITOR] = REFUSAL_VISITOR,
    [SUBJECT_ACCOUNT] = REFUSAL_ACCOUNT,     [SUBJECT_KEY] = REFUSAL_KEY,
    [SUBJECT_ANONYMOUS] = REFUSAL_ANONYMOUS, [SUBJECT_EVERYONE] = REFUSAL_SITE,
    [SUBJECT_BYPASS] = REFUSAL_BYPASS,
};

uint64_t amount_add(uint64_t a, uint64_t b)
{
    return a < AMOUNT_MAX && b < AMOUNT_MAX - a ? a + b : AMOUNT_MAX;
}

uint64_t amount_subtract(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

void amounts_settle(struct amounts *value, const struct amounts *reserved,
                    const struct amounts *real)
{
    for (unsigned u = 0; u < UNITS_SUMMED; u++) {
        uint64_t rest = amount_subtract(value->of[u], reserved->of[u]);
        value->of[u] = amount_add(rest, real->of[u]);
    }
}

uint64_t rule_paced(uint64_t max, int64_t begins_ms, int64_t ends_ms, int64_t now_ms)
{
    (void)begins_ms;
    (void)ends_ms;
    (void)now_ms;
    return max; /* TODO(rule) */
}

static bool same_counter(const struct limit *a, const struct limit *b)
{
    return a->subject == b->subject && a->unit == b->unit &&
           (a->unit == UNIT_CONCURRENT || window_equal(a->window, b->window));
}

/* Whether limit i takes part: the caller has its subject, it has a max, and no other one of the
 * same counter has a smaller one (of equal ones the first takes part). */
static bool enforces(const struct rule_input *in, unsigned i)
{
    const struct limit *l = &in->limits[i];
    if (!(in->present & (1U << l->subject)) || l->max == LIMIT_UNLIMITED)
        return false;
    for (unsigned j = 0; j < in->n_limits; j++) {
        const struct limit *other = &in->limits[j];
        if (same_counter(l, other) && (other->max < l->max || (other->max == l->max && j < i)))
            return false;
    }
    return true;
}

static const struct counter *find_counter(const struct rule_input *in, const struct limit *l)
{
    for (unsigned i = 0; i < in->n_counters; i++) {
        const struct counter *c = &in->counters[i];
        if (c->subject == l->subject && window_equal(c->window, l->window))
            return c->slots >= 1 && c->slots <= WINDOW_SLOTS_MAX ? c : NULL;
    }
    return NULL;
}

/* The most that may be used: below where sums saturate, so that a saturated one never fits. */
static uint64_t room_of(const struct limit *l)
{
    return l->max < AMOUNT_MAX ? l->max : AMOUNT_MAX - 1;
}

/*
 * Which slot must stop counting before `more` fits into `room`; c->slots if it fits now. Slots
 * leave from the oldest, so it is the newest one with which the sum is too large. What never
 * fits waits for all of them.
 */
static unsigned last_to_leave(const struct counter *c, enum unit unit, uint64_t more,
                              uint64_t room)
{
    uint64_t sum = more;
    unsigned i = 0;
    for (; i < c->slots; i++) {
        sum = amount_add(sum, c->slot[i].used.of[unit]);
        if (sum > room)
            break;
    }
    return i;
}

struct finding {
    enum outcome outcome;
    enum refusal refusal;
    int64_t until_ms;
};

static struct finding look_at(const struct rule_input *in, const struct limit *l)
{
    struct finding f = {OUTCOME_REFUSED, REFUSAL_CONCURRENT, in->now_ms + CONCURRENT_WAIT_MS};
    if (l->unit == UNIT_CONCURRENT) {
        if (in->live[l->subject] < l->max)
            f.outcome = OUTCOME_ADMITTED;
        return f;
    }
    bool burst = window_seconds(l->window) < BURST_SECONDS;
    f.refusal = burst ? REFUSAL_BURST : refusal_of[l->subject];
    uint64_t weight = in->weights.of[l->unit], room = room_of(l);
    const struct counter *c = find_counter(in, l);
    if (l->unit != UNIT_CALLS && weight > room) {
        f.outcome = OUTCOME_TOO_LONG;
    } else if (c) {
        /* A max of 0 admits not even what weighs nothing. */
        unsigned slot = l->max == 0 ? 0 : last_to_leave(c, l->unit, weight, room);
        if (slot == c->slots)
            f.outcome = OUTCOME_ADMITTED;
        else
            f.until_ms = c->slot[slot].frees_ms;
    }
    return f;
}

static void merge(struct verdict *out, unsigned i, const struct finding *f)
{
    if (f->outcome == OUTCOME_REFUSED && f->until_ms > out->until_ms)
        out->until_ms = f->until_ms;
    if (f->outcome < out->outcome || f->outcome == OUTCOME_ADMITTED)
        return;
    if (f->outcome == out->outcome && f->refusal >= out->refusal)
        return;
    out->outcome = f->outcome;
    out->refusal = f->refusal;
    out->limit = i;
}

static void add_standing(const struct rule_input *in, unsigned i, struct verdict *out)
{
    const struct limit *l = &in->limits[i];
    const struct counter *c = find_counter(in, l);
    if (!c || out->n_standings == STANDINGS_MAX)
        return;
    uint64_t charged = out->outcome == OUTCOME_ADMITTED ? in->weights.of[UNIT_CALLS] : 0;
    uint64_t total = charged, room = room_of(l);
    for (unsigned s = 0; s < c->slots; s++)
        total = amount_add(total, c->slot[s].used.of[UNIT_CALLS]);
    struct standing *standing = &out->standings[out->n_standings++];
    standing->limit = *l;
    standing->remaining = amount_subtract(room, total);
    standing->more_ms = in->now_ms;
    if (l->max == 0) {
        standing->more_ms = c->slot[0].frees_ms;
    } else if (total >
               0) { /* there is more once use is below what now counts against the max */
        uint64_t below = (total < room ? total : room) - 1;
        standing->more_ms = c->slot[last_to_leave(c, UNIT_CALLS, charged, below)].frees_ms;
    }
}

void rule_decide(const struct rule_input *in, struct verdict *out)
{
    memset(out, 0, sizeof *out);
    out->until_ms = in->now_ms;
    for (unsigned i = 0; i < in->n_limits; i++) {
        if (enforces(in, i)) {
            struct finding f = look_at(in, &in->limits[i]);
            merge(out, i, &f);
        }
    }
    for (unsigned i = 0; i < in->n_limits; i++) {
        const struct limit *l = &in->limits[i];
        bool own = ((1U << l->subject) & OWN_SUBJECTS) != 0;
        if (own && l->unit == UNIT_CALLS && enforces(in, i))
            add_standing(in, i, out);
    }
}
