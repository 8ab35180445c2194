/*
 * The real upstream against the real practice model, over loopback. Times are measured on the
 * monotonic clock; the upper bounds are generous because the machine may be busy.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include "gateway/libcurl.h"
#include "gateway/upstream.h"
#include "platform/clock.h"
#include "tests/model/client.h"

#define STREAMS  100
#define FREE_MS  10000
#define SLACK_MS 6000 /* a busy machine, a sanitizer */
#define BODY                                                                                   \
    "{\"model\":\"m\",\"stream\":true,\"stream_options\":{\"include_usage\":true},"            \
    "\"messages\":[{\"role\":\"user\",\"content\":\"salt?\"}]}"
#define PLAIN_BODY "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"salt?\"}]}"
#define KEY        "Authorization: Bearer sk-practice"

static struct model model;
static struct upstream *up;

static const char *const HEADERS[] = {"Content-Type: application/json", KEY};

static struct call_request request(const char *url, const char *body)
{
    struct call_request r = {.url = url,
                             .headers = HEADERS,
                             .n_headers = 2,
                             .body = body,
                             .n_body = strlen(body),
                             .shared_bytes = 4 * UPSTREAM_BUFFER,
                             .connect_timeout_ms = 5000,
                             .first_byte_timeout_ms = 20000,
                             .idle_timeout_ms = 20000,
                             .total_timeout_ms = 60000,
                             .watch_fd = -1};
    return r;
}

static struct call *start(const struct call_request *r)
{
    struct call *c = NULL;

    assert_int_equal(call_start(up, r, &c), ERROR_NONE);
    assert_non_null(c);
    return c;
}

/* Reads to the end; how many bytes there were, the first of them in `text`. */
static size_t drain(struct call *c, char *text, size_t room, enum call_end *end)
{
    char buf[8192];
    size_t got = 0, n;

    do {
        n = call_read(c, buf, sizeof buf, 1000, end);
        if (got < room)
            memcpy(text + got, buf, n < room - got ? n : room - got);
        got += n;
    } while (n > 0 || *end == CALL_RUNNING);
    return got;
}

static const char *last_reason;

/* One call from start to end: how it ended, its status and whether something was sent. */
static enum call_end run(const struct call_request *r, int *status, bool *sent)
{
    struct call *c = start(r);
    enum call_end end;

    do
        *status = call_status(c, 1000, &end);
    while (*status == 0 && end == CALL_RUNNING);
    drain(c, NULL, 0, &end);
    *sent = call_was_sent(c);
    last_reason = call_reason(c);
    call_free(c);
    return end;
}

static bool curl_is_mapped(void)
{
    char line[512];
    bool found = false;
    FILE *f = fopen("/proc/self/maps", "r");

    assert_non_null(f);
    while (fgets(line, sizeof line, f) != NULL)
        found = found || strstr(line, "libcurl") != NULL || strstr(line, "libcrypto") != NULL;
    fclose(f);
    return found;
}

static int setup(void **state)
{
    (void)state;
    model_set(&model, "{\"reset\":true,\"gap_ms\":0}");
    return upstream_new(STREAMS, &up) != ERROR_NONE || upstream_load(up) != ERROR_NONE;
}

static int teardown(void **state)
{
    (void)state;
    assert_true(upstream_free(up, FREE_MS)); /* NULL: the test has done it */
    return 0;
}

/* ---- loading ---- */

/* The first test: nothing may have loaded it before. */
static void nothing_of_libcurl_is_mapped_before_the_first_forward(void **state)
{
    struct call_request r = request(model.url, BODY);
    struct upstream *u;
    struct call *c = NULL;

    (void)state;
#ifndef CURL_LINKED
    assert_false(curl_is_mapped());
#endif
    assert_int_equal(upstream_new(4, &u), ERROR_NONE);
    assert_int_equal(call_start(u, &r, &c), ERROR_NOT_FOUND);
    assert_null(c);
#ifndef CURL_LINKED
    assert_false(curl_is_mapped());
#endif
    assert_int_equal(upstream_load(u), ERROR_NONE);
    assert_int_equal(upstream_load(u), ERROR_NONE);
    assert_true(curl_is_mapped());
    assert_true(upstream_free(u, FREE_MS));
    assert_true(upstream_free(NULL, FREE_MS));
}

static void *load_it(void *arg)
{
    return (void *)(uintptr_t)upstream_load(arg);
}

