/*
 * The service from an exchange to the store and the practice model, all of them the real ones;
 * the test is the web server. What was charged is read from the store afterwards.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "gateway/service.h"
#include "platform/clock.h"
#include "platform/mac.h"
#include "platform/secret.h"
#include "tests/model/client.h"
#include "tests/unit/scratch.h"

#define CALLS     100 /* of everybody a day */
#define STREAMS   2
#define BEAT_MS   1000
#define SLACK_MS  4000 /* a busy machine */
#define FREE_MS   5000
#define SAY(text) "{\"messages\":[{\"role\":\"user\",\"content\":\"" text "\"}]}"
#define STREAM(text)                                                                           \
    "{\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"" text "\"}]}"
#define PLAIN    SAY("salt?")
#define STREAMED STREAM("salt?")

static struct model model;
static struct service *service;
static char *no_env[] = {NULL};

/* ---- a site ---- */

static void write_configuration(const char *more)
{
    char text[2048];
    int n = snprintf(text, sizeof(text),
                     "site { store = '%s'\n secret-file = '%s' }\n"
                     "model demo { provider = openai\n url = 'http://127.0.0.1:%u/v1'\n"
                     " model = 'm'\n max-output-tokens = 100\n price-input = '$1.00'\n"
                     " price-output = '$2.00'\n first-byte-timeout = 3s\n }\n"
                     "limit visitor-at-once { per = address\n unit = concurrent\n max = 50 }\n"
                     "limit visitor-burst { per = address\n unit = calls\n window = 10s\n"
                     " max = 100 }\n"
                     "limit site-day { per = everyone\n unit = calls\n window = day\n"
                     " max = %d }\n"
                     "log { level = warning }\n%s\n",
                     scratch_path("store"), scratch_path("secret"), model.port, CALLS, more);

    assert_true(n > 0 && (size_t)n < sizeof(text));
    scratch_write(scratch_path("conf.new"), 0600, text, (size_t)n);
    assert_int_equal(rename(scratch_path("conf.new"), scratch_path("conf")), 0);
}

#define SERVER_SECTION "server { streams = 2\n heartbeat = 1s }"

static struct ledger_options ledger_of(void)
{
    struct ledger_options o = {
        .store = scratch_path("store"), .map_bytes = 16 << 20, .clock = clock_read};

    assert_int_equal(secret_read(scratch_path("secret"), o.secret), ERROR_NONE);
    return o;
}

static void make_store(void)
{
    struct ledger_options o;

    assert_int_equal(mkdir(scratch_path("store"), 0700), 0);
    o = ledger_of();
    assert_int_equal(ledger_create(&o, "UTC0"), ERROR_NONE);
}

static void begin_service(void)
{
    assert_int_equal(service_new(scratch_path("conf"), no_env, false, &service), ERROR_NONE);
}

static int begin(void **state)
{
    model_set(&model, "{\"reset\":true,\"gap_ms\":0}");
    assert_int_equal(scratch_make(state), 0);
    assert_int_equal(secret_create(scratch_path("secret")), ERROR_NONE);
    write_configuration(SERVER_SECTION);
    make_store();
    begin_service();
    return 0;
}

static void end_service(void)
{
    assert_true(service_free(service, FREE_MS));
    service = NULL;
}

static int end(void **state)
{
    if (service != NULL)
        end_service();
    return scratch_remove(state);
}

static void add_day(void *arg, const struct history_day *d)
{
    struct history_day *sum = arg;

    sum->admitted += d->admitted;
    sum->settled += d->settled;
    sum->unknown += d->unknown;
    sum->given_back += d->given_back;
    sum->tokens_in += d->tokens_in;
    sum->tokens_out += d->tokens_out;
    for (int i = 0; i < FIGURES; i++)
        sum->figures[i] += d->figures[i];
}

static struct ledger_model breaker; /* of the model, as history() found it */

/* Ends the service and reads what the store says. */
static struct history_day history(void)
{
    static const struct policy none;
    struct ledger_options o = ledger_of();
    struct history_day sum = {0};
    struct ledger *l;

    end_service();
    assert_int_equal(ledger_open(&o, false, &l), ERROR_NONE);
    assert_int_equal(ledger_history(l, &none, 0, add_day, &sum), ERROR_NONE);
    assert_int_equal(ledger_model(l, "demo", &breaker), ERROR_NONE);
    assert_true(ledger_close(l, FREE_MS));
    return sum;
}

static void assert_history(uint64_t admitted, uint64_t settled, uint64_t unknown,
                           uint64_t given_back)
{
    struct history_day h = history();

    assert_int_equal(h.admitted, admitted);
    assert_int_equal(h.settled, settled);
    assert_int_equal(h.unknown, unknown);
    assert_int_equal(h.given_back, given_back);
}

