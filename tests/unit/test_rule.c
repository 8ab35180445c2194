/* The rule engine: admitted, refused by which limit and until when, and how limits stand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "store/rule.h"

#define N(a) (sizeof(a) / sizeof((a)[0]))

#define NOW       1000000LL
#define HOUR_ENDS (NOW + 1800000)
#define DAY_ENDS  (NOW + 7200000)
#define HOUR      3600000LL
#define ALL       ((1U << SUBJECTS) - 1)

static const struct window hour = {WINDOW_HOUR, 0}, day = {WINDOW_DAY, 0};
static const struct window ten_seconds = {WINDOW_SLIDING, 10}, minute = {WINDOW_SLIDING, 60};

static struct limit a_limit(enum subject subject, enum unit unit, struct window w, uint64_t max)
{
    return (struct limit){.subject = subject, .unit = unit, .window = w, .max = max};
}

/* A counter of which nothing is used. Slot i of a sliding one leaves at NOW + (9 - i) parts. */
static struct counter empty(enum subject subject, struct window w)
{
    struct counter c = {.subject = subject, .window = w, .slots = 1, .begins_ms = NOW};
    c.slot[0].frees_ms = w.kind == WINDOW_HOUR ? HOUR_ENDS : DAY_ENDS;
    if (w.kind == WINDOW_SLIDING) {
        c.slots = WINDOW_SLOTS_MAX;
        for (unsigned i = 0; i < c.slots; i++)
            c.slot[i].frees_ms = NOW + (int64_t)(WINDOW_SLOTS_MAX - i) * w.seconds * 125;
    }
    return c;
}

static struct counter used(enum subject subject, struct window w, enum unit unit, uint64_t n)
{
    struct counter c = empty(subject, w);
    c.slot[0].used.of[unit] = n;
    return c;
}

static struct rule_input input(const struct limit *l, unsigned n, const struct counter *c,
                               unsigned m)
{
    struct rule_input in = {.limits = l,
                            .n_limits = n,
                            .counters = c,
                            .n_counters = m,
                            .present = ALL,
                            .weights = {{1, 50, 700}},
                            .now_ms = NOW};
    return in;
}

/* One limit of an address against its counter. */
static const struct {
    const char *why;
    enum unit unit;
    uint64_t max, used;
    enum outcome outcome;
} bounds[] = {
    {"F9 the first call of all", UNIT_CALLS, 1, 0, OUTCOME_ADMITTED},
    {"the last call", UNIT_CALLS, 40, 39, OUTCOME_ADMITTED},
    {"one call over", UNIT_CALLS, 40, 40, OUTCOME_REFUSED},
    {"far over, since the max was lowered", UNIT_CALLS, 40, 1000, OUTCOME_REFUSED},
    {"F7 0 calls admits nothing", UNIT_CALLS, 0, 0, OUTCOME_REFUSED},
    {"F2 the last request that fits", UNIT_TOKENS, 1000, 950, OUTCOME_ADMITTED},
    {"F2 a token over", UNIT_TOKENS, 1000, 951, OUTCOME_REFUSED},
    {"the whole max at once", UNIT_TOKENS, 50, 0, OUTCOME_ADMITTED},
    {"more than the max", UNIT_TOKENS, 49, 0, OUTCOME_TOO_LONG},
    {"F7 0 tokens", UNIT_TOKENS, 0, 0, OUTCOME_TOO_LONG},
    {"cost to the last nano-dollar", UNIT_COST, 1400, 700, OUTCOME_ADMITTED},
    {"a nano-dollar over", UNIT_COST, 1400, 701, OUTCOME_REFUSED},
    {"cost that never fits", UNIT_COST, 699, 0, OUTCOME_TOO_LONG},
    {"unlimited counts and never refuses", UNIT_COST, LIMIT_UNLIMITED, AMOUNT_MAX,
     OUTCOME_ADMITTED},
    {"a saturated sum never fits", UNIT_CALLS, LIMIT_UNLIMITED - 1, AMOUNT_MAX,
     OUTCOME_REFUSED},
    {"a sum that would saturate", UNIT_CALLS, LIMIT_UNLIMITED - 1, AMOUNT_MAX - 1,
     OUTCOME_REFUSED},
    {"the largest sum", UNIT_CALLS, LIMIT_UNLIMITED - 1, AMOUNT_MAX - 2, OUTCOME_ADMITTED},
    {"a used amount that is not ours", UNIT_CALLS, 40, UINT64_MAX, OUTCOME_REFUSED},
};

static void test_both_sides_of_a_max(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(bounds); i++) {
        struct limit l = a_limit(SUBJECT_ADDRESS, bounds[i].unit, hour, bounds[i].max);
        struct counter c = used(SUBJECT_ADDRESS, hour, bounds[i].unit, bounds[i].used);
        struct rule_input in = input(&l, 1, &c, 1);
        struct verdict v;
        print_message("    %s\n", bounds[i].why);
        rule_decide(&in, &v);
        assert_int_equal(v.outcome, bounds[i].outcome);
        if (v.outcome == OUTCOME_REFUSED) {
            assert_int_equal(v.refusal, REFUSAL_ADDRESS);
            assert_int_equal(v.until_ms, HOUR_ENDS);
        }
    }
}

static void test_F7_nothing_that_weighs_nothing_passes_a_max_of_0(void **state)
{
    (void)state;
    struct limit l = a_limit(SUBJECT_EVERYONE, UNIT_COST, day, 0);
    struct counter c = empty(SUBJECT_EVERYONE, day);
    struct rule_input in = input(&l, 1, &c, 1);
    struct verdict v;
    in.weights.of[UNIT_COST] = 0; /* a free model */
    rule_decide(&in, &v);
    assert_int_equal(v.outcome, OUTCOME_REFUSED);
    assert_int_equal(v.until_ms, DAY_ENDS);
}

