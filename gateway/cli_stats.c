/*
 * stats: what was used, by day, and how the site's budgets stand today. The same figures as a
 * table for people, as JSON and as CSV; the keys are stable. Names in the output are of
 * letters, digits, '-', '_' and '.', so that nothing has to be escaped.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/cli.h"
#include "gateway/config_value.h"

#define DAYS_DEFAULT 30
#define DAYS_MAX     400 /* the history keeps no more */

/* Columns of JSON and CSV after the date, in order. */
static const char *const refusal_keys[REFUSALS] = {
    [REFUSAL_CONCURRENT] = "concurrent", [REFUSAL_BURST] = "burst",
    [REFUSAL_ADDRESS] = "address",       [REFUSAL_VISITOR] = "visitor",
    [REFUSAL_ACCOUNT] = "account",       [REFUSAL_KEY] = "key",
    [REFUSAL_ANONYMOUS] = "anonymous",   [REFUSAL_SITE] = "site"};

static const struct {
    enum figure figure;
    const char *key;
} figure_keys[] = {{FIGURE_TOO_LONG, "too_long"}, {FIGURE_PAUSED, "paused"},
                   {FIGURE_BUSY, "busy"},         {FIGURE_METER, "meter_unavailable"},
                   {FIGURE_INVALID, "invalid"},   {FIGURE_UPSTREAM, "upstream_errors"}};

static const struct {
    const char *key;
    size_t offset;
} counts[] = {{"admitted", offsetof(struct history_day, admitted)},
              {"settled", offsetof(struct history_day, settled)},
              {"unknown", offsetof(struct history_day, unknown)},
              {"given_back", offsetof(struct history_day, given_back)},
              {"tokens_in", offsetof(struct history_day, tokens_in)},
              {"tokens_out", offsetof(struct history_day, tokens_out)},
              {"cost_nano", offsetof(struct history_day, cost_nano)}};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static uint64_t count_of(const struct history_day *d, size_t i)
{
    uint64_t v;

    memcpy(&v, (const char *)d + counts[i].offset, sizeof v);
    return v;
}

static uint64_t refused(const struct history_day *d)
{
    uint64_t n = 0;

    for (unsigned r = 0; r < REFUSALS; r++)
        n += d->figures[FIGURE_REFUSED + r];
    return n;
}

#define DATE_MAX 16
static char *date(int64_t day, char out[DATE_MAX])
{
    int year, month, mday;

    zone_civil(day, &year, &month, &mday);
    snprintf(out, DATE_MAX, "%04d-%02d-%02d", year % 10000, month % 100, mday % 100);
    return out;
}

/* ---- the three outputs --------------------------------------------------------------------
 */

struct output {
    const struct config *config;
    struct ledger *ledger;
    struct policy policy;
    struct ledger_state state;
    unsigned days; /* written so far */
};

static void table_day(void *arg, const struct history_day *d)
{
    struct output *o = arg;
    char text[DATE_MAX], cost[PRICE_TEXT_MAX];

    if (o->days++ == 0)
        printf("%-10s %9s %9s %11s %11s %14s %9s\n", "day", "admitted", "refused", "tokens in",
               "tokens out", "cost", "errors");
    printf("%-10s %9" PRIu64 " %9" PRIu64 " %11" PRIu64 " %11" PRIu64 " %14s %9" PRIu64 "\n",
           date(d->day, text), d->admitted, refused(d), d->tokens_in, d->tokens_out,
           price_format(d->cost_nano, cost), d->figures[FIGURE_UPSTREAM]);
}

static void json_day(void *arg, const struct history_day *d)
{
    struct output *o = arg;
    char text[DATE_MAX];

    printf("%s\n    {\"day\": \"%s\"", o->days++ > 0 ? "," : "", date(d->day, text));
    for (size_t i = 0; i < COUNT(counts); i++)
        printf(", \"%s\": %" PRIu64, counts[i].key, count_of(d, i));
    printf(", \"refused\": {");
    for (unsigned r = 0; r < REFUSALS; r++)
        printf("%s\"%s\": %" PRIu64, r > 0 ? ", " : "", refusal_keys[r],
               d->figures[FIGURE_REFUSED + r]);
    printf("}");
    for (size_t i = 0; i < COUNT(figure_keys); i++)
        printf(", \"%s\": %" PRIu64, figure_keys[i].key, d->figures[figure_keys[i].figure]);
    printf("}");
}

static void csv_head(void)
{
    printf("day");
    for (size_t i = 0; i < COUNT(counts); i++)
        printf(",%s", counts[i].key);
    for (unsigned r = 0; r < REFUSALS; r++)
        printf(",refused_%s", refusal_keys[r]);
    for (size_t i = 0; i < COUNT(figure_keys); i++)
        printf(",%s", figure_keys[i].key);
    printf("\n");
}

static void csv_day(void *arg, const struct history_day *d)
{
    char text[DATE_MAX];

    (void)arg;
    printf("%s", date(d->day, text));
    for (size_t i = 0; i < COUNT(counts); i++)
        printf(",%" PRIu64, count_of(d, i));
    for (unsigned r = 0; r < REFUSALS; r++)
        printf(",%" PRIu64, d->figures[FIGURE_REFUSED + r]);
    for (size_t i = 0; i < COUNT(figure_keys); i++)
        printf(",%" PRIu64, d->figures[figure_keys[i].figure]);
    printf("\n");
}

/* ---- the site's budgets -------------------------------------------------------------------
 */

static const char *subject_of(const struct limit *l)
{
    return config_option(SECTION_LIMIT, "per")->words[l->subject];
}