/* ---- an exchange ---- */

#define OUT_MAX 65536

struct web {
    struct exchange x;
    const char *body;
    size_t at;
    bool breaks, late;    /* the body does not end; the deadline has passed */
    const char *fails_at; /* once this has been written nothing can be */
    atomic_bool failed;
    int pair[2];
    char *env[8];
    char length[48], type[64], method[32], path[96], address[64];
    pthread_mutex_t lock;
    size_t n;
    char out[OUT_MAX];
};

static ssize_t web_read(struct exchange *x, void *buf, size_t n)
{
    struct web *w = (struct web *)x;
    size_t left = strlen(w->body) - w->at;

    if (left == 0 && w->breaks)
        return -1;
    if (left == 0)
        x->watch_fd = w->pair[0];
    n = n < left ? n : left;
    n = n > 7 ? 7 : n; /* in small pieces */
    memcpy(buf, w->body + w->at, n);
    w->at += n;
    return (ssize_t)n;
}

static bool web_write(struct exchange *x, const void *buf, size_t n)
{
    struct web *w = (struct web *)x;

    if (atomic_load(&w->failed))
        return false;
    pthread_mutex_lock(&w->lock);
    assert_true(w->n + n < OUT_MAX);
    memcpy(w->out + w->n, buf, n);
    w->n += n;
    w->out[w->n] = '\0';
    if (w->fails_at != NULL && strstr(w->out, w->fails_at) != NULL)
        atomic_store(&w->failed, true);
    pthread_mutex_unlock(&w->lock);
    return true;
}

static bool web_flush(struct exchange *x)
{
    return !atomic_load(&((struct web *)x)->failed);
}

static bool web_admitted(struct exchange *x, int64_t answer_ms)
{
    assert_true(answer_ms > 0);
    return !((struct web *)x)->late;
}

static const struct exchange_ops web_ops = {web_read, web_write, web_flush, web_admitted};

static void web_init(struct web *w, const char *body)
{
    memset(w, 0, sizeof(*w));
    pthread_mutex_init(&w->lock, NULL);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, w->pair), 0);
    w->body = body;
    w->x = (struct exchange){
        .ops = &web_ops, .env = w->env, .watch_fd = -1, .watch_readable = true};
    snprintf(w->length, sizeof(w->length), "CONTENT_LENGTH=%zu", strlen(body));
    snprintf(w->type, sizeof(w->type), "CONTENT_TYPE=application/json");
    snprintf(w->method, sizeof(w->method), "REQUEST_METHOD=POST");
    snprintf(w->path, sizeof(w->path), "SCRIPT_NAME=/v1/chat/completions");
    snprintf(w->address, sizeof(w->address), "REMOTE_ADDR=192.0.2.1");
    w->env[0] = w->length;
    w->env[1] = w->type;
    w->env[2] = w->method;
    w->env[3] = w->path;
    w->env[4] = w->address;
}

static void web_end(struct web *w)
{
    close(w->pair[0]);
    if (w->pair[1] >= 0)
        close(w->pair[1]);
    pthread_mutex_destroy(&w->lock);
}

static bool web_shows(struct web *w, const char *text)
{
    bool found;

    pthread_mutex_lock(&w->lock);
    found = strstr(w->out, text) != NULL;
    pthread_mutex_unlock(&w->lock);
    return found;
}

static void *handle(void *arg)
{
    service_handle(service, arg);
    return NULL;
}

/* Handles it in a thread of its own. */
static pthread_t web_start(struct web *w)
{
    pthread_t t;

    assert_int_equal(pthread_create(&t, NULL, handle, &w->x), 0);
    return t;
}

/* Waits until its output shows the text. */
static void web_wait(struct web *w, const char *text)
{
    int64_t until = clock_monotonic_ms() + MODEL_WAIT_MS;

    while (!web_shows(w, text)) {
        if (clock_monotonic_ms() > until)
            fail_msg("no %s in %s", text, w->out);
        poll(NULL, 0, 5);
    }
}

static void web_expect(struct web *w, const char *text)
{
    if (!web_shows(w, text))
        fail_msg("no %s in %s", text, w->out);
}

/* One request from start to end, of which the output must have both texts. */
static void ask(const char *body, const char *first, const char *second)
{
    struct web w;

    web_init(&w, body);
    service_handle(service, &w.x);
    web_expect(&w, first);
    web_expect(&w, second);
    web_end(&w);
}

/* ---- before anything is charged ---- */

static void set(char *to, const char *text)
{
    if (text != NULL)
        snprintf(to, 48, "%s", text);
}

