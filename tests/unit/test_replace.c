/*
 * A reservation for one model replaced by one for another, whose worst case is another: what is
 * charged then, what a refusal leaves, and that the settle finds it whatever happened.
 */
#include "tests/unit/ledger_fixture.h"

#include <signal.h>
#include <sys/wait.h>

#define PAUSE_MS 60000

/* The demand at another model: `tokens`, and ten times as much cost. */
static struct demand at_other(const struct fixture *f, uint64_t tokens)
{
    struct demand d = f->demand;

    d.weights.of[UNIT_TOKENS] = tokens;
    d.weights.of[UNIT_COST] = 10 * tokens;
    d.tokens_in = tokens - 1;
    d.tokens_out = 1;
    snprintf(d.model, sizeof d.model, "other");
    return d;
}

static enum decision replace(struct fixture *f, uint64_t tokens, enum health h,
                             struct reservation *r)
{
    const struct settlement first = {
        .kind = SETTLE_UNKNOWN, /* must not matter */
        .health = h,
        .breaker_after = 3,
        .breaker_pause_ms = PAUSE_MS,
    };
    struct demand d = at_other(f, tokens);
    struct answer a;

    assert_int_equal(ledger_replace(f->ledger, &f->policy, &d, &first, &a, r), ERROR_NONE);
    return a.decision;
}

static int64_t breaker_of(struct fixture *f, const char *model)
{
    struct ledger_model m;

    assert_int_equal(ledger_model(f->ledger, model, &m), ERROR_NONE);
    return m.breaker_wait_ms;
}

static void see(void *arg, const struct history_day *d)
{
    *(struct history_day *)arg = *d;
}

static struct history_day today(struct fixture *f)
{
    struct history_day d = {0};

    assert_int_equal(ledger_history(f->ledger, &f->policy, 0, see, &d), ERROR_NONE);
    return d;
}

/* Two requests of 100 tokens and $1000 nano are reserved; the second goes to the other model. */
static const struct {
    const char *why;
    enum unit unit;
    uint64_t max, tokens;
    enum decision want;
    uint64_t then; /* of the limit's unit, right after it; the first request included */
} rows[] = {
    {"a dearer one that fits to the last token", UNIT_TOKENS, 350, 250, DECISION_ADMITTED, 350},
    {"a token more than fits", UNIT_TOKENS, 350, 251, DECISION_REFUSED, 100},
    {"one that could never fit", UNIT_TOKENS, 350, 351, DECISION_TOO_LONG, 100},
    {"a cheaper one gives back the difference", UNIT_TOKENS, 350, 10, DECISION_ADMITTED, 110},
    {"by cost, to the last nano", UNIT_COST, 3500, 250, DECISION_ADMITTED, 3500},
    {"a nano more", UNIT_COST, 3499, 250, DECISION_REFUSED, 1000},
    {"the call is one as before", UNIT_CALLS, 2, 250, DECISION_ADMITTED, 2},
    {"a limit that was lowered meanwhile", UNIT_CALLS, 1, 250, DECISION_REFUSED, 1},
};

static void f13_every_limit_is_asked_again(void **state)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(set_up(state), 0);
        struct fixture *f = *state;
        struct limit *l = add_limit(f, "site", SUBJECT_EVERYONE, rows[i].unit, "day", 10000);

        must_admit(f);
        struct reservation r = must_admit(f), before = r;
        l->max = rows[i].max;
        if (replace(f, rows[i].tokens, HEALTH_UNKNOWN, &r) != rows[i].want)
            fail_msg("%s", rows[i].why);
        if (used(f, 0) != rows[i].then)
            fail_msg("%s: %llu", rows[i].why, (unsigned long long)used(f, 0));
        assert_true(r.id == before.id && r.deadline_boot_ms == before.deadline_boot_ms);
        bool goes_on = rows[i].want == DECISION_ADMITTED;
        assert_string_equal(r.model, goes_on ? "other" : "demo");
        assert_int_equal(r.tokens_out, goes_on ? 1 : 40);
        settle(f, &r, SETTLE_NOTHING, 0, 0); /* of what is left: nothing, or the new one */
        settle(f, &before, SETTLE_NOTHING, 0, 0);
        uint64_t of_first[] = {1, 100, 1000};
        assert_int_equal(used(f, 0), of_first[rows[i].unit]);
        struct history_day d = today(f);
        assert_int_equal(d.admitted, 2);
        assert_int_equal(d.given_back, 1);
        assert_int_equal(tear_down(state), 0);
    }
}

