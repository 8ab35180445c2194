/* The report's outputs, of reports made by hand: JSON that a strict parser takes, CSV, and tables
 * that keep to 80 columns with the longest names and the largest amounts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/report.h"

#define TODAY     20787 /* 2026-11-30 */
#define LONG_NAME "a-name-of-thirty-one-letters-xy"
#define MOST      1000000000000000ULL
#define MONEY     (MOST + 1) /* $1000000.000000001 */

static struct config config;
static struct report report;
static struct history_day days[3];
static struct report_dry dry[2];

struct text {
    char bytes[65536];
    size_t n;
};
static struct text text;

static bool keep(void *to, const void *bytes, size_t n)
{
    struct text *t = to;

    assert_true(n > 0 && t->n + n < sizeof t->bytes);
    memcpy(t->bytes + t->n, bytes, n);
    t->n += n;
    t->bytes[t->n] = '\0';
    return true;
}

static void begin(struct sink *s)
{
    text.n = 0;
    sink_to(s, keep, &text);
}

static void add_limit(struct limit limit, uint64_t used, uint64_t reserved)
{
    struct limit *l = &config.limits[config.n_limits++];

    *l = limit;
    if (l->subject < SUBJECT_ANONYMOUS)
        return;
    report.limits[report.n_limits++] = (struct report_limit){
        .limit = l,
        .use = {.used = used, .reserved = reserved, .released = limit.max, .frees_ms = 1}};
}

static const struct window day = {.kind = WINDOW_DAY};

/* An ordinary day. */
static int setup(void **state)
{
    (void)state;
    memset(&config, 0, sizeof config);
    memset(&report, 0, sizeof report);
    memset(days, 0, sizeof days);
    report.config = &config;
    report.now_s = TODAY * 86400LL + 41000;
    report.first_day = TODAY - 29;
    report.state.today = TODAY;
    report.state.usage = (struct kv_usage){1000, 410, 100};
    snprintf(report.state.zone, sizeof report.state.zone, "CET-1");
    config.n_models = 1;
    snprintf(config.models[0].alias, sizeof config.models[0].alias, "demo");
    report.priced = true;
    days[0] = (struct history_day){.day = TODAY - 1, .admitted = 2, .cost_nano = 1500000000};
    days[1] = (struct history_day){.day = TODAY, .admitted = 3, .tokens_in = 7};
    days[1].figures[FIGURE_REFUSED + REFUSAL_BURST] = 4;
    days[1].figures[FIGURE_UPSTREAM] = 1;
    report.days = days;
    report.n_days = 2;
    report.dry = dry;
    report.totals = days[1];
    report.top_whole = true;
    return 0;
}

/* Everything as long as it gets. */
static void stretch(void)
{
    config.n_limits = report.n_limits = 0;
    for (unsigned s = 0; s < SUBJECTS; s++) {
        for (unsigned u = UNIT_CALLS; u <= UNIT_CONCURRENT; u++) {
            struct limit l = {.name = LONG_NAME,
                              .subject = (enum subject)s,
                              .unit = (enum unit)u,
                              .max = MONEY,
                              .dry_run = true,
                              .pace = true,
                              .window = {WINDOW_SLIDING, WINDOW_SECONDS_MAX - 1}};

            add_limit(l, MONEY, MONEY);
        }
    }
    for (unsigned i = 0; i < 3; i++) {
        days[i] = (struct history_day){
            TODAY - 2 + (int64_t)i, MOST, MOST, MOST, MOST, MOST, MOST, MOST, MONEY, {0}};
        for (unsigned f = 0; f < FIGURES; f++)
            days[i].figures[f] = MOST;
    }
    report.n_days = 3;
    snprintf(dry[0].limit, sizeof dry[0].limit, LONG_NAME);
    dry[0].day = TODAY;
    dry[0].n = MOST;
    report.n_dry = 1;
    for (unsigned i = 0; i < TOP_MAX; i++) {
        report.top[i] = (struct ledger_caller){
            (enum subject)(i % 4), "0123456789abcdef", {{MOST, MOST, MONEY}}};
        report.n_top++;
    }
    report.top_whole = false;
    for (unsigned i = 0; i < TOLD_MAX; i++) {
        report.told[i] = (struct ledger_told){(enum alert_kind)(i % ALERT_METER), LONG_NAME,
                                              100, report.now_s, TOLD_DELIVERED};
        report.n_told++;
    }
    config.n_models = CONFIG_MODELS_MAX;
    for (unsigned i = 0; i < CONFIG_MODELS_MAX; i++) {
        memset(config.models[i].alias, 'm', LEDGER_MODEL_MAX - 1);
        report.models[i] = (struct ledger_model){MOST, 3600000LL * 999, 99};
    }
    report.state.paused = true;
    report.state.open_streams = MOST;
    report.state.store_ms = (int64_t)MOST;
}