static const struct odd {
    const char *why, *method, *path, *type, *length, *address, *body, *expected;
} elsewhere[] =
    {
        {"F10 another path comes before all else", "REQUEST_METHOD=PUT",
         "SCRIPT_NAME=//v1/models", "X=", NULL, NULL, "", "\"not_found\""},
        {"what strangers look for", "REQUEST_METHOD=GET", "SCRIPT_NAME=/wp-login.php",
         "X=", NULL, NULL, "", "\"not_found\""},
        {"F10 another method", "REQUEST_METHOD=GET", NULL, NULL, NULL, NULL, "",
         "Allow: POST, OPTIONS\r\n"},
#if PAGES
        {"a file for a page of another site", "REQUEST_METHOD=GET", "SCRIPT_NAME=/widget.js",
         "X=", NULL, "HTTP_ORIGIN=https://other.example", "", "\"forbidden_origin\""},
        {"the owner's for it", "REQUEST_METHOD=GET", "SCRIPT_NAME=/dashboard", "X=", NULL,
         "HTTP_ORIGIN=https://other.example", "", "\"forbidden_origin\""},
#endif
},
  turned_away[] = {
      {"F52 a form", NULL, NULL, "CONTENT_TYPE=text/plain", NULL, NULL, PLAIN,
       "Status: 415 Unsupported"},
      {"no type", NULL, NULL, "X=", NULL, NULL, PLAIN, "\"unsupported_media_type\""},
      {"a body that is announced too large is not read", NULL, NULL, NULL,
       "CONTENT_LENGTH=65537", NULL, "", "\"body_too_large\""},
      {"a length that is none", NULL, NULL, NULL, "CONTENT_LENGTH=-5", NULL, PLAIN,
       "\"body_too_large\""},
      {"a body that is shorter than announced", NULL, NULL, NULL, "CONTENT_LENGTH=500", NULL,
       PLAIN, "\"body_incomplete\""},
      {"a body that is longer than announced", NULL, NULL, NULL, "CONTENT_LENGTH=5", NULL,
       PLAIN, "\"body_incomplete\""},
      {"no JSON", NULL, NULL, NULL, "CONTENT_LENGTH=", NULL, "{", "\"bad_json\""},
      {"F25 another shape", NULL, NULL, NULL, "CONTENT_LENGTH=", NULL, "{\"messages\":[1]}",
       "\"bad_request\""},
      {"no address", NULL, NULL, NULL, NULL, "REMOTE_ADDR=unix:", PLAIN, "\"no_address\""},
};

static void send_odd(const struct odd *o)
{
    struct web w;

    web_init(&w, o->body);
    set(w.method, o->method);
    set(w.path, o->path);
    set(w.type, o->type);
    set(w.length, o->length);
    set(w.address, o->address);
    service_handle(service, &w.x);
    if (strstr(w.out, o->expected) == NULL)
        fail_msg("%s: %s", o->why, w.out);
    web_end(&w);
}

static void what_is_wrong_is_turned_away(void **state)
{
    struct history_day h;

    (void)state;
    for (size_t i = 0; i < sizeof(turned_away) / sizeof(turned_away[0]); i++)
        send_odd(&turned_away[i]);
    h = history();
    assert_int_equal(h.admitted, 0);
    assert_int_equal(h.figures[FIGURE_INVALID], sizeof(turned_away) / sizeof(turned_away[0]));
    assert_int_equal(model_count(&model, "calls"), 0);
}

static void what_is_no_request_for_the_model_is_in_no_figure_of_it(void **state)
{
    struct history_day h;

    (void)state;
    for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++)
        send_odd(&elsewhere[i]);
    h = history();
    for (unsigned f = 0; f < FIGURES; f++)
        assert_int_equal(h.figures[f], 0);
}

static void a_body_of_unknown_length_is_bounded_too(void **state)
{
    static char body[65536 + 2];
    struct web w;

    (void)state;
    memset(body, ' ', sizeof(body) - 1);
    web_init(&w, body); /* one byte above the bound */
    set(w.length, "CONTENT_LENGTH=0");
    service_handle(service, &w.x);
    web_expect(&w, "\"body_too_large\"");
    web_end(&w);
    memcpy(body, PLAIN, strlen(PLAIN));
    body[sizeof(body) - 2] = '\0'; /* as many bytes as there may be */
    web_init(&w, body);
    set(w.length, "CONTENT_LENGTH=");
    service_handle(service, &w.x);
    web_expect(&w, "Status: 200 OK");
    web_end(&w);
}

