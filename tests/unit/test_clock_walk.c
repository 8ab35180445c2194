/*
 * A ledger on a machine whose clocks go anywhere: a long walk over steps of the clock, boots,
 * sleep, and requests, with a model of what was admitted (CLOCK_WALKS=n for more of them).
 * However the clocks go, no window of the store's time admits more than its max, every wait
 * that is told is real and bounded, and nothing stays wrong once the clock is right.
 */
#include <inttypes.h>

#include "tests/unit/ledger_fixture.h"

#define N(a)     (sizeof(a) / sizeof *(a))
#define YEARS_MS (3652 * DAY_MS) /* ten of them */
#define STEPS    1000
#define CALLERS  3
#define GONE     INT64_MIN

static const struct {
    const char *name;
    enum subject subject;
    const char *window;
    uint64_t max;
} kept[] = {
    {"burst", SUBJECT_ADDRESS, "10s", 2}, {"week", SUBJECT_ADDRESS, "7d", 9},
    {"some", SUBJECT_ANONYMOUS, "1h", 5}, {"hour", SUBJECT_EVERYONE, "hour", 6},
    {"day", SUBJECT_EVERYONE, "day", 8},  {"month", SUBJECT_EVERYONE, "month", 60},
};

/* The longest a wait can be: a month, or a date named in it, at half speed. */
#define WAIT_MAX_MS (2 * (31 * DAY_MS))

struct walk {
    struct fixture *f;
    uint64_t random;
    int64_t real_ms; /* what a right clock would show */
    int64_t back_ms; /* by how much boot time has ever gone back */
    unsigned n, refused, errors;
    struct {
        int64_t at_ms[N(kept)]; /* store time by which each limit counts it */
        unsigned caller;
    } admitted[STEPS];
};

static uint64_t draw(struct walk *w, uint64_t below)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return w->random % below;
}

/* Small ones as often as large ones. */
static int64_t span(struct walk *w)
{
    static const uint64_t most[] = {4, 11000, HOUR_MS, 30 * HOUR_MS, 9 * DAY_MS};

    return (int64_t)draw(w, most[draw(w, N(most))]);
}

static int64_t store_ms(struct walk *w)
{
    struct ledger_state s;

    assert_int_equal(ledger_state(w->f->ledger, &w->f->policy, &s), ERROR_NONE);
    return s.store_ms;
}

/* ---- the model ---- */

static bool counts(const struct limit *l, int64_t at_ms, int64_t now_ms)
{
    static const struct zone utc;

    if (at_ms == GONE || at_ms > now_ms)
        return false;
    switch (l->window.kind) {
    case WINDOW_HOUR:
        return at_ms / HOUR_MS == now_ms / HOUR_MS;
    case WINDOW_DAY:
        return zone_day(&utc, at_ms) == zone_day(&utc, now_ms);
    case WINDOW_MONTH:
        return zone_month(&utc, at_ms) == zone_month(&utc, now_ms);
    default:
        return now_ms - at_ms < (int64_t)l->window.seconds * 1000;
    }
}

static void note_admitted(struct walk *w, unsigned caller)
{
    int64_t now_ms = store_ms(w);

    w->admitted[w->n].caller = caller;
    for (unsigned k = 0; k < N(kept); k++)
        w->admitted[w->n].at_ms[k] = now_ms;
    w->n++;
    for (unsigned k = 0; k < N(kept); k++) {
        const struct limit *l = &w->f->limits[k];
        uint64_t sum = 0;

        for (unsigned i = 0; i < w->n; i++)
            sum += (l->subject != SUBJECT_ADDRESS || w->admitted[i].caller == caller) &&
                   counts(l, w->admitted[i].at_ms[k], now_ms);
        if (sum > l->max)
            fail_msg("%s: %" PRIu64 " of %" PRIu64, l->name, sum, l->max);
    }
}

/* How long rows surely stay after their windows' end. That they all do for a day after a step is
 * for test_clock_played.py. */
static int64_t stays_ms(const struct limit *l)
{
    switch (l->window.kind) {
    case WINDOW_DAY:
        return 7 * DAY_MS;
    case WINDOW_MONTH:
        return 12 * HOUR_MS;
    default:
        return 0;
    }
}