static void test_F2_exactly_20_of_200(void **state)
{
    (void)state;
    struct limit l = a_limit(SUBJECT_ADDRESS, UNIT_TOKENS, hour, 1000);
    struct counter c = empty(SUBJECT_ADDRESS, hour);
    struct rule_input in = input(&l, 1, &c, 1);
    struct verdict v;
    unsigned admitted = 0;
    for (unsigned i = 0; i < 200; i++) {
        rule_decide(&in, &v);
        if (v.outcome == OUTCOME_ADMITTED) {
            c.slot[0].used.of[UNIT_TOKENS] += 50;
            admitted++;
        }
    }
    assert_int_equal(admitted, 20);
    assert_int_equal(c.slot[0].used.of[UNIT_TOKENS], 1000); /* F11: refusals took nothing */
}

/* Calls in a sliding window of 10 s with max 5, by slot, newest first. */
static const struct {
    const char *why;
    uint64_t calls[WINDOW_SLOTS_MAX];
    unsigned frees; /* the slot with whose end there is room; WINDOW_SLOTS_MAX: now */
} slidings[] = {
    {"nothing used", {0}, 9},
    {"four used", {1, 0, 1, 0, 1, 0, 0, 0, 1}, 9},
    {"five used: the oldest used slot", {1, 0, 1, 0, 1, 0, 0, 2, 0}, 7},
    {"all in the oldest slot", {0, 0, 0, 0, 0, 0, 0, 0, 5}, 8},
    {"all in the newest slot", {5}, 0},
    {"more than the max in one slot", {9, 0, 0, 0, 0, 0, 0, 0, 9}, 0},
    {"twice the max: half of it must go", {2, 2, 1, 1, 1, 1, 1, 1, 0}, 2},
    {"exactly so much that the second oldest has to go", {0, 4, 0, 0, 0, 0, 1, 0, 1}, 6},
    {"a saturated slot", {0, 0, AMOUNT_MAX, 0, 0, 0, 0, 0, AMOUNT_MAX}, 2},
};

static void test_a_sliding_limit_frees_from_the_oldest(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(slidings); i++) {
        struct limit l = a_limit(SUBJECT_ADDRESS, UNIT_CALLS, ten_seconds, 5);
        struct counter c = empty(SUBJECT_ADDRESS, ten_seconds);
        struct rule_input in = input(&l, 1, &c, 1);
        struct verdict v;
        print_message("    %s\n", slidings[i].why);
        for (unsigned s = 0; s < WINDOW_SLOTS_MAX; s++)
            c.slot[s].used.of[UNIT_CALLS] = slidings[i].calls[s];
        rule_decide(&in, &v);
        if (slidings[i].frees == WINDOW_SLOTS_MAX) {
            assert_int_equal(v.outcome, OUTCOME_ADMITTED);
        } else {
            assert_int_equal(v.outcome, OUTCOME_REFUSED);
            assert_int_equal(v.refusal, REFUSAL_BURST);
            assert_int_equal(v.until_ms, c.slot[slidings[i].frees].frees_ms);
        }
    }
}

static void test_a_max_of_0_waits_for_all_slots(void **state)
{
    (void)state;
    struct limit l = a_limit(SUBJECT_ADDRESS, UNIT_CALLS, ten_seconds, 0);
    struct counter c = empty(SUBJECT_ADDRESS, ten_seconds);
    struct rule_input in = input(&l, 1, &c, 1);
    struct verdict v;
    rule_decide(&in, &v);
    assert_int_equal(v.outcome, OUTCOME_REFUSED);
    assert_int_equal(v.until_ms, c.slot[0].frees_ms);
    assert_int_equal(v.n_standings, 1);
    assert_int_equal(v.standings[0].remaining, 0);
    assert_int_equal(v.standings[0].more_ms, c.slot[0].frees_ms);
}

/* Every kind of limit, full, so that leaving them out one by one shows the order. */
static const struct {
    enum refusal refusal;
    enum subject subject;
    enum unit unit;
    const struct window *window;
} naming[] = {
    {REFUSAL_SITE, SUBJECT_EVERYONE, UNIT_CALLS, &day},
    {REFUSAL_ANONYMOUS, SUBJECT_ANONYMOUS, UNIT_TOKENS, &day},
    {REFUSAL_KEY, SUBJECT_KEY, UNIT_COST, &day},
    {REFUSAL_ACCOUNT, SUBJECT_ACCOUNT, UNIT_CALLS, &minute},
    {REFUSAL_VISITOR, SUBJECT_VISITOR, UNIT_CALLS, &hour},
    {REFUSAL_ADDRESS, SUBJECT_ADDRESS, UNIT_CALLS, &hour},
    {REFUSAL_BURST, SUBJECT_EVERYONE, UNIT_CALLS, &ten_seconds},
    {REFUSAL_CONCURRENT, SUBJECT_EVERYONE, UNIT_CONCURRENT, &day},
};

static void test_a_refusal_is_named_by_the_first_kind(void **state)
{
    (void)state;
    struct limit l[N(naming)];
    struct counter c[N(naming)];
    struct verdict v;
    for (unsigned i = 0; i < N(naming); i++) {
        enum unit unit = naming[i].unit == UNIT_CONCURRENT ? UNIT_CALLS : naming[i].unit;
        l[i] = a_limit(naming[i].subject, naming[i].unit, *naming[i].window, 1000);
        c[i] = used(naming[i].subject, *naming[i].window, unit, 1000);
    }
    for (unsigned n = 1; n <= N(naming); n++) {
        struct rule_input in = input(l, n, c, n);
        in.live[SUBJECT_EVERYONE] = 1000;
        rule_decide(&in, &v);
        assert_int_equal(v.outcome, OUTCOME_REFUSED);
        assert_int_equal(v.refusal, naming[n - 1].refusal);
        assert_int_equal(v.limit, n - 1);
        assert_int_equal(v.until_ms, DAY_ENDS); /* the longest wait, whoever is named */
    }
}