static void many_workers_load_it_once(void **state)
{
    pthread_t threads[8];
    struct upstream *u;
    void *e;

    (void)state;
    assert_int_equal(upstream_new(4, &u), ERROR_NONE);
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, load_it, u), 0);
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], &e);
        assert_int_equal((uintptr_t)e, ERROR_NONE);
    }
    assert_true(upstream_free(u, FREE_MS));
}

/* ---- answers ---- */

static const struct {
    const char *what, *settings;
    int status;
    int64_t retry_after;
} STATUSES[] = {
    {"an answer", "{\"status\":200}", 200, -1},
    {"a refusal in seconds", "{\"status\":429,\"retry_after\":7}", 429, 7},
    {"a refusal until a date",
     "{\"status\":429,\"retry_after\":\"Wed, 21 Oct 2015 07:28:00 GMT\"}", 429, 0},
    {"no credit", "{\"status\":402}", 402, -1},
    {"a wrong key", "{\"status\":401}", 401, -1},
    {"an error of the server", "{\"status\":500}", 500, -1},
    {"an overloaded one", "{\"status\":529,\"retry_after\":3}", 529, 3},
    {"an empty body", "{\"status\":503,\"error_body\":\"\"}", 503, -1},
};

static void statuses_and_headers_arrive(void **state)
{
    struct call_request r = request(model.url, PLAIN_BODY);
    enum call_end end;

    (void)state;
    for (size_t i = 0; i < sizeof STATUSES / sizeof *STATUSES; i++) {
        struct call *c;

        model_set(&model, "{\"reset\":true}");
        model_set(&model, STATUSES[i].settings);
        c = start(&r);
        if (call_status(c, MODEL_WAIT_MS, &end) != STATUSES[i].status)
            fail_msg("%s", STATUSES[i].what);
        assert_string_equal(call_content_type(c), "application/json");
        assert_int_equal(call_retry_after(c), STATUSES[i].retry_after);
        drain(c, NULL, 0, &end);
        assert_int_equal(end, CALL_DONE);
        assert_true(call_was_sent(c));
        call_free(c);
    }
}

static void the_request_is_what_was_given_and_no_more(void **state)
{
    static const char *const EXPECTED[][2] = {
        {"authorization", "Bearer sk-practice"},
        {"content-type", "application/json"},
        {"user-agent", "pennygate"},
        {"accept", "*/*"},
    };
    struct call_request r = request(model.url, BODY);
    json_t *stats, *headers;
    bool sent;
    int status;

    (void)state;
    assert_int_equal(run(&r, &status, &sent), CALL_DONE);
    stats = model_ask(&model, "GET", "/stats", "");
    assert_int_equal(json_integer_value(json_object_get(stats, "calls")), 1);
    headers = json_object_get(json_object_get(stats, "last"), "headers");
    for (size_t i = 0; i < sizeof EXPECTED / sizeof *EXPECTED; i++)
        assert_string_equal(json_string_value(json_object_get(headers, EXPECTED[i][0])),
                            EXPECTED[i][1]);
    assert_int_equal(json_object_size(headers), 6); /* these, host and content-length */
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(stats, "last"), "raw")), BODY);
    json_decref(stats);
}

static bool saw_header(const char *name)
{
    json_t *stats = model_ask(&model, "GET", "/stats", "");
    const json_t *last = json_object_get(stats, "last");
    bool saw = json_object_get(json_object_get(last, "headers"), name) != NULL;

    json_decref(stats);
    return saw;
}

/* More than one of libcurl's send buffers, and "Expect: 100-continue" would be due. */
static void a_long_body_arrives_whole(void **state)
{
    size_t n = 3000000;
    char *body = malloc(n + 1);
    struct call_request r;
    json_t *calls, *content;
    bool sent;
    int status;

    (void)state;
    assert_non_null(body);
    memset(body, ' ', n);
    memcpy(body, PLAIN_BODY, strlen(PLAIN_BODY) - 1);
    body[n - 1] = '}';
    body[n] = '\0';
    r = request(model.url, body);
    assert_int_equal(run(&r, &status, &sent), CALL_DONE);
    assert_int_equal(status, 200);
    calls = model_ask(&model, "GET", "/calls", "");
    content = json_object_get(json_array_get(calls, 0), "texts");
    assert_string_equal(json_string_value(json_array_get(content, 0)), "salt?");
    json_decref(calls);
    assert_false(saw_header("expect"));
    free(body);
}

