/* Replies: header blocks, JSON and events as callers get them, over an exchange in memory. */
#include "gateway/reply.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "gateway/sink.h"

#define N(a) (sizeof(a) / sizeof((a)[0]))

/* -- an exchange that keeps what is written, and can break off -- */

struct memory {
    struct exchange x;
    char text[1 << 17];
    size_t n;
    size_t breaks_at; /* bytes it takes before it fails; 0: all */
    unsigned flushes;
};

static bool memory_write(struct exchange *x, const void *bytes, size_t n)
{
    struct memory *m = (struct memory *)x;
    assert_true(m->n + n < sizeof m->text);
    if (m->breaks_at > 0 && m->n + n > m->breaks_at)
        return false;
    memcpy(m->text + m->n, bytes, n);
    m->n += n;
    m->text[m->n] = '\0';
    return true;
}

static bool memory_flush(struct exchange *x)
{
    struct memory *m = (struct memory *)x;
    m->flushes++;
    return true;
}

static const struct exchange_ops memory_ops = {.write = memory_write, .flush = memory_flush};
static struct memory memory;

static struct reply fresh(void)
{
    memset(&memory, 0, sizeof memory);
    memory.x.ops = &memory_ops;
    return (struct reply){.x = &memory.x,
                          .id = "chatcmpl-0123456789abcdef01234567",
                          .created_s = 1767225600,
                          .model = "demo"};
}

/* The value of a header, in static storage; NULL if it is not there. */
static const char *header(const char *name)
{
    static char value[1024];
    const char *end = strstr(memory.text, "\r\n\r\n");
    const char *at = memory.text;
    assert_non_null(end);
    while (at < end + 2) {
        size_t n = strcspn(at, "\r\n");
        const char *colon = memchr(at, ':', n);
        assert_non_null(colon);
        if ((size_t)(colon - at) == strlen(name) && strncmp(at, name, strlen(name)) == 0) {
            size_t n_value = n - (size_t)(colon - at) - 2;
            assert_true(n_value < sizeof value);
            memcpy(value, colon + 2, n_value);
            value[n_value] = '\0';
            return value;
        }
        assert_true(strncmp(at + n, "\r\n", 2) == 0);
        at += n + 2;
    }
    return NULL;
}

static void expect_header(const char *what, const char *name, const char *value)
{
    const char *got = header(name);
    if ((value == NULL) != (got == NULL) || (value != NULL && strcmp(got, value) != 0))
        fail_msg("%s: %s is %s, not %s", what, name, got == NULL ? "missing" : got,
                 value == NULL ? "missing" : value);
}

static const char *body(void)
{
    const char *end = strstr(memory.text, "\r\n\r\n");
    assert_non_null(end);
    return end + 4;
}