/* What counted, or counts by the new time, counts now; the rest will never come again. */
static void note_reset(struct walk *w, int64_t old_ms, int64_t new_ms)
{
    for (unsigned k = 0; k < N(kept); k++) {
        const struct limit *l = &w->f->limits[k];
        bool there = old_ms - new_ms <= stays_ms(l);

        for (unsigned i = 0; i < w->n; i++) {
            int64_t *at_ms = &w->admitted[i].at_ms[k];

            if (l->subject != SUBJECT_ADDRESS &&
                (counts(l, *at_ms, old_ms) || (there && counts(l, *at_ms, new_ms))))
                *at_ms = new_ms;
            else
                *at_ms = GONE;
        }
    }
}

/* ---- the steps ---- */

static enum decision ask_as(struct walk *w, unsigned caller, struct answer *a)
{
    struct reservation r;

    set_address(&w->f->demand, (uint8_t)(caller + 1));
    enum decision d = ask(w->f, a, &r);
    if (d != DECISION_ADMITTED)
        return d;
    note_admitted(w, caller);
    if (draw(w, 4) > 0) /* otherwise its process dies */
        settle(w->f, &r, SETTLE_USAGE, 10, 10);
    ledger_release(w->f->ledger, &r);
    return d;
}

static void time_passes(struct walk *w, int64_t ms)
{
    pass(ms);
    w->real_ms += ms;
}

static void call(struct walk *w)
{
    struct answer a;

    for (uint64_t n = 1 + draw(w, 4); n > 0 && w->n < STEPS; n--)
        w->refused += ask_as(w, (unsigned)draw(w, CALLERS), &a) == DECISION_REFUSED;
}

/* Somebody is refused, and does as he is told. */
static void wait_as_told(struct walk *w)
{
    struct answer a;
    unsigned caller = (unsigned)draw(w, CALLERS);

    if (w->n + 2 > STEPS || ask_as(w, caller, &a) != DECISION_REFUSED)
        return;
    assert_in_range(a.wait_ms, 1, WAIT_MAX_MS + w->back_ms);
    time_passes(w, a.wait_ms - 1);
    assert_int_equal(ask_as(w, caller, &a), DECISION_REFUSED);
    time_passes(w, 1);
    assert_int_equal(ask_as(w, caller, &a), DECISION_ADMITTED);
}

static void sleep_or_live(struct walk *w)
{
    time_passes(w, span(w));
}

static void set_clock(struct walk *w)
{
    static const int64_t most[] = {5, 3 * HOUR_MS, 3 * DAY_MS, 400 * DAY_MS, YEARS_MS};
    int64_t by_ms = most[draw(w, N(most))];

    fake_now.wall_ms = w->real_ms + (int64_t)draw(w, 2 * (uint64_t)by_ms + 1) - by_ms;
}

static void set_clock_right(struct walk *w)
{
    fake_now.wall_ms = w->real_ms;
}

static void boot(struct walk *w)
{
    close_ledger(w->f);
    w->real_ms += span(w);
    for (unsigned i = 0; i < sizeof fake_now.boot_id; i++)
        fake_now.boot_id[i] = (uint8_t)draw(w, 256);
    fake_now.boot_ms = (int64_t)draw(w, 100000);
    if (draw(w, 2) == 0)
        set_clock(w);
    open_ledger(w->f);
}

static void boot_time_back(struct walk *w)
{
    int64_t by_ms = (int64_t)draw(w, (uint64_t)fake_now.boot_ms / 8 + 1);

    fake_now.boot_ms -= by_ms;
    w->back_ms += by_ms;
}

static void lose_the_clock(struct walk *w)
{
    struct fixture *f = w->f;
    struct reservation r;
    struct answer a;

    fake_error = ERROR_CLOCK;
    assert_int_equal(ledger_check(f->ledger, &f->policy, &f->demand, &a), ERROR_CLOCK);
    assert_int_equal(ledger_reserve(f->ledger, &f->policy, &f->demand, &a, &r), ERROR_CLOCK);
    assert_int_equal(ledger_clock_reset(f->ledger, &f->policy), ERROR_CLOCK);
    fake_error = ERROR_NONE;
    w->errors++;
}

