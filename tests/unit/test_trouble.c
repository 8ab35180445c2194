/* What a status says, row by row: the whole table of what comes back and what is asked again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "gateway/trouble.h"

/* f: free, u: about us, p: passes */
static const struct {
    const char *why;
    int status;
    const char *says;
    enum health health;
} rows[] = {
    {"F46: a key that is not believed", 401, "fu", HEALTH_REFUSED},
    {"F46: no credit", 402, "fu", HEALTH_REFUSED},
    {"filters bill what they stop", 403, "u", HEALTH_DENIED},
    {"no such model", 404, "f", HEALTH_FAILED},
    {"a path that takes no POST", 405, "f", HEALTH_FAILED},
    {"F46: a rate or a quota", 429, "fup", HEALTH_REFUSED},
    {"filters bill what they stop, and it may be this request", 400, "", HEALTH_UNKNOWN},
    {"this request was slow", 408, "", HEALTH_UNKNOWN},
    {"this request is large", 413, "", HEALTH_UNKNOWN},
    {"this request is odd", 422, "", HEALTH_UNKNOWN},
    {"this request is against the law", 451, "", HEALTH_UNKNOWN},
    {"a 4xx that nobody knows", 499, "", HEALTH_UNKNOWN},
    {"it may have been billed", 500, "", HEALTH_FAILED},
    {"a proxy's", 502, "", HEALTH_FAILED},
    {"F13: nobody says that this is never billed", 503, "", HEALTH_FAILED},
    {"a proxy that gave up waiting", 504, "", HEALTH_FAILED},
    {"F13: overloaded, perhaps in the middle", 529, "", HEALTH_FAILED},
    {"a redirect", 307, "", HEALTH_FAILED},
    {"no status at all", 0, "", HEALTH_FAILED},
    {"a success that is none", 204, "", HEALTH_FAILED},
};

static void what_a_status_says(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct trouble t = trouble_of(rows[i].status);
        char says[8];

        snprintf(says, sizeof says, "%s%s%s", t.free ? "f" : "", t.about_us ? "u" : "",
                 t.passes ? "p" : "");
        if (strcmp(says, rows[i].says) != 0 || t.health != rows[i].health)
            fail_msg("%s: %d says '%s', %d", rows[i].why, rows[i].status, says, (int)t.health);
    }
}

static const struct {
    const char *why;
    int status;
    int64_t retry_after_s;
    const char *code;
    int64_t again_ms;
} again[] = {
    {"at once", 429, 0, "", 0},
    {"in a second", 429, 1, "rate_limit_exceeded", 1000},
    {"in as long as a caller waits", 429, 2, "", 2000},
    {"in a second more", 429, 3, "", -1},
    {"in a time that wraps nothing", 429, INT64_MAX, "", -1},
    {"without a time", 429, -1, "", -1},
    {"F46: a quota that is used up", 429, 1, "insufficient_quota", -1},
    {"F46: a bill that is not paid", 429, 1, "billing_not_active", -1},
    {"a key does not mend itself", 401, 1, "", -1},
    {"nor does a bill", 402, 1, "", -1},
    {"nor a name", 404, 0, "", -1},
    {"F13: it may have been billed", 503, 1, "", -1},
    {"F13: it may have been billed", 529, 1, "", -1},
    {"F13: it may have been billed", 500, 0, "", -1},
    {"F13: it may have been billed", 403, 0, "", -1},
    {"it is this request's own fault", 400, 0, "", -1},
};

static void f13_what_is_asked_again(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof again / sizeof *again; i++)
        if (trouble_again_ms(again[i].status, again[i].retry_after_s, again[i].code) !=
            again[i].again_ms)
            fail_msg("%s: %d, %lld s, '%s'", again[i].why, again[i].status,
                     (long long)again[i].retry_after_s, again[i].code);
}

/* F13: whatever the status, what is asked again costs nothing. */
static void f13_nothing_is_asked_again_that_may_have_been_billed(void **state)
{
    (void)state;
    for (int status = 0; status < 1000; status++)
        if (trouble_again_ms(status, 1, "") >= 0)
            assert_true(trouble_of(status).free);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_status_says),
        cmocka_unit_test(f13_what_is_asked_again),
        cmocka_unit_test(f13_nothing_is_asked_again_that_may_have_been_billed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