static void f13_the_settle_is_that_of_the_second_call_and_happens_once(void **state)
{
    struct fixture *f = *state;

    add_limit(f, "tokens", SUBJECT_EVERYONE, UNIT_TOKENS, "day", 1000);
    add_limit(f, "mine", SUBJECT_ADDRESS, UNIT_TOKENS, "1h", 1000);
    struct reservation r = must_admit(f);
    assert_int_equal(replace(f, 250, HEALTH_UNKNOWN, &r), DECISION_ADMITTED);
    settle(f, &r, SETTLE_USAGE, 30, 300);
    settle(f, &r, SETTLE_USAGE, 30, 300);
    assert_int_equal(used(f, 0), 30);
    struct history_day d = today(f);
    assert_int_equal(d.admitted, 1);
    assert_int_equal(d.settled, 1);
    assert_int_equal(d.cost_nano, 300);

    r = must_admit(f);
    assert_int_equal(replace(f, 250, HEALTH_UNKNOWN, &r), DECISION_ADMITTED);
    settle(f, &r, SETTLE_UNKNOWN, 0, 0);
    assert_int_equal(used(f, 0), 30 + 250);
    assert_int_equal(today(f).cost_nano, 300 + 2500);
}

static void what_was_settled_or_has_ended_is_not_replaced(void **state)
{
    struct fixture *f = *state;
    const struct settlement first = {.health = HEALTH_UNKNOWN};
    struct demand d = at_other(f, 250);
    struct answer a;

    add_limit(f, "tokens", SUBJECT_EVERYONE, UNIT_TOKENS, "day", 1000);
    struct reservation settled = must_admit(f), ended = must_admit(f);
    settle(f, &settled, SETTLE_UNKNOWN, 0, 0);
    pass(f->demand.hold_ms + 1);
    must_admit(f); /* a write transaction erases what has ended */
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            ledger_replace(f->ledger, &f->policy, &d, &first, &a, i == 0 ? &settled : &ended),
            ERROR_NOT_FOUND);
    assert_int_equal(used(f, 0), 300);
}

/* Its own place is none that stands in its way, and it goes on holding it. */
static void f12_the_place_is_kept(void **state)
{
    struct fixture *f = *state;
    struct answer a;

    add_limit(f, "one", SUBJECT_ADDRESS, UNIT_CONCURRENT, NULL, 1);
    f->policy.site_streams = 1;
    struct reservation r = must_admit(f);
    assert_int_equal(replace(f, 250, HEALTH_UNKNOWN, &r), DECISION_ADMITTED);
    assert_int_equal(ask(f, &a, NULL), DECISION_REFUSED);
    settle(f, &r, SETTLE_UNKNOWN, 0, 0);
    r = must_admit(f);
    f->limits[0].max = 0;
    assert_int_equal(replace(f, 250, HEALTH_UNKNOWN, &r), DECISION_REFUSED);
    f->limits[0].max = 1;
    settle(f, &r, SETTLE_NOTHING, 0, 0);
    must_admit(f);
}

/* Each model has a breaker of its own, and each call is noted with its own. */
static void f46_each_breaker_hears_of_its_own_call(void **state)
{
    struct fixture *f = *state;
    struct reservation r = must_admit(f);

    assert_int_equal(replace(f, 250, HEALTH_REFUSED, &r), DECISION_ADMITTED);
    assert_int_equal(breaker_of(f, "demo"), PAUSE_MS);
    assert_int_equal(breaker_of(f, "other"), 0);
    const struct settlement failed = {.kind = SETTLE_UNKNOWN,
                                      .health = HEALTH_FAILED,
                                      .breaker_after = 1,
                                      .breaker_pause_ms = 2 * PAUSE_MS};
    assert_int_equal(ledger_settle(f->ledger, &r, &failed, true), ERROR_NONE);
    assert_int_equal(breaker_of(f, "demo"), PAUSE_MS);
    assert_int_equal(breaker_of(f, "other"), 2 * PAUSE_MS);
}

