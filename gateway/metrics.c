/*
 * /metrics: the report as OpenMetrics 1.0 text, by one table of families. What comes from the
 * store never decreases; what comes from the board begins anew with it, which `_created` tells
 * and a scraper takes for a restart, as it does a counter that has wrapped at 2^32. No counter is a
 * difference, or made of both: it would fall when one of them changes. Security: for
 * the owner alone, and even so no caller, address or real model name is in it; its length is
 * bounded by those of the configuration's tables.
 */
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "gateway/code.h"
#include "gateway/report.h"

#ifndef PENNYGATE_VERSION /* the Makefile's */
#define PENNYGATE_VERSION "0"
#endif

#define PREFIX        "pennygate_"
#define OTHER_LIMITS  "(other)" /* no limit can be called so */
#define LABELS_MAX    2
#define NANO_DECIMALS 9

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum type { INFO, COUNTER, GAUGE, HISTOGRAM };

struct out {
    struct sink *s;
    const struct report *r;
    const struct family *f;
};

struct family {
    const char *name; /* after the prefix */
    enum type type;
    bool live;        /* of the board */
    const char *unit; /* the name ends with it; or NULL */
    const char *help;
    void (*put)(const struct out *o);
};

struct label {
    const char *name; /* NULL: none */
    const char *value;
};

/* ---- samples ---- */

static void put_escaped(struct sink *s, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\n')
            sink_text(s, "\\n");
        else
            sink_format(s, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
    }
}

/* v / 10^decimals, as short as it can be written; `point`: never without one. */
static void put_number(struct sink *s, uint64_t v, unsigned decimals, bool point)
{
    uint64_t scale = 1, part;

    for (unsigned i = 0; i < decimals; i++)
        scale *= 10;
    sink_format(s, "%" PRIu64, v / scale);
    for (part = v % scale; decimals > 0 && part % 10 == 0; part /= 10)
        decimals--;
    if (decimals > 0)
        sink_format(s, ".%0*" PRIu64, (int)decimals, part);
    else if (point)
        sink_text(s, ".0");
}

static void put_name(const struct out *o, const char *suffix, const struct label *labels)
{
    const char *separator = "{";

    sink_format(o->s, PREFIX "%s%s", o->f->name, suffix);
    for (unsigned i = 0; labels != NULL && i < LABELS_MAX && labels[i].name != NULL; i++) {
        sink_format(o->s, "%s%s=\"", separator, labels[i].name);
        put_escaped(o->s, labels[i].value);
        sink_text(o->s, "\"");
        separator = ",";
    }
    sink_text(o->s, labels != NULL && labels[0].name != NULL ? "} " : " ");
}

static void put_sample(const struct out *o, const char *suffix, const struct label *labels,
                       uint64_t v, unsigned decimals)
{
    put_name(o, suffix, labels);
    put_number(o->s, v, decimals, false);
    sink_text(o->s, "\n");
}

/* Since when it has been counted, where that is known. */
static void put_created(const struct out *o, const struct label *labels)
{
    uint32_t since = o->r->live.of[LIVE_SINCE];

    if (o->f->live && since != 0)
        put_sample(o, "_created", labels, since, 0);
}

static void put_value(const struct out *o, const struct label *labels, uint64_t v,
                      unsigned decimals)
{
    put_sample(o, o->f->type == COUNTER ? "_total" : "", labels, v, decimals);
    if (o->f->type == COUNTER)
        put_created(o, labels);
}

/* A sample with one label. */
static void put_of(const struct out *o, const char *name, const char *value, uint64_t v)
{
    put_value(o, (const struct label[LABELS_MAX]){{name, value}}, v, 0);
}

/* ---- what the store counts ---- */

static void put_build(const struct out *o)
{
    put_sample(o, "_info", (const struct label[LABELS_MAX]){{"version", PENNYGATE_VERSION}}, 1,
               0);
}

static void put_admitted(const struct out *o)
{
    put_value(o, NULL, o->r->totals.admitted, 0);
}

static void put_settled(const struct out *o)
{
    put_of(o, "kind", "reported", o->r->totals.settled);
    put_of(o, "kind", "unknown", o->r->totals.unknown);
    put_of(o, "kind", "given_back", o->r->totals.given_back);
}

static void put_tokens(const struct out *o)
{
    put_of(o, "direction", "input", o->r->totals.tokens_in);
    put_of(o, "direction", "output", o->r->totals.tokens_out);
}

