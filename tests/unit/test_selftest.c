/* The self-test: whom it answers, and that what it shows is an allow-list. The ledger's MAC has a
 * stand-in with one key per site. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/selftest.h"
#include "gateway/through.h"
#include "platform/mac.h"

#define N(a)   (sizeof(a) / sizeof((a)[0]))
#define NOW    1796022000
#define BODY   160
#define MOST   256 /* max-body-bytes */
#define EXPIRY 21  /* where it stands behind {"self_test":"seen.0. */

static uint8_t here[MAC_SIZE] = {1}, elsewhere[MAC_SIZE] = {2};

static struct ledger *at(uint8_t site[MAC_SIZE])
{
    return (struct ledger *)(void *)site;
}

void ledger_figure(struct ledger *l, enum figure f)
{
    (void)l;
    (void)f;
}

void ledger_mac(const struct ledger *l, const char *label, const void *data, size_t n,
                uint8_t out[MAC_SIZE])
{
    mac_compute((const uint8_t *)(const void *)l, label, data, n, out);
}

/* ---- an exchange in memory ---- */

struct memory {
    struct exchange x; /* first: an exchange is cast back to it */
    const char *body;
    size_t n_body, read, written;
    bool broken, late;
    char answer[4096];
};

static ssize_t memory_read(struct exchange *x, void *buf, size_t n)
{
    struct memory *m = (struct memory *)x;
    size_t left = m->n_body - m->read, part = n < left ? n : left;

    if (part == 0 && m->broken)
        return -1;
    part = part < 50 ? part : 50; /* never all at once */
    memcpy(buf, m->body + m->read, part);
    m->read += part;
    return (ssize_t)part;
}

static bool memory_write(struct exchange *x, const void *buf, size_t n)
{
    struct memory *m = (struct memory *)x;

    assert_true(m->written + n < sizeof(m->answer));
    memcpy(m->answer + m->written, buf, n);
    m->written += n;
    m->answer[m->written] = '\0';
    return true;
}

static bool memory_flush(struct exchange *x)
{
    (void)x;
    return true;
}

static bool memory_admitted(struct exchange *x, int64_t answer_ms)
{
    assert_int_equal(answer_ms, SELFTEST_ANSWER_MS);
    return !((struct memory *)x)->late;
}

static const struct exchange_ops memory_ops = {memory_read, memory_write, memory_flush,
                                               memory_admitted};

static atomic_flag running = ATOMIC_FLAG_INIT;
static atomic_bool stopping;
static struct config config = {.max_body_bytes = MOST};
static char *no_variables[] = {NULL};

static enum code ask(struct memory *m, char *const *variables, const char *body, size_t n)
{
    struct site_use use = {.config = &config, .ledger = at(here), .code = CODE_NONE};
    struct access access = {.present = true};
    struct reply reply = {.x = &m->x, .created_s = NOW, .model = "", .access = &access};
    const struct selftest_job job = {&use, &reply, &running, &stopping};
    bool gone = false;
    enum code code;

    m->x = (struct exchange){.ops = &memory_ops, .env = variables, .watch_fd = -1};
    m->body = body;
    m->n_body = n;
    code = selftest_handle(&job, &gone);
    assert_false(gone);
    assert_int_equal(m->written > 0, code == CODE_NONE);
    return code;
}

/* ---- whom it answers ---- */

static void the_owner_gets_an_answer(void **state)
{
    static const size_t sizes[] = {SELFTEST_BODY_MIN, SELFTEST_BODY_MIN + 1, BODY, MOST};
    struct through_seen seen;
    char body[MOST + 1];

    (void)state;
    for (size_t i = 0; i < N(sizes); i++) {
        struct memory m = {0};
        const char *json;

        selftest_body(at(here), SELFTEST_SEEN, 0, NOW, sizes[i], body);
        assert_int_equal(ask(&m, no_variables, body, sizes[i]), CODE_NONE);
        json = strstr(m.answer, "\r\n\r\n");
        assert_non_null(json);
        assert_true(through_parse(json + 4, strlen(json + 4), &seen));
        assert_int_equal(seen.body, sizes[i]);
        assert_true(seen.page);
        assert_false(seen.authorization || seen.cookie || seen.custom || seen.proxy);
    }
}

/* Bytes of a good body that are overwritten; `at` SIZE_MAX: none. */
static const struct {
    const char *why;
    int made_s; /* relative to now */
    size_t n;   /* bytes of the body that come */
    size_t at;
    const char *bytes;
    bool other_site, broken;
} wrong[] = {
    {"nothing", .n = 0, .at = SIZE_MAX},
    {"another object", .n = BODY, .at = 0, .bytes = "{\"messages\":\""},
    {"no object", .n = BODY, .at = 0, .bytes = " "},
    {"cut within the token", .n = 60, .at = SIZE_MAX},
    {"made for another site", .n = BODY, .at = SIZE_MAX, .other_site = true},
    {"a minute old", .made_s = -SELFTEST_TOKEN_S - 1, .n = BODY, .at = SIZE_MAX},
    {"made in the future", .made_s = 1, .n = BODY, .at = SIZE_MAX},
    {"a changed expiry", .n = BODY, .at = EXPIRY + 8, .bytes = "1"},
    {"no expiry", .n = BODY, .at = EXPIRY, .bytes = "."},
    {"a changed MAC", .n = BODY, .at = 40, .bytes = "x"},
    {"other seconds", .n = BODY, .at = 19, .bytes = "1"},
    {"negative seconds", .n = BODY, .at = 19, .bytes = "-"},
    {"another probe", .n = BODY, .at = 14, .bytes = "stre"},
    {"no probe", .n = BODY, .at = 14, .bytes = "look"},
    {"larger than max-body-bytes", .n = MOST + 1, .at = SIZE_MAX},
    {"broken off", .n = BODY, .at = SIZE_MAX, .broken = true},
};

