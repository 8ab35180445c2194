/* OpenAI's dialect: what is sent, and what events and whole answers say. */
#include "gateway/openai.h"

#include <stdlib.h>

#include "tests/unit/parts.h"

#define N(a) (sizeof(a) / sizeof((a)[0]))

/* -- what is sent -- */

static char name[] = "gpt-test", key[] = "sk-secret", prompt[] = "Be \"brief\".\n\u00e9";
static char completion_field[] = "max_completion_tokens", tokens_field[] = "max_tokens";
static char hi[] = "hi", yes[] = "a\\\"\xE2\x80\xA8";
static struct message two[] = {{ROLE_ASSISTANT, yes, sizeof yes - 1}, {ROLE_USER, hi, 2}};

static void expect_body(const struct config_model *m, const struct request *r, const char *text)
{
    size_t n = 0;
    char *body = provider_of(PROVIDER_OPENAI)->body(m, r, &n);
    assert_non_null(body);
    assert_int_equal(n, strlen(body));
    assert_string_equal(body, text);
    free(body);
}

/* F28: exactly one output cap, under the model's own name for it. Nothing else is sent. */
static void test_f28_body(void **state)
{
    struct config_model m = {.name = name,
                             .output_field = completion_field,
                             .price = {.max_output_tokens = 300, .thinking_tokens = 1024}};
    struct request r = {.messages = two + 1, .n_messages = 1, .model = "alias"};
    (void)state;
    expect_body(&m, &r,
                "{\"model\":\"gpt-test\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],"
                "\"max_completion_tokens\":300}");
    m.output_field = tokens_field;
    m.price.max_output_tokens = UINT32_MAX;
    m.system_prompt = prompt;
    r.messages = two;
    r.n_messages = 2;
    expect_body(&m, &r,
                "{\"model\":\"gpt-test\",\"messages\":[{\"role\":\"system\",\"content\":"
                "\"Be \\\"brief\\\".\\n\u00e9\"},{\"role\":\"assistant\",\"content\":"
                "\"a\\\\\\\"\xE2\x80\xA8\"},{\"role\":\"user\",\"content\":\"hi\"}],"
                "\"max_tokens\":4294967295}");
}

/* F16: usage of a stream is asked for, whether or not the client wants to see it. */
static void test_f16_usage_is_asked_for(void **state)
{
    struct config_model m = {.name = name,
                             .output_field = tokens_field,
                             .stream_usage = true,
                             .price = {.max_output_tokens = 5}};
    struct request r = {.messages = two + 1, .n_messages = 1, .stream = true};
    (void)state;
    for (int i = 0; i < 2; i++) {
        r.include_usage = i == 1;
        expect_body(&m, &r,
                    "{\"model\":\"gpt-test\",\"messages\":[{\"role\":\"user\",\"content\":"
                    "\"hi\"}],\"max_tokens\":5,\"stream\":true,\"stream_options\":"
                    "{\"include_usage\":true}}");
    }
    m.stream_usage = false; /* an API that refuses the field */
    expect_body(&m, &r,
                "{\"model\":\"gpt-test\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],"
                "\"max_tokens\":5,\"stream\":true}");
}

/* F27: what a small cap is not to be spent on. */
static void test_f27_reasoning_is_bounded_where_it_is_said(void **state)
{
    static const struct {
        enum reasoning reasoning;
        const char *field;
    } rows[] = {
        {REASONING_AS_IS, ""},
        {REASONING_NONE, ",\"reasoning_effort\":\"none\""},
        {REASONING_LOW, ",\"reasoning_effort\":\"low\""},
        {REASONING_MEDIUM, ",\"reasoning_effort\":\"medium\""},
        {REASONING_HIGH, ",\"reasoning_effort\":\"high\""},
    };
    struct config_model m = {
        .name = name, .output_field = tokens_field, .price = {.max_output_tokens = 5}};
    struct request r = {.messages = two + 1, .n_messages = 1};
    char text[256];
    (void)state;
    for (size_t i = 0; i < N(rows); i++) {
        m.reasoning = rows[i].reasoning;
        snprintf(
            text, sizeof text,
            "{\"model\":\"gpt-test\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],"
            "\"max_tokens\":5%s}",
            rows[i].field);
        expect_body(&m, &r, text);
    }
}

