/*
 * CGI: one request from the environment and the standard streams. Security: the process may be
 * killed at any moment (uhttpd kills it by SIGKILL when the caller leaves), so nothing is left
 * for its end; a caller that says nothing or reads nothing does not keep it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/pool.h"
#include "platform/clock.h"

/* PIPE_BUF: a pipe that poll reports takes so much without blocking. */
#define BUFFER_SIZE 4096
#define WRITE_MS    30000 /* the write timeout where there is no configuration */

struct cgi {
    struct exchange x; /* first: an exchange is cast back to it */
    bool admitted;
    int64_t due_ms; /* of its admission: POOL_REQUEST_MS after the start; then of its answer */
    int64_t write_timeout_ms;
    uint64_t length; /* announced, 0: not known */
    uint64_t got;
    int watch_fd;
    bool ended, failed;
    size_t n; /* bytes in the buffer */
    char buffer[BUFFER_SIZE];
};

static int term_fd = -1; /* written to by the handler */

static void on_term(int number)
{
    const uint64_t one = 1;
    int saved = errno;
    ssize_t n = write(term_fd, &one, sizeof(one));

    (void)number;
    (void)n; /* it can only fail when it has been told before */
    errno = saved;
}

/* Apache and lighttpd send SIGTERM when the caller leaves: there is a charge to settle
 * first. */
static void catch_signals(void)
{
    struct sigaction term = {.sa_handler = on_term};
    struct sigaction ignore = {.sa_handler = SIG_IGN};

    sigemptyset(&term.sa_mask);
    sigemptyset(&ignore.sa_mask);
    sigaction(SIGPIPE, &ignore, NULL);
    if (term_fd >= 0)
        sigaction(SIGTERM, &term, NULL);
}

/* One descriptor that is readable once the caller has left, by either sign; -1 if there can be
 * none. Standard output as a file cannot be watched, and cannot leave. */
static int make_watch(void)
{
    struct epoll_event output = {.events = 0}, term = {.events = EPOLLIN};
    int fd = epoll_create1(EPOLL_CLOEXEC);

    if (fd < 0)
        return -1;
    epoll_ctl(fd, EPOLL_CTL_ADD, STDOUT_FILENO, &output); /* errors are always reported */
    if (term_fd >= 0)
        epoll_ctl(fd, EPOLL_CTL_ADD, term_fd, &term);
    return fd;
}

/* Whether fd is ready before the instant; a signal may shorten no wait. */
static bool ready(int fd, short events, int64_t until_ms)
{
    struct pollfd p = {.fd = fd, .events = events};
    int64_t left;
    int n;

    do {
        left = until_ms - clock_monotonic_ms();
        n = poll(&p, 1, left <= 0 ? 0 : (int)(left < INT_MAX ? left : INT_MAX));
    } while (n < 0 && errno == EINTR);
    return n > 0;
}

static ssize_t cgi_read(struct exchange *x, void *buf, size_t n)
{
    struct cgi *c = (struct cgi *)x;
    ssize_t got;

    if (c->length > 0 && n > c->length - c->got)
        n = (size_t)(c->length - c->got); /* a script must not read beyond it */
    if (n == 0 || c->ended) {
        x->watch_fd = c->watch_fd;
        return 0;
    }
    do {
        if (!ready(STDIN_FILENO, POLLIN, c->due_ms))
            return -1;
        got = read(STDIN_FILENO, buf, n);
    } while (got < 0 && errno == EINTR);
    if (got > 0) {
        c->got += (uint64_t)got;
    } else if (got == 0) {
        c->ended = true;
        x->watch_fd = c->watch_fd;
    }
    return got;
}

static bool cgi_flush(struct exchange *x)
{
    struct cgi *c = (struct cgi *)x;
    int64_t until = clock_monotonic_ms() + c->write_timeout_ms;
    size_t done = 0;

    if (c->admitted && c->due_ms < until)
        until = c->due_ms;
    while (!c->failed && done < c->n) {
        ssize_t n = -1;

        if ((!c->admitted || clock_monotonic_ms() < c->due_ms) &&
            ready(STDOUT_FILENO, POLLOUT, until))
            n = write(STDOUT_FILENO, c->buffer + done, c->n - done);
        else
            errno = ETIMEDOUT;
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || (errno != EINTR && errno != EAGAIN))
            c->failed = true;
    }
    c->n = 0;
    return !c->failed;
}

static bool cgi_write(struct exchange *x, const void *buf, size_t n)
{
    struct cgi *c = (struct cgi *)x;
    const char *bytes = buf;

    while (n > 0) {
        size_t part = sizeof(c->buffer) - c->n < n ? sizeof(c->buffer) - c->n : n;

        memcpy(c->buffer + c->n, bytes, part);
        c->n += part;
        bytes += part;
        n -= part;
        if (c->n == sizeof(c->buffer) && !cgi_flush(x))
            return false;
    }
    return !c->failed;
}

static bool cgi_admitted(struct exchange *x, int64_t answer_ms)
{
    struct cgi *c = (struct cgi *)x;
    int64_t now = clock_monotonic_ms();

    c->admitted = now < c->due_ms;
    if (c->admitted)
        c->due_ms = now + answer_ms;
    return c->admitted;
}

static const struct exchange_ops cgi_ops = {cgi_read, cgi_write, cgi_flush, cgi_admitted};

/* Reads what was left of the input, in the request's time. Apache's mod_cgid has input and output
 * in one socket: a process that ends with input unread resets it, and the answer is lost. */
static void drain(struct cgi *c)
{
    struct stat st;

    if (fstat(STDIN_FILENO, &st) != 0 || !S_ISSOCK(st.st_mode))
        return;
    while (clock_monotonic_ms() < c->due_ms &&
           cgi_read(&c->x, c->buffer, sizeof(c->buffer)) > 0)
        ;
}

/* The end of the answer, for a web server that waits for it. The number stays taken: whatever
 * is opened next must not be standard output. */
static bool let_go(void)
{
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    bool ok;

    shutdown(STDOUT_FILENO, SHUT_WR); /* of a socket that the input holds open */
    ok = fd >= 0 && dup2(fd, STDOUT_FILENO) == STDOUT_FILENO;
    if (fd >= 0)
        close(fd);
    return ok;
}

void cgi_run(struct service *s, char *const *env)
{
    struct cgi c = {.x = {.ops = &cgi_ops, .env = env, .single = true, .watch_fd = -1}};
    struct config *config = service_config(s);

    term_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    catch_signals();
    c.watch_fd = make_watch();
    c.x.watch_readable = true;
    c.due_ms = clock_monotonic_ms() + POOL_REQUEST_MS;
    c.write_timeout_ms = config != NULL ? config->write_timeout_ms : WRITE_MS;
    config_drop(config);
    c.length = exchange_length(&c.x);
    service_handle(s, &c.x);
    cgi_flush(&c.x);
    drain(&c);
    if (service_has_more(s) && let_go())
        service_do_more(s);
}
