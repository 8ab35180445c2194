/*
 * The dashboard: one page of HTML from a report. Security: its texts are escaped where they are
 * written (dashboard_text); it names the owner's figures, so only who may see them is given it.
 */
#include "gateway/dashboard_parts.h"

#include <string.h>

#define OF(member) offsetof(struct history_day, member)
#define FIGURE(f)  (uint16_t)(OF(figures) + (f) * sizeof(uint64_t))
#define REFUSED(label, r)                                                                      \
    {                                                                                          \
        label, FIGURE(FIGURE_REFUSED + (r)), 1, UNIT_CALLS                                     \
    }
#define ANSWERED(label, f)                                                                     \
    {                                                                                          \
        label, FIGURE(f), 1, UNIT_CALLS                                                        \
    }

#define HEADS(a) (a), sizeof(a) / sizeof((a)[0])

/* ---- refusals ---- */

static const struct day_sum refusals[] = {
    {"by limits, all together", FIGURE(FIGURE_REFUSED), REFUSALS, UNIT_CALLS},
    REFUSED("too many at once", REFUSAL_CONCURRENT),
    REFUSED("too many within seconds", REFUSAL_BURST),
    REFUSED("limit per address", REFUSAL_ADDRESS),
    REFUSED("limit per visitor", REFUSAL_VISITOR),
    REFUSED("limit per account", REFUSAL_ACCOUNT),
    REFUSED("limit per key", REFUSAL_KEY),
    REFUSED("limit of the anonymous", REFUSAL_ANONYMOUS),
    REFUSED("limit of the site", REFUSAL_SITE),
    REFUSED("limit of the owner's own calls", REFUSAL_BYPASS),
    ANSWERED("too long", FIGURE_TOO_LONG),
    ANSWERED("malformed", FIGURE_INVALID),
    ANSWERED("no key, or a page of elsewhere", FIGURE_DENIED),
    ANSWERED("paused", FIGURE_PAUSED),
    ANSWERED("all streams busy", FIGURE_BUSY),
    ANSWERED("breaker open", FIGURE_BREAKER),
    ANSWERED("could not be counted", FIGURE_METER),
};