static void test_body_that_is_no_utf8_is_not_sent(void **state)
{
    static char broken[] = "\xFF";
    struct config_model m = {
        .name = name, .output_field = tokens_field, .system_prompt = broken};
    struct request r = {.messages = two + 1, .n_messages = 1};
    size_t n;
    (void)state;
    assert_null(openai_provider.body(&m, &r, &n));
    m.system_prompt = NULL;
    m.name = broken;
    assert_null(openai_provider.body(&m, &r, &n));
}

static void test_headers(void **state)
{
    struct config_model m = {.name = name};
    char *out[PROVIDER_HEADERS_MAX] = {NULL};
    (void)state;
    assert_int_equal(openai_provider.headers(&m, out), 0); /* a local model needs no key */
    m.key = key;
    assert_int_equal(openai_provider.headers(&m, out), 1);
    assert_string_equal(out[0], "Authorization: Bearer sk-secret");
    assert_string_equal(openai_provider.path, "/chat/completions");
    free(out[0]);
}

/* -- what is answered -- */

static bool read_event(const char *text, size_t n, struct part *out)
{
    return openai_provider.event("message", text, n, out);
}

static bool read_whole(const char *text, size_t n, struct part *out)
{
    return openai_provider.whole(text, n, out);
}

#define DELTA(delta) "{\"choices\":[{\"index\":0,\"delta\":" delta ",\"finish_reason\":null}]}"

static void test_events(void **state)
{
    static const struct {
        const char *json, *part;
    } rows[] = {
        {DELTA("{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null}"), "-/-/-/"},
        {DELTA("{\"content\":\"Hi\"}"), "Hi/-/-/"},
        {DELTA("{\"content\":\"\\ud83d\\ude00\\u2028\"}"), "\xF0\x9F\x98\x80\xE2\x80\xA8/-/-/"},
        {DELTA("{\"content\":null,\"reasoning_content\":\"hm\"}"), "-/-/-/"},
        {DELTA("{\"reasoning\":\"hm\",\"obfuscation\":\"xyz\"}"), "-/-/-/"},
        {DELTA("{\"content\":[{\"type\":\"thinking\",\"thinking\":[]},{\"type\":\"text\","
               "\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]}"),
         "ab/-/-/"},
        {DELTA("{}"), "-/-/-/"},
        {DELTA("null"), "-/-/-/"},
        {"{\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}",
         "x/stop/-/"},
        {"{\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}]}", "-/length/-/"},
        {"{\"choices\":[{\"delta\":{},\"finish_reason\":\"content_filter\"}]}", "-/filter/-/"},
        {"{\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}", "-/other/-/"},
        {"{\"choices\":[{\"delta\":{},\"finish_reason\":\"\"}]}", "-/-/-/"},
        {"{\"choices\":[{\"delta\":{}}]}", "-/-/-/"},
        {"{\"choices\":[{\"index\":1,\"delta\":{\"content\":\"not asked for\"}}]}", "-/-/-/"},
        {"{\"choices\":[]}", "-/-/-/"},
        {"{\"choices\":null}", "-/-/-/"},
        {"{\"timings\":{}}", "-/-/-/"},
        {"[DONE]", "-/-/-/done"},
    };
    (void)state;
    for (size_t i = 0; i < N(rows); i++)
        expect_part(read_event, rows[i].json, rows[i].part);
}

