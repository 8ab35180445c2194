/*
 * The dashboard as a page, from reports that are filled by hand: what it says and what it must
 * never say, that it is the same each time, escaped, balanced and small. With DASHBOARD_PAGES
 * naming a directory the pages are written there, to be looked at.
 */
#include "gateway/dashboard_parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PAGE_MAX 65536 /* what the page promises to stay below */
#define TODAY    20787 /* 2026-11-30 */
#define NOW_S    ((int64_t)TODAY * 86400 + 15 * 3600 + 46 * 60)
#define HOUR_MS  3600000
#define DOLLAR   UINT64_C(1000000000)
#define MIB      1048576U

/* -- a sink into memory -- */

struct page {
    char text[4 * PAGE_MAX];
    size_t n;
};

static bool keep(void *to, const void *bytes, size_t n)
{
    struct page *p = to;

    assert_true(p->n + n < sizeof p->text);
    memcpy(p->text + p->n, bytes, n);
    p->n += n;
    p->text[p->n] = '\0';
    return true;
}

static struct page page;

static const char *render(const struct report *r)
{
    struct sink s;

    memset(&page, 0, sizeof page);
    sink_to(&s, keep, &page);
    dashboard_html(&s, r);
    assert_true(sink_end(&s));
    return page.text;
}

static void write_page(const char *name)
{
    const char *directory = getenv("DASHBOARD_PAGES");
    char path[512];
    FILE *f;

    if (directory == NULL)
        return;
    snprintf(path, sizeof path, "%s/%s.html", directory, name);
    f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(page.text, 1, page.n, f), page.n);
    assert_int_equal(fclose(f), 0);
}

static void has(const char *what)
{
    if (strstr(page.text, what) == NULL)
        fail_msg("not in the page: %s", what);
}

static void has_not(const char *what)
{
    const char *at = strstr(page.text, what);

    if (at != NULL)
        fail_msg("in the page: %.200s", at);
}

/* -- reports -- */

static struct config config;
static struct history_day days[REPORT_DAYS];
static struct report_dry dry[LIMITS_MAX * REPORT_DAYS];

/* A site that nobody has used yet. */
static struct report fresh(void)
{
    memset(&config, 0, sizeof config);
    memset(days, 0, sizeof days);
    memset(dry, 0, sizeof dry);
    config.n_models = 1;
    strcpy(config.models[0].alias, "demo");
    return (struct report){
        .config = &config,
        .now_s = NOW_S,
        .first_day = TODAY - REPORT_DAYS + 1,
        .priced = true,
        .state = {.today = TODAY,
                  .store_ms = NOW_S * 1000,
                  .clock_ms = NOW_S * 1000,
                  .usage = {16 * MIB, 2 * MIB, 0}},
        .days = days,
        .dry = dry,
        .top_whole = true,
        .top_counted = true,
    };
}

static struct report_limit *add_limit(struct report *r, const struct limit *l, uint64_t used,
                                      uint64_t reserved)
{
    struct report_limit *out = &r->limits[r->n_limits++];

    config.limits[config.n_limits] = *l;
    out->limit = &config.limits[config.n_limits++];
    out->use = (struct limit_use){used, reserved, l->max, used > 0 ? 3 * HOUR_MS : 0};
    return out;
}

static const struct limit site_day = {.name = "site-day",
                                      .subject = SUBJECT_EVERYONE,
                                      .unit = UNIT_CALLS,
                                      .window = {WINDOW_DAY, 0},
                                      .max = 600};
static const struct limit spend = {.name = "spend",
                                   .subject = SUBJECT_EVERYONE,
                                   .unit = UNIT_COST,
                                   .window = {WINDOW_MONTH, 0},
                                   .max = 20 * DOLLAR,
                                   .pace = true};
static const struct limit own = {.name = "bypass",
                                 .subject = SUBJECT_BYPASS,
                                 .unit = UNIT_CALLS,
                                 .window = {WINDOW_DAY, 0},
                                 .max = 50};
static const struct limit streams = {
    .name = "streams", .subject = SUBJECT_EVERYONE, .unit = UNIT_CONCURRENT, .max = 8};
