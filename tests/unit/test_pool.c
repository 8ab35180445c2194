/*
 * The pool, run whole in a process of its own, with a tiny service in the place of the real
 * one, and spoken to over a unix socket. What is told about workers is shown by what others
 * get: with one stream there are three workers.
 */
#include <linux/sockios.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "gateway/pool.h"
#include "tests/unit/fcgi_client.h"
#include "tests/unit/scratch.h"

#define STREAMS  1U
#define WORKERS  3
#define STACK    (256 * 1024) /* sanitizers need more than the product */
#define WRITE_MS 1500
#define STOP_MS  4000
#define LONG_MS  60000 /* for an answer: longer than any test */
#define POUR_MS  2500
#define SOON_MS  3000 /* "at once" on a busy machine */
#define RESTART  3    /* exit status */
#define NOBODY   65534

/* ---- the service in the pool's process ---- */

static atomic_bool stopped, cut, restart;
static atomic_uint held;

static bool say(struct exchange *x, const char *what)
{
    return x->ops->write(x, "\r\n", 2) && x->ops->write(x, what, strlen(what));
}

/* Reads the body to its end; its length, or -1. */
static long read_all(struct exchange *x)
{
    char bytes[4096];
    long total = 0;
    ssize_t n;

    while ((n = x->ops->read(x, bytes, sizeof(bytes))) > 0)
        total += n;
    return n < 0 ? -1 : total;
}

static void echo(struct exchange *x)
{
    const char *big = exchange_param(x, "BIG");
    char text[96];

    snprintf(text, sizeof(text), "body %ld big %zu", read_all(x),
             big != NULL ? strlen(big) : 0);
    say(x, text);
}

static void refuse(struct exchange *x)
{
    say(x, "too large");
}

/* Admitted; stays until the caller leaves, or it is cut. */
static void hold(struct exchange *x)
{
    bool in_time = read_all(x) >= 0 && x->ops->admitted(x, LONG_MS);

    say(x, in_time ? "held" : "late");
    x->ops->flush(x);
    atomic_fetch_add(&held, 1);
    while (in_time && !exchange_gone(x->watch_fd, x->watch_readable) && !atomic_load(&cut))
        poll(NULL, 0, 5);
    atomic_fetch_sub(&held, 1);
    if (atomic_load(&cut))
        x->ops->write(x, " cut", 4);
}

/* How many are held just now. */
static void count(struct exchange *x)
{
    char text[32];

    read_all(x);
    snprintf(text, sizeof(text), "%u", atomic_load(&held));
    say(x, text);
}

static void late(struct exchange *x)
{
    read_all(x);
    say(x, x->ops->admitted(x, LONG_MS) ? "in time" : "late");
}

/* Decides only once the deadline has passed. */
static void late_slow(struct exchange *x)
{
    read_all(x);
    for (int64_t until = now_ms() + POOL_REQUEST_MS + 100; now_ms() < until;)
        poll(NULL, 0, 50);
    late(x);
}

/* Writes until it cannot. */
static void flood(struct exchange *x)
{
    static const char bytes[8192];

    read_all(x);
    x->ops->admitted(x, LONG_MS);
    atomic_fetch_add(&held, 1);
    while (x->ops->write(x, bytes, sizeof(bytes)))
        ;
    if (x->ops->flush(x) || x->ops->write(x, bytes, 1)) /* once failed it stays failed */
        abort();
    atomic_fetch_sub(&held, 1);
}

/* Writes little by little as long as somebody takes it. */
static void pour(struct exchange *x)
{
    read_all(x);
    x->ops->admitted(x, POUR_MS);
    atomic_fetch_add(&held, 1);
    while (x->ops->write(x, "drop", 4) && x->ops->flush(x))
        ;
    atomic_fetch_sub(&held, 1);
}

static void stick(struct exchange *x)
{
    read_all(x);
    x->ops->admitted(x, LONG_MS);
    say(x, "stuck");
    x->ops->flush(x);
    for (;;)
        pause();
}

static void start_anew(struct exchange *x)
{
    read_all(x);
    atomic_store(&restart, true);
    say(x, "restarting");
}

