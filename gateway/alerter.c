/*
 * Delivering alerts. Security: what the webhook answers is never looked at beyond its status,
 * and whatever it does costs this one thread its time, nobody else.
 */
#include "gateway/alerter.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "gateway/webhook.h"
#include "platform/clock.h"
#include "platform/hourly.h"
#include "platform/log.h"

#define LOOK_MS         5000  /* what other processes have left, and what is due again */
#define LEASE_MORE_MS   60000 /* beyond the post's own time: for the store around it */
#define RETRY_FIRST_MS  30000
#define RETRY_MAX_MS    (60LL * 60000)
#define STACK_BYTES     262144 /* as the transfer thread's: TLS; a configuration is parsed */
#define MAINTAIN_ALERTS 5      /* cron calls again in a minute */
#define MAINTAIN_MS     20000
#define CRON_MS         60000

/* That the meter is unavailable, until it has been told. */
struct meter {
    bool waits;
    int64_t due_ms, next_ms; /* monotonic: of the next try, and of the next claim */
    struct ledger_alert alert;
};

struct alerter {
    struct site *site;
    int stop_fd; /* readable once it is to stop */
    atomic_bool running;
    atomic_bool meter_seen; /* a request was refused for it */
    atomic_bool meter_told; /* within the hour: nothing to wake up for */
    atomic_uint seen;       /* of ledger_alerts_queued */
    struct meter meter;     /* the thread's */

    pthread_mutex_t lock; /* the rest */
    pthread_cond_t changed;
    pthread_t thread;
    bool look, stopping, exited;
};

/* ---- one post ---- */

static bool is_on(const struct config *c)
{
    return c != NULL && c->alert_url != NULL;
}

