/*
 * The worker threads and their end. Security: all signals are blocked in workers, stacks have
 * the size the owner chose, and whatever a worker hangs in, the process leaves within its
 * bound.
 */
#include "gateway/pool.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gateway/fcgi.h"
#include "gateway/gate.h"
#include "platform/clock.h"
#include "platform/log.h"

/* Of the time that a stop may take: streams are cut CUT_MS before its end, so that their
 * callers get an error event and their settles are queued; what still writes is shut down
 * SHUT_MS before it. At most a half and a quarter of it. */
#define CUT_MS  2000
#define SHUT_MS 1000

struct pool {
    struct service *service;
    struct gate *gate;
    pthread_t *threads;
    unsigned started;
    atomic_uint left;
};

static struct gate *_Atomic signalled; /* whom the handler wakes */
static volatile sig_atomic_t stopping;

static void on_stop(int number)
{
    struct gate *g = atomic_load(&signalled);

    (void)number;
    stopping = 1;
    if (g != NULL)
        gate_wake(g);
}

/* Before fcgi_init, which otherwise installs handlers that swallow the signals. */
static void catch_signals(void)
{
    static const int stops[] = {SIGTERM, SIGINT, SIGUSR1};
    struct sigaction stop = {.sa_handler = on_stop};
    struct sigaction ignore = {.sa_handler = SIG_IGN};

    sigemptyset(&stop.sa_mask);
    sigemptyset(&ignore.sa_mask);
    for (size_t i = 0; i < sizeof(stops) / sizeof(stops[0]); i++)
        sigaction(stops[i], &stop, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
}

static void *work(void *arg)
{
    struct pool *p = arg;
    struct connection *c;

    while ((c = gate_take(p->gate)) != NULL) {
        gate_give(p->gate, c, fcgi_serve(p->service, p->gate, c));
        if (service_wants_restart(p->service))
            gate_wake(p->gate);
    }
    atomic_fetch_add(&p->left, 1);
    gate_wake(p->gate);
    return NULL;
}

/* Starts all workers, or as many as it can: then false. */
static bool start_workers(struct pool *p, unsigned workers, size_t stack_bytes)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    int failure = 0;

    p->threads = calloc(workers, sizeof(*p->threads));
    if (p->threads == NULL)
        return false;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attributes);
    failure = pthread_attr_setstacksize(&attributes, stack_bytes);
    while (failure == 0 && p->started < workers) {
        failure = pthread_create(&p->threads[p->started], &attributes, work, p);
        p->started += failure == 0;
    }
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failure != 0)
        log_line(LOG_LEVEL_ERROR, "starting worker threads: %s", strerror(failure));
    return failure == 0;
}

/* Rounds until nobody is connected or the instant has come; whether nobody is. */
static bool wait_empty(struct gate *g, int64_t until_ms)
{
    int64_t now = clock_monotonic_ms();

    while (!gate_empty(g) && now < until_ms) {
        gate_round(g, until_ms - now);
        now = clock_monotonic_ms();
    }
    return gate_empty(g);
}

static int64_t at_most(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void join_workers(struct pool *p, int64_t until_ms)
{
    int64_t now = clock_monotonic_ms();

    gate_dismiss(p->gate);
    while (atomic_load(&p->left) < p->started && now < until_ms) {
        gate_round(p->gate, until_ms - now);
        now = clock_monotonic_ms();
    }
    if (atomic_load(&p->left) < p->started) {
        log_line(LOG_LEVEL_ERROR, "a worker did not end in time; leaving without it");
        _exit(EXIT_FAILURE); /* what it holds can neither be waited for nor freed */
    }
    for (unsigned i = 0; i < p->started; i++)
        pthread_join(p->threads[i], NULL);
}

static void drain(struct pool *p, int64_t stop_ms)
{
    int64_t until = clock_monotonic_ms() + stop_ms;

    service_stop(p->service);
    gate_stop(p->gate);
    if (!wait_empty(p->gate, until - at_most(CUT_MS, stop_ms / 2))) {
        service_cut(p->service);
        if (!wait_empty(p->gate, until - at_most(SHUT_MS, stop_ms / 4)))
            gate_cut(p->gate);
    }
    join_workers(p, until);
}

bool pool_run(struct service *s, int listen_fd, unsigned streams, size_t stack_bytes,
              int64_t write_timeout_ms, int64_t stop_ms)
{
    unsigned workers = streams + 2; /* so that somebody is left to say no */
    struct pool p = {.service = s};
    bool restart = false;
    enum error e;

    catch_signals();
    e = gate_new(listen_fd, workers, write_timeout_ms, &p.gate);
    if (e != ERROR_NONE || !fcgi_init()) {
        log_line(LOG_LEVEL_ERROR, "the listening socket cannot be used: %s", error_text(e));
        gate_free(p.gate);
        return true;
    }
    atomic_store(&signalled, p.gate);
    if (start_workers(&p, workers, stack_bytes)) {
        while (!stopping && !restart) {
            gate_round(p.gate, service_rest(s));
            restart = service_wants_restart(s);
        }
    }
    drain(&p, stop_ms);
    atomic_store(&signalled, NULL);
    gate_free(p.gate);
    free(p.threads);
    return !restart || stopping;
}