/* Whether a signal could interrupt this thread. */
static void tell_mask(struct exchange *x)
{
    sigset_t mask;

    read_all(x);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    say(x, sigismember(&mask, SIGTERM) && sigismember(&mask, SIGPIPE) &&
                   sigismember(&mask, SIGCHLD)
               ? "blocked"
               : "open");
}

static const struct {
    const char *path;
    void (*handle)(struct exchange *x);
} pages[] = {
    {"/echo", echo},   {"/refuse", refuse},       {"/hold", hold},   {"/count", count},
    {"/late", late},   {"/late/slow", late_slow}, {"/flood", flood}, {"/restart", start_anew},
    {"/stick", stick}, {"/mask", tell_mask},      {"/pour", pour},
};

void service_handle(struct service *s, struct exchange *x)
{
    const char *path = exchange_param(x, "PATH_INFO");

    (void)s;
    if (atomic_load(&stopped)) {
        say(x, "stopping");
        return;
    }
    for (size_t i = 0; path != NULL && i < sizeof(pages) / sizeof(pages[0]); i++) {
        if (strcmp(path, pages[i].path) == 0)
            pages[i].handle(x);
    }
}

void service_stop(struct service *s)
{
    (void)s;
    atomic_store(&stopped, true);
}

void service_cut(struct service *s)
{
    (void)s;
    atomic_store(&cut, true);
}

bool service_wants_restart(struct service *s)
{
    (void)s;
    return atomic_load(&restart);
}

int64_t service_rest(struct service *s)
{
    (void)s;
    return -1;
}

/* ---- the process ---- */

static const char *path;
static pid_t child;

/* Starts it on a socket of its own; `files`: its limit of open files, or 0. */
static void start_with(rlim_t files)
{
    char message[256];
    int fd;

    path = scratch_path("socket");
    fd = pool_listen(path, 0600, NULL, message);
    assert_true(fd >= 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit limit = {files, files};

        alarm(SCRATCH_SECONDS);
        if (files > 0)
            setrlimit(RLIMIT_NOFILE, &limit);
        _exit(pool_run(NULL, fd, STREAMS, STACK, WRITE_MS, STOP_MS) ? 0 : RESTART);
    }
    close(fd);
}

static int start(void **state)
{
    (void)state;
    start_with(0);
    return 0;
}

/* Ends it if a test has not. */
static int end(void **state)
{
    int status;

    (void)state;
    if (child > 0) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
    }
    child = 0;
    unlink(path);
    return 0;
}

