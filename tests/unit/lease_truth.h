/*
 * What processes that may die at any moment were admitted, beside their store: events in shared
 * memory, by which it is known what everyone and anonymous have really used in each window. To be
 * included after cmocka.h.
 */
#ifndef TESTS_UNIT_LEASE_TRUTH_H
#define TESTS_UNIT_LEASE_TRUTH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "store/rule.h"
#include "store/window.h"

#define EVENTS_MAX (1U << 16)
#define NEVER      INT64_MAX

enum event_state {
    EVENT_NONE,
    EVENT_ASKED,   /* nobody has heard the answer: it may have been charged */
    EVENT_ADMITTED /* its call has been made */
};

/* A call. Store time when it was charged is known only from and until. */
struct event {
    atomic_int state;
    bool anonymous;
    bool settling; /* what it has really used is known; the store may not know it yet */
    int64_t from_ms, until_ms;
    int64_t slides_ms; /* when for sliding windows; NEVER: not known */
    uint64_t segment;
    struct amounts reserved, real; /* real may be more, once the store has it */
};

struct truth {
    atomic_uint n;
    struct event event[EVENTS_MAX];
};

static inline struct event *truth_next(struct truth *t)
{
    unsigned i = atomic_fetch_add(&t->n, 1);

    return i < EVENTS_MAX ? &t->event[i] : NULL;
}

/* A window of a subject, as it stands at an instant: [from, until) of a calendar one, the length
 * up to the instant of a sliding one. */
struct span {
    int64_t from_ms, until_ms;
    bool anonymous, slides;
};

static inline bool span_has(const struct span *s, int64_t t_ms)
{
    return s->from_ms <= t_ms && t_ms < s->until_ms;
}

static inline bool span_is_of(const struct span *s, const struct event *e)
{
    return !s->anonymous || e->anonymous;
}

/* Whether the call was made, and in it for certain. */
static inline bool span_used(const struct span *s, struct event *e)
{
    if (atomic_load(&e->state) != EVENT_ADMITTED || !span_is_of(s, e))
        return false;
    return s->slides ? span_has(s, e->slides_ms)
                     : span_has(s, e->from_ms) && span_has(s, e->until_ms);
}

/* Whether it can have been charged there. */
static inline bool span_touched(const struct span *s, struct event *e)
{
    return atomic_load(&e->state) != EVENT_NONE && span_is_of(s, e) &&
           e->from_ms < s->until_ms && e->until_ms >= s->from_ms;
}

/* What has been used of the unit. `admitted`: only what the limits could know when it was. */
static inline uint64_t truth_used(struct truth *t, const struct span *s, unsigned unit,
                                  bool admitted)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < atomic_load(&t->n); i++) {
        struct event *e = &t->event[i];
        uint64_t real = e->real.of[unit], most = e->reserved.of[unit];

        if (span_used(s, e))
            sum += admitted && real > most ? most : real;
    }
    return sum;
}

static inline int by_serial(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* How many segments were begun for what was charged there, at most. */
static inline unsigned truth_segments(struct truth *t, const struct span *s)
{
    static uint64_t serial[EVENTS_MAX];
    unsigned n = 0, distinct = 0;

    for (unsigned i = 0; i < atomic_load(&t->n); i++)
        if (span_touched(s, &t->event[i])) {
            if (atomic_load(&t->event[i].state) == EVENT_ADMITTED)
                serial[n++] = t->event[i].segment;
            else
                distinct++;
        }
    qsort(serial, n, sizeof *serial, by_serial);
    for (unsigned i = 0; i < n; i++)
        distinct += i == 0 || serial[i] != serial[i - 1];
    return distinct;
}

/*
 * What the store may count there beyond what was used: of calls nobody has heard of all, of others
 * what they gave back, since its settle may have been lost. What was granted ahead comes on top.
 */
static inline uint64_t truth_unsure(struct truth *t, const struct span *s, unsigned unit)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < atomic_load(&t->n); i++) {
        struct event *e = &t->event[i];

        if (!span_touched(s, e))
            continue;
        if (!span_used(s, e))
            sum += e->reserved.of[unit] > e->real.of[unit] ? e->reserved.of[unit]
                                                           : e->real.of[unit];
        else
            sum += amount_subtract(e->reserved.of[unit], e->real.of[unit]);
    }
    return sum;
}

/*
 * Store time is now this, perhaps again: what was charged later counts in a sliding window no
 * longer than if it were charged now. What nobody has heard of can have been charged until now.
 */
static inline void truth_is_now(struct truth *t, int64_t now_ms)
{
    for (unsigned i = 0; i < atomic_load(&t->n); i++) {
        struct event *e = &t->event[i];

        if (e->until_ms == NEVER)
            e->until_ms = e->from_ms > now_ms ? e->from_ms : now_ms;
        if (e->slides_ms > now_ms && e->slides_ms != NEVER)
            e->slides_ms = now_ms;
    }
}

/* Events of before are forgotten. */
static inline void truth_forget(struct truth *t, int64_t before_ms)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < atomic_load(&t->n); i++)
        if (t->event[i].until_ms >= before_ms)
            t->event[kept++] = t->event[i];
    memset(&t->event[kept], 0, (atomic_load(&t->n) - kept) * sizeof *t->event);
    atomic_store(&t->n, kept);
}

/* The most that was used within any such length of store time that ends with one of the events
 * from there on. */
static inline uint64_t truth_most(struct truth *t, unsigned first, int64_t length_ms,
                                  bool anonymous, unsigned unit)
{
    uint64_t most = 0;

    for (unsigned i = first; i < atomic_load(&t->n); i++) {
        int64_t at = t->event[i].slides_ms;

        if (at == NEVER)
            continue;
        const struct span s = {at - length_ms + 1, at + 1, anonymous, true};
        uint64_t sum = truth_used(t, &s, unit, true);

        most = sum > most ? sum : most;
    }
    return most;
}

#endif
