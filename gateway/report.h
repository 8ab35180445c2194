/*
 * What the owner is shown, gathered from the store in one place so that `stats`, the dashboard,
 * its JSON and the metrics cannot differ: figures here, each output in a file of its own.
 */
#ifndef GATEWAY_REPORT_H
#define GATEWAY_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/config.h"
#include "gateway/config_value.h"
#include "gateway/lines.h"
#include "gateway/sink.h"
#include "store/ledger.h"

#define REPORT_DAYS 30 /* unless another number is asked for */

struct report_limit {
    const struct limit *limit; /* of the configuration */
    struct limit_use use;
};

/* What a dry run would have refused on a day. */
struct report_dry {
    int64_t day;
    char limit[LIMIT_NAME_MAX];
    uint64_t n;
};

struct report {
    struct config *config; /* held */
    int64_t now_s;         /* wall clock */
    int64_t first_day;     /* asked for; days without use are not in `days` */
    bool priced;           /* some model has a price */
    struct ledger_state state;
    struct history_day *days; /* oldest first */
    unsigned n_days;
    struct report_limit limits[LIMITS_MAX]; /* of the shared subjects and the bypass */
    unsigned n_limits;
    struct report_dry *dry;
    unsigned n_dry;
    struct ledger_caller top[TOP_MAX];
    unsigned n_top;
    bool top_whole;
    bool top_counted; /* some limit per caller over a calendar day makes them known */
    struct ledger_told told[TOLD_MAX];
    unsigned n_told;
    struct ledger_model models[CONFIG_MODELS_MAX]; /* as config->models */
    struct history_day totals;
    struct ledger_live live;
};

/* Borrows nothing: the configuration is held. */
enum error report_make(struct ledger *l, struct config *c, unsigned days, int64_t now_s,
                       struct report **out);
void report_free(struct report *r);

/* What was not priced has not been free: whether the day's cost is known. */
bool report_cost_known(const struct report *r, const struct history_day *d);
uint64_t report_refused(const struct history_day *d); /* by limits of all kinds */
/* NULL if there was no use on it. */
const struct history_day *report_day(const struct report *r, int64_t day);
uint64_t report_dry_of(const struct report *r, int64_t day, const char *limit);

/* Columns of a day's figures in JSON and CSV, in order: new ones at the end. */
struct report_column {
    const char *key;
    uint16_t offset; /* of a uint64_t in struct history_day */
    bool refusal;    /* stands below "refused" */
};
extern const struct report_column report_columns[];
extern const unsigned report_columns_n;
/* False if it is not known: the cost of what was not priced. */
bool report_value(const struct report *r, const struct history_day *d,
                  const struct report_column *c, uint64_t *out);

#define REPORT_DATE_MAX 16
const char *report_date(int64_t day, char out[REPORT_DATE_MAX]); /* 2026-11-30 */
#define REPORT_TIME_MAX 32
const char *report_time(int64_t s, char out[REPORT_TIME_MAX]);   /* 2026-11-30T11:22:33Z */
const char *report_moment(int64_t s, char out[REPORT_TIME_MAX]); /* 2026-11-30 11:22:33 */

/* How far the store's time is ahead of the clock, in whole seconds: 0 if by no more than one. */
int64_t report_ahead_s(const struct report *r);
/* What the store takes of its room, in percent, rounded down; what is free in it left out. */
unsigned report_store_percent(const struct report *r);

/* What the configuration calls them; a subject's name also where that has none. */
const char *report_subject(enum subject s);
const char *report_unit(enum unit u);
const char *report_window(const struct limit *l, char out[CONFIG_VALUE_MAX]);
const char *report_told(enum told t); /* "none", "waits", "delivered", "given_up" */

/* The outputs: `stats`, by default and with --csv; `stats --json` and /dashboard.json;
 * /dashboard; /metrics. */
void report_table(const struct lines *l, const struct report *r);
void report_csv(struct sink *s, const struct report *r);
void report_json(struct sink *s, const struct report *r);
void dashboard_html(struct sink *s, const struct report *r);
void metrics_text(struct sink *s, const struct report *r);

#endif
