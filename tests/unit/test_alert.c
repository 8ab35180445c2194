/* What the owner is told: queued once, by the transaction that has the reason, and handed out
 * until it is delivered or nobody can want it any more. */
#include "tests/unit/ledger_fixture.h"

#include <sys/wait.h>

#include "store/kv.h"
#include "store/record.h"

#define LEASE_MS 60000

static struct fixture *with_thresholds(void **state, uint8_t first, uint8_t second)
{
    struct fixture *f = *state;

    f->policy.alert_deliver = true;
    f->policy.n_alert_at = 0;
    if (first > 0)
        f->policy.alert_at[f->policy.n_alert_at++] = first;
    if (second > 0)
        f->policy.alert_at[f->policy.n_alert_at++] = second;
    return f;
}

static enum error take(struct fixture *f, struct ledger_alert *out)
{
    memset(out, 0, sizeof *out);
    return ledger_alert_take(f->ledger, &f->policy, LEASE_MS, out);
}

static void done(struct fixture *f, const struct ledger_alert *a, bool delivered,
                 int64_t retry_ms)
{
    assert_int_equal(ledger_alert_done(f->ledger, &f->policy, a, delivered, retry_ms),
                     ERROR_NONE);
}

/* Delivers all that is due: "site 80, bound_exceeded demo". */
static const char *deliver_all(struct fixture *f)
{
    static char text[4096];
    struct ledger_alert a;
    size_t n = 0;

    text[0] = '\0';
    while (take(f, &a) == ERROR_NONE) {
        const char *comma = n > 0 ? ", " : "";

        if (a.kind == ALERT_THRESHOLD)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s %u", comma, a.name,
                                  a.percent);
        else
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s %s", comma,
                                  alert_kind_name(a.kind), a.name);
        assert_true(n < sizeof text);
        done(f, &a, true, 0);
    }
    return text;
}

/* A call that has ended, and used all that it could. */
static void spend(struct fixture *f)
{
    struct reservation r = must_admit(f);

    settle(f, &r, SETTLE_UNKNOWN, 0, 0);
}

static void spend_times(struct fixture *f, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        spend(f);
}

/* Rows of the store with this prefix, in a moment in which nobody has it open. */
static unsigned count_rows(struct fixture *f, const struct row_key *prefix)
{
    struct kv *kv = NULL;
    struct kv_txn *t = NULL;
    struct kv_cursor *c;
    struct kv_slice key, value;
    unsigned n = 0;

    close_ledger(f);
    assert_int_equal(kv_open(f->dir, f->options.map_bytes, &kv), ERROR_NONE);
    assert_int_equal(kv_begin_read(kv, &t), ERROR_NONE);
    assert_int_equal(kv_cursor_open(t, &c), ERROR_NONE);
    enum error e = kv_cursor_seek(c, prefix->bytes, prefix->n, &key, &value);
    for (; e == ERROR_NONE && key.n >= prefix->n &&
           memcmp(key.data, prefix->bytes, prefix->n) == 0;
         e = kv_cursor_next(c, &key, &value))
        n++;
    kv_cursor_close(c);
    kv_end_read(t);
    kv_free_read(t);
    kv_close(kv);
    open_ledger(f);
    return n;
}

static unsigned count_flags(struct fixture *f)
{
    struct row_key prefix;

    key_alert_flags(&prefix);
    return count_rows(f, &prefix);
}

static unsigned count_queue(struct fixture *f)
{
    struct row_key prefix;

    key_table(TABLE_ALERT, &prefix);
    return count_rows(f, &prefix);
}

/* ---- thresholds ---- */

#define BIG (LIMIT_UNLIMITED - 1)

