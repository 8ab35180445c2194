/*
 * stats: what was used, by day, how the site's budgets stand today, and what dry runs would
 * have refused. The same figures as a
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

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Columns of JSON and CSV after the date, in order: new ones at the end. All of them are
 * uint64_t. */
#define OF(member) offsetof(struct history_day, member)
#define FIGURE(f)  (OF(figures) + (f) * sizeof(uint64_t))
#define REFUSED(r) FIGURE(FIGURE_REFUSED + (r))

static const struct column {
    const char *key;
    size_t offset;
    bool refusal;
} columns[] = {
    {"admitted", OF(admitted), false},
    {"settled", OF(settled), false},
    {"unknown", OF(unknown), false},
    {"given_back", OF(given_back), false},
    {"tokens_in", OF(tokens_in), false},
    {"tokens_out", OF(tokens_out), false},
    {"cost_nano", OF(cost_nano), false},
    {"concurrent", REFUSED(REFUSAL_CONCURRENT), true},
    {"burst", REFUSED(REFUSAL_BURST), true},
    {"address", REFUSED(REFUSAL_ADDRESS), true},
    {"visitor", REFUSED(REFUSAL_VISITOR), true},
    {"account", REFUSED(REFUSAL_ACCOUNT), true},
    {"key", REFUSED(REFUSAL_KEY), true},
    {"anonymous", REFUSED(REFUSAL_ANONYMOUS), true},
    {"site", REFUSED(REFUSAL_SITE), true},
    {"too_long", FIGURE(FIGURE_TOO_LONG), false},
    {"paused", FIGURE(FIGURE_PAUSED), false},
    {"busy", FIGURE(FIGURE_BUSY), false},
    {"meter_unavailable", FIGURE(FIGURE_METER), false},
    {"invalid", FIGURE(FIGURE_INVALID), false},
    {"upstream_errors", FIGURE(FIGURE_UPSTREAM), false},
    {"bypass", REFUSED(REFUSAL_BYPASS), true},
    {"bypassed", OF(bypassed), false},
    {"denied", FIGURE(FIGURE_DENIED), false},
    {"breaker", FIGURE(FIGURE_BREAKER), false},
    {"proxied", FIGURE(FIGURE_PROXIED), false},
};

#define DATE_MAX 16
static char *date(int64_t day, char out[DATE_MAX])
{
    int year, month, mday;

    zone_civil(day, &year, &month, &mday);
    snprintf(out, DATE_MAX, "%04d-%02d-%02d", year % 10000, month % 100, mday % 100);
    return out;
}

/* ---- the three outputs ---- */

/* What a dry run would have refused on a day. */
struct dry_count {
    int64_t day;
    char limit[LIMIT_NAME_MAX];
    uint64_t n;
};

struct output {
    const struct config *config;
    struct ledger *ledger;
    struct policy policy;
    struct ledger_state state;
    bool unpriced; /* no model has a price */
    unsigned days; /* written so far */
    struct dry_count *dry;
    size_t n_dry;
    bool no_memory;
};

/* What was not priced has not been free. */
static bool cost_known(const struct output *o, const struct history_day *d)
{
    return !o->unpriced || d->cost_nano > 0;
}

#define NUMBER_MAX 24
/* A column's figure, or `none` if it is a cost that is not known. */
static const char *figure(const struct output *o, const struct history_day *d, size_t i,
                          const char *none, char out[NUMBER_MAX])
{
    uint64_t v;

    if (columns[i].offset == OF(cost_nano) && !cost_known(o, d))
        return none;
    memcpy(&v, (const char *)d + columns[i].offset, sizeof v);
    snprintf(out, NUMBER_MAX, "%" PRIu64, v);
    return out;
}

static uint64_t refused(const struct history_day *d)
{
    uint64_t n = 0;

    for (unsigned r = 0; r < REFUSALS; r++)
        n += d->figures[FIGURE_REFUSED + r];
    return n;
}