/* The body's JSON, with its length as announced. */
static json_t *body_json(void)
{
    char length[32];
    snprintf(length, sizeof length, "%zu", strlen(body()));
    expect_header("length", "Content-Length", length);
    json_t *v = json_loads(body(), JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(v);
    return v;
}

static const char *text_at(const json_t *v, const char *a, const char *b)
{
    return json_string_value(json_object_get(json_object_get(v, a), b));
}

/* -- errors -- */

static void test_every_code(void **state)
{
    (void)state;
    for (int c = CODE_NONE + 1; c < CODES; c++) {
        struct reply r = fresh();
        struct reply_error e = {.code = (enum code)c};
        const struct code_entry *entry = code_entry(e.code);
        char status[64];
        assert_true(reply_error(&r, &e, NULL));
        snprintf(status, sizeof status, "Status: %d %s\r\n", entry->status, entry->reason);
        assert_int_equal(strncmp(memory.text, status, strlen(status)), 0);
        expect_header(entry->name, "Content-Type", "application/json");
        expect_header(entry->name, "Cache-Control", "no-store");
        expect_header(entry->name, "Allow", NULL);
        bool waits = entry->status == 429 || entry->status == 503;
        expect_header(entry->name, "Retry-After", waits ? "1" : NULL);
        expect_header(entry->name, "retry-after-ms", NULL);
        expect_header(entry->name, "x-should-retry", NULL);
        expect_header(entry->name, "X-RateLimit-Limit", NULL);
        json_t *v = body_json();
        assert_string_equal(text_at(v, "error", "message"), entry->message);
        assert_string_equal(text_at(v, "error", "type"), entry->type);
        assert_string_equal(text_at(v, "error", "code"), entry->name);
        assert_true(json_is_null(json_object_get(json_object_get(v, "error"), "param")));
        json_decref(v);
        assert_true(memory.flushes > 0);
    }
}

/* F51's half that is ours. */
static void test_waits(void **state)
{
    static const struct {
        const char *what;
        struct reply_error e;
        const char *after, *after_ms, *retry;
    } rows[] = {
        {"below a second", {.code = CODE_BURST_LIMIT, .wait_ms = 1}, "1", "1", NULL},
        {"just below a second", {.code = CODE_BURST_LIMIT, .wait_ms = 999}, "1", "999", NULL},
        {"a second", {.code = CODE_BURST_LIMIT, .wait_ms = 1000}, "1", NULL, NULL},
        {"rounded up", {.code = CODE_BURST_LIMIT, .wait_ms = 1001}, "2", NULL, NULL},
        {"a minute", {.code = CODE_ADDRESS_LIMIT, .wait_ms = 60000}, "60", NULL, NULL},
        {"more", {.code = CODE_ADDRESS_LIMIT, .wait_ms = 60001}, "61", NULL, "false"},
        {"a day", {.code = CODE_ADDRESS_LIMIT, .wait_ms = 86400000}, "86400", NULL, "false"},
        {"up to the minute",
         {.code = CODE_SITE_LIMIT, .wait_ms = 1, .minute = true},
         "60",
         NULL,
         NULL},
        {"a whole minute",
         {.code = CODE_SITE_LIMIT, .wait_ms = 60000, .minute = true},
         "60",
         NULL,
         NULL},
        {"to the next minute",
         {.code = CODE_SITE_LIMIT, .wait_ms = 60001, .minute = true},
         "120",
         NULL,
         "false"},
        {"none is told as one second", {.code = CODE_BUSY}, "1", NULL, NULL},
        {"the past", {.code = CODE_BUSY, .wait_ms = -5000}, "1", NULL, NULL},
        {"upstream's", {.code = CODE_UPSTREAM_REFUSED, .wait_ms = 20000}, "20", NULL, NULL},
        {"billed", {.code = CODE_UPSTREAM_TIMEOUT, .billed = true}, NULL, NULL, "false"},
        {"the largest",
         {.code = CODE_SITE_LIMIT, .wait_ms = INT64_MAX},
         "9223372036854776",
         NULL,
         "false"},
    };
    (void)state;
    for (size_t i = 0; i < N(rows); i++) {
        struct reply r = fresh();
        assert_true(reply_error(&r, &rows[i].e, NULL));
        expect_header(rows[i].what, "Retry-After", rows[i].after);
        expect_header(rows[i].what, "retry-after-ms", rows[i].after_ms);
        expect_header(rows[i].what, "x-should-retry", rows[i].retry);
    }
}

static void test_error_details(void **state)
{
    struct reply r = fresh();
    struct reply_error e = {.code = CODE_TOO_LONG,
                            .param = "messages[0].content",
                            .detail = "Not \"more\" \\ than\n\x01 99 \xE2\x80\xA8 characters."};
    (void)state;
    assert_true(reply_error(&r, &e, NULL));
    json_t *v = body_json();
    assert_string_equal(text_at(v, "error", "message"), e.detail);
    assert_string_equal(text_at(v, "error", "param"), e.param);
    json_decref(v);

    r = fresh();
    e = (struct reply_error){.code = CODE_METHOD, .allow = "POST, OPTIONS"};
    assert_true(reply_error(&r, &e, NULL));
    expect_header("405", "Allow", "POST, OPTIONS");
    expect_header("405", "X-Request-Id", "chatcmpl-0123456789abcdef01234567");
}

static void test_head_has_no_body(void **state)
{
    struct reply r = fresh();
    struct reply_error e = {.code = CODE_METHOD, .allow = "GET"};
    (void)state;
    r.head = true;
    assert_true(reply_error(&r, &e, NULL));
    assert_string_equal(body(), "");
    assert_true(atoi(header("Content-Length")) > 50);
}

/* -- rates -- */

static const struct limit limits[] = {
    {.name = "visitor-day", .subject = SUBJECT_ADDRESS, .window = {WINDOW_DAY, 0}, .max = 40},
    {.name = "visitor-burst",
     .subject = SUBJECT_VISITOR,
     .window = {WINDOW_SLIDING, 10},
     .max = 10},
    {.name = "site-day", .subject = SUBJECT_EVERYONE, .window = {WINDOW_DAY, 0}, .max = 600},
    {.name = "anonymous-day",
     .subject = SUBJECT_ANONYMOUS,
     .window = {WINDOW_DAY, 0},
     .max = 100},
    {.name = "spend",
     .subject = SUBJECT_ACCOUNT,
     .unit = UNIT_COST,
     .window = {WINDOW_HOUR, 0},
     .max = 2000000000},
    {.name = "words",
     .subject = SUBJECT_ADDRESS,
     .unit = UNIT_TOKENS,
     .window = {WINDOW_HOUR, 0},
     .max = 5000},
    {.name = "counted",
     .subject = SUBJECT_ADDRESS,
     .window = {WINDOW_HOUR, 0},
     .max = LIMIT_UNLIMITED},
    {.name = "bypass", .subject = SUBJECT_BYPASS, .window = {WINDOW_DAY, 0}, .max = 100},
    {.name = "huge", .subject = SUBJECT_KEY, .window = {WINDOW_MONTH, 0}, .max = AMOUNT_MAX},
};
enum { DAY, BURST, SITE, ANONYMOUS, SPEND, WORDS, COUNTED, BYPASS, HUGE };

/* One more of the answer's standings. */
static void stand(struct answer *a, int limit, uint64_t remaining, int64_t wait_ms)
{
    unsigned i = a->verdict.n_standings++;

    a->verdict.standings[i] = (struct standing){limits[limit], remaining, 0};
    a->standing_wait_ms[i] = wait_ms;
}

static void expect_rates(const struct answer *a, const char *policy_field, const char *rates,
                         const char *limit, const char *remaining, const char *reset)
{
    struct reply r = fresh();
    struct reply_error e = {.code = CODE_ADDRESS_LIMIT, .wait_ms = 1000};
    assert_true(reply_error(&r, &e, a));
    expect_header("rates", "RateLimit-Policy", policy_field);
    expect_header("rates", "RateLimit", rates);
    expect_header("rates", "X-RateLimit-Limit", limit);
    expect_header("rates", "X-RateLimit-Remaining", remaining);
    expect_header("rates", "X-RateLimit-Reset", reset);
    assert_non_null(strstr(body(), "address_limit"));
}

static void test_rates(void **state)
{
    struct answer a = {0};
    (void)state;
    stand(&a, DAY, 12, 5399001);
    stand(&a, BURST, 7, 9000);
    expect_rates(&a, "\"visitor-day\";q=40;w=86400, \"visitor-burst\";q=10;w=10",
                 "\"visitor-day\";r=12;t=5400, \"visitor-burst\";r=7;t=9", "10", "7", "9");
    a.verdict.standings[0].remaining = 0;
    expect_rates(&a, "\"visitor-day\";q=40;w=86400, \"visitor-burst\";q=10;w=10",
                 "\"visitor-day\";r=0;t=5400, \"visitor-burst\";r=7;t=9", "40", "0", "5400");
    a.verdict.standings[1].remaining = 0; /* of equals the longer wait */
    expect_rates(&a, "\"visitor-day\";q=40;w=86400, \"visitor-burst\";q=10;w=10",
                 "\"visitor-day\";r=0;t=5400, \"visitor-burst\";r=0;t=9", "40", "0", "5400");
    a.verdict.n_standings = 0;
    expect_rates(&a, NULL, NULL, NULL, NULL, NULL);
    expect_rates(NULL, NULL, NULL, NULL, NULL, NULL);
}

/* Invariant 8: whatever the verdict says, only the caller's own calls limits are told. */
static void test_nothing_leaks_by_rates(void **state)
{
    struct answer a = {0};
    (void)state;
    for (int i = SITE; i <= BYPASS; i++)
        stand(&a, i, 1, 0);
    expect_rates(&a, NULL, NULL, NULL, NULL, NULL);
    stand(&a, HUGE, AMOUNT_MAX, -5);
    expect_rates(&a, "\"huge\";q=999999999999999;w=2678400", "\"huge\";r=999999999999999;t=0",
                 "999999999999999", "999999999999999", "0");
    a.verdict.n_standings = UINT32_MAX; /* must not be believed beyond the array */
    a.verdict.standings[STANDINGS_MAX - 1] = (struct standing){limits[DAY], 3, 0};
    expect_rates(&a, "\"huge\";q=999999999999999;w=2678400, \"visitor-day\";q=40;w=86400",
                 "\"huge\";r=999999999999999;t=0, \"visitor-day\";r=3;t=0", "40", "3", "0");
}

static void test_longest_rates_fit(void **state)
{
    struct answer a = {.verdict = {.n_standings = STANDINGS_MAX}};
    struct reply r = fresh();
    (void)state;
    for (unsigned i = 0; i < STANDINGS_MAX; i++) {
        a.verdict.standings[i].limit =
            (struct limit){.name = "0123456789012345678901234567890",
                           .subject = SUBJECT_KEY,
                           .window = {WINDOW_SLIDING, WINDOW_SECONDS_MAX},
                           .max = AMOUNT_MAX};
        a.verdict.standings[i].remaining = AMOUNT_MAX;
        a.standing_wait_ms[i] = INT64_MAX;
    }
    assert_true(reply_stream_start(&r, &a));
    assert_true(strlen(header("RateLimit")) > (size_t)8 * 60);
}

/* -- status -- */

static struct config offer = {.n_models = 2,
                              .models = {{.alias = "demo"}, {.alias = "other"}},
                              .max_message_chars = 4000,
                              .max_input_chars = 20000,
                              .max_history = 10};
#define OFFER                                                                                  \
    "\"input\":{\"max_message_chars\":4000,\"max_input_chars\":20000,\"max_history\":10},"     \
    "\"model\":\"demo\",\"models\":[\"demo\",\"other\"]}\n"

static const struct {
    const char *why;
    struct reply_error no;
    enum outcome outcome;
    uint64_t left; /* of 40, after the call that is not made */
    int64_t wait_ms;
    const char *expected;
} statuses[] = {
    {"a call that is not made leaves what was there",
     {0},
     OUTCOME_ADMITTED,
     11,
     5399001,
     "{\"available\":true,\"code\":null,\"message\":null,\"retry_after\":null,\"limits\":[{"
     "\"name\":\"visitor-day\",\"remaining\":12,\"max\":40,\"window_s\":86400,\"more_in_s\":"
     "5400}]," OFFER},
    {"where nothing has been used nothing comes back",
     {0},
     OUTCOME_ADMITTED,
     39,
     5399001,
     "{\"available\":true,\"code\":null,\"message\":null,\"retry_after\":null,\"limits\":[{"
     "\"name\":\"visitor-day\",\"remaining\":40,\"max\":40,\"window_s\":86400,\"more_in_s\":"
     "null}]," OFFER},
    {"the caller's own limit",
     {.code = CODE_ADDRESS_LIMIT, .wait_ms = 5399001},
     OUTCOME_REFUSED,
     0,
     5399001,
     "{\"available\":false,\"code\":\"address_limit\",\"message\":\"Everything allowed to your "
     "network for now has been used. Please come back later.\",\"retry_after\":5400,"
     "\"limits\":[{\"name\":\"visitor-day\",\"remaining\":0,\"max\":40,\"window_s\":86400,"
     "\"more_in_s\":5400}]," OFFER},
    {"a shared limit's wait is rounded up to the minute",
     {.code = CODE_SITE_LIMIT, .wait_ms = 61000, .minute = true},
     OUTCOME_REFUSED,
     3,
     0,
     "{\"available\":false,\"code\":\"site_limit\",\"message\":\"This site has used what it "
     "allows itself for now. Please come back later.\",\"retry_after\":120,\"limits\":[{"
     "\"name\":\"visitor-day\",\"remaining\":3,\"max\":40,\"window_s\":86400,\"more_in_s\":"
     "null}]," OFFER},
    {"what waiting does not help",
     {.code = CODE_TOO_LONG},
     OUTCOME_TOO_LONG,
     3,
     7000,
     "{\"available\":false,\"code\":\"too_long\",\"message\":\"The message is too long. Please "
     "shorten it, or start anew.\",\"retry_after\":null,\"limits\":[{\"name\":\"visitor-day\","
     "\"remaining\":3,\"max\":40,\"window_s\":86400,\"more_in_s\":7}]," OFFER},
};

static void test_status(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(statuses); i++) {
        struct reply r = fresh();
        struct answer a = {.verdict.outcome = statuses[i].outcome};

        stand(&a, SITE, 100, 1000); /* nobody's business */
        stand(&a, DAY, statuses[i].left, statuses[i].wait_ms);
        stand(&a, SPEND, 100, 1000);
        assert_true(reply_status(&r, &offer, &statuses[i].no, &a));
        assert_int_equal(strncmp(memory.text, "Status: 200 OK\r\n", 16), 0);
        expect_header(statuses[i].why, "Cache-Control", "no-store");
        json_decref(body_json());
        if (strcmp(body(), statuses[i].expected) != 0)
            fail_msg("%s: %s", statuses[i].why, body());
    }
}