static void test_of_one_kind_the_first_limit_is_named(void **state)
{
    (void)state;
    struct limit l[] = {a_limit(SUBJECT_ADDRESS, UNIT_CALLS, hour, 5),
                        a_limit(SUBJECT_ADDRESS, UNIT_CALLS, day, 5)};
    struct counter c[] = {used(SUBJECT_ADDRESS, hour, UNIT_CALLS, 5),
                          used(SUBJECT_ADDRESS, day, UNIT_CALLS, 5)};
    struct rule_input in = input(l, 2, c, 2);
    struct verdict v;
    rule_decide(&in, &v);
    assert_int_equal(v.limit, 0);
    assert_int_equal(v.until_ms, DAY_ENDS);
}

static void test_too_long_takes_precedence(void **state)
{
    (void)state;
    struct limit l[] = {a_limit(SUBJECT_ADDRESS, UNIT_CONCURRENT, hour, 0),
                        a_limit(SUBJECT_EVERYONE, UNIT_TOKENS, day, 49),
                        a_limit(SUBJECT_ADDRESS, UNIT_CALLS, hour, 5)};
    struct counter c[] = {used(SUBJECT_ADDRESS, hour, UNIT_CALLS, 5),
                          empty(SUBJECT_EVERYONE, day)};
    struct rule_input in = input(l, 3, c, 2);
    struct verdict v;
    rule_decide(&in, &v);
    assert_int_equal(v.outcome, OUTCOME_TOO_LONG);
    assert_int_equal(v.limit, 1);
}

static void test_a_limit_of_a_subject_that_the_caller_lacks(void **state)
{
    (void)state;
    struct limit l[] = {a_limit(SUBJECT_KEY, UNIT_CALLS, hour, 0),
                        a_limit(SUBJECT_ACCOUNT, UNIT_TOKENS, hour, 0),
                        a_limit(SUBJECT_VISITOR, UNIT_CONCURRENT, hour, 0)};
    struct rule_input in = input(l, 3, NULL, 0);
    struct verdict v;
    in.present = 1U << SUBJECT_ADDRESS | 1U << SUBJECT_EVERYONE;
    rule_decide(&in, &v);
    assert_int_equal(v.outcome, OUTCOME_ADMITTED);
    assert_int_equal(v.n_standings, 0);
}

static void test_a_limit_without_its_counter_refuses(void **state)
{
    (void)state;
    struct limit l = a_limit(SUBJECT_ADDRESS, UNIT_CALLS, hour, 5);
    struct counter c[] = {empty(SUBJECT_ADDRESS, day), empty(SUBJECT_VISITOR, hour),
                          empty(SUBJECT_ADDRESS, hour)};
    struct verdict v;
    struct rule_input in = input(&l, 1, c, 2); /* those of others are there */
    rule_decide(&in, &v);
    assert_int_equal(v.outcome, OUTCOME_REFUSED);
    assert_true(v.until_ms > NOW);
    for (unsigned slots = 0; slots <= WINDOW_SLOTS_MAX + 1; slots += WINDOW_SLOTS_MAX + 1) {
        c[2].slots = slots;
        in = input(&l, 1, c, 3);
        rule_decide(&in, &v);
        assert_int_equal(v.outcome, OUTCOME_REFUSED);
    }
}

static void test_concurrent_is_the_number_of_live_reservations(void **state)
{
    (void)state;
    struct limit l = a_limit(SUBJECT_ADDRESS, UNIT_CONCURRENT, hour, 2);
    struct rule_input in = input(&l, 1, NULL, 0);
    struct verdict v;
    in.live[SUBJECT_ADDRESS] = 1;
    rule_decide(&in, &v);
    assert_int_equal(v.outcome, OUTCOME_ADMITTED);
    in.live[SUBJECT_ADDRESS] = 2;
    rule_decide(&in, &v);
    assert_int_equal(v.outcome, OUTCOME_REFUSED);
    assert_int_equal(v.refusal, REFUSAL_CONCURRENT);
    assert_int_equal(v.until_ms, NOW + CONCURRENT_WAIT_MS);
    l.max = 0; /* F7 */
    in.live[SUBJECT_ADDRESS] = 0;
    rule_decide(&in, &v);
    assert_int_equal(v.outcome, OUTCOME_REFUSED);
    l.max = LIMIT_UNLIMITED;
    in.live[SUBJECT_ADDRESS] = UINT32_MAX;
    rule_decide(&in, &v);
    assert_int_equal(v.outcome, OUTCOME_ADMITTED);
}

static void test_of_one_counter_the_smallest_max_decides(void **state)
{
    (void)state;
    struct limit l[] = {a_limit(SUBJECT_ADDRESS, UNIT_CALLS, hour, LIMIT_UNLIMITED),
                        a_limit(SUBJECT_ADDRESS, UNIT_CALLS, hour, 9),
                        a_limit(SUBJECT_ADDRESS, UNIT_CALLS, hour, 5),
                        a_limit(SUBJECT_ADDRESS, UNIT_CALLS, hour, 5),
                        a_limit(SUBJECT_ADDRESS, UNIT_TOKENS, hour, 1000)};
    struct counter c = used(SUBJECT_ADDRESS, hour, UNIT_CALLS, 4);
    struct rule_input in = input(l, N(l), &c, 1);
    struct verdict v;
    rule_decide(&in, &v);
    assert_int_equal(v.outcome, OUTCOME_ADMITTED);
    assert_int_equal(v.n_standings, 1);
    assert_int_equal(v.standings[0].limit.max, 5);
    c.slot[0].used.of[UNIT_CALLS] = 20; /* all of them would refuse */
    rule_decide(&in, &v);
    assert_int_equal(v.outcome, OUTCOME_REFUSED);
    assert_int_equal(v.limit, 2);
}

