/*
 * The recorder. The archive belongs to whoever writes: the thread, or the process that serves
 * one request. The queue's bounds hold for what is being written, too.
 */
#include "gateway/recorder.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "platform/clock.h"
#include "platform/log.h"
#include "store/archive.h"

#define QUEUE_ENTRIES 256
#define QUEUE_BYTES   ((size_t)1 << 20) /* four of the longest; an ordinary one has 2 KB */
#define BATCH         64                /* written in one go */
#define STACK         (128 * 1024)      /* LMDB takes 10 KB, a line of the log 2 */
#define WAIT_MS       2000              /* for another process that has the archive */
#define SINGLE_MS     500               /* the same, where the web server waits for our end */
#define RETRY_MS      5000              /* after a failure; what comes until then is not kept */

struct entry {
    struct entry *next;
    int64_t time_ms;
    size_t n;
    uint8_t *row;
};

struct recorder {
    bool single;
    pthread_mutex_t lock;
    pthread_cond_t wake, gone;
    pthread_t thread;
    bool started, stopping, exited;
    struct entry *first, **last;
    unsigned entries; /* queued or being written, as the next */
    size_t bytes;
    struct archive_options options; /* of the last configuration; store is a copy */
    char *store;
    bool changed; /* since the archive was made */

    struct archive *archive; /* the writer's, as the next */
    int64_t again_ms;
};

enum error recorder_new(bool single, struct recorder **out)
{
    struct recorder *r = calloc(1, sizeof(*r));
    pthread_condattr_t monotonic;

    if (r == NULL)
        return ERROR_MEMORY;
    r->single = single;
    r->last = &r->first;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->wake, &monotonic);
    pthread_cond_init(&r->gone, &monotonic);
    pthread_condattr_destroy(&monotonic);
    *out = r;
    return ERROR_NONE;
}

static void free_entry(struct entry *e)
{
    free(e->row);
    free(e);
}

/* ---- writing ---- */

static void tell(const struct recorder *r, enum error e)
{
    static struct log_once once;
    bool damaged = e == ERROR_STORE_INVALID || e == ERROR_STORE_BROKEN;

    log_line_once(&once, (int)e, LOG_LEVEL_ERROR,
                  "transcripts are not kept: %s/transcripts: %s%s", r->store, error_text(e),
                  damaged ? " (pennygate transcripts erase --all makes it anew)" : "");
}

/* The archive by the options in force. Closing the old one can take the disk's time, and whoever
 * puts something into the queue waits for the lock. */
static enum error refresh(struct recorder *r)
{
    struct archive *old = NULL;
    enum error e = ERROR_NONE;

    pthread_mutex_lock(&r->lock);
    if (r->changed) {
        old = r->archive;
        r->archive = NULL;
        r->changed = false;
    }
    if (r->archive == NULL)
        e = archive_new(&r->options, &r->archive); /* opens no file yet */
    pthread_mutex_unlock(&r->lock);
    archive_free(old);
    return e;
}

static void write_batch(struct recorder *r, const struct archive_item *items, size_t n)
{
    enum error e;

    if (clock_monotonic_ms() < r->again_ms)
        return;
    e = refresh(r);
    if (e == ERROR_NONE)
        e = archive_add(r->archive, items, n, r->single ? SINGLE_MS : WAIT_MS);
    if (e == ERROR_NONE)
        return;
    r->again_ms = clock_monotonic_ms() + RETRY_MS;
    tell(r, e);
}

/* Takes up to BATCH of the queue and writes them; called and returns with the lock held. */
static void write_some(struct recorder *r)
{
    struct archive_item items[BATCH];
    struct entry *taken = r->first;
    size_t n = 0;

    for (struct entry *e = taken; e != NULL && n < BATCH; e = e->next) {
        items[n++] = (struct archive_item){e->time_ms, {e->row, e->n}};
        r->first = e->next;
    }
    if (r->first == NULL)
        r->last = &r->first;
    pthread_mutex_unlock(&r->lock);
    write_batch(r, items, n);
    pthread_mutex_lock(&r->lock);
    for (; n > 0; n--) {
        struct entry *next = taken->next;

        r->entries--;
        r->bytes -= taken->n;
        free_entry(taken);
        taken = next;
    }
}