static void who_is_too_late_is_not_charged(void **state)
{
    struct web w;

    (void)state;
    web_init(&w, PLAIN);
    w.late = true;
    service_handle(service, &w.x);
    web_expect(&w, "Status: 408 Request Timeout");
    web_end(&w);
    web_init(&w, "{");
    w.late = w.breaks = true;
    service_handle(service, &w.x);
    web_expect(&w, "\"request_timeout\"");
    web_end(&w);
    web_init(&w, "{");
    w.breaks = true;
    service_handle(service, &w.x);
    web_expect(&w, "\"body_incomplete\"");
    web_end(&w);
    assert_history(0, 0, 0, 0);
}

static void f36_who_has_left_before_is_not_charged(void **state)
{
    struct web w;

    (void)state;
    web_init(&w, PLAIN);
    close(w.pair[1]);
    w.pair[1] = -1;
    service_handle(service, &w.x);
    assert_int_equal(w.n, 0);
    web_end(&w);
    assert_history(0, 0, 0, 0);
    assert_int_equal(model_count(&model, "calls"), 0);
}

static void models_are_listed(void **state)
{
    struct web w;

    (void)state;
    web_init(&w, "");
    set(w.method, "REQUEST_METHOD=GET");
    set(w.path, "SCRIPT_NAME=/v1/models");
    service_handle(service, &w.x);
    web_expect(&w, "\"id\":\"demo\"");
    assert_false(web_shows(&w, "\"m\""));
    web_end(&w);
}

/* What GET /status answers. */
static void expect_status(const char *first, const char *second)
{
    struct web w;

    web_init(&w, "");
    set(w.method, "REQUEST_METHOD=GET");
    set(w.path, "SCRIPT_NAME=/status");
    service_handle(service, &w.x);
    web_expect(&w, "Status: 200 OK");
    web_expect(&w, first);
    web_expect(&w, second);
    assert_false(web_shows(&w, "\"m\""));
    web_end(&w);
}

static void the_status_says_why_nobody_is_served(void **state)
{
    (void)state;
    expect_status("{\"available\":true,\"code\":null,", "\"model\":\"demo\"");
    write_configuration(SERVER_SECTION " nonsense");
    expect_status("{\"available\":false,\"code\":\"configuration\",", "\"limits\":[]");
    service_stop(service);
    expect_status("{\"available\":false,\"code\":\"stopping\",", "\"retry_after\":1,");
    assert_history(0, 0, 0, 0);
}

/* ---- answers ---- */

static void answers_are_settled_by_their_usage(void **state)
{
    struct history_day h;

    (void)state;
    model_set(&model, "{\"prompt_tokens\":11,\"completion_tokens\":7}");
    ask(PLAIN, "Status: 200 OK", "\"total_tokens\":18");
    ask(STREAMED, "data: {\"id\":\"chatcmpl-", "\n\ndata: [DONE]\n\n");
    h = history();
    assert_int_equal(h.settled, 2);
    assert_int_equal(h.tokens_in, 22);
    assert_int_equal(h.tokens_out, 14);
}

static void f17_usage_is_sent_on_only_if_asked_for(void **state)
{
    static const char asked[] = "{\"stream\":true,\"stream_options\":{\"include_usage\":true},"
                                "\"messages\":[{\"role\":\"user\",\"content\":\"salt?\"}]}";
    struct web w;

    (void)state;
    web_init(&w, STREAMED);
    service_handle(service, &w.x);
    assert_false(web_shows(&w, "usage"));
    web_end(&w);
    ask(asked, "\"choices\":[],\"usage\":{", "\n\ndata: [DONE]\n\n");
}