static void test_hostile_events(void **state)
{
    static const char *const rows[] = {
        "",
        "[DONE",
        "[DONE] ",
        "[done]",
        "Hello",
        "null",
        "5",
        "\"a\"",
        "[]",
        "[{\"choices\":[]}]",
        "<html><body>502</body></html>",
        "{\"choices\":{}}",
        "{\"choices\":\"a\"}",
        "{\"choices\":[null]}",
        "{\"choices\":[\"a\"]}",
        "{\"choices\":[{\"delta\":[]}]}",
        "{\"choices\":[{\"delta\":\"a\"}]}",
        DELTA("{\"content\":5}"),
        DELTA("{\"content\":{}}"),
        DELTA("{\"content\":true}"),
        DELTA("{\"content\":[\"a\"]}"),
        DELTA("{\"content\":[{\"type\":\"text\",\"text\":\"a\"},5]}"),
        DELTA("{\"content\":\"a\\u0000b\"}"),
        DELTA("{\"content\":\"\xC0\xAF\"}"),
        DELTA("{\"content\":\"a\",\"content\":\"b\"}"),
        "{\"choices\":[{\"delta\":{},\"finish_reason\":1}]}",
        "{\"x\":[[[[[[[[[[[[[[[[0]]]]]]]]]]]]]]]]}",
        "{\"usage\":{\"prompt_tokens\":123456789012345678901234567890}}",
    };
    (void)state;
    for (size_t i = 0; i < N(rows); i++)
        expect_part(read_event, rows[i], "nonsense");
}

#define USAGE(fields) "{\"choices\":[],\"usage\":{" fields "}}"

