/* What a call keeps of an answer's header, and its clocks. No transfer, no thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "gateway/call.h"

#define SHARED_BYTES (3 * UPSTREAM_BUFFER)

static struct call_queue queue;
static struct call *c;

static int setup(void **state)
{
    struct call_request r = {.url = "http://127.0.0.1/",
                             .shared_bytes = SHARED_BYTES,
                             .connect_timeout_ms = 100,
                             .first_byte_timeout_ms = 300,
                             .idle_timeout_ms = 200,
                             .total_timeout_ms = 1000,
                             .watch_fd = -1};

    (void)state;
    if (!call_queue_init(&queue))
        return 1;
    queue.wake_fd = eventfd(0, EFD_NONBLOCK);
    c = call_new(&queue, &r);
    return c == NULL || queue.wake_fd < 0;
}

static int teardown(void **state)
{
    (void)state;
    call_destroy(c);
    close(queue.wake_fd);
    call_queue_destroy(&queue);
    return 0;
}

static bool header(const char *line, int status)
{
    return call_header(c, line, strlen(line), status);
}

static int64_t deadline(void)
{
    const char *reason;

    return call_deadline(c, &reason);
}

static const struct {
    const char *what, *line;
    int64_t seconds;
} RETRY_AFTER[] = {
    {"seconds", "Retry-After: 7\r\n", 7},
    {"any case, no space", "rEtRy-AfTeR:120\r\n", 120},
    {"spaces and tabs around it", "Retry-After: \t 8 \t\r\n", 8},
    {"nothing", "Retry-After: 0\r\n", 0},
    {"no value", "Retry-After:\r\n", -1},
    {"a date that has passed", "Retry-After: Wed, 21 Oct 2015 07:28:00 GMT\r\n", 0},
    {"a date far away", "Retry-After: Fri, 31 Dec 9999 23:59:59 GMT\r\n", 999999999},
    {"a date of an old form", "Retry-After: Wednesday, 21-Oct-15 07:28:00 GMT\r\n", -1},
    {"a date that is cut", "Retry-After: Wed, 21 Oct 2015 07:28:00\r\n", -1},
    {"a date of another zone", "Retry-After: Wed, 21 Oct 2015 07:28:00 CET\r\n", -1},
    {"no date of that length", "Retry-After: aaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n", -1},
    {"negative", "Retry-After: -1\r\n", -1},
    {"a fraction", "Retry-After: 1.5\r\n", -1},
    {"nine digits", "Retry-After: 999999998\r\n", 999999998},
    {"ten digits do not wrap", "Retry-After: 4294967297\r\n", 999999999},
    {"a hundred digits",
     "Retry-After: "
     "99999999999999999999999999999999999999999999999999999999999999999999999999\r\n",
     999999999},
    {"another header that begins so", "Retry-After-Ms: 7\r\n", -1},
    {"a header that ends so", "X-Retry-After: 7\r\n", -1},
    {"a line without a colon", "Retry-After 7\r\n", -1},
};

static void retry_after_is_seconds_or_a_date_or_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof RETRY_AFTER / sizeof *RETRY_AFTER; i++) {
        assert_true(header("HTTP/1.1 429 No\r\n", 429));
        assert_true(header(RETRY_AFTER[i].line, 429));
        if (call_retry_after(c) != RETRY_AFTER[i].seconds)
            fail_msg("%s", RETRY_AFTER[i].what);
    }
}

static void f46_a_date_is_a_wait_until_then(void **state)
{
    time_t then = time(NULL) + 100;
    char line[64];
    struct tm date;

    (void)state;
    assert_non_null(gmtime_r(&then, &date));
    assert_true(
        strftime(line, sizeof line, "Retry-After: %a, %d %b %Y %H:%M:%S GMT\r\n", &date) > 0);
    assert_true(header("HTTP/1.1 429 No\r\n", 429));
    assert_true(header(line, 429));
    assert_in_range(call_retry_after(c), 40, 100); /* a busy machine */
}

static void content_type_has_127_bytes_at_most(void **state)
{
    char line[200] = "Content-Type: ";
    size_t n = strlen(line);

    (void)state;
    memset(line + n, 't', CALL_TYPE_MAX - 1);
    memcpy(line + n + CALL_TYPE_MAX - 1, "\r\n", 3);
    assert_true(header(line, 200));
    assert_int_equal(strlen(call_content_type(c)), CALL_TYPE_MAX - 1);
    memcpy(line + n + CALL_TYPE_MAX - 1, "t\r\n", 4);
    assert_true(header(line, 200));
    assert_string_equal(call_content_type(c), "");
    assert_true(header("content-type:text/event-stream; charset=utf-8 \r\n", 200));
    assert_string_equal(call_content_type(c), "text/event-stream; charset=utf-8");
}

static void control_bytes_make_no_content_type(void **state)
{
    (void)state;
    assert_true(header("Content-Type: text/\x01plain\r\n", 200));
    assert_string_equal(call_content_type(c), "");
    assert_true(call_header(c, "Content-Type: a\0b\r\n", 19, 200));
    assert_string_equal(call_content_type(c), "");
}