static void *recorder_main(void *arg)
{
    struct recorder *r = arg;

    pthread_mutex_lock(&r->lock);
    while (r->first != NULL || !r->stopping) {
        if (r->first != NULL)
            write_some(r);
        else
            pthread_cond_wait(&r->wake, &r->lock);
    }
    r->exited = true;
    pthread_cond_broadcast(&r->gone);
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

bool recorder_waits(const struct recorder *r)
{
    return r->first != NULL;
}

void recorder_run(struct recorder *r)
{
    pthread_mutex_lock(&r->lock);
    if (r->first != NULL)
        write_some(r);
    pthread_mutex_unlock(&r->lock);
}

/* ---- taking ---- */

/* Signals belong to the main thread; called with the lock held. */
static bool start(struct recorder *r)
{
    pthread_attr_t attr;
    sigset_t all, before;

    if (r->started || r->single)
        return true;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    r->started = pthread_create(&r->thread, &attr, recorder_main, r) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return r->started;
}

/* Called with the lock held. */
static bool set_options(struct recorder *r, const struct config *c)
{
    struct archive_options o = {
        .map_bytes = c->transcripts_size,
        .keep_ms = c->transcripts_keep_ms,
        .trusting = r->single,
        .clock = clock_read,
    };

    if (r->store == NULL && (r->store = strdup(c->store)) == NULL)
        return false; /* store and size stay the same in a process: they are not swapped */
    o.store = r->store;
    r->changed = r->changed || o.keep_ms != r->options.keep_ms;
    r->options = o;
    return true;
}

/* Why one is not kept. */
enum loss {
    LOSS_NONE,
    LOSS_FULL,
    LOSS_STOPPING,
    LOSS_MEMORY,
    LOSS_THREAD,
    LOSS_CLOCK,
    LOSS_ROW
};
static const char *const losses[] = {
    [LOSS_FULL] = "too many wait",       [LOSS_STOPPING] = "the process is leaving",
    [LOSS_MEMORY] = "out of memory",     [LOSS_THREAD] = "no thread can be started to write it",
    [LOSS_CLOCK] = "the clock is wrong", [LOSS_ROW] = "it cannot be written as a row",
};

/* Whether there is room for so many bytes; called with the lock held. */
static enum loss look(const struct recorder *r, size_t n)
{
    if (r->stopping)
        return LOSS_STOPPING;
    return r->entries >= QUEUE_ENTRIES || n > QUEUE_BYTES - r->bytes ? LOSS_FULL : LOSS_NONE;
}

/* A full queue costs no copy. */
static enum loss look_first(struct recorder *r)
{
    enum loss loss;

    pthread_mutex_lock(&r->lock);
    loss = look(r, 1);
    pthread_mutex_unlock(&r->lock);
    return loss;
}

static enum loss enqueue(struct recorder *r, const struct config *c, struct entry *e)
{
    enum loss loss;

    pthread_mutex_lock(&r->lock);
    loss = look(r, e->n);
    if (loss == LOSS_NONE && !set_options(r, c))
        loss = LOSS_MEMORY;
    if (loss == LOSS_NONE && !start(r))
        loss = LOSS_THREAD;
    if (loss == LOSS_NONE) {
        *r->last = e;
        r->last = &e->next;
        r->entries++;
        r->bytes += e->n;
        pthread_cond_signal(&r->wake);
    }
    pthread_mutex_unlock(&r->lock);
    return loss;
}

static enum loss encode(const struct config *c, const struct transcript *t, struct entry **out)
{
    struct entry *e = calloc(1, sizeof(*e));
    struct clock_now now;
    enum error failed;

    if (e == NULL)
        return LOSS_MEMORY;
    *out = e;
    if (clock_read(&now) != ERROR_NONE)
        return LOSS_CLOCK;
    e->time_ms = now.wall_ms;
    failed = transcript_encode(t, archive_row_max(c->transcripts_size), &e->row, &e->n);
    if (failed == ERROR_NONE)
        return LOSS_NONE;
    return failed == ERROR_MEMORY ? LOSS_MEMORY : LOSS_ROW;
}

void recorder_put(struct recorder *r, const struct config *c, const struct transcript *t)
{
    static struct log_once once;
    struct entry *e = NULL;
    enum loss loss = look_first(r);

    if (loss == LOSS_NONE)
        loss = encode(c, t, &e);
    if (loss == LOSS_NONE)
        loss = enqueue(r, c, e);
    if (loss == LOSS_NONE)
        return;
    log_line_once(&once, (int)loss, LOG_LEVEL_WARNING, "a transcript is not kept: %s",
                  losses[loss]);
    if (e != NULL)
        free_entry(e);
}

/* ---- stopping ---- */

void recorder_stop(struct recorder *r)
{
    pthread_mutex_lock(&r->lock);
    r->stopping = true;
    pthread_cond_broadcast(&r->wake);
    pthread_mutex_unlock(&r->lock);
}

static bool has_ended(struct recorder *r, int64_t bound_ms)
{
    int64_t at = clock_monotonic_ms() + bound_ms;
    struct timespec limit = clock_timespec(at);
    bool ended;

    pthread_mutex_lock(&r->lock);
    while (r->started && !r->exited)
        if (pthread_cond_timedwait(&r->gone, &r->lock, &limit) == ETIMEDOUT)
            break;
    ended = !r->started || r->exited;
    pthread_mutex_unlock(&r->lock);
    return ended;
}

bool recorder_free(struct recorder *r, int64_t bound_ms)
{
    if (r == NULL)
        return true;
    recorder_stop(r);
    if (!has_ended(r, bound_ms))
        return false;
    if (r->started)
        pthread_join(r->thread, NULL);
    for (struct entry *e = r->first, *next; e != NULL; e = next) {
        next = e->next;
        free_entry(e);
    }
    archive_free(r->archive);
    pthread_cond_destroy(&r->wake);
    pthread_cond_destroy(&r->gone);
    pthread_mutex_destroy(&r->lock);
    free(r->store);
    free(r);
    return true;
}
