/* The owner's pages: one report for whoever asks within a second, and what is said instead. Guard,
 * report and outputs have stand-ins. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "gateway/guard.h"
#include "gateway/pages.h"
#include "gateway/report.h"
#include "platform/clock.h"

#define SLACK_MS 10000 /* a busy machine */

/* ---- stand-ins ---- */

static enum guard guard;
static enum error guard_error, verify_error, report_error;
static atomic_uint made, freed, faults;

enum guard guard_check(const struct exchange *x, const struct config *c, struct ledger *l,
                       enum error *e)
{
    (void)x;
    (void)c;
    (void)l;
    *e = guard_error;
    return guard;
}

enum error report_make(struct ledger *l, struct config *c, unsigned days, int64_t now_s,
                       struct report **out)
{
    (void)l;
    if (report_error != ERROR_NONE)
        return report_error;
    assert_int_equal(days, REPORT_DAYS);
    *out = calloc(1, sizeof(**out));
    assert_non_null(*out);
    (*out)->config = c;
    (*out)->now_s = now_s;
    (*out)->n_dry = atomic_fetch_add(&made, 1) + 1; /* its number */
    return ERROR_NONE;
}

void report_free(struct report *r)
{
    atomic_fetch_add(&freed, 1);
    free(r);
}

void dashboard_html(struct sink *s, const struct report *r)
{
    sink_format(s, "<html>%u", r->n_dry);
}

void report_json(struct sink *s, const struct report *r)
{
    sink_format(s, "{\"report\":%u}", r->n_dry);
}

void metrics_text(struct sink *s, const struct report *r)
{
    sink_format(s, "report %u\n", r->n_dry);
}

enum code site_fault(struct site *s, const struct site_use *use, enum error e)
{
    (void)s;
    (void)use;
    atomic_fetch_add(&faults, 1);
    return code_of_error(e);
}

enum error ledger_verify(struct ledger *l)
{
    (void)l;
    return verify_error;
}

void ledger_figure(struct ledger *l, enum figure f)
{
    (void)l;
    fail_msg("a figure of requests for the model: %d", f);
}

static unsigned codes[LIVE_DECISION - LIVE_CODES];

void ledger_live_code(struct ledger *l, unsigned live)
{
    (void)l;
    codes[live]++;
}

/* ---- an exchange ---- */

struct web {
    struct exchange x;
    bool late;               /* its time is over */
    atomic_bool held, holds; /* its reader takes nothing as long as it is held */
    char *env[2];
    size_t n;
    char out[32768];
};

static bool web_write(struct exchange *x, const void *buf, size_t n)
{
    struct web *w = (struct web *)x;

    atomic_store(&w->holds, atomic_load(&w->held));
    while (atomic_load(&w->held))
        poll(NULL, 0, 1);
    assert_true(w->n + n < sizeof(w->out));
    memcpy(w->out + w->n, buf, n);
    w->n += n;
    w->out[w->n] = '\0';
    return true;
}

static bool web_flush(struct exchange *x)
{
    (void)x;
    return true;
}

static bool web_admitted(struct exchange *x, int64_t answer_ms)
{
    assert_int_equal(answer_ms, 30000);
    return !((struct web *)x)->late;
}

static const struct exchange_ops web_ops = {
    .write = web_write, .flush = web_flush, .admitted = web_admitted};

static struct config config = {.write_timeout_ms = 30000}, other = {.write_timeout_ms = 30000};
static char any_ledger[1];
static struct pages *pages;

static enum code answer(struct web *w, enum route route, struct config *c)
{
    const struct site_use use = {.config = c, .ledger = (struct ledger *)(void *)any_ledger};
    struct reply reply = {.x = &w->x, .ledger = use.ledger};
    bool gone = false;
    enum code code;

    w->x.ops = &web_ops;
    w->x.env = w->env;
    code = pages_guarded(pages, route, NULL, &use, &reply, &gone);
    assert_false(gone);
    assert_true(reply.counted);
    return code;
}

/* Its whole answer. */
static const char *ask(enum route route, struct config *c, enum code expected)
{
    static struct web w;

    memset(&w, 0, sizeof(w));
    assert_int_equal(answer(&w, route, c), expected);
    return w.out;
}

static void expect(const char *answer, const char *text)
{
    if (strstr(answer, text) == NULL)
        fail_msg("no %s in %s", text, answer);
}

static int begin(void **state)
{
    (void)state;
    guard = GUARD_OPEN;
    guard_error = verify_error = report_error = ERROR_NONE;
    atomic_store(&made, 0);
    atomic_store(&freed, 0);
    atomic_store(&faults, 0);
    memset(codes, 0, sizeof(codes));
    return pages_new(&pages) == ERROR_NONE ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    pages_free(pages);
    assert_int_equal(atomic_load(&made), atomic_load(&freed));
    return 0;
}

/* ---- tests ---- */

