/* Anthropic's dialect: what is sent, and what events and whole answers say. */
#include "gateway/anthropic.h"

#include <stdlib.h>

#include "tests/unit/parts.h"

#define N(a) (sizeof(a) / sizeof((a)[0]))

/* -- what is sent -- */

static char name[] = "claude-test", key[] = "sk-ant-secret", prompt[] = "Be \"brief\".\n\u00e9";
static char hi[] = "hi", yes[] = "a\\\"\xE2\x80\xA8", bye[] = "bye";

#define USER(text)                                                                             \
    {                                                                                          \
        ROLE_USER, text, sizeof text - 1                                                       \
    }
#define ASSISTANT(text)                                                                        \
    {                                                                                          \
        ROLE_ASSISTANT, text, sizeof text - 1                                                  \
    }
#define SAYS(role, text)                                                                       \
    "{\"role\":\"" role "\",\"content\":[{\"type\":\"text\",\"text\":\"" text "\"}]}"
#define HEAD "{\"model\":\"claude-test\",\"max_tokens\":300,"

static void expect_body(const struct config_model *m, const struct request *r, const char *text)
{
    size_t n = 0;
    char *body = provider_of(PROVIDER_ANTHROPIC)->body(m, r, &n);
    assert_non_null(body);
    assert_int_equal(n, strlen(body));
    assert_string_equal(body, text);
    free(body);
}

static void test_bodies(void **state)
{
    static const struct {
        const char *what;
        struct message messages[4];
        unsigned n;
        const char *list;
    } rows[] = {
        {"one message", {USER(hi)}, 1, SAYS("user", "hi")},
        {"a conversation",
         {USER(hi), ASSISTANT(yes), USER(bye)},
         3,
         SAYS("user", "hi") "," SAYS("assistant", "a\\\\\\\"\xE2\x80\xA8") "," SAYS("user",
                                                                                    "bye")},
        {"it begins with the assistant",
         {ASSISTANT(yes), ASSISTANT(hi), USER(bye)},
         3,
         SAYS("user", "bye")},
        {"two of one role are one turn",
         {USER(hi), USER(bye)},
         2,
         "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"hi\"},{\"type\":"
         "\"text\","
         "\"text\":\"bye\"}]}"},
        {"also of the assistant",
         {USER(hi), ASSISTANT(hi), ASSISTANT(bye), USER(bye)},
         4,
         SAYS("user",
              "hi") ",{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"hi\"},"
                    "{\"type\":\"text\",\"text\":\"bye\"}]}," SAYS("user", "bye")},
    };
    struct config_model m = {.name = name,
                             .price = {.max_output_tokens = 300, .thinking_tokens = 1024}};
    char text[1024];
    (void)state;
    for (size_t i = 0; i < N(rows); i++) {
        struct message messages[4];
        struct request r = {.messages = messages, .n_messages = rows[i].n, .model = "alias"};
        memcpy(messages, rows[i].messages, sizeof messages);
        snprintf(text, sizeof text, HEAD "\"messages\":[%s]}", rows[i].list);
        expect_body(&m, &r, text);
    }
}

/* F16: usage need not be asked for. F28: there is but one name for the cap. */
static void test_f16_f28_a_stream_with_all_that_can_be_set(void **state)
{
    static char field[] = "max_completion_tokens";
    struct message one = USER(hi);
    struct config_model m = {.name = name,
                             .system_prompt = prompt,
                             .output_field = field,
                             .stream_usage = true,
                             .price = {.max_output_tokens = UINT32_MAX}};
    struct request r = {
        .messages = &one, .n_messages = 1, .stream = true, .include_usage = true};
    (void)state;
    expect_body(&m, &r,
                "{\"model\":\"claude-test\",\"max_tokens\":4294967295,\"system\":"
                "\"Be \\\"brief\\\".\\n\u00e9\",\"messages\":[" SAYS(
                    "user", "hi") "],\"stream\":true}");
}