static const struct limit tokens = {.name = "strangers",
                                    .subject = SUBJECT_ANONYMOUS,
                                    .unit = UNIT_TOKENS,
                                    .window = {WINDOW_SLIDING, 21600},
                                    .max = 200000,
                                    .dry_run = true};
static const struct limit counted = {.name = "counted",
                                     .subject = SUBJECT_EVERYONE,
                                     .unit = UNIT_TOKENS,
                                     .window = {WINDOW_HOUR, 0},
                                     .max = LIMIT_UNLIMITED};

static void use_day(struct report *r, int64_t day, uint64_t calls)
{
    struct history_day *d = &days[r->n_days++];

    d->day = day;
    d->admitted = calls;
    d->settled = calls;
    d->unknown = day == TODAY - 2 ? 7 : 0;
    d->bypassed = calls / 20;
    d->tokens_in = calls * 612;
    d->tokens_out = calls * 187;
    d->cost_nano = calls * 204000;
    d->figures[FIGURE_REFUSED + REFUSAL_BURST] = calls / 9;
    d->figures[FIGURE_REFUSED + REFUSAL_ADDRESS] = calls / 17;
    d->figures[FIGURE_TOO_LONG] = calls / 60;
    d->figures[FIGURE_INVALID] = calls / 80;
    d->figures[FIGURE_UPSTREAM] = calls / 100;
}

/* A hobby site on a usual day. */
static struct report usual(void)
{
    static const uint16_t calls[REPORT_DAYS] = {
        40,  52,  0,   0,  61, 77,  90,  84,  120, 95,  130, 142, 80,  75,  160,
        171, 188, 150, 90, 99, 210, 232, 251, 240, 180, 140, 260, 281, 302, 412};
    struct report r = fresh();

    for (unsigned i = 0; i < REPORT_DAYS; i++)
        if (calls[i] > 0)
            use_day(&r, r.first_day + i, calls[i]);
    add_limit(&r, &site_day, 412, 3);
    add_limit(&r, &spend, 11 * DOLLAR + 420000000, 24000000)->use.released = 13 * DOLLAR;
    add_limit(&r, &streams, 2, 2)->use.frees_ms = 0;
    add_limit(&r, &tokens, 171000, 900);
    add_limit(&r, &counted, 41235, 0);
    add_limit(&r, &own, 0, 0);
    r.state.open_streams = 2;
    r.dry[r.n_dry++] = (struct report_dry){TODAY - 1, "strangers", 4};
    r.dry[r.n_dry++] = (struct report_dry){TODAY, "strangers", 7};
    r.top[r.n_top++] =
        (struct ledger_caller){SUBJECT_ADDRESS, "9f86d081884c7d65", {{38, 30210, 7750000}}};
    r.top[r.n_top++] =
        (struct ledger_caller){SUBJECT_KEY, "a3bf4f1b2b0b822c", {{17, 12100, 3468000}}};
    r.told[r.n_told++] =
        (struct ledger_told){ALERT_THRESHOLD, "strangers", 80, NOW_S - 900, TOLD_DELIVERED};
    r.told[r.n_told++] =
        (struct ledger_told){ALERT_UPSTREAM_REFUSED, "demo", 0, NOW_S - 90000, TOLD_HERE};
    return r;
}

/* All that can go wrong, at once. */
static struct report troubled(void)
{
    struct report r = usual();

    r.state.paused = true;
    r.state.alerts = 2;
    r.state.store_ms += 2 * HOUR_MS + 5 * 60000;
    r.state.usage.reached_bytes = 13 * MIB;
    r.limits[0].use.used = 600;
    r.limits[1].use.released = 11 * DOLLAR;
    r.models[0] = (struct ledger_model){12, 40000, 6};
    r.told[0].told = TOLD_WAITS;
    r.told[1].told = TOLD_GIVEN_UP;
    return r;
}

/* The most that can be in a page. */
static struct report largest(void)
{
    struct report r = fresh();
    struct limit l = {.subject = SUBJECT_ANONYMOUS,
                      .unit = UNIT_COST,
                      .window = {WINDOW_SLIDING, 86399},
                      .max = AMOUNT_MAX,
                      .dry_run = true,
                      .pace = true};
    uint64_t v;

