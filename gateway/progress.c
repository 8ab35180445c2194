/*
 * A thread of its own writes the line, since the work itself may wait: for a lock, for an answer,
 * for a child that walks the store. It holds nothing that a forked child would need.
 */
#include "gateway/progress.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "gateway/lines.h"
#include "platform/clock.h"

#define STEP_MS     500 /* until it shows, and between two looks: slower than the eye, not dull */
#define STACK_BYTES 65536 /* a line is written on it */

static struct {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ended; /* by CLOCK_MONOTONIC */
    bool on, ending;
    const char *what;
    int64_t begun_ms;
    _Atomic uint32_t count;
} progress = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Writes without stdio, whose buffers and locks are the work's. */
static void write_line(const char *text, int n)
{
    if (n > 0 && write(STDERR_FILENO, text, (size_t)n) < 0)
        return; /* nothing is lost that was not to be gone anyway */
}

static void show(void)
{
    uint32_t count = atomic_load(&progress.count);
    int64_t seconds = (clock_monotonic_ms() - progress.begun_ms) / 1000;
    char counted[16] = "", line[LINES_COLUMNS + 16];

    if (count > 0)
        snprintf(counted, sizeof counted, ": %" PRIu32, count);
    write_line(line, snprintf(line, sizeof line, "\r%.40s%s, %" PRId64 " s\033[K",
                              progress.what, counted, seconds % 1000000));
}

/* False: it has ended before the step was over. */
static bool wait_step(void)
{
    struct timespec until;
    int failure = 0;
    bool ending;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += STEP_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_mutex_lock(&progress.lock);
    while (!progress.ending && failure == 0)
        failure = pthread_cond_timedwait(&progress.ended, &progress.lock, &until);
    ending = progress.ending;
    pthread_mutex_unlock(&progress.lock);
    return !ending;
}

static void *run(void *unused)
{
    bool shown = false;

    (void)unused;
    while (wait_step()) {
        show();
        shown = true;
    }
    if (shown)
        write_line("\r\033[K", 4);
    return NULL;
}

static bool start(void)
{
    pthread_attr_t attributes;
    pthread_condattr_t clock;
    sigset_t all, before;
    bool ok;

    pthread_condattr_init(&clock);
    ok = pthread_condattr_setclock(&clock, CLOCK_MONOTONIC) == 0 &&
         pthread_cond_init(&progress.ended, &clock) == 0;
    pthread_condattr_destroy(&clock);
    if (!ok)
        return false;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attributes);
    ok = pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0 &&
         pthread_create(&progress.thread, &attributes, run, NULL) == 0;
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!ok)
        pthread_cond_destroy(&progress.ended);
    return ok;
}

void progress_begin(const char *what)
{
    if (progress.on || !lines_terminal(stderr))
        return;
    fflush(stdout); /* what was said before it stands before it */
    progress.what = what;
    progress.begun_ms = clock_monotonic_ms();
    progress.ending = false;
    atomic_store(&progress.count, 0);
    progress.on = start();
}

void progress_count(uint32_t n)
{
    atomic_store(&progress.count, n);
}

void progress_end(void)
{
    if (!progress.on)
        return;
    pthread_mutex_lock(&progress.lock);
    progress.ending = true;
    pthread_cond_signal(&progress.ended);
    pthread_mutex_unlock(&progress.lock);
    pthread_join(progress.thread, NULL);
    pthread_cond_destroy(&progress.ended);
    progress.on = false;
}