/* An empty text is an error for this API. */
static void test_an_empty_system_prompt_is_none(void **state)
{
    static char nothing[] = "";
    struct message one = USER(hi);
    struct config_model m = {
        .name = name, .system_prompt = nothing, .price = {.max_output_tokens = 300}};
    struct request r = {.messages = &one, .n_messages = 1};
    (void)state;
    expect_body(&m, &r, HEAD "\"messages\":[" SAYS("user", "hi") "]}");
}

/* F27: what a small cap is not to be spent on. */
static void test_f27_thinking_is_bounded_where_it_is_said(void **state)
{
    static const struct {
        enum reasoning reasoning;
        const char *field;
    } rows[] = {
        {REASONING_AS_IS, ""},
        {REASONING_NONE, ",\"thinking\":{\"type\":\"disabled\"}"},
        {REASONING_LOW, ",\"output_config\":{\"effort\":\"low\"}"},
        {REASONING_MEDIUM, ",\"output_config\":{\"effort\":\"medium\"}"},
        {REASONING_HIGH, ",\"output_config\":{\"effort\":\"high\"}"},
    };
    struct message one = USER(hi);
    struct config_model m = {.name = name, .price = {.max_output_tokens = 300}};
    struct request r = {.messages = &one, .n_messages = 1};
    char text[256];
    (void)state;
    for (size_t i = 0; i < N(rows); i++) {
        m.reasoning = rows[i].reasoning;
        snprintf(text, sizeof text, HEAD "\"messages\":[" SAYS("user", "hi") "]%s}",
                 rows[i].field);
        expect_body(&m, &r, text);
    }
}

static void test_body_that_is_no_utf8_is_not_sent(void **state)
{
    static char broken[] = "\xFF";
    struct message one = USER(hi), bad = USER(broken);
    struct config_model m = {.name = name, .system_prompt = broken};
    struct request r = {.messages = &one, .n_messages = 1};
    size_t n;
    (void)state;
    assert_null(anthropic_provider.body(&m, &r, &n));
    m.system_prompt = NULL;
    m.name = broken;
    assert_null(anthropic_provider.body(&m, &r, &n));
    m.name = name;
    r.messages = &bad;
    assert_null(anthropic_provider.body(&m, &r, &n));
}

static void test_headers(void **state)
{
    struct config_model m = {.name = name};
    char *out[PROVIDER_HEADERS_MAX] = {NULL};
    (void)state;
    assert_int_equal(anthropic_provider.headers(&m, out), 1); /* a local model needs no key */
    assert_string_equal(out[0], "anthropic-version: 2023-06-01");
    free(out[0]);
    m.key = key;
    assert_int_equal(anthropic_provider.headers(&m, out), 2);
    assert_string_equal(out[0], "anthropic-version: 2023-06-01");
    assert_string_equal(out[1], "x-api-key: sk-ant-secret");
    free(out[0]);
    free(out[1]);
    assert_string_equal(anthropic_provider.path, "/messages");
}

/* -- what is answered -- */

static bool read_event(const char *text, size_t n, struct part *out)
{
    return anthropic_provider.event("message", text, n, out);
}

static bool read_whole(const char *text, size_t n, struct part *out)
{
    return anthropic_provider.whole(text, n, out);
}

#define START(usage)                                                                           \
    "{\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":" \
    "\"assistant\",\"model\":\"claude-test\",\"content\":[],\"stop_reason\":null,"             \
    "\"stop_sequence\":null,\"usage\":" usage "}}"
#define BLOCK(block)                                                                           \
    "{\"type\":\"content_block_start\",\"index\":0,\"content_block\":" block "}"
#define DELTA(delta) "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":" delta "}"
#define END(reason, usage)                                                                     \
    "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":" reason                           \
    ",\"stop_sequence\":null},\"usage\":" usage "}"