static void write_refusals(struct sink *s, const struct report *r)
{
    static const char *const heads[] = {"reason", "today", "30 days"};
    const struct history_day *today = dashboard_day(r, r->state.today);
    bool any = false;

    dashboard_section(s, "refusals", "Refusals");
    for (unsigned i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        uint64_t total = dashboard_total(r, &refusals[i]);

        if (total == 0)
            continue;
        if (!any)
            dashboard_table(s, true, "Requests refused, by reason", HEADS(heads));
        any = true;
        sink_format(s, "<tr><th scope=\"row\">%s<td>", refusals[i].label);
        dashboard_count(s, dashboard_sum(today, &refusals[i]));
        sink_text(s, "<td>");
        dashboard_count(s, total);
        sink_text(s, "\n");
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
    sink_text(s, "<tr><th scope=\"row\">");
    dashboard_text(s, c->alias);
    sink_text(s, "<td>");
    dashboard_count(s, m->failures);
    sink_text(s, "<td>");
    dashboard_count(s, m->overhead);
    sink_text(s, m->breaker_wait_ms > 0 ? "<td>open, tried again in " : "<td>closed");
    if (m->breaker_wait_ms > 0)
        dashboard_span(s, m->breaker_wait_ms);
    sink_text(s, "\n");
}

static void write_upstream(struct sink *s, const struct report *r)
{
    static const struct day_sum errors = ANSWERED("", FIGURE_UPSTREAM);
    static const char *const heads[] = {"model", "failures in a row", "extra tokens per call",
                                        "breaker"};

    dashboard_section(s, "upstream", "Upstream errors");
    sink_text(s, "<p><b>");
    dashboard_count(s, dashboard_sum(dashboard_day(r, r->state.today), &errors));
    sink_text(s, "</b> today, <b>");
    dashboard_count(s, dashboard_total(r, &errors));
    sink_text(s, "</b> in 30 days</p>\n");
    dashboard_table(s, true, "Models", HEADS(heads));
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
    sink_text(s, "<tr><th scope=\"row\">");
    dashboard_text(s, l->name);
    sink_format(s, " <small>%s per %s", report_unit(l->unit), report_subject(l->subject));
    if (l->unit != UNIT_CONCURRENT) {
        sink_text(s, ", ");
        dashboard_window(s, l);
    }
    sink_text(s, "</small><td>");
    dashboard_count(s, report_dry_of(r, r->state.today, l->name));
    sink_text(s, "<td>");
    dashboard_count(s, dry_total(r, l->name));
    sink_text(s, "\n");
}

static void write_dry_runs(struct sink *s, const struct report *r)
{
    static const char *const heads[] = {"limit", "today", "30 days"};
    bool any = false;

    for (unsigned i = 0; i < r->config->n_limits; i++) {
        if (!r->config->limits[i].dry_run)
            continue;
        if (!any) {
            dashboard_section(s, "dry", "Dry runs");
            dashboard_table(s, true, "Admitted calls that a limit would have refused",
                            HEADS(heads));
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

    sink_format(s, "<tr><th scope=\"row\">%s <code>", report_subject(c->subject));
    dashboard_text(s, c->name);
    sink_text(s, "</code>");
    for (unsigned u = 0; u < UNITS_SUMMED; u++) {
        sink_text(s, "<td>");
        dashboard_figure(s, u, c->used.of[u], r->priced || cost > 0);
    }
    sink_text(s, "\n");
}

static void write_callers(struct sink *s, const struct report *r)
{
    static const char *const heads[] = {"caller", "calls", "tokens", "cost"};

    dashboard_section(s, "callers", "Top callers today");
    if (r->n_top > 0) {
        dashboard_table(s, true, "By calls; the names change daily, as in the log",
                        HEADS(heads));
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

static const char *const told_texts[] = {
    [TOLD_HERE] = "shown here only",
    [TOLD_WAITS] = "not yet delivered",
    [TOLD_DELIVERED] = "delivered",
    [TOLD_GIVEN_UP] = "given up",
};

/* Before and behind the name. */
static const char *const alert_texts[ALERT_KINDS][2] = {
    [ALERT_THRESHOLD] = {"limit ", " has reached "},
    [ALERT_UPSTREAM_REFUSED] = {"the API of ", " refuses us: key, credit or rate"},
    [ALERT_BREAKER_OPEN] = {"the breaker of ", " has opened"},
    [ALERT_BOUND_EXCEEDED] = {"a call of ", " used more than was reserved"},
    [ALERT_METER] = {"the store could not be written", ""},
};

static void write_alert(struct sink *s, const struct report *r, const struct ledger_told *t)
{
    sink_text(s, "<tr><th scope=\"row\">");
    dashboard_time(s, r, t->time_s);
    sink_format(s, "<td>%s<b>", alert_texts[t->kind][0]);
    dashboard_text(s, t->name);
    sink_format(s, "</b>%s", alert_texts[t->kind][1]);
    if (t->kind == ALERT_THRESHOLD)
        sink_format(s, "%u %%", t->percent);
    sink_format(s, "<td>%s\n", told_texts[t->told]);
}

static void write_alerts(struct sink *s, const struct report *r)
{
    static const char *const heads[] = {"time", "what", "delivery"};

    dashboard_section(s, "alerts", "Last alerts");
    if (r->n_told == 0)
        sink_text(s, "<p>There were none.</p>\n");
    else
        dashboard_table(s, false, "Newest first", HEADS(heads));
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
    sink_text(s, "</main>\n<footer><p>The same figures as <a href=\"dashboard.json\">JSON</a> "
                 "and by <code>pennygate stats</code>.</p></footer>\n</body>\n</html>\n");
}
