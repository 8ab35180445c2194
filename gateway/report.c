/*
 * Gathers what the owner is shown. Each figure is read in a transaction of its own: while
 * requests run, two of them can be some calls apart, but none is wrong.
 */
#include "gateway/report.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OF(member) offsetof(struct history_day, member)
#define FIGURE(f)  (OF(figures) + (f) * sizeof(uint64_t))
#define REFUSED(r) FIGURE(FIGURE_REFUSED + (r))

const struct report_column report_columns[] = {
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
const unsigned report_columns_n = sizeof report_columns / sizeof report_columns[0];

/* ---- gathering ---- */

struct gathering {
    struct report *report;
    const struct policy *policy;
    bool no_memory;
};

/* Room for one more behind the n items of the list, or NULL: it stays as it is. */
static void *grow(struct gathering *g, void *list, unsigned n, size_t size)
{
    void *more = g->no_memory ? NULL : realloc(list, (n + 1) * size);

    g->no_memory = more == NULL;
    return more;
}

static void keep_day(void *arg, const struct history_day *d)
{
    struct gathering *g = arg;
    struct report *r = g->report;
    struct history_day *days = grow(g, r->days, r->n_days, sizeof *days);

    if (days == NULL)
        return;
    r->days = days;
    r->days[r->n_days++] = *d;
}

static void keep_dry(void *arg, int64_t day, const char *limit, uint64_t n)
{
    struct gathering *g = arg;
    struct report *r = g->report;
    struct report_dry *dry = grow(g, r->dry, r->n_dry, sizeof *dry);

    if (dry == NULL)
        return;
    r->dry = dry;
    dry += r->n_dry++;
    dry->day = day;
    dry->n = n;
    snprintf(dry->limit, sizeof dry->limit, "%s", limit);
}

static enum error gather_days(struct gathering *g, struct ledger *l)
{
    struct report *r = g->report;
    enum error e = ledger_history(l, g->policy, r->first_day, keep_day, g);

    if (e == ERROR_NONE)
        e = ledger_totals(l, &r->totals);
    if (e == ERROR_NONE)
        e = ledger_dry(l, r->first_day, keep_dry, g);
    return e == ERROR_NONE && g->no_memory ? ERROR_MEMORY : e;
}

/* Callers' own limits have as many counters as there are callers. */
static enum error gather_limits(struct gathering *g, struct ledger *l)
{
    struct report *r = g->report;
    enum error e = ERROR_NONE;

    for (unsigned i = 0; e == ERROR_NONE && i < r->config->n_limits; i++) {
        struct report_limit *to = &r->limits[r->n_limits];

        if (!subject_is_shared(r->config->limits[i].subject))
            continue;
        e = ledger_limit_use(l, g->policy, i, &to->use);
        to->limit = &r->config->limits[i];
        r->n_limits++;
    }
    return e;
}

static bool counts_days(const struct limit *limits, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        if (!subject_is_shared(limits[i].subject) && limits[i].unit != UNIT_CONCURRENT &&
            limits[i].window.kind == WINDOW_DAY)
            return true;
    }
    return false;
}

static void see_key(void *arg, const struct ledger_key *k)
{
    struct report *r = arg;

    r->top_counted = r->top_counted || counts_days(k->limits, k->n_limits);
}

static enum error gather_callers(struct gathering *g, struct ledger *l)
{
    struct report *r = g->report;
    enum error e = ledger_keys(l, see_key, r);

    r->top_counted = r->top_counted || counts_days(r->config->limits, r->config->n_limits);
    if (e == ERROR_NONE)
        e = ledger_top(l, g->policy, r->top, &r->n_top, &r->top_whole);
    return e;
}

static enum error gather_models(struct gathering *g, struct ledger *l)
{
    struct report *r = g->report;
    enum error e = ERROR_NONE;

    for (unsigned i = 0; e == ERROR_NONE && i < r->config->n_models; i++) {
        const struct config_model *m = &r->config->models[i];

        r->priced = r->priced || m->price.known;
        e = ledger_model(l, m->alias, &r->models[i]);
    }
    return e;
}

static enum error gather(struct gathering *g, struct ledger *l, unsigned days)
{
    struct report *r = g->report;
    enum error e = ledger_state(l, g->policy, &r->state);