static void test_only_calls_of_the_callers_own_subjects_are_shown(void **state)
{
    (void)state;
    struct limit l[] = {a_limit(SUBJECT_EVERYONE, UNIT_CALLS, hour, 9),
                        a_limit(SUBJECT_ANONYMOUS, UNIT_CALLS, hour, 9),
                        a_limit(SUBJECT_ADDRESS, UNIT_TOKENS, hour, 900),
                        a_limit(SUBJECT_ADDRESS, UNIT_COST, hour, 9000),
                        a_limit(SUBJECT_ADDRESS, UNIT_CONCURRENT, hour, 9),
                        a_limit(SUBJECT_ADDRESS, UNIT_CALLS, day, LIMIT_UNLIMITED),
                        a_limit(SUBJECT_KEY, UNIT_CALLS, hour, 9),
                        a_limit(SUBJECT_ADDRESS, UNIT_CALLS, hour, 9)};
    struct counter c[] = {empty(SUBJECT_EVERYONE, hour), empty(SUBJECT_ANONYMOUS, hour),
                          empty(SUBJECT_ADDRESS, hour), empty(SUBJECT_ADDRESS, day),
                          empty(SUBJECT_KEY, hour)};
    struct rule_input in = input(l, N(l), c, N(c));
    struct verdict v;
    rule_decide(&in, &v);
    assert_int_equal(v.n_standings, 2);
    assert_int_equal(v.standings[0].limit.subject, SUBJECT_KEY);
    assert_int_equal(v.standings[1].limit.subject, SUBJECT_ADDRESS);
    assert_int_equal(v.standings[1].limit.window.kind, WINDOW_HOUR);
}

static void test_standings_count_the_call_that_was_admitted(void **state)
{
    (void)state;
    struct limit l[] = {a_limit(SUBJECT_ADDRESS, UNIT_CALLS, ten_seconds, 5),
                        a_limit(SUBJECT_ADDRESS, UNIT_CALLS, day, 40)};
    struct counter c[] = {empty(SUBJECT_ADDRESS, ten_seconds), empty(SUBJECT_ADDRESS, day)};
    struct rule_input in = input(l, 2, c, 2);
    struct verdict v;
    rule_decide(&in, &v); /* the first call: more comes when it leaves itself */
    assert_int_equal(v.standings[0].remaining, 4);
    assert_int_equal(v.standings[0].more_ms, c[0].slot[0].frees_ms);
    assert_int_equal(v.standings[1].remaining, 39);
    assert_int_equal(v.standings[1].more_ms, DAY_ENDS);
    c[0].slot[6].used.of[UNIT_CALLS] = 4;
    rule_decide(&in, &v); /* the last one: more comes when the older ones leave */
    assert_int_equal(v.outcome, OUTCOME_ADMITTED);
    assert_int_equal(v.standings[0].remaining, 0);
    assert_int_equal(v.standings[0].more_ms, c[0].slot[6].frees_ms);
    c[0].slot[6].used.of[UNIT_CALLS] = 5;
    rule_decide(&in, &v); /* refused: the day still has all that it had */
    assert_int_equal(v.outcome, OUTCOME_REFUSED);
    assert_int_equal(v.standings[0].remaining, 0);
    assert_int_equal(v.standings[0].more_ms, v.until_ms);
    assert_int_equal(v.standings[1].remaining, 40);
    assert_int_equal(v.standings[1].more_ms, NOW); /* nothing is used */
    c[0].slot[3].used.of[UNIT_CALLS] = 4;
    rule_decide(&in, &v); /* far over: the oldest slot alone gives nothing back */
    assert_int_equal(v.standings[0].remaining, 0);
    assert_int_equal(v.standings[0].more_ms, c[0].slot[6].frees_ms);
    c[0].slot[3].used.of[UNIT_CALLS] = 5;
    rule_decide(&in, &v);
    assert_int_equal(v.standings[0].more_ms, c[0].slot[3].frees_ms);
}

static void test_standings_that_are_too_many_are_enforced_all_the_same(void **state)
{
    (void)state;
    struct limit l[STANDINGS_MAX + 1];
    struct counter c[STANDINGS_MAX + 1];
    struct verdict v;
    for (unsigned i = 0; i <= STANDINGS_MAX; i++) {
        struct window w = {WINDOW_SLIDING, 100 + i};
        l[i] = a_limit(SUBJECT_ADDRESS, UNIT_CALLS, w, 5);
        c[i] = empty(SUBJECT_ADDRESS, w);
    }
    c[STANDINGS_MAX].slot[0].used.of[UNIT_CALLS] = 5;
    struct rule_input in = input(l, N(l), c, N(c));
    rule_decide(&in, &v);
    assert_int_equal(v.outcome, OUTCOME_REFUSED);
    assert_int_equal(v.limit, STANDINGS_MAX);
    assert_int_equal(v.n_standings, STANDINGS_MAX);
}

/* Dry runs */

static struct limit a_dry_run(struct limit l)
{
    l.dry_run = true;
    return l;
}