/* ---- tables ---- */

static const char *table(bool colours)
{
    struct sink s;
    const struct lines l = {&s, colours};

    begin(&s);
    if (SMALL)
        skip(); /* it has none */
    else
        report_table(&l, &report);
    assert_true(sink_end(&s));
    return text.bytes;
}

static size_t longest_line(const char *t)
{
    size_t longest = 0;

    for (; *t != '\0'; t += strcspn(t, "\n"), t += *t == '\n') {
        size_t n = strcspn(t, "\n");
        longest = n > longest ? n : longest;
        assert_true(n == 0 || t[n - 1] != ' ');
    }
    return longest;
}

static void test_a_table_keeps_to_80_columns(void **state)
{
    (void)state;
    add_limit((struct limit){"site-day", SUBJECT_EVERYONE, UNIT_CALLS, day, 600, 0, 0}, 3, 1);
    assert_true(longest_line(table(false)) <= LINES_COLUMNS);
    stretch();

    assert_true(longest_line(table(false)) <= LINES_COLUMNS);
    assert_non_null(
        strstr(text.bytes, "used $1000000.000000001\n            of $1000000.000000001"));
    assert_non_null(strstr(text.bytes, "would have refused 1000000000000000 today"));
    report.priced = false;
    assert_true(longest_line(table(false)) <= LINES_COLUMNS);
}

static void test_what_is_ordinary_is_in_columns(void **state)
{
    (void)state;
    add_limit((struct limit){"site-day", SUBJECT_EVERYONE, UNIT_CALLS, day, 600, 0, 0}, 3, 1);
    table(false);
    assert_non_null(strstr(text.bytes, "2026-11-30         3         4           7           0"
                                       "          $0.00         1\n"));
    assert_non_null(strstr(text.bytes, "site-day          everyone  calls      day    "
                                       "          3         600          1\n"));
    assert_non_null(strstr(text.bytes, "0 open streams; 31 % of the store in use\n"));
    assert_null(strstr(text.bytes, "paused"));
    assert_null(strstr(text.bytes, "most calls"));
    assert_null(strstr(text.bytes, "alerts"));
}

