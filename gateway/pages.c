/*
 * Answers for people. Security: each page comes with a policy that lets a browser load nothing
 * but the program's own files; the owner's are shown to nobody before the guard has agreed, and
 * kept by no cache.
 */
#include "gateway/pages.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gateway/asset.h"
#include "gateway/guard.h"
#include "gateway/report.h"
#include "platform/clock.h"

#define FRESH_MS 1000  /* a report is made at most so often */
#define KEPT_MS  60000 /* for a dashboard that reloads itself; then its memory is given back */

/* ---- files ---- */

#define CACHED "Cache-Control: public, max-age=600\r\n"

static const char page_lines[] =
    CACHED "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "
           "connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'self'; "
           "frame-ancestors 'self'\r\n"
           "Referrer-Policy: same-origin\r\n";

/* Other sites' pages may load it; whether they may ask is another matter. */
static const char widget_lines[] = CACHED "Cross-Origin-Resource-Policy: cross-origin\r\n";

static const char style_lines[] = CACHED "Cross-Origin-Resource-Policy: same-origin\r\n";

static const struct {
    enum route route;
    enum asset_name asset;
    const char *lines;
} files[] = {
    {ROUTE_PAGE, ASSET_PAGE, page_lines},
    {ROUTE_WIDGET, ASSET_WIDGET, widget_lines},
    {ROUTE_DASHBOARD_STYLE, ASSET_DASHBOARD_STYLE, style_lines},
};

void pages_fixed(enum route route, const struct config *c, struct reply *reply, bool *gone)
{
    const char *known = exchange_param_only(reply->x, "HTTP_IF_NONE_MATCH");

    if (route ==
        ROUTE_PAGE_BELOW) /* found only where there is a mount, which has a last part */
        *gone = !reply_moved(reply, strrchr(c->mount, '/') + 1);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        const struct asset *a = asset(files[i].asset);
        const struct reply_file f = {a->type, files[i].lines, a->tag, a->at, a->n};

        if (files[i].route == route)
            *gone = !reply_file(reply, &f, known);
    }
}

/* ---- the report that the owner's pages share ---- */

struct shared {
    struct report *report;
    int64_t made_ms;
    unsigned users; /* who writes it out, and struct pages while it has it */
};

struct pages {
    pthread_mutex_t lock; /* held while one is made, never while one is written out */
    struct shared *last;
};

enum error pages_new(struct pages **out)
{
    struct pages *p = calloc(1, sizeof(*p));

    if (p == NULL)
        return ERROR_MEMORY;
    pthread_mutex_init(&p->lock, NULL);
    *out = p;
    return ERROR_NONE;
}

/* With the lock. */
static void let_go(struct shared *s)
{
    if (s == NULL || --s->users > 0)
        return;
    report_free(s->report);
    free(s);
}

