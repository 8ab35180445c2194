/*
 * The transfer thread: one libcurl multi handle and one epoll set for all calls of a process.
 * Every use of a libcurl handle happens on this thread; workers leave their wishes in the queue
 * of call.h. Security: no client's descriptor can make the loop spin, and every call ends by a
 * clock of ours (libcurl's idle clock judges averages and comes late).
 */
#include "gateway/upstream.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "gateway/call.h"
#include "gateway/exchange.h"
#include "gateway/libcurl.h"
#include "gateway/transfer.h"
#include "platform/clock.h"

#define STACK_BYTES    262144 /* four times what a TLS handshake was seen to touch */
#define EVENTS         32     /* taken from the kernel at once */
#define WAIT_MAX_MS    60000  /* nothing depends on it */
#define WATCH_AGAIN_MS 100    /* a client's descriptor that was readable, but not gone */
#define STREAMS_MIN    100L   /* HTTP/2 streams a connection: libcurl's default */

/* ---- the upstream ---- */

struct upstream {
    struct call_queue queue;
    unsigned streams;
    pthread_mutex_t load_lock;
    bool loaded; /* under load_lock */
    pthread_t thread;
    /* The transfer thread's from here on. */
    CURLM *multi;
    CURLSH *sessions; /* TLS sessions of all handles */
    int epoll_fd;
    int64_t timer_ms; /* when libcurl wants to be called; INT64_MAX: not by time */
    struct call *running;
    CURL **idle; /* handles that wait for a call, at most `streams` */
    unsigned n_idle;
};

/*
 * The epoll set holds three things: the queue's eventfd (0), libcurl's sockets (an odd number),
 * and clients' descriptors (the call's address, which is even).
 */
static uint64_t socket_mark(int fd)
{
    return (uint64_t)fd << 1 | 1;
}

/* If the kernel will not watch it, the call's clocks end it. */
static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg)
{
    struct upstream *u = arg;
    struct epoll_event e = {.data.u64 = socket_mark(fd)};

    (void)easy;
    (void)socket_arg;
    if (what == CURL_POLL_REMOVE) {
        epoll_ctl(u->epoll_fd, EPOLL_CTL_DEL, fd, &e);
        return 0;
    }
    if (what == CURL_POLL_IN || what == CURL_POLL_INOUT)
        e.events |= EPOLLIN;
    if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT)
        e.events |= EPOLLOUT;
    if (epoll_ctl(u->epoll_fd, EPOLL_CTL_MOD, fd, &e) != 0 && errno == ENOENT)
        epoll_ctl(u->epoll_fd, EPOLL_CTL_ADD, fd, &e);
    return 0;
}

static int on_timer(CURLM *multi, long timeout_ms, void *arg)
{
    struct upstream *u = arg;

    (void)multi;
    u->timer_ms = timeout_ms < 0 ? INT64_MAX : clock_monotonic_ms() + timeout_ms;
    return 0;
}

/* ---- one call ---- */

static CURL *take_idle(struct upstream *u)
{
    return u->n_idle > 0 ? u->idle[--u->n_idle] : libcurl.easy_init();
}

/*
 * Kept for a later call only after a whole answer: what libcurl leaves in a handle that failed
 * is its own affair, and one that refused an option would fail every call from then on (7.88
 * does so after a name that was not found). Connections and sessions are the multi handle's,
 * not its.
 */
static void give_back(struct upstream *u, CURL *easy, enum call_end end)
{
    if (end != CALL_DONE || u->n_idle == u->streams) {
        libcurl.easy_cleanup(easy);
        return;
    }
    libcurl.easy_reset(easy);
    u->idle[u->n_idle++] = easy;
}

static void watch_client(struct upstream *u, struct call *c, int operation)
{
    struct epoll_event e = {.events = EPOLLONESHOT, .data.u64 = (uintptr_t)c};

    if (c->request.watch_fd < 0)
        return;
    if (c->request.watch_readable)
        e.events |= EPOLLIN | EPOLLRDHUP;
    epoll_ctl(u->epoll_fd, operation, c->request.watch_fd, &e); /* a file cannot be watched */
}