static const struct {
    const char *what;
    enum subject subject;
    enum unit unit;
    uint64_t max;
    bool dry_run;
    bool account; /* the caller is not anonymous */
    uint8_t at[2];
    unsigned calls; /* of 100 tokens, 1000 nano-dollars each */
    const char *told;
} THRESHOLDS[] = {
    {"below it nothing", SUBJECT_EVERYONE, UNIT_CALLS, 10, false, false, {80, 0}, 7, ""},
    {"reached exactly", SUBJECT_EVERYONE, UNIT_CALLS, 10, false, false, {80, 0}, 8, "it 80"},
    {"rounded up", SUBJECT_EVERYONE, UNIT_CALLS, 7, false, false, {50, 0}, 3, ""},
    {"rounded up, reached", SUBJECT_EVERYONE, UNIT_CALLS, 7, false, false, {50, 0}, 4, "it 50"},
    {"two, one after the other",
     SUBJECT_EVERYONE,
     UNIT_CALLS,
     10,
     false,
     false,
     {50, 100},
     10,
     "it 50, it 100"},
    {"two at once: the higher",
     SUBJECT_EVERYONE,
     UNIT_TOKENS,
     100,
     false,
     false,
     {50, 100},
     1,
     "it 100"},
    {"tokens", SUBJECT_EVERYONE, UNIT_TOKENS, 1000, false, false, {80, 0}, 8, "it 80"},
    {"cost", SUBJECT_EVERYONE, UNIT_COST, 10000, false, false, {80, 0}, 8, "it 80"},
    {"what the next would not fit into is spent",
     SUBJECT_EVERYONE,
     UNIT_COST,
     9999,
     false,
     false,
     {95, 100},
     9,
     "it 100"},
    {"what it would just fit into is not",
     SUBJECT_EVERYONE,
     UNIT_COST,
     10000,
     false,
     false,
     {95, 100},
     9,
     ""},
    {"the anonymous", SUBJECT_ANONYMOUS, UNIT_CALLS, 4, false, false, {50, 0}, 2, "it 50"},
    {"an account is not anonymous",
     SUBJECT_ANONYMOUS,
     UNIT_CALLS,
     4,
     false,
     true,
     {50, 0},
     4,
     ""},
    {"one address", SUBJECT_ADDRESS, UNIT_CALLS, 4, false, false, {50, 0}, 4, ""},
    {"a dry run", SUBJECT_EVERYONE, UNIT_CALLS, 4, true, false, {50, 0}, 4, ""},
    {"no max", SUBJECT_EVERYONE, UNIT_CALLS, LIMIT_UNLIMITED, false, false, {1, 0}, 4, ""},
    {"a max whose percentages wrap",
     SUBJECT_EVERYONE,
     UNIT_COST,
     BIG,
     false,
     false,
     {1, 99},
     4,
     ""},
    {"off", SUBJECT_EVERYONE, UNIT_CALLS, 4, false, false, {0, 0}, 4, ""},
    {"no percentage above 100",
     SUBJECT_EVERYONE,
     UNIT_CALLS,
     4,
     false,
     false,
     {101, 255},
     4,
     ""},
};

static void a_threshold_is_told_when_it_is_reached(void **state)
{
    for (size_t i = 0; i < sizeof THRESHOLDS / sizeof *THRESHOLDS; i++) {
        set_up(state);
        struct fixture *f = with_thresholds(state, THRESHOLDS[i].at[0], THRESHOLDS[i].at[1]);
        struct limit *l = add_limit(f, "it", THRESHOLDS[i].subject, THRESHOLDS[i].unit, "day",
                                    THRESHOLDS[i].max);

        l->dry_run = THRESHOLDS[i].dry_run;
        f->demand.caller.anonymous = !THRESHOLDS[i].account;
        spend_times(f, THRESHOLDS[i].calls);
        const char *told = deliver_all(f);
        if (strcmp(told, THRESHOLDS[i].told) != 0)
            fail_msg("%s: \"%s\"", THRESHOLDS[i].what, told);
        tear_down(state);
    }
}

/* Not even a limit of nothing, of which every percentage is reached. */
static void a_limit_of_0_is_never_told(void **state)
{
    struct fixture *f = with_thresholds(state, 1, 100);
    struct answer a;
    struct reservation r;

    add_limit(f, "nothing", SUBJECT_EVERYONE, UNIT_CALLS, "day", 0);
    assert_int_equal(ask(f, &a, &r), DECISION_REFUSED);
    assert_int_equal(ledger_reserve(f->ledger, &f->policy, &f->demand, &a, &r), ERROR_NONE);
    assert_string_equal(deliver_all(f), "");
}