void pages_free(struct pages *p)
{
    if (p == NULL)
        return;
    let_go(p->last);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

/* Nobody waits for it here: whoever makes one has just asked. */
void pages_rest(struct pages *p)
{
    if (pthread_mutex_trylock(&p->lock) != 0)
        return;
    if (p->last != NULL && clock_monotonic_ms() - p->last->made_ms >= KEPT_MS) {
        let_go(p->last);
        p->last = NULL;
    }
    pthread_mutex_unlock(&p->lock);
}

static bool is_fresh(const struct shared *s, const struct config *c)
{
    return s != NULL && s->report->config == c && clock_monotonic_ms() - s->made_ms < FRESH_MS;
}

/* With the lock. Of a store that is no longer the site's nothing is shown. */
static enum error renew(struct pages *p, const struct site_use *use)
{
    struct shared *s = calloc(1, sizeof(*s));
    enum error e = s != NULL ? ledger_verify(use->ledger) : ERROR_MEMORY;

    if (e == ERROR_NONE)
        e = report_make(use->ledger, use->config, REPORT_DAYS, (int64_t)time(NULL), &s->report);
    if (e != ERROR_NONE) {
        free(s);
        return e;
    }
    s->made_ms = clock_monotonic_ms();
    s->users = 1;
    let_go(p->last);
    p->last = s;
    return ERROR_NONE;
}

static enum error take(struct pages *p, const struct site_use *use, struct shared **out)
{
    enum error e = ERROR_NONE;

    pthread_mutex_lock(&p->lock);
    if (!is_fresh(p->last, use->config))
        e = renew(p, use);
    if (e == ERROR_NONE) {
        *out = p->last;
        p->last->users++;
    }
    pthread_mutex_unlock(&p->lock);
    return e;
}

static void give(struct pages *p, struct shared *s)
{
    pthread_mutex_lock(&p->lock);
    let_go(s);
    pthread_mutex_unlock(&p->lock);
}

/* ---- the owner's pages ---- */

#define OWNERS "Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n"

static const char dashboard_lines[] =
    OWNERS "Content-Security-Policy: default-src 'none'; style-src 'self'; base-uri 'none'; "
           "form-action 'none'; frame-ancestors 'none'\r\n";

static const struct output {
    enum route route;
    const char *type, *lines;
    void (*write)(struct sink *s, const struct report *r);
} outputs[] = {
    {ROUTE_DASHBOARD, "text/html; charset=utf-8", dashboard_lines, dashboard_html},
    {ROUTE_DASHBOARD_JSON, "application/json", OWNERS, report_json},
    {ROUTE_METRICS, "application/openmetrics-text; version=1.0.0; charset=utf-8", OWNERS,
     metrics_text},
};

struct job {
    const struct output *output;
    const struct report *report;
};

static void write_output(struct sink *s, const struct reply *r, const void *what)
{
    const struct job *j = what;

    (void)r;
    j->output->write(s, j->report);
}

static bool show(enum route route, const struct report *report, struct reply *reply)
{
    struct job j = {&outputs[0], report};

    while (j.output->route != route)
        j.output++;
    return reply_page(reply, j.output->type, j.output->lines, write_output, &j);
}

const char *pages_detail(enum code code)
{
    if (code == CODE_UNAUTHORIZED)
        return "This is for the owner of the site: any name, and the password that "
               "`pennygate dashboard-password` has made.";
    if (code == CODE_METER || code == CODE_CLOCK || code == CODE_CONFIGURATION)
        return "There are no figures now: `pennygate check` tells what is wrong.";
    return NULL;
}

static enum code refuse(enum code code, struct reply *reply, bool *gone)
{
    struct reply_error no = {
        .code = code, .basic = code == CODE_UNAUTHORIZED, .detail = pages_detail(code)};

    *gone = !reply_error(reply, &no, NULL);
    return code;
}

/* The history tells of requests for the model; of others a code is counted alone. A browser's
 * first question, without a password, is nothing of note. */
static void count(struct reply *reply, enum guard g)
{
    if (g == GUARD_WRONG)
        ledger_live_code(reply->ledger, code_live(CODE_UNAUTHORIZED));
    if (g == GUARD_CLOSED)
        ledger_live_code(reply->ledger, code_live(CODE_DASHBOARD_CLOSED));
    reply->counted = true;
}

enum code pages_guarded(struct pages *p, enum route route, struct site *site,
                        const struct site_use *use, struct reply *reply, bool *gone)
{
    struct exchange *x = reply->x;
    struct shared *s = NULL;
    enum error e;
    enum guard g = guard_check(x, use->config, use->ledger, &e);

    count(reply, g);
    if (g == GUARD_CLOSED)
        return refuse(CODE_DASHBOARD_CLOSED, reply, gone);
    if (g == GUARD_ASK || g == GUARD_WRONG)
        return refuse(CODE_UNAUTHORIZED, reply, gone);
    if (g == GUARD_OPEN)
        e = take(p, use, &s);
    if (s == NULL)
        return refuse(site_fault(site, use, e), reply, gone);
    if (x->ops->admitted(x, use->config->write_timeout_ms)) {
        *gone = !show(route, s->report, reply);
        give(p, s);
        return CODE_NONE;
    }
    give(p, s);
    return refuse(CODE_TIMEOUT_REQUEST, reply, gone);
}
