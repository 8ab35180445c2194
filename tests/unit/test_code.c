/* The table of codes: whole, distinct, and as the manual and OpenAI's clients expect it. */
#include "gateway/code.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/ledger.h"

static void test_every_code_is_told(void **state)
{
    static const struct {
        enum code code;
        int status;
        const char *name;
    } rows[] = {
        {CODE_NOT_FOUND, 404, "not_found"},
        {CODE_METHOD, 405, "method_not_allowed"},
        {CODE_CONTENT_TYPE, 415, "unsupported_media_type"},
        {CODE_BODY_TOO_LARGE, 413, "body_too_large"},
        {CODE_BODY_INCOMPLETE, 400, "body_incomplete"},
        {CODE_BAD_JSON, 400, "bad_json"},
        {CODE_BAD_REQUEST, 400, "bad_request"},
        {CODE_UNSUPPORTED, 400, "unsupported"},
        {CODE_TOO_LONG, 400, "too_long"},
        {CODE_NO_ADDRESS, 400, "no_address"},
        {CODE_TIMEOUT_REQUEST, 408, "request_timeout"},
        {CODE_UNAUTHORIZED, 401, "unauthorized"},
        {CODE_FORBIDDEN_ORIGIN, 403, "forbidden_origin"},
        {CODE_DASHBOARD_CLOSED, 403, "dashboard_closed"},
        {CODE_CONCURRENT_LIMIT, 429, "concurrent_limit"},
        {CODE_BURST_LIMIT, 429, "burst_limit"},
        {CODE_ADDRESS_LIMIT, 429, "address_limit"},
        {CODE_VISITOR_LIMIT, 429, "visitor_limit"},
        {CODE_ACCOUNT_LIMIT, 429, "account_limit"},
        {CODE_KEY_LIMIT, 429, "key_limit"},
        {CODE_ANONYMOUS_LIMIT, 429, "anonymous_limit"},
        {CODE_SITE_LIMIT, 429, "site_limit"},
        {CODE_BYPASS_LIMIT, 429, "bypass_limit"},
        {CODE_BUSY, 503, "busy"},
        {CODE_PAUSED, 503, "paused"},
        {CODE_METER, 503, "meter_unavailable"},
        {CODE_CLOCK, 503, "clock"},
        {CODE_CONFIGURATION, 503, "configuration"},
        {CODE_STOPPING, 503, "stopping"},
        {CODE_UPSTREAM_PAUSED, 503, "upstream_paused"},
        {CODE_UPSTREAM_REFUSED, 503, "upstream_refused"},
        {CODE_UPSTREAM_ERROR, 502, "upstream_error"},
        {CODE_UPSTREAM_UNREACHABLE, 502, "upstream_unreachable"},
        {CODE_UPSTREAM_TIMEOUT, 504, "upstream_timeout"},
    };
    (void)state;
    assert_int_equal(sizeof rows / sizeof rows[0], CODES - 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct code_entry *e = code_entry(rows[i].code);
        assert_int_equal(rows[i].code, i + 1);
        assert_string_equal(e->name, rows[i].name);
        assert_int_equal(e->status, rows[i].status);
    }
}

/* The list is what boards have by now: it may grow, but what stands in it stays as it is. */
static void test_live_numbers_are_for_ever(void **state)
{
    static const char *const written[LIVE_DECISION - LIVE_CODES] = {
        [0] = "", /* answered */
        [1] = "not_found",
        [2] = "method_not_allowed",
        [3] = "unsupported_media_type",
        [4] = "body_too_large",
        [5] = "body_incomplete",
        [6] = "bad_json",
        [7] = "bad_request",
        [8] = "unsupported",
        [9] = "too_long",
        [10] = "no_address",
        [11] = "request_timeout",
        [12] = "unauthorized",
        [13] = "forbidden_origin",
        [14] = "dashboard_closed",
        [15] = "concurrent_limit",
        [16] = "burst_limit",
        [17] = "address_limit",
        [18] = "visitor_limit",
        [19] = "account_limit",
        [20] = "key_limit",
        [21] = "anonymous_limit",
        [22] = "site_limit",
        [23] = "bypass_limit",
        [24] = "busy",
        [25] = "paused",
        [26] = "meter_unavailable",
        [27] = "clock",
        [28] = "configuration",
        [29] = "stopping",
        [30] = "upstream_paused",
        [31] = "upstream_refused",
        [32] = "upstream_error",
        [33] = "upstream_unreachable",
        [34] = "upstream_timeout",
    };
    bool taken[LIVE_DECISION - LIVE_CODES] = {true};
    (void)state;
    assert_int_equal(code_live(CODE_NONE), 0);
    for (int c = CODE_NONE + 1; c < CODES; c++) {
        const struct code_entry *e = code_entry((enum code)c);
        assert_in_range(e->live, 1, LIVE_DECISION - LIVE_CODES - 1);
        assert_int_equal(e->live, code_live((enum code)c));
        assert_false(taken[e->live]);
        taken[e->live] = true;
        assert_non_null(written[e->live]);
        assert_string_equal(written[e->live], e->name);
    }
}

