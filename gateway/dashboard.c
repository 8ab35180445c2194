/*
 * The dashboard: one page of HTML from a report. Security: its texts are escaped where they are
 * written (dashboard_text); it names the owner's figures, so only who may see them is given it.
 */
#include "gateway/dashboard_parts.h"

#include <string.h>

/* ---- refusals ---- */

#define ONE(f)       DAY_FIGURE(f), 1, UNIT_CALLS
#define BY_LIMITS(r) ONE(FIGURE_REFUSED + (r))

static const struct day_sum refusals[] = {
    {"by limits, all together", DAY_FIGURE(FIGURE_REFUSED), REFUSALS, UNIT_CALLS},
    {"too many at once", BY_LIMITS(REFUSAL_CONCURRENT)},
    {"too many within seconds", BY_LIMITS(REFUSAL_BURST)},
    {"limit per address", BY_LIMITS(REFUSAL_ADDRESS)},
    {"limit per visitor", BY_LIMITS(REFUSAL_VISITOR)},
    {"limit per account", BY_LIMITS(REFUSAL_ACCOUNT)},
    {"limit per key", BY_LIMITS(REFUSAL_KEY)},
    {"limit of the anonymous", BY_LIMITS(REFUSAL_ANONYMOUS)},
    {"limit of the site", BY_LIMITS(REFUSAL_SITE)},
    {"limit of the owner's own calls", BY_LIMITS(REFUSAL_BYPASS)},
    {"too long", ONE(FIGURE_TOO_LONG)},
    {"malformed or incomplete", ONE(FIGURE_INVALID)},
    {"no key or account, foreign page", ONE(FIGURE_DENIED)},
    {"paused", ONE(FIGURE_PAUSED)},
    {"all streams busy", ONE(FIGURE_BUSY)},
    {"model left alone", ONE(FIGURE_BREAKER)},
    {"could not be counted", ONE(FIGURE_METER)},
};

static void write_refusals(struct sink *s, const struct report *r)
{
    const struct history_day *today = dashboard_day(r, r->state.today);
    bool any = false;

    dashboard_section(s, "refusals", "Refusals");
    for (unsigned i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        uint64_t total = dashboard_total(r, &refusals[i]);

        if (total == 0)
            continue;
        if (!any)
            dashboard_table(s, true, "Requests refused, by reason", "reason|today|" DAYS_TEXT);
        any = true;
        dashboard_row(s, refusals[i].label);
        dashboard_cell(s, UNIT_CALLS, dashboard_sum(today, &refusals[i]));
        dashboard_cell(s, UNIT_CALLS, total);
    }
    if (any)
        dashboard_table_end(s);
    else
        sink_text(s, "<p>Nothing was refused in these days.</p>\n");
    dashboard_section_end(s);
}

/* ---- the model APIs ---- */

static void write_model(struct sink *s, const struct config_model *c,
                        const struct ledger_model *m)
{
    dashboard_row(s, c->alias);
    dashboard_cell(s, UNIT_CALLS, m->failures);
    dashboard_cell(s, UNIT_TOKENS, m->overhead);
    sink_text(s, m->breaker_wait_ms > 0 ? "<td>left alone for " : "<td>in use");
    if (m->breaker_wait_ms > 0)
        dashboard_span(s, m->breaker_wait_ms);
}

static void write_upstream(struct sink *s, const struct report *r)
{
    static const struct day_sum errors = {"", ONE(FIGURE_UPSTREAM)};

    dashboard_section(s, "upstream", "Upstream errors");
    dashboard_say(s, "<p><b>", UNIT_CALLS,
                  dashboard_sum(dashboard_day(r, r->state.today), &errors), "</b> today, <b>");
    dashboard_say(s, "", UNIT_CALLS, dashboard_total(r, &errors),
                  "</b> in " DAYS_TEXT "</p>\n");
    dashboard_table(s, true, "Models", "model|failures in a row|extra tokens per call|state");
    for (unsigned i = 0; i < r->config->n_models; i++)
        write_model(s, &r->config->models[i], &r->models[i]);
    dashboard_table_end(s);
    dashboard_section_end(s);
}

/* ---- dry runs ---- */

static uint64_t dry_total(const struct report *r, const char *limit)
{
    struct day_range days = dashboard_days(r);
    uint64_t total = 0;

    for (unsigned i = 0; i < r->n_dry; i++)
        if (r->dry[i].day >= days.first && r->dry[i].day <= days.last &&
            strcmp(r->dry[i].limit, limit) == 0)
            total = amount_add(total, r->dry[i].n);
    return total;
}

static void write_dry_run(struct sink *s, const struct report *r, const struct limit *l)
{
    dashboard_row(s, l->name);
    sink_format(s, " <small>%s per %s", report_unit(l->unit), report_subject(l->subject));
    if (l->unit != UNIT_CONCURRENT) {
        sink_text(s, ", ");
        dashboard_window(s, l);
    }
    sink_text(s, "</small>");
    dashboard_cell(s, UNIT_CALLS, report_dry_of(r, r->state.today, l->name));
    dashboard_cell(s, UNIT_CALLS, dry_total(r, l->name));
}