static void put_cost(const struct out *o)
{
    if (report_cost_known(o->r, &o->r->totals))
        put_value(o, NULL, o->r->totals.cost_nano, NANO_DECIMALS);
}

/* ---- what the board counts ---- */

static uint32_t answers_of(const struct report *r, enum code code)
{
    return r->live.of[LIVE_CODES + code_live(code)];
}

/* Not the history's figure: what the board has of it beyond the store goes with the board. */
static void put_upstream_errors(const struct out *o)
{
    uint64_t n = 0;

    for (unsigned code = CODE_UPSTREAM_REFUSED; code < CODES; code++)
        n += answers_of(o->r, (enum code)code);
    put_value(o, NULL, n, 0);
}

static void put_refused(const struct out *o)
{
    const struct config *c = o->r->config;

    for (unsigned i = 0; i < c->n_limits; i++)
        put_of(o, "limit", c->limits[i].name,
               ledger_live_refused(&o->r->live, c->limits[i].name));
    put_of(o, "limit", OTHER_LIMITS, ledger_live_refused_others(&o->r->live));
}

static void put_answers(const struct out *o)
{
    for (unsigned code = 0; code < CODES; code++)
        put_of(o, "code", code == CODE_NONE ? "ok" : code_entry((enum code)code)->name,
               answers_of(o->r, (enum code)code));
}

/* `bounds` and the sum are in 10^-decimals seconds. */
static void put_histogram(const struct out *o, unsigned first,
                          const uint32_t bounds[LIVE_BUCKETS - 1], unsigned decimals)
{
    const uint32_t *of = &o->r->live.of[first];
    uint64_t n = 0;

    for (unsigned i = 0; i < LIVE_BUCKETS; i++) {
        n += of[i];
        sink_format(o->s, PREFIX "%s_bucket{le=\"", o->f->name);
        if (i < LIVE_BUCKETS - 1)
            put_number(o->s, bounds[i], decimals, true);
        else
            sink_text(o->s, "+Inf");
        sink_format(o->s, "\"} %" PRIu64 "\n", n);
    }
    put_sample(o, "_count", NULL, n, 0);
    put_sample(o, "_sum", NULL, of[LIVE_BUCKETS], decimals);
    put_created(o, NULL);
}

static void put_decision(const struct out *o)
{
    put_histogram(o, LIVE_DECISION, ledger_decision_bounds_us, 6);
}

static void put_first_byte(const struct out *o)
{
    put_histogram(o, LIVE_FIRST_BYTE, ledger_first_byte_bounds_ms, 3);
}

/* ---- how things stand ---- */

static void put_streams(const struct out *o)
{
    put_value(o, NULL, o->r->state.open_streams, 0);
}

static void put_dry(const struct out *o)
{
    const struct config *c = o->r->config;

    for (unsigned i = 0; i < c->n_limits; i++)
        if (c->limits[i].dry_run)
            put_of(o, "limit", c->limits[i].name,
                   report_dry_of(o->r, o->r->state.today, c->limits[i].name));
}

/* Of each limit that callers share: what `of` says of it. */
static void put_limits(const struct out *o, uint64_t (*of)(const struct report_limit *l))
{
    for (unsigned i = 0; i < o->r->n_limits; i++) {
        const struct report_limit *l = &o->r->limits[i];
        const bool cost = l->limit->unit == UNIT_COST;
        const struct label labels[LABELS_MAX] = {
            {"limit", l->limit->name},
            {"unit", cost ? "dollars" : report_unit(l->limit->unit)},
        };
        uint64_t v = of(l);

        if (v != LIMIT_UNLIMITED) {
            put_value(o, labels, v, cost ? NANO_DECIMALS : 0);
            continue;
        }
        put_name(o, "", labels);
        sink_text(o->s, "+Inf\n");
    }
}

static uint64_t used_of(const struct report_limit *l)
{
    return l->use.used;
}

static uint64_t reserved_of(const struct report_limit *l)
{
    return l->use.reserved;
}

static uint64_t max_of(const struct report_limit *l)
{
    return l->limit->max;
}

static void put_used(const struct out *o)
{
    put_limits(o, used_of);
}

static void put_reserved(const struct out *o)
{
    put_limits(o, reserved_of);
}

static void put_max(const struct out *o)
{
    put_limits(o, max_of);
}