static void test_events(void **state)
{
    static const struct {
        const char *json, *part;
    } rows[] = {
        {"{\"type\":\"ping\"}", "-/-/-/"},
        {BLOCK("{\"type\":\"text\",\"text\":\"\"}"), "-/-/-/"},
        {BLOCK("{\"type\":\"text\",\"text\":\"Hi\"}"), "Hi/-/-/"},
        {BLOCK("{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}"), "-/-/-/"},
        {BLOCK("{\"type\":\"redacted_thinking\",\"data\":\"xyz\"}"), "-/-/-/"},
        {BLOCK("{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"n\",\"input\":{}}"), "-/-/-/"},
        {DELTA("{\"type\":\"text_delta\",\"text\":\"Hi\"}"), "Hi/-/-/"},
        {DELTA("{\"type\":\"text_delta\",\"text\":\"\"}"), "-/-/-/"},
        {DELTA("{\"type\":\"text_delta\",\"text\":\"\\ud83d\\ude00\\u2028\"}"),
         "\xF0\x9F\x98\x80\xE2\x80\xA8/-/-/"},
        {DELTA("{\"type\":\"thinking_delta\",\"thinking\":\"hm\"}"), "-/-/-/"},
        {DELTA("{\"type\":\"thinking_delta\",\"text\":\"hm\"}"), "-/-/-/"},
        {DELTA("{\"type\":\"signature_delta\",\"signature\":\"EqQ\"}"), "-/-/-/"},
        {DELTA("{\"type\":\"input_json_delta\",\"partial_json\":\"{\"}"), "-/-/-/"},
        {DELTA("{\"type\":\"citations_delta\",\"citation\":{}}"), "-/-/-/"},
        {DELTA("{\"type\":\"of_a_later_version\",\"text\":5}"), "-/-/-/"},
        {"{\"type\":\"content_block_stop\",\"index\":0}", "-/-/-/"},
        {"{\"type\":\"of_a_later_version\",\"delta\":5}", "-/-/-/"},
        {END("\"end_turn\"", "null"), "-/stop/-/"},
        {END("\"stop_sequence\"", "null"), "-/stop/-/"},
        {END("\"max_tokens\"", "null"), "-/length/-/"},
        {END("\"model_context_window_exceeded\"", "null"), "-/length/-/"},
        {END("\"refusal\"", "null"), "-/filter/-/"},
        {END("\"tool_use\"", "null"), "-/other/-/"},
        {END("\"pause_turn\"", "null"), "-/other/-/"},
        {END("\"of_a_later_version\"", "null"), "-/other/-/"},
        {END("null", "null"), "-/-/-/"},
        {"{\"type\":\"message_delta\",\"delta\":{}}", "-/-/-/"},
        {"{\"type\":\"message_stop\"}", "-/-/-/done"},
    };
    (void)state;
    for (size_t i = 0; i < N(rows); i++)
        expect_part(read_event, rows[i].json, rows[i].part);
}

static void test_hostile_events(void **state)
{
    static const char *const rows[] = {
        "",
        "[DONE]",
        "Hello",
        "null",
        "5",
        "\"message_stop\"",
        "[]",
        "{}",
        "[{\"type\":\"message_stop\"}]",
        "{\"type\":null}",
        "{\"type\":5}",
        "{\"type\":[\"message_stop\"]}",
        "{\"type\":\"message_start\"}",
        "{\"type\":\"message_start\",\"message\":[]}",
        "{\"type\":\"content_block_start\"}",
        BLOCK("null"),
        BLOCK("{}"),
        BLOCK("[]"),
        BLOCK("{\"type\":\"text\"}"),
        BLOCK("{\"type\":\"text\",\"text\":null}"),
        "{\"type\":\"content_block_delta\"}",
        DELTA("5"),
        DELTA("\"a\""),
        DELTA("{\"text\":\"a\"}"),
        DELTA("{\"type\":\"text_delta\"}"),
        DELTA("{\"type\":\"text_delta\",\"text\":5}"),
        DELTA("{\"type\":\"text_delta\",\"text\":[\"a\"]}"),
        DELTA("{\"type\":\"text_delta\",\"text\":\"a\\u0000b\"}"),
        DELTA("{\"type\":\"text_delta\",\"text\":\"\xC0\xAF\"}"),
        DELTA("{\"type\":\"text_delta\",\"text\":\"a\",\"text\":\"b\"}"),
        "{\"type\":\"message_delta\"}",
        "{\"type\":\"message_delta\",\"delta\":\"end_turn\"}",
        END("5", "null"),
        END("{}", "null"),
        "{\"type\":\"ping\",\"x\":[[[[[[[[[[[[[[[[0]]]]]]]]]]]]]]]]}",
        "{\"type\":\"ping\"} x",
        "{\"type\":\"ping\"",
    };
    (void)state;
    for (size_t i = 0; i < N(rows); i++)
        expect_part(read_event, rows[i], "nonsense");
}