static int64_t at_most(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t retry_ms(unsigned attempts)
{
    int64_t ms = RETRY_FIRST_MS;

    while (attempts-- > 1 && ms < RETRY_MAX_MS)
        ms *= 2;
    return at_most(ms, RETRY_MAX_MS);
}

/* Whether it was delivered. */
static bool post(const struct config *c, const struct ledger_alert *a, int64_t most_ms,
                 int stop_fd)
{
    const struct webhook w = {.url = c->alert_url,
                              .token = c->alert_token,
                              .ca_file = c->alert_ca_file,
                              .timeout_ms = at_most(c->alert_timeout_ms, most_ms)};
    const char *kind = alert_kind_name(a->kind), *name = a->name[0] != '\0' ? a->name : "-";
    char body[WEBHOOK_BODY_MAX];
    struct webhook_result r;

    webhook_body(a, body);
    webhook_post(&w, body, stop_fd, &r);
    if (r.delivered)
        log_line(LOG_LEVEL_INFO, "event=alert_delivered kind=%s name=%s attempts=%u", kind,
                 name, a->attempts);
    else
        log_line(LOG_LEVEL_WARNING,
                 "event=alert_not_delivered kind=%s name=%s attempts=%u status=%d: %s", kind,
                 name, a->attempts, r.status, r.status != 0 ? "not accepted" : r.reason);
    return r.delivered;
}

/* ---- the meter ---- */

static bool is_meter(enum code code)
{
    return code == CODE_METER || code == CODE_CLOCK;
}

static bool claim_path(const struct config *c, char out[PATH_MAX])
{
    const char *within = c->run_directory != NULL ? c->run_directory : c->store;
    int n = snprintf(out, PATH_MAX, "%s%s/alert-meter", within,
                     c->run_directory != NULL ? "" : "/run");

    return n > 0 && n < PATH_MAX;
}

static enum hourly meter_claim(const struct config *c)
{
    char path[PATH_MAX];

    return claim_path(c, path) ? hourly_claim(path, clock_monotonic_ms()) : HOURLY_UNKNOWN;
}

static void meter_release(const struct config *c)
{
    char path[PATH_MAX];

    if (claim_path(c, path))
        hourly_release(path);
}

static void meter_begin(struct meter *m)
{
    m->alert = (struct ledger_alert){.kind = ALERT_METER, .time_s = (int64_t)time(NULL)};
    m->due_ms = clock_monotonic_ms();
    m->waits = true;
}

/* The clock may be what is wrong: this goes by the monotonic one. */
static void meter_post(struct meter *m, const struct config *c, int stop_fd)
{
    if (!m->waits || clock_monotonic_ms() < m->due_ms)
        return;
    m->alert.attempts++;
    m->waits = !post(c, &m->alert, INT64_MAX, stop_fd);
    m->due_ms = clock_monotonic_ms() + retry_ms(m->alert.attempts);
}

/* ---- the thread ---- */

static bool is_stopping(struct alerter *a)
{
    bool stopping;

    pthread_mutex_lock(&a->lock);
    stopping = a->stopping;
    pthread_mutex_unlock(&a->lock);
    return stopping;
}

/* At most once an hour it is tried to be the one who tells, and until then nobody wakes us for
 * it. */
static void look_at_meter(struct alerter *a, const struct config *c, bool failed)
{
    int64_t now = clock_monotonic_ms();
    struct meter *m = &a->meter;

    failed = atomic_exchange(&a->meter_seen, false) || failed;
    if (failed && !m->waits && now >= m->next_ms) {
        m->next_ms = now + HOURLY_MS;
        if (meter_claim(c) != HOURLY_DONE)
            meter_begin(m);
    }
    atomic_store(&a->meter_told, now < m->next_ms);
}

/* Whether there is an alert to post; what keeps the store from saying so is the meter's
 * trouble. */
static bool take(struct alerter *a, const struct site_use *use, struct ledger_alert *out)
{
    const struct policy p = config_policy(use->config, false);
    enum code code = use->code;
    enum error e = ERROR_NOT_FOUND;

    if (use->ledger != NULL && code == CODE_NONE) {
        atomic_store(&a->seen, ledger_alerts_queued(use->ledger));
        e = ledger_alert_take(use->ledger, &p, use->config->alert_timeout_ms + LEASE_MORE_MS,
                              out);
    }
    if (e != ERROR_NONE && e != ERROR_NOT_FOUND)
        code = site_fault(a->site, use, e);
    look_at_meter(a, use->config, is_meter(code));
    return e == ERROR_NONE;
}

/* The ledger may be another one by now; that does not know the alert, or knows it as this
 * one. */
static void mark(struct alerter *a, const struct ledger_alert *alert, bool delivered)
{
    struct site_use use;

    site_enter(a->site, &use);
    if (use.ledger != NULL) {
        const struct policy p = config_policy(use.config, false);
        int64_t again_ms = is_stopping(a) ? 0 : retry_ms(alert->attempts);

        (void)ledger_alert_done(use.ledger, &p, alert, delivered,
                                again_ms); /* or its lease ends */
    }
    site_leave(a->site, &use);
}

/* Posts what is due; in how long to look again. */
static int64_t serve(struct alerter *a)
{
    struct ledger_alert alert;
    struct config *c = NULL;
    struct site_use use;
    bool taken = false;

    site_enter(a->site, &use);
    if (is_on(use.config)) {
        c = config_hold(use.config);
        taken = take(a, &use, &alert);
    }
    site_leave(a->site, &use);
    if (c == NULL)
        return LOOK_MS; /* they have been turned off, and may be turned on again */
    if (!taken)
        meter_post(&a->meter, c, a->stop_fd);
    else
        mark(a, &alert, post(c, &alert, INT64_MAX, a->stop_fd));
    config_drop(c);
    return taken ? 0 : LOOK_MS;
}

/* False: it is to stop. */
static bool rest(struct alerter *a, int64_t wait_ms)
{
    int64_t until = clock_monotonic_ms() + wait_ms;
    const struct timespec t = clock_timespec(until);
    bool go_on;

    pthread_mutex_lock(&a->lock);
    while (!a->stopping && !a->look && clock_monotonic_ms() < until)
        pthread_cond_timedwait(&a->changed, &a->lock, &t);
    a->look = false;
    go_on = !a->stopping;
    pthread_mutex_unlock(&a->lock);
    return go_on;
}

/* What this process has claimed and could not tell is another's to tell. */
static void hand_over(struct alerter *a)
{
    struct config *c = a->meter.waits ? site_config(a->site) : NULL;

    if (c != NULL)
        meter_release(c);
    config_drop(c);
}

static void *deliver(void *arg)
{
    struct alerter *a = arg;
    int64_t wait_ms = 0;

    while (rest(a, wait_ms))
        wait_ms = serve(a);
    hand_over(a);
    pthread_mutex_lock(&a->lock);
    a->exited = true;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

/* Called with the lock held. Signals are the main thread's; SIGPIPE of TLS is nobody's. */
static void start(struct alerter *a)
{
    static struct log_once once;
    pthread_attr_t attributes;
    sigset_t all, before;
    int failure;

    if (atomic_load(&a->running) || a->stopping || a->stop_fd < 0)
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attributes);
    failure = pthread_attr_setstacksize(&attributes, STACK_BYTES);
    if (failure == 0)
        failure = pthread_create(&a->thread, &attributes, deliver, a);
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    atomic_store(&a->running, failure == 0);
    if (failure != 0)
        log_line_once(&once, failure, LOG_LEVEL_ERROR, "starting the alerts' thread: %s",
                      strerror(failure));
}

enum error alerter_new(struct site *site, struct alerter **out)
{
    struct alerter *a = calloc(1, sizeof(*a));
    pthread_condattr_t monotonic;
    struct config *c;

    if (a == NULL)
        return ERROR_MEMORY;
    a->site = site;
    a->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&a->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&a->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    c = site_config(site);
    if (is_on(c))
        start(a); /* nobody else here yet; what an earlier process has left is posted now */
    config_drop(c);
    *out = a;
    return ERROR_NONE;
}

void alerter_note(struct alerter *a, const struct site_use *use, enum code code)
{
    bool news;

    if (a == NULL || !is_on(use->config))
        return;
    news = is_meter(code) && !atomic_load(&a->meter_told) &&
           !atomic_exchange(&a->meter_seen, true);
    if (use->ledger != NULL) {
        unsigned queued = ledger_alerts_queued(use->ledger);

        news = atomic_exchange(&a->seen, queued) != queued || news;
    }
    if (!news && atomic_load(&a->running))
        return;
    pthread_mutex_lock(&a->lock);
    start(a);
    a->look = true;
    pthread_cond_signal(&a->changed);
    pthread_mutex_unlock(&a->lock);
}

static bool stop(struct alerter *a, int64_t bound_ms)
{
    int64_t until = clock_monotonic_ms() + bound_ms;
    const struct timespec t = clock_timespec(until);
    const uint64_t one = 1;
    ssize_t wrote;
    bool ended;

    pthread_mutex_lock(&a->lock);
    a->stopping = true;
    wrote = write(a->stop_fd, &one, sizeof(one));
    (void)wrote;
    pthread_cond_broadcast(&a->changed);
    while (atomic_load(&a->running) && !a->exited && clock_monotonic_ms() < until)
        pthread_cond_timedwait(&a->changed, &a->lock, &t);
    ended = !atomic_load(&a->running) || a->exited;
    pthread_mutex_unlock(&a->lock);
    if (ended && atomic_load(&a->running))
        pthread_join(a->thread, NULL);
    return ended;
}

bool alerter_free(struct alerter *a, int64_t bound_ms)
{
    if (a == NULL)
        return true;
    if (!stop(a, bound_ms))
        return false;
    if (a->stop_fd >= 0)
        close(a->stop_fd);
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
    free(a);
    return true;
}

/* ---- maintain ---- */

void alerter_deliver(const struct config *c, struct ledger *l)
{
    const struct policy p = config_policy(c, false);
    int64_t until = clock_monotonic_ms() + MAINTAIN_MS, now;
    struct ledger_alert a;

    for (int i = 0; is_on(c) && i < MAINTAIN_ALERTS; i++) {
        now = clock_monotonic_ms();
        if (now >= until ||
            ledger_alert_take(l, &p, MAINTAIN_MS + LEASE_MORE_MS, &a) != ERROR_NONE)
            return;
        bool delivered = post(c, &a, until - now, -1);

        if (ledger_alert_done(l, &p, &a, delivered, retry_ms(a.attempts)) != ERROR_NONE)
            return;
    }
}

/* Where no file says when it was told last, the runs of one minute of each hour tell it. */
void alerter_meter(const struct config *c)
{
    struct meter m = {.waits = false};
    enum hourly mine = is_on(c) ? meter_claim(c) : HOURLY_DONE;

    if (mine == HOURLY_DONE ||
        (mine == HOURLY_UNKNOWN && clock_monotonic_ms() % HOURLY_MS >= CRON_MS))
        return;
    meter_begin(&m);
    meter_post(&m, c, -1);
    if (m.waits)
        meter_release(c);
}