static void f46_an_open_breaker_takes_no_replacement(void **state)
{
    struct fixture *f = *state;
    const struct settlement refused = {
        .kind = SETTLE_NOTHING, .health = HEALTH_REFUSED, .breaker_pause_ms = PAUSE_MS};

    add_limit(f, "tokens", SUBJECT_EVERYONE, UNIT_TOKENS, "day", 1000);
    snprintf(f->demand.model, sizeof f->demand.model, "other");
    struct reservation r = must_admit(f);
    assert_int_equal(ledger_settle(f->ledger, &r, &refused, true), ERROR_NONE);
    snprintf(f->demand.model, sizeof f->demand.model, "demo");
    r = must_admit(f);
    assert_int_equal(replace(f, 250, HEALTH_FAILED, &r), DECISION_BREAKER);
    assert_int_equal(used(f, 0), 0);
    struct ledger_model m;
    assert_int_equal(ledger_model(f->ledger, "demo", &m), ERROR_NONE);
    assert_int_equal(m.failures, 1);
}

/* A probe of the first that is replaced is over; the replacement can be the other's. */
static void a_replacement_can_be_a_probe(void **state)
{
    struct fixture *f = *state;
    const struct settlement refused = {
        .kind = SETTLE_NOTHING, .health = HEALTH_REFUSED, .breaker_pause_ms = PAUSE_MS};
    const char *models[] = {"other", "demo"};
    struct reservation r;

    for (int i = 0; i < 2; i++) {
        snprintf(f->demand.model, sizeof f->demand.model, "%s", models[i]);
        r = must_admit(f);
        assert_int_equal(ledger_settle(f->ledger, &r, &refused, true), ERROR_NONE);
    }
    pass(PAUSE_MS);
    r = must_admit(f);
    assert_true(r.probe);
    assert_int_equal(replace(f, 250, HEALTH_FAILED, &r), DECISION_ADMITTED);
    assert_true(r.probe);
    assert_int_equal(breaker_of(f, "demo"), 2 * PAUSE_MS);
    assert_true(breaker_of(f, "other") > 0); /* this one tries */
    const struct settlement good = {.kind = SETTLE_UNKNOWN, .health = HEALTH_GOOD};
    assert_int_equal(ledger_settle(f->ledger, &r, &good, true), ERROR_NONE);
    assert_int_equal(breaker_of(f, "other"), 0);
    assert_int_equal(breaker_of(f, "demo"), 2 * PAUSE_MS);
}

/* Invariant 2: it is committed before the second call can begin, so a killed holder has paid. */
static void f12_a_killed_holder_has_paid_for_the_second_call(void **state)
{
    struct fixture *f = *state;
    int status;

    add_limit(f, "tokens", SUBJECT_EVERYONE, UNIT_TOKENS, "day", 1000);
    close_ledger(f);
    pid_t child = fork();
    if (child == 0) {
        struct reservation r;

        open_ledger(f);
        r = must_admit(f);
        if (replace(f, 250, HEALTH_UNKNOWN, &r) == DECISION_ADMITTED)
            raise(SIGKILL);
        _exit(1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    open_ledger(f);
    assert_int_equal(used(f, 0), 250);
    assert_int_equal(today(f).admitted, 1);
}

/* The hour has gone on to its next slot: what was charged goes back to its own. */
static void f43_a_replacement_is_charged_to_the_window_of_its_time(void **state)
{
    struct fixture *f = *state;

    add_limit(f, "day", SUBJECT_EVERYONE, UNIT_TOKENS, "day", 1000);
    pass(17 * HOUR_MS - 1000); /* 23:59:59 */
    struct reservation r = must_admit(f);
    pass(2000);
    assert_int_equal(replace(f, 250, HEALTH_UNKNOWN, &r), DECISION_ADMITTED);
    assert_int_equal(used(f, 0), 250);
    settle(f, &r, SETTLE_USAGE, 30, 300);
    assert_int_equal(used(f, 0), 30);
    struct history_day d = today(f); /* the last that was seen: the request's own */
    assert_int_equal(d.admitted, 1);
    assert_int_equal(d.settled, 1);
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f13_every_limit_is_asked_again),
        T(f13_the_settle_is_that_of_the_second_call_and_happens_once),
        T(what_was_settled_or_has_ended_is_not_replaced),
        T(f12_the_place_is_kept),
        T(f46_each_breaker_hears_of_its_own_call),
        T(f46_an_open_breaker_takes_no_replacement),
        T(a_replacement_can_be_a_probe),
        T(f12_a_killed_holder_has_paid_for_the_second_call),
        T(f43_a_replacement_is_charged_to_the_window_of_its_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