static void events_arrive_one_by_one(void **state)
{
    struct call_request r = request(model.url, BODY);
    enum call_end end = CALL_RUNNING;
    unsigned reads = 0, waits = 0;
    long before, last;
    struct call *c;
    char buf[4096];

    (void)state;
    model_set(&model, "{\"chunks\":6,\"gap_ms\":100}");
    c = start(&r);
    assert_int_equal(call_status(c, MODEL_WAIT_MS, &end), 200);
    before = last = model_now_ms();
    while (end == CALL_RUNNING) {
        if (call_read(c, buf, sizeof buf, 5000, &end) == 0)
            continue;
        waits += model_now_ms() - last > 60;
        last = model_now_ms();
        reads++;
    }
    assert_int_equal(end, CALL_DONE);
    assert_true(reads >= 6);
    assert_true(waits >= 4); /* of 5 gaps; a buffered stream has none */
    assert_true(model_now_ms() - before >= 480);
    call_free(c);
}

static void reading_without_waiting_only_looks(void **state)
{
    struct call_request r = request(model.url, BODY);
    long before = model_now_ms();
    enum call_end end;
    struct call *c;
    char buf[64];

    (void)state;
    model_set(&model, "{\"hang\":true}");
    c = start(&r);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(call_read(c, buf, sizeof buf, 0, &end), 0);
        assert_int_equal(call_status(c, -1, &end), 0);
        assert_int_equal(end, CALL_RUNNING);
    }
    assert_true(call_was_sent(c)); /* in doubt, yes */
    assert_true(model_now_ms() - before < SLACK_MS);
    before = model_now_ms();
    assert_int_equal(call_read(c, buf, sizeof buf, 150, &end), 0);
    assert_int_equal(end, CALL_RUNNING);
    assert_true(model_now_ms() - before >= 149);
    call_free(c);
}

/* ---- back-pressure ---- */

static long resident_kib(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%*d %ld", &pages), 1);
    fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* 30 MB are more than the kernel holds for a socket on both sides. */
static void a_slow_reader_holds_the_upstream_back(void **state)
{
    struct call_request r = request(model.url, BODY);
    enum call_end end;
    struct call *c;
    size_t got = 0, n;
    char buf[4096];
    long before, until;

    (void)state;
    model_set(&model, "{\"size\":30000000,\"chunks\":300}");
    r.idle_timeout_ms = 400;
    c = start(&r);
    assert_int_equal(call_status(c, MODEL_WAIT_MS, &end), 200);
    before = resident_kib();
    /* While the reader stands still for longer than the idle timeout nothing ends ... */
    until = model_now_ms() + 1000;
    while (model_now_ms() < until) {
        assert_int_equal(model_count(&model, "completed"), 0);
        assert_int_equal(call_status(c, 0, &end), 200);
        assert_int_equal(end, CALL_RUNNING);
        poll(NULL, 0, 20);
    }
    /* ... and nothing gathers here. */
    assert_true(resident_kib() - before < 2048);
    do {
        n = call_read(c, buf, sizeof buf, 1000, &end);
        got += n;
    } while (n > 0 || end == CALL_RUNNING);
    assert_int_equal(end, CALL_DONE);
    assert_true(got > 30000000);
    call_free(c);
}

/* ---- clocks ---- */

static const struct {
    const char *what, *settings;
    int64_t first_byte, idle, total;
    long due;
    int status;
    const char *reason;
} CLOCKS[] = {
    {"no header comes", "{\"hang\":true}", 300, 60000, 60000, 300, 0,
     "no byte of the answer in time"},
    {"a header, but no body", "{\"header_first\":true,\"first_ms\":9000}", 300, 60000, 60000,
     300, 200, "no byte of the answer in time"},
    {"silence between two events", "{\"gap_ms\":9000,\"chunks\":3}", 60000, 300, 60000, 300,
     200, "silence within the answer"},
    {"events without end", "{\"gap_ms\":20,\"chunks\":500}", 60000, 60000, 400, 400, 200,
     "the answer took too long"},
    {"the total comes before the first byte", "{\"hang\":true}", 60000, 60000, 250, 250, 0,
     "the answer took too long"},
};

static void each_clock_ends_a_call_in_time(void **state)
{
    struct call_request r = request(model.url, BODY);
    long before, took;
    bool sent;
    int status;

    (void)state;
    for (size_t i = 0; i < sizeof CLOCKS / sizeof *CLOCKS; i++) {
        model_set(&model, "{\"reset\":true}");
        model_set(&model, CLOCKS[i].settings);
        r.first_byte_timeout_ms = CLOCKS[i].first_byte;
        r.idle_timeout_ms = CLOCKS[i].idle;
        r.total_timeout_ms = CLOCKS[i].total;
        before = model_now_ms();
        if (run(&r, &status, &sent) != CALL_TIMEOUT)
            fail_msg("%s", CLOCKS[i].what);
        took = model_now_ms() - before;
        if (took < CLOCKS[i].due || took > CLOCKS[i].due + SLACK_MS)
            fail_msg("%s: %ld ms", CLOCKS[i].what, took);
        assert_true(sent);
        assert_int_equal(status, CLOCKS[i].status);
        assert_string_equal(last_reason, CLOCKS[i].reason);
        assert_true(model_reaches(&model, "aborted", 1));
    }
}

/* A listener that never listens for more: the kernel drops further connection requests. */
static int full_listener(unsigned *port, int fill[], int n_fill)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 0), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
    *port = ntohs(a.sin_port);
    for (int i = 0; i < n_fill; i++) {
        fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (connect(fill[i], (struct sockaddr *)&a, sizeof a) != 0)
            assert_int_equal(errno, EINPROGRESS);
    }
    return fd;
}

