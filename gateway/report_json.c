/*
 * The report as JSON, for `stats --json` and /dashboard.json: pennygate-api(7) has all keys.
 * They are stable; new ones stand at the end of their object.
 */
#include <inttypes.h>

#include "gateway/code.h"
#include "gateway/report.h"

/* What stands before an item of a list that begins here. */
static const char *comma(bool *begun)
{
    const char *text = *begun ? ", " : "";

    *begun = true;
    return text;
}

static const char *yes(bool b)
{
    return b ? "true" : "false";
}

/* null if the number is not known, or there is none. */
static void put_number(struct sink *s, const char *before, bool known, uint64_t n)
{
    if (known)
        sink_format(s, "%s%" PRIu64, before, n);
    else
        sink_format(s, "%snull", before);
}

/* ---- days ---- */

/* The refusals, or what is none. */
static void put_figures(struct sink *s, const struct report *r, const struct history_day *d,
                        bool refusals, bool begun)
{
    for (unsigned i = 0; i < report_columns_n; i++) {
        const struct report_column *c = &report_columns[i];
        uint64_t value;
        bool known = report_value(r, d, c, &value);

        if (c->refusal != refusals)
            continue;
        sink_format(s, "%s\"%s\": ", comma(&begun), c->key);
        put_number(s, "", known, value);
    }
}

static void put_dry(struct sink *s, const struct report *r, int64_t day)
{
    bool begun = false;

    for (unsigned i = 0; i < r->n_dry; i++) {
        if (r->dry[i].day != day)
            continue;
        sink_text(s, comma(&begun));
        sink_string(s, r->dry[i].limit);
        sink_format(s, ": %" PRIu64, r->dry[i].n);
    }
}

static void put_day(struct sink *s, const struct report *r, const struct history_day *d)
{
    char date[REPORT_DATE_MAX];

    sink_format(s, "\n    {\"day\": \"%s\"", report_date(d->day, date));
    put_figures(s, r, d, false, true);
    sink_text(s, ", \"refused\": {");
    put_figures(s, r, d, true, false);
    sink_text(s, "}, \"dry_run\": {");
    put_dry(s, r, d->day);
    sink_text(s, "}}");
}

static void put_days(struct sink *s, const struct report *r)
{
    for (unsigned i = 0; i < r->n_days; i++) {
        sink_text(s, i > 0 ? "," : "");
        put_day(s, r, &r->days[i]);
    }
}

static void put_totals(struct sink *s, const struct report *r)
{
    put_figures(s, r, &r->totals, false, false);
    sink_text(s, ", \"refused\": {");
    put_figures(s, r, &r->totals, true, false);
    sink_text(s, "}");
}

/* ---- limits, callers ---- */

static void put_limit(struct sink *s, const struct report_limit *rl)
{
    const struct limit *l = rl->limit;
    bool bounded = l->max != LIMIT_UNLIMITED;
    char window[CONFIG_VALUE_MAX];

    sink_text(s, "\n    {\"name\": ");
    sink_string(s, l->name);
    sink_format(s, ", \"per\": \"%s\", \"unit\": \"%s\", \"window\": \"%s\", ",
                report_subject(l->subject), report_unit(l->unit), report_window(l, window));
    sink_format(s,
                "\"used\": %" PRIu64 ", \"reserved\": %" PRIu64 ", \"frees_ms\": %" PRId64
                ", \"max\": ",
                rl->use.used, rl->use.reserved, rl->use.frees_ms);
    put_number(s, "", bounded, l->max);
    sink_format(s, ", \"dry_run\": %s, \"pace\": %s, \"released\": ", yes(l->dry_run),
                yes(l->pace));
    put_number(s, "", bounded, rl->use.released);
    sink_text(s, "}");
}

static void put_limits(struct sink *s, const struct report *r)
{
    for (unsigned i = 0; i < r->n_limits; i++) {
        sink_text(s, i > 0 ? "," : "");
        put_limit(s, &r->limits[i]);
    }
}

static void put_callers(struct sink *s, const struct report *r)
{
    for (unsigned i = 0; i < r->n_top; i++) {
        const struct ledger_caller *c = &r->top[i];

        sink_format(s, "%s\n    {\"per\": \"%s\", \"name\": ", i > 0 ? "," : "",
                    report_subject(c->subject));
        sink_string(s, c->name);
        sink_format(s, ", \"calls\": %" PRIu64 ", \"tokens\": %" PRIu64, c->used.of[UNIT_CALLS],
                    c->used.of[UNIT_TOKENS]);
        put_number(s, ", \"cost_nano\": ", r->priced || c->used.of[UNIT_COST] > 0,
                   c->used.of[UNIT_COST]);
        sink_text(s, "}");
    }
}

/* ---- alerts, models ---- */

static void put_alerts(struct sink *s, const struct report *r)
{
    for (unsigned i = 0; i < r->n_told; i++) {
        const struct ledger_told *t = &r->told[i];
        char time[REPORT_TIME_MAX];

        sink_format(s,
                    "%s\n    {\"event\": \"%s\", \"time\": \"%s\", \"%s\": ", i > 0 ? "," : "",
                    alert_kind_name(t->kind), report_time(t->time_s, time),
                    t->kind == ALERT_THRESHOLD ? "limit" : "model");
        sink_string(s, t->name);
        if (t->kind == ALERT_THRESHOLD)
            sink_format(s, ", \"percent\": %u", t->percent);
        sink_format(s, ", \"delivery\": \"%s\"}", report_told(t->told));
    }
}