/* F14: sits above a threshold for long, and falls below it in between. */
static void f14_one_alert_per_threshold_and_window(void **state)
{
    struct fixture *f = with_thresholds(state, 50, 80);

    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_TOKENS, "day", 10000);
    f->demand.weights.of[UNIT_TOKENS] = 7900;
    spend(f);
    assert_string_equal(deliver_all(f), "site 50");
    f->demand.weights.of[UNIT_TOKENS] = 200;
    spend(f);
    assert_string_equal(deliver_all(f), "site 80");
    for (int i = 0; i < 100; i++) { /* 83 %, and back to 81 % */
        struct reservation r = must_admit(f);

        settle(f, &r, SETTLE_NOTHING, 0, 0);
    }
    assert_string_equal(deliver_all(f), "");
    reopen(f); /* what has been told is in the store */
    spend(f);
    assert_string_equal(deliver_all(f), "");
}

/* ---- what is under way ---- */

static struct reservation reserve_of(struct fixture *f, uint64_t tokens)
{
    f->demand.weights.of[UNIT_TOKENS] = tokens;
    return must_admit(f);
}

/* It may use next to nothing of it, and the flag would hide the real crossing. */
static void what_a_call_can_cost_at_most_is_no_use(void **state)
{
    struct fixture *f = with_thresholds(state, 80, 100);

    add_limit(f, "spend", SUBJECT_EVERYONE, UNIT_TOKENS, "day", 10000);
    struct reservation r = reserve_of(f, 6010);
    assert_string_equal(deliver_all(f), "");
    settle(f, &r, SETTLE_USAGE, 10, 0);
    assert_string_equal(deliver_all(f), "");
    r = reserve_of(f, 8500);
    settle(f, &r, SETTLE_USAGE, 8000, 0);
    assert_string_equal(deliver_all(f), "spend 100"); /* another like it would not fit */
}

/* Each row: other calls of 1000 tokens are open while one of 1000 ends. */
static const struct {
    const char *what;
    uint64_t before; /* used and settled */
    unsigned open;
    uint64_t real;
    const char *told;
} UNDER_WAY[] = {
    {"what is open does not count", 0, 8, 900, ""},
    {"below it although with what is open it is above", 7000, 1, 900, ""},
    {"reached without what is open", 7000, 1, 1000, "it 80"},
    {"another like it would just fit", 8500, 0, 500, "it 80"},
    {"and would not", 8500, 0, 501, "it 100"},
    {"beside what is open it would not, but that may come back", 6500, 2, 501, ""},
    {"what came to nothing reaches nothing", 7999, 0, 0, ""},
};

static void a_threshold_is_judged_on_what_is_settled(void **state)
{
    for (size_t i = 0; i < sizeof UNDER_WAY / sizeof *UNDER_WAY; i++) {
        set_up(state);
        struct fixture *f = with_thresholds(state, 0, 0);
        struct reservation r;

        add_limit(f, "it", SUBJECT_EVERYONE, UNIT_TOKENS, "day", 10000);
        if (UNDER_WAY[i].before > 0) {
            r = reserve_of(f, UNDER_WAY[i].before);
            settle(f, &r, SETTLE_UNKNOWN, 0, 0);
        }
        for (unsigned k = 0; k < UNDER_WAY[i].open; k++)
            (void)reserve_of(f, 1000);
        (void)with_thresholds(state, 80, 100);
        r = reserve_of(f, 1000);
        settle(f, &r, SETTLE_USAGE, UNDER_WAY[i].real, 0);
        const char *told = deliver_all(f);
        if (strcmp(told, UNDER_WAY[i].told) != 0)
            fail_msg("%s: \"%s\"", UNDER_WAY[i].what, told);
        tear_down(state);
    }
}