/* Waits for its end by itself; its status. */
static int ended(int64_t wait_ms)
{
    int64_t until = now_ms() + wait_ms;
    int status;

    while (waitpid(child, &status, WNOHANG) == 0) {
        if (now_ms() > until)
            return -1;
        poll(NULL, 0, 5);
    }
    child = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* One request on a connection of its own, answered soon and ended by the other side. */
static const char *ask(const char *what)
{
    static char answer[256];
    int fd = fcgi_connect(path);

    assert_true(fcgi_ask_all(fd, what, 0));
    assert_true(fcgi_answer(fd, answer, sizeof(answer), SOON_MS));
    assert_true(fcgi_closed(fd, SOON_MS) >= 0);
    close(fd);
    return answer;
}

/* Opens a request that stays, and waits until it does. */
static int ask_held(const char *what)
{
    int fd = fcgi_connect(path);
    unsigned char head[8];

    assert_true(fcgi_ask_all(fd, what, 0));
    assert_true(fcgi_receive(fd, head, sizeof(head), now_ms() + SOON_MS));
    return fd;
}

/* Until the other side has read all that was sent. */
static void wait_read(int fd)
{
    int64_t until = now_ms() + SOON_MS;
    int unread = 1;

    while (ioctl(fd, SIOCOUTQ, &unread) == 0 && unread > 0) {
        assert_true(now_ms() < until);
        poll(NULL, 0, 5);
    }
}

static void wait_held(unsigned n)
{
    int64_t until = now_ms() + 2 * SOON_MS;

    while (strtoul(ask("/count") + 2, NULL, 10) != n) {
        assert_true(now_ms() < until);
        poll(NULL, 0, 10);
    }
}

/* ---- requests ---- */

static void a_request_is_answered(void **state)
{
    (void)state;
    assert_string_equal(ask("/echo"), "\r\nbody 0 big 0");
    assert_string_equal(ask("/mask"), "\r\nblocked");
    assert_string_equal(ask("/late"), "\r\nin time");
}

static void a_body_arrives_whole(void **state)
{
    char body[200000], answer[64];
    int fd = fcgi_connect(path);

    (void)state;
    memset(body, 'x', sizeof(body));
    assert_true(fcgi_ask(fd, "/echo", 0));
    assert_true(fcgi_stream(fd, FCGI_INPUT, body, sizeof(body)));
    assert_true(fcgi_record(fd, FCGI_INPUT, "", 0));
    assert_true(fcgi_answer(fd, answer, sizeof(answer), SOON_MS));
    assert_string_equal(answer, "\r\nbody 200000 big 0");
    close(fd);
}

static void a_body_that_breaks_off_is_told(void **state)
{
    char answer[64];
    int fd = fcgi_connect(path);

    (void)state;
    assert_true(fcgi_ask(fd, "/echo", 0));
    assert_true(fcgi_record(fd, FCGI_INPUT, "half", 4));
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    assert_true(fcgi_answer(fd, answer, sizeof(answer), SOON_MS));
    assert_string_equal(answer, "\r\nbody -1 big 0");
    close(fd);
}

static void huge_parameters_are_read(void **state)
{
    const size_t n = 1 << 20;
    char *big = malloc(n + 1), answer[64];
    int fd = fcgi_connect(path);

    (void)state;
    assert_non_null(big);
    memset(big, 'x', n);
    big[n] = '\0';
    assert_true(fcgi_begin(fd, 0) && fcgi_param(fd, "PATH_INFO", "/echo"));
    assert_true(fcgi_param(fd, "BIG", big) && fcgi_record(fd, FCGI_PARAMETER, "", 0));
    assert_true(fcgi_record(fd, FCGI_INPUT, "", 0));
    assert_true(fcgi_answer(fd, answer, sizeof(answer), SOON_MS));
    assert_string_equal(answer, "\r\nbody 0 big 1048576");
    close(fd);
    free(big);
}

static void nonsense_is_closed(void **state)
{
    static const struct {
        char bytes[24];
        size_t n;
    } nonsense[] = {
        {"GET / HTTP/1.0\r\n\r\n", 18},
        {"\1\1\0\1\0\1\0\0x", 9},                  /* a begin record too short */
        {"\2\1\0\1\0\10\0\0\0\1\0\0\0\0\0\0", 16}, /* another version */
        {"\1\4\0\1\0\0\0\0", 8},                   /* parameters of no request */
        {"\1\1\0\1\0\10\0\0\0\7\0\0\0\0\0\0", 16}, /* an unknown role */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
        int fd = fcgi_connect(path);

        assert_true(fcgi_send(fd, nonsense[i].bytes, nonsense[i].n));
        assert_int_equal(shutdown(fd, SHUT_WR), 0);
        assert_true(fcgi_closed(fd, SOON_MS) >= 0);
        close(fd);
    }
    assert_string_equal(ask("/echo"), "\r\nbody 0 big 0");
}

/* A 413 before the body: a reset would make the web server lose the answer. */
static void an_answer_before_the_body_is_not_lost(void **state)
{
    char body[60000], answer[64];
    int fd = fcgi_connect(path);

    (void)state;
    memset(body, 'x', sizeof(body));
    assert_true(fcgi_ask(fd, "/refuse", 0));
    for (int i = 0; i < 10; i++) /* the socket does not hold it all: it is read and dropped */
        assert_true(fcgi_record(fd, FCGI_INPUT, body, sizeof(body)));
    assert_true(fcgi_answer(fd, answer, sizeof(answer), SOON_MS));
    assert_string_equal(answer, "\r\ntoo large");
    close(fd);
}

static void a_peer_that_does_not_close_holds_no_worker(void **state)
{
    char answer[64];
    int fds[2 * WORKERS];
    int64_t start_ms = now_ms();

    (void)state;
    for (size_t i = 0; i < 2 * WORKERS; i++) { /* libfcgi alone would wait 2 s for each */
        fds[i] = fcgi_connect(path);
        assert_true(fcgi_ask(fds[i], "/refuse", 0));
        assert_true(fcgi_answer(fds[i], answer, sizeof(answer), SOON_MS));
    }
    assert_true(now_ms() - start_ms < WRITE_MS - 100);
    for (size_t i = 0; i < 2 * WORKERS; i++) {
        assert_true(fcgi_closed(fds[i], 2 * SOON_MS) >= 0);
        close(fds[i]);
    }
}

/* ---- workers ---- */

static void kept_alive_connections_own_no_worker(void **state)
{
    char answer[64];
    int fds[WORKERS + 1];

    (void)state;
    for (size_t i = 0; i < WORKERS + 1; i++) {
        fds[i] = fcgi_connect(path);
        assert_true(fcgi_ask_all(fds[i], "/echo", FCGI_KEEP));
        assert_true(fcgi_answer(fds[i], answer, sizeof(answer), SOON_MS));
    }
    assert_string_equal(ask("/echo"), "\r\nbody 0 big 0");
    for (size_t i = 0; i < WORKERS + 1; i++) {
        assert_true(fcgi_closed(fds[i], SOON_MS) >= 0); /* keeping it was not agreed to */
        close(fds[i]);
    }
}

/* All deadlines are waited for at once: silent, slow parameters, slow body. */
static void nobody_is_waited_for_longer_than_the_deadline(void **state)
{
    enum { SILENT = 20, SLOW = WORKERS };
    int silent[SILENT], slow[SLOW];
    char answer[64];
    int64_t start_ms = now_ms(), took;

    (void)state;
    for (int i = 0; i < SILENT; i++)
        silent[i] = fcgi_connect(path);
    assert_string_equal(ask("/echo"), "\r\nbody 0 big 0");
    for (int i = 0; i < SLOW; i++)
        slow[i] = fcgi_connect(path);
    assert_true(fcgi_begin(slow[0], 0));
    assert_true(fcgi_ask(slow[1], "/echo", 0));
    assert_true(fcgi_begin(slow[2], 0) && fcgi_send(slow[2], "\1\4\0\1\1\0\0\0", 8));
    while (now_ms() - start_ms < POOL_REQUEST_MS - 500) { /* a byte now and then */
        fcgi_record(slow[1], FCGI_INPUT, "x", 1);
        fcgi_send(slow[2], "x", 1);
        poll(NULL, 0, 100);
    }
    assert_true(fcgi_answer(slow[1], answer, sizeof(answer), SOON_MS));
    assert_string_equal(answer, "\r\nbody -1 big 0");
    for (int i = 0; i < SLOW; i++) {
        assert_true(fcgi_closed(slow[i], SOON_MS) >= 0);
        close(slow[i]);
    }
    took = now_ms() - start_ms;
    assert_true(took >= POOL_REQUEST_MS - 100 && took < POOL_REQUEST_MS + SOON_MS);
    for (int i = 0; i < SILENT; i++) {
        assert_true(fcgi_closed(silent[i], SOON_MS) >= 0);
        close(silent[i]);
    }
    assert_string_equal(ask("/echo"), "\r\nbody 0 big 0");
}

/* The rest waits in the socket's backlog, and gets its turn when the first are closed. */
static void more_silent_connections_than_places_end_too(void **state)
{
    enum { SILENT = POOL_PENDING + 50 };
    static int silent[SILENT];
    char answer[64];
    int fd;

    (void)state;
    for (int i = 0; i < SILENT; i++)
        silent[i] = fcgi_connect(path);
    fd = fcgi_connect(path);
    assert_true(fcgi_ask_all(fd, "/echo", 0));
    assert_true(fcgi_answer(fd, answer, sizeof(answer), POOL_REQUEST_MS + SOON_MS));
    assert_string_equal(answer, "\r\nbody 0 big 0");
    close(fd);
    for (int i = 0; i < SILENT; i++) {
        assert_true(fcgi_closed(silent[i], POOL_REQUEST_MS + SOON_MS) >= 0);
        close(silent[i]);
    }
}

/* Both wait: the one in the socket's backlog, the other with a worker that is slow itself. */
static void who_is_admitted_too_late_is_told(void **state)
{
    char answer[64];
    int fds[WORKERS], waiting, slow;

    (void)state;
    slow = fcgi_connect(path);
    assert_true(fcgi_ask_all(slow, "/late/slow", 0));
    for (int i = 0; i < WORKERS - 1; i++)
        fds[i] = ask_held("/hold");
    waiting = fcgi_connect(path);
    assert_true(fcgi_ask_all(waiting, "/late", 0));
    assert_true(fcgi_answer(slow, answer, sizeof(answer), POOL_REQUEST_MS + SOON_MS));
    assert_string_equal(answer, "\r\nlate");
    assert_true(fcgi_answer(waiting, answer, sizeof(answer), SOON_MS));
    assert_string_equal(answer, "\r\nin time"); /* its time began when it was accepted */
    for (int i = 0; i < WORKERS - 1; i++)
        close(fds[i]); /* admitted ones have outlived the deadline */
    wait_held(0);
    close(waiting);
    close(slow);
}

static void f36_a_caller_that_leaves_is_noticed(void **state)
{
    int closed = ask_held("/hold"), aborted = ask_held("/hold");

    (void)state;
    wait_held(2);
    close(closed);
    wait_held(1);
    assert_true(fcgi_record(aborted, FCGI_ABORT, "", 0));
    wait_held(0);
    close(aborted);
}

static void a_slow_reader_is_cut(void **state)
{
    int slow[WORKERS - 1];

    (void)state;
    for (int i = 0; i < WORKERS - 1; i++)
        slow[i] = ask_held("/flood");
    wait_held(0); /* the flood ends in abort() if a failed write is forgotten */
    for (int i = 0; i < WORKERS - 1; i++)
        close(slow[i]);
}

/* A byte now and then would renew a send timeout for ever. */
static void a_trickling_reader_is_cut_too(void **state)
{
    int fd = ask_held("/flood");
    int64_t until = now_ms() + 4 * WRITE_MS + SOON_MS;
    char byte;

    (void)state;
    while (strtoul(ask("/count") + 2, NULL, 10) != 0) {
        assert_true(now_ms() < until);
        recv(fd, &byte, 1, MSG_DONTWAIT);
        poll(NULL, 0, 50);
    }
    close(fd);
}

/* Who takes a little now and then makes each write succeed, and would hold a place for hours.
 */
static void an_answer_has_its_time_however_it_is_read(void **state)
{
    int fd = ask_held("/pour");
    int64_t start_ms = now_ms(), took = 0;
    char bytes[4096];

    (void)state;
    while (recv(fd, bytes, sizeof(bytes), 0) > 0 && took < POUR_MS + SOON_MS)
        took = now_ms() - start_ms;
    assert_true(took >= POUR_MS - 500 && took < POUR_MS + SOON_MS);
    wait_held(0);
    close(fd);
}

/* ---- the host ---- */

/* CPU milliseconds of all children that have ended. */
static long cpu_used_ms(void)
{
    struct rusage u;

    getrusage(RUSAGE_CHILDREN, &u);
    return (long)((u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000 +
                  (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1000);
}

static void running_out_of_descriptors_ends_nothing(void **state)
{
    enum { FILES = 24, CONNECTIONS = 60 };
    int fds[CONNECTIONS];
    long before = cpu_used_ms();
    int64_t until;
    char answer[64];
    int fd;

    (void)state;
    start_with(FILES);
    for (int i = 0; i < CONNECTIONS; i++)
        fds[i] = fcgi_connect(path);
    fd = fcgi_connect(path);
    assert_true(fcgi_ask_all(fd, "/echo", 0));
    for (until = now_ms() + 2000; now_ms() < until;) /* it must not spin meanwhile */
        poll(NULL, 0, 100);
    for (int i = 0; i < CONNECTIONS; i++)
        close(fds[i]);
    assert_true(fcgi_answer(fd, answer, sizeof(answer), SOON_MS));
    assert_string_equal(answer, "\r\nbody 0 big 0");
    close(fd);
    assert_string_equal(ask("/echo"), "\r\nbody 0 big 0");
    kill(child, SIGTERM);
    assert_int_equal(ended(STOP_MS), 0);
    assert_true(cpu_used_ms() - before < 1000);
}

/* As under lighttpd: the descriptor is shared with a process that also accepts. */
static void a_shared_socket_stays_usable_for_others(void **state)
{
    char message[256];
    int fd, status;

    (void)state;
    path = scratch_path("socket");
    fd = pool_listen(path, 0600, NULL, message);
    assert_true(fd >= 0);
    for (int i = 0; i < 2; i++) {
        child = fork();
        if (child == 0)
            _exit(pool_run(NULL, fd, STREAMS, STACK, WRITE_MS, STOP_MS) ? 0 : RESTART);
        if (i == 0) {
            assert_string_equal(ask("/echo"), "\r\nbody 0 big 0");
            kill(child, SIGTERM);
            assert_int_equal(ended(STOP_MS), 0);
        }
    }
    assert_string_equal(ask("/echo"), "\r\nbody 0 big 0");
    kill(child, SIGTERM);
    assert_int_equal(waitpid(child, &status, 0), child);
    child = 0;
    close(fd);
}

/* ---- the end ---- */

static void a_stop_ends_idle_workers(void **state)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGUSR1};

    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        int silent;

        start_with(0);
        assert_string_equal(ask("/echo"), "\r\nbody 0 big 0");
        silent = fcgi_connect(path);
        kill(child, signals[i]);
        assert_int_equal(ended(2000), 0);
        close(silent);
        end(state);
    }
}