static void table_day(void *arg, const struct history_day *d)
{
    struct output *o = arg;
    char text[DATE_MAX], cost[PRICE_TEXT_MAX];

    if (o->days++ == 0)
        printf("%-10s %9s %9s %11s %11s %14s %9s\n", "day", "admitted", "refused", "tokens in",
               "tokens out", "cost", "errors");
    printf("%-10s %9" PRIu64 " %9" PRIu64 " %11" PRIu64 " %11" PRIu64 " %14s %9" PRIu64 "\n",
           date(d->day, text), d->admitted, refused(d), d->tokens_in, d->tokens_out,
           cost_known(o, d) ? price_format(d->cost_nano, cost) : "-",
           d->figures[FIGURE_UPSTREAM]);
}

/* The refusals, or what is none. */
static void json_figures(const struct output *o, const struct history_day *d, bool refusals)
{
    const char *comma = refusals ? "" : ", ";
    char number[NUMBER_MAX];

    for (size_t i = 0; i < COUNT(columns); i++) {
        if (columns[i].refusal != refusals)
            continue;
        printf("%s\"%s\": %s", comma, columns[i].key, figure(o, d, i, "null", number));
        comma = ", ";
    }
}

static void json_dry(const struct output *o, int64_t day)
{
    const char *comma = "";

    for (size_t i = 0; i < o->n_dry; i++) {
        if (o->dry[i].day != day)
            continue;
        printf("%s\"%s\": %" PRIu64, comma, o->dry[i].limit, o->dry[i].n);
        comma = ", ";
    }
}

static void json_day(void *arg, const struct history_day *d)
{
    struct output *o = arg;
    char text[DATE_MAX];

    printf("%s\n    {\"day\": \"%s\"", o->days++ > 0 ? "," : "", date(d->day, text));
    json_figures(o, d, false);
    printf(", \"refused\": {");
    json_figures(o, d, true);
    printf("}, \"dry_run\": {");
    json_dry(o, d->day);
    printf("}}");
}

static void csv_head(void)
{
    printf("day");
    for (size_t i = 0; i < COUNT(columns); i++)
        printf(",%s%s", columns[i].refusal ? "refused_" : "", columns[i].key);
    printf("\n");
}

static void csv_day(void *arg, const struct history_day *d)
{
    char text[DATE_MAX], number[NUMBER_MAX];

    printf("%s", date(d->day, text));
    for (size_t i = 0; i < COUNT(columns); i++)
        printf(",%s", figure(arg, d, i, "", number));
    printf("\n");
}

/* ---- the site's budgets ---- */

static const char *subject_of(const struct limit *l)
{
    return l->subject == SUBJECT_BYPASS
               ? "bypass"
               : config_option(SECTION_LIMIT, "per")->words[l->subject];
}

static const char *unit_of(const struct limit *l)
{
    return config_option(SECTION_LIMIT, "unit")->words[l->unit];
}

static void table_limit(struct output *o, const struct limit *l, const struct limit_use *u,
                        const char *window)
{
    char used[CONFIG_VALUE_MAX], reserved[CONFIG_VALUE_MAX], max[CONFIG_VALUE_MAX];

    if (o->days++ == 0)
        printf("\n%-17s %-9s %-10s %-6s %11s %11s %10s\n", "budget", "per", "unit", "window",
               "used", "of", "reserved");
    printf("%-17s %-9s %-10s %-6s %11s %11s %10s\n", l->name, subject_of(l), unit_of(l), window,
           config_value_amount(l->unit, u->used, used),
           config_value_amount(l->unit, l->max, max),
           config_value_amount(l->unit, u->reserved, reserved));
    if (l->pace)
        printf("%57s %11s\n", "released by now",
               config_value_amount(l->unit, u->released, max));
}

static void json_limit(struct output *o, const struct limit *l, const struct limit_use *u,
                       const char *window)
{
    char max[NUMBER_MAX] = "null", released[NUMBER_MAX] = "null";

    if (l->max != LIMIT_UNLIMITED) {
        snprintf(max, sizeof max, "%" PRIu64, l->max);
        snprintf(released, sizeof released, "%" PRIu64, u->released);
    }
    printf("%s\n    {\"name\": \"%s\", \"per\": \"%s\", \"unit\": \"%s\", \"window\": \"%s\", "
           "\"used\": %" PRIu64 ", \"reserved\": %" PRIu64 ", \"frees_ms\": %" PRId64
           ", \"max\": %s, \"dry_run\": %s, \"pace\": %s, \"released\": %s}",
           o->days++ > 0 ? "," : "", l->name, subject_of(l), unit_of(l), window, u->used,
           u->reserved, u->frees_ms, max, l->dry_run ? "true" : "false",
           l->pace ? "true" : "false", released);
}