/* Whose process has died stays charged in full, and nobody may be admitted who would find it. */
static void what_ends_without_a_settle_is_told_by_timed_work(void **state)
{
    struct fixture *f = with_thresholds(state, 80, 0);

    add_limit(f, "it", SUBJECT_EVERYONE, UNIT_TOKENS, "day", 10000);
    (void)reserve_of(f, 8000);
    struct reservation r = reserve_of(f, 100);
    settle(f, &r, SETTLE_USAGE, 10, 0);
    assert_string_equal(deliver_all(f), "");
    pass(f->demand.hold_ms + 1);
    assert_int_equal(ledger_maintain(f->ledger, &f->policy), ERROR_NONE);
    assert_string_equal(deliver_all(f), "it 80");
}

/* Its weight says nothing of what the anonymous could still ask. */
static void a_call_of_an_account_does_not_spend_what_the_anonymous_have(void **state)
{
    struct fixture *f = with_thresholds(state, 100, 0);

    add_limit(f, "it", SUBJECT_ANONYMOUS, UNIT_TOKENS, "day", 1000);
    f->demand.caller.anonymous = false;
    struct reservation r = reserve_of(f, 5000);
    settle(f, &r, SETTLE_UNKNOWN, 0, 0);
    assert_string_equal(deliver_all(f), "");
    f->demand.caller.anonymous = true;
    r = reserve_of(f, 501);
    settle(f, &r, SETTLE_UNKNOWN, 0, 0);
    assert_string_equal(deliver_all(f), "it 100");
}

/* The configuration may have changed since the call was admitted. */
static void a_settle_goes_by_the_limits_last_seen(void **state)
{
    struct fixture *f = with_thresholds(state, 80, 0);
    struct limit *l = add_limit(f, "it", SUBJECT_EVERYONE, UNIT_TOKENS, "day", 1000);
    struct reservation first = reserve_of(f, 400), second;

    l->max = 500;
    second = reserve_of(f, 10);
    settle(f, &first, SETTLE_UNKNOWN, 0, 0);
    assert_string_equal(deliver_all(f), "it 80");
    f->policy.n_limits = 0;
    (void)reserve_of(f, 10);
    settle(f, &second, SETTLE_UNKNOWN, 0, 0);
    assert_string_equal(deliver_all(f), "");
}

static void each_window_is_told_of_anew(void **state)
{
    struct fixture *f = with_thresholds(state, 80, 0);

    add_limit(f, "day", SUBJECT_EVERYONE, UNIT_CALLS, "day", 10);
    add_limit(f, "sliding", SUBJECT_EVERYONE, UNIT_CALLS, "1h", 5);
    spend_times(f, 4);
    assert_string_equal(deliver_all(f), "sliding 80");
    pass(HOUR_MS - 1);
    spend(f); /* the hour is full to the last moment of it */
    assert_string_equal(deliver_all(f), "");
    pass(HOUR_MS);
    spend_times(f, 4);
    assert_string_equal(deliver_all(f), "day 80, sliding 80");
    pass(DAY_MS);
    spend_times(f, 5);
    assert_string_equal(deliver_all(f), "sliding 80");
    pass(2 * HOUR_MS);
    spend_times(f, 3);
    assert_string_equal(deliver_all(f), "day 80");
}

static void a_changed_limit_of_the_same_name_is_told_of_anew(void **state)
{
    struct fixture *f = with_thresholds(state, 50, 0);
    struct limit *l = add_limit(f, "site", SUBJECT_EVERYONE, UNIT_CALLS, "day", 4);

    spend_times(f, 2);
    assert_string_equal(deliver_all(f), "site 50");
    l->max = 6;
    spend(f);
    assert_string_equal(deliver_all(f), "site 50");
    l->unit = UNIT_TOKENS;
    l->max = 800;
    spend(f);
    assert_string_equal(deliver_all(f), "site 50");
    assert_true(window_parse("month", &l->window));
    l->max = 200;
    spend(f);
    assert_string_equal(deliver_all(f), "site 50");
    spend(f);
    assert_string_equal(deliver_all(f), "");
}

static void a_lower_threshold_that_is_new_says_nothing_new(void **state)
{
    struct fixture *f = with_thresholds(state, 80, 0);

    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_CALLS, "day", 10);
    spend_times(f, 8);
    assert_string_equal(deliver_all(f), "site 80");
    (void)with_thresholds(state, 50, 80);
    spend(f);
    assert_string_equal(deliver_all(f), "");
}