static void a_stop_lets_streams_run_and_then_cuts_them(void **state)
{
    int ends = ask_held("/hold"), stays = ask_held("/hold"), new;
    char answer[64];
    int64_t start_ms;

    (void)state;
    wait_held(2);
    new = fcgi_connect(path);
    assert_true(fcgi_begin(new, 0));
    wait_read(new); /* accepted, not answered yet */
    start_ms = now_ms();
    kill(child, SIGTERM);
    close(ends);
    assert_true(fcgi_param(new, "PATH_INFO", "/echo"));
    assert_true(fcgi_record(new, FCGI_PARAMETER, "", 0) && fcgi_record(new, FCGI_INPUT, "", 0));
    assert_true(fcgi_answer(new, answer, sizeof(answer), SOON_MS));
    assert_true(strstr(answer, "stopping") != NULL || strstr(answer, "body 0") != NULL);
    assert_true(fcgi_closed(stays, STOP_MS + SOON_MS) >= STOP_MS / 4); /* not at once */
    assert_int_equal(ended(STOP_MS), 0);
    assert_true(now_ms() - start_ms < STOP_MS + SOON_MS);
    close(stays);
    close(new);
}

static void a_stuck_worker_does_not_keep_the_process(void **state)
{
    int fd = ask_held("/stick");
    int64_t start_ms = now_ms();

    (void)state;
    kill(child, SIGTERM);
    assert_int_equal(ended(STOP_MS + SOON_MS), EXIT_FAILURE);
    assert_true(now_ms() - start_ms >= STOP_MS - 100);
    close(fd);
}

