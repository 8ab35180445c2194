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
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gateway/pool.h"
#include "platform/clock.h"
#include "platform/log.h"

#define NEVER         INT64_MAX
#define TICK_MS       1000 /* how late a write deadline may be noticed: writes do not wake us */
#define BACKOFF_MS    100  /* between tries while descriptors or memory are short */
#define STOP_GRACE_MS 500  /* on a stop: for a connection that has not said a word yet */
#define ACCEPT_BATCH  16   /* accepted in a row before others are looked at again */
#define LINGER_BYTES  4096 /* read and dropped at a time */
#define LINGER_READS  256  /* at most so often (1 MiB): no body is larger by much */
#define POLLS_OF_OURS 2    /* wake-up and listening socket */

enum state { FREE, WAITING, QUEUED, SERVED, LINGERING };

struct connection {
    enum state state;
    bool expired;   /* a deadline has passed and it was shut down */
    unsigned reads; /* while lingering */
    int fd;         /* ours: polled, shut down, closed by us alone, under the lock */
    int lent;       /* the same connection, for the worker */
    int64_t due_ms;
    int64_t write_due_ms;
    struct connection *next; /* in the queue */
};

struct gate {
    pthread_mutex_t lock;
    pthread_cond_t ready; /* the queue is not empty, or workers are dismissed */
    int listen_fd, wake_fd;
    bool tcp;
    bool accepting, dismissed;
    bool full; /* the listening socket is not polled because POOL_PENDING are held */
    int64_t accept_after_ms;
    int64_t write_timeout_ms;
    unsigned pending; /* waiting, queued and lingering ones */
    unsigned served;
    struct connection *first, *last; /* the queue, oldest first */
    unsigned n;                      /* POOL_PENDING + workers */
    struct connection *table;
    struct pollfd *polls;
    struct connection **polled; /* whose polls[POLLS_OF_OURS + i] is */
};

static void make_tables(struct gate *g)
{
    g->table = calloc(g->n, sizeof(*g->table));
    g->polls = calloc(g->n + POLLS_OF_OURS, sizeof(*g->polls));
    g->polled = calloc(g->n, sizeof(struct connection *));
}

static bool is_tcp(int fd)
{
    struct sockaddr_storage address;
    socklen_t n = sizeof(address);

    return getsockname(fd, (struct sockaddr *)&address, &n) == 0 &&
           (address.ss_family == AF_INET || address.ss_family == AF_INET6);
}

enum error gate_new(int listen_fd, unsigned workers, int64_t write_timeout_ms,
                    struct gate **out)
{
    int flags = fcntl(listen_fd, F_GETFL);
    struct gate *g;

    if (flags < 0 || fcntl(listen_fd, F_SETFL, flags | O_NONBLOCK) != 0)
        return ERROR_SYSTEM;
    g = calloc(1, sizeof(*g));
    if (g == NULL)
        return ERROR_MEMORY;
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->ready, NULL);
    g->listen_fd = listen_fd;
    g->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    g->tcp = is_tcp(listen_fd);
    g->accepting = true;
    g->write_timeout_ms = write_timeout_ms;
    g->n = POOL_PENDING + workers;
    make_tables(g);
    if (g->wake_fd < 0 || g->table == NULL || g->polls == NULL || g->polled == NULL) {
        enum error e = g->wake_fd < 0 ? ERROR_SYSTEM : ERROR_MEMORY;

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
        if (g->table[i].state == QUEUED)
            close(g->table[i].lent);
    }
    if (g->wake_fd >= 0)
        close(g->wake_fd);
    free(g->table);
    free(g->polls);
    free(g->polled);
    pthread_cond_destroy(&g->ready);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

void gate_wake(struct gate *g)
{
    const uint64_t one = 1;
    int saved = errno;
    ssize_t n = write(g->wake_fd, &one, sizeof(one));

    (void)n; /* it can only fail where a wake-up is already waiting */
    errno = saved;
}

/* All functions from here to gate_round are called under the lock. */

/* Descriptors or memory are short, or something is not foreseen: it may pass. */
static void back_off(struct gate *g, int error, int64_t now)
{
    static struct log_once once;

    g->accept_after_ms = now + BACKOFF_MS;
    log_line_once(&once, error, LOG_LEVEL_WARNING, "accepting connections: %s",
                  strerror(error));
}

