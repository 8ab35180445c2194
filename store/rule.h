/*
 * The rule engine (pure): given the use of every counter, the limits and what a request weighs
 * at worst, it says admitted, or refused by which limit and until when. No I/O, no clock.
 *
 * A counter is a subject in a window; it holds calls, tokens and cost together, so one row
 * serves the limits of all three units. Two limits of the same triple are one counter, charged
 * once; the smallest max decides.
 */
#ifndef STORE_RULE_H
#define STORE_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "store/window.h"

/* In the order in which a refusal is named, after concurrent and burst. */
enum subject {
    SUBJECT_ADDRESS,
    SUBJECT_VISITOR,
    SUBJECT_ACCOUNT,
    SUBJECT_KEY,
    SUBJECT_ANONYMOUS, /* shared by callers with neither account nor key */
    SUBJECT_EVERYONE,  /* the site */
    SUBJECT_BYPASS,    /* the owner's own tests: nobody else's limits apply to them */
    SUBJECTS
};

/* Whether all callers share the subject's counters; of the others each caller has its own. */
bool subject_is_shared(enum subject s);

enum unit { UNIT_CALLS, UNIT_TOKENS, UNIT_COST, UNIT_CONCURRENT };
#define UNITS_SUMMED 3 /* calls, tokens, cost; concurrent is a number of live reservations */

struct amounts {
    uint64_t of[UNITS_SUMMED]; /* indexed by unit; cost in nano-dollars; each < 2^62 */
};

#define AMOUNT_MAX      ((uint64_t)1 << 62) /* sums saturate here: never wrap, never admit */
#define LIMIT_UNLIMITED UINT64_MAX
#define LIMIT_NAME_MAX  32
#define LIMITS_MAX      32 /* a decision looks at all of them; more is a mistake in the file */
#define RULE_LIMITS_MAX 64 /* bits of verdict.dry */

struct limit {
    char name[LIMIT_NAME_MAX]; /* of letters, digits, '-', '_'; NUL-terminated */
    enum subject subject;
    enum unit unit;
    struct window window; /* unused for concurrent */
    uint64_t max;         /* 0 admits nothing; LIMIT_UNLIMITED counts and never refuses */
    bool dry_run;         /* says what it would have refused, and refuses nothing */
    bool pace; /* calendar windows: the max is released evenly over it, see rule_paced */
};

struct counter {
    enum subject subject;
    struct window window;
    unsigned slots;    /* 1 or WINDOW_SLOTS_MAX, newest first */
    int64_t begins_ms; /* a calendar window's begin; it ends at slot[0].frees_ms */
    struct {
        int64_t frees_ms; /* window_frees_ms */
        struct amounts used;
    } slot[WINDOW_SLOTS_MAX];
};

struct rule_input {
    const struct limit *limits;
    unsigned n_limits;
    const struct counter *counters; /* one for each (subject, window) of a limit that applies */
    unsigned n_counters;
    uint32_t present; /* bit 1 << subject: the caller has it; other limits do not apply */
    uint32_t live[SUBJECTS]; /* live reservations of each subject */
    struct amounts weights;  /* of this request at worst; calls is 1 */
    int64_t now_ms;          /* store time */
};

enum outcome { OUTCOME_ADMITTED, OUTCOME_REFUSED, OUTCOME_TOO_LONG };

/* Why a request is refused, in the order in which one is named when several hold. */
enum refusal {
    REFUSAL_CONCURRENT,
    REFUSAL_BURST, /* any window under 60 s */
    REFUSAL_ADDRESS,
    REFUSAL_VISITOR,
    REFUSAL_ACCOUNT,
    REFUSAL_KEY,
    REFUSAL_ANONYMOUS,
    REFUSAL_SITE,
    REFUSAL_BYPASS,
    REFUSALS
};

/*
 * How one of the caller's own `calls` limits stands after this verdict: the call counts if it
 * was admitted. Own are address, visitor, account and key; limits without a max and dry runs
 * are left out, and of those of one counter all but the smallest (of paced ones, and of
 * others).
 */