static void each_has_its_own_form(void **state)
{
    const char *out;

    (void)state;
    out = ask(ROUTE_DASHBOARD, &config, CODE_NONE);
    expect(out, "Status: 200 OK\r\n");
    expect(out, "\r\nContent-Type: text/html; charset=utf-8\r\n");
    expect(out, "\r\nContent-Security-Policy: default-src 'none'; style-src 'self'; ");
    expect(out, "frame-ancestors 'none'\r\n");
    expect(out, "\r\nCache-Control: no-store\r\n");
    expect(out, "\r\nReferrer-Policy: no-referrer\r\n");
    expect(out, "\r\n\r\n<html>1");
    out = ask(ROUTE_DASHBOARD_JSON, &config, CODE_NONE);
    expect(out, "\r\nContent-Type: application/json\r\n");
    expect(out, "\r\nCache-Control: no-store\r\n");
    expect(out, "\r\n\r\n{\"report\":");
    out = ask(ROUTE_METRICS, &config, CODE_NONE);
    expect(out,
           "\r\nContent-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n");
    expect(out, "\r\nCache-Control: no-store\r\n");
    expect(out, "\r\n\r\nreport ");
}

static void a_second_has_one_report(void **state)
{
    static const enum route routes[] = {ROUTE_DASHBOARD, ROUTE_DASHBOARD_JSON, ROUTE_METRICS};
    int64_t since = clock_monotonic_ms();
    unsigned most;

    (void)state;
    for (int i = 0; i < 300; i++) {
        ask(routes[i % 3], &config, CODE_NONE);
        poll(NULL, 0, 1);
    }
    most = (unsigned)((clock_monotonic_ms() - since) / 1000) + 1;
    assert_in_range(atomic_load(&made), 1, most);
    while (clock_monotonic_ms() - since < 1100)
        poll(NULL, 0, 10);
    ask(ROUTE_METRICS, &config, CODE_NONE);
    assert_true(atomic_load(&made) >= 2);
    assert_int_equal(atomic_load(&freed), atomic_load(&made) - 1); /* the last is kept */
}

static void a_changed_configuration_has_its_own(void **state)
{
    (void)state;
    ask(ROUTE_METRICS, &config, CODE_NONE);
    ask(ROUTE_METRICS, &other, CODE_NONE);
    assert_int_equal(atomic_load(&made), 2);
    assert_int_equal(atomic_load(&freed), 1);
}

/* It is of use for a while, not for ever; that it goes in the end is seen in no test. */
static void a_report_that_was_just_made_is_kept(void **state)
{
    (void)state;
    assert_int_equal(pages_rest(pages), -1);
    ask(ROUTE_METRICS, &config, CODE_NONE);
    assert_in_range(pages_rest(pages), 1, 60000);
    assert_int_equal(atomic_load(&freed), 0);
}

static struct web slow;

static void *read_slowly(void *arg)
{
    (void)arg;
    answer(&slow, ROUTE_DASHBOARD, &config);
    return NULL;
}

static void a_slow_reader_has_no_more_than_one_worker(void **state)
{
    int64_t until = clock_monotonic_ms() + SLACK_MS;
    pthread_t t;

    (void)state;
    memset(&slow, 0, sizeof(slow));
    atomic_store(&slow.held, true);
    assert_int_equal(pthread_create(&t, NULL, read_slowly, NULL), 0);
    while (!atomic_load(&slow.holds)) {
        assert_true(clock_monotonic_ms() < until);
        poll(NULL, 0, 1);
    }
    expect(ask(ROUTE_METRICS, &config, CODE_BUSY), "Status: 503 Service Unavailable\r\n");
    expect(ask(ROUTE_DASHBOARD, &other, CODE_BUSY), "\r\nRetry-After: 1\r\n");
    assert_in_range(pages_rest(pages), 1, 60000);
    guard = GUARD_ASK; /* who is not the owner waits for nothing */
    ask(ROUTE_METRICS, &config, CODE_UNAUTHORIZED);
    guard = GUARD_OPEN;
    assert_int_equal(atomic_load(&made), 1);
    assert_int_equal(atomic_load(&freed), 0);
    atomic_store(&slow.held, false);
    pthread_join(t, NULL);
    expect(slow.out, "<html>1");
    ask(ROUTE_METRICS, &other, CODE_NONE);
    assert_int_equal(atomic_load(&made), 2);
    assert_int_equal(atomic_load(&freed), 1);
}

static void *ask_once(void *arg)
{
    *(enum code *)arg = answer(&(struct web){0}, ROUTE_METRICS, &config);
    return NULL;
}