static void finish(struct upstream *u, struct call *c, enum call_end end)
{
    if (c->link != NULL) {
        *c->link = c->next;
        if (c->next != NULL)
            c->next->link = c->link;
        watch_client(u, c, EPOLL_CTL_DEL);
    }
    if (c->easy != NULL) {
        libcurl.multi_remove_handle(u->multi, c->easy);
        give_back(u, c->easy, end);
    }
    transfer_wipe(c);
    call_finish(c, end);
}

static void begin(struct upstream *u, struct call *c)
{
    c->easy = take_idle(u);
    if (c->easy == NULL || !transfer_set(c, u->sessions) ||
        libcurl.multi_add_handle(u->multi, c->easy) != CURLM_OK) {
        c->reason = "libcurl did not take the request";
        finish(u, c, CALL_UNREACHABLE);
        return;
    }
    c->next = u->running;
    c->link = &u->running;
    if (c->next != NULL)
        c->next->link = &c->next;
    u->running = c;
    watch_client(u, c, EPOLL_CTL_ADD);
}

static void go_on(struct upstream *u, struct call *c)
{
    if (!c->paused)
        return;
    call_resumed(c, clock_monotonic_ms());
    if (libcurl.easy_pause(c->easy, CURLPAUSE_CONT) != CURLE_OK)
        finish(u, c, CALL_BROKEN);
}

/* ---- the loop ---- */

/* What workers want. False if the thread is to end. */
static bool serve_queue(struct upstream *u)
{
    bool abort_it = false, stopping;
    struct call *c;

    while ((c = call_next(&u->queue, &abort_it, &stopping)) != NULL) {
        if (abort_it)
            finish(u, c, CALL_ABORTED);
        else if (c->easy == NULL)
            begin(u, c);
        else
            go_on(u, c);
    }
    return !stopping;
}

/* Ends calls whose time is up. When the next thing is due. */
static int64_t look_at_clocks(struct upstream *u, int64_t now_ms)
{
    int64_t due_ms = u->timer_ms, deadline_ms;
    struct call *c, *next;
    const char *reason;

    for (c = u->running; c != NULL; c = next) {
        next = c->next;
        deadline_ms = call_deadline(c, &reason);
        if (deadline_ms <= now_ms) {
            c->reason = reason;
            finish(u, c, CALL_TIMEOUT);
            continue;
        }
        if (c->watch_ms != 0 && c->watch_ms <= now_ms) {
            c->watch_ms = 0;
            watch_client(u, c, EPOLL_CTL_MOD);
        }
        if (c->watch_ms != 0 && c->watch_ms < deadline_ms)
            deadline_ms = c->watch_ms;
        if (deadline_ms < due_ms)
            due_ms = deadline_ms;
    }
    return due_ms;
}

/* One that is readable, but not gone, is looked at again later and not without a pause. */
static void client_event(struct upstream *u, struct call *c)
{
    if (exchange_gone(c->request.watch_fd, c->request.watch_readable))
        finish(u, c, CALL_GONE);
    else
        c->watch_ms = clock_monotonic_ms() + WATCH_AGAIN_MS;
}

static void socket_event(struct upstream *u, int fd, uint32_t events)
{
    int bits = 0, running;

    if ((events & (EPOLLIN | EPOLLHUP)) != 0)
        bits |= CURL_CSELECT_IN;
    if ((events & EPOLLOUT) != 0)
        bits |= CURL_CSELECT_OUT;
    if ((events & EPOLLERR) != 0)
        bits |= CURL_CSELECT_ERR;
    libcurl.multi_socket_action(u->multi, fd, bits, &running);
}