/* Where nobody could be asked there is nothing to tell of limits. */
static void test_status_without_an_answer(void **state)
{
    struct reply r = fresh();
    struct reply_error no = {.code = CODE_METER};
    (void)state;
    assert_true(reply_status(&r, &offer, &no, NULL));
    json_t *v = body_json();
    assert_int_equal(json_array_size(json_object_get(v, "limits")), 0);
    assert_int_equal(json_integer_value(json_object_get(v, "retry_after")), 1);
    json_decref(v);
}

/* -- pages of other sites -- */

#define PAGE "https://page.example"

/* Each kind of answer, to an allowed page, to one of our own, and where nobody is allowed. */
static void test_cors(void **state)
{
    static const struct access allowed = {.present = true, .origin = PAGE, .varies = true},
                               own = {.present = true, .varies = true}, nobody = {0};
    static const struct {
        const struct access *access;
        const char *origin, *vary;
    } rows[] = {{&allowed, PAGE, "Origin"}, {&own, NULL, "Origin"}, {&nobody, NULL, NULL}};
    struct reply_error e = {.code = CODE_ADDRESS_LIMIT};
    struct part p = {.finish = FINISH_STOP};
    (void)state;
    for (size_t i = 0; i < N(rows); i++) {
        for (int kind = 0; kind < 6; kind++) {
            struct reply r = fresh();
            r.access = rows[i].access;
            assert_true(kind == 0   ? reply_error(&r, &e, NULL)
                        : kind == 1 ? reply_completion(&r, &p, NULL)
                        : kind == 2 ? reply_stream_start(&r, NULL)
                        : kind == 3 ? reply_models(&r, &offer)
                        : kind == 4 ? reply_status(&r, &offer, &e, NULL)
                                    : reply_preflight(&r, "POST", NULL));
            expect_header("CORS", "Access-Control-Allow-Origin", rows[i].origin);
            expect_header("CORS", "Vary", rows[i].vary);
            expect_header("CORS", "Access-Control-Allow-Credentials", NULL);
            assert_true((header("Access-Control-Expose-Headers") != NULL) ==
                        (rows[i].origin != NULL));
        }
    }
}

