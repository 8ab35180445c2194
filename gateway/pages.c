/*
 * Answers for people. Security: each page comes with a policy that lets a browser load nothing
 * but the program's own files; the owner's are shown to nobody before the guard has agreed, and
 * kept by no cache.
 */
#include "gateway/pages.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gateway/asset.h"
#include "gateway/guard.h"
#include "gateway/report.h"
#include "platform/clock.h"

#define FRESH_MS 1000  /* a report is made at most so often */
#define ENTER_MS 1000  /* somebody else's page may take so long before it stands in the way */
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

/* ---- the report that the owner's pages share, and the one place for them ---- */

struct pages {
    pthread_mutex_t lock; /* of `taken`; never held while a page is written */
    pthread_cond_t free;
    bool taken;            /* whoever has set it has the rest */
    struct report *report; /* the last one, or NULL */
    int64_t made_ms;
};

enum error pages_new(struct pages **out)
{
    struct pages *p = calloc(1, sizeof(*p));
    pthread_condattr_t monotonic;

    if (p == NULL)
        return ERROR_MEMORY;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->free, &monotonic);
    pthread_condattr_destroy(&monotonic);
    *out = p;
    return ERROR_NONE;
}

static void let_go(struct pages *p)
{
    if (p->report != NULL)
        report_free(p->report);
    p->report = NULL;
}

void pages_free(struct pages *p)
{
    if (p == NULL)
        return;
    let_go(p);
    pthread_cond_destroy(&p->free);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

/* A slow reader has one worker, and not as many as he opens connections: the others are there for
 * callers. One whose page has just been sent is gone in a moment. */
static bool enter(struct pages *p)
{
    struct timespec limit = clock_timespec(clock_monotonic_ms() + ENTER_MS);
    bool entered;

    pthread_mutex_lock(&p->lock);
    while (p->taken)
        if (pthread_cond_timedwait(&p->free, &p->lock, &limit) == ETIMEDOUT)
            break;
    entered = !p->taken;
    p->taken = true;
    pthread_mutex_unlock(&p->lock);
    return entered;
}

static void leave(struct pages *p)
{
    pthread_mutex_lock(&p->lock);
    p->taken = false;
    pthread_cond_signal(&p->free);
    pthread_mutex_unlock(&p->lock);
}

int64_t pages_rest(struct pages *p)
{
    int64_t left = KEPT_MS;

    pthread_mutex_lock(&p->lock);
    if (!p->taken) {
        left = p->made_ms + KEPT_MS - clock_monotonic_ms();
        if (left <= 0)
            let_go(p);
        if (p->report == NULL)
            left = -1;
    }
    pthread_mutex_unlock(&p->lock);
    return left;
}

static bool is_fresh(const struct pages *p, const struct config *c)
{
    return p->report != NULL && p->report->config == c &&
           clock_monotonic_ms() - p->made_ms < FRESH_MS;
}

/* Of a store that is no longer the site's nothing is shown. */
static enum error renew(struct pages *p, const struct site_use *use)
{
    struct report *r = NULL;
    enum error e = ledger_verify(use->ledger);

    if (e == ERROR_NONE)
        e = report_make(use->ledger, use->config, REPORT_DAYS, (int64_t)time(NULL), &r);
    if (e != ERROR_NONE)
        return e;
    let_go(p);
    p->report = r;
    p->made_ms = clock_monotonic_ms();
    return ERROR_NONE;
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

/* With the place for it. */
static enum code answer(struct pages *p, enum route route, struct site *site,
                        const struct site_use *use, struct reply *reply, bool *gone)
{
    struct exchange *x = reply->x;
    enum error e = is_fresh(p, use->config) ? ERROR_NONE : renew(p, use);

    if (e != ERROR_NONE)
        return refuse(site_fault(site, use, e), reply, gone);
    if (!x->ops->admitted(x, use->config->write_timeout_ms))
        return refuse(CODE_TIMEOUT_REQUEST, reply, gone);
    *gone = !show(route, p->report, reply);
    return CODE_NONE;
}

enum code pages_guarded(struct pages *p, enum route route, struct site *site,
                        const struct site_use *use, struct reply *reply, bool *gone)
{
    enum error e;
    enum guard g = guard_check(reply->x, use->config, use->ledger, &e);
    enum code code;

    count(reply, g);
    if (g == GUARD_CLOSED)
        return refuse(CODE_DASHBOARD_CLOSED, reply, gone);
    if (g == GUARD_ASK || g == GUARD_WRONG)
        return refuse(CODE_UNAUTHORIZED, reply, gone);
    if (g != GUARD_OPEN)
        return refuse(site_fault(site, use, e), reply, gone);
    if (!enter(p))
        return refuse(CODE_BUSY, reply, gone);
    code = answer(p, route, site, use, reply, gone);
    leave(p);
    return code;
}