static void put_models(struct sink *s, const struct report *r)
{
    for (unsigned i = 0; i < r->config->n_models; i++) {
        const struct ledger_model *m = &r->models[i];

        sink_text(s, i > 0 ? ",\n    {\"name\": " : "\n    {\"name\": ");
        sink_string(s, r->config->models[i].alias);
        sink_format(s,
                    ", \"breaker_open\": %s, \"breaker_wait_ms\": %" PRId64
                    ", \"failures\": %u, \"overhead\": %" PRIu64 "}",
                    yes(m->breaker_wait_ms > 0), m->breaker_wait_ms, m->failures, m->overhead);
    }
}

/* ---- what is on the board ---- */

static void put_codes(struct sink *s, const struct ledger_live *v)
{
    sink_format(s, "\"ok\": %" PRIu32, v->of[LIVE_CODES + code_live(CODE_NONE)]);
    for (unsigned c = CODE_NONE + 1; c < CODES; c++)
        sink_format(s, ", \"%s\": %" PRIu32, code_entry((enum code)c)->name,
                    v->of[LIVE_CODES + code_live((enum code)c)]);
}

static void put_refused(struct sink *s, const struct report *r)
{
    bool begun = false;

    for (unsigned i = 0; i < r->config->n_limits; i++) {
        const char *name = r->config->limits[i].name;

        sink_text(s, comma(&begun));
        sink_string(s, name);
        sink_format(s, ": %" PRIu32, ledger_live_refused(&r->live, name));
    }
}

static void put_histogram(struct sink *s, const char *name, const struct ledger_live *v,
                          unsigned at, const uint32_t *bounds)
{
    sink_format(s, ",\n    \"%s\": {\"up_to\": [", name);
    for (unsigned i = 0; i < LIVE_BUCKETS - 1; i++)
        sink_format(s, "%" PRIu32 ", ", bounds[i]);
    sink_text(s, "null], \"n\": [");
    for (unsigned i = 0; i < LIVE_BUCKETS; i++)
        sink_format(s, "%s%" PRIu32, i > 0 ? ", " : "", v->of[at + i]);
    sink_format(s, "], \"sum\": %" PRIu32 "}", v->of[at + LIVE_BUCKETS]);
}

static void put_live(struct sink *s, const struct report *r)
{
    const struct ledger_live *v = &r->live;

    put_number(s, "\n    \"since_s\": ", v->of[LIVE_SINCE] != 0, v->of[LIVE_SINCE]);
    sink_text(s, ",\n    \"codes\": {");
    put_codes(s, v);
    sink_text(s, "},\n    \"refused\": {");
    put_refused(s, r);
    sink_format(s, "},\n    \"refused_others\": %" PRIu32, ledger_live_refused_others(v));
    put_histogram(s, "decision_us", v, LIVE_DECISION, ledger_decision_bounds_us);
    put_histogram(s, "first_byte_ms", v, LIVE_FIRST_BYTE, ledger_first_byte_bounds_ms);
}

/* ---- the whole ---- */

/* How things stand: of one line each. */
static void put_state(struct sink *s, const struct report *r)
{
    const struct ledger_state *t = &r->state;
    char time[REPORT_TIME_MAX], date[REPORT_DATE_MAX];

    sink_format(s, ",\n  \"time\": \"%s\",\n  \"first_day\": \"%s\",\n  \"zone\": ",
                report_time(r->now_s, time), report_date(r->first_day, date));
    sink_string(s, r->config->local_time ? t->zone : "UTC");
    sink_format(s,
                ",\n  \"store\": {\"used_bytes\": %" PRIu64 ", \"free_bytes\": %" PRIu64
                ", \"size_bytes\": %" PRIu64 "}",
                kv_used_bytes(&t->usage), t->usage.free_bytes, t->usage.map_bytes);
    sink_format(s,
                ",\n  \"clock\": {\"store_ms\": %" PRId64 ", \"clock_ms\": %" PRId64
                ", \"ahead_s\": %" PRId64 "}",
                t->store_ms, t->clock_ms, report_ahead_s(r));
    sink_format(s, ",\n  \"alerts_waiting\": %u", t->alerts);
}

void report_json(struct sink *s, const struct report *r)
{
    static const struct {
        const char *key, *end;
        void (*put)(struct sink *s, const struct report *r);
    } parts[] = {
        {"days\": [", "\n  ]", put_days},     {"limits\": [", "\n  ]", put_limits},
        {"totals\": {", "}", put_totals},     {"alerts\": [", "\n  ]", put_alerts},
        {"models\": [", "\n  ]", put_models}, {"top_callers\": [", "\n  ]", put_callers},
        {"live\": {", "\n  }", put_live},
    };
    char date[REPORT_DATE_MAX];

    sink_format(s, "{\n  \"today\": \"%s\",\n  \"paused\": %s,\n  \"open_streams\": %" PRIu64,
                report_date(r->state.today, date), yes(r->state.paused), r->state.open_streams);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        sink_format(s, ",\n  \"%s", parts[i].key);
        parts[i].put(s, r);
        sink_text(s, parts[i].end);
    }
    put_state(s, r);
    sink_format(s, ",\n  \"top_counted\": %s,\n  \"top_whole\": %s\n}\n", yes(r->top_counted),
                yes(r->top_whole));
}