static const struct {
    const char *why;
    enum unit unit;
    uint64_t max, used;
    bool would; /* have refused */
} dry_runs[] = {
    {"there is room", UNIT_CALLS, 5, 4, false},
    {"full", UNIT_CALLS, 5, 5, true},
    {"F7 0 calls", UNIT_CALLS, 0, 0, true},
    {"too long at any time", UNIT_TOKENS, 49, 0, true},
    {"a place is free", UNIT_CONCURRENT, 2, 0, false},
    {"no place is free", UNIT_CONCURRENT, 1, 0, true},
    {"without a max", UNIT_COST, LIMIT_UNLIMITED, AMOUNT_MAX, false},
};

static void test_a_dry_run_says_what_it_would_have_done_and_does_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(dry_runs); i++) {
        enum unit unit = dry_runs[i].unit == UNIT_CONCURRENT ? UNIT_CALLS : dry_runs[i].unit;
        struct limit l[] = {
            a_limit(SUBJECT_EVERYONE, UNIT_CALLS, day, 9),
            a_dry_run(a_limit(SUBJECT_ADDRESS, dry_runs[i].unit, hour, dry_runs[i].max))};
        struct counter c[] = {empty(SUBJECT_EVERYONE, day),
                              used(SUBJECT_ADDRESS, hour, unit, dry_runs[i].used)};
        struct rule_input in = input(l, 2, c, 2);
        struct verdict v;
        in.live[SUBJECT_ADDRESS] = 1;
        print_message("    %s\n", dry_runs[i].why);
        rule_decide(&in, &v);
        assert_int_equal(v.outcome, OUTCOME_ADMITTED);
        assert_int_equal(v.until_ms, NOW);
        assert_int_equal(v.dry, dry_runs[i].would ? 2 : 0);
        assert_int_equal(v.n_standings, 0); /* of a limit that refuses nobody */
        in.present = 1U << SUBJECT_EVERYONE;
        rule_decide(&in, &v);
        assert_int_equal(v.dry, 0); /* the caller has no address */
        in.present = ALL;
        c[0].slot[0].used.of[UNIT_CALLS] = 9;
        rule_decide(&in, &v);
        assert_int_equal(v.outcome, OUTCOME_REFUSED);
        assert_int_equal(v.limit, 0);
        assert_int_equal(v.until_ms, DAY_ENDS);
        assert_int_equal(v.dry, dry_runs[i].would ? 2 : 0);
    }
}

static void test_a_dry_run_never_shadows_an_enforcing_limit(void **state)
{
    (void)state;
    struct limit l[] = {a_dry_run(a_limit(SUBJECT_ADDRESS, UNIT_CALLS, hour, 3)),
                        a_dry_run(a_limit(SUBJECT_ADDRESS, UNIT_CALLS, hour, 4)),
                        a_limit(SUBJECT_ADDRESS, UNIT_CALLS, hour, 5),
                        a_dry_run(a_limit(SUBJECT_ADDRESS, UNIT_CALLS, hour, 6))};
    struct counter c = used(SUBJECT_ADDRESS, hour, UNIT_CALLS, 4);
    struct rule_input in = input(l, N(l), &c, 1);
    struct verdict v;
    rule_decide(&in, &v);
    assert_int_equal(v.outcome, OUTCOME_ADMITTED);
    assert_int_equal(v.dry, 3); /* each for itself */
    assert_int_equal(v.n_standings, 1);
    assert_int_equal(v.standings[0].limit.max, 5);
    assert_int_equal(v.standings[0].remaining, 0);
    c.slot[0].used.of[UNIT_CALLS] = 5;
    rule_decide(&in, &v);
    assert_int_equal(v.outcome, OUTCOME_REFUSED);
    assert_int_equal(v.limit, 2);
    assert_int_equal(v.dry, 3);
}

/* Limits of a key's own */

static const struct {
    const char *why;
    struct limit own[2];
    unsigned n_own;
    uint64_t out[7]; /* the maxima that are left, in order, up to a 0 */
} merged[] = {
    {"none", {{.max = 0}}, 0, {1, 2, 3, 4, 5}},
    {"of the same unit and window: in their place",
     {{.subject = SUBJECT_KEY, .unit = UNIT_CALLS, .window = {WINDOW_DAY, 0}, .max = 9}},
     1,
     {1, 4, 5, 9}},
    {"of another window: beside them",
     {{.subject = SUBJECT_KEY, .unit = UNIT_CALLS, .window = {WINDOW_MONTH, 0}, .max = 9}},
     1,
     {1, 2, 3, 4, 5, 9}},
    {"of another unit: beside them",
     {{.subject = SUBJECT_KEY, .unit = UNIT_TOKENS, .window = {WINDOW_DAY, 0}, .max = 9}},
     1,
     {1, 2, 3, 4, 5, 9}},
    {"places have no window",
     {{.subject = SUBJECT_KEY, .unit = UNIT_CONCURRENT, .window = {WINDOW_DAY, 0}, .max = 9}},
     1,
     {1, 2, 3, 4, 9}},
    {"two of them",
     {{.subject = SUBJECT_KEY, .unit = UNIT_CONCURRENT, .max = 8},
      {.subject = SUBJECT_KEY, .unit = UNIT_CALLS, .window = {WINDOW_DAY, 0}, .max = 9}},
     2,
     {1, 4, 8, 9}},
};