static void test_credentials_only_where_the_cookie_may_cross(void **state)
{
    struct access a = {.present = true, .origin = PAGE, .varies = true, .credentials = true};
    struct reply_error e = {.code = CODE_BUSY};
    struct reply r = fresh();
    (void)state;
    r.access = &a;
    assert_true(reply_error(&r, &e, NULL));
    expect_header("listed", "Access-Control-Allow-Credentials", "true");
    a.origin = NULL;
    r = fresh();
    r.access = &a;
    assert_true(reply_error(&r, &e, NULL));
    expect_header("our own", "Access-Control-Allow-Credentials", NULL);
}

/* The rate headers and whatever an SDK looks at can be read by the page's script. */
static void test_what_a_page_may_read(void **state)
{
    static const char *const names[] = {
        "X-Request-Id",     "Retry-After",      "retry-after-ms",    "x-should-retry",
        "RateLimit",        "RateLimit-Policy", "X-RateLimit-Limit", "X-RateLimit-Remaining",
        "X-RateLimit-Reset"};
    struct access a = {.present = true, .origin = PAGE, .varies = true};
    struct reply_error e = {.code = CODE_BUSY};
    struct reply r = fresh();
    (void)state;
    r.access = &a;
    assert_true(reply_error(&r, &e, NULL));
    for (size_t i = 0; i < N(names); i++)
        assert_non_null(strstr(header("Access-Control-Expose-Headers"), names[i]));
}

