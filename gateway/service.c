/*
 * What is done with each exchange. Security: whatever is asked, in whatever state the process
 * is, there is an answer; and one line of log that names nobody.
 */
#include "gateway/service.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gateway/access.h"
#include "gateway/admission.h"
#include "gateway/alerter.h"
#include "gateway/chat.h"
#include "gateway/line.h"
#include "gateway/pages.h"
#include "gateway/place.h"
#include "gateway/reply.h"
#include "gateway/route.h"
#include "gateway/selftest.h"
#include "gateway/site.h"
#include "gateway/status.h"
#include "gateway/upstream.h"
#include "platform/clock.h"
#include "platform/random.h"

#define ID_BYTES    12
#define STOPPING_MS 1000  /* told while the process leaves: another is there by then */
#define MENDING_MS  60000 /* told while the configuration has faults: its owner has to mend it */
#define RECORDER_MS 1000  /* for transcripts that still wait when the ledger has closed */

struct service {
    struct site *site;
    struct upstream *upstream;
    struct alerter *alerter; /* NULL: of a process that serves one request */
    struct places places;
    struct pages *pages;       /* NULL: in a program made without them */
    struct recorder *recorder; /* NULL: in a program made with SMALL=1 */
    atomic_bool stopping;
    atomic_flag self_test; /* one is running */
};

enum error service_new(const char *path, char *const *env, bool single, struct service **out)
{
    struct service *s = calloc(1, sizeof(*s));
    struct config_server server;
    struct config *c;
    enum error e;

    if (s == NULL)
        return ERROR_MEMORY;
    atomic_flag_clear(&s->self_test);
    places_init(&s->places);
    e = SMALL ? ERROR_NONE : recorder_new(single, &s->recorder);
    if (PAGES && e == ERROR_NONE)
        e = pages_new(&s->pages);
    if (e == ERROR_NONE)
        e = site_new(path, env, &s->site);
    if (e == ERROR_NONE) {
        c = site_config(s->site);
        e = config_server(c, &server) ? ERROR_NONE : ERROR_MEMORY;
        config_drop(c);
    }
    if (e == ERROR_NONE)
        e = upstream_new(single ? 1 : server.streams, &s->upstream);
    if (e == ERROR_NONE && !single)
        e = alerter_new(s->site, &s->alerter);
    if (e != ERROR_NONE) {
        service_free(s, 0);
        return e;
    }
    *out = s;
    return ERROR_NONE;
}

struct config *service_config(struct service *s)
{
    return site_config(s->site);
}

void service_stop(struct service *s)
{
    atomic_store(&s->stopping, true);
}

void service_cut(struct service *s)
{
    places_cut(&s->places);
}

bool service_wants_restart(struct service *s)
{
    return site_wants_restart(s->site);
}

bool service_free(struct service *s, int64_t bound_ms)
{
    int64_t until = clock_monotonic_ms() + bound_ms, now;
    bool ended;

    if (s == NULL)
        return true;
    /* It shares nothing with the store: also without it the settles that wait are committed. */
    ended = upstream_free(s->upstream, bound_ms / 2);
    now = clock_monotonic_ms();
    if (!alerter_free(s->alerter, now < until ? until - now : 0))
        return false;
    s->alerter = NULL;
    if (PAGES)
        pages_free(s->pages);
    s->pages = NULL;
    if (!SMALL && s->recorder != NULL)
        recorder_stop(s->recorder); /* it writes on while the ledger's writer ends */
    line_end();
    now = clock_monotonic_ms();
    if (!site_free(s->site, now < until ? until - now : 0))
        return false;
    if (!SMALL)
        (void)recorder_free(s->recorder,
                            RECORDER_MS); /* a stuck one has nothing of anybody else */
    places_destroy(&s->places);
    free(s);
    return ended;
}

int64_t service_rest(struct service *s)
{
    return PAGES ? pages_rest(s->pages) : -1;
}

bool service_has_more(const struct service *s)
{
    return (!SMALL && recorder_waits(s->recorder)) || site_copy_is_due(s->site);
}

void service_do_more(struct service *s)
{
    if (!SMALL && recorder_waits(s->recorder))
        recorder_run(s->recorder);
    if (site_copy_is_due(s->site))
        site_copy(s->site);
}

/* ---- one exchange ---- */

static void make_reply(struct reply *r, struct exchange *x)
{
    static const char digits[] = "0123456789abcdef";
    const char *method = exchange_param(x, "REQUEST_METHOD");
    uint8_t random[ID_BYTES] = {0};
    size_t n;

    memset(r, 0, sizeof(*r));
    r->x = x;
    r->created_s = (int64_t)time(NULL);
    r->model = "";
    r->head = method != NULL && strcmp(method, "HEAD") == 0;
    (void)random_bytes(random,
                       sizeof(random)); /* an id names a line of log and guards nothing */
    n = (size_t)snprintf(r->id, sizeof(r->id), "chatcmpl-");
    for (size_t i = 0; i < ID_BYTES; i++) {
        r->id[n++] = digits[random[i] >> 4];
        r->id[n++] = digits[random[i] & 15];
    }
}

/* The code with which a request for this route is turned away before anything else is looked
 * at. A status says by itself why nobody is served. */