/* F17, F18, F20, F22, F29: usage is known by its presence, and is believed within bounds. */
static void test_f17_f18_f20_f22_f29_usage(void **state)
{
    static const struct {
        const char *json, *part;
    } rows[] = {
        /* F17 */
        {USAGE("\"prompt_tokens\":7,\"completion_tokens\":3,\"total_tokens\":10"),
         "-/-/7,0,0,3/"},
        {"{\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3}}", "-/-/7,0,0,3/"},
        /* F18 */
        {"{\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}],"
         "\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3}}",
         "a/stop/7,0,0,3/"},
        /* F20 */
        {"{\"choices\":[],\"usage\":null}", "-/-/-/"},
        {USAGE(""), "-/-/-/"},
        {USAGE("\"prompt_tokens\":0,\"completion_tokens\":0,\"total_tokens\":0"), "-/-/-/"},
        {USAGE("\"prompt_tokens\":7"), "-/-/-/"},
        {USAGE("\"completion_tokens\":7"), "-/-/-/"},
        {USAGE("\"total_tokens\":7"), "-/-/-/"},
        {"{\"usage\":[]}", "-/-/-/"},
        {"{\"usage\":5}", "-/-/-/"},
        /* F22 */
        {USAGE("\"prompt_tokens\":100,\"completion_tokens\":3,\"prompt_tokens_details\":"
               "{\"cached_tokens\":80,\"audio_tokens\":0}"),
         "-/-/100,80,0,3/"},
        {USAGE("\"prompt_tokens\":100,\"completion_tokens\":3,\"prompt_tokens_details\":"
               "{\"cached_tokens\":80,\"cache_write_tokens\":20}"),
         "-/-/100,80,20,3/"},
        {USAGE("\"prompt_tokens\":100,\"completion_tokens\":3,\"prompt_tokens_details\":"
               "{\"cached_tokens\":80,\"cache_write_tokens\":21}"),
         "-/-/-/"},
        {USAGE("\"prompt_tokens\":100,\"completion_tokens\":3,\"prompt_tokens_details\":"
               "{\"cached_tokens\":101}"),
         "-/-/-/"},
        {USAGE("\"prompt_tokens\":100,\"completion_tokens\":3,\"prompt_tokens_details\":null"),
         "-/-/100,0,0,3/"},
        {USAGE("\"prompt_tokens\":100,\"completion_tokens\":3,\"prompt_tokens_details\":"
               "{\"cached_tokens\":null}"),
         "-/-/100,0,0,3/"},
        {USAGE("\"prompt_tokens\":100,\"completion_tokens\":3,\"prompt_tokens_details\":7"),
         "-/-/-/"},
        /* reasoning is within completion_tokens; where it is not, the total has it */
        {USAGE("\"prompt_tokens\":10,\"completion_tokens\":300,\"total_tokens\":310,"
               "\"completion_tokens_details\":{\"reasoning_tokens\":290}"),
         "-/-/10,0,0,300/"},
        {USAGE("\"prompt_tokens\":10,\"completion_tokens\":5,\"total_tokens\":305,"
               "\"completion_tokens_details\":{\"reasoning_tokens\":290}"),
         "-/-/10,0,0,295/"},
        {USAGE("\"prompt_tokens\":10,\"completion_tokens\":5,"
               "\"completion_tokens_details\":{\"reasoning_tokens\":6}"),
         "-/-/-/"},
        {USAGE("\"prompt_tokens\":10,\"completion_tokens\":5,\"total_tokens\":14"), "-/-/-/"},
        /* F29 */
        {USAGE("\"prompt_tokens\":-1,\"completion_tokens\":3"), "-/-/-/"},
        {USAGE("\"prompt_tokens\":7,\"completion_tokens\":-3"), "-/-/-/"},
        {USAGE("\"prompt_tokens\":7.5,\"completion_tokens\":3"), "-/-/-/"},
        {USAGE("\"prompt_tokens\":7.0,\"completion_tokens\":3"), "-/-/-/"},
        {USAGE("\"prompt_tokens\":\"7\",\"completion_tokens\":3"), "-/-/-/"},
        {USAGE("\"prompt_tokens\":7,\"completion_tokens\":[3]"), "-/-/-/"},
        {USAGE("\"prompt_tokens\":7,\"completion_tokens\":true"), "-/-/-/"},
        {USAGE("\"prompt_tokens\":7,\"completion_tokens\":3,\"total_tokens\":\"10\""),
         "-/-/-/"},
        {USAGE("\"prompt_tokens\":67108864,\"completion_tokens\":3"), "-/-/67108864,0,0,3/"},
        {USAGE("\"prompt_tokens\":67108865,\"completion_tokens\":3"), "-/-/-/"},
        {USAGE("\"prompt_tokens\":9223372036854775807,\"completion_tokens\":1"), "-/-/-/"},
        {USAGE("\"prompt_tokens\":1,\"completion_tokens\":9223372036854775807"), "-/-/-/"},
        {USAGE("\"prompt_tokens\":1,\"completion_tokens\":1,\"cost\":0.00025,"
               "\"total_tokens\":2"),
         "-/-/1,0,0,1/"},
    };
    (void)state;
    for (size_t i = 0; i < N(rows); i++)
        expect_part(read_event, rows[i].json, rows[i].part);
}

/* F19: running totals, as Gemini sends them on every event. */
static void test_f19_running_totals(void **state)
{
    static const char *const events[] = {
        USAGE("\"prompt_tokens\":10,\"completion_tokens\":5"),
        USAGE("\"prompt_tokens\":10,\"completion_tokens\":9"),
        USAGE("\"prompt_tokens\":10,\"completion_tokens\":14"),
        USAGE("\"prompt_tokens\":0,\"completion_tokens\":0"),
        "{\"usage\":null}",
    };
    struct usage total = {0};
    (void)state;
    for (size_t i = 0; i < N(events); i++) {
        struct part p;
        assert_true(read_event(events[i], strlen(events[i]), &p));
        usage_merge(&total, &p.usage);
        part_free(&p);
    }
    assert_true(total.known);
    assert_int_equal(total.input, 10);
    assert_int_equal(total.output, 14);
}

