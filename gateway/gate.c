/*
 * The gate. Security: whoever holds connections open without a word costs a place among
 * POOL_PENDING for five seconds, and never a worker. Running out of descriptors or memory makes
 * it wait, never end.
 */
#include "gateway/gate.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gateway/pool.h"
#include "platform/clock.h"
#include "platform/log.h"

#define NEVER         INT64_MAX
#define TICK_MS       1000 /* how late a deadline may be noticed: workers wake nobody for theirs */
#define BACKOFF_MS    100  /* between tries while descriptors or memory are short */
#define STOP_GRACE_MS 500  /* on a stop: for a connection that has not said a word yet */
#define LINGER_BYTES  4096 /* read and dropped at a time */
#define LINGER_READS  256  /* at most so often (1 MiB): no body is larger by much */

enum state { FREE, WAITING, SERVED, LINGERING };

struct connection {
    enum state state;
    bool expired;   /* a deadline has passed and it was shut down */
    bool admitted;  /* due_ms is the end of its answer */
    bool added;     /* the poll set knows it */
    bool stalled;   /* waiting, not polled: there was no descriptor for its duplicate */
    unsigned reads; /* while lingering */
    int fd;         /* ours: polled, shut down, closed by us alone, under the lock */
    int lent;       /* the same connection, for the worker */
    int64_t due_ms;
    int64_t write_due_ms;
};

struct gate {
    int listen_fd;
    int poll_fd;  /* what idle workers wait on; each event is for one of them (EPOLLONESHOT) */
    int leave_fd; /* readable once workers are dismissed: for all of them */
    int wake_fd;  /* for the deadlines' thread */
    bool tcp;
    int64_t write_timeout_ms;
    unsigned n; /* POOL_PENDING + workers */
    struct connection *table;

    pthread_mutex_t lock; /* the rest, and all connections */
    bool accepting;
    bool armed;    /* the next connection will be reported */
    bool used;     /* something was accepted since the last round */
    bool sleeping; /* the deadlines' thread has nothing to wait for */
    int64_t accept_after_ms;
    unsigned pending; /* waiting and lingering ones */
    unsigned served;
};

/* ---- both ends of its life ---- */

static bool is_tcp(int fd)
{
    struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
    socklen_t n = sizeof(address);

    return getsockname(fd, (struct sockaddr *)&address, &n) == 0 &&
           (address.ss_family == AF_INET || address.ss_family == AF_INET6);
}

/* The addresses of two of the gate's own members tell what is no connection. */
static bool poll_own(struct gate *g, int *member, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.ptr = member};

    return epoll_ctl(g->poll_fd, EPOLL_CTL_ADD, *member, &e) == 0;
}

static enum error open_descriptors(struct gate *g)
{
    int flags = fcntl(g->listen_fd, F_GETFL);

    g->poll_fd = epoll_create1(EPOLL_CLOEXEC);
    g->leave_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    g->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    g->tcp = is_tcp(g->listen_fd);
    g->armed = true;
    if (flags < 0 || fcntl(g->listen_fd, F_SETFL, flags | O_NONBLOCK) != 0 || g->wake_fd < 0 ||
        !poll_own(g, &g->leave_fd, EPOLLIN) ||
        !poll_own(g, &g->listen_fd, EPOLLIN | EPOLLONESHOT))
        return ERROR_SYSTEM;
    return ERROR_NONE;
}

enum error gate_new(int listen_fd, unsigned workers, int64_t write_timeout_ms,
                    struct gate **out)
{
    struct gate *g = calloc(1, sizeof(*g));
    enum error e = ERROR_MEMORY;

    if (g == NULL)
        return e;
    pthread_mutex_init(&g->lock, NULL);
    g->listen_fd = listen_fd;
    g->poll_fd = g->leave_fd = g->wake_fd = -1;
    g->accepting = true;
    g->write_timeout_ms = write_timeout_ms;
    g->n = POOL_PENDING + workers;
    g->table = calloc(g->n, sizeof(*g->table));
    if (g->table != NULL)
        e = open_descriptors(g);
    if (e != ERROR_NONE) {
        gate_free(g);
        return e;
    }
    *out = g;
    return ERROR_NONE;
}