static void wait_for_events(struct upstream *u, int64_t wait_ms)
{
    struct epoll_event events[EVENTS];
    uint64_t count;
    ssize_t ignored;
    int n;

    if (wait_ms > WAIT_MAX_MS)
        wait_ms = WAIT_MAX_MS;
    n = epoll_wait(u->epoll_fd, events, EVENTS, wait_ms < 0 ? 0 : (int)wait_ms);
    for (int i = 0; i < n; i++) {
        uint64_t mark = events[i].data.u64;

        if (mark == 0) {
            ignored = read(u->queue.wake_fd, &count, sizeof count);
            (void)ignored;
        } else if ((mark & 1) != 0) {
            socket_event(u, (int)(mark >> 1), events[i].events);
        } else {
            /* Its only event in this round, and only here are calls ended in it. */
            client_event(u, (struct call *)(uintptr_t)mark);
        }
    }
}

static enum call_end end_of(const struct call *c, CURLcode result)
{
    if (result == CURLE_OK)
        return CALL_DONE;
    if (result == CURLE_OPERATION_TIMEDOUT)
        return CALL_TIMEOUT;
    return c->sent ? CALL_BROKEN : CALL_UNREACHABLE;
}

static void take_results(struct upstream *u)
{
    CURLMsg *message;
    struct call *c;
    CURLcode result;
    int left;

    while ((message = libcurl.multi_info_read(u->multi, &left)) != NULL) {
        if (message->msg != CURLMSG_DONE)
            continue;
        result = message->data.result; /* gone once the handle is removed */
        if (libcurl.easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &c) != CURLE_OK)
            continue;
        if (result == CURLE_OPERATION_TIMEDOUT)
            (void)call_deadline(c, &c->reason); /* its clock for the connection is ours */
        else if (result != CURLE_OK)
            c->reason = libcurl.easy_strerror(result);
        finish(u, c, end_of(c, result));
    }
}

static void close_handles(struct upstream *u)
{
    while (u->n_idle > 0)
        libcurl.easy_cleanup(u->idle[--u->n_idle]);
    if (u->multi != NULL)
        libcurl.multi_cleanup(u->multi);
    if (u->sessions != NULL)
        libcurl.share_cleanup(u->sessions);
    free(u->idle);
    if (u->epoll_fd >= 0)
        close(u->epoll_fd);
    if (u->queue.wake_fd >= 0)
        close(u->queue.wake_fd);
}

static void *transfer(void *arg)
{
    struct upstream *u = arg;
    int64_t due_ms, now_ms;
    int running;

    while (serve_queue(u)) {
        now_ms = clock_monotonic_ms();
        due_ms = look_at_clocks(u, now_ms);
        wait_for_events(u, due_ms - now_ms);
        if (u->timer_ms <= clock_monotonic_ms()) {
            u->timer_ms = INT64_MAX;
            libcurl.multi_socket_action(u->multi, CURL_SOCKET_TIMEOUT, 0, &running);
        }
        take_results(u);
    }
    while (u->running != NULL)
        finish(u, u->running, CALL_ABORTED);
    close_handles(u); /* here, because here SIGPIPE is blocked */
    call_queue_end(&u->queue);
    return NULL;
}

/* ---- for the workers ---- */

enum error upstream_new(unsigned streams, struct upstream **out)
{
    struct upstream *u = calloc(1, sizeof *u);

    if (u == NULL)
        return ERROR_MEMORY;
    if (!call_queue_init(&u->queue)) {
        free(u);
        return ERROR_MEMORY;
    }
    if (pthread_mutex_init(&u->load_lock, NULL) != 0) {
        call_queue_destroy(&u->queue);
        free(u);
        return ERROR_MEMORY;
    }
    u->streams = streams;
    u->timer_ms = INT64_MAX;
    u->epoll_fd = -1;
    *out = u;
    return ERROR_NONE;
}

