/* The webhook against a real server on loopback: what is posted, what counts as delivered, and
 * that nothing the other side does takes longer than it may. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include "gateway/webhook.h"
#include "platform/clock.h"
#include "tests/model/client.h"

#define SLACK_MS 4000 /* a busy machine, a sanitizer */
#define BODY     "{\"event\":\"threshold\"}"

static struct model model;

static struct webhook hook(void)
{
    return (struct webhook){.url = model.url, .timeout_ms = 20000};
}

static int setup(void **state)
{
    (void)state;
    model_set(&model, "{\"reset\":true,\"gap_ms\":0}");
    return 0;
}

/* ---- what it says ---- */

#define AT   1796038953 /* 2026-11-30 11:42:33 UTC */
#define TIME "\"time\":\"2026-11-30T11:42:33Z\","

static const struct {
    const char *what;
    struct ledger_alert alert;
    const char *begins, *says;
} BODIES[] = {
    {"a threshold",
     {.kind = ALERT_THRESHOLD, .name = "site-day", .percent = 80, .time_s = AT},
     "{\"event\":\"threshold\",\"limit\":\"site-day\",\"percent\":80," TIME,
     "Pennygate: limit site-day has reached 80 % of its maximum."},
    {"refused by the API",
     {.kind = ALERT_UPSTREAM_REFUSED, .name = "demo", .time_s = AT},
     "{\"event\":\"upstream_refused\",\"model\":\"demo\"," TIME,
     "Pennygate: the API of model demo refuses us (key, credit or rate); the log has its "
     "status."},
    {"an open breaker",
     {.kind = ALERT_BREAKER_OPEN, .name = "demo", .time_s = AT},
     "{\"event\":\"breaker_open\",\"model\":\"demo\"," TIME,
     "Pennygate: the API of model demo fails, so it is not called for a while."},
    {"a bound exceeded",
     {.kind = ALERT_BOUND_EXCEEDED, .name = "demo", .time_s = AT},
     "{\"event\":\"bound_exceeded\",\"model\":\"demo\"," TIME,
     "Pennygate: the API of model demo has counted more tokens than were reserved; pennygate "
     "check shows what was learnt."},
    {"no meter",
     {.kind = ALERT_METER, .time_s = AT},
     "{\"event\":\"meter_unavailable\"," TIME,
     "Pennygate cannot count and therefore refuses all requests; the log says why."},
    {"a name from a hostile store",
     {.kind = ALERT_THRESHOLD, .name = "\"},{\\\n\xff", .percent = 255, .time_s = AT},
     "{\"event\":\"threshold\",\"limit\":\"???????\",\"percent\":255," TIME,
     "Pennygate: limit ??????? has reached 255 % of its maximum."},
    {"the longest name, without an end",
     {.kind = ALERT_BOUND_EXCEEDED, .name = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", .time_s = AT},
     "{\"event\":\"bound_exceeded\",\"model\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"," TIME,
     "Pennygate: the API of model aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa has counted more tokens than "
     "were reserved; pennygate check shows what was learnt."},
    {"a time that no calendar has",
     {.kind = ALERT_METER, .time_s = INT64_MAX},
     "{\"event\":\"meter_unavailable\",\"time\":\"1970-01-01T00:00:00Z\",",
     "Pennygate cannot count and therefore refuses all requests; the log says why."},
};

static void a_body_says_what_happened_in_words_too(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof BODIES / sizeof *BODIES; i++) {
        char body[WEBHOOK_BODY_MAX];

        webhook_body(&BODIES[i].alert, body);
        json_t *value = json_loads(body, JSON_REJECT_DUPLICATES, NULL);
        if (value == NULL || strncmp(body, BODIES[i].begins, strlen(BODIES[i].begins)) != 0)
            fail_msg("%s: %s", BODIES[i].what, body);
        assert_string_equal(json_string_value(json_object_get(value, "text")), BODIES[i].says);
        assert_string_equal(json_string_value(json_object_get(value, "content")),
                            BODIES[i].says);
        json_decref(value);
    }
}

/* ---- delivering ---- */

static json_t *last_call(void)
{
    json_t *stats = model_ask(&model, "GET", "/stats", ""), *last;

    last = json_incref(json_object_get(stats, "last"));
    json_decref(stats);
    return last;
}

static const char *header(json_t *call, const char *name)
{
    return json_string_value(json_object_get(json_object_get(call, "headers"), name));
}