static void a_connection_that_hangs_has_its_own_clock(void **state)
{
    int fill[4], status, fd;
    struct call_request r;
    char url[64];
    unsigned port;
    long before, took;
    bool sent;

    (void)state;
    fd = full_listener(&port, fill, 4);
    snprintf(url, sizeof url, "http://127.0.0.1:%u/", port);
    r = request(url, BODY);
    r.connect_timeout_ms = 300;
    before = model_now_ms();
    assert_int_equal(run(&r, &status, &sent), CALL_TIMEOUT);
    took = model_now_ms() - before;
    assert_true(took >= 299 && took < 300 + SLACK_MS);
    assert_false(sent);
    for (int i = 0; i < 4; i++)
        close(fill[i]);
    close(fd);
}

/* ---- the client leaves (F36) ---- */

static void expect_gone(struct call *c, long before)
{
    enum call_end end;

    drain(c, NULL, 0, &end);
    assert_int_equal(end, CALL_GONE);
    assert_true(model_now_ms() - before < 500);
    assert_true(model_reaches(&model, "aborted", 1));
    assert_true(model_now_ms() - before < 1000);
    call_free(c);
}

static void F36_client_leaves_before_the_first_byte(void **state)
{
    struct call_request r = request(model.url, BODY);
    struct call *c;
    int pair[2];

    (void)state;
    model_set(&model, "{\"hang\":true}");
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    r.watch_fd = pair[0];
    r.watch_readable = true;
    c = start(&r);
    assert_true(model_reaches(&model, "calls", 1));
    close(pair[1]);
    expect_gone(c, model_now_ms());
    close(pair[0]);
}

static void F36_client_leaves_in_the_middle(void **state)
{
    struct call_request r = request(model.url, BODY);
    enum call_end end;
    struct call *c;
    char buf[4096];
    int pair[2];

    (void)state;
    model_set(&model, "{\"gap_ms\":100,\"chunks\":600}");
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    r.watch_fd = pair[0];
    r.watch_readable = true;
    c = start(&r);
    for (int i = 0; i < 3; i++)
        assert_true(call_read(c, buf, sizeof buf, MODEL_WAIT_MS, &end) > 0);
    close(pair[1]);
    expect_gone(c, model_now_ms());
    close(pair[0]);
}

/* CGI: standard output is a pipe, and only an error on it tells. */
static void F36_client_closes_a_pipe(void **state)
{
    struct call_request r = request(model.url, BODY);
    struct call *c;
    int pair[2];

    (void)state;
    model_set(&model, "{\"hang\":true}");
    assert_int_equal(pipe(pair), 0);
    r.watch_fd = pair[1];
    c = start(&r);
    assert_true(model_reaches(&model, "calls", 1));
    close(pair[0]);
    expect_gone(c, model_now_ms());
    close(pair[1]);
}