static void maintain(struct walk *w)
{
    assert_int_equal(ledger_maintain(w->f->ledger, &w->f->policy), ERROR_NONE);
}

static void reset_the_clock(struct walk *w)
{
    int64_t old_ms = store_ms(w);

    assert_int_equal(ledger_clock_reset(w->f->ledger, &w->f->policy), ERROR_NONE);
    assert_int_equal(store_ms(w), fake_now.wall_ms);
    note_reset(w, old_ms, fake_now.wall_ms);
}

static const struct {
    unsigned weight;
    void (*take)(struct walk *w);
} steps[] = {
    {40, call}, {25, sleep_or_live}, {6, wait_as_told},   {6, set_clock}, {6, set_clock_right},
    {4, boot},  {2, boot_time_back}, {2, lose_the_clock}, {6, maintain},  {3, reset_the_clock},
};

static void take_step(struct walk *w)
{
    uint64_t left = draw(w, 100);
    unsigned i = 0;

    while (left >= steps[i].weight)
        left -= steps[i++].weight;
    steps[i].take(w);
}

static int begin(void **state)
{
    set_up(state);
    struct fixture *f = *state;
    for (unsigned k = 0; k < N(kept); k++)
        add_limit(f, kept[k].name, kept[k].subject, UNIT_CALLS, kept[k].window, kept[k].max);
    return 0;
}

static void test_F44_whatever_the_clocks_do(void **state)
{
    static struct walk w;
    const char *seed = getenv("CLOCK_WALK_SEED"), *walks = getenv("CLOCK_WALKS");
    struct answer a;

    for (unsigned i = 0; i < (walks ? (unsigned)atoi(walks) : 2); i++) {
        memset(&w, 0, sizeof w);
        w.f = *state;
        w.random = seed ? strtoull(seed, NULL, 10) + i : 20260101 + i;
        print_message("    CLOCK_WALK_SEED=%" PRIu64 "\n", w.random);
        w.random = w.random * 0x9e3779b97f4a7c15 | 1;
        w.real_ms = fake_now.wall_ms;
        for (unsigned k = 0; k < STEPS; k++)
            take_step(&w);
        set_clock_right(&w);
        reset_the_clock(&w);
        time_passes(&w, 40 * DAY_MS);
        assert_int_equal(ask(w.f, &a, &(struct reservation){0}), DECISION_ADMITTED);
        print_message("    %u admitted, %u refused\n", w.n, w.refused);
        assert_true(w.n > 50 && w.refused > 50 && w.errors > 0);
        tear_down(state);
        begin(state);
    }
}

/*
 * A board that is on for three hours at a time, whose clock was years ahead when it was used last
 * and is right now. Nobody is admitted, so that only timed work writes.
 */
static void test_F44_windows_end_although_no_boot_is_long(void **state)
{
    struct fixture *f = *state;
    struct reservation r;
    struct answer a;
    int64_t on_ms = 0;

    fake_now.wall_ms += YEARS_MS;
    add_limit(f, "day", SUBJECT_EVERYONE, UNIT_CALLS, "day", 1);
    assert_int_equal(ask(f, &a, &r), DECISION_ADMITTED);
    fake_now.wall_ms -= YEARS_MS;
    while (ask(f, &a, &r) == DECISION_REFUSED) {
        close_ledger(f);
        fake_now.boot_id[0]++;
        fake_now.boot_ms = 20000;
        fake_now.wall_ms += 21 * HOUR_MS;
        open_ledger(f);
        for (unsigned minute = 0; minute < 180; minute++) {
            assert_int_equal(ledger_maintain(f->ledger, &f->policy), ERROR_NONE);
            pass(60000);
        }
        on_ms += 3 * HOUR_MS;
        assert_true(on_ms <
                    3 * DAY_MS); /* twice the window, and a little that a boot's end takes */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_F44_whatever_the_clocks_do, begin, tear_down),
        cmocka_unit_test_setup_teardown(test_F44_windows_end_although_no_boot_is_long, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests_name("clock walk", tests, NULL, NULL);
}