    for (unsigned i = 0; i < REPORT_DAYS; i++) {
        r.days[i].day = r.first_day + i;
        for (size_t at = offsetof(struct history_day, admitted); at < sizeof days[0];
             at += sizeof v) {
            v = AMOUNT_MAX - i;
            memcpy((char *)&days[i] + at, &v, sizeof v);
        }
    }
    r.n_days = REPORT_DAYS;
    for (unsigned i = 0; i < LIMITS_MAX; i++) {
        memset(l.name, 'a' + (int)i % 26, LIMIT_NAME_MAX - 1);
        struct report_limit *u = add_limit(&r, &l, AMOUNT_MAX - 1, AMOUNT_MAX / 3);
        u->use.released = AMOUNT_MAX - 7;
        u->use.frees_ms = INT64_MAX;
        for (unsigned d = 0; d < REPORT_DAYS; d++) {
            struct report_dry *y = &r.dry[r.n_dry++];
            y->day = r.first_day + d;
            y->n = AMOUNT_MAX;
            strcpy(y->limit, l.name);
        }
    }
    config.n_models = CONFIG_MODELS_MAX;
    for (unsigned i = 0; i < CONFIG_MODELS_MAX; i++) {
        memset(config.models[i].alias, 'm', LEDGER_MODEL_MAX - 1);
        r.models[i] = (struct ledger_model){AMOUNT_MAX, INT64_MAX, UINT32_MAX};
    }
    for (r.n_top = 0; r.n_top < TOP_MAX; r.n_top++)
        r.top[r.n_top] = (struct ledger_caller){
            SUBJECT_ACCOUNT, "0123456789abcdef", {{AMOUNT_MAX, AMOUNT_MAX, AMOUNT_MAX}}};
    for (r.n_told = 0; r.n_told < TOLD_MAX; r.n_told++) {
        struct ledger_told *t = &r.told[r.n_told];
        *t = (struct ledger_told){
            .kind = ALERT_UPSTREAM_REFUSED, .time_s = NOW_S, .told = TOLD_WAITS};
        memset(t->name, 't', LIMIT_NAME_MAX - 1);
    }
    r.state.store_ms = INT64_MAX / 2;
    r.state.usage = (struct kv_usage){INT64_MAX, INT64_MAX - 1, 0};
    r.state.open_streams = UINT64_MAX;
    r.state.paused = true;
    r.top_whole = false;
    return r;
}

/* -- tests -- */

static void test_unused_site(void **state)
{
    struct report r = fresh();
    (void)state;

    render(&r);
    write_page("unused");
    has("<title>Pennygate</title>");
    has("Nothing was refused");
    has("Nobody has called today");
    has("There were none");
    has("<th scope=\"row\">2026-11-30<td>0<td>0");
    has("<th scope=\"row\">2026-11-01<td>0");
    has_not("<th scope=\"row\">2026-10-31");
    has_not("class=\"bad\"");
    has_not("<rect");
    has_not("Dry runs");
}

static void test_usual_day(void **state)
{
    struct report r = usual();
    (void)state;

    render(&r);
    write_page("usual");
    has("<title>Pennygate</title>");
    has("As of 2026-11-30 15:46 UTC");
    has("site-day <small>calls, everyone, day</small>");
    has("<b>409</b> spent, <b>3</b> reserved, of <b>600</b>; begins anew in 3&nbsp;h");
    has("<b>170,100</b> spent, <b>900</b> reserved, of <b>200,000</b>; frees in 3&nbsp;h");
    has("Calls <small>sums of 30 days</small>");
    has("use is not known: <b>0</b> today, <b>7</b> in 30 days");
    has("<dt>Models <dd><strong class=\"ok\">ok</strong> all in use");
    has("<strong class=\"ok\">ok</strong> shown here only: <code>alerts { url }</code> posts");
    has_not("no stream is open");
    has("<td>in use\n");
    has("<title id=\"b0\">68 % spent, 0 % reserved</title>");
    has("<b>$11.396</b> spent, <b>$0.024</b> reserved, of <b>$20.00</b>; <b>$13.00</b> "
        "released");
    has("<path class=\"pace\" d=\"M650 0v10\"/>");
    has("<b>2</b> open, of <b>8</b></p>");
    has("nearly spent</strong> <em>dry run");
    has("<b>41,235</b> spent, <b>0</b> reserved; no maximum");
    has("<th scope=\"row\">2026-11-30<td>412<td>69<td>4\n");
    has("<th scope=\"row\">2026-11-03<td>0<td>0<td>0\n");
    has("<th scope=\"row\">2026-11-30<td>252,144<td>77,044");
    has("<th scope=\"row\">2026-11-30<td>$0.084048");
    has("<title>2026-11-30: 412 admitted, 69 refused</title>"
        "<path class=\"s1\" d=\"M291 32h8v68h-8z\"/><path class=\"s2\" d=\"M291 "
        "21h8v11h-8z\"/>");
    has("<i class=\"k1\"></i> admitted <b>4,412</b></span> <span><i class=\"k2\"></i> refused "
        "<b>723</b>");
    has("<rect class=\"s1\" x=\"0\" width=\"681\" height=\"10\"/>"
        "<rect class=\"s2\" x=\"681\" width=\"5\" height=\"10\"/></svg>");
    has("<th scope=\"row\">by limits, all together<td>69<td>");
    has("<th scope=\"row\">too many within seconds<td>45<td>");
    has("<b>4</b> today, <b>");
    has("strangers <small>tokens per anonymous, 6h</small><td>7<td>11");
    has("address <code>9f86d081884c7d65</code><td>38<td>30,210<td>$0.00775");
    has("2026-11-30 15:31<td>limit <b>strangers</b> has reached 80 %<td>delivered");
    has("the API of <b>demo</b> refuses us: key, credit or rate<td>shown here only");
}