static void test_a_keys_own_limits_take_the_place_of_the_sites(void **state)
{
    (void)state;
    const struct limit site[] = {a_limit(SUBJECT_EVERYONE, UNIT_CALLS, day, 1),
                                 a_limit(SUBJECT_KEY, UNIT_CALLS, day, 2),
                                 a_dry_run(a_limit(SUBJECT_KEY, UNIT_CALLS, day, 3)),
                                 a_limit(SUBJECT_KEY, UNIT_CALLS, hour, 4),
                                 a_limit(SUBJECT_KEY, UNIT_CONCURRENT, hour, 5)};
    for (size_t i = 0; i < N(merged); i++) {
        struct limit out[N(site) + 2];
        print_message("    %s\n", merged[i].why);
        unsigned n = rule_limits(site, N(site), merged[i].own, merged[i].n_own, out);
        for (unsigned k = 0; k < n; k++)
            assert_int_equal(out[k].max, merged[i].out[k]);
        assert_int_equal(merged[i].out[n], 0);
    }
}

/* Pace */

static const struct {
    const char *why;
    uint64_t max;
    int64_t length, elapsed;
    uint64_t released;
} paces[] = {
    {"before it begins", 1200, 24 * HOUR, -1, 0},
    {"at the begin: a twelfth", 1200, 24 * HOUR, 0, 100},
    {"half an hour later", 1200, 24 * HOUR, HOUR / 2, 125},
    {"a moment before half an hour", 1200, 24 * HOUR, HOUR / 2 - 1, 124},
    {"at noon", 1200, 24 * HOUR, 12 * HOUR, 700},
    {"nearly all of it", 1200, 24 * HOUR, 22 * HOUR - 1, 1199},
    {"all of it", 1200, 24 * HOUR, 22 * HOUR, 1200},
    {"at the end", 1200, 24 * HOUR, 24 * HOUR, 1200},
    {"after it", 1200, 24 * HOUR, 30 * HOUR, 1200},
    {"a day of 23 hours", 1200, 23 * HOUR, 12 * HOUR, 726},
    {"a day of 25 hours", 1200, 25 * HOUR, 12 * HOUR, 676},
    {"less than a twelfth of one", 11, 24 * HOUR, 0, 0},
    {"the only call comes late", 1, 24 * HOUR, 22 * HOUR - 1, 0},
    {"and comes", 1, 24 * HOUR, 22 * HOUR, 1},
    {"nothing is nothing", 0, 24 * HOUR, 23 * HOUR, 0},
    {"the largest max does not wrap", AMOUNT_MAX - 1, 744 * HOUR, 372 * HOUR,
     (AMOUNT_MAX - 1) / 12 * 7 + 1},
    {"its last one", AMOUNT_MAX - 1, 744 * HOUR, 682 * HOUR - 1,
     AMOUNT_MAX - 1 - (AMOUNT_MAX - 1) / (744 * HOUR) - 1},
    {"an hour", 60, HOUR, 30 * 60000, 35},
    {"an empty window is over", 60, 0, 0, 60},
    {"one that ends before it begins", 60, -HOUR, 0, 60},
    {"no calendar has this one", 60, INT64_MAX / 2, 0, 0},
};

static void test_F2_a_paced_max_is_released_evenly(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(paces); i++) {
        print_message("    %s\n", paces[i].why);
        uint64_t released =
            rule_paced(paces[i].max, NOW, NOW + paces[i].length, NOW + paces[i].elapsed);
        assert_true(released == paces[i].released);
    }
}

static struct limit a_paced(struct limit l)
{
    l.pace = true;
    return l;
}

/* A day's counter of which `elapsed` ms have passed. */
static struct counter under_way(int64_t elapsed, enum unit unit, uint64_t n)
{
    struct counter c = used(SUBJECT_ADDRESS, day, unit, n);
    c.begins_ms = NOW - elapsed;
    c.slot[0].frees_ms = NOW - elapsed + 24 * HOUR;
    return c;
}

/* 1200 calls or 60000 tokens a day, at noon: 700 calls, 35000 tokens are released. */
static const struct {
    const char *why;
    enum unit unit;
    uint64_t max, used;
    enum outcome outcome;
    int64_t wait_ms;
} paced[] = {
    {"nothing used", UNIT_CALLS, 1200, 0, OUTCOME_ADMITTED, 0},
    {"the last one released", UNIT_CALLS, 1200, 699, OUTCOME_ADMITTED, 0},
    {"the next comes in 72 s", UNIT_CALLS, 1200, 700, OUTCOME_REFUSED, 72000},
    {"the last one of the day", UNIT_CALLS, 1200, 1199, OUTCOME_REFUSED, 10 * HOUR},
    {"none is left of the day", UNIT_CALLS, 1200, 1200, OUTCOME_REFUSED, 12 * HOUR},
    {"far over, since the max was lowered", UNIT_CALLS, 1200, 5000, OUTCOME_REFUSED, 12 * HOUR},
    {"as many tokens as fit", UNIT_TOKENS, 60000, 34950, OUTCOME_ADMITTED, 0},
    {"50 tokens in 72 s", UNIT_TOKENS, 60000, 35000, OUTCOME_REFUSED, 72000},
    {"a token in 1.44 s", UNIT_TOKENS, 60000, 34951, OUTCOME_REFUSED, 1440},
    {"more than what is released now, less than the max", UNIT_TOKENS, 60, 0, OUTCOME_REFUSED,
     6 * HOUR},
    {"more than the max", UNIT_TOKENS, 49, 0, OUTCOME_TOO_LONG, 0},
    {"F7 0 admits nothing", UNIT_CALLS, 0, 0, OUTCOME_REFUSED, 12 * HOUR},
    {"unlimited is not paced", UNIT_CALLS, LIMIT_UNLIMITED, AMOUNT_MAX, OUTCOME_ADMITTED, 0},
    {"an amount that is not ours", UNIT_CALLS, 1200, UINT64_MAX, OUTCOME_REFUSED, 12 * HOUR},
};