static void test_preflight(void **state)
{
    struct access a = {.present = true, .origin = PAGE, .varies = true};
    struct reply r = fresh();
    (void)state;
    r.access = &a;
    assert_true(reply_preflight(&r, "POST, OPTIONS", "content-type, x-pennygate-bypass"));
    assert_int_equal(strncmp(memory.text, "Status: 204 No Content\r\n", 24), 0);
    expect_header("preflight", "Access-Control-Allow-Methods", "POST, OPTIONS");
    expect_header("preflight", "Access-Control-Allow-Headers", "content-type");
    expect_header("preflight", "Access-Control-Max-Age", "600");
    expect_header("preflight", "Content-Length", NULL); /* of a 204 there is none */
    assert_string_equal(body(), "");
    r = fresh();
    r.access = &a;
    assert_true(reply_preflight(&r, "POST, OPTIONS", NULL));
    expect_header("uhttpd does not hand over what was asked", "Access-Control-Allow-Headers",
                  "authorization, content-type");
}

static void test_the_cookie_is_on_what_is_answered_from_then_on(void **state)
{
    struct reply_error e = {.code = CODE_UPSTREAM_ERROR};
    struct reply r = fresh();
    (void)state;
    assert_true(reply_error(&r, &e, NULL));
    expect_header("before", "Set-Cookie", NULL);
    r = fresh();
    r.cookie = "a=b; Path=/";
    assert_true(reply_error(&r, &e, NULL));
    expect_header("an error after the admission", "Set-Cookie", "a=b; Path=/");
    r = fresh();
    r.cookie = "a=b; Path=/";
    assert_true(reply_stream_start(&r, NULL));
    expect_header("a stream", "Set-Cookie", "a=b; Path=/");
}

static void test_who_could_show_a_key_is_told_so(void **state)
{
    struct reply_error e = {.code = CODE_UNAUTHORIZED, .bearer = true};
    struct reply r = fresh();
    (void)state;
    assert_true(reply_error(&r, &e, NULL));
    expect_header("a key", "WWW-Authenticate", "Bearer");
    e.bearer = false;
    r = fresh();
    assert_true(reply_error(&r, &e, NULL));
    expect_header("an account", "WWW-Authenticate", NULL);
    e = (struct reply_error){.code = CODE_NO_ADDRESS, .bearer = true};
    r = fresh();
    assert_true(reply_error(&r, &e, NULL));
    expect_header("another reason", "WWW-Authenticate", NULL);
}

/* -- answers -- */