/* Gone already: not even the upstream is troubled for long. */
static void F36_client_has_left_before(void **state)
{
    struct call_request r = request(model.url, BODY);
    enum call_end end;
    struct call *c;
    int pair[2];

    (void)state;
    model_set(&model, "{\"hang\":true}");
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    close(pair[1]);
    r.watch_fd = pair[0];
    r.watch_readable = true;
    c = start(&r);
    drain(c, NULL, 0, &end);
    assert_int_equal(end, CALL_GONE);
    call_free(c);
    close(pair[0]);
}

static long cpu_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (long)(t.tv_sec * 1000 + t.tv_nsec / 1000000);
}

/* Three that are no sign of leaving: unread bytes, a file, a descriptor that is not open. */
static void what_cannot_be_watched_neither_ends_nor_spins(void **state)
{
    struct call_request r = request(model.url, BODY);
    char path[] = "/tmp/pennygate-upstream-XXXXXX";
    int pair[2], fds[3];
    enum call_end end;
    char buf[64];

    (void)state;
    model_set(&model, "{\"hang\":true}");
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(write(pair[1], "unread", 6), 6);
    fds[0] = pair[0];
    fds[1] = mkstemp(path);
    fds[2] = 1000000;
    for (int i = 0; i < 3; i++) {
        struct call *c;
        long before;

        r.watch_fd = fds[i];
        c = start(&r);
        before = cpu_ms();
        assert_int_equal(call_read(c, buf, sizeof buf, 400, &end), 0);
        assert_int_equal(end, CALL_RUNNING);
        assert_true(cpu_ms() - before < 200);
        call_free(c);
    }
    close(fds[1]);
    unlink(path);
    close(pair[0]);
    close(pair[1]);
}

/* ---- many at once ---- */

static void run_many(int n)
{
    static struct call *calls[STREAMS];
    struct call_request r = request(model.url, BODY);
    enum call_end end;

    for (int i = 0; i < n; i++)
        calls[i] = start(&r);
    for (int i = 0; i < n; i++) {
        assert_int_equal(call_status(calls[i], MODEL_WAIT_MS, &end), 200);
        assert_true(drain(calls[i], NULL, 0, &end) > 1000);
        assert_int_equal(end, CALL_DONE);
        call_free(calls[i]);
    }
}

static void a_hundred_calls_run_at_once_and_share_connections(void **state)
{
    long connections;

    (void)state;
    model_set(&model, "{\"gap_ms\":20}");
    run_many(STREAMS);
    assert_int_equal(model_count(&model, "calls"), STREAMS);
    assert_true(model_count(&model, "max_open") > STREAMS / 2);
    assert_true(model_reaches(&model, "completed", STREAMS));
    connections = model_count(&model, "connections");
    run_many(STREAMS);
    /* This counts the test's own questions, too: the two above, and one for each look. */
    assert_true(model_count(&model, "connections") - connections < 10);
    assert_int_equal(model_count(&model, "calls"), 2 * STREAMS);
}

struct worker {
    pthread_t thread;
    unsigned seed;
    unsigned done, other;
};

/* Starts, reads some, ends in all the ways there are. */
static void *work(void *arg)
{
    struct worker *w = arg;
    struct call_request r = request(model.url, BODY);
    enum call_end end;
    char buf[256];

    for (unsigned i = 0; i < 30; i++) {
        struct call *c = NULL;
        unsigned kind = (w->seed + i) % 4;

        if (call_start(up, &r, &c) != ERROR_NONE)
            return NULL;
        for (unsigned reads = 0; kind > 0 && reads < i; reads++)
            call_read(c, buf, sizeof buf, 2, &end);
        if (kind == 2)
            call_abort(c);
        if (kind >= 2)
            drain(c, NULL, 0, &end);
        if (kind >= 2 && end == CALL_DONE)
            w->done++;
        else
            w->other++;
        call_free(c);
    }
    return NULL;
}

static void workers_start_abort_and_free_at_random(void **state)
{
    struct worker workers[16];
    unsigned done = 0, other = 0;

    (void)state;
    model_set(&model, "{\"gap_ms\":1}");
    for (unsigned i = 0; i < 16; i++) {
        workers[i] = (struct worker){.seed = i};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < 16; i++) {
        pthread_join(workers[i].thread, NULL);
        done += workers[i].done;
        other += workers[i].other;
    }
    assert_int_equal(done + other, 16 * 30);
    assert_true(done >= 16 * 30 / 4);
    assert_true(model_reaches(&model, "open", 0));
}

/* ---- failures ---- */

static unsigned closed_port(void)
{
    unsigned port;
    int fd = full_listener(&port, NULL, 0);

    close(fd);
    return port;
}