static const struct {
    const char *why, *settings;
    bool stream;
    const char *expected, *also;
    uint64_t settled, unknown, given_back;
    enum health health;
} upstreams[] = {
    {"our key", "{\"status\":401}", false, "Status: 503", "Retry-After: 30\r\n", 0, 0, 1,
     HEALTH_REFUSED},
    {"our credit", "{\"status\":402}", false, "\"upstream_refused\"", "Retry-After: 30\r\n", 0,
     0, 1, HEALTH_REFUSED},
    {"no right, or a filter that is billed", "{\"status\":403}", true, "\"upstream_refused\"",
     "x-should-retry: false", 0, 1, 0, HEALTH_DENIED},
    {"F46 our rate", "{\"status\":429,\"retry_after\":70}", false, "\"upstream_refused\"",
     "Retry-After: 70\r\n", 0, 0, 1, HEALTH_REFUSED},
    {"F46 a wait is capped", "{\"status\":429,\"retry_after\":86400}", false, "Status: 503",
     "Retry-After: 3600\r\n", 0, 0, 1, HEALTH_REFUSED},
    {"F46 a wait that is not said", "{\"status\":429}", true, "Status: 503",
     "Retry-After: 30\r\n", 0, 0, 1, HEALTH_REFUSED},
    {"F4 a prompt that its filter stops is billed", "{\"status\":400}", false, "Status: 502",
     "x-should-retry: false", 0, 1, 0, HEALTH_UNKNOWN},
    {"F4 so may be one that it gave up", "{\"status\":408}", false, "Status: 502",
     "x-should-retry: false", 0, 1, 0, HEALTH_UNKNOWN},
    {"a model that it does not know", "{\"status\":404}", false, "Status: 502",
     "\"upstream_error\"", 0, 0, 1, HEALTH_FAILED},
    {"its own error may follow a call", "{\"status\":500}", false, "Status: 502",
     "x-should-retry: false", 0, 1, 0, HEALTH_FAILED},
    {"a redirect is not followed", "{\"redirect\":\"http://127.0.0.1:1/\"}", false,
     "Status: 502", "\"upstream_error\"", 0, 1, 0, HEALTH_FAILED},
    {"another type", "{\"content_type\":\"text/html\"}", false, "Status: 502",
     "\"upstream_error\"", 0, 1, 0, HEALTH_FAILED},
    {"another type of a stream", "{\"content_type\":\"application/json\"}", true, "Status: 502",
     "\"upstream_error\"", 0, 1, 0, HEALTH_FAILED},
    {"a type in capitals", "{\"content_type\":\"Application/JSON;charset=utf-8\"}", false,
     "Status: 200", "\"finish_reason\":\"stop\"", 1, 0, 0, HEALTH_GOOD},
    {"garbage", "{\"garbage\":true}", false, "Status: 502", "\"upstream_error\"", 0, 1, 0,
     HEALTH_FAILED},
    {"garbage in a stream", "{\"garbage\":true}", true, "Status: 502", "\"upstream_error\"", 0,
     1, 0, HEALTH_FAILED},
    {"no answer", "{\"hang\":true}", false, "Status: 504", "x-should-retry: false", 0, 1, 0,
     HEALTH_FAILED},
    {"a stream that does not begin becomes events after a heartbeat", "{\"hang\":true}", true,
     "Status: 200", ":\n\n:\n\ndata: {\"error\":", 0, 1, 0, HEALTH_FAILED},
    {"F24 an error before the text", "{\"error_in_200\":\"before\"}", true, "Status: 502",
     "\"upstream_error\"", 0, 1, 0, HEALTH_FAILED},
    {"F24 an error after some text", "{\"error_in_200\":\"middle\"}", true, "Status: 200",
     "data: {\"error\":", 0, 1, 0, HEALTH_FAILED},
    {"F24 an error as a whole answer", "{\"error_in_200\":\"body\"}", false, "Status: 502",
     "\"upstream_error\"", 0, 1, 0, HEALTH_FAILED},
    {"a header that breaks off", "{\"cut\":\"header\"}", false, "Status: 502",
     "\"upstream_error\"", 0, 1, 0, HEALTH_FAILED},
    {"a body that breaks off", "{\"cut\":\"content_length\"}", false, "Status: 502",
     "\"upstream_error\"", 0, 1, 0, HEALTH_FAILED},
    {"a stream that breaks off", "{\"cut\":\"middle\"}", true, "Status: 200",
     "data: {\"error\":", 0, 1, 0, HEALTH_FAILED},
    {"F23 a stream that ends without a word", "{\"finish\":null,\"done\":false}", true,
     "Status: 200", "data: {\"error\":", 0, 1, 0, HEALTH_FAILED},
    {"F23 a stream that ends after its finish", "{\"done\":false}", true, "Status: 200",
     "data: [DONE]", 1, 0, 0, HEALTH_GOOD},
    {"F16 no usage", "{\"usage\":\"none\"}", true, "Status: 200", "data: [DONE]", 0, 1, 0,
     HEALTH_GOOD},
    {"F29 usage beyond belief", "{\"usage\":\"huge\"}", false, "Status: 200", "chatcmpl-", 0, 1,
     0, HEALTH_GOOD},
    {"F27 thought only, until the cap", "{\"reasoning\":true,\"finish\":\"length\"}", true,
     "Status: 200", "\"finish_reason\":\"length\"", 1, 0, 0, HEALTH_GOOD},
    {"an event too large", "{\"event_bytes\":70000}", true, "Status: 502", "\"upstream_error\"",
     0, 1, 0, HEALTH_FAILED},
    {"an answer too large", "{\"size\":1100000}", false, "Status: 502", "\"upstream_error\"", 0,
     1, 0, HEALTH_FAILED},
};