static void test_a_paced_limit_refuses_until_it_has_released_enough(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(paced); i++) {
        struct limit l = a_paced(a_limit(SUBJECT_ADDRESS, paced[i].unit, day, paced[i].max));
        struct counter c = under_way(12 * HOUR, paced[i].unit, paced[i].used);
        struct rule_input in = input(&l, 1, &c, 1);
        struct verdict v;
        print_message("    %s\n", paced[i].why);
        rule_decide(&in, &v);
        assert_int_equal(v.outcome, paced[i].outcome);
        if (v.outcome != OUTCOME_REFUSED)
            continue;
        assert_int_equal(v.until_ms - NOW, paced[i].wait_ms);
        assert_int_equal(v.refusal, REFUSAL_ADDRESS);
        in.now_ms = v.until_ms - 1;
        rule_decide(&in, &v);
        assert_int_equal(v.outcome, OUTCOME_REFUSED);
        in.now_ms++;
        if (in.now_ms == c.slot[0].frees_ms)
            continue; /* it is another window's turn */
        rule_decide(&in, &v);
        assert_int_equal(v.outcome, OUTCOME_ADMITTED);
    }
}

/* A counter with a paced limit and one that is not: both must hold, whichever is smaller. */
static const struct {
    const char *why;
    uint64_t paced, plain, used;
    enum outcome outcome;
    unsigned limit;
} both[] = {
    {"a smaller one that is not paced leaves the pace", 1200, 800, 700, OUTCOME_REFUSED, 0},
    {"and decides once it is full", 1200, 600, 650, OUTCOME_REFUSED, 1},
    {"a smaller paced one leaves the other", 1200, 1300, 699, OUTCOME_ADMITTED, 0},
    {"and paces it", 1200, 1300, 700, OUTCOME_REFUSED, 0},
    {"an equal one", 1200, 1200, 700, OUTCOME_REFUSED, 0},
};

static void test_a_paced_limit_and_another_of_one_counter_both_hold(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(both); i++) {
        for (unsigned order = 0; order < 2; order++) {
            struct limit l[2];
            struct counter c = under_way(12 * HOUR, UNIT_CALLS, both[i].used);
            struct rule_input in = input(l, 2, &c, 1);
            struct verdict v;
            l[order] = a_paced(a_limit(SUBJECT_ADDRESS, UNIT_CALLS, day, both[i].paced));
            l[1 - order] = a_limit(SUBJECT_ADDRESS, UNIT_CALLS, day, both[i].plain);
            print_message("    %s\n", both[i].why);
            rule_decide(&in, &v);
            assert_int_equal(v.outcome, both[i].outcome);
            if (v.outcome == OUTCOME_REFUSED)
                assert_true(l[v.limit].pace == (both[i].limit == 0));
            assert_int_equal(v.n_standings, 2);
        }
    }
}

static void test_a_paced_sliding_or_concurrent_limit_is_as_if_it_were_not(void **state)
{
    (void)state;
    struct limit l[] = {a_paced(a_limit(SUBJECT_ADDRESS, UNIT_CALLS, ten_seconds, 5)),
                        a_paced(a_limit(SUBJECT_ADDRESS, UNIT_CONCURRENT, day, 2))};
    struct counter c = empty(SUBJECT_ADDRESS, ten_seconds);
    struct rule_input in = input(l, 2, &c, 1);
    struct verdict v;
    c.slot[8].used.of[UNIT_CALLS] = 4;
    in.live[SUBJECT_ADDRESS] = 1;
    rule_decide(&in, &v);
    assert_int_equal(v.outcome, OUTCOME_ADMITTED);
}

/* How a paced limit of 1200 calls a day stands at noon, before this call, if it is admitted. */
static const struct {
    const char *why;
    int64_t elapsed;
    uint64_t used, remaining;
    int64_t more_in_ms;
} paced_standings[] = {
    {"some of what is released is left", 12 * HOUR, 500, 199, 72000},
    {"the last one released is taken", 12 * HOUR, 699, 0, 72000},
    {"refused: when the next one is released", 12 * HOUR, 700, 0, 72000},
    {"refused: one is missing first", 12 * HOUR, 701, 0, 144000},
    {"none is left of the day", 12 * HOUR, 1200, 0, 12 * HOUR},
    {"all is released, some is used", 23 * HOUR, 100, 1099, HOUR},
};

static void test_a_paced_limit_stands_by_what_is_released(void **state)
{
    (void)state;
    struct limit l = a_paced(a_limit(SUBJECT_ADDRESS, UNIT_CALLS, day, 1200));
    for (size_t i = 0; i < N(paced_standings); i++) {
        struct counter c =
            under_way(paced_standings[i].elapsed, UNIT_CALLS, paced_standings[i].used);
        struct rule_input in = input(&l, 1, &c, 1);
        struct verdict v;
        print_message("    %s\n", paced_standings[i].why);
        rule_decide(&in, &v);
        assert_int_equal(v.n_standings, 1);
        assert_true(v.standings[0].limit.pace);
        assert_int_equal(v.standings[0].remaining, paced_standings[i].remaining);
        assert_int_equal(v.standings[0].more_ms - NOW, paced_standings[i].more_in_ms);
        if (v.outcome == OUTCOME_REFUSED)
            assert_int_equal(v.standings[0].more_ms, v.until_ms);
    }
}

