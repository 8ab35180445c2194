/*
 * The report as tables for people, in 80 columns whatever stands in them: a row with longer
 * names or amounts than its columns have room for is written in words.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "gateway/report.h"

#define INDENT      12 /* of what does not fit: behind a date and two blanks */
#define TEXT_MAX    512
#define WARNED_PART 5 /* a budget of which less than a fifth is left is told apart: 80 % */
#define TOLD_ROWS   5 /* of the last alerts: the dashboard and JSON have all */

static void put(const struct lines *l, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void words(const struct lines *l, const char *head, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void put(const struct lines *l, const char *format, ...)
{
    char line[TEXT_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    sink_text(l->sink, line);
}

static void words(const struct lines *l, const char *head, const char *format, ...)
{
    char line[TEXT_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    lines_wrap(l, INDENT, TONE_PLAIN, head, line);
}

/* The head of a table before its first row. */
static void head_once(const struct lines *l, bool *begun, const char *head)
{
    sink_text(l->sink, *begun ? "" : head);
    *begun = true;
}

/* ---- days ---- */

static void put_day(const struct lines *l, const struct report *r, const struct history_day *d)
{
    char date[REPORT_DATE_MAX], text[PRICE_TEXT_MAX], line[TEXT_MAX];
    const char *cost = report_cost_known(r, d) ? price_format(d->cost_nano, text) : "-";
    uint64_t refused = report_refused(d), errors = d->figures[FIGURE_UPSTREAM];
    int n = snprintf(line, sizeof line,
                     "%-10s %9" PRIu64 " %9" PRIu64 " %11" PRIu64 " %11" PRIu64
                     " %14s %9" PRIu64 "\n",
                     report_date(d->day, date), d->admitted, refused, d->tokens_in,
                     d->tokens_out, cost, errors);

    if (n <= LINES_COLUMNS + 1)
        sink_text(l->sink, line);
    else
        words(l, date,
              "admitted %" PRIu64 ", refused %" PRIu64 ", tokens in %" PRIu64 ", out %" PRIu64
              ", cost %s, errors %" PRIu64,
              d->admitted, refused, d->tokens_in, d->tokens_out, cost, errors);
}

static void put_days(const struct lines *l, const struct report *r)
{
    if (r->n_days == 0) {
        sink_text(l->sink, "nothing has been asked for yet\n");
        return;
    }
    put(l, "%-10s %9s %9s %11s %11s %14s %9s\n", "day", "admitted", "refused", "tokens in",
        "tokens out", "cost", "errors");
    for (unsigned i = 0; i < r->n_days; i++)
        put_day(l, r, &r->days[i]);
    sink_text(l->sink,
              "refused: by limits; answers of 503, denials and invalid requests: see --json\n");
}

/* ---- budgets ---- */

static enum tone tone_of(const struct limit *l, uint64_t used)
{
    if (l->max == LIMIT_UNLIMITED)
        return TONE_PLAIN;
    if (used >= l->max)
        return TONE_FAULT;
    return used >= l->max - l->max / WARNED_PART ? TONE_WARNING : TONE_PLAIN;
}

struct budget_text {
    char window[CONFIG_VALUE_MAX], used[CONFIG_VALUE_MAX], max[CONFIG_VALUE_MAX],
        reserved[CONFIG_VALUE_MAX], released[CONFIG_VALUE_MAX];
};

#define LIMIT_COLUMNS  "%-17s %-9s %-10s "
#define MAX_WIDTH      12
#define RESERVED_WIDTH 11 /* both with the blank before them */

static int wider(int width, const char *text)
{
    int n = (int)strlen(text) + 1;

    return n > width ? n : width;
}

/* In columns; what is too long for its own takes from those before it what they can spare. */
static bool put_budget_row(const struct lines *l, const struct report_limit *rl,
                           const struct budget_text *t)
{
    const struct limit *limit = rl->limit;
    char begin[TEXT_MAX], used[TEXT_MAX];
    int n = snprintf(begin, sizeof begin, LIMIT_COLUMNS "%s", limit->name,
                     report_subject(limit->subject), report_unit(limit->unit), t->window);
    int reserved = wider(RESERVED_WIDTH, t->reserved);
    int max = wider(MAX_WIDTH + RESERVED_WIDTH - reserved, t->max);
    int released = wider(MAX_WIDTH, t->released);
    int left = LINES_COLUMNS - n - max - reserved;

    if (left < wider(0, t->used))
        return false;
    snprintf(used, sizeof used, "%*s", left, t->used);
    sink_text(l->sink, begin);
    lines_tone(l, tone_of(limit, rl->use.used), used);
    put(l, "%*s%*s\n", max, t->max, reserved, t->reserved);
    if (limit->pace)
        put(l, "%*s%*s\n", LINES_COLUMNS - RESERVED_WIDTH - released, "released by now",
            released, t->released);
    return true;
}

static void put_budget(const struct lines *l, const struct report_limit *rl)
{
    const struct limit *limit = rl->limit;
    struct budget_text t;

    report_window(limit, t.window);
    config_value_amount(limit->unit, rl->use.used, t.used);
    config_value_amount(limit->unit, rl->use.reserved, t.reserved);
    config_value_amount(limit->unit, rl->use.released, t.released);
    config_value_amount(limit->unit, limit->max, t.max);
    if (put_budget_row(l, rl, &t))
        return;
    lines_tone(l, tone_of(limit, rl->use.used), limit->name);
    sink_text(l->sink, "\n");
    words(l, "", "per %s, %s%s%s: used %s of %s, reserved %s%s%s",
          report_subject(limit->subject), report_unit(limit->unit),
          t.window[0] != '\0' ? " in the window " : "", t.window, t.used, t.max, t.reserved,
          limit->pace ? ", released by now " : "", limit->pace ? t.released : "");
}

static void put_budgets(const struct lines *l, const struct report *r)
{
    bool begun = false;

    for (unsigned i = 0; i < r->n_limits; i++) {
        head_once(l, &begun,
                  "\nbudget            per       unit       window        used          of"
                  "   reserved\n");
        put_budget(l, &r->limits[i]);
    }
}

/* ---- dry runs ---- */

static void put_dry(const struct lines *l, const struct report *r)
{
    bool begun = false;

    for (unsigned i = 0; i < r->config->n_limits; i++) {
        const struct limit *limit = &r->config->limits[i];
        uint64_t refused = report_dry_of(r, r->state.today, limit->name);
        char window[CONFIG_VALUE_MAX], line[TEXT_MAX];
        int n = snprintf(line, sizeof line, LIMIT_COLUMNS "%-6s %25" PRIu64 "\n", limit->name,
                         report_subject(limit->subject), report_unit(limit->unit),
                         report_window(limit, window), refused);

        if (!limit->dry_run)
            continue;
        head_once(
            l, &begun,
            "\ndry run           per       unit       window  would have refused today\n");
        if (n <= LINES_COLUMNS + 1)
            sink_text(l->sink, line);
        else
            words(l, limit->name, "per %s, %s%s%s: would have refused %" PRIu64 " today",
                  report_subject(limit->subject), report_unit(limit->unit),
                  window[0] != '\0' ? " in the window " : "", window, refused);
    }
}

/* ---- callers, alerts ---- */

static void put_callers(const struct lines *l, const struct report *r)
{
    bool begun = false;

    for (unsigned i = 0; i < r->n_top; i++) {
        const struct ledger_caller *c = &r->top[i];
        char text[PRICE_TEXT_MAX];
        bool known = r->priced || c->used.of[UNIT_COST] > 0;

        head_once(l, &begun,
                  "\nmost calls today                       calls           tokens"
                  "               cost\n");
        put(l, "%-9s %-16s %17" PRIu64 " %16" PRIu64 " %18s\n", report_subject(c->subject),
            c->name, c->used.of[UNIT_CALLS], c->used.of[UNIT_TOKENS],
            known ? price_format(c->used.of[UNIT_COST], text) : "-");
    }
    if (r->n_top > 0 && !r->top_whole)
        sink_text(l->sink, "there were too many callers to look at all of them\n");
}

static void put_alerts(const struct lines *l, const struct report *r)
{
    static const char *const told[] = {[TOLD_HERE] = "",
                                       [TOLD_WAITS] = "waits",
                                       [TOLD_DELIVERED] = "delivered",
                                       [TOLD_GIVEN_UP] = "given up"};
    bool begun = false;

    for (unsigned i = 0; i < r->n_told && i < TOLD_ROWS; i++) {
        const struct ledger_told *t = &r->told[i];
        char time[REPORT_TIME_MAX], percent[16] = "", line[TEXT_MAX];
        size_t n;

        report_time(t->time_s, time);
        time[10] = ' ';
        if (t->kind == ALERT_THRESHOLD)
            snprintf(percent, sizeof percent, "%u%%", t->percent);
        head_once(l, &begun, "\nlast alerts, UTC\n");
        n = (size_t)snprintf(line, sizeof line, "%.16s %-16s %-31s %4s %s", time,
                             alert_kind_name(t->kind), t->name, percent, told[t->told]);
        for (; line[n - 1] == ' '; n--)
            ;
        sink_bytes(l->sink, line, n);
        sink_text(l->sink, "\n");
    }
}

/* ---- how it is now ---- */

static void put_models(const struct lines *l, const struct report *r)
{
    for (unsigned i = 0; i < r->config->n_models; i++) {
        int64_t wait_ms = r->models[i].breaker_wait_ms;
        char text[TEXT_MAX], wait[CONFIG_VALUE_MAX];

        if (wait_ms <= 0)
            continue;
        snprintf(text, sizeof text,
                 "model %s: its API fails or refuses us; it is left alone for %.16s more",
                 r->config->models[i].alias,
                 config_value_duration((uint64_t)(wait_ms + 999) / 1000 * 1000, wait));
        lines_wrap(l, INDENT, TONE_FAULT, "breaker", text);
    }
}

static void put_state(const struct lines *l, const struct report *r)
{
    const struct ledger_state *t = &r->state;
    char ahead[CONFIG_VALUE_MAX], full[16];

    snprintf(full, sizeof full, "%u %%", report_store_percent(r));
    put(l, "\n%" PRIu64 " open stream%s; ", t->open_streams, t->open_streams == 1 ? "" : "s");
    lines_tone(l, kv_is_filling(&t->usage) ? TONE_WARNING : TONE_PLAIN, full);
    sink_text(l->sink, " of the store in use\n");
    if (report_ahead_s(r) > 0)
        words(l, "clock", "the store's time is %.16s ahead of it (see pennygate clock)",
              config_value_span((uint64_t)report_ahead_s(r) * 1000, ahead));
    if (t->paused)
        lines_wrap(l, INDENT, TONE_WARNING, "paused",
                   "nothing is admitted until pennygate resume");
    put_models(l, r);
}

void report_table(const struct lines *l, const struct report *r)
{
    put_days(l, r);
    put_budgets(l, r);
    put_dry(l, r);
    put_callers(l, r);
    put_alerts(l, r);
    put_state(l, r);
}