static void each_trouble_of_the_model_has_its_answer_and_its_charge(void **state)
{
    for (size_t i = 0; i < sizeof(upstreams) / sizeof(upstreams[0]); i++) {
        struct history_day h;
        struct web w;

        if (service == NULL)
            assert_int_equal(begin(state), 0);
        model_set(&model, upstreams[i].settings);
        web_init(&w, upstreams[i].stream ? STREAMED : PLAIN);
        service_handle(service, &w.x);
        if (!web_shows(&w, upstreams[i].expected) || !web_shows(&w, upstreams[i].also))
            fail_msg("%s: %s", upstreams[i].why, w.out);
        if (web_shows(&w, "practice") ||
            (web_shows(&w, "\"error\"") && web_shows(&w, "[DONE]")))
            fail_msg("F47 %s: %s", upstreams[i].why, w.out);
        web_end(&w);
        h = history();
        if (h.admitted != 1 || h.settled != upstreams[i].settled ||
            h.unknown != upstreams[i].unknown || h.given_back != upstreams[i].given_back)
            fail_msg("%s: settled %d unknown %d given back %d", upstreams[i].why,
                     (int)h.settled, (int)h.unknown, (int)h.given_back);
        if ((breaker.breaker_wait_ms > 0) != (upstreams[i].health == HEALTH_REFUSED) ||
            (breaker.breaker_wait_ms == 0 &&
             breaker.failures != (upstreams[i].health == HEALTH_FAILED)))
            fail_msg("%s: %d failures", upstreams[i].why, (int)breaker.failures);
        end(state);
    }
    assert_int_equal(begin(state), 0);
}

static void a_model_that_is_not_there_costs_nothing(void **state)
{
    struct model there = model;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(a);

    (void)state;
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0); /* and does not listen */
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
    model.port = ntohs(a.sin_port);
    write_configuration(SERVER_SECTION);
    model = there;
    ask(PLAIN, "Status: 502", "\"upstream_unreachable\"");
    ask(STREAMED, "Status: 502", "\"upstream_unreachable\"");
    close(fd);
    assert_history(2, 0, 0, 2);
}

/* F35: from the first heartbeat's time on there is a sign of life, between events only. */
static void f35_a_silent_stream_beats(void **state)
{
    struct web w;
    int64_t start = clock_monotonic_ms(), took;
    pthread_t t;

    (void)state;
    model_set(&model, "{\"first_ms\":2500}");
    web_init(&w, STREAMED);
    t = web_start(&w);
    web_wait(&w, "\r\n\r\n:\n\n");
    took = clock_monotonic_ms() - start;
    assert_true(took >= BEAT_MS - 20 && took < BEAT_MS + SLACK_MS);
    web_wait(&w, "\r\n\r\n:\n\n:\n\ndata: {");
    pthread_join(t, NULL);
    web_expect(&w, "data: [DONE]\n\n");
    web_end(&w);
    assert_history(1, 1, 0, 0);
}

/* ---- leaving ---- */

static const struct {
    const char *why, *settings, *body;
    const char *until; /* leaves once this has been shown */
} leavers[] = {
    {"F36 a plain call", "{\"hang\":true}", PLAIN, NULL},
    {"F36 before the first token", "{\"hang\":true}", STREAMED, NULL},
    {"F4 after a chunk", "{\"gap_ms\":300,\"chunks\":50}", STREAMED, "data: {"},
};

static void f36_the_call_of_a_caller_who_leaves_is_aborted(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(leavers) / sizeof(leavers[0]); i++) {
        struct web w;
        pthread_t t;

        model_set(&model, "{\"reset\":true}");
        model_set(&model, leavers[i].settings);
        web_init(&w, leavers[i].body);
        t = web_start(&w);
        assert_true(model_reaches(&model, "calls", 1));
        if (leavers[i].until != NULL)
            web_wait(&w, leavers[i].until);
        close(w.pair[1]);
        w.pair[1] = -1;
        pthread_join(t, NULL);
        if (!model_reaches(&model, "aborted", 1))
            fail_msg("%s", leavers[i].why);
        assert_false(web_shows(&w, "error"));
        web_end(&w);
    }
    assert_history(3, 0, 3, 0);
}

static void a_caller_who_cannot_be_written_to_is_left(void **state)
{
    struct web w;

    (void)state;
    model_set(&model, "{\"gap_ms\":100,\"chunks\":50}");
    web_init(&w, STREAMED);
    w.fails_at = "data: {";
    service_handle(service, &w.x);
    assert_true(model_reaches(&model, "aborted", 1));
    web_end(&w);
    assert_history(1, 0, 1, 0);
}

/* The places are free again, and the money stays. */
static void f12_places_do_not_leak(void **state)
{
    (void)state;
    model_set(&model, "{\"gap_ms\":20,\"chunks\":50}");
    for (int i = 0; i < 10 * STREAMS; i++) {
        struct web w;

        web_init(&w, STREAMED);
        w.fails_at = "data: {";
        service_handle(service, &w.x);
        web_end(&w);
    }
    model_set(&model, "{\"gap_ms\":0}");
    ask(STREAMED, "Status: 200", "[DONE]");
    assert_history(10 * STREAMS + 1, 1, 10 * STREAMS, 0);
}