/* F20, F21, F29: the first report is provisional, the input a sum, all of it bounded. */
static void test_f20_f21_f29_usage(void **state)
{
    static const struct {
        const char *json, *part;
        bool doubtful; /* of what is no report */
    } rows[] = {
        /* F21 */
        {START("{\"input_tokens\":25,\"output_tokens\":1}"), "-/-/25,0,0,1?/", true},
        {START("{\"input_tokens\":5,\"cache_creation_input_tokens\":20,"
               "\"cache_read_input_tokens\":100,\"cache_creation\":{"
               "\"ephemeral_5m_input_tokens\":20,\"ephemeral_1h_input_tokens\":0},"
               "\"output_tokens\":3,\"service_tier\":\"standard\",\"inference_geo\":\"x\"}"),
         "-/-/125,100,20,3?/", true},
        {END("\"end_turn\"", "{\"output_tokens\":15}"), "-/stop/0,0,0,15~/", false},
        {END("\"end_turn\"", "{\"input_tokens\":null,\"cache_read_input_tokens\":null,"
                             "\"output_tokens\":15}"),
         "-/stop/0,0,0,15~/", false},
        {END("\"end_turn\"", "{\"input_tokens\":5,\"cache_creation_input_tokens\":20,"
                             "\"cache_read_input_tokens\":100,\"output_tokens\":15,"
                             "\"output_tokens_details\":{},\"server_tool_use\":{"
                             "\"web_search_requests\":0}}"),
         "-/stop/125,100,20,15/", false},
        {END("null", "{\"input_tokens\":0,\"cache_read_input_tokens\":9,\"output_tokens\":2}"),
         "-/-/9,9,0,2/", false},
        /* F20 */
        {START("null"), "-/-/-/", false},
        {START("{}"), "-/-/-/", false},
        {START("{\"input_tokens\":0,\"output_tokens\":0}"), "-/-/-/", false},
        {END("null", "{}"), "-/-/-/", false},
        {END("null", "{\"output_tokens\":0}"), "-/-/-/", false},
        {END("null", "{\"input_tokens\":0,\"output_tokens\":0,\"cache_read_input_tokens\":0,"
                     "\"cache_creation_input_tokens\":0}"),
         "-/-/-/", false},
        /* F29 */
        {END("null", "{\"input_tokens\":7}"), "-/-/-/", true},
        {END("null", "{\"cache_read_input_tokens\":7}"), "-/-/-/", true},
        {END("null", "[]"), "-/-/-/", true},
        {END("null", "5"), "-/-/-/", true},
        {END("null", "\"5\""), "-/-/-/", true},
        {END("null", "{\"output_tokens\":-3}"), "-/-/-/", true},
        {END("null", "{\"output_tokens\":3.5}"), "-/-/-/", true},
        {END("null", "{\"output_tokens\":3.0}"), "-/-/-/", true},
        {END("null", "{\"output_tokens\":\"3\"}"), "-/-/-/", true},
        {END("null", "{\"output_tokens\":true}"), "-/-/-/", true},
        {END("null", "{\"output_tokens\":[3]}"), "-/-/-/", true},
        {END("null", "{\"output_tokens\":67108864,\"input_tokens\":1}"), "-/-/1,0,0,67108864/",
         false},
        {END("null", "{\"output_tokens\":67108865,\"input_tokens\":1}"), "-/-/-/", true},
        {END("null", "{\"output_tokens\":9223372036854775807,\"input_tokens\":1}"), "-/-/-/",
         true},
        {END("null", "{\"output_tokens\":3,\"input_tokens\":-1}"), "-/-/-/", true},
        {END("null", "{\"output_tokens\":3,\"cache_read_input_tokens\":-1}"), "-/-/-/", true},
        {END("null", "{\"output_tokens\":3,\"cache_creation_input_tokens\":\"1\"}"), "-/-/-/",
         true},
        {END("null", "{\"output_tokens\":3,\"input_tokens\":67108864}"), "-/-/67108864,0,0,3/",
         false},
        {END("null", "{\"output_tokens\":3,\"input_tokens\":67108864,"
                     "\"cache_read_input_tokens\":1}"),
         "-/-/-/", true},
        {START("{\"input_tokens\":-5,\"output_tokens\":1}"), "-/-/-/", true},
        {START("{\"input_tokens\":5}"), "-/-/-/", true},
    };
    (void)state;
    for (size_t i = 0; i < N(rows); i++) {
        struct part p;
        expect_part(read_event, rows[i].json, rows[i].part);
        assert_true(read_event(rows[i].json, strlen(rows[i].json), &p));
        if (p.usage.doubtful != rows[i].doubtful)
            fail_msg("%s: doubtful", rows[i].json);
        part_free(&p);
    }
}