static void only_the_final_response_has_a_status(void **state)
{
    enum call_end end;

    (void)state;
    assert_true(header("HTTP/1.1 103 Early Hints\r\n", 103));
    assert_true(header("Content-Type: text/early\r\n", 103));
    assert_true(header("Retry-After: 5\r\n", 103));
    assert_true(header("\r\n", 103));
    assert_int_equal(call_status(c, 0, &end), 0);
    assert_true(header("HTTP/1.1 200 OK\r\n", 200));
    assert_int_equal(call_status(c, 0, &end), 0);
    assert_true(header("\r\n", 200));
    assert_int_equal(call_status(c, 0, &end), 200);
    assert_int_equal(end, CALL_RUNNING);
    assert_string_equal(call_content_type(c), "");
    assert_int_equal(call_retry_after(c), -1);
}

static void trailers_change_nothing(void **state)
{
    enum call_end end;

    (void)state;
    assert_true(header("HTTP/2 200\r\n", 200));
    assert_true(header("Content-Type: text/plain\r\n", 200));
    assert_true(header("\r\n", 200));
    assert_true(header("Content-Type: text/trailer\r\n", 200));
    assert_true(header("\r\n", 500));
    assert_string_equal(call_content_type(c), "text/plain");
    assert_int_equal(call_status(c, 0, &end), 200);
}

static void header_lines_are_bounded_together(void **state)
{
    char line[1024];

    (void)state;
    memset(line, 'x', sizeof line);
    for (size_t n = 0; n < CALL_HEADER_MAX; n += sizeof line)
        assert_true(call_header(c, line, sizeof line, 200));
    assert_false(call_header(c, line, 1, 200));
}

static void clocks_run_one_after_the_other(void **state)
{
    char byte = 'b';
    int64_t start;

    (void)state;
    start = c->start_ms;
    assert_int_equal(deadline(), start + 100); /* to connect */
    c->sent = true;
    assert_int_equal(deadline(), start + 300); /* for the first byte */
    assert_true(call_body(c, &byte, 1, start + 250));
    assert_int_equal(deadline(), start + 450); /* idle */
    assert_true(call_body(c, &byte, 1, start + 900));
    assert_int_equal(deadline(), start + 1000); /* in all */
}

static void idle_clock_stands_still_while_paused(void **state)
{
    static char bytes[UPSTREAM_BUFFER];
    int64_t start;

    (void)state;
    start = c->start_ms;
    c->sent = true;
    assert_true(call_body(c, bytes, sizeof bytes, start + 10));
    assert_false(call_body(c, bytes, 1, start + 20));
    assert_int_equal(deadline(), start + 1000);
    call_resumed(c, start + 500);
    assert_int_equal(deadline(), start + 700);
}

static void a_paused_call_is_queued_once_half_is_free(void **state)
{
    static char bytes[UPSTREAM_BUFFER];
    bool abort_it, stopping;
    enum call_end end;

    (void)state;
    assert_true(call_body(c, bytes, sizeof bytes, 1));
    assert_false(call_body(c, bytes, 1, 1));
    assert_int_equal(call_read(c, bytes, UPSTREAM_BUFFER / 2 - 1, 0, &end),
                     UPSTREAM_BUFFER / 2 - 1);
    assert_null(call_next(&queue, &abort_it, &stopping));
    assert_int_equal(call_read(c, bytes, 1, 0, &end), 1);
    assert_ptr_equal(call_next(&queue, &abort_it, &stopping), c);
    assert_false(abort_it);
}

static void on_a_shared_connection_a_call_holds_what_its_request_says(void **state)
{
    static char bytes[SHARED_BYTES];

    (void)state;
    call_shares_connection(c);
    assert_true(call_body(c, bytes, sizeof bytes, 1));
    assert_false(call_body(c, bytes, 1, 1));
}

static void bytes_come_before_the_end(void **state)
{
    enum call_end end;
    char bytes[8];

    (void)state;
    assert_true(call_body(c, "abc", 3, 1));
    call_finish(c, CALL_BROKEN);
    assert_int_equal(call_status(c, 0, &end), 0);
    assert_int_equal(end, CALL_RUNNING);
    assert_int_equal(call_read(c, bytes, 2, 0, &end), 2);
    assert_int_equal(end, CALL_RUNNING);
    assert_int_equal(call_read(c, bytes, 8, 0, &end), 1);
    assert_int_equal(call_read(c, bytes, 8, 1000, &end), 0);
    assert_int_equal(end, CALL_BROKEN);
}

/* Its worker may free it at once, so it must not be found in the queue any more. */
static void an_ended_call_is_in_no_queue(void **state)
{
    bool abort_it, stopping;

    (void)state;
    assert_true(call_post(c));
    call_finish(c, CALL_ABORTED);
    assert_null(call_next(&queue, &abort_it, &stopping));
    call_abort(c);
    assert_null(call_next(&queue, &abort_it, &stopping));
}

static void nothing_is_posted_while_stopping(void **state)
{
    (void)state;
    queue.stopping = true;
    assert_false(call_post(c));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(retry_after_is_seconds_or_a_date_or_nothing),
        TEST(f46_a_date_is_a_wait_until_then),
        TEST(content_type_has_127_bytes_at_most),
        TEST(control_bytes_make_no_content_type),
        TEST(only_the_final_response_has_a_status),
        TEST(trailers_change_nothing),
        TEST(header_lines_are_bounded_together),
        TEST(clocks_run_one_after_the_other),
        TEST(idle_clock_stands_still_while_paused),
        TEST(a_paused_call_is_queued_once_half_is_free),
        TEST(on_a_shared_connection_a_call_holds_what_its_request_says),
        TEST(bytes_come_before_the_end),
        TEST(an_ended_call_is_in_no_queue),
        TEST(nothing_is_posted_while_stopping),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