static enum code turn_away(enum route route, const struct site_use *use,
                           const struct access *access, enum code why)
{
    if (route == ROUTE_NOT_FOUND)
        return CODE_NOT_FOUND;
    if (route == ROUTE_SELF_TEST) /* found by its owner alone */
        return CODE_NONE;
    if (route == ROUTE_METHOD)
        return CODE_METHOD;
    if (access->refused || (route == ROUTE_OPTIONS && !access->present))
        return CODE_FORBIDDEN_ORIGIN;
    if (route == ROUTE_OPTIONS || route_fixed(route) ||
        (route == ROUTE_STATUS && use->config != NULL))
        return CODE_NONE;
    return why;
}

/* The history tells of requests for the model. Of a file the code alone is counted; of the owner's
 * pages nothing, whatever keeps them from being shown: gateway/pages.c. */
static void count_apart(struct reply *reply, enum route route, enum code code)
{
    if (!route_fixed(route) && !route_guarded(route))
        return;
    if (route_fixed(route) && reply->ledger != NULL)
        ledger_live_code(reply->ledger, code_live(code));
    reply->counted = true;
}

static enum code list_models(struct service *s, const struct site_use *use, struct reply *reply,
                             bool *gone)
{
    struct admission a;
    struct reply_error no;

    if (!admission_begin(&a, reply->x, s->site, use, reply->created_s, &no) ||
        !admission_known(&a, &no)) {
        *gone = !reply_error(reply, &no, NULL);
        return no.code;
    }
    *gone = !reply_models(reply, use->config);
    return CODE_NONE;
}

static int64_t wait_of(enum code code)
{
    if (code == CODE_CONFIGURATION)
        return MENDING_MS;
    return code == CODE_STOPPING ? STOPPING_MS : 0;
}

static enum code self_test(struct service *s, const struct site_use *use, struct reply *reply,
                           bool *gone)
{
    const struct selftest_job job = {use, reply, &s->self_test, &s->stopping};
    enum code code = selftest_handle(&job, gone);

    if (code != CODE_NONE)
        *gone = !reply_error(reply, &(struct reply_error){.code = code}, NULL);
    return code;
}

static enum route find_route(const struct exchange *x, const struct config *c,
                             const char **allow)
{
    return route_find(exchange_param(x, "REQUEST_METHOD"), exchange_param(x, "SCRIPT_NAME"),
                      exchange_param(x, "PATH_INFO"), c != NULL ? c->mount : NULL,
                      c == NULL || c->page, allow);
}

static void turn_down(struct reply *reply, enum route route, enum code code, const char *allow)
{
    const struct reply_error no = {
        .code = code,
        .allow = route == ROUTE_METHOD ? allow : NULL,
        .detail = PAGES && route_guarded(route) ? pages_detail(code) : NULL,
        .wait_ms = wait_of(code),
    };

    count_apart(reply, route, code);
    reply_error(reply, &no, NULL);
}

static void answer(struct service *s, const struct site_use *use, struct access *access,
                   struct reply *reply, struct chat_log *log)
{
    const struct chat_job job = {reply->x,   s->site, use,        s->upstream,
                                 &s->places, reply,   s->recorder};
    const char *allow = NULL;
    enum code why = atomic_load(&s->stopping) ? CODE_STOPPING : use->code;
    enum route route = find_route(reply->x, use->config, &allow);

    log->what = route_name(route);
    access_of(reply->x, use->config, route_shared(route, allow), access);
    log->code = turn_away(route, use, access, why);
    if (log->code != CODE_NONE)
        turn_down(reply, route, log->code, allow);
    else if (route == ROUTE_OPTIONS)
        log->gone = !reply_preflight(
            reply, allow, exchange_param(reply->x, "HTTP_ACCESS_CONTROL_REQUEST_HEADERS"));
    else if (route == ROUTE_STATUS)
        log->code = status_handle(s->site, use, &s->places, why, reply);
    else if (route == ROUTE_MODELS)
        log->code = list_models(s, use, reply, &log->gone);
    else if (!SMALL && route == ROUTE_SELF_TEST)
        log->code = self_test(s, use, reply, &log->gone);
    else if (PAGES && route_fixed(route))
        pages_fixed(route, use->config, reply, &log->gone);
    else if (PAGES && route_guarded(route))
        log->code = pages_guarded(s->pages, route, s->site, use, reply, &log->gone);
    else
        chat_handle(&job, log);
}

void service_handle(struct service *s, struct exchange *x)
{
    int64_t start = clock_monotonic_ms();
    struct site_use use;
    struct chat_log log = {.what = "-",
                           .model = "-",
                           .subject = "-",
                           .usage = "none",
                           .first_ms = -1,
                           .decision_us = -1};
    struct access access;
    struct reply reply;

    make_reply(&reply, x);
    site_enter(s->site, &use);
    reply.access = &access;
    reply.ledger = use.ledger;
    answer(s, &use, &access, &reply, &log);
    reply_count(&reply, log.code);
    alerter_note(s->alerter, &use, log.code);
    line_write(&use, &reply, &log, clock_monotonic_ms() - start);
    site_leave(s->site, &use);
}