static char hello[] =
    "Hi \"you\" \\ \n\t\x7F\x01 </script> \xE2\x80\xA8\xE2\x80\xA9\xF0\x9F\x98\x80";

static void test_completion(void **state)
{
    struct reply r = fresh();
    struct part p = {.text = hello,
                     .bytes = sizeof hello - 1,
                     .finish = FINISH_STOP,
                     .usage = {.known = true, .input = 100, .cached_input = 80, .output = 10}};
    (void)state;
    assert_true(reply_completion(&r, &p, NULL));
    assert_int_equal(strncmp(memory.text, "Status: 200 OK\r\n", 16), 0);
    expect_header("completion", "Content-Type", "application/json");
    expect_header("completion", "Cache-Control", "no-store");
    json_t *v = body_json();
    json_t *choice = json_array_get(json_object_get(v, "choices"), 0);
    assert_string_equal(text_at(choice, "message", "content"), hello);
    assert_string_equal(text_at(choice, "message", "role"), "assistant");
    json_t *expected = json_pack(
        "{s:s, s:s, s:i, s:s, s:[{s:i, s:{s:s, s:s, s:n}, s:n, s:s}], s:{s:i, s:i, s:i}}", "id",
        "chatcmpl-0123456789abcdef01234567", "object", "chat.completion", "created", 1767225600,
        "model", "demo", "choices", "index", 0, "message", "role", "assistant", "content",
        hello, "refusal", "logprobs", "finish_reason", "stop", "usage", "prompt_tokens", 100,
        "completion_tokens", 10, "total_tokens", 110);
    assert_true(json_equal(v, expected));
    json_decref(expected);
    json_decref(v);
}

/* F27: an answer that was nothing but reasoning is an empty text that ended by its length. */
static void test_f27_nothing_visible(void **state)
{
    static const struct {
        enum finish finish;
        const char *word;
    } rows[] = {{FINISH_LENGTH, "length"},
                {FINISH_FILTER, "content_filter"},
                {FINISH_STOP, "stop"},
                {FINISH_OTHER, "stop"}};
    (void)state;
    for (size_t i = 0; i < N(rows); i++) {
        struct reply r = fresh();
        struct part p = {.finish = rows[i].finish};
        assert_true(reply_completion(&r, &p, NULL));
        json_t *v = body_json();
        json_t *choice = json_array_get(json_object_get(v, "choices"), 0);
        assert_string_equal(text_at(choice, "message", "content"), "");
        assert_string_equal(json_string_value(json_object_get(choice, "finish_reason")),
                            rows[i].word);
        assert_null(json_object_get(v, "usage"));
        json_decref(v);
    }
}

static void test_long_answer(void **state)
{
    size_t n = 16000;
    char *text = malloc(n + 1);
    struct reply r = fresh();
    struct part p = {.text = text, .bytes = n, .finish = FINISH_STOP};
    (void)state;
    assert_non_null(text);
    for (size_t i = 0; i < n; i++)
        text[i] = (char)(i % 127 + 1); /* every character that needs an escape, too */
    text[n] = '\0';
    assert_true(reply_completion(&r, &p, NULL));
    json_t *v = body_json();
    json_t *choice = json_array_get(json_object_get(v, "choices"), 0);
    assert_string_equal(text_at(choice, "message", "content"), text);
    json_decref(v);
    free(text);
}

static void test_models(void **state)
{
    static struct config c = {.n_models = 2, .models = {{.alias = "demo"}, {.alias = "other"}}};
    static char real[] = "gpt-real";
    struct reply r = fresh();
    (void)state;
    c.models[0].name = real;
    assert_true(reply_models(&r, &c));
    json_t *v = body_json();
    json_t *expected = json_pack("{s:s, s:[{s:s, s:s, s:i, s:s}, {s:s, s:s, s:i, s:s}]}",
                                 "object", "list", "data", "id", "demo", "object", "model",
                                 "created", 1767225600, "owned_by", "site", "id", "other",
                                 "object", "model", "created", 1767225600, "owned_by", "site");
    assert_true(json_equal(v, expected));
    json_decref(expected);
    json_decref(v);
    assert_null(strstr(memory.text, "real"));
}

/* -- streams -- */

/* F33, F34: what keeps web servers from buffering and compressing. */
static void test_f33_f34_stream_headers(void **state)
{
    struct answer a = {0};
    struct reply r = fresh();
    (void)state;
    stand(&a, DAY, 12, 5400000);
    assert_true(reply_stream_start(&r, &a));
    assert_int_equal(strncmp(memory.text, "Status: 200 OK\r\n", 16), 0);
    expect_header("stream", "Content-Type", "text/event-stream; charset=utf-8");
    expect_header("stream", "Cache-Control", "no-cache, no-transform");
    expect_header("stream", "X-Accel-Buffering", "no");
    expect_header("stream", "RateLimit", "\"visitor-day\";r=12;t=5400");
    expect_header("stream", "X-RateLimit-Reset", "5400");
    expect_header("stream", "Content-Length", NULL);
    assert_string_equal(body(), "");
    assert_int_equal(memory.flushes, 1);
}

