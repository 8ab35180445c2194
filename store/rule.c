/*
 * The rule engine: one pass over the limits decides, a second one says how the caller's own
 * limits stand. Pure, and cheap, since every request comes through here, refused ones above
 * all. Fails closed: sums saturate above every max, and a limit without its counter refuses.
 */
#include "store/rule.h"

#include <string.h>

#define BURST_SECONDS 60 /* a shorter window is named burst, whoever's it is */
/* A month and a day of changed clocks are less; its square fits 64 bits. */
#define PACE_LENGTH_MAX_MS ((uint64_t)UINT32_MAX)
#define OWN_SUBJECTS                                                                           \
    ((1U << SUBJECT_ADDRESS) | (1U << SUBJECT_VISITOR) | (1U << SUBJECT_ACCOUNT) |             \
     (1U << SUBJECT_KEY))

static const enum refusal refusal_of[SUBJECTS] = {
    [SUBJECT_ADDRESS] = REFUSAL_ADDRESS,     [SUBJECT_VISITOR] = REFUSAL_VISITOR,
    [SUBJECT_ACCOUNT] = REFUSAL_ACCOUNT,     [SUBJECT_KEY] = REFUSAL_KEY,
    [SUBJECT_ANONYMOUS] = REFUSAL_ANONYMOUS, [SUBJECT_EVERYONE] = REFUSAL_SITE,
    [SUBJECT_BYPASS] = REFUSAL_BYPASS,
};

bool subject_is_shared(enum subject s)
{
    return s == SUBJECT_EVERYONE || s == SUBJECT_ANONYMOUS || s == SUBJECT_BYPASS;
}

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
    if (now_ms >= ends_ms)
        return max;
    if (now_ms < begins_ms)
        return 0;
    /* Unsigned differences are exact however far apart the instants are. */
    uint64_t length = (uint64_t)ends_ms - (uint64_t)begins_ms;
    uint64_t part = (uint64_t)now_ms - (uint64_t)begins_ms + length / PACE_AHEAD;
    if (length > PACE_LENGTH_MAX_MS)
        return 0;
    if (part >= length)
        return max;
    /* max * part / length, in two products that fit: quotient times part is below max,
     * remainder times part below length squared. */
    return max / length * part + max % length * part / length;
}

static bool same_counter(const struct limit *a, const struct limit *b)
{
    return a->subject == b->subject && a->unit == b->unit &&
           (a->unit == UNIT_CONCURRENT || window_equal(a->window, b->window));
}

unsigned rule_limits(const struct limit *site, unsigned n, const struct limit *own,
                     unsigned n_own, struct limit *out)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < n; i++) {
        bool replaced = false;
        for (unsigned k = 0; k < n_own && !replaced; k++)
            replaced = same_counter(&site[i], &own[k]);
        if (!replaced)
            out[kept++] = site[i];
    }
    for (unsigned k = 0; k < n_own; k++)
        out[kept++] = own[k];
    return kept;
}

unsigned rule_windows(const struct limit *limits, unsigned n_limits, struct window *list,
                      unsigned n, unsigned most)
{
    for (unsigned i = 0; i < n_limits && n < most; i++) {
        bool listed = limits[i].unit == UNIT_CONCURRENT;

        for (unsigned k = 0; k < n && !listed; k++)
            listed = window_equal(list[k], limits[i].window);
        if (!listed)
            list[n++] = limits[i].window;
    }
    return n;
}

const struct counter *rule_counter(const struct counter *counters, unsigned n,
                                   const struct limit *l)
{
    for (unsigned i = 0; i < n; i++)
        if (counters[i].subject == l->subject && window_equal(counters[i].window, l->window))
            return &counters[i];
    return NULL;
}

static bool is_paced(const struct limit *l)
{
    return l->pace && l->unit != UNIT_CONCURRENT && l->window.kind != WINDOW_SLIDING;
}

static bool applies(const struct rule_input *in, const struct limit *l)
{
    return (in->present & (1U << l->subject)) && l->max != LIMIT_UNLIMITED;
}

/* Whether `other` makes looking at `l` needless: enforced, of the same counter, and never the
 * looser one, whatever the instant. */
static bool shadows(const struct limit *other, const struct limit *l)
{
    return !other->dry_run && is_paced(other) == is_paced(l) && same_counter(l, other) &&
           other->max <= l->max;
}

/* Whether limit i takes part: the caller has its subject, it has a max, is no dry run, and no
 * other one shadows it (of equal ones the first takes part). */
static bool enforces(const struct rule_input *in, unsigned i)
{
    const struct limit *l = &in->limits[i];
    if (!applies(in, l) || l->dry_run)
        return false;
    for (unsigned j = 0; j < in->n_limits; j++) {
        const struct limit *other = &in->limits[j];
        if (j != i && shadows(other, l) && (other->max < l->max || j < i))
            return false;
    }
    return true;
}