/* F24's half that is ours, and F47: an error is seen, its text goes nowhere. */
static void test_f47_errors(void **state)
{
    static const struct {
        const char *json, *part;
    } rows[] = {
        {"{\"error\":{\"message\":\"bad key sk-secret\",\"type\":\"invalid_request_error\","
         "\"param\":null,\"code\":\"invalid_api_key\"}}",
         "-/-/-/error refused"},
        {"{\"error\":{\"message\":\"x\",\"type\":\"insufficient_quota\",\"code\":"
         "\"insufficient_quota\"}}",
         "-/-/-/error refused"},
        {"{\"error\":{\"message\":\"x\",\"type\":\"requests\",\"code\":\"rate_limit_exceeded\"}"
         "}",
         "-/-/-/error refused"},
        {"{\"error\":{\"message\":\"x\",\"type\":\"tokens\"}}", "-/-/-/error refused"},
        {"{\"error\":{\"message\":\"x\",\"code\":402}}", "-/-/-/error refused"},
        {"{\"error\":{\"message\":\"x\",\"code\":429}}", "-/-/-/error refused"},
        {"{\"error\":{\"message\":\"x\",\"code\":\"401\"}}", "-/-/-/error refused"},
        {"{\"error\":{\"message\":\"x\",\"code\":500}}", "-/-/-/error"},
        {"{\"error\":{\"message\":\"x\",\"code\":-9223372036854775808}}", "-/-/-/error"},
        {"{\"error\":{\"message\":\"x\",\"type\":\"server_error\",\"code\":null}}",
         "-/-/-/error"},
        {"{\"error\":\"overloaded\"}", "-/-/-/error"},
        {"{\"error\":{}}", "-/-/-/error"},
        {"{\"object\":\"error\",\"message\":\"x\",\"type\":\"rate_limit_error\",\"code\":1300}",
         "-/-/-/error refused"},
        {"{\"error\":{\"code\":502,\"message\":\"x\"},\"choices\":[{\"delta\":{\"content\":"
         "\"a\"},"
         "\"finish_reason\":\"error\"}]}",
         "-/-/-/error"},
        {"{\"error\":{\"code\":502},\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":1}}",
         "-/-/7,0,0,1/error"},
        {"{\"choices\":[{\"delta\":{\"content\":\"\"},\"finish_reason\":\"error\"}]}",
         "-/other/-/error"},
        {"{\"error\":null,\"choices\":[]}", "-/-/-/"},
    };
    (void)state;
    for (size_t i = 0; i < N(rows); i++) {
        expect_part(read_event, rows[i].json, rows[i].part);
        if (strstr(rows[i].part, "refused") != NULL)
            expect_part(read_whole, rows[i].json, rows[i].part);
    }
}

#define FORTY "a123456789b123456789c123456789d123456789"

/* Of an error's body nothing is taken but a word of [a-z0-9_]{1,40}. */
static void test_f47_error_codes(void **state)
{
    static const struct {
        const char *body, *code;
    } rows[] = {
        {"{\"error\":{\"code\":\"invalid_api_key\",\"type\":\"x\"}}", "invalid_api_key"},
        {"{\"error\":{\"code\":\"DeploymentNotFound\"}}", "deploymentnotfound"},
        {"{\"error\":{\"code\":null,\"type\":\"server_error\"}}", "server_error"},
        {"{\"error\":{\"code\":\"\",\"type\":\"server_error\"}}", "server_error"},
        {"{\"error\":{\"code\":402,\"message\":\"x\"}}", "402"},
        {"{\"error\":{\"code\":-1}}", ""},
        {"[{\"error\":{\"code\":400,\"status\":\"INVALID_ARGUMENT\"}}]", "invalid_argument"},
        {"{\"object\":\"error\",\"message\":\"x\",\"type\":\"invalid_model\",\"code\":1500}",
         "invalid_model"},
        {"{\"error\":{\"code\":\"" FORTY "\"}}", FORTY},
        {"{\"error\":{\"code\":\"" FORTY "e\"}}", ""},
        {"{\"error\":{\"code\":\"sk-1\"}}", ""},
        {"{\"error\":{\"code\":\"two words\"}}", ""},
        {"{\"error\":{\"code\":\"line\\nlevel=error\"}}", ""},
        {"{\"error\":{\"code\":\"\\u00e9\"}}", ""},
        {"{\"error\":{\"code\":{\"code\":\"x\"},\"type\":[\"y\"]}}", ""},
        {"{\"error\":{\"message\":\"x\"}}", ""},
        {"{\"error\":\"overloaded\"}", ""},
        {"{\"error\":null}", ""},
        {"{\"error\":{\"code\":\"cut", ""},
        {"[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]", ""},
        {"[]", ""},
        {"", ""},
        {"<html>", ""},
    };
    (void)state;
    for (size_t i = 0; i < N(rows); i++) {
        char code[PROVIDER_CODE_MAX + 1] = "as before";
        openai_provider.error_code(rows[i].body, strlen(rows[i].body), code);
        if (strcmp(code, rows[i].code) != 0)
            fail_msg("%s: %s", rows[i].body, code);
    }
}