void gate_free(struct gate *g)
{
    if (g == NULL)
        return;
    for (unsigned i = 0; g->table != NULL && i < g->n; i++) {
        if (g->table[i].state != FREE)
            close(g->table[i].fd);
    }
    if (g->poll_fd >= 0)
        close(g->poll_fd);
    if (g->leave_fd >= 0)
        close(g->leave_fd);
    if (g->wake_fd >= 0)
        close(g->wake_fd);
    free(g->table);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

/* May be called from a signal handler. */
static void notify(int event_fd)
{
    const uint64_t one = 1;
    int saved = errno;
    ssize_t n = write(event_fd, &one, sizeof(one));

    (void)n; /* it can only fail where a notice is already waiting */
    errno = saved;
}

void gate_wake(struct gate *g)
{
    notify(g->wake_fd);
}

void gate_dismiss(struct gate *g)
{
    notify(g->leave_fd);
}

/*
 * Gives the lock back and has the next connection reported, if there is room for one. In this
 * order: where one waits already, another worker is awake at once and would run into the lock.
 */
static void unlock(struct gate *g, int64_t now)
{
    struct epoll_event e = {.events = EPOLLIN | EPOLLONESHOT, .data.ptr = &g->listen_fd};
    bool arm =
        g->accepting && !g->armed && g->pending < POOL_PENDING && now >= g->accept_after_ms;

    g->armed = g->armed || arm;
    pthread_mutex_unlock(&g->lock);
    if (!arm || epoll_ctl(g->poll_fd, EPOLL_CTL_MOD, g->listen_fd, &e) == 0)
        return;
    pthread_mutex_lock(&g->lock);
    g->armed = false; /* the next who gives the lock back tries again */
    pthread_mutex_unlock(&g->lock);
}

/* ---- connections; all of this under the lock ---- */

/* Descriptors or memory are short, or something is not foreseen: it may pass. */
static void back_off(struct gate *g, int error, int64_t now)
{
    static struct log_once once;

    g->accept_after_ms = now + BACKOFF_MS;
    gate_wake(g);
    log_line_once(&once, error, LOG_LEVEL_WARNING, "accepting connections: %s",
                  strerror(error));
}

static void forget(struct gate *g, struct connection *c)
{
    close(c->fd); /* the last reference, so the poll set forgets it too */
    c->state = FREE;
    g->pending--;
    if (!g->accepting) /* the end waits for it */
        gate_wake(g);
}

/* Has its next byte, or its end, reported once. */
static void watch(struct gate *g, struct connection *c)
{
    struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP | EPOLLONESHOT, .data.ptr = c};
    int operation = c->added ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

    c->added = epoll_ctl(g->poll_fd, operation, c->fd, &e) == 0;
    if (!c->added)
        forget(g, c);
}

/* To the worker that asks, unless there is no descriptor for the duplicate: then later. */
static struct connection *serve(struct gate *g, struct connection *c, int64_t now)
{
    c->lent = fcntl(c->fd, F_DUPFD_CLOEXEC, 0);
    c->stalled = c->lent < 0;
    if (c->stalled) {
        back_off(g, errno, now);
        return NULL;
    }
    c->state = SERVED;
    g->pending--;
    g->served++;
    return c;
}

/* A waiting connection: the connection if it has spoken. */
static struct connection *look(struct gate *g, struct connection *c, int64_t now)
{
    char byte;
    ssize_t n = recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

    if (n > 0)
        return serve(g, c, now);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        watch(g, c);
    else
        forget(g, c);
    return NULL;
}

/* A lingering connection: drops what it still sends. */
static void drop_input(struct gate *g, struct connection *c)
{
    char bytes[LINGER_BYTES];
    ssize_t n = recv(c->fd, bytes, sizeof(bytes), MSG_DONTWAIT);

    c->reads++;
    if ((n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR))) && c->reads <= LINGER_READS)
        watch(g, c);
    else
        forget(g, c);
}

static struct connection *add(struct gate *g, int fd, int64_t now)
{
    const int on = 1;
    struct connection *c = g->table;

    while (c->state != FREE) /* there is one: POOL_PENDING are not reached, nor the workers */
        c++;
    memset(c, 0, sizeof(*c));
    c->state = WAITING;
    c->fd = fd;
    /* A worker that was about to accept can be overtaken by the stop. */
    c->due_ms = now + (g->accepting ? POOL_REQUEST_MS : STOP_GRACE_MS);
    c->write_due_ms = NEVER;
    g->pending++;
    g->used = true;
    if (g->sleeping)
        gate_wake(g);
    g->sleeping = false;
    if (g->tcp) /* each event is a small segment of its own, and must not wait for the next */
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return c;
}

/* ---- workers ---- */

/* One connection only, so that the others are there for the next. */
static struct connection *accept_one(struct gate *g)
{
    int fd = accept4(g->listen_fd, NULL, NULL, SOCK_CLOEXEC), error = errno;
    int64_t now = clock_monotonic_ms();
    struct connection *c = NULL;

    pthread_mutex_lock(&g->lock);
    g->armed = false;
    if (fd >= 0)
        c = add(g, fd, now);
    else if (error != EAGAIN && error != EINTR && error != ECONNABORTED)
        back_off(g, error, now); /* EAGAIN: another process was faster */
    if (c != NULL)
        c = look(g, c, now);
    unlock(g, now);
    return c;
}

/* The state is asked anew: a deadline may have been faster than this worker. */
static struct connection *look_again(struct gate *g, struct connection *c)
{
    struct connection *ready = NULL;
    int64_t now = clock_monotonic_ms();

    pthread_mutex_lock(&g->lock);
    if (c->state == WAITING)
        ready = look(g, c, now);
    else if (c->state == LINGERING)
        drop_input(g, c);
    unlock(g, now);
    return ready;
}

struct connection *gate_take(struct gate *g)
{
    struct connection *c = NULL;
    struct epoll_event e;