/* uhttpd answers 200 to a status without its reason. */
static void test_every_status_has_its_reason_and_type(void **state)
{
    static const struct {
        int status;
        const char *reason, *type;
    } rows[] = {
        {400, "Bad Request", "invalid_request_error"},
        {401, "Unauthorized", "authentication_error"},
        {403, "Forbidden", "permission_error"},
        {404, "Not Found", "invalid_request_error"},
        {405, "Method Not Allowed", "invalid_request_error"},
        {408, "Request Timeout", "invalid_request_error"},
        {413, "Content Too Large", "invalid_request_error"},
        {415, "Unsupported Media Type", "invalid_request_error"},
        {429, "Too Many Requests", "rate_limit_error"},
        {502, "Bad Gateway", "server_error"},
        {503, "Service Unavailable", "server_error"},
        {504, "Gateway Timeout", "server_error"},
    };
    (void)state;
    for (int c = CODE_NONE + 1; c < CODES; c++) {
        const struct code_entry *e = code_entry((enum code)c);
        size_t i = 0;
        while (i < sizeof rows / sizeof rows[0] && rows[i].status != e->status)
            i++;
        assert_true(i < sizeof rows / sizeof rows[0]);
        assert_string_equal(e->reason, rows[i].reason);
        assert_string_equal(e->type, rows[i].type);
        assert_true(strlen(e->message) > 20 && e->message[strlen(e->message) - 1] == '.');
    }
}

/* F10: whatever is not in the allow-list has a code of its own, and it is no success. */
static void test_f10_side_routes_have_codes(void **state)
{
    (void)state;
    assert_int_equal(code_entry(CODE_NOT_FOUND)->status, 404);
    assert_int_equal(code_entry(CODE_METHOD)->status, 405);
    for (int c = -1; c <= CODES; c++)
        assert_true(code_entry((enum code)c)->status >= 400);
}

static void test_refusals_in_order(void **state)
{
    static const char *const names[REFUSALS] = {
        "concurrent_limit", "burst_limit",   "address_limit",
        "visitor_limit",    "account_limit", "key_limit",
        "anonymous_limit",  "site_limit",    "bypass_limit",
    };
    (void)state;
    for (int r = 0; r < REFUSALS; r++)
        assert_string_equal(code_entry(code_of_refusal((enum refusal)r))->name, names[r]);
    assert_string_equal(code_entry(code_of_refusal(REFUSALS))->name, "site_limit");
}

static void test_errors_fail_closed(void **state)
{
    (void)state;
    for (int e = 0; e <= ERRORS; e++) {
        const struct code_entry *c = code_entry(code_of_error((enum error)e));
        const char *name = e == ERROR_CLOCK      ? "clock"
                           : e == ERROR_BUSY     ? "busy"
                           : e == ERROR_PRICE    ? "configuration"
                           : e == ERROR_STOPPING ? "stopping"
                                                 : "meter_unavailable";
        assert_int_equal(c->status, 503);
        assert_string_equal(c->name, name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_code_is_told),
        cmocka_unit_test(test_live_numbers_are_for_ever),
        cmocka_unit_test(test_every_status_has_its_reason_and_type),
        cmocka_unit_test(test_f10_side_routes_have_codes),
        cmocka_unit_test(test_refusals_in_order),
        cmocka_unit_test(test_errors_fail_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