/* F19, F20, F21: what the reports of one stream come to. */
static void test_f19_f20_f21_reports_together(void **state)
{
    static const struct {
        const char *what, *events[4], *usage;
    } rows[] = {
        {"F21: 1 and 15 are 15",
         {START("{\"input_tokens\":25,\"output_tokens\":1}"),
          END("\"end_turn\"", "{\"output_tokens\":15}")},
         "25,0,0,15"},
        {"F21: the sum of three is said once more at the end",
         {START("{\"input_tokens\":5,\"cache_creation_input_tokens\":20,"
                "\"cache_read_input_tokens\":100,\"output_tokens\":1}"),
          END("\"end_turn\"", "{\"input_tokens\":5,\"cache_creation_input_tokens\":20,"
                              "\"cache_read_input_tokens\":100,\"output_tokens\":15}")},
         "125,100,20,15"},
        {"F19: several ends are running totals",
         {START("{\"input_tokens\":25,\"output_tokens\":1}"),
          END("null", "{\"output_tokens\":5}"), END("null", "{\"output_tokens\":9}"),
          END("\"end_turn\"", "{\"output_tokens\":14}")},
         "25,0,0,14"},
        {"F20: zeros and nothing after it",
         {START("{\"input_tokens\":25,\"output_tokens\":1}"),
          END("\"end_turn\"", "{\"output_tokens\":15}"), END("null", "{\"output_tokens\":0}"),
          END("null", "null")},
         "25,0,0,15"},
        {"only what is provisional: charged in full",
         {START("{\"input_tokens\":25,\"output_tokens\":1}"), END("\"end_turn\"", "null")},
         "25,0,0,1?"},
        {"nobody has said what the input was: charged in full",
         {START("null"), END("\"end_turn\"", "{\"output_tokens\":15}")},
         "0,0,0,15~"},
        {"the input only at the end",
         {START("{\"input_tokens\":0,\"output_tokens\":0}"),
          END("\"end_turn\"", "{\"input_tokens\":25,\"output_tokens\":15}")},
         "25,0,0,15"},
        {"hostile: a beginning after the end",
         {START("{\"input_tokens\":25,\"output_tokens\":1}"),
          END("\"end_turn\"", "{\"output_tokens\":15}"),
          START("{\"input_tokens\":1,\"output_tokens\":1}")},
         "25,0,0,15?"},
    };
    (void)state;
    for (size_t i = 0; i < N(rows); i++) {
        struct usage total = {0};
        char text[96];
        for (size_t k = 0; k < N(rows[i].events) && rows[i].events[k] != NULL; k++) {
            struct part p;
            assert_true(read_event(rows[i].events[k], strlen(rows[i].events[k]), &p));
            usage_merge(&total, &p.usage);
            part_free(&p);
        }
        usage_text(&total, text, sizeof text);
        if (strcmp(text, rows[i].usage) != 0)
            fail_msg("%s: %s", rows[i].what, text);
    }
}

