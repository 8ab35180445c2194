/*
 * The writer: a queue and the one thread of the process that enters write transactions. It
 * takes what waits only once it holds the write lock, so that everybody who gives up before
 * then is charged nothing; concurrent requests thereby share one transaction and one sync. A
 * waiter never waits longer than LEDGER_WAIT_MS, whatever the disk or another process does.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "store/ledger_parts.h"

#define SETTLE_DELAY_MS   1000  /* a settle waits so long for a commit to ride on */
#define MAINTAIN_EVERY_MS 60000 /* timed work; no invariant depends on it */
/* Records on the stack: 20 KB at most; LMDB takes 10. */
#define WRITER_STACK (256 * 1024)

void writer_cond_init(pthread_cond_t *c)
{
    pthread_condattr_t monotonic;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(c, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

void writer_init(struct writer *w)
{
    pthread_mutex_init(&w->lock, NULL);
    writer_cond_init(&w->wake);
    writer_cond_init(&w->gone);
    w->last = &w->first;
    w->maintain_ms = clock_monotonic_ms() + MAINTAIN_EVERY_MS;
}

struct op *op_new(enum op_kind kind, const struct policy *p)
{
    struct op *op = calloc(1, sizeof *op);

    if (!op)
        return NULL;
    op->kind = kind;
    atomic_init(&op->holders, 1);
    op->policy = *p;
    if (p->n_limits > 0)
        memcpy(op->limits, p->limits, p->n_limits * sizeof *p->limits);
    op->policy.limits = op->limits;
    writer_cond_init(&op->finished);
    return op;
}

/* Frees it with its last holder. */
void op_free(struct op *op)
{
    if (!op || atomic_fetch_sub(&op->holders, 1) > 1)
        return;
    pthread_cond_destroy(&op->finished);
    free(op->order);
    free(op);
}

/* Everything that waits, in order; called with the write lock of the store held. */
static struct op *take_all(void *arg)
{
    struct writer *w = &((struct ledger *)arg)->writer;

    pthread_mutex_lock(&w->lock);
    struct op *list = w->first;
    w->first = NULL;
    w->last = &w->first;
    for (struct op *op = list; op; op = op->next)
        op->taken = true;
    pthread_mutex_unlock(&w->lock);
    return list;
}

static void append(struct writer *w, struct op *op)
{
    op->next = NULL;
    *w->last = op;
    w->last = &op->next;
}

/* A settle that could not be committed is tried again until its reservation has run out. */
static bool try_again(struct ledger *l, struct op *op)
{
    struct clock_now now;

    if (op->kind != OP_SETTLE || op->error == ERROR_NONE || op->waited || l->writer.stopping ||
        l->options.clock(&now) != ERROR_NONE || now.boot_ms >= op->reservation.deadline_boot_ms)
        return false;
    op->taken = false;
    op->due_ms = clock_monotonic_ms() + SETTLE_DELAY_MS;
    append(&l->writer, op);
    return true;
}

/* Wakes them without the lock, which they would only wait for. */
static void wake_all(struct op *list)
{
    for (struct op *op = list, *next; op; op = next) {
        next = op->next;
        pthread_cond_signal(&op->finished);
        op_free(op);
    }
}

static void give_back(void *arg, struct op *list)
{
    struct ledger *l = arg;
    struct op *finished = NULL;

    pthread_mutex_lock(&l->writer.lock);
    for (struct op *op = list, *next; op; op = next) {
        next = op->next;
        if (op->waited && !op->abandoned) {
            op->done = true;
            op->next = finished;
            finished = op;
            continue;
        }
        if (try_again(l, op))
            continue;
        /* An admission stays charged, but nobody will use its place; a probe's is over. */
        if (op->charged || op->kind == OP_SETTLE)
            live_drop(l->live, op->reservation.id);
        op_free(op);
    }
    pthread_mutex_unlock(&l->writer.lock);
    wake_all(finished);
}

/* When the queue wants the writer: at once, at a settle's time, or for timed work. */
static int64_t due(const struct writer *w)
{
    int64_t at = w->maintain_ms;

    for (const struct op *op = w->first; op; op = op->next)
        if (op->due_ms < at)
            at = op->due_ms;
    return w->stopping && w->first ? 0 : at;
}

static void queue_maintenance(struct ledger *l)
{
    struct op *op = NULL;

    pthread_mutex_lock(&l->timed_lock);
    struct policy p = l->timed;
    pthread_mutex_unlock(&l->timed_lock);
    if (batch_wanted(l, &p))
        op = ledger_timed_op(l, OP_MAINTAIN);
    if (op)
        (void)writer_post(l, op);
}

/*
 * Waits until there is something to do. False: stopping and nothing left. The first sleep is no
 * longer than a settle may wait, so that a settle, which most decisions are followed by, need
 * not wake anybody.
 */
static bool wait_for_work(struct writer *w, bool *timed)
{
    int64_t nap = clock_monotonic_ms() + SETTLE_DELAY_MS;
    bool more = true;

    pthread_mutex_lock(&w->lock);
    for (;;) {
        int64_t now = clock_monotonic_ms(), at = due(w);

        more = w->first || !w->stopping;
        *timed = !w->stopping && now >= w->maintain_ms;
        if (!more || *timed || now >= at)
            break;
        w->asleep_until = now < nap && nap < at ? nap : at;
        struct timespec t = clock_timespec(w->asleep_until);
        pthread_cond_timedwait(&w->wake, &w->lock, &t);
        w->asleep_until = 0;
    }
    if (*timed)
        w->maintain_ms = clock_monotonic_ms() + MAINTAIN_EVERY_MS;
    pthread_mutex_unlock(&w->lock);
    return more;
}

static void *writer_main(void *arg)
{
    struct ledger *l = arg;
    struct writer *w = &l->writer;
    bool timed;

    while (wait_for_work(w, &timed)) {
        if (timed) {
            ledger_log_tell(l, 0);
            queue_maintenance(l);
            copier_begin_due(l);
        } else {
            batch_run(l, take_all, give_back, l);
        }
    }
    pthread_mutex_lock(&w->lock);
    w->exited = true;
    pthread_cond_broadcast(&w->gone);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* Without the lock: a flood asks this for each of its lines that are left out. */
bool writer_running(const struct ledger *l)
{
    return atomic_load(&l->writer.started);
}

/* Signals belong to the main thread. */
int writer_thread(pthread_t *out, size_t stack, void *(*run)(void *), void *arg)
{
    pthread_attr_t attr;
    sigset_t all, before;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, stack);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(out, &attr, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return rc;
}

/* Called with the lock held. */
static enum error start(struct ledger *l)
{
    if (writer_running(l))
        return ERROR_NONE;
    int rc = writer_thread(&l->writer.thread, WRITER_STACK, writer_main, l);
    errno = rc;
    atomic_store(&l->writer.started, rc == 0);
    return rc == 0 ? ERROR_NONE : ERROR_SYSTEM;
}

/* Queues; called with the lock held, and lets go of it to wake the writer where that
 * needs it. */
static enum error enqueue(struct ledger *l, struct op *op)
{
    struct writer *w = &l->writer;
    enum error e = w->stopping ? ERROR_STOPPING : start(l);

    if (e != ERROR_NONE)
        return e;
    append(w, op);
    if (op->due_ms < w->asleep_until) {
        pthread_mutex_unlock(&w->lock);
        pthread_cond_signal(&w->wake);
        pthread_mutex_lock(&w->lock);
    }
    return ERROR_NONE;
}

/* What a breaker is opened or closed by does not wait: each further call would fail, too. */
static bool is_urgent(const struct op *op)
{
    return op->reservation.probe || op->settlement.health >= HEALTH_FAILED;
}

enum error writer_post(struct ledger *l, struct op *op)
{
    if (op->kind == OP_SETTLE && !is_urgent(op))
        op->due_ms = clock_monotonic_ms() + SETTLE_DELAY_MS;
    pthread_mutex_lock(&l->writer.lock);
    enum error e = enqueue(l, op);
    pthread_mutex_unlock(&l->writer.lock);
    if (e != ERROR_NONE)
        op_free(op);
    return e;
}

static void withdraw(struct writer *w, struct op *op)
{
    struct op **p = &w->first;

    while (*p != op)
        p = &(*p)->next;
    *p = op->next;
    if (w->last == &op->next)
        w->last = p;
    atomic_fetch_sub(&op->holders, 1); /* the writer's share */
}

/* Waits with the lock held; what the writer has not taken by then is withdrawn. */
static enum error await(struct writer *w, struct op *op)
{
    struct timespec limit = clock_timespec(clock_monotonic_ms() + LEDGER_WAIT_MS);

    while (!op->done) {
        if (pthread_cond_timedwait(&op->finished, &w->lock, &limit) != ETIMEDOUT || op->done)
            continue;
        if (op->taken)
            op->abandoned = true;
        else
            withdraw(w, op);
        return ERROR_BUSY;
    }
    return op->error;
}

enum error writer_do(struct ledger *l, struct op *op)
{
    struct writer *w = &l->writer;

    op->waited = true;
    atomic_store(&op->holders, 2);
    pthread_mutex_lock(&w->lock);
    enum error e = enqueue(l, op);
    if (e == ERROR_NONE)
        e = await(w, op);
    else
        atomic_store(&op->holders, 1); /* the writer has never seen it */
    pthread_mutex_unlock(&w->lock);
    if (e != ERROR_NONE)
        op_free(op);
    return e;
}

void writer_begin(struct ledger *l)
{
    pthread_mutex_lock(&l->writer.lock);
    if (!l->writer.stopping)
        (void)start(l); /* if it cannot, the next one who wants it tries again */
    pthread_mutex_unlock(&l->writer.lock);
}

bool writer_stop(struct ledger *l, int64_t bound_ms)
{
    struct writer *w = &l->writer;
    struct timespec limit = clock_timespec(clock_monotonic_ms() + bound_ms);

    pthread_mutex_lock(&w->lock);
    w->stopping = true;
    pthread_cond_broadcast(&w->wake);
    while (writer_running(l) && !w->exited)
        if (pthread_cond_timedwait(&w->gone, &w->lock, &limit) == ETIMEDOUT)
            break;
    bool ended = !writer_running(l) || w->exited;
    pthread_mutex_unlock(&w->lock);
    if (ended && writer_running(l))
        pthread_join(w->thread, NULL);
    return ended;
}