struct standing {
    struct limit limit; /* a copy: a key's own limits are in the store alone */
    uint64_t remaining; /* calls left */
    int64_t more_ms;    /* store time at which there is more; now_ms if nothing is used and all
                         * is released; if the max is 0 the end of the counted slots */
};
/* Shown in headers; further own calls limits are enforced, not shown. */
#define STANDINGS_MAX 8

struct verdict {
    enum outcome outcome;
    enum refusal refusal; /* if refused */
    unsigned limit;       /* if not admitted: index of the limit that named it */
    int64_t until_ms;     /* if refused: store time at which all limits would have room */
    uint64_t dry;         /* bit i: dry-run limit i would not have admitted it */
    unsigned n_standings;
    struct standing standings[STANDINGS_MAX];
};

#define CONCURRENT_WAIT_MS 2000 /* nobody can know when a stream ends */

/*
 * Decides. A limit whose max is below the request's own weight (tokens or cost) can never admit
 * it: OUTCOME_TOO_LONG, which takes precedence over a refusal. A calls limit with max 0
 * refuses. until_ms is the longest wait over all refusing limits: for each the first instant at
 * which, nothing more being charged or given back, the request fits (for max 0 the end of the
 * counted slots); for concurrent now_ms + CONCURRENT_WAIT_MS. A limit of tokens or cost with
 * max 0 refuses even what weighs nothing. A limit whose counter is not given refuses.
 * Of several limits that name the same refusal the first is told.
 *
 * A paced limit refuses what does not fit into what is released, until it is: at the latest the
 * end of the window, although of the next one's max a first part alone is released then.
 *
 * Dry runs decide nothing, and say in `dry` what they would have done, whatever the outcome.
 * At most RULE_LIMITS_MAX limits.
 */
void rule_decide(const struct rule_input *in, struct verdict *out);

/*
 * The limits that hold for a caller with a key: the site's, but a key's own limit takes the
 * place of every one per key of the same unit and window, dry runs among them. out has room for
 * n + n_own, the site's first and in their order; returns how many.
 */
unsigned rule_limits(const struct limit *site, unsigned n, const struct limit *own,
                     unsigned n_own, struct limit *out);

/*
 * Adds the windows of the limits that sum to the n different ones of list, as far as they are
 * not in it, and at most until it has `most`. Returns how many it has then.
 */
unsigned rule_windows(const struct limit *limits, unsigned n_limits, struct window *list,
                      unsigned n, unsigned most);

/* The counter of the limit, or NULL. */
const struct counter *rule_counter(const struct counter *counters, unsigned n,
                                   const struct limit *l);

/*
 * What of a paced max is released at the instant: what even use would have come to
 * 1/PACE_AHEAD of the window later, so that a day's crowd of the morning finds some, and all of
 * it towards the end. Rounded down; never decreases with time; 0 before begins_ms, max from
 * ends_ms on. max < 2^62; of a window longer than 2^32 ms, which no calendar has, nothing is
 * released before its end.
 */
#define PACE_AHEAD 12
uint64_t rule_paced(uint64_t max, int64_t begins_ms, int64_t ends_ms, int64_t now_ms);
/* What of the limit's max may be used at the instant: all of it, but for a paced one. */
uint64_t rule_released(const struct limit *l, int64_t begins_ms, int64_t ends_ms,
                       int64_t now_ms);

/* a + b, saturating at AMOUNT_MAX; a - b, never below zero. */
uint64_t amount_add(uint64_t a, uint64_t b);
uint64_t amount_subtract(uint64_t a, uint64_t b);

/*
 * What one slot's value becomes when a reservation of `reserved` is settled as `real`: each
 * amount less what was reserved, plus what it really was; never below zero, never wrapping.
 */
void amounts_settle(struct amounts *value, const struct amounts *reserved,
                    const struct amounts *real);

#endif