/* ---- places, stopping ---- */

static void who_finds_no_place_hears_busy_and_is_not_charged(void **state)
{
    struct web held[STREAMS];
    pthread_t threads[STREAMS];

    (void)state;
    model_set(&model, "{\"gap_ms\":300,\"chunks\":60}");
    for (int i = 0; i < STREAMS; i++) {
        web_init(&held[i], STREAMED);
        threads[i] = web_start(&held[i]);
        web_wait(&held[i], "data: {");
    }
    ask(PLAIN, "Status: 503", "\"busy\"");
    service_stop(service);
    ask(PLAIN, "Status: 503", "\"stopping\"");
    for (int i = 0; i < STREAMS; i++)
        assert_false(web_shows(&held[i], "error"));
    service_cut(service);
    for (int i = 0; i < STREAMS; i++) {
        pthread_join(threads[i], NULL);
        web_expect(&held[i], "\"code\":\"stopping\"");
        assert_false(web_shows(&held[i], "[DONE]"));
        web_end(&held[i]);
    }
    assert_history(STREAMS, 0, STREAMS, 0);
}

/* Each call uses 160 tokens and is reserved with 185: 5 bytes, 80 of overhead, the cap of 100.
 */
static void limits_are_told_with_their_wait(void **state)
{
    struct web w;

    (void)state;
    model_set(&model, "{\"prompt_tokens\":60,\"completion_tokens\":100}");
    write_configuration(SERVER_SECTION "\nlimit visitor-day { per = address\n unit = calls\n"
                                       " window = day\n max = 1 }");
    ask(PLAIN, "Status: 200", "X-RateLimit-Remaining: 0");
    ask(PLAIN, "Status: 429", "\"address_limit\"");
    write_configuration(SERVER_SECTION "\nlimit little { per = everyone\n unit = tokens\n"
                                       " window = day\n max = 500 }");
    ask(PLAIN, "Status: 200", "chatcmpl-");
    web_init(&w, PLAIN);
    service_handle(service, &w.x);
    web_expect(&w, "\"site_limit\"");
    web_expect(&w, "Retry-After: ");
    /* of a shared limit only the minute is told */
    assert_int_equal(strtol(strstr(w.out, "Retry-After: ") + 13, NULL, 10) % 60, 0);
    web_end(&w);
    assert_history(2, 2, 0, 0);
}

/* ---- what changes under a running service ---- */

/* Asks until the output has the text: what was broken is tried again once a second. */
static void ask_until(const char *expected)
{
    int64_t until = clock_monotonic_ms() + MODEL_WAIT_MS;
    bool found = false;

    while (!found) {
        struct web w;

        web_init(&w, PLAIN);
        service_handle(service, &w.x);
        found = web_shows(&w, expected);
        if (!found && clock_monotonic_ms() > until)
            fail_msg("no %s in %s", expected, w.out);
        web_end(&w);
        poll(NULL, 0, 20);
    }
}

static void f53_a_changed_configuration_holds_at_once(void **state)
{
    (void)state;
    ask(PLAIN, "Status: 200", "chatcmpl-");
    write_configuration(SERVER_SECTION "\nlimit visitor-day { per = address\n unit = calls\n"
                                       " window = day\n max = 0 }");
    ask(PLAIN, "Status: 429", "\"address_limit\"");
    write_configuration(SERVER_SECTION " nonsense");
    ask(PLAIN, "Status: 503", "\"configuration\"");
    write_configuration(SERVER_SECTION);
    ask_until("Status: 200");
    assert_false(service_wants_restart(service));
    write_configuration("server { streams = 3 }");
    ask(PLAIN, "Status: 503", "\"stopping\"");
    assert_true(service_wants_restart(service));
}

static void f53_another_secret_is_no_fresh_quota(void **state)
{
    (void)state;
    unlink(scratch_path("secret"));
    assert_int_equal(secret_create(scratch_path("secret")), ERROR_NONE);
    ask(PLAIN, "Status: 503", "\"stopping\"");
    assert_true(service_wants_restart(service));
    end_service();
    begin_service(); /* as the new process does */
    ask(PLAIN, "Status: 503", "\"meter_unavailable\"");
}

static void a_process_that_began_without_a_configuration_starts_anew(void **state)
{
    (void)state;
    end_service();
    write_configuration("nonsense");
    begin_service();
    ask(PLAIN, "Status: 503", "\"configuration\"");
    assert_null(service_config(service));
    write_configuration(SERVER_SECTION);
    ask_until("\"stopping\"");
    assert_true(service_wants_restart(service));
}