#define ERROR(type)                                                                            \
    "{\"type\":\"error\",\"error\":{\"type\":" type ",\"message\":\"bad key sk-ant-secret\"}," \
    "\"request_id\":\"req_1\"}"

/* F24's half that is ours, and F47: an error is seen, its text goes nowhere. */
static void test_f24_f47_errors(void **state)
{
    static const struct {
        const char *json, *part, *code;
    } rows[] = {
        {ERROR("\"overloaded_error\""), "-/-/-/error", "overloaded_error"},
        {ERROR("\"api_error\""), "-/-/-/error", "api_error"},
        {ERROR("\"timeout_error\""), "-/-/-/error", "timeout_error"},
        {ERROR("\"invalid_request_error\""), "-/-/-/error", "invalid_request_error"},
        {ERROR("\"not_found_error\""), "-/-/-/error", "not_found_error"},
        {ERROR("\"request_too_large\""), "-/-/-/error", "request_too_large"},
        {ERROR("\"authentication_error\""), "-/-/-/error refused", "authentication_error"},
        {ERROR("\"permission_error\""), "-/-/-/error refused", "permission_error"},
        {ERROR("\"billing_error\""), "-/-/-/error refused", "billing_error"},
        {ERROR("\"rate_limit_error\""), "-/-/-/error refused", "rate_limit_error"},
        {ERROR("\"bad key sk-ant-secret\""), "-/-/-/error", ""},
        {ERROR("\"\""), "-/-/-/error", ""},
        {ERROR("5"), "-/-/-/error", ""},
        {ERROR("null"), "-/-/-/error", ""},
        {"{\"type\":\"error\"}", "-/-/-/error", ""},
        {"{\"type\":\"error\",\"error\":\"overloaded\"}", "-/-/-/error", ""},
        {"{\"error\":{\"code\":502,\"message\":\"a proxy's\"}}", "-/-/-/error", "502"},
        {"{\"type\":\"ping\",\"error\":{\"type\":\"api_error\"}}", "-/-/-/error", "api_error"},
    };
    (void)state;
    for (size_t i = 0; i < N(rows); i++) {
        char code[PROVIDER_CODE_MAX + 1] = "as before";
        struct part p;
        expect_part(read_event, rows[i].json, rows[i].part);
        assert_true(read_event(rows[i].json, strlen(rows[i].json), &p));
        assert_string_equal(p.code, rows[i].code);
        part_free(&p);
        anthropic_provider.error_code(rows[i].json, strlen(rows[i].json), code);
        assert_string_equal(code, rows[i].code);
        if (strcmp(rows[i].json, "{\"type\":\"error\"}") != 0)
            expect_part(read_whole, rows[i].json, rows[i].part);
    }
}

static void test_f47_bodies_without_a_code(void **state)
{
    static const char *const rows[] = {
        "",
        "[]",
        "null",
        "<html>",
        "{\"error\":null}",
        "{\"type\":\"error\",\"error\":{\"ty",
        "[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]",
    };
    (void)state;
    for (size_t i = 0; i < N(rows); i++) {
        char code[PROVIDER_CODE_MAX + 1] = "as before";
        anthropic_provider.error_code(rows[i], strlen(rows[i]), code);
        assert_string_equal(code, "");
    }
}

#define MESSAGE(content, reason, usage)                                                        \
    "{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"claude-test\"," \
    "\"content\":" content ",\"stop_reason\":" reason                                          \
    ",\"stop_sequence\":null,\"usage\":" usage "}"
#define USED "{\"input_tokens\":7,\"output_tokens\":3}"