static void put_store_used(const struct out *o)
{
    put_value(o, NULL, kv_used_bytes(&o->r->state.usage), 0);
}

static void put_store_size(const struct out *o)
{
    put_value(o, NULL, o->r->state.usage.map_bytes, 0);
}

static void put_clock(const struct out *o)
{
    const struct ledger_state *s = &o->r->state;

    put_value(o, NULL, s->store_ms > s->clock_ms ? (uint64_t)(s->store_ms - s->clock_ms) : 0,
              3);
}

static void put_paused(const struct out *o)
{
    put_value(o, NULL, o->r->state.paused, 0);
}

static void put_breakers(const struct out *o)
{
    for (unsigned i = 0; i < o->r->config->n_models; i++)
        put_of(o, "model", o->r->config->models[i].alias, o->r->models[i].breaker_wait_ms > 0);
}

static void put_alerts(const struct out *o)
{
    put_value(o, NULL, o->r->state.alerts, 0);
}

/* ---- the table ---- */

/* pennygate-api(7) lists them; a test holds the two together. */
static const struct family families[] = {
    {"build", INFO, false, NULL, "The program.", put_build},
    {"admitted", COUNTER, false, NULL, "Requests that were admitted.", put_admitted},
    {"settled", COUNTER, false, NULL,
     "Admitted requests that have ended: with the use that was reported, charged as reserved, "
     "or given back.",
     put_settled},
    {"tokens", COUNTER, false, NULL,
     "Tokens charged by settled requests: as reserved where the use is unknown.", put_tokens},
    {"cost_dollars", COUNTER, false, "dollars",
     "What settled requests have cost; none if no model has a price.", put_cost},
    {"upstream_errors", COUNTER, true, NULL, "Requests that failed at the model API.",
     put_upstream_errors},
    {"refused", COUNTER, true, NULL, "Requests refused, by the limit that was named.",
     put_refused},
    {"answers", COUNTER, true, NULL,
     "Completions that were answered (ok), and requests of all kinds that were not, by code.",
     put_answers},
    {"decision_seconds", HISTOGRAM, true, "seconds",
     "Time in the meter until a request was decided; of all that asked it.", put_decision},
    {"first_byte_seconds", HISTOGRAM, true, "seconds",
     "Time from the call until the first byte for the caller; of all that got one.",
     put_first_byte},
    {"open_streams", GAUGE, false, NULL, "Admitted requests that are open now.", put_streams},
    {"dry_run_refused_today", GAUGE, false, NULL,
     "Admitted requests of today that a limit of a dry run would have refused.", put_dry},
    {"limit_used", GAUGE, false, NULL,
     "Use of a limit that callers share, what is reserved included.", put_used},
    {"limit_reserved", GAUGE, false, NULL, "Of that, what is reserved by open requests.",
     put_reserved},
    {"limit_max", GAUGE, false, NULL, "The most that the limit allows.", put_max},
    {"store_used_bytes", GAUGE, false, "bytes", "Of the store's size, what is in use.",
     put_store_used},
    {"store_size_bytes", GAUGE, false, "bytes", "The size that the store can grow to.",
     put_store_size},
    {"store_clock_ahead_seconds", GAUGE, false, "seconds",
     "How far the store's time is ahead of the clock.", put_clock},
    {"paused", GAUGE, false, NULL, "1 while the owner has paused the feature.", put_paused},
    {"breaker_open", GAUGE, false, NULL, "1 while a model is given a rest.", put_breakers},
    {"alerts_waiting", GAUGE, false, NULL, "Alerts that wait to be delivered.", put_alerts},
};

void metrics_text(struct sink *s, const struct report *r)
{
    static const char *const types[] = {
        [INFO] = "info", [COUNTER] = "counter", [GAUGE] = "gauge", [HISTOGRAM] = "histogram"};

    for (size_t i = 0; i < COUNT(families); i++) {
        const struct family *f = &families[i];
        const struct out o = {s, r, f};

        sink_format(s, "# TYPE " PREFIX "%s %s\n", f->name, types[f->type]);
        if (f->unit != NULL)
            sink_format(s, "# UNIT " PREFIX "%s %s\n", f->name, f->unit);
        sink_format(s, "# HELP " PREFIX "%s %s\n", f->name, f->help);
        f->put(&o);
    }
    sink_text(s, "# EOF\n");
}