#define CHUNK                                                                                  \
    "data: "                                                                                   \
    "{\"id\":\"chatcmpl-0123456789abcdef01234567\",\"object\":\"chat.completion.chunk\","      \
    "\"created\":1767225600,\"model\":\"demo\",\"choices\":["

/* F30, F32, F33: each event whole, on one line, and flushed. */
static void test_f32_f33_events(void **state)
{
    static const struct usage usage = {.known = true, .input = 7, .output = 3};
    struct reply r = fresh();
    (void)state;
    assert_true(reply_stream_text(&r, true, NULL, FINISH_NONE));
    assert_true(reply_stream_text(&r, false, "a\n\r\n\"\xE2\x80\xA8", FINISH_NONE));
    assert_true(reply_stream_heartbeat(&r));
    assert_true(reply_stream_text(&r, false, NULL, FINISH_LENGTH));
    assert_true(reply_stream_usage(&r, &usage));
    assert_true(reply_stream_done(&r));
    assert_int_equal(memory.flushes, 6);
    assert_string_equal(
        memory.text, CHUNK
        "{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
        "\"finish_reason\":null}]}\n\n" CHUNK
        "{\"index\":0,\"delta\":{\"content\":\"a\\u000a\\u000d\\u000a\\u0022\xE2\x80\xA8\"},"
        "\"finish_reason\":null}]}\n\n"
        ":\n\n" CHUNK "{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}\n\n" CHUNK
        "],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3,\"total_tokens\":10}}"
        "\n\ndata: [DONE]\n\n");

    r = fresh();
    assert_true(reply_stream_text(&r, true, "all", FINISH_STOP));
    assert_string_equal(memory.text, CHUNK
                        "{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"all\"},"
                        "\"finish_reason\":\"stop\"}]}\n\n");
}

/* F23, F24: trouble in a stream is one error event, and no end mark. */
static void test_f24_stream_error(void **state)
{
    struct reply r = fresh();
    (void)state;
    assert_true(reply_stream_error(&r, CODE_UPSTREAM_ERROR));
    assert_int_equal(strncmp(memory.text, "data: ", 6), 0);
    assert_string_equal(memory.text + memory.n - 2, "\n\n");
    assert_null(strstr(memory.text, "[DONE]"));
    json_t *v = json_loads(memory.text + 6, 0, NULL);
    assert_non_null(v);
    assert_string_equal(text_at(v, "error", "code"), "upstream_error");
    assert_string_equal(text_at(v, "error", "type"), "server_error");
    json_decref(v);
    assert_int_equal(memory.flushes, 1);
}

/* Once the exchange has failed, nothing more is written, and that is told. */
static void test_exchange_that_breaks_off(void **state)
{
    char text[5000];
    struct part p = {.text = text, .bytes = sizeof text - 1, .finish = FINISH_STOP};
    struct reply_error e = {.code = CODE_BUSY};
    (void)state;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    for (size_t at = 1; at < 5000; at += 700) {
        struct reply r = fresh();
        memory.breaks_at = at;
        assert_false(reply_completion(&r, &p, NULL));
        assert_true(memory.n <= at);
        assert_int_equal(memory.flushes, 0);
    }
    struct reply r = fresh();
    memory.breaks_at = 1;
    assert_false(reply_error(&r, &e, NULL));
    assert_false(reply_stream_start(&r, NULL));
    assert_false(reply_stream_text(&r, true, "a", FINISH_NONE));
    assert_false(reply_stream_heartbeat(&r));
    assert_false(reply_stream_error(&r, CODE_STOPPING));
    assert_false(reply_stream_done(&r));
    assert_int_equal(memory.n, 0);
}

/* -- pages and files -- */

static void two_lines(struct sink *s, const struct reply *r, const void *what)
{
    (void)r;
    sink_text(s, what);
    sink_text(s, "two\n");
}

static void test_a_page_is_kept_by_no_cache(void **state)
{
    struct reply r = fresh();
    (void)state;
    assert_true(
        reply_page(&r, "text/html; charset=utf-8", "X-Of-Page: 1\r\n", two_lines, "one\n"));
    assert_int_equal(strncmp(memory.text, "Status: 200 OK\r\n", 16), 0);
    expect_header("page", "Content-Type", "text/html; charset=utf-8");
    expect_header("page", "Cache-Control", "no-store");
    expect_header("page", "X-Of-Page", "1");
    expect_header("page", "Content-Length", "8");
    assert_string_equal(body(), "one\ntwo\n");
    r = fresh();
    r.head = true;
    assert_true(reply_page(&r, "text/html", "", two_lines, "one\n"));
    expect_header("page", "Content-Length", "8");
    assert_string_equal(body(), "");
}