static void what_cannot_be_reached_was_not_sent(void **state)
{
    char closed[64], tls_to_plain[64];
    const char *urls[] = {closed,
                          tls_to_plain,
                          "ftp://127.0.0.1/",
                          "file:///etc/passwd",
                          "gopher://127.0.0.1:1/",
                          "no url at all:",
                          ""};
    bool sent;
    int status;

    (void)state;
    snprintf(closed, sizeof closed, "http://127.0.0.1:%u/", closed_port());
    snprintf(tls_to_plain, sizeof tls_to_plain, "https://127.0.0.1:%u/", model.port);
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        struct call_request r = request(urls[i], BODY);

        if (run(&r, &status, &sent) != CALL_UNREACHABLE || sent || status != 0)
            fail_msg("%s", urls[i]);
        assert_string_not_equal(last_reason, "");
    }
    assert_int_equal(model_count(&model, "started"), 0);
}

/*
 * libcurl 7.88 lets a handle whose name was not found take no options any more: kept for later
 * calls, it would fail them all. The label has a letter more than a name may have, so that the
 * resolver need not ask anybody.
 */
static void a_name_that_is_not_found_spoils_no_later_call(void **state)
{
    char nowhere[] = "http://aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
                     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.invalid/v1";
    struct call_request lost = request(nowhere, BODY), good = request(model.url, BODY);
    int status;
    bool sent;

    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(run(&lost, &status, &sent), CALL_UNREACHABLE);
        assert_false(sent);
        assert_non_null(strstr(last_reason, "resolve host"));
        assert_int_equal(run(&good, &status, &sent), CALL_DONE);
        assert_int_equal(status, 200);
    }
}

static const struct {
    const char *what, *settings;
    enum call_end end;
    int status;
} CUTS[] = {
    {"closed after the header", "{\"cut\":\"header\"}", CALL_BROKEN, 200},
    {"cut in the middle of chunks", "{\"cut\":\"middle\"}", CALL_BROKEN, 200},
    {"fewer bytes than Content-Length says", "{\"cut\":\"content_length\"}", CALL_BROKEN, 200},
    {"an end that HTTP cannot tell from a cut", "{\"cut\":\"silent_middle\"}", CALL_DONE, 200},
    {"a header of 60 KB", "{\"header_bytes\":60000}", CALL_DONE, 200},
    {"a header of 70 KB", "{\"header_bytes\":70000}", CALL_BROKEN, 0},
    {"a header of 400 KB", "{\"header_bytes\":400000}", CALL_BROKEN, 0},
    {"one byte a write", "{\"split\":1}", CALL_DONE, 200},
};

static void broken_answers_are_told_from_whole_ones(void **state)
{
    struct call_request r = request(model.url, BODY);
    bool sent;
    int status;

    (void)state;
    for (size_t i = 0; i < sizeof CUTS / sizeof *CUTS; i++) {
        model_set(&model, "{\"reset\":true,\"gap_ms\":0}");
        model_set(&model, CUTS[i].settings);
        if (run(&r, &status, &sent) != CUTS[i].end || status != CUTS[i].status || !sent)
            fail_msg("%s", CUTS[i].what);
        assert_int_equal(model_count(&model, "calls"), 1);
    }
}

static void a_redirect_is_a_status_and_carries_the_key_nowhere(void **state)
{
    struct model other = model_start(NULL, NULL);
    struct call_request r = request(model.url, BODY);
    char settings[128];
    bool sent;
    int status;

    (void)state;
    snprintf(settings, sizeof settings, "{\"redirect\":\"%s\"}", other.url);
    model_set(&model, settings);
    assert_int_equal(run(&r, &status, &sent), CALL_DONE);
    assert_int_equal(status, 302);
    assert_int_equal(model_count(&other, "started"), 0);
    assert_int_equal(model_count(&other, "other"), 0);
    model_stop(&other);
}

static void F48_proxies_of_the_environment_are_not_used(void **state)
{
    static const char *const NAMES[] = {"http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy",
                                        "ALL_PROXY"};
    struct call_request r = request(model.url, BODY);
    char proxy[64];
    bool sent;
    int status;

    (void)state;
    snprintf(proxy, sizeof proxy, "http://127.0.0.1:%u", closed_port());
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        assert_int_equal(setenv(NAMES[i], proxy, 1), 0);
    assert_int_equal(run(&r, &status, &sent), CALL_DONE);
    assert_int_equal(status, 200);
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        unsetenv(NAMES[i]);
}