    while (c == NULL) {
        if (epoll_wait(g->poll_fd, &e, 1, -1) != 1)
            continue;
        if (e.data.ptr == &g->leave_fd)
            return NULL;
        c = e.data.ptr == &g->listen_fd ? accept_one(g) : look_again(g, e.data.ptr);
    }
    return c;
}

void gate_give(struct gate *g, struct connection *c, bool drained)
{
    int64_t now = clock_monotonic_ms();

    pthread_mutex_lock(&g->lock);
    g->served--;
    g->pending++;
    if (drained || c->expired) {
        forget(g, c);
    } else {
        shutdown(c->fd, SHUT_WR);
        c->state = LINGERING;
        c->due_ms = now + (g->accepting ? GATE_LINGER_MS : STOP_GRACE_MS);
        watch(g, c);
    }
    unlock(g, now);
}

int gate_fd(const struct connection *c)
{
    return c->fd;
}

int gate_lent_fd(const struct connection *c)
{
    return c->lent;
}

bool gate_admit(struct gate *g, struct connection *c, int64_t answer_ms)
{
    int64_t now = clock_monotonic_ms();
    bool in_time;

    pthread_mutex_lock(&g->lock);
    in_time = !c->expired && now < c->due_ms;
    c->admitted = in_time;
    if (in_time)
        c->due_ms = now + answer_ms;
    pthread_mutex_unlock(&g->lock);
    return in_time;
}

void gate_write_begin(struct gate *g, struct connection *c)
{
    pthread_mutex_lock(&g->lock);
    c->write_due_ms = clock_monotonic_ms() + g->write_timeout_ms;
    pthread_mutex_unlock(&g->lock);
}

void gate_write_end(struct gate *g, struct connection *c)
{
    pthread_mutex_lock(&g->lock);
    c->write_due_ms = NEVER;
    pthread_mutex_unlock(&g->lock);
}

/* ---- deadlines ---- */

/* Under the lock. */
static void expire(struct gate *g, struct connection *c, int64_t now)
{
    if (c->state == SERVED && now >= c->write_due_ms) {
        shutdown(c->fd, SHUT_RDWR);
        c->expired = true;
        c->write_due_ms = NEVER;
    }
    if (now < c->due_ms)
        return;
    if (c->state == SERVED) {
        shutdown(c->fd, c->admitted ? SHUT_RDWR : SHUT_RD);
        c->expired = true;
        c->due_ms = NEVER;
    } else {
        forget(g, c);
    }
}

/* Under the lock: does what is due; the instant at which there is something to do again. */
static int64_t do_due(struct gate *g, int64_t now)
{
    bool idle = g->pending + g->served == 0;
    int64_t until = idle && !g->used ? NEVER : now + TICK_MS;

    for (unsigned i = 0; i < g->n && !idle; i++) {
        struct connection *c = &g->table[i];

        if (c->state == FREE)
            continue;
        expire(g, c, now);
        if (c->state == WAITING && c->stalled && now >= g->accept_after_ms) {
            c->stalled = false;
            watch(g, c);
        }
        if (c->state != FREE && c->due_ms < until)
            until = c->due_ms;
    }
    if (now < g->accept_after_ms && g->accept_after_ms < until)
        until = g->accept_after_ms;
    return until;
}

void gate_round(struct gate *g, int64_t wait_ms)
{
    int64_t now = clock_monotonic_ms(), until;
    struct pollfd wake = {.fd = g->wake_fd, .events = POLLIN};
    uint64_t count;
    int timeout = -1;
    ssize_t n;

    pthread_mutex_lock(&g->lock);
    until = do_due(g, now);
    g->sleeping = until == NEVER;
    g->used = false;
    unlock(g, now);
    if (wait_ms >= 0 && until > now + wait_ms)
        until = now + wait_ms;
    if (until != NEVER)
        timeout = until <= now ? 0 : (int)(until - now > TICK_MS ? TICK_MS : until - now);
    if (poll(&wake, 1, timeout) > 0) {
        n = read(g->wake_fd, &count, sizeof(count));
        (void)n; /* its only use was to end the poll */
    }
}

void gate_stop(struct gate *g)
{
    int64_t soon = clock_monotonic_ms() + STOP_GRACE_MS;

    pthread_mutex_lock(&g->lock);
    g->accepting = false;
    epoll_ctl(g->poll_fd, EPOLL_CTL_DEL, g->listen_fd, NULL);
    for (unsigned i = 0; i < g->n; i++) {
        struct connection *c = &g->table[i];

        if ((c->state == WAITING || c->state == LINGERING) && c->due_ms > soon)
            c->due_ms = soon;
    }
    pthread_mutex_unlock(&g->lock);
}

void gate_cut(struct gate *g)
{
    pthread_mutex_lock(&g->lock);
    for (unsigned i = 0; i < g->n; i++) {
        if (g->table[i].state != FREE) {
            shutdown(g->table[i].fd, SHUT_RDWR);
            g->table[i].expired = true;
        }
    }
    pthread_mutex_unlock(&g->lock);
}

bool gate_empty(struct gate *g)
{
    bool empty;

    pthread_mutex_lock(&g->lock);
    empty = g->pending == 0 && g->served == 0;
    pthread_mutex_unlock(&g->lock);
    return empty;
}