static void forget(struct gate *g, struct connection *c)
{
    close(c->fd);
    c->state = FREE;
    g->pending--;
}

/* Bytes are there: to the workers. Without a descriptor for the duplicate it stays waiting. */
static void enqueue(struct gate *g, struct connection *c, int64_t now)
{
    c->lent = fcntl(c->fd, F_DUPFD_CLOEXEC, 0);
    if (c->lent < 0) {
        back_off(g, errno, now);
        return;
    }
    c->state = QUEUED;
    c->next = NULL;
    if (g->last != NULL)
        g->last->next = c;
    else
        g->first = c;
    g->last = c;
    pthread_cond_signal(&g->ready);
}

/* A waiting connection: has its first byte come, or its end? */
static void look(struct gate *g, struct connection *c, int64_t now)
{
    char byte;
    ssize_t n = recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

    if (n > 0)
        enqueue(g, c, now);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        forget(g, c);
}

/* A lingering connection: drops what it still sends. */
static void drop_input(struct gate *g, struct connection *c)
{
    char bytes[LINGER_BYTES];
    ssize_t n = recv(c->fd, bytes, sizeof(bytes), MSG_DONTWAIT);

    c->reads++;
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR) || c->reads > LINGER_READS)
        forget(g, c);
}

static void admit_connection(struct gate *g, int fd, int64_t now)
{
    const int on = 1;
    struct connection *c = g->table;

    while (c->state != FREE) /* there is one: POOL_PENDING are not reached, nor the workers */
        c++;
    memset(c, 0, sizeof(*c));
    c->state = WAITING;
    c->fd = fd;
    c->due_ms = now + POOL_REQUEST_MS;
    c->write_due_ms = NEVER;
    g->pending++;
    if (g->tcp) /* each event is a small segment of its own, and must not wait for the next */
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    look(g, c, now);
}

/* False if there is nothing more to accept for now. */
static bool accept_one(struct gate *g, int64_t now)
{
    int fd = accept4(g->listen_fd, NULL, NULL, SOCK_CLOEXEC);

    if (fd >= 0) {
        admit_connection(g, fd, now);
        return true;
    }
    if (errno == EAGAIN) /* another process was faster */
        return false;
    if (errno == EINTR || errno == ECONNABORTED)
        return true;
    back_off(g, errno, now);
    return false;
}

static void expire(struct gate *g, struct connection *c, int64_t now)
{
    if (c->state == SERVED && now >= c->write_due_ms) {
        shutdown(c->fd, SHUT_RDWR);
        c->expired = true;
        c->write_due_ms = NEVER;
    }
    if (now < c->due_ms)
        return;
    if (c->state == WAITING || c->state == LINGERING) {
        forget(g, c);
        return;
    }
    shutdown(c->fd, SHUT_RD);
    c->expired = true;
    c->due_ms = NEVER;
}

/* Fills the poll set; *until becomes the first deadline. */
static nfds_t prepare(struct gate *g, int64_t now, int64_t *until)
{
    nfds_t n = POLLS_OF_OURS;
    bool backoff = now < g->accept_after_ms;

    g->full = g->pending >= POOL_PENDING;
    g->polls[0] = (struct pollfd){.fd = g->wake_fd, .events = POLLIN};
    g->polls[1] = (struct pollfd){
        .fd = g->accepting && !g->full && !backoff ? g->listen_fd : -1, .events = POLLIN};
    if (backoff)
        *until = g->accept_after_ms < *until ? g->accept_after_ms : *until;
    if (g->served > 0)
        *until = now + TICK_MS < *until ? now + TICK_MS : *until;
    for (unsigned i = 0; i < g->n && g->pending + g->served > 0; i++) {
        struct connection *c = &g->table[i];

        if (c->state == FREE)
            continue;
        *until = c->due_ms < *until ? c->due_ms : *until;
        /* while short of descriptors a first byte cannot be answered, only be polled in vain */
        if (c->state == LINGERING || (c->state == WAITING && !backoff)) {
            g->polled[n - POLLS_OF_OURS] = c;
            g->polls[n++] = (struct pollfd){.fd = c->fd, .events = POLLIN};
        }
    }
    return n;
}