static void a_call_is_freed_while_it_runs(void **state)
{
    struct call_request r = request(model.url, BODY);
    struct call *c;
    long before;

    (void)state;
    model_set(&model, "{\"hang\":true}");
    c = start(&r);
    assert_true(model_reaches(&model, "calls", 1));
    before = model_now_ms();
    call_free(c);
    assert_true(model_now_ms() - before < 500);
    assert_true(model_reaches(&model, "aborted", 1));
    call_free(NULL);
}

/* As a resolver does that has no thread of its own and gets no answer. */
static sem_t hangs, may_go_on;
static CURLMcode (*real_action)(CURLM *multi, curl_socket_t fd, int bits, int *running);

static CURLMcode hang(CURLM *multi, curl_socket_t fd, int bits, int *running)
{
    sem_post(&hangs);
    while (sem_wait(&may_go_on) != 0)
        ;
    libcurl.multi_socket_action = real_action;
    return real_action(multi, fd, bits, running);
}

static void a_transfer_thread_that_hangs_is_left_in_time(void **state)
{
    struct call_request r = request(model.url, BODY);
    struct call *c;

    (void)state;
    sem_init(&hangs, 0, 0);
    sem_init(&may_go_on, 0, 0);
    real_action = libcurl.multi_socket_action;
    libcurl.multi_socket_action = hang;
    assert_int_equal(call_start(up, &r, &c), ERROR_NONE);
    while (sem_wait(&hangs) != 0)
        ;
    int64_t begun = clock_monotonic_ms();
    assert_false(upstream_free(up, 200));
    int64_t took = clock_monotonic_ms() - begun;
    assert_true(took >= 200 && took < 2000);
    sem_post(&may_go_on);
    call_free(c);
    assert_true(upstream_free(up, FREE_MS));
    up = NULL;
}

static void an_aborted_call_says_so(void **state)
{
    struct call_request r = request(model.url, BODY);
    enum call_end end;
    struct call *c;

    (void)state;
    model_set(&model, "{\"hang\":true}");
    c = start(&r);
    assert_true(model_reaches(&model, "calls", 1));
    call_abort(c);
    call_abort(c);
    drain(c, NULL, 0, &end);
    assert_int_equal(end, CALL_ABORTED);
    assert_true(call_was_sent(c));
    call_free(c);
    assert_true(model_reaches(&model, "aborted", 1));
}

/* ---- a connection that dies (F13) ---- */

/*
 * A server by hand. Connection by connection it answers the first request with 200, then does
 * what `second` says with the next one on the same connection. It counts whole requests.
 */
struct server {
    int fd;
    unsigned port;
    enum { CLOSE_AFTER_FIRST, SWALLOW_SECOND } second;
    pthread_t thread;
    unsigned requests;
    _Atomic unsigned closed; /* connections */
};

/* Reads a request of the length of BODY; false at the end. */
static bool read_request(int fd)
{
    char buf[4096];
    size_t got = 0;
    ssize_t n;
    char *body;

    while ((n = read(fd, buf + got, sizeof buf - 1 - got)) > 0) {
        got += (size_t)n;
        buf[got] = '\0';
        body = strstr(buf, "\r\n\r\n");
        if (body != NULL && strlen(body + 4) == strlen(BODY))
            return true;
    }
    return false;
}

static void *serve(void *arg)
{
    static const char answer[] =
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok";
    struct server *s = arg;
    int fd;

    while ((fd = accept(s->fd, NULL, NULL)) >= 0) {
        if (read_request(fd)) {
            s->requests++;
            if (write(fd, answer, sizeof answer - 1) < 0)
                return NULL;
            if (s->second == SWALLOW_SECOND && read_request(fd))
                s->requests++;
        }
        close(fd);
        s->closed++;
    }
    return NULL;
}

