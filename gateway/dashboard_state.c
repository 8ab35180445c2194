/*
 * The state of the site in lines, the worst first: what stops it stands before what only may.
 * Each line says by a word of its own whether it is well, never by colour alone.
 */
#include "gateway/dashboard_parts.h"

#define MIB 1048576U

/* ---- pause ---- */

static bool is_paused(const struct report *r)
{
    return r->state.paused;
}

static void tell_pause(struct sink *s, const struct report *r)
{
    sink_text(s, is_paused(r) ? "nobody is admitted until <code>pennygate resume</code>"
                              : "callers are admitted as far as the limits allow");
}

/* ---- budgets ---- */

static bool is_spent(const struct report *r)
{
    for (unsigned i = 0; i < r->n_limits; i++)
        if (r->limits[i].limit->subject != SUBJECT_BYPASS && dashboard_spent(&r->limits[i]))
            return true;
    return false;
}

static void tell_budgets(struct sink *s, const struct report *r)
{
    const char *between = "";

    if (!is_spent(r))
        sink_text(s, "none is used up");
    for (unsigned i = 0; i < r->n_limits; i++) {
        if (r->limits[i].limit->subject == SUBJECT_BYPASS || !dashboard_spent(&r->limits[i]))
            continue;
        sink_text(s, between);
        dashboard_text(s, r->limits[i].limit->name);
        sink_text(s, " is used up");
        if (r->limits[i].use.frees_ms > 0) {
            sink_text(s, ", ");
            dashboard_frees(s, &r->limits[i]);
        }
        between = "; ";
    }
}

/* ---- models ---- */

static bool is_broken(const struct report *r)
{
    for (unsigned i = 0; i < r->config->n_models; i++)
        if (r->models[i].breaker_wait_ms > 0)
            return true;
    return false;
}

static void tell_models(struct sink *s, const struct report *r)
{
    const char *between = "";

    if (!is_broken(r))
        sink_text(s, "all in use");
    for (unsigned i = 0; i < r->config->n_models; i++) {
        if (r->models[i].breaker_wait_ms <= 0)
            continue;
        sink_text(s, between);
        dashboard_text(s, r->config->models[i].alias);
        sink_text(s, " is left alone for ");
        dashboard_span(s, r->models[i].breaker_wait_ms);
        sink_text(s, ", because its API fails or refuses");
        between = "; ";
    }
}

/* ---- clock ---- */

static bool is_ahead(const struct report *r)
{
    return report_ahead_s(r) > 0;
}

static void tell_clock(struct sink *s, const struct report *r)
{
    if (!is_ahead(r)) {
        sink_text(s, "the store's time is that of the clock");
        return;
    }
    sink_text(s, "the store is ahead of the clock by ");
    dashboard_span(s, report_ahead_s(r) * 1000);
    sink_text(s, ", so windows end later; if the clock is right, "
                 "<code>pennygate clock reset</code> mends it");
}

/* ---- store ---- */

static bool is_filling(const struct report *r)
{
    return kv_is_filling(&r->state.usage);
}

static void tell_bytes(struct sink *s, uint64_t bytes)
{
    if (bytes < MIB) {
        dashboard_say(s, "", UNIT_CALLS, bytes / 1024, " KiB");
    } else {
        dashboard_amount(s, UNIT_CALLS, bytes / MIB);
        sink_format(s, ".%u MiB", (unsigned)(bytes % MIB * 10 / MIB));
    }
}

static void tell_store(struct sink *s, const struct report *r)
{
    sink_format(s, "%u %% in use, ", report_store_percent(r));
    tell_bytes(s, kv_used_bytes(&r->state.usage));
    sink_text(s, " of ");
    tell_bytes(s, r->state.usage.map_bytes);
    if (is_filling(r))
        sink_text(s, "; when it is full nobody is admitted: raise <code>store-size</code>");
}

/* ---- streams, alerts ---- */

static void tell_streams(struct sink *s, const struct report *r)
{
    dashboard_say(s, "", UNIT_CALLS, r->state.open_streams, " open now");
}

static bool is_waiting(const struct report *r)
{
    return r->state.alerts > 0;
}

static void tell_alerts(struct sink *s, const struct report *r)
{
    if (!is_waiting(r) && r->config->alert_url == NULL) {
        sink_text(s, "shown here only: <code>alerts { url }</code> posts them");
        return;
    }
    dashboard_amount(s, UNIT_CALLS, r->state.alerts);
    sink_text(s, is_waiting(r) ? " to be delivered; if that stays so, the log says why"
                               : " to be delivered");
}

/* ---- the lines ---- */

static const struct line {
    char name[8];
    char bad[16];                           /* what is said instead of "ok" */
    char news[20];                          /* for the title; "": not worth one */
    bool (*is_bad)(const struct report *r); /* NULL: neither well nor bad */
    void (*tell)(struct sink *s, const struct report *r);
} lines[] = {
    {"Site", "paused", "paused", is_paused, tell_pause},
    {"Budgets", "spent", "budget spent", is_spent, tell_budgets},
    {"Models", "left alone", "model left alone", is_broken, tell_models},
    {"Clock", "ahead", "clock behind", is_ahead, tell_clock},
    {"Store", "nearly full", "store nearly full", is_filling, tell_store},
    {"Streams", "", "", NULL, tell_streams},
    {"Alerts", "waiting", "", is_waiting, tell_alerts},
};

void dashboard_state(struct sink *s, const struct report *r)
{
    dashboard_section(s, "state", "State");
    sink_text(s, "<dl class=\"state\">\n");
    for (unsigned i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        bool bad = lines[i].is_bad != NULL && lines[i].is_bad(r);

        sink_format(s, "<div><dt>%s <dd>", lines[i].name);
        if (lines[i].is_bad != NULL)
            sink_format(s, "<strong class=\"%s\">%s</strong> ", bad ? "bad" : "ok",
                        bad ? lines[i].bad : "ok");
        lines[i].tell(s, r);
        sink_text(s, "</div>\n");
    }
    sink_text(s, "</dl>\n");
    dashboard_section_end(s);
}

const char *dashboard_news(const struct report *r)
{
    for (unsigned i = 0; i < sizeof lines / sizeof lines[0]; i++)
        if (lines[i].news[0] != '\0' && lines[i].is_bad(r))
            return lines[i].news;
    return NULL;
}