static const char *unit_of(const struct limit *l)
{
    return config_option(SECTION_LIMIT, "unit")->words[l->unit];
}

static void amount(const struct limit *l, uint64_t v, char out[PRICE_TEXT_MAX])
{
    if (v == LIMIT_UNLIMITED)
        snprintf(out, PRICE_TEXT_MAX, "unlimited");
    else if (l->unit == UNIT_COST)
        price_format(v, out);
    else
        snprintf(out, PRICE_TEXT_MAX, "%" PRIu64, v);
}

static void table_limit(struct output *o, const struct limit *l, const struct limit_use *u,
                        const char *window)
{
    char used[PRICE_TEXT_MAX], reserved[PRICE_TEXT_MAX], max[PRICE_TEXT_MAX];

    amount(l, u->used, used);
    amount(l, u->reserved, reserved);
    amount(l, l->max, max);
    if (o->days++ == 0)
        printf("\n%-17s %-9s %-10s %-6s %11s %11s %10s\n", "budget", "per", "unit", "window",
               "used", "of", "reserved");
    printf("%-17s %-9s %-10s %-6s %11s %11s %10s\n", l->name, subject_of(l), unit_of(l), window,
           used, max, reserved);
}

static void json_limit(struct output *o, const struct limit *l, const struct limit_use *u,
                       const char *window)
{
    printf("%s\n    {\"name\": \"%s\", \"per\": \"%s\", \"unit\": \"%s\", \"window\": \"%s\", "
           "\"used\": %" PRIu64 ", \"reserved\": %" PRIu64 ", \"frees_ms\": %" PRId64
           ", \"max\": ",
           o->days++ > 0 ? "," : "", l->name, subject_of(l), unit_of(l), window, u->used,
           u->reserved, u->frees_ms);
    if (l->max == LIMIT_UNLIMITED)
        printf("null}");
    else
        printf("%" PRIu64 "}", l->max);
}

/* Callers' own limits have as many counters as there are callers; only shared ones are shown.
 */
static enum error each_limit(struct output *o,
                             void (*show)(struct output *o, const struct limit *l,
                                          const struct limit_use *u, const char *window))
{
    const struct option *option = config_option(SECTION_LIMIT, "window");

    o->days = 0;
    for (unsigned i = 0; i < o->config->n_limits; i++) {
        const struct limit *l = &o->config->limits[i];
        char window[CONFIG_VALUE_MAX];
        struct limit_use u;
        enum error e;

        if (l->subject != SUBJECT_EVERYONE && l->subject != SUBJECT_ANONYMOUS)
            continue;
        e = ledger_limit_use(o->ledger, &o->policy, i, &u);
        if (e != ERROR_NONE)
            return e;
        show(o, l, &u, config_value_text(option, l, window));
    }
    return ERROR_NONE;
}

/* ---- the command --------------------------------------------------------------------------
 */

static enum error show_table(struct output *o, int64_t first)
{
    enum error e = ledger_history(o->ledger, &o->policy, first, table_day, o);

    if (e != ERROR_NONE)
        return e;
    if (o->days == 0)
        printf("nothing has been asked for yet\n");
    e = each_limit(o, table_limit);
    if (e != ERROR_NONE)
        return e;
    printf("\n%" PRIu64 " open stream%s%s\n", o->state.open_streams,
           o->state.open_streams == 1 ? "" : "s",
           o->state.paused ? "; paused: nothing is admitted until pennygate resume" : "");
    return ERROR_NONE;
}

static enum error show_json(struct output *o, int64_t first)
{
    char today[DATE_MAX];
    enum error e;

    printf("{\n  \"today\": \"%s\",\n  \"paused\": %s,\n  \"open_streams\": %" PRIu64
           ",\n  \"days\": [",
           date(o->state.today, today), o->state.paused ? "true" : "false",
           o->state.open_streams);
    e = ledger_history(o->ledger, &o->policy, first, json_day, o);
    if (e != ERROR_NONE)
        return e;
    printf("\n  ],\n  \"limits\": [");
    e = each_limit(o, json_limit);
    printf("\n  ]\n}\n");
    return e;
}

static enum error show_csv(struct output *o, int64_t first)
{
    csv_head();
    return ledger_history(o->ledger, &o->policy, first, csv_day, o);
}

static bool parse_days(const char *text, int64_t *days)
{
    size_t n = strlen(text);

    if (n == 0 || n > 3 || strspn(text, "0123456789") != n || text[0] == '0')
        return false;
    *days = strtol(text, NULL, 10);
    return *days <= DAYS_MAX;
}

int cli_stats(struct cli *cli)
{
    struct output o = {0};
    struct config *c;
    int64_t days = DAYS_DEFAULT, first;
    enum error e;
    int status;

    if ((cli->json && cli->csv) || (cli->days != NULL && !parse_days(cli->days, &days))) {
        cli_fail("stats takes --json or --csv, and --days 1 to %d", DAYS_MAX);
        return CLI_USAGE;
    }
    status = cli_open(cli, false, &c, &o.ledger);
    if (status != CLI_OK)
        return status;
    o.config = c;
    o.policy = config_policy(c, false);
    e = ledger_state(o.ledger, &o.policy, &o.state);
    first = o.state.today - days + 1;
    if (e == ERROR_NONE)
        e = cli->json ? show_json(&o, first)
                      : (cli->csv ? show_csv(&o, first) : show_table(&o, first));
    if (e != ERROR_NONE)
        return cli_fail("%s: %s%s", c->store, error_text(e), cli_advice(e));
    return CLI_OK;
}
