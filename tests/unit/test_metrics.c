/* The report as OpenMetrics: figures, their numbers, what has no sample, and how long it can be.
 * That it can be read is tested with a strict reader, end to end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/code.h"
#include "gateway/report.h"

#define N(a)  (sizeof(a) / sizeof((a)[0]))
#define SINCE 1796022000U

/* With the largest configuration and the largest figures; an answer of this size is no burden. */
#define LONGEST (48 * 1024)

static struct config config;
static struct report report;
static char text[2 * LONGEST];
static size_t n_text;

static bool keep(void *to, const void *bytes, size_t n)
{
    (void)to;
    assert_true(n_text + n < sizeof text);
    memcpy(text + n_text, bytes, n);
    n_text += n;
    return true;
}

static const char *render(void)
{
    struct sink s;

    n_text = 0;
    sink_to(&s, keep, NULL);
    metrics_text(&s, &report);
    assert_true(sink_end(&s));
    text[n_text] = '\0';
    return text;
}

static int fresh(void **state)
{
    (void)state;
    memset(&config, 0, sizeof config);
    memset(&report, 0, sizeof report);
    report.config = &config;
    config.n_models = 1;
    snprintf(config.models[0].alias, LEDGER_MODEL_MAX, "demo");
    return 0;
}

static struct limit *add_limit(const char *name, enum subject subject, enum unit unit,
                               uint64_t max)
{
    struct limit *l = &config.limits[config.n_limits++];

    snprintf(l->name, sizeof l->name, "%s", name);
    l->subject = subject;
    l->unit = unit;
    l->max = max;
    return l;
}

static struct limit_use *show(const struct limit *l)
{
    struct report_limit *to = &report.limits[report.n_limits++];

    to->limit = l;
    return &to->use;
}

/* A whole line of the text. */
static bool has(const char *line)
{
    size_t n = strlen(line);

    for (const char *at = strstr(text, line); at != NULL; at = strstr(at + 1, line))
        if ((at == text || at[-1] == '\n') && at[n] == '\n')
            return true;
    return false;
}

static void must_have(const char *const *lines, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!has(lines[i]))
            fail_msg("no line %s in\n%s", lines[i], text);
}

static void test_a_fresh_site_has_zeros_and_says_what_it_is(void **state)
{
    static const char *const lines[] = {
        "# TYPE pennygate_build info",
        "pennygate_build_info{version=\"" PENNYGATE_VERSION "\"} 1",
        "pennygate_admitted_total 0",
        "pennygate_refused_total{limit=\"(other)\"} 0",
        "pennygate_answers_total{code=\"ok\"} 0",
        "pennygate_answers_total{code=\"upstream_timeout\"} 0",
        "pennygate_decision_seconds_bucket{le=\"0.00005\"} 0",
        "pennygate_decision_seconds_bucket{le=\"1.0\"} 0",
        "pennygate_first_byte_seconds_bucket{le=\"0.05\"} 0",
        "pennygate_first_byte_seconds_bucket{le=\"120.0\"} 0",
        "pennygate_first_byte_seconds_bucket{le=\"+Inf\"} 0",
        "pennygate_first_byte_seconds_sum 0",
        "pennygate_paused 0",
        "pennygate_breaker_open{model=\"demo\"} 0",
        "# EOF",
    };

    (void)state;
    render();
    must_have(lines, N(lines));
    assert_string_equal(text + n_text - 7, "\n# EOF\n");
    assert_null(strstr(text, "_created"));                     /* it is not known since when */
    assert_null(strstr(text, "pennygate_cost_dollars_total")); /* nor what a call costs */
}

static void test_the_store_s_figures(void **state)
{
    static const char *const lines[] = {
        "pennygate_admitted_total 7",
        "pennygate_settled_total{kind=\"reported\"} 4",
        "pennygate_settled_total{kind=\"unknown\"} 2",
        "pennygate_settled_total{kind=\"given_back\"} 1",
        "pennygate_tokens_total{direction=\"input\"} 18446744073709551615",
        "pennygate_tokens_total{direction=\"output\"} 6",
        "# UNIT pennygate_cost_dollars dollars",
        "pennygate_cost_dollars_total 1234.00000005",
        "pennygate_open_streams 5",
        "pennygate_store_used_bytes 3000",
        "pennygate_store_size_bytes 9000",
        "pennygate_store_clock_ahead_seconds 61.5",
        "pennygate_paused 1",
        "pennygate_alerts_waiting 2",
    };

    (void)state;
    report.totals = (struct history_day){
        .admitted = 7,
        .settled = 4,
        .unknown = 2,
        .given_back = 1,
        .tokens_in = UINT64_MAX,
        .tokens_out = 6,
        .cost_nano = 1234000000050,
    };
    report.state = (struct ledger_state){
        .paused = true,
        .store_ms = 100061500,
        .clock_ms = 100000000,
        .open_streams = 5,
        .alerts = 2,
        .usage = {.map_bytes = 9000, .reached_bytes = 4000, .free_bytes = 1000},
    };
    render();
    must_have(lines, N(lines));
    report.state.clock_ms = report.state.store_ms + 5; /* behind: it will catch up by itself */
    render();
    must_have((const char *[]){"pennygate_store_clock_ahead_seconds 0"}, 1);
}