static void test_whole_answers(void **state)
{
    static const struct {
        const char *json, *part;
    } rows[] = {
        {MESSAGE("[{\"type\":\"text\",\"text\":\"Hi\"}]", "\"end_turn\"", USED),
         "Hi/stop/7,0,0,3/"},
        {MESSAGE(
             "[{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"x\"},{\"type\":"
             "\"text\",\"text\":\"a\",\"citations\":null},{\"type\":\"text\",\"text\":\"b\"}]",
             "\"stop_sequence\"", USED),
         "ab/stop/7,0,0,3/"},
        {MESSAGE("[{\"type\":\"text\",\"text\":\"I\"}]", "\"refusal\"", USED),
         "I/filter/7,0,0,3/"},
        {MESSAGE("[{\"type\":\"text\",\"text\":\"I\"}]", "null", "null"), "I/-/-/"},
        {MESSAGE("[{\"type\":\"text\",\"text\":\"I\"}]", "\"end_turn\"",
                 "{\"input_tokens\":5,\"cache_creation_input_tokens\":20,"
                 "\"cache_read_input_tokens\":100,\"output_tokens\":15}"),
         "I/stop/125,100,20,15/"},
        {MESSAGE("[{\"type\":\"text\",\"text\":\"I\"}]", "\"end_turn\"",
                 "{\"output_tokens\":15}"),
         "I/stop/0,0,0,15~/"},
        /* F27: the whole cap went into thinking; and nothing was said at all */
        {MESSAGE("[{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"x\"}]",
                 "\"max_tokens\"", "{\"input_tokens\":7,\"output_tokens\":300}"),
         "-/length/7,0,0,300/"},
        {MESSAGE("[]", "\"end_turn\"", USED), "-/stop/7,0,0,3/"},
        {MESSAGE("null", "\"end_turn\"", USED), "nonsense"},
        {MESSAGE("\"Hi\"", "\"end_turn\"", USED), "nonsense"},
        {MESSAGE("{}", "\"end_turn\"", USED), "nonsense"},
        {MESSAGE("[\"Hi\"]", "\"end_turn\"", USED), "nonsense"},
        {MESSAGE("[{\"text\":\"Hi\"}]", "\"end_turn\"", USED), "nonsense"},
        {MESSAGE("[{\"type\":\"text\",\"text\":5}]", "\"end_turn\"", USED), "nonsense"},
        {MESSAGE("[{\"type\":\"text\",\"text\":\"a\\u0000\"}]", "\"end_turn\"", USED),
         "nonsense"},
        {MESSAGE("[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\"}]", "\"end_turn\"",
                 USED),
         "nonsense"},
        {MESSAGE("[]", "7", USED), "nonsense"},
        {"{\"content\":[{\"type\":\"text\",\"text\":\"Hi\"}]}", "nonsense"},
        {"{\"type\":\"completion\",\"content\":[]}", "nonsense"},
        {"{\"choices\":[{\"message\":{\"content\":\"Hi\"}}]}", "nonsense"},
        {"{\"type\":\"message_stop\"}", "nonsense"},
        {"{\"type\":\"error\"}", "nonsense"},
        {"{}", "nonsense"},
        {"[]", "nonsense"},
        {"<html>", "nonsense"},
        {"", "nonsense"},
    };
    (void)state;
    for (size_t i = 0; i < N(rows); i++)
        expect_part(read_whole, rows[i].json, rows[i].part);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_f16_f28_a_stream_with_all_that_can_be_set),
        cmocka_unit_test(test_an_empty_system_prompt_is_none),
        cmocka_unit_test(test_f27_thinking_is_bounded_where_it_is_said),
        cmocka_unit_test(test_body_that_is_no_utf8_is_not_sent),
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_hostile_events),
        cmocka_unit_test(test_f20_f21_f29_usage),
        cmocka_unit_test(test_f19_f20_f21_reports_together),
        cmocka_unit_test(test_f24_f47_errors),
        cmocka_unit_test(test_f47_bodies_without_a_code),
        cmocka_unit_test(test_whole_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