static void a_refusal_tells_and_writes_nothing(void **state)
{
    struct fixture *f = with_thresholds(state, 50, 0);
    struct answer a;
    struct reservation r;

    add_limit(f, "mine", SUBJECT_ADDRESS, UNIT_CALLS, "day", 1);
    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_CALLS, "day", 4);
    spend(f);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(ledger_reserve(f->ledger, &f->policy, &f->demand, &a, &r), ERROR_NONE);
        assert_int_equal(a.decision, DECISION_REFUSED);
    }
    assert_string_equal(deliver_all(f), "");
}

/* ---- events ---- */

static void settle_over(struct fixture *f)
{
    struct reservation r = must_admit(f);
    struct settlement s = {.kind = SETTLE_USAGE,
                           .real = {{1, 200, 2000}},
                           .tokens_in = 160,
                           .tokens_out = 40,
                           .input_over = 100,
                           .overhead_max = 1000};

    assert_int_equal(ledger_settle(f->ledger, &r, &s, true), ERROR_NONE);
}

static void bound_exceeded_is_told_once_per_model_and_day(void **state)
{
    struct fixture *f = with_thresholds(state, 80, 0);

    settle_over(f);
    settle_over(f);
    assert_string_equal(deliver_all(f), "bound_exceeded demo");
    snprintf(f->demand.model, sizeof f->demand.model, "other");
    settle_over(f);
    assert_string_equal(deliver_all(f), "bound_exceeded other");
    pass(DAY_MS);
    settle_over(f);
    assert_string_equal(deliver_all(f), "bound_exceeded other");
    f->policy.n_alert_at = 0;
    pass(DAY_MS);
    settle_over(f);
    assert_string_equal(deliver_all(f), "");
}

/* A call with an end that says something of the API; its breaker opens after two failures. */
static void call(struct fixture *f, enum health health)
{
    struct reservation r = must_admit(f);
    struct settlement s = {
        .kind = SETTLE_NOTHING, .health = health, .breaker_after = 2, .breaker_pause_ms = 1000};

    assert_int_equal(ledger_settle(f->ledger, &r, &s, true), ERROR_NONE);
}

/* F46: the owner hears of it, and not with every probe of the open breaker. */
static void f46_an_api_that_refuses_us_is_told_once_per_model_and_day(void **state)
{
    struct fixture *f = with_thresholds(state, 80, 0);

    call(f, HEALTH_REFUSED);
    assert_string_equal(deliver_all(f), "upstream_refused demo");
    for (int i = 0; i < 3; i++) {
        pass(HOUR_MS);
        call(f, HEALTH_REFUSED);
    }
    pass(HOUR_MS);
    call(f, HEALTH_GOOD);
    call(f, HEALTH_REFUSED);
    assert_string_equal(deliver_all(f), "");
    snprintf(f->demand.model, sizeof f->demand.model, "other");
    call(f, HEALTH_REFUSED);
    assert_string_equal(deliver_all(f), "upstream_refused other");
    pass(DAY_MS);
    call(f, HEALTH_REFUSED);
    assert_string_equal(deliver_all(f), "upstream_refused other");
}

/* A 403 can be our key or one caller's prompt: the owner hears of it, and no more. */
static void f46_what_may_be_our_key_is_told_at_once(void **state)
{
    struct fixture *f = with_thresholds(state, 80, 0);

    call(f, HEALTH_DENIED);
    assert_string_equal(deliver_all(f), "upstream_refused demo");
    for (int i = 0; i < 5; i++) /* a filter's, perhaps: it is told once and keeps nobody out */
        call(f, HEALTH_DENIED);
    assert_string_equal(deliver_all(f), "");
}