static void test_money_is_written_exactly(void **state)
{
    static const struct {
        uint64_t nano;
        const char *line;
    } rows[] = {
        {0, "pennygate_cost_dollars_total 0"},
        {1, "pennygate_cost_dollars_total 0.000000001"},
        {10, "pennygate_cost_dollars_total 0.00000001"},
        {500000000, "pennygate_cost_dollars_total 0.5"},
        {1000000000, "pennygate_cost_dollars_total 1"},
        {12000000000, "pennygate_cost_dollars_total 12"},
        {1999999999, "pennygate_cost_dollars_total 1.999999999"},
        {UINT64_MAX, "pennygate_cost_dollars_total 18446744073.709551615"},
    };

    (void)state;
    report.priced = true;
    for (size_t i = 0; i < N(rows); i++) {
        report.totals.cost_nano = rows[i].nano;
        render();
        must_have(&rows[i].line, 1);
    }
}

static void test_what_the_board_counts_says_since_when(void **state)
{
    static const char *const lines[] = {
        "pennygate_answers_total{code=\"ok\"} 9",
        "pennygate_answers_created{code=\"ok\"} 1796022000",
        "pennygate_answers_total{code=\"site_limit\"} 8",
        "pennygate_answers_total{code=\"busy\"} 4294967295",
        "pennygate_upstream_errors_total 4294967298",
        "pennygate_upstream_errors_created 1796022000",
        "pennygate_refused_created{limit=\"(other)\"} 1796022000",
        "pennygate_decision_seconds_created 1796022000",
        "pennygate_first_byte_seconds_created 1796022000",
    };

    (void)state;
    report.live.of[LIVE_SINCE] = SINCE;
    report.live.of[LIVE_CODES] = 9;
    report.live.of[LIVE_CODES + code_live(CODE_SITE_LIMIT)] = 8;
    report.live.of[LIVE_CODES + code_live(CODE_BUSY)] = UINT32_MAX;
    report.live.of[LIVE_CODES + code_live(CODE_UPSTREAM_PAUSED)] = 50;
    report.live.of[LIVE_CODES + code_live(CODE_UPSTREAM_REFUSED)] = UINT32_MAX;
    report.live.of[LIVE_CODES + code_live(CODE_UPSTREAM_TIMEOUT)] = 3;
    report.live.of[LIVE_DECISION - 1] = 50;     /* of no code yet */
    report.totals.figures[FIGURE_UPSTREAM] = 7; /* what is not in the store yet can be lost */
    render();
    must_have(lines, N(lines));
    assert_null(strstr(text, "pennygate_admitted_created")); /* the store's own */
}

static void test_histograms_are_cumulative_and_in_seconds(void **state)
{
    static const char *const lines[] = {
        "pennygate_decision_seconds_bucket{le=\"0.00005\"} 4294967295",
        "pennygate_decision_seconds_bucket{le=\"0.0001\"} 8589934590",
        "pennygate_decision_seconds_bucket{le=\"1.0\"} 8589934590",
        "pennygate_decision_seconds_bucket{le=\"+Inf\"} 8589934591",
        "pennygate_decision_seconds_count 8589934591",
        "pennygate_decision_seconds_sum 4294.967295",
        "pennygate_first_byte_seconds_bucket{le=\"0.05\"} 0",
        "pennygate_first_byte_seconds_bucket{le=\"+Inf\"} 1",
        "pennygate_first_byte_seconds_count 1",
        "pennygate_first_byte_seconds_sum 0.27",
    };

    (void)state;
    report.live.of[LIVE_DECISION] = UINT32_MAX; /* sums of them need more than 32 bits */
    report.live.of[LIVE_DECISION + 1] = UINT32_MAX;
    report.live.of[LIVE_DECISION + LIVE_BUCKETS - 1] = 1;
    report.live.of[LIVE_DECISION + LIVE_BUCKETS] = UINT32_MAX;
    report.live.of[LIVE_FIRST_BYTE + 3] = 1;
    report.live.of[LIVE_FIRST_BYTE + LIVE_BUCKETS] = 270;
    render();
    must_have(lines, N(lines));
}

static void test_limits_without_a_counter_are_one(void **state)
{
    (void)state;
    add_limit("site-day", SUBJECT_EVERYONE, UNIT_CALLS, 600);
    report.live.of[LIVE_LIMITS + 1] = 5; /* one that the configuration had once */
    report.live.of[LIVE_LIMITS + 2 * LIVE_LIMIT_SLOTS - 1] = 6;
    render();
    must_have((const char *[]){"pennygate_refused_total{limit=\"site-day\"} 0",
                               "pennygate_refused_total{limit=\"(other)\"} 6"},
              2);
}