    r->first_day = r->state.today - (int64_t)days + 1;
    if (e == ERROR_NONE)
        e = gather_days(g, l);
    if (e == ERROR_NONE)
        e = gather_limits(g, l);
    if (e == ERROR_NONE)
        e = gather_callers(g, l);
    if (e == ERROR_NONE)
        e = gather_models(g, l);
    if (e == ERROR_NONE)
        e = ledger_told(l, r->told, &r->n_told);
    ledger_live(l, &r->live);
    return e;
}

enum error report_make(struct ledger *l, struct config *c, unsigned days, int64_t now_s,
                       struct report **out)
{
    const struct policy policy = config_policy(c, false);
    struct gathering g = {.report = calloc(1, sizeof *g.report), .policy = &policy};
    enum error e;

    if (g.report == NULL)
        return ERROR_MEMORY;
    g.report->config = config_hold(c);
    g.report->now_s = now_s;
    e = gather(&g, l, days);
    if (e == ERROR_NONE)
        *out = g.report;
    else
        report_free(g.report);
    return e;
}

void report_free(struct report *r)
{
    if (r == NULL)
        return;
    free(r->days);
    free(r->dry);
    config_drop(r->config);
    free(r);
}

/* ---- asking ---- */

bool report_cost_known(const struct report *r, const struct history_day *d)
{
    return r->priced || d->cost_nano > 0;
}

uint64_t report_refused(const struct history_day *d)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < REFUSALS; i++)
        n += d->figures[FIGURE_REFUSED + i];
    return n;
}

const struct history_day *report_day(const struct report *r, int64_t day)
{
    for (unsigned i = 0; i < r->n_days; i++) {
        if (r->days[i].day == day)
            return &r->days[i];
    }
    return NULL;
}

uint64_t report_dry_of(const struct report *r, int64_t day, const char *limit)
{
    for (unsigned i = 0; i < r->n_dry; i++) {
        if (r->dry[i].day == day && strcmp(r->dry[i].limit, limit) == 0)
            return r->dry[i].n;
    }
    return 0;
}

bool report_value(const struct report *r, const struct history_day *d,
                  const struct report_column *c, uint64_t *out)
{
    memcpy(out, (const char *)d + c->offset, sizeof *out);
    return c->offset != OF(cost_nano) || report_cost_known(r, d);
}

const char *report_date(int64_t day, char out[REPORT_DATE_MAX])
{
    int year, month, mday;

    zone_civil(day, &year, &month, &mday);
    snprintf(out, REPORT_DATE_MAX, "%04d-%02d-%02d", year % 10000, month % 100, mday % 100);
    return out;
}

/* With what stands between date and time, and behind both. */
static const char *put_time(int64_t s, const char *between, const char *end,
                            char out[REPORT_TIME_MAX])
{
    char date[REPORT_DATE_MAX];
    int left = (int)(s % 86400);

    snprintf(out, REPORT_TIME_MAX, "%s%s%02d:%02d:%02d%s", report_date(s / 86400, date),
             between, left / 3600, left / 60 % 60, left % 60, end);
    return out;
}

const char *report_time(int64_t s, char out[REPORT_TIME_MAX])
{
    return put_time(s, "T", "Z", out);
}

const char *report_moment(int64_t s, char out[REPORT_TIME_MAX])
{
    return put_time(s, " ", "", out);
}

int64_t report_ahead_s(const struct report *r)
{
    int64_t ahead_ms = r->state.store_ms - r->state.clock_ms;

    return ahead_ms > 1000 ? ahead_ms / 1000 : 0;
}

unsigned report_store_percent(const struct report *r)
{
    const struct kv_usage *u = &r->state.usage;

    return u->map_bytes == 0 ? 0 : (unsigned)(kv_used_bytes(u) * 100 / u->map_bytes);
}

const char *report_subject(enum subject s)
{
    return s == SUBJECT_BYPASS ? "bypass" : config_option(SECTION_LIMIT, "per")->words[s];
}

const char *report_unit(enum unit u)
{
    return config_option(SECTION_LIMIT, "unit")->words[u];
}

const char *report_window(const struct limit *l, char out[CONFIG_VALUE_MAX])
{
    return config_value_text(config_option(SECTION_LIMIT, "window"), l, out);
}

const char *report_told(enum told t)
{
    static const char *const names[] = {[TOLD_HERE] = "none",
                                        [TOLD_WAITS] = "waits",
                                        [TOLD_DELIVERED] = "delivered",
                                        [TOLD_GIVEN_UP] = "given_up"};

    return names[t];
}
