/*
 * CGI, run whole in a process of its own, with a tiny service in the place of the real one; the
 * test is the web server.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "gateway/pool.h"
#include "tests/unit/fcgi_client.h" /* for the clock */
#include "tests/unit/scratch.h"

#define WRITE_MS 500
#define POUR_MS  1000
#define SOON_MS  3000

/* ---- the service in the CGI process ---- */

static struct config settings = {.write_timeout_ms = WRITE_MS, .references = 2};

struct config *service_config(struct service *s)
{
    (void)s;
    return config_hold(&settings);
}

static void print(struct exchange *x, const char *text)
{
    x->ops->write(x, text, strlen(text));
    x->ops->flush(x);
}

static void echo(struct exchange *x)
{
    char body[64], text[128];
    ssize_t n, total = 0;

    while ((n = x->ops->read(x, body + total, sizeof(body) - 1 - (size_t)total)) > 0)
        total += n;
    body[total] = '\0';
    snprintf(text, sizeof(text), "%s%s single %d", n < 0 ? "broken " : "", body, x->single);
    print(x, text);
}

/* Stays until the caller has left, and then does what a settle would do. */
static void hold(struct exchange *x)
{
    char byte;

    while (x->ops->read(x, &byte, 1) > 0)
        ;
    print(x, "held");
    while (!exchange_gone(x->watch_fd, x->watch_readable))
        poll(NULL, 0, 5);
    _exit(7);
}

static void flood(struct exchange *x)
{
    static const char bytes[5000];

    while (x->ops->write(x, bytes, sizeof(bytes)))
        ;
    if (x->ops->write(x, bytes, 1) || x->ops->flush(x)) /* once failed it stays failed */
        abort();
    _exit(8);
}

/* Writes little by little as long as somebody takes it. */
static void pour(struct exchange *x)
{
    x->ops->admitted(x, POUR_MS);
    while (x->ops->write(x, "drop", 4) && x->ops->flush(x))
        ;
    _exit(9);
}

static void late(struct exchange *x)
{
    char byte;
    ssize_t n = x->ops->read(x, &byte, 1);

    print(x, n < 0 && !x->ops->admitted(x, POUR_MS) ? "late" : "in time");
}

static bool has_more;

static void leave_more(struct exchange *x)
{
    print(x, "all");
    has_more = true;
}

bool service_has_more(const struct service *s)
{
    (void)s;
    return has_more;
}

/* Goes on until the test lets it. */
void service_do_more(struct service *s)
{
    char byte;

    (void)s;
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    _exit(write(STDOUT_FILENO, "nothing", 7) == 7 ? 5 : 6); /* into the void, but not closed */
}

static const struct {
    const char *path;
    void (*handle)(struct exchange *x);
} pages[] = {{"/echo", echo}, {"/hold", hold}, {"/flood", flood},
             {"/pour", pour}, {"/late", late}, {"/more", leave_more}};

void service_handle(struct service *s, struct exchange *x)
{
    const char *path = exchange_param(x, "PATH_INFO");

    (void)s;
    for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
        if (strcmp(path, pages[i].path) == 0)
            pages[i].handle(x);
    }
}

/* ---- the web server ---- */

struct script {
    pid_t pid;
    int in, out; /* its standard input and output, our ends */
};

static struct script run(const char *path, const char *length)
{
    int in[2], out[2];
    struct script s;

    assert_true(pipe(in) == 0 && pipe(out) == 0);
    s.pid = fork();
    assert_true(s.pid >= 0);
    if (s.pid == 0) {
        char info[64], content[64];
        char *env[] = {info, content, NULL};

        alarm(SCRATCH_SECONDS);
        snprintf(info, sizeof(info), "PATH_INFO=%s", path);
        snprintf(content, sizeof(content), "CONTENT_LENGTH=%s", length);
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        close(in[0]);
        close(in[1]);
        close(out[0]);
        close(out[1]);
        cgi_run(NULL, env);
        _exit(0);
    }
    close(in[0]);
    close(out[1]);
    s.in = in[1];
    s.out = out[0];
    return s;
}

/* Everything it prints up to its end, or at least the first `n` bytes. */
static const char *printed(const struct script *s, size_t n)
{
    static char text[256];
    int64_t until = now_ms() + 2 * POOL_REQUEST_MS;
    size_t used = 0;

    while (used < n) {
        struct pollfd p = {.fd = s->out, .events = POLLIN};
        ssize_t got;

        assert_true(poll(&p, 1, (int)(until - now_ms())) > 0);
        got = read(s->out, text + used, sizeof(text) - 1 - used);
        if (got <= 0)
            break;
        used += (size_t)got;
    }
    text[used] = '\0';
    return text;
}