#define MESSAGE(message, finish)                                                               \
    "{\"id\":\"x\",\"object\":\"chat.completion\",\"choices\":[{\"index\":0,"                  \
    "\"message\":" message ",\"finish_reason\":" finish "}]}"

static void test_whole_answers(void **state)
{
    static const struct {
        const char *json, *part;
    } rows[] = {
        {MESSAGE("{\"role\":\"assistant\",\"content\":\"Hi\"}", "\"stop\""), "Hi/stop/-/"},
        {MESSAGE("{\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\","
                 "\"text\":\"b\"}]}",
                 "\"stop\""),
         "ab/stop/-/"},
        {"{\"choices\":[{\"message\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}],"
         "\"usage\":"
         "{\"prompt_tokens\":7,\"completion_tokens\":3,\"total_tokens\":10}}",
         "Hi/stop/7,0,0,3/"},
        /* F27: the whole cap went into reasoning */
        {"{\"choices\":[{\"message\":{\"content\":null,\"reasoning_content\":\"hm\"},"
         "\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":"
         "300,"
         "\"completion_tokens_details\":{\"reasoning_tokens\":300}}}",
         "-/length/7,0,0,300/"},
        {MESSAGE("{\"content\":\"\"}", "\"length\""), "-/length/-/"},
        {MESSAGE("{\"content\":5}", "\"stop\""), "nonsense"},
        {MESSAGE("{\"content\":\"a\\u0000\"}", "\"stop\""), "nonsense"},
        {MESSAGE("null", "\"stop\""), "nonsense"},
        {MESSAGE("\"Hi\"", "\"stop\""), "nonsense"},
        {"{\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}", "nonsense"},
        {"{\"choices\":[]}", "nonsense"},
        {"{}", "nonsense"},
        {"[DONE]", "nonsense"},
        {"data: {}", "nonsense"},
        {"<html>", "nonsense"},
        {"", "nonsense"},
    };
    (void)state;
    for (size_t i = 0; i < N(rows); i++)
        expect_part(read_whole, rows[i].json, rows[i].part);
}

/* -- as each API really writes it -- */

#define CHUNK                                                                                  \
    "{\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\","