static void write_dry_runs(struct sink *s, const struct report *r)
{
    bool any = false;

    for (unsigned i = 0; i < r->config->n_limits; i++) {
        if (!r->config->limits[i].dry_run)
            continue;
        if (!any) {
            dashboard_section(s, "dry", "Dry runs");
            dashboard_table(s, true, "Admitted calls that a limit would have refused",
                            "limit|today|" DAYS_TEXT);
        }
        any = true;
        write_dry_run(s, r, &r->config->limits[i]);
    }
    if (!any)
        return;
    dashboard_table_end(s);
    dashboard_section_end(s);
}

/* ---- callers ---- */

static void write_caller(struct sink *s, const struct report *r, const struct ledger_caller *c)
{
    uint64_t cost = c->used.of[UNIT_COST];

    dashboard_row(s, report_subject(c->subject));
    sink_text(s, " <code>");
    dashboard_text(s, c->name);
    sink_text(s, "</code>");
    dashboard_cell(s, UNIT_CALLS, c->used.of[UNIT_CALLS]);
    dashboard_cell(s, UNIT_TOKENS, c->used.of[UNIT_TOKENS]);
    dashboard_cell(s, UNIT_COST, r->priced || cost > 0 ? cost : COST_UNKNOWN);
}

static void write_callers(struct sink *s, const struct report *r)
{
    dashboard_section(s, "callers", "Top callers today");
    if (r->n_top > 0) {
        dashboard_table(
            s, true,
            "By calls, without what was forgiven; the names change daily, as in the log",
            "caller|calls|tokens|cost");
        for (unsigned i = 0; i < r->n_top; i++)
            write_caller(s, r, &r->top[i]);
        dashboard_table_end(s);
    } else if (r->top_counted) {
        sink_text(s, "<p>Nobody has called today.</p>\n");
    }
    if (!r->top_counted)
        sink_text(s, "<p>Callers are known by a limit per caller over a calendar day, and "
                     "there is none.</p>\n");
    if (!r->top_whole)
        sink_text(s, "<p>There were too many callers to look at all of them.</p>\n");
    dashboard_section_end(s);
}

/* ---- alerts ---- */

static const char told_texts[][20] = {
    [TOLD_HERE] = "shown here only",
    [TOLD_WAITS] = "not yet delivered",
    [TOLD_DELIVERED] = "delivered",
    [TOLD_GIVEN_UP] = "given up",
};

static const struct {
    char before[32], behind[36]; /* the name */
} alert_texts[ALERT_KINDS] = {
    [ALERT_THRESHOLD] = {"limit ", " has reached "},
    [ALERT_UPSTREAM_REFUSED] = {"the API of ", " refuses us: key, credit or rate"},
    [ALERT_BREAKER_OPEN] = {"the API of ", " fails: it is left alone"},
    [ALERT_BOUND_EXCEEDED] = {"a call of ", " used more than was reserved"},
    [ALERT_METER] = {"the store could not be written", ""},
};

static void write_alert(struct sink *s, const struct report *r, const struct ledger_told *t)
{
    dashboard_row(s, "");
    dashboard_time(s, r, t->time_s);
    sink_format(s, "<td>%s<b>", alert_texts[t->kind].before);
    dashboard_text(s, t->name);
    sink_format(s, "</b>%s", alert_texts[t->kind].behind);
    if (t->kind == ALERT_THRESHOLD)
        sink_format(s, "%u %%", t->percent);
    sink_format(s, "<td>%s", told_texts[t->told]);
}

static void write_alerts(struct sink *s, const struct report *r)
{
    dashboard_section(s, "alerts", "Last alerts");
    if (r->n_told == 0)
        sink_text(s, "<p>There were none.</p>\n");
    else
        dashboard_table(s, false, "Newest first", "time|what|delivery");
    for (unsigned i = 0; i < r->n_told; i++)
        write_alert(s, r, &r->told[i]);
    if (r->n_told > 0)
        dashboard_table_end(s);
    dashboard_section_end(s);
}

/* ---- the page ---- */

static void write_head(struct sink *s, const struct report *r)
{
    const char *news = dashboard_news(r);

    sink_text(s, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                 "<meta name=\"viewport\" content=\"width=device-width\">\n"
                 "<meta name=\"color-scheme\" content=\"light dark\">\n<title>");
    if (news != NULL)
        sink_format(s, "%s - ", news);
    sink_text(s, "Pennygate</title>\n<link rel=\"stylesheet\" href=\"dashboard.css\">\n"
                 "</head>\n<body>\n<header><h1>Pennygate</h1>\n<p>As of ");
    dashboard_time(s, r, r->now_s);
    sink_format(s, " %s</p></header>\n<main>\n", r->config->local_time ? "local time" : "UTC");
}

void dashboard_html(struct sink *s, const struct report *r)
{
    static void (*const sections[])(struct sink * s, const struct report *r) = {
        dashboard_state, dashboard_budgets, dashboard_charts, write_refusals,
        write_upstream,  write_dry_runs,    write_callers,    write_alerts,
    };

    write_head(s, r);
    for (unsigned i = 0; i < sizeof sections / sizeof sections[0]; i++)
        sections[i](s, r);
    sink_text(s, "</main>\n<footer><p>The same figures as <a href=\"dashboard.json\">JSON</a>, "
                 "as <a href=\"metrics\">metrics</a>, and by <code>pennygate stats</code>: at "
                 "most a second old.</p></footer>\n</body>\n</html>\n");
}