static void too_long_a_piece(struct sink *s, const struct reply *r, const void *what)
{
    (void)r;
    (void)what;
    sink_format(s, "%0*d", SINK_PIECE, 0);
}

/* Of a body that is short enough to be sent as it was counted, the first pass is the only one. */
static void test_a_body_that_cannot_be_made_whole_is_not_sent(void **state)
{
    struct reply r = fresh();

    (void)state;
    assert_false(reply_page(&r, "text/html", "", too_long_a_piece, NULL));
    assert_int_equal(memory.n, 0);
    r.head = true;
    assert_false(reply_page(&r, "text/html", "", too_long_a_piece, NULL));
    assert_int_equal(memory.n, 0);
}

static void test_a_file_that_is_known_is_not_sent_again(void **state)
{
    static const struct {
        const char *known;
        int status;
    } rows[] = {
        {NULL, 200},       {"", 200},
        {"\"7-3\"", 304},  {"W/\"7-3\"", 304},
        {"*", 304},        {"\"1\", \"7-3\"", 304},
        {"\"17-3\"", 200}, {"\"7-3-gzip\"", 200},
        {"7-3", 200},      {"\"7-3", 200},
    };
    static const struct reply_file file = {.type = "text/plain",
                                           .lines = "Cache-Control: public, max-age=600\r\n",
                                           .tag = "\"7-3\"",
                                           .text = "a\0b",
                                           .n = 3};
    (void)state;
    for (size_t i = 0; i < N(rows); i++) {
        struct reply r = fresh();
        assert_true(reply_file(&r, &file, rows[i].known));
        assert_int_equal(strtol(memory.text + strlen("Status: "), NULL, 10), rows[i].status);
        expect_header("file", "ETag", "\"7-3\"");
        expect_header("file", "Cache-Control", "public, max-age=600");
        expect_header("file", "Content-Length", rows[i].status == 200 ? "3" : NULL);
        assert_memory_equal(body(), rows[i].status == 200 ? "a\0b" : "\0\0\0", 4);
    }
    struct reply r = fresh();
    r.head = true;
    assert_true(reply_file(&r, &file, NULL));
    expect_header("file", "Content-Length", "3");
    assert_string_equal(body(), "");
}

static void test_what_has_moved_is_beside_what_was_asked_for(void **state)
{
    struct reply r = fresh();
    (void)state;
    assert_true(reply_moved(&r, "ai"));
    assert_int_equal(strncmp(memory.text, "Status: 308 Permanent Redirect\r\n", 32), 0);
    expect_header("moved", "Location", "ai/");
    expect_header("moved", "Content-Length", "0");
    assert_string_equal(body(), "");
}

static void test_a_password_is_asked_for(void **state)
{
    struct reply r = fresh();
    struct reply_error e = {.code = CODE_UNAUTHORIZED, .basic = true};
    (void)state;
    assert_true(reply_error(&r, &e, NULL));
    expect_header("401", "WWW-Authenticate", "Basic realm=\"pennygate\", charset=\"UTF-8\"");
    r = fresh();
    e.code = CODE_DASHBOARD_CLOSED;
    assert_true(reply_error(&r, &e, NULL));
    expect_header("403", "WWW-Authenticate", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_code),
        cmocka_unit_test(test_waits),
        cmocka_unit_test(test_error_details),
        cmocka_unit_test(test_head_has_no_body),
        cmocka_unit_test(test_rates),
        cmocka_unit_test(test_nothing_leaks_by_rates),
        cmocka_unit_test(test_longest_rates_fit),
        cmocka_unit_test(test_status),
        cmocka_unit_test(test_status_without_an_answer),
        cmocka_unit_test(test_cors),
        cmocka_unit_test(test_credentials_only_where_the_cookie_may_cross),
        cmocka_unit_test(test_what_a_page_may_read),
        cmocka_unit_test(test_preflight),
        cmocka_unit_test(test_the_cookie_is_on_what_is_answered_from_then_on),
        cmocka_unit_test(test_who_could_show_a_key_is_told_so),
        cmocka_unit_test(test_completion),
        cmocka_unit_test(test_f27_nothing_visible),
        cmocka_unit_test(test_long_answer),
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_f33_f34_stream_headers),
        cmocka_unit_test(test_f32_f33_events),
        cmocka_unit_test(test_f24_stream_error),
        cmocka_unit_test(test_exchange_that_breaks_off),
        cmocka_unit_test(test_a_page_is_kept_by_no_cache),
        cmocka_unit_test(test_a_body_that_cannot_be_made_whole_is_not_sent),
        cmocka_unit_test(test_a_file_that_is_known_is_not_sent_again),
        cmocka_unit_test(test_what_has_moved_is_beside_what_was_asked_for),
        cmocka_unit_test(test_a_password_is_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