static void test_shapes_of_the_apis(void **state)
{
    static const struct {
        const char *api, *json, *part;
    } rows[] = {
        {"OpenAI: filler, and no usage yet",
         CHUNK
         "\"service_tier\":\"default\",\"system_fingerprint\":\"fp\",\"choices\":[{\"index\":0,"
         "\"delta\":{\"content\":\"Hi\"},\"logprobs\":null,\"finish_reason\":null}],"
         "\"usage\":null,\"obfuscation\":\"a8Kx\"}",
         "Hi/-/-/"},
        {"OpenAI: the usage at the end",
         CHUNK "\"choices\":[],\"usage\":{\"prompt_tokens\":19,\"completion_tokens\":10,"
               "\"total_tokens\":29,\"prompt_tokens_details\":{\"cached_tokens\":4,"
               "\"audio_tokens\":0},\"completion_tokens_details\":{\"reasoning_tokens\":6,"
               "\"audio_tokens\":0,\"accepted_prediction_tokens\":0,"
               "\"rejected_prediction_tokens\":0}}}",
         "-/-/19,4,0,10/"},
        {"OpenRouter: costs beside the tokens",
         CHUNK "\"provider\":\"X\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\","
               "\"content\":\"\"},\"finish_reason\":null,\"native_finish_reason\":null}],"
               "\"usage\":{\"prompt_tokens\":20,\"completion_tokens\":10,\"total_tokens\":30,"
               "\"cost\":0.00014,\"is_byok\":false,\"prompt_tokens_details\":{"
               "\"cached_tokens\":5,\"cache_write_tokens\":7},\"cost_details\":{"
               "\"upstream_inference_cost\":null},\"completion_tokens_details\":{"
               "\"reasoning_tokens\":3}}}",
         "-/-/20,5,7,10/"},
        {"OpenRouter: an error in the middle of a stream",
         CHUNK "\"provider\":\"X\",\"error\":{\"code\":429,\"message\":\"x\",\"metadata\":{}},"
               "\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"},\"finish_reason\":"
               "\"error\",\"native_finish_reason\":\"error\"}]}",
         "-/-/-/error refused"},
        {"Groq: the usage unasked for",
         CHUNK "\"choices\":[{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":"
               "\"stop\"}],\"x_groq\":{\"id\":\"req_1\",\"usage\":{\"queue_time\":0.03,"
               "\"prompt_tokens\":24,\"prompt_time\":0.004,\"completion_tokens\":8,"
               "\"completion_time\":0.01,\"total_tokens\":32,\"total_time\":0.015}}}",
         "-/stop/24,0,0,8/"},
        {"Groq: its usage twice",
         CHUNK "\"choices\":[],\"usage\":{\"prompt_tokens\":24,\"completion_tokens\":8,"
               "\"total_tokens\":32},\"x_groq\":{\"usage\":{\"prompt_tokens\":1,"
               "\"completion_tokens\":1}}}",
         "-/-/24,0,0,8/"},
        {"Groq: the first chunk", CHUNK "\"choices\":[],\"x_groq\":{\"id\":\"req_1\"}}",
         "-/-/-/"},
        {"Groq: an answer given up",
         CHUNK "\"choices\":[],\"x_groq\":{\"error\":\"over capacity\"}}", "-/-/-/error"},
        {"DeepSeek: the cache's share outside of the details",
         CHUNK
         "\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\",\"reasoning_content\":null},"
         "\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":100,"
         "\"completion_tokens\":9,\"total_tokens\":109,\"prompt_cache_hit_tokens\":64,"
         "\"prompt_cache_miss_tokens\":36}}",
         "-/stop/100,64,0,9/"},
        {"DeepSeek: in both places",
         CHUNK "\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":9,"
               "\"total_tokens\":109,\"prompt_tokens_details\":{\"cached_tokens\":64},"
               "\"prompt_cache_hit_tokens\":64,\"prompt_cache_miss_tokens\":36}}",
         "-/-/100,64,0,9/"},
        {"DeepSeek: a cache larger than the prompt",
         CHUNK "\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":9,"
               "\"prompt_cache_hit_tokens\":101}}",
         "-/-/-/"},
        {"DeepSeek: out of resources",
         CHUNK "\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"},\"finish_reason\":"
               "\"insufficient_system_resource\"}]}",
         "-/length/-/"},
        {"Mistral: thinking in parts",
         CHUNK "\"choices\":[{\"index\":0,\"delta\":{\"content\":[{\"type\":\"thinking\","
               "\"thinking\":[{\"type\":\"text\",\"text\":\"hm\"}]}]},\"finish_reason\":null}],"
               "\"p\":\"abcdefgh\"}",
         "-/-/-/"},
        {"Mistral: its context is full",
         CHUNK "\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"},\"finish_reason\":"
               "\"model_length\"}],\"usage\":{\"prompt_tokens\":5,\"total_tokens\":7,"
               "\"completion_tokens\":2}}",
         "-/length/5,0,0,2/"},
        {"Gemini: running totals, the thinking only in the sum",
         CHUNK
         "\"choices\":[{\"delta\":{\"content\":\"Hi\",\"role\":\"assistant\"},\"index\":0}],"
         "\"usage\":{\"completion_tokens\":2,\"prompt_tokens\":8,\"total_tokens\":60}}",
         "Hi/-/8,0,0,52/"},
        {"Gemini: nothing generated yet, and no count of it",
         CHUNK "\"choices\":[{\"delta\":{\"role\":\"assistant\"},\"index\":0}],\"usage\":{"
               "\"prompt_tokens\":8,\"total_tokens\":8}}",
         "-/-/-/"},
        {"Ollama: reasoning in a field of its own",
         CHUNK "\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\","
               "\"reasoning\":\"hm\"},\"finish_reason\":null}]}",
         "-/-/-/"},
        {"Ollama: an error that is a text", "{\"error\":\"model runner has stopped\"}",
         "-/-/-/error"},
        {"llama.cpp: timings beside the usage",
         CHUNK "\"choices\":[],\"usage\":{\"completion_tokens\":9,\"prompt_tokens\":15,"
               "\"total_tokens\":24},\"timings\":{\"prompt_n\":15,\"prompt_ms\":30.5,"
               "\"predicted_per_second\":1e2}}",
         "-/-/15,0,0,9/"},
        {"llama.cpp: the first chunk",
         CHUNK "\"choices\":[{\"finish_reason\":null,\"index\":0,\"delta\":{\"role\":"
               "\"assistant\",\"content\":null}}]}",
         "-/-/-/"},
        {"vLLM: reasons of its own",
         CHUNK
         "\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"},\"logprobs\":null,"
         "\"finish_reason\":\"stop\",\"stop_reason\":null,\"token_ids\":null}],\"usage\":{"
         "\"prompt_tokens\":9,\"total_tokens\":12,\"completion_tokens\":3,"
         "\"prompt_tokens_details\":null}}",
         "-/stop/9,0,0,3/"},
        {"vLLM: an error in the middle of a stream",
         "{\"error\":{\"object\":\"error\",\"message\":\"x\",\"type\":\"BadRequestError\","
         "\"param\":null,\"code\":400}}",
         "-/-/-/error"},
    };
    (void)state;
    for (size_t i = 0; i < N(rows); i++)
        expect_part(read_event, rows[i].json, rows[i].part);
}

/* DeepSeek and OpenRouter keep a connection open by blanks before a plain answer. */
static void test_blanks_before_a_whole_answer(void **state)
{
    (void)state;
    expect_part(read_whole, "\n\n \n" MESSAGE("{\"content\":\"Hi\"}", "\"stop\""),
                "Hi/stop/-/");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f28_body),
        cmocka_unit_test(test_f16_usage_is_asked_for),
        cmocka_unit_test(test_f27_reasoning_is_bounded_where_it_is_said),
        cmocka_unit_test(test_body_that_is_no_utf8_is_not_sent),
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_hostile_events),
        cmocka_unit_test(test_f17_f18_f20_f22_f29_usage),
        cmocka_unit_test(test_f19_running_totals),
        cmocka_unit_test(test_f47_errors),
        cmocka_unit_test(test_f47_error_codes),
        cmocka_unit_test(test_whole_answers),
        cmocka_unit_test(test_shapes_of_the_apis),
        cmocka_unit_test(test_blanks_before_a_whole_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