static void test_sums_saturate(void **state)
{
    (void)state;
    assert_int_equal(amount_add(1, 2), 3);
    assert_true(amount_add(AMOUNT_MAX - 2, 1) == AMOUNT_MAX - 1);
    assert_true(amount_add(AMOUNT_MAX - 1, 1) == AMOUNT_MAX);
    assert_true(amount_add(AMOUNT_MAX, 1) == AMOUNT_MAX);
    assert_true(amount_add(1, UINT64_MAX) == AMOUNT_MAX);
    assert_true(amount_add(UINT64_MAX, UINT64_MAX) == AMOUNT_MAX);
    assert_int_equal(amount_subtract(3, 2), 1);
    assert_int_equal(amount_subtract(2, 2), 0);
    assert_int_equal(amount_subtract(2, 3), 0);
    assert_int_equal(amount_subtract(0, UINT64_MAX), 0);
}

static const struct {
    const char *why;
    uint64_t value, reserved, real, settled;
} settles[] = {
    {"less than reserved is given back", 1000, 700, 100, 400},
    {"all of it was used", 1000, 700, 700, 1000},
    {"more than reserved is charged", 1000, 700, 900, 1200},
    {"nothing was used", 700, 700, 0, 0},
    {"F15 a value below what was reserved does not wrap", 600, 700, 100, 100},
    {"F29 a huge amount does not wrap", AMOUNT_MAX - 1, 0, UINT64_MAX, AMOUNT_MAX},
};

static void test_settling_one_slot(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(settles); i++) {
        struct amounts value = {{9, settles[i].value, 9}};
        struct amounts reserved = {{1, settles[i].reserved, 4}};
        struct amounts real = {{1, settles[i].real, 0}};
        print_message("    %s\n", settles[i].why);
        amounts_settle(&value, &reserved, &real);
        assert_int_equal(value.of[UNIT_CALLS], 9);
        assert_true(value.of[UNIT_TOKENS] == settles[i].settled);
        assert_int_equal(value.of[UNIT_COST], 5);
    }
}

static void test_windows_are_listed_once_and_up_to_a_bound(void **state)
{
    static const struct window month = {WINDOW_MONTH, 0};
    struct limit l[] = {a_limit(SUBJECT_EVERYONE, UNIT_CALLS, hour, 1),
                        a_limit(SUBJECT_ADDRESS, UNIT_COST, hour, 1),
                        a_limit(SUBJECT_ADDRESS, UNIT_CONCURRENT, month, 1),
                        a_limit(SUBJECT_ADDRESS, UNIT_CALLS, ten_seconds, 1),
                        a_limit(SUBJECT_EVERYONE, UNIT_CALLS, month, 1)};
    struct window list[4];

    (void)state;
    assert_int_equal(rule_windows(l, 3, list, 0, 4), 1);
    assert_int_equal(rule_windows(l, N(l), list, 1, 4), 3); /* the first is in it already */
    assert_true(window_equal(list[0], hour) && window_equal(list[1], ten_seconds) &&
                window_equal(list[2], month));
    assert_int_equal(rule_windows(l, N(l), list, 0, 2), 2);
    assert_int_equal(rule_windows(l, 0, list, 2, 4), 2);
}

static void test_a_counter_is_of_a_subject_in_a_window(void **state)
{
    const struct counter c[] = {empty(SUBJECT_ADDRESS, hour), empty(SUBJECT_EVERYONE, hour)};
    struct limit l = a_limit(SUBJECT_EVERYONE, UNIT_COST, hour, 1);

    (void)state;
    assert_ptr_equal(rule_counter(c, 2, &l), &c[1]);
    assert_null(rule_counter(c, 1, &l));
    l.window = (struct window){WINDOW_DAY, 0};
    assert_null(rule_counter(c, 2, &l));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows_are_listed_once_and_up_to_a_bound),
        cmocka_unit_test(test_a_counter_is_of_a_subject_in_a_window),
        cmocka_unit_test(test_both_sides_of_a_max),
        cmocka_unit_test(test_F7_nothing_that_weighs_nothing_passes_a_max_of_0),
        cmocka_unit_test(test_F2_exactly_20_of_200),
        cmocka_unit_test(test_a_sliding_limit_frees_from_the_oldest),
        cmocka_unit_test(test_a_max_of_0_waits_for_all_slots),
        cmocka_unit_test(test_a_refusal_is_named_by_the_first_kind),
        cmocka_unit_test(test_of_one_kind_the_first_limit_is_named),
        cmocka_unit_test(test_too_long_takes_precedence),
        cmocka_unit_test(test_a_limit_of_a_subject_that_the_caller_lacks),
        cmocka_unit_test(test_a_limit_without_its_counter_refuses),
        cmocka_unit_test(test_concurrent_is_the_number_of_live_reservations),
        cmocka_unit_test(test_of_one_counter_the_smallest_max_decides),
        cmocka_unit_test(test_only_calls_of_the_callers_own_subjects_are_shown),
        cmocka_unit_test(test_standings_count_the_call_that_was_admitted),
        cmocka_unit_test(test_standings_that_are_too_many_are_enforced_all_the_same),
        cmocka_unit_test(test_a_dry_run_says_what_it_would_have_done_and_does_nothing),
        cmocka_unit_test(test_a_dry_run_never_shadows_an_enforcing_limit),
        cmocka_unit_test(test_a_keys_own_limits_take_the_place_of_the_sites),
        cmocka_unit_test(test_F2_a_paced_max_is_released_evenly),
        cmocka_unit_test(test_a_paced_limit_refuses_until_it_has_released_enough),
        cmocka_unit_test(test_a_paced_limit_and_another_of_one_counter_both_hold),
        cmocka_unit_test(test_a_paced_sliding_or_concurrent_limit_is_as_if_it_were_not),
        cmocka_unit_test(test_a_paced_limit_stands_by_what_is_released),
        cmocka_unit_test(test_sums_saturate),
        cmocka_unit_test(test_settling_one_slot),
    };
    return cmocka_run_group_tests_name("rule", tests, NULL, NULL);
}