static void test_trouble_is_told_first(void **state)
{
    struct report r = troubled();
    (void)state;

    render(&r);
    write_page("troubled");
    has("<title>paused - Pennygate</title>");
    has("site-day is used up, begins anew in 3&nbsp;h");
    has("demo is left alone for 40&nbsp;s, because its API fails or refuses");
    has("<td>left alone for 40&nbsp;s\n");
    has_not("breaker");
    has("the store is ahead of the clock by 2&nbsp;h 5&nbsp;min");
    has("81 % in use, 13.0 MiB of 16.0 MiB; when it is full");
    has("2 to be delivered; if that stays so");
    has("<strong class=\"bad\">spent</strong>");
    has("<strong class=\"warn\">held back by its pace</strong>");
    has("not yet delivered");
    has("given up");
}

/* Each has a row and a figure of its own, and today is not all of the days. */
static void test_each_reason_has_its_own_row(void **state)
{
    static const struct {
        const char *label;
        unsigned figure;
    } rows[] = {
        {"too many at once", FIGURE_REFUSED + REFUSAL_CONCURRENT},
        {"too many within seconds", FIGURE_REFUSED + REFUSAL_BURST},
        {"limit per address", FIGURE_REFUSED + REFUSAL_ADDRESS},
        {"limit per visitor", FIGURE_REFUSED + REFUSAL_VISITOR},
        {"limit per account", FIGURE_REFUSED + REFUSAL_ACCOUNT},
        {"limit per key", FIGURE_REFUSED + REFUSAL_KEY},
        {"limit of the anonymous", FIGURE_REFUSED + REFUSAL_ANONYMOUS},
        {"limit of the site", FIGURE_REFUSED + REFUSAL_SITE},
        {"limit of the owner&#39;s own calls", FIGURE_REFUSED + REFUSAL_BYPASS},
        {"too long", FIGURE_TOO_LONG},
        {"malformed or incomplete", FIGURE_INVALID},
        {"no key or account, foreign page", FIGURE_DENIED},
        {"paused", FIGURE_PAUSED},
        {"all streams busy", FIGURE_BUSY},
        {"model left alone", FIGURE_BREAKER},
        {"could not be counted", FIGURE_METER},
    };
    const unsigned n = sizeof rows / sizeof rows[0];
    struct report r = fresh();
    unsigned by_limits = 0;
    char row[128];
    (void)state;

    r.n_days = 2;
    days[0].day = TODAY - 1;
    days[1].day = TODAY;
    for (unsigned i = 0; i < n; i++) {
        days[0].figures[rows[i].figure] = 100;
        days[1].figures[rows[i].figure] = 1 + i;
        by_limits += i < REFUSALS ? 1 + i : 0;
    }
    render(&r);
    for (unsigned i = 0; i < n; i++) {
        snprintf(row, sizeof row, "<th scope=\"row\">%s<td>%u<td>%u\n", rows[i].label, 1 + i,
                 101 + i);
        has(row);
    }
    snprintf(row, sizeof row, "by limits, all together<td>%u<td>%u\n", by_limits,
             by_limits + 100 * REFUSALS);
    has(row);
}