static void test_a_row_takes_what_others_can_spare(void **state)
{
    static const struct {
        const char *name;
        uint64_t used, max, reserved;
        const char *row;
    } cases[] = {
        {"spend", 1234567891, 2000000000, 0,
         "spend             everyone  cost       day   $1.234567891       $2.00      $0.00\n"},
        {"spend", 10234567891, 2000000000, 123456789,
         "spend             everyone  cost       day  $10.234567891     $2.00 $0.123456789\n"},
        {"spend-of-the-whole-site", 1234567891, 2000000000, 0,
         "spend-of-the-whole-site\n            per everyone, cost in the window day: used"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct limit l = {"", SUBJECT_EVERYONE, UNIT_COST, day, cases[i].max, 0, 0};

        snprintf(l.name, sizeof l.name, "%s", cases[i].name);
        config.n_limits = report.n_limits = 0;
        add_limit(l, cases[i].used, cases[i].reserved);
        if (strstr(table(false), cases[i].row) == NULL)
            fail_msg("%s", text.bytes);
        assert_true(longest_line(text.bytes) <= LINES_COLUMNS);
    }
}

static void test_what_a_pace_has_released_stands_below_the_max(void **state)
{
    struct limit l = {"spend", SUBJECT_EVERYONE, UNIT_COST, day, 12000000000, 0, true};

    (void)state;
    add_limit(l, 0, 0);
    report.limits[0].use.released = 9108620138;
    table(false);
    assert_non_null(strstr(text.bytes, "day          $0.00      $12.00      $0.00\n"
                                       "                                         "
                                       "released by now $9.108620138\n"));
}

static void test_a_day_without_a_price(void **state)
{
    (void)state;
    report.priced = false;
    table(false);
    assert_non_null(strstr(text.bytes, "           7           0              -         1\n"));
    assert_non_null(strstr(text.bytes, "          $1.50         0\n")); /* it had one then */
}

static void test_colours(void **state)
{
    static const struct {
        uint64_t used, max;
        const char *shown;
    } cases[] = {
        {79, 100, "        79 "},
        {80, 100, "\033[33m             80\033[0m "},
        {99, 100, "\033[33m             99\033[0m "},
        {100, 100, "\033[31m            100\033[0m "},
        {101, 100, "\033[31m            101\033[0m "},
        {2, 3, "          2 "},
        {0, 0, "\033[31m              0\033[0m "},
        {9, LIMIT_UNLIMITED, "          9 "},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        config.n_limits = report.n_limits = 0;
        add_limit(
            (struct limit){"site-day", SUBJECT_EVERYONE, UNIT_CALLS, day, cases[i].max, 0, 0},
            cases[i].used, 0);
        assert_non_null(strstr(table(true), cases[i].shown));
        assert_null(strchr(table(false), '\033'));
    }
}

static void test_the_last_alerts_and_what_is_wrong(void **state)
{
    (void)state;
    report.told[0] =
        (struct ledger_told){ALERT_THRESHOLD, "site-day", 80, report.now_s, TOLD_WAITS};
    report.told[1] =
        (struct ledger_told){ALERT_BREAKER_OPEN, "demo", 0, report.now_s - 60, TOLD_HERE};
    report.n_told = 2;
    report.models[0].breaker_wait_ms = 59001;
    report.state.paused = true;
    report.state.store_ms = 3000;
    table(false);
    assert_non_null(strstr(text.bytes, "2026-11-30 11:23 threshold        site-day"));
    assert_non_null(strstr(text.bytes, " 80% waits\n"));
    assert_non_null(strstr(text.bytes, "2026-11-30 11:22 breaker_open     demo\n"));
    assert_non_null(strstr(text.bytes, "model demo: its API fails"));
    assert_non_null(strstr(text.bytes, "paused      nothing is admitted"));
    assert_non_null(strstr(text.bytes, "3s ahead"));
}

/* ---- JSON ---- */

static json_t *parsed(void)
{
    struct sink s;
    json_error_t error;
    json_t *root;

    begin(&s);
    report_json(&s, &report);
    assert_true(sink_end(&s));
    assert_int_equal(s.total, text.n);
    root = json_loadb(text.bytes, text.n, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL)
        fail_msg("%s at %d: %s", error.text, error.position, text.bytes);
    return root;
}

static json_int_t number(const json_t *o, const char *a, const char *b)
{
    const json_t *v = json_object_get(o, a);

    if (b != NULL)
        v = json_object_get(v, b);
    assert_true(json_is_integer(v));
    return json_integer_value(v);
}

static void test_json(void **state)
{
    json_t *root, *one;

    (void)state;
    add_limit((struct limit){"site-day", SUBJECT_EVERYONE, UNIT_CALLS, day, 600, 0, 0}, 3, 1);
    report.live.of[LIVE_CODES] = 5;
    report.live.of[LIVE_DECISION + LIVE_BUCKETS] = 77;
    root = parsed();
    assert_string_equal(json_string_value(json_object_get(root, "today")), "2026-11-30");
    assert_string_equal(json_string_value(json_object_get(root, "time")),
                        "2026-11-30T11:23:20Z");
    assert_string_equal(json_string_value(json_object_get(root, "zone")), "UTC");
    one = json_array_get(json_object_get(root, "days"), 1);
    assert_int_equal(number(one, "admitted", NULL), 3);
    assert_int_equal(number(one, "refused", "burst"), 4);
    assert_int_equal(number(root, "totals", "tokens_in"), 7);
    assert_int_equal(number(json_object_get(root, "totals"), "refused", "burst"), 4);
    one = json_array_get(json_object_get(root, "limits"), 0);
    assert_int_equal(number(one, "released", NULL), 600);
    assert_int_equal(number(root, "store", "used_bytes"), 310);
    assert_int_equal(number(json_object_get(root, "live"), "codes", "ok"), 5);
    assert_int_equal(number(json_object_get(root, "live"), "decision_us", "sum"), 77);
    assert_true(json_is_null(json_object_get(json_object_get(root, "live"), "since_s")));
    json_decref(root);
}

/* Each key has the figure that its name says: all of them differ. */
static void test_json_of_a_day(void **state)
{
    static const struct {
        const char *key;
        bool refusal;
    } keys[] = {
        /* in the order of struct history_day and of its figures */
        {"admitted", false},
        {"settled", false},
        {"unknown", false},
        {"given_back", false},
        {"bypassed", false},
        {"tokens_in", false},
        {"tokens_out", false},
        {"cost_nano", false},
        {"concurrent", true},
        {"burst", true},
        {"address", true},
        {"visitor", true},
        {"account", true},
        {"key", true},
        {"anonymous", true},
        {"site", true},
        {"bypass", true},
        {"too_long", false},
        {"paused", false},
        {"busy", false},
        {"meter_unavailable", false},
        {"invalid", false},
        {"upstream_errors", false},
        {"denied", false},
        {"breaker", false},
        {"proxied", false},
    };
    const unsigned n = sizeof keys / sizeof keys[0];
    struct history_day *d = &days[1];
    json_t *root, *one;

    (void)state;
    assert_int_equal(n, 8 + FIGURES);
    *d = (struct history_day){TODAY, 1, 2, 3, 4, 5, 6, 7, 8, {0}};
    for (unsigned f = 0; f < FIGURES; f++)
        d->figures[f] = 9 + f;
    root = parsed();
    one = json_array_get(json_object_get(root, "days"), 1);
    for (unsigned i = 0; i < n; i++) {
        const char *first = keys[i].refusal ? "refused" : keys[i].key;

        if (number(one, first, keys[i].refusal ? keys[i].key : NULL) != 1 + i)
            fail_msg("%s", keys[i].key);
    }
    assert_int_equal(json_object_size(json_object_get(one, "refused")), REFUSALS);
    json_decref(root);
}

static void test_json_of_what_stands_in_lists(void **state)
{
    static const char *const delivery[] = {[TOLD_HERE] = "none",
                                           [TOLD_WAITS] = "waits",
                                           [TOLD_DELIVERED] = "delivered",
                                           [TOLD_GIVEN_UP] = "given_up"};
    json_t *root, *one;

    (void)state;
    add_limit((struct limit){"site-day", SUBJECT_EVERYONE, UNIT_CALLS, day, 600, 0, 0}, 30, 4);
    add_limit(
        (struct limit){"free", SUBJECT_ANONYMOUS, UNIT_TOKENS, day, LIMIT_UNLIMITED, 1, 0}, 5,
        0);
    report.limits[0].use.frees_ms = 17;
    report.limits[0].use.released = 25;
    report.top[0] = (struct ledger_caller){SUBJECT_KEY, "0123456789abcdef", {{8, 9, 10}}};
    report.n_top = 1;
    report.models[0] =
        (struct ledger_model){.breaker_wait_ms = 11, .overhead = 12, .failures = 13};
    for (report.n_told = 0; report.n_told < 4; report.n_told++)
        report.told[report.n_told] = (struct ledger_told){
            ALERT_THRESHOLD, "site-day", 80, report.now_s, (enum told)report.n_told};
    report.dry[0] = (struct report_dry){TODAY - 1, "free", 6};
    report.dry[1] = (struct report_dry){TODAY, "free", 7};
    report.n_dry = 2;
    root = parsed();
    one = json_array_get(json_object_get(root, "limits"), 0);
    assert_int_equal(number(one, "used", NULL), 30);
    assert_int_equal(number(one, "reserved", NULL), 4);
    assert_int_equal(number(one, "frees_ms", NULL), 17);
    assert_int_equal(number(one, "max", NULL), 600);
    assert_int_equal(number(one, "released", NULL), 25);
    assert_true(json_is_false(json_object_get(one, "dry_run")));
    one = json_array_get(json_object_get(root, "limits"), 1);
    assert_true(json_is_null(json_object_get(one, "max")));
    assert_string_equal(json_string_value(json_object_get(one, "per")), "anonymous");
    one = json_array_get(json_object_get(root, "top_callers"), 0);
    assert_string_equal(json_string_value(json_object_get(one, "per")), "key");
    assert_int_equal(number(one, "calls", NULL), 8);
    assert_int_equal(number(one, "tokens", NULL), 9);
    assert_int_equal(number(one, "cost_nano", NULL), 10);
    one = json_array_get(json_object_get(root, "models"), 0);
    assert_true(json_is_true(json_object_get(one, "breaker_open")));
    assert_int_equal(number(one, "breaker_wait_ms", NULL), 11);
    assert_int_equal(number(one, "overhead", NULL), 12);
    assert_int_equal(number(one, "failures", NULL), 13);
    for (unsigned i = 0; i < 4; i++) {
        one = json_array_get(json_object_get(root, "alerts"), i);
        assert_string_equal(json_string_value(json_object_get(one, "delivery")), delivery[i]);
        assert_int_equal(number(one, "percent", NULL), 80);
    }
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(
            number(json_array_get(json_object_get(root, "days"), i), "dry_run", "free"), 6 + i);
    json_decref(root);
}

static void test_json_of_what_is_longest(void **state)
{
    json_t *root;

    (void)state;
    stretch();
    /* names are unique in a configuration */
    for (unsigned i = 0; i < config.n_limits; i++)
        snprintf(config.limits[i].name, sizeof config.limits[i].name, "%02u%.29s", i,
                 LONG_NAME);
    config.local_time = true;
    root = parsed();
    assert_int_equal(json_array_size(json_object_get(root, "top_callers")), TOP_MAX);
    assert_int_equal(json_array_size(json_object_get(root, "alerts")), TOLD_MAX);
    assert_int_equal(json_array_size(json_object_get(root, "models")), CONFIG_MODELS_MAX);
    assert_string_equal(json_string_value(json_object_get(root, "zone")), "CET-1");
    json_decref(root);
}

static void test_unknown_costs_are_null(void **state)
{
    json_t *root;

    (void)state;
    report.priced = false;
    report.n_top = 1;
    root = parsed();
    assert_true(json_is_null(
        json_object_get(json_array_get(json_object_get(root, "days"), 1), "cost_nano")));
    assert_true(json_is_null(
        json_object_get(json_array_get(json_object_get(root, "top_callers"), 0), "cost_nano")));
    assert_int_equal(
        number(json_array_get(json_object_get(root, "days"), 0), "cost_nano", NULL),
        1500000000);
    json_decref(root);
}

/* ---- CSV, sinks, lines ---- */

static void test_csv(void **state)
{
    struct sink s;

    (void)state;
    report.priced = false;
    begin(&s);
    report_csv(&s, &report);
    assert_true(sink_end(&s));
    assert_int_equal(
        strncmp(text.bytes, "day,admitted,settled,unknown,given_back,tokens_in,", 50), 0);
    assert_non_null(strstr(text.bytes, "\n2026-11-29,2,0,0,0,0,0,1500000000,0,"));
    assert_non_null(strstr(text.bytes, "\n2026-11-30,3,0,0,0,7,0,,0,4,"));
}

static bool refuse(void *to, const void *bytes, size_t n)
{
    unsigned *calls = to;

    (void)bytes;
    (void)n;
    ++*calls;
    return false;
}

static void test_a_sink_that_fails_is_not_asked_again(void **state)
{
    struct sink s;
    unsigned calls = 0;

    (void)state;
    sink_to(&s, refuse, &calls);
    for (unsigned i = 0; i < 3 * SINK_BUFFER; i++)
        sink_text(&s, "x");
    assert_false(sink_end(&s));
    assert_int_equal(calls, 1);
    assert_int_equal(s.total, 3 * SINK_BUFFER);
}

static void test_a_sink_to_nothing_counts(void **state)
{
    struct sink count, s;

    (void)state;
    sink_init(&count, NULL);
    report_json(&count, &report);
    begin(&s);
    report_json(&s, &report);
    assert_true(sink_end(&s) && sink_end(&count));
    assert_int_equal(count.total, text.n);
}

static void test_wrapping(void **state)
{
    struct sink s;
    const struct lines plain = {&s, false}, coloured = {&s, true};
    static const char seventy[] =
        "1234567 1234567 1234567 1234567 1234567 1234567 1234567 1234567 12345";

    (void)state;
    begin(&s);
    lines_wrap(&plain, 4, TONE_FAULT, "ab", "one");
    lines_wrap(&plain, 4, TONE_PLAIN, "abcd", "one");
    lines_wrap(&coloured, 4, TONE_FAULT, "ab", "one");
    lines_wrap(&plain, 10, TONE_PLAIN, "", seventy);
    lines_wrap(&plain, 12, TONE_PLAIN, "", seventy);
    assert_true(sink_end(&s));
    assert_string_equal(
        text.bytes,
        "ab  one\nabcd\n    one\n\033[31mab\033[0m  one\n"
        "          1234567 1234567 1234567 1234567 1234567 1234567 1234567 1234567 12345\n"
        "            1234567 1234567 1234567 1234567 1234567 1234567 1234567 1234567\n"
        "            12345\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_table_keeps_to_80_columns, setup),
        cmocka_unit_test_setup(test_what_is_ordinary_is_in_columns, setup),
        cmocka_unit_test_setup(test_a_row_takes_what_others_can_spare, setup),
        cmocka_unit_test_setup(test_what_a_pace_has_released_stands_below_the_max, setup),
        cmocka_unit_test_setup(test_a_day_without_a_price, setup),
        cmocka_unit_test_setup(test_colours, setup),
        cmocka_unit_test_setup(test_the_last_alerts_and_what_is_wrong, setup),
        cmocka_unit_test_setup(test_json, setup),
        cmocka_unit_test_setup(test_json_of_a_day, setup),
        cmocka_unit_test_setup(test_json_of_what_stands_in_lists, setup),
        cmocka_unit_test_setup(test_json_of_what_is_longest, setup),
        cmocka_unit_test_setup(test_unknown_costs_are_null, setup),
        cmocka_unit_test_setup(test_csv, setup),
        cmocka_unit_test_setup(test_a_sink_that_fails_is_not_asked_again, setup),
        cmocka_unit_test_setup(test_a_sink_to_nothing_counts, setup),
        cmocka_unit_test_setup(test_wrapping, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
