/*
 * Live counters: what all processes of the site have seen since the board was made, for the
 * metrics. Adding is one or two atomic additions on the mapped page, without a lock, a system
 * call or a loop that another process could prolong, because it is done once a request.
 */
#include <string.h>

#include "store/ledger_parts.h"

_Static_assert((int)FIGURES <= (int)LIVE_SINCE, "figures and live counters stay apart");
_Static_assert(LIVE_DECISION + LIVE_BUCKETS + 1 <= LIVE_FIRST_BYTE, "a histogram has its sum");
_Static_assert(LIVE_FIRST_BYTE + LIVE_BUCKETS + 1 <= LIVE_LIMITS, "a histogram has its sum");
_Static_assert(LIVE_LIMITS + 2 * LIVE_LIMIT_SLOTS <= LIVE_END, "a slot is a pair");
_Static_assert(LIVE_END <= BOARD_COUNTERS, "the board has room for all of them");

/* Refusals take microseconds, admissions a sync: 30 ms is one of a slow disk. */
const uint32_t ledger_decision_bounds_us[LIVE_BUCKETS - 1] = {
    50,    100,   200,   500,    1000,   2000,   5000,   10000,
    20000, 30000, 50000, 100000, 200000, 500000, 1000000};

/* Models mostly answer within 0.2 to 5 s, so the steps are closer there. */
const uint32_t ledger_first_byte_bounds_ms[LIVE_BUCKETS - 1] = {
    50, 100, 200, 300, 500, 750, 1000, 1500, 2000, 3000, 5000, 10000, 20000, 60000, 120000};

void ledger_live_code(struct ledger *l, unsigned live)
{
    if (live < LIVE_DECISION - LIVE_CODES)
        board_add(l->board, LIVE_CODES + live, 1);
}

static void observe(struct ledger *l, unsigned first, const uint32_t *bounds, int64_t value)
{
    uint32_t v = value < 0 ? 0 : value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
    unsigned i = 0;

    while (i < LIVE_BUCKETS - 1 && v > bounds[i])
        i++;
    board_add(l->board, first + i, 1);
    board_add(l->board, first + LIVE_BUCKETS, v);
}

void ledger_live_decision(struct ledger *l, int64_t us)
{
    observe(l, LIVE_DECISION, ledger_decision_bounds_us, us);
}

void ledger_live_first_byte(struct ledger *l, int64_t ms)
{
    observe(l, LIVE_FIRST_BYTE, ledger_first_byte_bounds_ms, ms);
}

/* Refusals by limit */

#define OTHERS (LIVE_LIMIT_SLOTS - 1) /* the last pair; the others are found by their hash */

static unsigned hash_at(unsigned slot)
{
    return LIVE_LIMITS + 2 * slot;
}

static unsigned count_at(unsigned slot)
{
    return LIVE_LIMITS + 2 * slot + 1;
}

/* FNV-1a; names are the owner's own, so nobody aims at one another. 0 is a free slot. */
static uint32_t name_hash(const char *name)
{
    uint32_t h = 2166136261U;

    for (size_t i = 0; i < LIMIT_NAME_MAX && name[i] != '\0'; i++)
        h = (h ^ (uint8_t)name[i]) * 16777619U;
    return h != 0 ? h : 1;
}

/* The slot that is the name's, or becomes it; slots are never freed. */
static unsigned claim(struct board *b, uint32_t hash)
{
    for (unsigned i = 0; i < OTHERS; i++) {
        unsigned slot = (hash + i) % OTHERS;
        uint32_t there = board_get(b, hash_at(slot));

        if (there == hash ||
            (there == 0 && (board_exchange(b, hash_at(slot), &there, hash) || there == hash)))
            return slot;
    }
    return OTHERS;
}

void ledger_live_limit(struct ledger *l, const char *limit)
{
    unsigned slot = limit != NULL ? claim(l->board, name_hash(limit)) : OTHERS;

    board_add(l->board, count_at(slot), 1);
}

/* Reading */

void ledger_live(const struct ledger *l, struct ledger_live *out)
{
    for (unsigned i = 0; i < LIVE_END; i++)
        out->of[i] = board_get(l->board, i);
}

uint32_t ledger_live_refused(const struct ledger_live *v, const char *limit)
{
    uint32_t hash = name_hash(limit);

    for (unsigned i = 0; i < OTHERS; i++) {
        unsigned slot = (hash + i) % OTHERS;

        if (v->of[hash_at(slot)] == hash)
            return v->of[count_at(slot)];
        if (v->of[hash_at(slot)] == 0)
            break;
    }
    return 0;
}

uint32_t ledger_live_refused_others(const struct ledger_live *v)
{
    return v->of[count_at(OTHERS)];
}

void livecount_begin(struct ledger *l, const struct clock_now *now)
{
    uint32_t unknown = 0;

    if (board_is_new(l->board))
        (void)board_exchange(l->board, LIVE_SINCE, &unknown, (uint32_t)(now->wall_ms / 1000));
}