/* What has been freed of the file is room. */
static void test_room_in_the_store(void **state)
{
    struct report r = fresh();
    (void)state;

    r.state.usage = (struct kv_usage){16 * MIB, 13 * MIB, 9 * MIB};
    render(&r);
    has("<strong class=\"ok\">ok</strong> 25 % in use, 4.0 MiB of 16.0 MiB</div>");
}

static void test_the_worst_news_of_several(void **state)
{
    struct report r = troubled();
    (void)state;

    assert_string_equal(dashboard_news(&r), "paused");
    r.state.paused = false;
    assert_string_equal(dashboard_news(&r), "budget spent");
    r.limits[0].use.used = 599;
    assert_string_equal(dashboard_news(&r), "model left alone");
    r.models[0].breaker_wait_ms = 0;
    assert_string_equal(dashboard_news(&r), "clock behind");
    r.state.clock_ms = r.state.store_ms - 1000;
    assert_string_equal(dashboard_news(&r), "store nearly full");
    r.state.usage.reached_bytes = 11 * MIB;
    assert_null(dashboard_news(&r));
    r.limits[3].use.used = UINT64_MAX; /* a dry run */
    r.limits[2].use.used = 8;          /* streams end by themselves */
    r.limits[5].use.used = 50;         /* the owner's own */
    assert_null(dashboard_news(&r));
}

static void test_alerts_that_wait_or_are_posted(void **state)
{
    struct report r = usual();
    char url[] = "https://hooks.example/";
    (void)state;

    config.alert_url = url;
    render(&r);
    has("<strong class=\"ok\">ok</strong> 0 to be delivered");
    config.alert_url = NULL; /* taken away since */
    r.state.alerts = 2;
    render(&r);
    has("<strong class=\"bad\">waiting</strong> 2 to be delivered");
}

/* Of a call that died nobody reads among the streams. */
static void test_what_is_reserved_without_a_stream_is_told(void **state)
{
    struct report r = usual();
    (void)state;

    r.state.open_streams = 0;
    render(&r);
    has("<p>Something is reserved although no stream is open:");
    for (unsigned i = 0; i < r.n_limits; i++)
        r.limits[i].use.reserved = 0;
    render(&r);
    has_not("no stream is open");
}

/* What was not priced has not been free. */
static void test_unknown_money_is_no_nought(void **state)
{
    struct report r = usual();
    (void)state;

    r.priced = false;
    for (unsigned i = 0; i < r.n_days; i++)
        days[i].cost_nano = 0;
    r.top[0].used.of[UNIT_COST] = 0;
    render(&r);
    write_page("unpriced");
    has("No model has a price");
    has("<th scope=\"row\">2026-11-30<td>-");
    has("<td>30,210<td>-");
    has_not("<td>$0.00\n");
    days[0].cost_nano = 5000000; /* of a day with prices */
    render(&r);
    has("<th scope=\"row\">2026-11-01<td>$0.005\n");
    has("<th scope=\"row\">2026-11-30<td>-\n");
    has_not("No model has a price");
}

static void test_a_flood_leaves_other_days_to_be_seen(void **state)
{
    struct report r = usual();
    (void)state;

    days[10].figures[FIGURE_REFUSED + REFUSAL_BURST] = 3000000;
    render(&r);
    write_page("flood");
    has("<span>600</span><span>300</span><span>0</span>");
    has("bars with a gap are far higher than drawn");
    has("class=\"cut\"");
    days[10].figures[FIGURE_REFUSED + REFUSAL_BURST] = 1000;
    render(&r);
    has("<span>2,000</span><span>1,000</span><span>0</span>");
    has_not("class=\"cut\"");
}

/* Of a few days nobody knows which is the unusual one. */
static void test_a_new_site_is_not_cut(void **state)
{
    struct report r = fresh();
    (void)state;

    use_day(&r, TODAY - 2, 1);
    use_day(&r, TODAY - 1, 54);
    use_day(&r, TODAY, 90);
    render(&r);
    has("<span>200</span><span>100</span>");
    has_not("class=\"cut\"");
}