/* Callers who know how to make the API fail must not fill the owner's hook. */
static void a_breaker_is_told_of_once_per_model_and_day(void **state)
{
    struct fixture *f = with_thresholds(state, 80, 0);

    call(f, HEALTH_FAILED);
    assert_string_equal(deliver_all(f), "");
    call(f, HEALTH_FAILED);
    assert_string_equal(deliver_all(f), "breaker_open demo");
    pass(HOUR_MS);
    call(f, HEALTH_FAILED); /* the probe: it stays open */
    assert_string_equal(deliver_all(f), "");
    pass(HOUR_MS);
    call(f, HEALTH_GOOD);
    call(f, HEALTH_FAILED);
    call(f, HEALTH_FAILED); /* it opens anew */
    assert_string_equal(deliver_all(f), "");
    snprintf(f->demand.model, sizeof f->demand.model, "other");
    call(f, HEALTH_FAILED);
    call(f, HEALTH_FAILED);
    assert_string_equal(deliver_all(f), "breaker_open other");
    snprintf(f->demand.model, sizeof f->demand.model, "demo");
    pass(DAY_MS);
    call(f, HEALTH_GOOD);
    call(f, HEALTH_FAILED);
    call(f, HEALTH_FAILED);
    assert_string_equal(deliver_all(f), "breaker_open demo");
    pass(DAY_MS);
    f->policy.n_alert_at = 0;
    pass(HOUR_MS);
    call(f, HEALTH_GOOD);
    call(f, HEALTH_REFUSED);
    assert_string_equal(deliver_all(f), "");
}

/* ---- the queue ---- */

static struct fixture *with_one_alert(void **state)
{
    struct fixture *f = with_thresholds(state, 50, 0);

    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_CALLS, "day", 2);
    spend(f);
    return f;
}

static void nobody_else_gets_it_while_it_is_being_delivered(void **state)
{
    struct fixture *f = with_one_alert(state);
    struct ledger_alert a, again;
    struct ledger_state s;

    assert_int_equal(take(f, &a), ERROR_NONE);
    assert_int_equal(ledger_state(f->ledger, &f->policy, &s), ERROR_NONE);
    assert_int_equal(s.alerts, 1); /* it waits until it is delivered */
    assert_int_equal(a.kind, ALERT_THRESHOLD);
    assert_string_equal(a.name, "site");
    assert_int_equal(a.percent, 50);
    assert_int_equal(a.time_s, START_MS / 1000);
    assert_int_equal(a.attempts, 1);
    assert_int_equal(take(f, &again), ERROR_NOT_FOUND);
    pass(LEASE_MS - 1);
    assert_int_equal(take(f, &again), ERROR_NOT_FOUND);
    pass(1); /* whoever had it has died */
    assert_int_equal(take(f, &again), ERROR_NONE);
    assert_int_equal(again.id, a.id);
    assert_int_equal(again.attempts, 2);
    assert_int_equal(again.time_s, START_MS / 1000);
    done(f, &again, true, 0);
    pass(DAY_MS);
    assert_int_equal(take(f, &again), ERROR_NOT_FOUND);
    assert_int_equal(count_queue(f), 0);
}

static void what_was_not_delivered_is_due_again_after_a_while(void **state)
{
    struct fixture *f = with_one_alert(state);
    struct ledger_alert a;

    assert_int_equal(take(f, &a), ERROR_NONE);
    done(f, &a, false, 30000);
    pass(29999);
    assert_int_equal(take(f, &a), ERROR_NOT_FOUND);
    pass(1);
    assert_int_equal(take(f, &a), ERROR_NONE);
    assert_int_equal(a.attempts, 2);
    done(f, &a, true, 0);
    done(f, &a, true, 0); /* marked twice: nothing happens */
}

static void a_late_failure_does_not_take_it_from_another(void **state)
{
    struct fixture *f = with_one_alert(state);
    struct ledger_alert slow, quick, third;

    assert_int_equal(take(f, &slow), ERROR_NONE);
    pass(LEASE_MS);
    assert_int_equal(take(f, &quick), ERROR_NONE);
    done(f, &slow, false, 0);
    assert_int_equal(take(f, &third), ERROR_NOT_FOUND);
    done(f, &quick, true, 0);
    assert_int_equal(count_queue(f), 0);
}