static void server_start(struct server *s)
{
    s->fd = full_listener(&s->port, NULL, 0);
    assert_int_equal(listen(s->fd, 16), 0);
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void server_stop(struct server *s)
{
    shutdown(s->fd, SHUT_RD); /* ends the accept */
    pthread_join(s->thread, NULL);
    close(s->fd);
}

/* libcurl by itself would send it again, on a new connection. */
static void F13_request_lost_on_a_warm_connection_is_not_sent_twice(void **state)
{
    struct server s = {.second = SWALLOW_SECOND};
    struct call_request r;
    char url[64];
    int status;
    bool sent;

    (void)state;
    server_start(&s);
    snprintf(url, sizeof url, "http://127.0.0.1:%u/", s.port);
    r = request(url, BODY);
    assert_int_equal(run(&r, &status, &sent), CALL_DONE);
    assert_int_equal(run(&r, &status, &sent), CALL_BROKEN);
    assert_int_equal(status, 0);
    assert_true(sent);
    server_stop(&s);
    assert_int_equal(s.requests, 2); /* whatever number of connections was tried */
}

static void a_warm_connection_that_was_closed_meanwhile_is_replaced(void **state)
{
    struct server s = {.second = CLOSE_AFTER_FIRST};
    struct call_request r;
    char url[64];
    int status;
    bool sent;

    (void)state;
    server_start(&s);
    snprintf(url, sizeof url, "http://127.0.0.1:%u/", s.port);
    r = request(url, BODY);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(run(&r, &status, &sent), CALL_DONE);
        for (long end = model_now_ms() + MODEL_WAIT_MS; s.closed <= i;)
            assert_true(poll(NULL, 0, 1) == 0 && model_now_ms() < end);
    }
    server_stop(&s);
    assert_int_equal(s.requests, 5);
}

/* ---- TLS ---- */

static void tls_needs_the_certificate_of_the_configured_authority(void **state)
{
    char directory[] = "/tmp/pennygate-tls-XXXXXX";
    char cert[64], key[64], other[64], command[96];
    struct call_request r;
    struct model tls;
    bool sent;
    int status;

    (void)state;
    assert_non_null(mkdtemp(directory));
    model_certificate(directory, "own");
    model_certificate(directory, "other");
    snprintf(cert, sizeof cert, "%s/own.crt", directory);
    snprintf(key, sizeof key, "%s/own.key", directory);
    snprintf(other, sizeof other, "%s/other.crt", directory);
    tls = model_start(cert, key);
    r = request(tls.url, BODY);
    r.ca_file = other;
    assert_int_equal(run(&r, &status, &sent), CALL_UNREACHABLE);
    assert_false(sent);
    r.ca_file = cert;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(run(&r, &status, &sent), CALL_DONE);
        assert_int_equal(status, 200);
    }
    r.ca_file = NULL;
    assert_int_equal(run(&r, &status, &sent), CALL_UNREACHABLE);
    assert_false(sent);
    model_stop(&tls);
    snprintf(command, sizeof command, "rm -r %s", directory);
    assert_int_equal(system(command), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_of_libcurl_is_mapped_before_the_first_forward),
        cmocka_unit_test(many_workers_load_it_once),
        TEST(statuses_and_headers_arrive),
        TEST(the_request_is_what_was_given_and_no_more),
        TEST(a_long_body_arrives_whole),
        TEST(events_arrive_one_by_one),
        TEST(reading_without_waiting_only_looks),
        TEST(a_slow_reader_holds_the_upstream_back),
        TEST(each_clock_ends_a_call_in_time),
        TEST(a_connection_that_hangs_has_its_own_clock),
        TEST(F36_client_leaves_before_the_first_byte),
        TEST(F36_client_leaves_in_the_middle),
        TEST(F36_client_closes_a_pipe),
        TEST(F36_client_has_left_before),
        TEST(what_cannot_be_watched_neither_ends_nor_spins),
        TEST(a_hundred_calls_run_at_once_and_share_connections),
        TEST(workers_start_abort_and_free_at_random),
        TEST(what_cannot_be_reached_was_not_sent),
        TEST(a_name_that_is_not_found_spoils_no_later_call),
        TEST(broken_answers_are_told_from_whole_ones),
        TEST(a_redirect_is_a_status_and_carries_the_key_nowhere),
        TEST(F48_proxies_of_the_environment_are_not_used),
        TEST(a_call_is_freed_while_it_runs),
        TEST(an_aborted_call_says_so),
        TEST(a_transfer_thread_that_hangs_is_left_in_time),
        TEST(F13_request_lost_on_a_warm_connection_is_not_sent_twice),
        TEST(a_warm_connection_that_was_closed_meanwhile_is_replaced),
        TEST(tls_needs_the_certificate_of_the_configured_authority),
    };
    model_begin(&model);
    return model_end(&model, cmocka_run_group_tests(tests, NULL, NULL));
}