static unsigned occurrences(const char *what)
{
    unsigned n = 0;

    for (const char *at = page.text; (at = strstr(at, what)) != NULL; at++)
        n++;
    return n;
}

/* End tags may be left out of items, rows and cells alone. */
static void test_elements_are_balanced(void **state)
{
    static const char *const names[] = {
        "html", "head", "body",   "header",  "main",    "footer",  "title", "h1",
        "h2",   "h3",   "p",      "section", "dl",      "ul",      "div",   "table",
        "svg",  "g",    "b",      "i",       "details", "summary", "code",  "small",
        "span", "em",   "strong", "a",       "caption"};
    struct report r = troubled();
    char start[32], plain[32], end[32];
    (void)state;

    render(&r);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(start, sizeof start, "<%s ", names[i]);
        snprintf(plain, sizeof plain, "<%s>", names[i]);
        snprintf(end, sizeof end, "</%s>", names[i]);
        assert_true(occurrences(end) > 0);
        if (occurrences(start) + occurrences(plain) != occurrences(end))
            fail_msg("%s: %u ends", names[i], occurrences(end));
    }
}

static void test_shares(void **state)
{
    static const struct {
        const char *what;
        uint64_t v, of, whole, share;
    } rows[] = {
        {"nothing", 0, 10, 100, 0},
        {"nothing of nothing", 0, 0, 100, 0},
        {"something of nothing", 1, 0, 100, 100},
        {"half", 5, 10, 100, 50},
        {"all", 10, 10, 100, 100},
        {"more than all", 11, 10, 100, 100},
        {"never all before it is", 999999, 1000000, 100, 99},
        {"any use is seen", 1, 1000000, 100, 1},
        {"the largest amounts", AMOUNT_MAX / 2, AMOUNT_MAX, 1000, 500},
        {"the largest numbers", UINT64_MAX - 1, UINT64_MAX, 1000, 1000},
        {"one of the largest", 1, UINT64_MAX, 1000, 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (dashboard_share(rows[i].v, rows[i].of, rows[i].whole) != rows[i].share)
            fail_msg("%s: %u", rows[i].what,
                     (unsigned)dashboard_share(rows[i].v, rows[i].of, rows[i].whole));
}

static const char *written(void (*write)(struct sink *s, const void *arg), const void *arg)
{
    struct sink s;

    memset(&page, 0, sizeof page);
    sink_to(&s, keep, &page);
    write(&s, arg);
    assert_true(sink_end(&s));
    return page.text;
}

static void write_text(struct sink *s, const void *arg)
{
    dashboard_text(s, arg);
}

static void write_span(struct sink *s, const void *arg)
{
    dashboard_span(s, *(const int64_t *)arg);
}

static void write_money(struct sink *s, const void *arg)
{
    dashboard_amount(s, UNIT_COST, *(const uint64_t *)arg);
}

static void test_texts_are_escaped(void **state)
{
    static const struct {
        const char *text, *html;
    } rows[] = {
        {"", ""},
        {"plain", "plain"},
        {"</title><script>alert('1')</script>",
         "&lt;/title&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;"},
        {"\" onload=\"x&y", "&quot; onload=&quot;x&amp;y"},
        {"&&", "&amp;&amp;"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_string_equal(written(write_text, rows[i].text), rows[i].html);
}

static void test_spans_and_amounts(void **state)
{
    static const struct {
        int64_t ms;
        const char *text;
    } spans[] = {
        {0, "under a second"},
        {999, "under a second"},
        {1000, "1&nbsp;s"},
        {65000, "1&nbsp;min 5&nbsp;s"},
        {3600000, "1&nbsp;h"},
        {3605000, "1&nbsp;h"},
        {90000000, "1&nbsp;d 1&nbsp;h"},
        {-5, "under a second"},
        {86399999, "23&nbsp;h 59&nbsp;min"},
    };
    static const struct {
        uint64_t nano;
        const char *text;
    } money[] = {
        {0, "$0.00"},
        {999 * DOLLAR, "$999.00"},
        {1000 * DOLLAR + 1, "$1,000.000000001"},
        {1234567 * DOLLAR + DOLLAR / 2, "$1,234,567.50"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof spans / sizeof spans[0]; i++)
        assert_string_equal(written(write_span, &spans[i].ms), spans[i].text);
    for (size_t i = 0; i < sizeof money / sizeof money[0]; i++)
        assert_string_equal(written(write_money, &money[i].nano), money[i].text);
}

/* Names have safe letters; that is not what the page relies on. */
static void test_hostile_names_are_text(void **state)
{
    static const char hostile[] = "<img src=x onerror='a'>\"&";
    struct report r = troubled();
    (void)state;

    for (unsigned i = 0; i < config.n_limits; i++)
        strcpy(config.limits[i].name, hostile);
    strcpy(config.models[0].alias, hostile);
    strcpy(r.told[0].name, hostile);
    strcpy(r.top[0].name, "<b onclick='x'>");
    render(&r);
    has_not("<img");
    has_not("<b o");
    has("&lt;img src=x onerror=&#39;a&#39;&gt;&quot;&amp;");
}

static void test_local_time(void **state)
{
    struct report r = usual();
    (void)state;

    config.local_time = true;
    strcpy(r.state.zone, "CET-1CEST,M3.5.0,M10.5.0/3");
    render(&r);
    has("As of 2026-11-30 16:46 local time");
    has("2026-11-30 16:31<td>limit");
    strcpy(r.state.zone, "no zone");
    render(&r);
    has("As of 2026-11-30 15:46");
}

static void test_more_days_than_are_shown(void **state)
{
    struct report r = usual();
    (void)state;

    r.first_day = TODAY - 399;
    render(&r);
    has_not("<th scope=\"row\">2026-10-31");
    r.first_day = TODAY + 5; /* as by a clock that went back */
    render(&r);
    has("<th scope=\"row\">2026-11-01");
    r.first_day = TODAY;
    render(&r);
    has("viewBox=\"0 0 10 100\"");
    has_not("<th scope=\"row\">2026-11-29<td>");
}

static void test_largest_page(void **state)
{
    struct report r = largest();
    (void)state;

    render(&r);
    write_page("largest");
    if (page.n >= PAGE_MAX)
        fail_msg("%zu bytes", page.n);
    print_message("the largest page has %zu bytes\n", page.n);
}

static void test_made_twice_it_is_the_same(void **state)
{
    static struct page first;
    struct report r = troubled();
    struct sink s;
    (void)state;

    render(&r);
    first = page;
    render(&r);
    assert_string_equal(page.text, first.text);
    sink_init(&s, NULL);
    dashboard_html(&s, &r);
    assert_false(s.failed);
    assert_int_equal(s.total, first.n);
}

/* The header that goes with it allows no script, no style but the sheet beside it, nothing else. */
static void test_needs_nothing_but_its_style(void **state)
{
    struct report r = troubled();
    (void)state;

    render(&r);
    has("<link rel=\"stylesheet\" href=\"dashboard.css\">");
    has_not("<script");
    has_not("<style");
    has_not("style=");
    has_not(" on");
    has_not("http:");
    has_not("src=");
    has_not("url(");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unused_site),
        cmocka_unit_test(test_usual_day),
        cmocka_unit_test(test_trouble_is_told_first),
        cmocka_unit_test(test_each_reason_has_its_own_row),
        cmocka_unit_test(test_room_in_the_store),
        cmocka_unit_test(test_the_worst_news_of_several),
        cmocka_unit_test(test_alerts_that_wait_or_are_posted),
        cmocka_unit_test(test_what_is_reserved_without_a_stream_is_told),
        cmocka_unit_test(test_unknown_money_is_no_nought),
        cmocka_unit_test(test_a_flood_leaves_other_days_to_be_seen),
        cmocka_unit_test(test_a_new_site_is_not_cut),
        cmocka_unit_test(test_elements_are_balanced),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_texts_are_escaped),
        cmocka_unit_test(test_spans_and_amounts),
        cmocka_unit_test(test_hostile_names_are_text),
        cmocka_unit_test(test_local_time),
        cmocka_unit_test(test_more_days_than_are_shown),
        cmocka_unit_test(test_largest_page),
        cmocka_unit_test(test_made_twice_it_is_the_same),
        cmocka_unit_test(test_needs_nothing_but_its_style),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