static void the_body_arrives_as_json_with_the_token(void **state)
{
    struct webhook w = hook();
    struct webhook_result r;
    json_t *call;

    (void)state;
    w.token = "hook-secret-7";
    webhook_post(&w, BODY, -1, &r);
    assert_true(r.delivered);
    assert_int_equal(r.status, 200);
    call = last_call();
    assert_string_equal(json_string_value(json_object_get(call, "raw")), BODY);
    assert_string_equal(header(call, "content-type"), "application/json");
    assert_string_equal(header(call, "authorization"), "Bearer hook-secret-7");
    assert_null(header(call, "expect"));
    json_decref(call);
    w.token = NULL;
    webhook_post(&w, BODY, -1, &r);
    assert_true(r.delivered);
    call = last_call();
    assert_null(header(call, "authorization"));
    json_decref(call);
    assert_int_equal(model_count(&model, "calls"), 2);
}

static const struct {
    const char *what, *settings;
    bool delivered;
    int status;
} ANSWERS[] = {
    {"created", "{\"status\":201,\"error_body\":\"ok\"}", true, 201},
    {"no content", "{\"status\":204,\"error_body\":\"\"}", true, 204},
    {"a long answer", "{\"status\":200,\"size\":4000000}", true, 200},
    {"an answer that is cut after its status", "{\"cut\":\"content_length\"}", true, 200},
    {"a bad request", "{\"status\":400}", false, 400},
    {"a wrong token", "{\"status\":401}", false, 401},
    {"too many", "{\"status\":429}", false, 429},
    {"an error of the server", "{\"status\":500}", false, 500},
    {"a header above every bound", "{\"header_bytes\":400000}", true, 200},
    {"an answer that is cut after its header", "{\"cut\":\"header\"}", true, 200},
};

static void only_a_status_2xx_is_delivered(void **state)
{
    const struct webhook w = hook();

    (void)state;
    for (size_t i = 0; i < sizeof ANSWERS / sizeof *ANSWERS; i++) {
        struct webhook_result r;

        model_set(&model, "{\"reset\":true,\"gap_ms\":0}");
        model_set(&model, ANSWERS[i].settings);
        webhook_post(&w, BODY, -1, &r);
        if (r.delivered != ANSWERS[i].delivered ||
            (ANSWERS[i].status >= 0 && r.status != ANSWERS[i].status))
            fail_msg("%s: status %d, %s", ANSWERS[i].what, r.status, r.reason);
        assert_non_null(r.reason);
        assert_null(strstr(r.reason, "127.0.0.1"));
        assert_int_equal(model_count(&model, "calls"), 1);
    }
}

static void a_redirect_is_not_followed(void **state)
{
    const struct webhook w = hook();
    struct webhook_result r;
    char settings[160];

    (void)state;
    snprintf(settings, sizeof settings, "{\"redirect\":\"%s\"}", model.url);
    model_set(&model, settings);
    webhook_post(&w, BODY, -1, &r);
    assert_false(r.delivered);
    assert_int_equal(r.status, 302);
    assert_int_equal(model_count(&model, "calls"), 1);
}

/* F48: nothing of the environment decides where it goes. */
static void f48_no_proxy_of_the_environment_is_used(void **state)
{
    const struct webhook w = hook();
    struct webhook_result r;

    (void)state;
    setenv("http_proxy", "http://127.0.0.1:9", 1);
    setenv("ALL_PROXY", "http://127.0.0.1:9", 1);
    webhook_post(&w, BODY, -1, &r);
    unsetenv("http_proxy");
    unsetenv("ALL_PROXY");
    assert_true(r.delivered);
}

static const char *const NOWHERE[] = {
    "http://127.0.0.1:9/nobody-listens",
    "ftp://127.0.0.1/",
    "file:///etc/passwd",
    "gopher://127.0.0.1/",
    "not a url",
    "http://",
    "",
};

static void what_cannot_be_reached_is_said_without_the_url(void **state)
{
    struct webhook w = hook();

    (void)state;
    for (size_t i = 0; i < sizeof NOWHERE / sizeof *NOWHERE; i++) {
        struct webhook_result r;

        w.url = NOWHERE[i];
        webhook_post(&w, BODY, -1, &r);
        assert_false(r.delivered);
        assert_int_equal(r.status, 0);
        assert_true(r.reason[0] != '\0');
        assert_null(strstr(r.reason, "127.0.0.1"));
    }
}

/* ---- time ---- */