static void test_limits_that_callers_share(void **state)
{
    static const char *const lines[] = {
        "pennygate_limit_used{limit=\"site-day\",unit=\"calls\"} 12",
        "pennygate_limit_reserved{limit=\"site-day\",unit=\"calls\"} 2",
        "pennygate_limit_max{limit=\"site-day\",unit=\"calls\"} 600",
        "pennygate_limit_used{limit=\"spend\",unit=\"dollars\"} 0.25",
        "pennygate_limit_max{limit=\"spend\",unit=\"dollars\"} 2",
        "pennygate_limit_max{limit=\"count\",unit=\"tokens\"} +Inf",
        "pennygate_limit_max{limit=\"bypass\",unit=\"calls\"} 20",
        "pennygate_dry_run_refused_today{limit=\"count\"} 3",
    };
    static struct report_dry dry[] = {{20001, "count", 1}, {20000, "count", 3}};

    (void)state;
    *show(add_limit("site-day", SUBJECT_EVERYONE, UNIT_CALLS, 600)) =
        (struct limit_use){.used = 12, .reserved = 2};
    add_limit("visitor-day", SUBJECT_ADDRESS, UNIT_CALLS, 40);
    *show(add_limit("spend", SUBJECT_ANONYMOUS, UNIT_COST, 2000000000)) =
        (struct limit_use){.used = 250000000};
    add_limit("count", SUBJECT_EVERYONE, UNIT_TOKENS, LIMIT_UNLIMITED)->dry_run = true;
    show(&config.limits[3]);
    show(add_limit("bypass", SUBJECT_BYPASS, UNIT_CALLS, 20));
    report.state.today = 20000;
    report.dry = dry;
    report.n_dry = N(dry);
    render();
    must_have(lines, N(lines));
    assert_null(strstr(text, "limit_used{limit=\"visitor-day\"")); /* one for each caller */
    assert_null(strstr(text, "today{limit=\"site-day\""));
}

static void test_models_are_known_by_their_alias(void **state)
{
    (void)state;
    config.n_models = 2;
    config.models[0].name = (char[]){"secret-large"};
    config.models[0].url = (char[]){"https://api.example/v1"};
    snprintf(config.models[1].alias, LEDGER_MODEL_MAX, "a\"b\\c\nd");
    report.models[1].breaker_wait_ms = 1;
    render();
    must_have((const char *[]){"pennygate_breaker_open{model=\"demo\"} 0",
                               "pennygate_breaker_open{model=\"a\\\"b\\\\c\\nd\"} 1"},
              2);
    assert_null(strstr(text, "secret-large"));
    assert_null(strstr(text, "api.example"));
}

static void test_callers_are_not_in_it(void **state)
{
    (void)state;
    report.n_top = 1;
    report.top[0] = (struct ledger_caller){.name = "0123456789abcdef"};
    render();
    assert_null(strstr(text, "0123456789abcdef"));
}

static void test_the_longest_is_bounded(void **state)
{
    char name[LIMIT_NAME_MAX];

    (void)state;
    memset(report.live.of, 0xff, sizeof report.live.of);
    memset(&report.totals, 0xff, sizeof report.totals);
    memset(&report.state.usage, 0xff, sizeof report.state.usage);
    for (unsigned i = 0; i < LIMITS_MAX; i++) {
        snprintf(name, sizeof name, "%02u-a-name-of-31-letters--------", i);
        add_limit(name, SUBJECT_EVERYONE, UNIT_COST, LIMIT_UNLIMITED - 1)->dry_run = true;
        *show(&config.limits[i]) =
            (struct limit_use){.used = UINT64_MAX - 1, .reserved = UINT64_MAX - 1};
    }
    config.n_models = CONFIG_MODELS_MAX;
    for (unsigned i = 0; i < CONFIG_MODELS_MAX; i++)
        memset(config.models[i].alias, 'm', LEDGER_MODEL_MAX - 1);
    render();
    assert_in_range(n_text, LONGEST / 4, LONGEST);
    assert_true(has("# EOF"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_fresh_site_has_zeros_and_says_what_it_is, fresh),
        cmocka_unit_test_setup(test_the_store_s_figures, fresh),
        cmocka_unit_test_setup(test_money_is_written_exactly, fresh),
        cmocka_unit_test_setup(test_what_the_board_counts_says_since_when, fresh),
        cmocka_unit_test_setup(test_histograms_are_cumulative_and_in_seconds, fresh),
        cmocka_unit_test_setup(test_limits_without_a_counter_are_one, fresh),
        cmocka_unit_test_setup(test_limits_that_callers_share, fresh),
        cmocka_unit_test_setup(test_models_are_known_by_their_alias, fresh),
        cmocka_unit_test_setup(test_callers_are_not_in_it, fresh),
        cmocka_unit_test_setup(test_the_longest_is_bounded, fresh),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