static const struct counter *find_counter(const struct rule_input *in, const struct limit *l)
{
    const struct counter *c = rule_counter(in->counters, in->n_counters, l);

    return c && c->slots >= 1 && c->slots <= WINDOW_SLOTS_MAX ? c : NULL;
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

uint64_t rule_released(const struct limit *l, int64_t begins_ms, int64_t ends_ms,
                       int64_t now_ms)
{
    return is_paced(l) ? rule_paced(room_of(l), begins_ms, ends_ms, now_ms) : room_of(l);
}

static uint64_t released(const struct limit *l, const struct counter *c, int64_t at_ms)
{
    return rule_released(l, c->begins_ms, c->slot[0].frees_ms, at_ms);
}

/* The first instant from now on at which a paced limit has released so much, or the end of its
 * window. */
static int64_t when_released(const struct rule_input *in, const struct limit *l,
                             const struct counter *c, uint64_t amount)
{
    int64_t early = in->now_ms, end = c->slot[0].frees_ms;
    if (amount > room_of(l))
        return end;
    while (early < end) {
        int64_t middle = early + (end - early) / 2;
        if (released(l, c, middle) >= amount)
            end = middle;
        else
            early = middle + 1;
    }
    return end;
}

struct finding {
    enum outcome outcome;
    enum refusal refusal;
    int64_t until_ms;
};

/* Whether a request of this weight fits into the counter, and when. */
static void look_at_counter(const struct rule_input *in, const struct limit *l,
                            const struct counter *c, struct finding *f)
{
    uint64_t weight = in->weights.of[l->unit];
    /* A max of 0 admits not even what weighs nothing. */
    unsigned slot = l->max == 0 ? 0 : last_to_leave(c, l->unit, weight, room_of(l));
    if (slot < c->slots) {
        f->until_ms = c->slot[slot].frees_ms;
        return;
    }
    uint64_t sum = is_paced(l) ? amount_add(weight, c->slot[0].used.of[l->unit]) : 0;
    if (sum <= released(l, c, in->now_ms))
        f->outcome = OUTCOME_ADMITTED;
    else
        f->until_ms = when_released(in, l, c, sum);
}

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
    const struct counter *c = find_counter(in, l);
    if (l->unit != UNIT_CALLS && in->weights.of[l->unit] > room_of(l))
        f.outcome = OUTCOME_TOO_LONG;
    else if (c)
        look_at_counter(in, l, c, &f);
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

/* When more calls are left than now, `charged` of which this request has just taken. */
static int64_t more_ms(const struct rule_input *in, const struct limit *l,
                       const struct counter *c, uint64_t charged, uint64_t total)
{
    uint64_t room = room_of(l), now = released(l, c, in->now_ms);
    if (l->max == 0)
        return c->slot[0].frees_ms;
    if (now < room) /* the next one is released, or what is used goes with the window */
        return when_released(in, l, c, (total > now ? total : now) + 1);
    if (total == 0)
        return in->now_ms;
    /* there is more once use is below what now counts against the max */
    uint64_t below = (total < room ? total : room) - 1;
    return c->slot[last_to_leave(c, UNIT_CALLS, charged, below)].frees_ms;
}

static void add_standing(const struct rule_input *in, unsigned i, struct verdict *out)
{
    const struct limit *l = &in->limits[i];
    const struct counter *c = find_counter(in, l);
    if (!c || out->n_standings == STANDINGS_MAX)
        return;
    uint64_t charged = out->outcome == OUTCOME_ADMITTED ? in->weights.of[UNIT_CALLS] : 0;
    uint64_t total = charged;
    for (unsigned s = 0; s < c->slots; s++)
        total = amount_add(total, c->slot[s].used.of[UNIT_CALLS]);
    struct standing *standing = &out->standings[out->n_standings++];
    standing->limit = *l;
    standing->remaining = amount_subtract(released(l, c, in->now_ms), total);
    standing->more_ms = more_ms(in, l, c, charged, total);
}

void rule_decide(const struct rule_input *in, struct verdict *out)
{
    memset(out, 0, sizeof *out);
    out->until_ms = in->now_ms;
    for (unsigned i = 0; i < in->n_limits; i++) {
        const struct limit *l = &in->limits[i];
        bool dry = l->dry_run && applies(in, l);
        if (!dry && !enforces(in, i))
            continue;
        struct finding f = look_at(in, l);
        if (!dry)
            merge(out, i, &f);
        else if (f.outcome != OUTCOME_ADMITTED)
            out->dry |= UINT64_C(1) << i;
    }
    for (unsigned i = 0; i < in->n_limits; i++) {
        const struct limit *l = &in->limits[i];
        bool own = ((1U << l->subject) & OWN_SUBJECTS) != 0;
        if (own && l->unit == UNIT_CALLS && enforces(in, i))
            add_standing(in, i, out);
    }
}