static void f42_a_store_that_vanishes_refuses_until_it_is_back(void **state)
{
    (void)state;
    ask(PLAIN, "Status: 200", "chatcmpl-");
    assert_int_equal(rename(scratch_path("store"), scratch_path("away")), 0);
    for (int i = 0; i < 20; i++)
        ask(PLAIN, "Status: 503", "\"meter_unavailable\"");
    assert_int_equal(access(scratch_path("store"), F_OK), -1); /* nothing is made */
    assert_int_equal(model_count(&model, "calls"), 1);
    assert_int_equal(rename(scratch_path("away"), scratch_path("store")), 0);
    ask_until("Status: 200");
    assert_history(2, 2, 0, 0);
}

/* The stream's settle goes to the store it was charged to; nobody else is let at it. */
static void f42_a_replaced_store_is_opened_once_the_streams_have_ended(void **state)
{
    struct web w;
    pthread_t t;

    (void)state;
    model_set(&model, "{\"gap_ms\":100,\"chunks\":20}");
    web_init(&w, STREAMED);
    t = web_start(&w);
    web_wait(&w, "data: {");
    assert_int_equal(rename(scratch_path("store"), scratch_path("away")), 0);
    make_store();
    for (int i = 0; i < 5; i++)
        ask(PLAIN, "Status: 503", "\"meter_unavailable\"");
    pthread_join(t, NULL);
    web_expect(&w, "[DONE]");
    web_end(&w);
    model_set(&model, "{\"gap_ms\":0}");
    ask_until("Status: 200");
    assert_history(1, 1, 0, 0);
}

static void *ask_often(void *arg)
{
    unsigned *ok = arg;

    for (int i = 0; i < 40; i++) {
        struct web *w = malloc(sizeof(*w));

        assert_non_null(w);
        web_init(w, PLAIN);
        service_handle(service, &w->x);
        *ok += web_shows(w, "Status: 200");
        web_end(w);
        free(w);
    }
    return NULL;
}

/* Configuration and store change while four threads ask; the count stays exact. */
static void many_threads_share_what_changes(void **state)
{
    pthread_t threads[4];
    unsigned ok[4] = {0}, sum = 0;

    (void)state;
    write_configuration("server { streams = 2\n heartbeat = 1s }\n"
                        "request { max-history = 3 }");
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_often, &ok[i]), 0);
    for (int i = 0; i < 10; i++) {
        write_configuration(i % 2 == 0 ? SERVER_SECTION
                                       : SERVER_SECTION "\nrequest { max-history = 5 }");
        assert_int_equal(rename(scratch_path("store"), scratch_path("away")), 0);
        assert_int_equal(rename(scratch_path("away"), scratch_path("store")), 0);
        poll(NULL, 0, 20);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        sum += ok[i];
    }
    assert_true(sum <= CALLS);
    assert_int_equal(model_count(&model, "calls"), sum);
    assert_history(sum, sum, 0, 0);
}

#define WITH_SITE(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SITE(what_is_wrong_is_turned_away),
        WITH_SITE(what_is_no_request_for_the_model_is_in_no_figure_of_it),
        WITH_SITE(a_body_of_unknown_length_is_bounded_too),
        WITH_SITE(who_is_too_late_is_not_charged),
        WITH_SITE(f36_who_has_left_before_is_not_charged),
        WITH_SITE(models_are_listed),
        WITH_SITE(the_status_says_why_nobody_is_served),
        WITH_SITE(answers_are_settled_by_their_usage),
        WITH_SITE(f17_usage_is_sent_on_only_if_asked_for),
        WITH_SITE(each_trouble_of_the_model_has_its_answer_and_its_charge),
        WITH_SITE(a_model_that_is_not_there_costs_nothing),
        WITH_SITE(f35_a_silent_stream_beats),
        WITH_SITE(f36_the_call_of_a_caller_who_leaves_is_aborted),
        WITH_SITE(a_caller_who_cannot_be_written_to_is_left),
        WITH_SITE(f12_places_do_not_leak),
        WITH_SITE(who_finds_no_place_hears_busy_and_is_not_charged),
        WITH_SITE(limits_are_told_with_their_wait),
        WITH_SITE(f53_a_changed_configuration_holds_at_once),
        WITH_SITE(f53_another_secret_is_no_fresh_quota),
        WITH_SITE(a_process_that_began_without_a_configuration_starts_anew),
        WITH_SITE(f42_a_store_that_vanishes_refuses_until_it_is_back),
        WITH_SITE(f42_a_replaced_store_is_opened_once_the_streams_have_ended),
        WITH_SITE(many_threads_share_what_changes),
    };
    model_begin(&model);
    return model_end(&model, cmocka_run_group_tests(tests, NULL, NULL));
}