static int finish(const struct script *s)
{
    close(s->in);
    close(s->out);
    return scratch_wait(s->pid);
}

static const struct {
    const char *why, *length, *sent;
    bool ends; /* the input ends after it */
    const char *printed;
} bodies[] = {
    {"a body of the announced length, without an end", "4", "body", false, "body single 1"},
    {"no further than the announced length", "4", "bodyNEXT", false, "body single 1"},
    {"a shorter body is what came", "9", "body", true, "body single 1"},
    {"an unknown length is read to the end", "", "body", true, "body single 1"},
    {"0 is unknown too", "0", "body", true, "body single 1"},
    {"no body", "", "", true, " single 1"},
    {"a length that is none does not bound", "x", "body", true, "body single 1"},
};

static void a_body_is_read_as_far_as_announced(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        struct script s = run("/echo", bodies[i].length);
        size_t n = strlen(bodies[i].sent);

        assert_int_equal(write(s.in, bodies[i].sent, n), (ssize_t)n);
        if (bodies[i].ends) {
            close(s.in);
            s.in = dup(s.out);
        }
        if (strcmp(printed(&s, 255), bodies[i].printed) != 0)
            fail_msg("%s", bodies[i].why);
        assert_int_equal(finish(&s), 0);
    }
}

static void f36_a_closed_output_is_noticed(void **state)
{
    struct script s = run("/hold", "1");

    (void)state;
    assert_int_equal(write(s.in, "x", 1), 1);
    assert_string_equal(printed(&s, 4), "held");
    assert_int_equal(waitpid(s.pid, NULL, WNOHANG), 0);
    assert_int_equal(finish(&s), 7);
}

static void f36_a_termination_is_a_caller_that_left(void **state)
{
    struct script s = run("/hold", "1");

    (void)state;
    assert_int_equal(write(s.in, "x", 1), 1);
    assert_string_equal(printed(&s, 4), "held");
    kill(s.pid, SIGTERM); /* with the output open: it has time to settle */
    assert_int_equal(scratch_wait(s.pid), 7);
    close(s.in);
    close(s.out);
}

static void a_slow_reader_is_left(void **state)
{
    struct script s = run("/flood", "");
    int64_t start = now_ms();

    (void)state;
    assert_int_equal(scratch_wait(s.pid), 8);
    assert_true(now_ms() - start >= WRITE_MS - 50 && now_ms() - start < WRITE_MS + SOON_MS);
    close(s.in);
    close(s.out);
}

static void an_answer_has_its_time_however_it_is_read(void **state)
{
    struct script s = run("/pour", "");
    int64_t start = now_ms(), took = 0;
    char bytes[4096];

    (void)state;
    while (read(s.out, bytes, sizeof(bytes)) > 0 && took < POUR_MS + SOON_MS)
        took = now_ms() - start;
    assert_true(took >= POUR_MS - 500 && took < POUR_MS + SOON_MS);
    assert_int_equal(finish(&s), 9);
}

static void a_body_that_does_not_come_is_not_waited_for(void **state)
{
    struct script s = run("/late", "9");
    int64_t start = now_ms();

    (void)state;
    assert_string_equal(printed(&s, 4), "late");
    assert_true(now_ms() - start >= POOL_REQUEST_MS - 100);
    assert_int_equal(finish(&s), 0);
}

static void what_nobody_waits_for_is_done_after_the_end(void **state)
{
    struct script s = run("/more", "");

    (void)state;
    assert_string_equal(printed(&s, 255), "all"); /* to the end of the output */
    assert_int_equal(waitpid(s.pid, NULL, WNOHANG), 0);
    assert_int_equal(finish(&s), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_is_read_as_far_as_announced),
        cmocka_unit_test(f36_a_closed_output_is_noticed),
        cmocka_unit_test(f36_a_termination_is_a_caller_that_left),
        cmocka_unit_test(a_slow_reader_is_left),
        cmocka_unit_test(an_answer_has_its_time_however_it_is_read),
        cmocka_unit_test(a_body_that_does_not_come_is_not_waited_for),
        cmocka_unit_test(what_nobody_waits_for_is_done_after_the_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