static void its_time_bounds_a_server_that_says_nothing(void **state)
{
    struct webhook w = hook();
    struct webhook_result r;
    int64_t begun = clock_monotonic_ms();

    (void)state;
    model_set(&model, "{\"hang\":true}");
    w.timeout_ms = 300;
    webhook_post(&w, BODY, -1, &r);
    assert_false(r.delivered);
    assert_string_equal(r.reason, "no answer in time");
    assert_in_range(clock_monotonic_ms() - begun, 290, 300 + SLACK_MS);
}

/* The backlog is full, so that connecting never ends. */
static void its_time_bounds_connecting_too(void **state)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int listener = socket(AF_INET, SOCK_STREAM, 0), filler[4];
    struct webhook w = hook();
    struct webhook_result r;
    char url[64];

    (void)state;
    assert_int_equal(bind(listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(listener, 0), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&a, &n), 0);
    for (unsigned i = 0; i < 4; i++) {
        filler[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)connect(filler[i], (struct sockaddr *)&a, sizeof a);
    }
    snprintf(url, sizeof url, "http://127.0.0.1:%u/", ntohs(a.sin_port));
    w.url = url;
    w.timeout_ms = 300;
    int64_t begun = clock_monotonic_ms();
    webhook_post(&w, BODY, -1, &r);
    assert_false(r.delivered);
    assert_in_range(clock_monotonic_ms() - begun, 290, 300 + SLACK_MS);
    for (unsigned i = 0; i < 4; i++)
        close(filler[i]);
    close(listener);
}

static void *stop_it(void *arg)
{
    const int *fd = arg;
    const uint64_t one = 1;

    assert_true(model_reaches(&model, "open", 1));
    assert_int_equal(write(*fd, &one, sizeof one), sizeof one);
    return NULL;
}

static void it_is_left_at_once_when_the_process_stops(void **state)
{
    const struct webhook w = hook();
    struct webhook_result r;
    pthread_t thread;
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    (void)state;
    model_set(&model, "{\"hang\":true}");
    assert_int_equal(pthread_create(&thread, NULL, stop_it, &fd), 0);
    int64_t begun = clock_monotonic_ms();
    webhook_post(&w, BODY, fd, &r);
    assert_true(clock_monotonic_ms() - begun < SLACK_MS);
    pthread_join(thread, NULL);
    assert_false(r.delivered);
    assert_string_equal(r.reason, "the process is leaving");
    begun = clock_monotonic_ms();
    webhook_post(&w, BODY, fd, &r); /* and once stopped nothing begins anew */
    assert_true(clock_monotonic_ms() - begun < SLACK_MS);
    assert_false(r.delivered);
    close(fd);
}

/* ---- TLS ---- */

static void tls_needs_the_certificate_of_the_configured_authority(void **state)
{
    char directory[] = "/tmp/pennygate-tls-XXXXXX";
    char cert[64], key[64], other[64], command[96];
    struct webhook w = hook();
    struct webhook_result r;
    struct model tls;

    (void)state;
    assert_non_null(mkdtemp(directory));
    model_certificate(directory, "own");
    model_certificate(directory, "other");
    snprintf(cert, sizeof cert, "%s/own.crt", directory);
    snprintf(key, sizeof key, "%s/own.key", directory);
    snprintf(other, sizeof other, "%s/other.crt", directory);
    tls = model_start(cert, key);
    w.url = tls.url;
    w.token = "hook-secret-7";
    const struct {
        const char *ca_file;
        bool delivered;
    } files[] = {{other, false}, {NULL, false}, {cert, true}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        w.ca_file = files[i].ca_file;
        webhook_post(&w, BODY, -1, &r);
        assert_int_equal(r.delivered, files[i].delivered);
    }
    model_stop(&tls);
    snprintf(command, sizeof command, "rm -r %s", directory);
    assert_int_equal(system(command), 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup(f, setup)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_says_what_happened_in_words_too),
        TEST(the_body_arrives_as_json_with_the_token),
        TEST(only_a_status_2xx_is_delivered),
        TEST(a_redirect_is_not_followed),
        TEST(f48_no_proxy_of_the_environment_is_used),
        TEST(what_cannot_be_reached_is_said_without_the_url),
        TEST(its_time_bounds_a_server_that_says_nothing),
        TEST(its_time_bounds_connecting_too),
        TEST(it_is_left_at_once_when_the_process_stops),
        TEST(tls_needs_the_certificate_of_the_configured_authority),
    };
    model_begin(&model);
    return model_end(&model, cmocka_run_group_tests(tests, NULL, NULL));
}