static void looking_for_one_writes_nothing(void **state)
{
    struct fixture *f = with_thresholds(state, 50, 0);
    struct ledger_state before, after;
    struct ledger_alert a;

    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_CALLS, "day", 10);
    spend(f);
    assert_int_equal(ledger_state(f->ledger, &f->policy, &before), ERROR_NONE);
    pass(5000);
    for (int i = 0; i < 10; i++)
        assert_int_equal(take(f, &a), ERROR_NOT_FOUND);
    assert_int_equal(ledger_state(f->ledger, &f->policy, &after), ERROR_NONE);
    assert_int_equal(after.alerts, 0);
    assert_int_equal(after.usage.reached_bytes, before.usage.reached_bytes);
    assert_int_equal(after.usage.free_bytes, before.usage.free_bytes);
}

static void it_is_given_up_after_three_days(void **state)
{
    struct fixture *f = with_one_alert(state);
    struct ledger_alert a;

    for (int64_t tried = 0; tried < 3 * DAY_MS; tried += HOUR_MS) {
        assert_int_equal(take(f, &a), ERROR_NONE);
        done(f, &a, false, HOUR_MS);
        pass(HOUR_MS);
    }
    assert_int_equal(take(f, &a), ERROR_NONE);
    done(f, &a, false, HOUR_MS);
    assert_int_equal(count_queue(f), 0);
}

static void nothing_stays_that_nobody_delivers(void **state)
{
    struct fixture *f = with_one_alert(state);

    pass(3 * DAY_MS - 1);
    assert_int_equal(ledger_maintain(f->ledger, &f->policy), ERROR_NONE);
    assert_int_equal(count_queue(f), 1);
    assert_int_equal(count_flags(f), 0); /* its day has ended */
    pass(1);
    assert_int_equal(ledger_maintain(f->ledger, &f->policy), ERROR_NONE);
    assert_int_equal(count_queue(f), 0);
}

/* A clock that jumps makes nothing old. */
static void f44_a_jump_of_the_clock_gives_nothing_up(void **state)
{
    struct fixture *f = with_one_alert(state);
    struct ledger_alert a;

    fake_now.wall_ms += 400 * DAY_MS;
    assert_int_equal(ledger_maintain(f->ledger, &f->policy), ERROR_NONE);
    assert_int_equal(take(f, &a), ERROR_NONE);
    done(f, &a, false, 1000);
    pass(1000);
    assert_int_equal(take(f, &a), ERROR_NONE);
    assert_int_equal(a.attempts, 2);
}

static void it_is_found_again_after_a_reset_of_the_clock(void **state)
{
    struct fixture *f;
    struct ledger_alert a;

    (void)*state;
    f = *state;
    fake_now.wall_ms += 400 * DAY_MS;
    f = with_one_alert(state);
    assert_int_equal(take(f, &a), ERROR_NONE);
    fake_now.wall_ms -= 400 * DAY_MS;
    assert_int_equal(ledger_clock_reset(f->ledger, &f->policy), ERROR_NONE);
    assert_int_equal(count_flags(f), 0);
    assert_int_equal(take(f, &a), ERROR_NONE);
    done(f, &a, true, 0);
    spend(f); /* the window is another one */
    assert_string_equal(deliver_all(f), "site 50");
}

static void the_queue_and_the_flags_are_bounded(void **state)
{
    struct fixture *f = with_thresholds(state, 1, 0);
    struct limit *l = add_limit(f, "site", SUBJECT_EVERYONE, UNIT_CALLS, "day", 1000);

    spend_times(f, 10);
    for (unsigned i = 0; i < 100; i++) { /* a configuration that names it anew each time */
        snprintf(l->name, sizeof l->name, "site-%u", i);
        spend(f);
    }
    assert_int_equal(count_queue(f), 64);
    assert_int_equal(count_flags(f), 1);
    assert_int_equal(strncmp(deliver_all(f), "site 1, site-0 1, site-1 1", 26), 0);
    l->max = 500; /* and there is room again */
    spend(f);
    assert_string_equal(deliver_all(f), "site-99 1");
}