static bool set_multi(struct upstream *u)
{
    long streams = (long)u->streams;

    return libcurl.share_setopt(u->sessions, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION) ==
               CURLSHE_OK &&
           libcurl.multi_setopt(u->multi, CURLMOPT_SOCKETFUNCTION, on_socket) == CURLM_OK &&
           libcurl.multi_setopt(u->multi, CURLMOPT_SOCKETDATA, u) == CURLM_OK &&
           libcurl.multi_setopt(u->multi, CURLMOPT_TIMERFUNCTION, on_timer) == CURLM_OK &&
           libcurl.multi_setopt(u->multi, CURLMOPT_TIMERDATA, u) == CURLM_OK &&
           libcurl.multi_setopt(u->multi, CURLMOPT_MAXCONNECTS, streams) == CURLM_OK &&
           libcurl.multi_setopt(u->multi, CURLMOPT_MAX_CONCURRENT_STREAMS,
                                streams > STREAMS_MIN ? streams : STREAMS_MIN) == CURLM_OK;
}

static enum error open_handles(struct upstream *u)
{
    struct epoll_event wake = {.events = EPOLLIN, .data.u64 = 0};

    u->idle = calloc(u->streams + 1, sizeof *u->idle);
    u->multi = libcurl.multi_init();
    u->sessions = libcurl.share_init();
    if (u->idle == NULL || u->multi == NULL || u->sessions == NULL || !set_multi(u))
        return ERROR_MEMORY;
    u->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    u->queue.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (u->epoll_fd < 0 || u->queue.wake_fd < 0 ||
        epoll_ctl(u->epoll_fd, EPOLL_CTL_ADD, u->queue.wake_fd, &wake) != 0)
        return ERROR_SYSTEM;
    return ERROR_NONE;
}

/* No signal is delivered to it: a worker's or the main thread's business, and SIGPIPE of TLS
 * libraries that write to a closed connection must not end the process. */
static enum error start_thread(struct upstream *u)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    enum error e = ERROR_SYSTEM;

    if (pthread_attr_init(&attributes) != 0)
        return ERROR_MEMORY;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0 &&
        pthread_create(&u->thread, &attributes, transfer, u) == 0)
        e = ERROR_NONE;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return e;
}

static enum error load(struct upstream *u)
{
    enum error e;

    if (!libcurl_load())
        return ERROR_NOT_FOUND;
    e = open_handles(u);
    if (e == ERROR_NONE)
        e = start_thread(u);
    if (e == ERROR_NONE)
        return ERROR_NONE;
    close_handles(u);
    u->idle = NULL;
    u->multi = NULL;
    u->sessions = NULL;
    u->epoll_fd = u->queue.wake_fd = -1;
    return e;
}

enum error upstream_load(struct upstream *u)
{
    enum error e = ERROR_NONE;

    pthread_mutex_lock(&u->load_lock);
    if (!u->loaded)
        e = load(u);
    u->loaded = e == ERROR_NONE;
    pthread_mutex_unlock(&u->load_lock);
    return e;
}

bool upstream_free(struct upstream *u, int64_t bound_ms)
{
    if (u == NULL)
        return true;
    if (u->loaded && !call_queue_stop(&u->queue, bound_ms))
        return false;
    if (u->loaded)
        pthread_join(u->thread, NULL);
    call_queue_destroy(&u->queue);
    pthread_mutex_destroy(&u->load_lock);
    free(u);
    return true;
}

enum error call_start(struct upstream *u, const struct call_request *r, struct call **out)
{
    enum error e = ERROR_NONE;
    struct call *c;
    bool loaded;

    pthread_mutex_lock(&u->load_lock);
    loaded = u->loaded;
    pthread_mutex_unlock(&u->load_lock);
    if (!loaded)
        return ERROR_NOT_FOUND;
    c = call_new(&u->queue, r);
    if (c == NULL)
        return ERROR_MEMORY;
    if (!transfer_headers(c, r))
        e = ERROR_MEMORY;
    else if (!call_post(c))
        e = ERROR_STOPPING;
    if (e == ERROR_NONE) {
        *out = c;
        return ERROR_NONE;
    }
    transfer_wipe(c);
    call_destroy(c);
    return e;
}