static void nobody_else_does(void **state)
{
    char body[MOST + 2];

    (void)state;
    for (size_t i = 0; i < N(wrong); i++) {
        struct memory m = {.broken = wrong[i].broken};
        size_t n = wrong[i].n > BODY ? wrong[i].n : BODY;

        selftest_body(at(wrong[i].other_site ? elsewhere : here), SELFTEST_SEEN, 0,
                      NOW + wrong[i].made_s, n, body);
        if (wrong[i].at != SIZE_MAX)
            memcpy(body + wrong[i].at, wrong[i].bytes, strlen(wrong[i].bytes));
        if (ask(&m, no_variables, body, wrong[i].n) != CODE_NOT_FOUND)
            fail_msg("%s", wrong[i].why);
    }
}

static void a_token_lasts_a_minute(void **state)
{
    char body[BODY + 1];

    (void)state;
    for (int age = 0; age <= SELFTEST_TOKEN_S; age += SELFTEST_TOKEN_S) {
        struct memory m = {0};

        selftest_body(at(here), SELFTEST_SEEN, 0, NOW - age, BODY, body);
        assert_int_equal(ask(&m, no_variables, body, BODY), CODE_NONE);
    }
}

static void one_stream_at_a_time(void **state)
{
    struct memory first = {0}, second = {0}, late = {.late = true};
    char body[BODY + 1];

    (void)state;
    selftest_body(at(here), SELFTEST_QUIET, 0, NOW, BODY, body);
    assert_false(atomic_flag_test_and_set(&running));
    assert_int_equal(ask(&first, no_variables, body, BODY), CODE_BUSY);
    atomic_flag_clear(&running);
    assert_int_equal(ask(&second, no_variables, body, BODY), CODE_NONE);
    assert_non_null(strstr(second.answer, "\r\n\r\n: ..."));
    assert_non_null(strstr(second.answer, "...\n\ndata: [DONE]\n\n"));
    assert_false(atomic_flag_test_and_set(&running)); /* it was given back */
    atomic_flag_clear(&running);
    assert_int_equal(ask(&late, no_variables, body, BODY), CODE_TIMEOUT_REQUEST);
}

static void none_while_the_process_leaves(void **state)
{
    struct memory m = {0};
    char body[BODY + 1];

    (void)state;
    selftest_body(at(here), SELFTEST_SEEN, 0, NOW, BODY, body);
    atomic_store(&stopping, true);
    assert_int_equal(ask(&m, no_variables, body, BODY), CODE_NOT_FOUND);
    atomic_store(&stopping, false);
}

/* ---- what it shows ---- */

static void of_callers_headers_only_that_they_are_there(void **state)
{
    static char script[] = "SCRIPT_NAME=/\xff\x1b[2J\"\\", user[] = "REMOTE_USER=ann",
                authorization[] = "HTTP_AUTHORIZATION=Bearer pg_secret",
                cookie[] = "HTTP_COOKIE=session=secret; pennygate_self_test=1",
                custom[] = "HTTP_X_PENNYGATE_SELF_TEST=secret",
                proxy[] = "HTTP_PROXY=http://secret", remote[] = "REMOTE_ADDR=::ffff:192.0.2.7",
                forwarded[] = "HTTP_X_FORWARDED_FOR=secret", empty[] = "HTTP_FORWARDED=";
    char *variables[] = {script, user,   authorization, cookie, custom,
                         proxy,  remote, forwarded,     empty,  NULL};
    struct memory m = {0};
    struct through_seen seen;
    char body[BODY + 1];
    const char *json;

    (void)state;
    selftest_body(at(here), SELFTEST_SEEN, 0, NOW, BODY, body);
    assert_int_equal(ask(&m, variables, body, BODY), CODE_NONE);
    json = strstr(m.answer, "\r\n\r\n");
    assert_non_null(json);
    assert_true(through_parse(json + 4, strlen(json + 4), &seen));
    assert_string_equal(seen.script, "/??[2J\"\\");
    assert_string_equal(seen.address, "192.0.2.7");
    assert_true(seen.authorization && seen.cookie && seen.custom && seen.proxy);
    assert_true(seen.forwarded_for);
    assert_false(seen.forwarded);
    assert_null(strstr(m.answer, "secret"));
    assert_null(strstr(m.answer, "ann"));
}

static void what_is_no_self_test_is_not_taken_for_one(void **state)
{
    static const char *const texts[] = {
        "",
        "{}",
        "[]",
        "<html>",
        "{\"body\":1}",
        "{\"body\":\"1\"}",
        "{\"error\":{\"code\":\"not_found\"}}",
        "{\"body\":1,\"authorization\":1,\"custom\":1,\"cookie\":1,\"proxy\":1}"};
    struct through_seen seen;

    (void)state;
    for (size_t i = 0; i < N(texts); i++)
        assert_false(through_parse(texts[i], strlen(texts[i]), &seen));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_owner_gets_an_answer),
        cmocka_unit_test(nobody_else_does),
        cmocka_unit_test(a_token_lasts_a_minute),
        cmocka_unit_test(one_stream_at_a_time),
        cmocka_unit_test(none_while_the_process_leaves),
        cmocka_unit_test(of_callers_headers_only_that_they_are_there),
        cmocka_unit_test(what_is_no_self_test_is_not_taken_for_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