static void handle(struct gate *g, nfds_t n, int64_t now)
{
    uint64_t count;
    ssize_t r;

    if (g->polls[0].revents != 0) {
        r = read(g->wake_fd, &count, sizeof(count));
        (void)r; /* non-blocking; its only use was to end the poll */
    }
    for (nfds_t i = POLLS_OF_OURS; i < n; i++) {
        struct connection *c = g->polled[i - POLLS_OF_OURS];

        if (g->polls[i].revents == 0)
            continue;
        if (c->state == WAITING)
            look(g, c, now);
        else
            drop_input(g, c);
    }
    if (g->polls[1].revents != 0) {
        for (int i = 0; i < ACCEPT_BATCH && g->pending < POOL_PENDING; i++) {
            if (!accept_one(g, now))
                break;
        }
    }
    for (unsigned i = 0; i < g->n && g->pending + g->served > 0; i++) {
        if (g->table[i].state != FREE)
            expire(g, &g->table[i], now);
    }
}

void gate_round(struct gate *g, int64_t wait_ms)
{
    int64_t now = clock_monotonic_ms();
    int64_t until = wait_ms < 0 ? NEVER : now + wait_ms;
    int timeout = -1;
    nfds_t n;

    pthread_mutex_lock(&g->lock);
    n = prepare(g, now, &until);
    pthread_mutex_unlock(&g->lock);
    if (until != NEVER)
        timeout = until <= now ? 0 : (int)(until - now > TICK_MS ? TICK_MS : until - now);
    if (poll(g->polls, n, timeout) < 0) { /* look at the deadlines only */
        if (errno != EINTR)
            poll(NULL, 0, BACKOFF_MS);
        memset(g->polls, 0, n * sizeof(*g->polls));
    }
    pthread_mutex_lock(&g->lock);
    handle(g, n, clock_monotonic_ms());
    pthread_mutex_unlock(&g->lock);
}

void gate_stop(struct gate *g)
{
    int64_t soon = clock_monotonic_ms() + STOP_GRACE_MS;

    pthread_mutex_lock(&g->lock);
    g->accepting = false;
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

void gate_dismiss(struct gate *g)
{
    pthread_mutex_lock(&g->lock);
    g->dismissed = true;
    pthread_cond_broadcast(&g->ready);
    pthread_mutex_unlock(&g->lock);
}

struct connection *gate_take(struct gate *g)
{
    struct connection *c;
    bool wake = false;

    pthread_mutex_lock(&g->lock);
    while (g->first == NULL && !g->dismissed)
        pthread_cond_wait(&g->ready, &g->lock);
    c = g->first;
    if (c != NULL) {
        g->first = c->next;
        if (g->first == NULL)
            g->last = NULL;
        c->state = SERVED;
        g->pending--;
        g->served++;
        wake = g->full;
    }
    pthread_mutex_unlock(&g->lock);
    if (wake)
        gate_wake(g);
    return c;
}

void gate_give(struct gate *g, struct connection *c, bool drained)
{
    bool wake = true;

    pthread_mutex_lock(&g->lock);
    g->served--;
    g->pending++;
    if (drained || c->expired) {
        forget(g, c);
        wake = !g->accepting; /* the drain waits for it */
    } else {
        shutdown(c->fd, SHUT_WR);
        c->state = LINGERING;
        c->due_ms = clock_monotonic_ms() + (g->accepting ? GATE_LINGER_MS : STOP_GRACE_MS);
    }
    pthread_mutex_unlock(&g->lock);
    if (wake)
        gate_wake(g);
}

int gate_fd(const struct connection *c)
{
    return c->fd;
}

int gate_lent_fd(const struct connection *c)
{
    return c->lent;
}

bool gate_admit(struct gate *g, struct connection *c)
{
    bool in_time;

    pthread_mutex_lock(&g->lock);
    in_time = !c->expired && clock_monotonic_ms() < c->due_ms;
    if (in_time)
        c->due_ms = NEVER;
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