/* Callers' own limits have as many counters as there are callers; only shared ones are
 * shown. */
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

        if (l->subject != SUBJECT_EVERYONE && l->subject != SUBJECT_ANONYMOUS &&
            l->subject != SUBJECT_BYPASS)
            continue;
        e = ledger_limit_use(o->ledger, &o->policy, i, &u);
        if (e != ERROR_NONE)
            return e;
        show(o, l, &u, config_value_text(option, l, window));
    }
    return ERROR_NONE;
}

/* ---- dry runs ---- */

static void keep_dry(void *arg, int64_t day, const char *limit, uint64_t n)
{
    struct output *o = arg;
    struct dry_count *more = realloc(o->dry, (o->n_dry + 1) * sizeof *more);

    if (more == NULL) {
        o->no_memory = true;
        return;
    }
    o->dry = more;
    more += o->n_dry++;
    more->day = day;
    more->n = n;
    snprintf(more->limit, sizeof more->limit, "%s", limit);
}

static enum error read_dry(struct output *o, int64_t first)
{
    enum error e = ledger_dry(o->ledger, first, keep_dry, o);

    return e == ERROR_NONE && o->no_memory ? ERROR_MEMORY : e;
}

static uint64_t dry_today(const struct output *o, const char *limit)
{
    for (size_t i = 0; i < o->n_dry; i++)
        if (o->dry[i].day == o->state.today && strcmp(o->dry[i].limit, limit) == 0)
            return o->dry[i].n;
    return 0;
}

static void table_dry(const struct output *o)
{
    const struct option *option = config_option(SECTION_LIMIT, "window");
    const char *head =
        "\ndry run           per       unit       window  would have refused today\n";

    for (unsigned i = 0; i < o->config->n_limits; i++) {
        const struct limit *l = &o->config->limits[i];
        char window[CONFIG_VALUE_MAX];

        if (!l->dry_run)
            continue;
        printf("%s%-17s %-9s %-10s %-6s %25" PRIu64 "\n", head, l->name, subject_of(l),
               unit_of(l), config_value_text(option, l, window), dry_today(o, l->name));
        head = "";
    }
}

/* ---- the command ---- */

static enum error show_table(struct output *o, int64_t first)
{
    enum error e = ledger_history(o->ledger, &o->policy, first, table_day, o);

    if (e != ERROR_NONE)
        return e;
    if (o->days == 0)
        printf("nothing has been asked for yet\n");
    else
        printf(
            "refused: by limits; answers of 503, denials and invalid requests: see --json\n");
    e = each_limit(o, table_limit);
    if (e != ERROR_NONE)
        return e;
    table_dry(o);
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

bool cli_days(const char *text, int64_t *days)
{
    size_t n = strlen(text);

    if (n == 0 || n > 3 || strspn(text, "0123456789") != n || text[0] == '0')
        return false;
    *days = strtol(text, NULL, 10);
    return *days <= CLI_DAYS_MAX;
}

int cli_stats(struct cli *cli)
{
    struct output o = {0};
    struct config *c;
    int64_t days = DAYS_DEFAULT, first;
    enum error e;
    int status;

    if ((cli->json && cli->csv) || (cli->days != NULL && !cli_days(cli->days, &days))) {
        cli_fail("stats takes --json or --csv, and --days 1 to %d", CLI_DAYS_MAX);
        return CLI_USAGE;
    }
    status = cli_open(cli, NULL, &c, &o.ledger);
    if (status != CLI_OK)
        return status;
    o.config = c;
    o.unpriced = true;
    for (unsigned i = 0; i < c->n_models; i++)
        o.unpriced = o.unpriced && !c->models[i].price.known;
    o.policy = config_policy(c, false);
    e = ledger_state(o.ledger, &o.policy, &o.state);
    first = o.state.today - days + 1;
    if (e == ERROR_NONE)
        e = read_dry(&o, first);
    if (e == ERROR_NONE)
        e = cli->json ? show_json(&o, first)
                      : (cli->csv ? show_csv(&o, first) : show_table(&o, first));
    free(o.dry);
    return e == ERROR_NONE ? CLI_OK : cli_fail_at(c->store, e);
}