static void a_restart_is_told_from_a_stop(void **state)
{
    (void)state;
    assert_string_equal(ask("/restart"), "\r\nrestarting");
    assert_int_equal(ended(STOP_MS), RESTART);
}

/* ---- the socket of `serve` ---- */

static void a_socket_has_its_mode_and_replaces_only_a_dead_one(void **state)
{
    const char *p = scratch_path("s"), *file = scratch_path("file");
    char message[256], longer[200];
    struct stat st;
    int fd;

    (void)state;
    umask(077);
    fd = pool_listen(p, 0660, NULL, message);
    assert_true(fd >= 0);
    assert_int_equal(stat(p, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0660);
    assert_int_equal(pool_listen(p, 0660, NULL, message), -1);
    assert_non_null(strstr(message, "another process listens"));
    close(fd);
    fd = pool_listen(p, 0600, NULL, message); /* its owner is dead */
    assert_true(fd >= 0);
    assert_int_equal(stat(p, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    close(fd);
    scratch_write(file, 0600, "x", 1);
    assert_int_equal(pool_listen(file, 0600, NULL, message), -1);
    assert_non_null(strstr(message, "no socket"));
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    assert_int_equal(pool_listen(longer, 0600, NULL, message), -1);
    assert_int_equal(pool_listen(p, 0600, "no-such-group", message), -1);
    assert_non_null(strstr(message, "no such group"));
    assert_int_equal(pool_listen("/no/such/directory", 0600, NULL, message), -1);
    assert_non_null(strstr(message, "socket: its directory is missing"));
    assert_int_equal(scratch_count(), 2);
    unlink(p);
    unlink(file);
}

/* Neither called alive, nor taken away from whoever has it. */
static void a_socket_that_cannot_be_asked_is_told_from_a_live_one(void **state)
{
    const char *p = scratch_path("s");
    char message[256];
    uid_t self = geteuid();
    struct stat before, after;
    int fd;

    (void)state;
    fd = pool_listen(p, 0, NULL, message);
    assert_true(fd >= 0);
    assert_int_equal(stat(p, &before), 0);
    if (self == 0) { /* root could connect */
        assert_int_equal(chmod(scratch_path(""), 0777), 0);
        assert_int_equal(seteuid(NOBODY), 0);
    }
    assert_int_equal(pool_listen(p, 0660, NULL, message), -1);
    assert_int_equal(seteuid(self), 0);
    assert_int_equal(chmod(scratch_path(""), 0700), 0);
    assert_non_null(strstr(message, "no permission to ask the socket there"));
    assert_null(strstr(message, "listens"));
    assert_int_equal(stat(p, &after), 0);
    assert_int_equal(after.st_ino, before.st_ino);
    close(fd);
    unlink(p);
}

/* A group of which the process is no member: what failed is named. */
static void a_group_that_cannot_be_given_is_named(void **state)
{
    const char *p = scratch_path("s");
    char message[256];
    int fd;

    (void)state;
    if (geteuid() != 0)
        skip(); /* it could be the user's group */
    assert_int_equal(chmod(scratch_path(""), 0777), 0);
    assert_int_equal(seteuid(NOBODY), 0);
    fd = pool_listen(p, 0660, "daemon", message);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(scratch_path(""), 0700), 0);
    assert_int_equal(fd, -1);
    assert_non_null(strstr(message, "socket-group: "));
    assert_int_equal(scratch_count(), 0);
}

#define WITH_POOL(test) cmocka_unit_test_setup_teardown(test, start, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_socket_has_its_mode_and_replaces_only_a_dead_one),
        cmocka_unit_test(a_socket_that_cannot_be_asked_is_told_from_a_live_one),
        cmocka_unit_test(a_group_that_cannot_be_given_is_named),
        WITH_POOL(a_request_is_answered),
        WITH_POOL(a_body_arrives_whole),
        WITH_POOL(a_body_that_breaks_off_is_told),
        WITH_POOL(huge_parameters_are_read),
        WITH_POOL(nonsense_is_closed),
        WITH_POOL(an_answer_before_the_body_is_not_lost),
        WITH_POOL(a_peer_that_does_not_close_holds_no_worker),
        WITH_POOL(kept_alive_connections_own_no_worker),
        WITH_POOL(nobody_is_waited_for_longer_than_the_deadline),
        WITH_POOL(more_silent_connections_than_places_end_too),
        WITH_POOL(who_is_admitted_too_late_is_told),
        WITH_POOL(f36_a_caller_that_leaves_is_noticed),
        WITH_POOL(a_slow_reader_is_cut),
        WITH_POOL(a_trickling_reader_is_cut_too),
        WITH_POOL(an_answer_has_its_time_however_it_is_read),
        cmocka_unit_test_teardown(running_out_of_descriptors_ends_nothing, end),
        cmocka_unit_test_teardown(a_shared_socket_stays_usable_for_others, end),
        cmocka_unit_test_teardown(a_stop_ends_idle_workers, end),
        WITH_POOL(a_stop_lets_streams_run_and_then_cuts_them),
        WITH_POOL(a_stuck_worker_does_not_keep_the_process),
        WITH_POOL(a_restart_is_told_from_a_stop),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