/* A server may have passed on the whole page before the worker knows that it is done. */
static void who_comes_a_moment_too_early_waits(void **state)
{
    int64_t until = clock_monotonic_ms() + SLACK_MS;
    enum code code = CODES;
    pthread_t t[2];

    (void)state;
    memset(&slow, 0, sizeof(slow));
    atomic_store(&slow.held, true);
    assert_int_equal(pthread_create(&t[0], NULL, read_slowly, NULL), 0);
    while (!atomic_load(&slow.holds)) {
        assert_true(clock_monotonic_ms() < until);
        poll(NULL, 0, 1);
    }
    assert_int_equal(pthread_create(&t[1], NULL, ask_once, &code), 0);
    atomic_store(&slow.held, false);
    pthread_join(t[0], NULL);
    pthread_join(t[1], NULL);
    assert_int_equal(code, CODE_NONE);
}

#define CROWD 8

static void *ask_often(void *arg)
{
    struct web *w = arg;

    for (int i = 0; i < 200; i++) {
        w->n = 0;
        if (answer(w, ROUTE_DASHBOARD_JSON, i % 3 == 0 ? &other : &config) == CODE_NONE)
            expect(w->out, "{\"report\":");
        else /* on a busy machine */
            expect(w->out, "\"code\":\"busy\"");
        pages_rest(pages);
    }
    return NULL;
}

static void many_may_ask_at_once(void **state)
{
    static struct web webs[CROWD];
    pthread_t t[CROWD];

    (void)state;
    for (int i = 0; i < CROWD; i++)
        assert_int_equal(pthread_create(&t[i], NULL, ask_often, &webs[i]), 0);
    for (int i = 0; i < CROWD; i++)
        pthread_join(t[i], NULL);
    assert_int_equal(atomic_load(&freed), atomic_load(&made) - 1);
}

static const struct {
    const char *why;
    enum guard guard;
    enum error guard_error, verify_error, report_error;
    enum code code;
    const char *expected;
    unsigned counted, faults;
} refused[] = {
    {"a question", GUARD_ASK, ERROR_NONE, ERROR_NONE, ERROR_NONE, CODE_UNAUTHORIZED,
     "\r\nWWW-Authenticate: Basic realm=\"pennygate\", charset=\"UTF-8\"\r\n", 0, 0},
    {"a wrong password", GUARD_WRONG, ERROR_NONE, ERROR_NONE, ERROR_NONE, CODE_UNAUTHORIZED,
     "\r\nWWW-Authenticate: Basic realm=\"pennygate\", charset=\"UTF-8\"\r\n", 1, 0},
    {"no password yet", GUARD_CLOSED, ERROR_NOT_FOUND, ERROR_NONE, ERROR_NONE,
     CODE_DASHBOARD_CLOSED, "Status: 403 Forbidden\r\n", 1, 0},
    {"a store that does not say", GUARD_ERROR, ERROR_STORE_IO, ERROR_NONE, ERROR_NONE,
     CODE_METER, "Status: 503 Service Unavailable\r\n", 0, 1},
    {"a store that has no figures", GUARD_OPEN, ERROR_NONE, ERROR_NONE, ERROR_CLOCK, CODE_CLOCK,
     "\"code\":\"clock\"", 0, 1},
    {"another store in its place", GUARD_OPEN, ERROR_NONE, ERROR_STORE_REPLACED, ERROR_NONE,
     CODE_METER, "\"code\":\"meter_unavailable\"", 0, 1},
};

static void who_is_not_shown_them_hears_why(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        end(NULL);
        begin(NULL);
        guard = refused[i].guard;
        guard_error = refused[i].guard_error;
        verify_error = refused[i].verify_error;
        report_error = refused[i].report_error;
        expect(ask(ROUTE_DASHBOARD, &config, refused[i].code), refused[i].expected);
        for (unsigned c = 0; c < sizeof(codes) / sizeof(codes[0]); c++)
            if (codes[c] != (c == code_live(refused[i].code) ? refused[i].counted : 0))
                fail_msg("%s: %u counted as %u", refused[i].why, codes[c], c);
        assert_int_equal(atomic_load(&faults), refused[i].faults);
    }
}

static void who_comes_too_late_is_told(void **state)
{
    struct web w = {.late = true};

    (void)state;
    assert_int_equal(answer(&w, ROUTE_DASHBOARD, &config), CODE_TIMEOUT_REQUEST);
    expect(w.out, "Status: 408 Request Timeout\r\n");
}

#define OPEN_AND_CLOSE(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        OPEN_AND_CLOSE(each_has_its_own_form),
        OPEN_AND_CLOSE(a_second_has_one_report),
        OPEN_AND_CLOSE(a_changed_configuration_has_its_own),
        OPEN_AND_CLOSE(a_report_that_was_just_made_is_kept),
        OPEN_AND_CLOSE(a_slow_reader_has_no_more_than_one_worker),
        OPEN_AND_CLOSE(who_comes_a_moment_too_early_waits),
        OPEN_AND_CLOSE(many_may_ask_at_once),
        OPEN_AND_CLOSE(who_is_not_shown_them_hears_why),
        OPEN_AND_CLOSE(who_comes_too_late_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
