/* What the owner reads of a model API that does not work, and what of it nobody may. */
#include "gateway/diagnosis.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define N(a) (sizeof(a) / sizeof((a)[0]))

static char key[] = "sk_live_0123456789AbCdEf";

static const struct {
    struct diagnosis d;
    const char *text;
} rows[] = {
    {{401, "invalid_api_key", ""},
     "the API answered 401 invalid_api_key: look at the key in key-file"},
    {{401, "", NULL}, "the API answered 401: look at the key in key-file"},
    {{404, "model_not_found", ""},
     "the API answered 404 model_not_found: look at model and url"},
    {{400, "unsupported_parameter", ""},
     "the API answered 400 unsupported_parameter: look at model, output-field, reasoning and "
     "the "
     "credit there"},
    {{422, "", NULL}, "the API answered 422: look at model, output-field and stream-usage"},
    {{200, "", NULL},
     "the API answered 200: what came is an error or no answer of this API: look at url and "
     "provider"},
    {{418, "teapot", ""}, "the API answered 418 teapot: look at url"},
    {{529, "", ""}, "the API answered 529: the provider has trouble"},
    {{0, "", "Couldn't resolve host name"},
     "the call failed: Couldn't resolve host name (look at url, ca-file, the timeouts and the "
     "network)"},
    {{200, "", "Failure"}, "the call failed: Failure (in the middle of the answer)"},
};

static void test_texts(void **state)
{
    struct config_model m = {.alias = "demo", .key = key};
    char text[DIAGNOSIS_TEXT_MAX], expected[DIAGNOSIS_TEXT_MAX];
    (void)state;
    for (size_t i = 0; i < N(rows); i++) {
        diagnosis_text(&m, &rows[i].d, text);
        snprintf(expected, sizeof expected, "model demo: %s", rows[i].text);
        assert_string_equal(text, expected);
    }
}

/* F47: a hostile API shows the key, or a part of it, as its error's code. */
static void test_f47_a_code_with_a_part_of_the_key_is_left_out(void **state)
{
    static const struct {
        const char *code;
        bool shown;
    } codes[] = {
        {"sk_live_0123456789abcdef", false},
        {"sk_l", false},
        {"cdef", false},
        {"x_abcd", false},
        {"6789", false},
        {"key_4567_x", false},
        {"sk_", true},
        {"def", true},
        {"789", true},
        {"skylive", false},
        {"abc_def", true},
    };
    struct config_model m = {.alias = "demo", .key = key};
    (void)state;
    for (size_t i = 0; i < N(codes); i++) {
        struct diagnosis d = {.status = 500};
        char text[DIAGNOSIS_TEXT_MAX];
        snprintf(d.code, sizeof d.code, "%s", codes[i].code);
        diagnosis_text(&m, &d, text);
        if ((strstr(text, codes[i].code) != NULL) != codes[i].shown)
            fail_msg("%s: %s", codes[i].code, text);
    }
}

static void test_short_keys_and_none(void **state)
{
    static char one[] = "x", none[] = "";
    struct config_model m = {.alias = "demo", .key = one};
    struct diagnosis d = {.status = 500, .code = "a_x_b"};
    char text[DIAGNOSIS_TEXT_MAX];
    (void)state;
    diagnosis_text(&m, &d, text);
    assert_null(strstr(text, "a_x_b"));
    m.key = none;
    diagnosis_text(&m, &d, text);
    assert_non_null(strstr(text, "a_x_b"));
    m.key = NULL;
    diagnosis_text(&m, &d, text);
    assert_non_null(strstr(text, "a_x_b"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_f47_a_code_with_a_part_of_the_key_is_left_out),
        cmocka_unit_test(test_short_keys_and_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