static void what_is_queued_and_flagged_is_known_to_the_walk(void **state)
{
    struct fixture *f = with_one_alert(state);
    char note[128];

    close_ledger(f);
    snprintf(note, sizeof note, "%s/run/walked", f->dir);
    assert_int_equal(unlink(note), 0); /* the next opening walks all rows */
    open_ledger(f);
    assert_string_equal(deliver_all(f), "site 50");
}

/* ---- over all processes ---- */

#define PROCESSES 4
#define EACH      25

/* In a child: nothing of cmocka's, which would run the parent's tests on. */
static _Noreturn void child(struct fixture *f, int write_fd)
{
    struct answer a;
    struct reservation r;
    struct ledger_alert alert;
    const struct settlement unknown = {.kind = SETTLE_UNKNOWN};
    bool ok = ledger_open(&f->options, false, &f->ledger) == ERROR_NONE;

    for (unsigned i = 0; ok && i < EACH; i++) {
        enum error e;

        while ((e = ledger_reserve(f->ledger, &f->policy, &f->demand, &a, &r)) == ERROR_BUSY)
            continue;
        ok = e == ERROR_NONE && ledger_settle(f->ledger, &r, &unknown, true) == ERROR_NONE;
        while (ok && ledger_alert_take(f->ledger, &f->policy, LEASE_MS, &alert) == ERROR_NONE) {
            char line = (char)alert.percent;

            ok = write(write_fd, &line, 1) == 1 &&
                 ledger_alert_done(f->ledger, &f->policy, &alert, true, 0) == ERROR_NONE;
        }
    }
    ok = ok && ledger_close(f->ledger, 60000);
    _exit(ok ? 0 : 1);
}

static void f14_one_alert_over_all_processes(void **state)
{
    struct fixture *f = with_thresholds(state, 50, 80);
    unsigned told[256] = {0};
    pid_t pid[PROCESSES];
    unsigned char line;
    int fd[2];

    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_CALLS, "day", PROCESSES * EACH + 5);
    close_ledger(f);
    assert_int_equal(pipe(fd), 0);
    for (unsigned i = 0; i < PROCESSES; i++)
        if ((pid[i] = fork()) == 0)
            child(f, fd[1]);
    close(fd[1]);
    while (read(fd[0], &line, 1) == 1)
        told[line]++;
    close(fd[0]);
    for (unsigned i = 0; i < PROCESSES; i++) {
        int status;

        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    open_ledger(f);
    assert_int_equal(told[50], 1);
    assert_int_equal(told[80], 1);
    assert_string_equal(deliver_all(f), "");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_threshold_is_told_when_it_is_reached),
        T(a_limit_of_0_is_never_told),
        T(f14_one_alert_per_threshold_and_window),
        T(what_a_call_can_cost_at_most_is_no_use),
        cmocka_unit_test(a_threshold_is_judged_on_what_is_settled),
        T(what_ends_without_a_settle_is_told_by_timed_work),
        T(a_call_of_an_account_does_not_spend_what_the_anonymous_have),
        T(a_settle_goes_by_the_limits_last_seen),
        T(each_window_is_told_of_anew),
        T(a_changed_limit_of_the_same_name_is_told_of_anew),
        T(a_lower_threshold_that_is_new_says_nothing_new),
        T(a_refusal_tells_and_writes_nothing),
        T(bound_exceeded_is_told_once_per_model_and_day),
        T(f46_an_api_that_refuses_us_is_told_once_per_model_and_day),
        T(f46_what_may_be_our_key_is_told_at_once),
        T(a_breaker_is_told_of_once_per_model_and_day),
        T(nobody_else_gets_it_while_it_is_being_delivered),
        T(what_was_not_delivered_is_due_again_after_a_while),
        T(a_late_failure_does_not_take_it_from_another),
        T(looking_for_one_writes_nothing),
        T(it_is_given_up_after_three_days),
        T(nothing_stays_that_nobody_delivers),
        T(f44_a_jump_of_the_clock_gives_nothing_up),
        T(it_is_found_again_after_a_reset_of_the_clock),
        T(the_queue_and_the_flags_are_bounded),
        T(what_is_queued_and_flagged_is_known_to_the_walk),
        T(f14_one_alert_over_all_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
