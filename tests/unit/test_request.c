/* The chat request: what is used, ignored, refused; shapes, caps and history. */
#include "gateway/request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define N(a) (sizeof(a) / sizeof((a)[0]))

static const struct request_bounds bounds = {
    .max_message_chars = 10, .max_input_chars = 25, .max_history = 4};

static bool parse(const char *body, struct request *r, struct request_fault *f)
{
    return request_parse(body, strlen(body), &bounds, r, f);
}

/* The messages as "user:text|assistant:text|". */
static void expect_messages(const char *body, const char *messages)
{
    struct request r;
    struct request_fault f;
    char text[256] = "";
    size_t n = 0, bytes = 0;
    if (!parse(body, &r, &f))
        fail_msg("%s: %s at '%s'", body, code_entry(f.code)->name, f.param);
    assert_int_equal(f.code, CODE_NONE);
    for (unsigned i = 0; i < r.n_messages; i++) {
        const struct message *m = &r.messages[i];
        assert_int_equal(strlen(m->text), m->bytes);
        bytes += m->bytes;
        n += (size_t)snprintf(text + n, sizeof text - n, "%s:%s|",
                              m->role == ROLE_USER ? "user" : "assistant", m->text);
    }
    assert_int_equal(r.bytes, bytes);
    if (strcmp(text, messages) != 0)
        fail_msg("%s: %s", body, text);
    request_free(&r);
    assert_null(r.messages);
}

static void expect_fault(const char *what, const char *body, size_t n, enum code code,
                         const char *param)
{
    struct request r;
    struct request_fault f;
    if (request_parse(body, n, &bounds, &r, &f))
        fail_msg("%s was taken: %s", what, body);
    if (f.code != code || strcmp(f.param, param) != 0 || f.detail[0] == '\0')
        fail_msg("%s: %s at '%s': %s", what, code_entry(f.code)->name, f.param, f.detail);
}

#define U(text)    "{\"role\":\"user\",\"content\":\"" text "\"}"
#define A(text)    "{\"role\":\"assistant\",\"content\":\"" text "\"}"
#define BODY(list) "{\"messages\":[" list "]}"

static void test_messages(void **state)
{
    static const struct {
        const char *body, *messages;
    } rows[] = {
        {BODY(U("hi")), "user:hi|"},
        {BODY(U("a") "," A("b") "," U("c")), "user:a|assistant:b|user:c|"},
        {BODY(U("a") "," U("c")), "user:a|user:c|"},
        {"{\"messages\":[{\"role\":\"user\",\"name\":\"eve\",\"content\":\"hi\",\"x\":[1]}]}",
         "user:hi|"},
        {BODY(U("a") ",{\"role\":\"assistant\",\"content\":\"b\",\"refusal\":null,"
                     "\"annotations\":[],\"tool_calls\":[],\"function_call\":null}," U("c")),
         "user:a|assistant:b|user:c|"},
        /* only the newest four are kept, and a conversation starts with its user */
        {BODY(U("a") "," A("b") "," U("c") "," A("d") "," U("e")),
         "user:c|assistant:d|user:e|"},
        {BODY(U("1") "," U("2") "," U("3") "," U("4") "," U("5")),
         "user:2|user:3|user:4|user:5|"},
        {BODY(A("0") "," A("1") "," U("2")), "user:2|"},
        {BODY(U("0") "," A("1") "," A("2") "," A("3") "," U("4")), "user:4|"},
        /* F27: an answer that was nothing but reasoning does not come back to the model */
        {BODY(U("a") "," A("") "," U("b") "," A(" \\n") "," U("c") "," A("d") "," U("e")),
         "user:b|user:c|assistant:d|user:e|"},
        /* what is trimmed costs nothing */
        {BODY(
             A("0123456789 0123456789 0123456789") "," U("1") "," U("2") "," U("3") "," U("4")),
         "user:1|user:2|user:3|user:4|"},
    };
    (void)state;
    for (size_t i = 0; i < N(rows); i++)
        expect_messages(rows[i].body, rows[i].messages);
}

#define PART(text)     "{\"type\":\"text\",\"text\":\"" text "\"}"
#define CONTENT(value) "{\"messages\":[{\"role\":\"user\",\"content\":" value "}]}"

/* F25: text parts are summed; anything else is refused before anything is called. */
static void test_f25_content(void **state)
{
    static const struct {
        const char *content, *param;
    } rows[] = {
        {CONTENT("null"), "messages[0].content"},
        {CONTENT("5"), "messages[0].content"},
        {CONTENT("true"), "messages[0].content"},
        {CONTENT("{}"), "messages[0].content"},
        {CONTENT(PART("a")), "messages[0].content"},
        {CONTENT("[]"), "messages[0].content"},
        {CONTENT("[null]"), "messages[0].content[0]"},
        {CONTENT("[\"a\"]"), "messages[0].content[0]"},
        {CONTENT("[[" PART("a") "]]"), "messages[0].content[0]"},
        {CONTENT("[" PART("a") ",{\"type\":\"image_url\",\"image_url\":{\"url\":\"x\"}}]"),
         "messages[0].content[1]"},
        {CONTENT("[{\"type\":\"image_url\",\"text\":\"a\"}]"), "messages[0].content[0]"},
        {CONTENT("[{\"type\":\"text\"}]"), "messages[0].content[0]"},
        {CONTENT("[{\"type\":\"text\",\"text\":null}]"), "messages[0].content[0]"},
        {CONTENT("[{\"type\":\"text\",\"text\":5}]"), "messages[0].content[0]"},
        {CONTENT("[{\"text\":\"a\"}]"), "messages[0].content[0]"},
        {"{\"messages\":[{\"role\":\"user\"}]}", "messages[0].content"},
    };
    (void)state;
    for (size_t i = 0; i < N(rows); i++)
        expect_fault("content", rows[i].content, strlen(rows[i].content), CODE_BAD_REQUEST,
                     rows[i].param);
    expect_messages(CONTENT("[" PART("ab") "]"), "user:ab|");
    expect_messages(CONTENT("[" PART("ab") "," PART("") "," PART("\\u00e9") "]"),
                    "user:ab\u00e9|");
    expect_messages(CONTENT("[{\"type\":\"text\",\"text\":\"a\",\"cache_control\":{}}]"),
                    "user:a|");
}

/* F26: lengths are code points after decoding, weights are bytes after decoding. */
static void test_f26_lengths(void **state)
{
    (void)state;
    expect_messages(BODY(U("0123456789")), "user:0123456789|");
    expect_messages(BODY(U("\\u0041\\u0041\\u0041\\u0041\\u0041\\u0041\\u0041\\u0041\\u0041"
                           "\\u0041")),
                    "user:AAAAAAAAAA|");
    expect_messages(BODY(U("\\ud83d\\ude00\xF0\x9F\x98\x80")),
                    "user:\xF0\x9F\x98\x80\xF0\x9F\x98\x80|");
    expect_messages(BODY(U("\u6f22\u6f22\u6f22\u6f22\u6f22\u6f22\u6f22\u6f22\u6f22\u6f22")),
                    "user:\u6f22\u6f22\u6f22\u6f22\u6f22\u6f22\u6f22\u6f22\u6f22\u6f22|");
}

static void test_caps(void **state)
{
    static const struct {
        const char *what, *body, *param;
    } rows[] = {
        {"eleven characters", BODY(U("01234567890")), "messages[0].content"},
        {"eleven in parts", CONTENT("[" PART("012345") "," PART("67890") "]"),
         "messages[0].content"},
        {"eleven emoji",
         BODY(U("\\ud83d\\ude00\\ud83d\\ude00\\ud83d\\ude00\\ud83d\\ude00\\ud83d\\ude00"
                "\\ud83d\\ude00\\ud83d\\ude00\\ud83d\\ude00\\ud83d\\ude00\\ud83d\\ude00"
                "\\ud83d\\ude00")),
         "messages[0].content"},
        {"26 in all: padded history must not slip through",
         BODY(U("0123456789") "," A("0123456789012345") "," U("0")), "messages"},
    };
    (void)state;
    for (size_t i = 0; i < N(rows); i++)
        expect_fault(rows[i].what, rows[i].body, strlen(rows[i].body), CODE_TOO_LONG,
                     rows[i].param);
    expect_messages(BODY(U("012345678901234") "," U("0123456789")),
                    "user:012345678901234|user:0123456789|");
}

static void test_number_of_messages(void **state)
{
    static const char head[] = "{\"messages\":[", one[] = U("a") ",";
    char *body = malloc(sizeof head + (REQUEST_MESSAGES_MAX + 1) * sizeof one);
    size_t n = sizeof head - 1;
    struct request r;
    struct request_fault f;
    (void)state;
    assert_non_null(body);
    memcpy(body, head, n);
    for (int i = 0; i < REQUEST_MESSAGES_MAX; i++, n += sizeof one - 1)
        memcpy(body + n, one, sizeof one - 1);
    memcpy(body + n - 1, "]}", 2);
    assert_true(request_parse(body, n + 1, &bounds, &r, &f));
    assert_int_equal(r.n_messages, 4);
    request_free(&r);
    memcpy(body + n - 1, one + sizeof one - 2, 1);
    memcpy(body + n, one, sizeof one - 1);
    n += sizeof one - 1;
    memcpy(body + n - 1, "]}", 2);
    expect_fault("one message too many", body, n + 1, CODE_TOO_LONG, "messages");
    free(body);
}

static void test_shapes(void **state)
{
    static const struct {
        const char *body;
        enum code code;
        const char *param;
    } rows[] = {
        {"[]", CODE_BAD_REQUEST, ""},
        {"{}", CODE_BAD_REQUEST, "messages"},
        {"{\"messages\":null}", CODE_BAD_REQUEST, "messages"},
        {"{\"messages\":\"hi\"}", CODE_BAD_REQUEST, "messages"},
        {"{\"messages\":{}}", CODE_BAD_REQUEST, "messages"},
        {"{\"messages\":[]}", CODE_BAD_REQUEST, "messages"},
        {"{\"messages\":[null]}", CODE_BAD_REQUEST, "messages[0]"},
        {"{\"messages\":[\"hi\"]}", CODE_BAD_REQUEST, "messages[0]"},
        {"{\"messages\":[[]]}", CODE_BAD_REQUEST, "messages[0]"},
        {"{\"messages\":[{\"content\":\"a\"}]}", CODE_BAD_REQUEST, "messages[0].role"},
        {"{\"messages\":[{\"role\":1,\"content\":\"a\"}]}", CODE_BAD_REQUEST,
         "messages[0].role"},
        {"{\"messages\":[{\"role\":\"User\",\"content\":\"a\"}]}", CODE_BAD_REQUEST,
         "messages[0].role"},
        {BODY(U("a") ",{\"role\":\"system\",\"content\":\"a\"}," U("b")), CODE_UNSUPPORTED,
         "messages[1].role"},
        {BODY("{\"role\":\"developer\",\"content\":\"a\"}," U("b")), CODE_UNSUPPORTED,
         "messages[0].role"},
        {BODY("{\"role\":\"tool\",\"content\":\"a\"}," U("b")), CODE_UNSUPPORTED,
         "messages[0].role"},
        {BODY("{\"role\":\"function\",\"content\":\"a\"}," U("b")), CODE_UNSUPPORTED,
         "messages[0].role"},
        {BODY("{\"role\":\"system\",\"content\":\"a\"}," U("1") "," U("2") "," U("3") "," U(
             "4")),
         CODE_UNSUPPORTED, "messages[0].role"}, /* also where it would be trimmed */
        {BODY(U("a") "," A("b")), CODE_BAD_REQUEST, "messages[1].role"},
        {BODY(U("")), CODE_BAD_REQUEST, "messages[0].content"},
        {BODY(U("a") "," U(" \\t\\r\\n")), CODE_BAD_REQUEST, "messages[1].content"},
        {BODY("{\"role\":\"assistant\",\"content\":\"a\",\"tool_calls\":[{}]}," U("b")),
         CODE_UNSUPPORTED, "messages[0].tool_calls"},
        {BODY("{\"role\":\"assistant\",\"content\":\"a\",\"function_call\":{}}," U("b")),
         CODE_UNSUPPORTED, "messages[0].function_call"},
        {BODY("{\"role\":\"assistant\",\"content\":\"a\",\"audio\":{\"id\":\"x\"}}," U("b")),
         CODE_UNSUPPORTED, "messages[0].audio"},
    };
    (void)state;
    for (size_t i = 0; i < N(rows); i++)
        expect_fault("shape", rows[i].body, strlen(rows[i].body), rows[i].code, rows[i].param);
}

/* {"messages":[...],<field>} */
static void with_field(char out[512], const char *field)
{
    snprintf(out, 512, "{%s,\"messages\":[" U("hi") "]}", field);
}

static void test_refused_fields(void **state)
{
    static const struct {
        const char *field;
        enum code code;
        const char *param;
    } rows[] = {
        {"\"n\":2", CODE_UNSUPPORTED, "n"},
        {"\"n\":0", CODE_UNSUPPORTED, "n"},
        {"\"n\":-1", CODE_UNSUPPORTED, "n"},
        {"\"n\":1.5", CODE_UNSUPPORTED, "n"},
        {"\"n\":\"1\"", CODE_UNSUPPORTED, "n"},
        {"\"n\":9223372036854775807", CODE_UNSUPPORTED, "n"},
        {"\"tools\":[{\"type\":\"function\"}]", CODE_UNSUPPORTED, "tools"},
        {"\"tools\":{}", CODE_UNSUPPORTED, "tools"},
        {"\"functions\":[{}]", CODE_UNSUPPORTED, "functions"},
        {"\"tool_choice\":\"required\"", CODE_UNSUPPORTED, "tool_choice"},
        {"\"tool_choice\":{\"type\":\"function\"}", CODE_UNSUPPORTED, "tool_choice"},
        {"\"function_call\":{\"name\":\"f\"}", CODE_UNSUPPORTED, "function_call"},
        {"\"modalities\":[\"text\",\"audio\"]", CODE_UNSUPPORTED, "modalities"},
        {"\"modalities\":\"audio\"", CODE_UNSUPPORTED, "modalities"},
        {"\"modalities\":[1]", CODE_UNSUPPORTED, "modalities"},
        {"\"audio\":{\"voice\":\"alloy\"}", CODE_UNSUPPORTED, "audio"},
        {"\"web_search_options\":{}", CODE_UNSUPPORTED, "web_search_options"},
        {"\"prediction\":{\"type\":\"content\"}", CODE_UNSUPPORTED, "prediction"},
        {"\"logprobs\":true", CODE_UNSUPPORTED, "logprobs"},
        {"\"logprobs\":1", CODE_UNSUPPORTED, "logprobs"},
        {"\"top_logprobs\":5", CODE_UNSUPPORTED, "top_logprobs"},
        {"\"response_format\":{\"type\":\"json_object\"}", CODE_UNSUPPORTED, "response_format"},
        {"\"response_format\":\"text\"", CODE_UNSUPPORTED, "response_format"},
        {"\"response_format\":{}", CODE_UNSUPPORTED, "response_format"},
        {"\"model\":5", CODE_BAD_REQUEST, "model"},
        {"\"stream\":1", CODE_BAD_REQUEST, "stream"},
        {"\"stream\":\"true\"", CODE_BAD_REQUEST, "stream"},
        {"\"stream_options\":{\"include_usage\":true}", CODE_BAD_REQUEST, "stream_options"},
        {"\"stream\":false,\"stream_options\":{}", CODE_BAD_REQUEST, "stream_options"},
        {"\"stream\":true,\"stream_options\":true", CODE_BAD_REQUEST, "stream_options"},
        {"\"stream\":true,\"stream_options\":{\"include_usage\":1}", CODE_BAD_REQUEST,
         "stream_options.include_usage"},
    };
    char body[512];
    (void)state;
    for (size_t i = 0; i < N(rows); i++) {
        with_field(body, rows[i].field);
        expect_fault("field", body, strlen(body), rows[i].code, rows[i].param);
    }
}

static void test_ignored_fields(void **state)
{
    static const char *const rows[] = {
        "\"n\":1",
        "\"n\":null",
        "\"tools\":[]",
        "\"tools\":null",
        "\"functions\":[]",
        "\"tool_choice\":\"none\"",
        "\"tool_choice\":\"auto\"",
        "\"function_call\":\"none\"",
        "\"modalities\":[\"text\"]",
        "\"modalities\":[]",
        "\"audio\":null",
        "\"web_search_options\":null",
        "\"prediction\":null",
        "\"logprobs\":false",
        "\"top_logprobs\":0",
        "\"response_format\":{\"type\":\"text\"}",
        "\"max_tokens\":100000",
        "\"max_completion_tokens\":-1",
        "\"temperature\":0.7,\"top_p\":1",
        "\"stop\":[\"a\"],\"seed\":1",
        "\"user\":\"u\",\"metadata\":{\"a\":\"b\"},\"store\":true",
        "\"presence_penalty\":0,\"frequency_penalty\":0,\"logit_bias\":{\"1\":-100}",
        "\"service_tier\":\"priority\",\"reasoning_effort\":\"high\",\"verbosity\":\"low\"",
        "\"parallel_tool_calls\":true,\"safety_identifier\":\"x\",\"prompt_cache_key\":\"y\"",
        "\"something_new\":{\"a\":[{\"b\":{}}]}",
        "\"Messages\":[]",
        "\"a\":\"\\\"[[[[[[[[[[[[[[[[[[[[\",\"b\":\"\\\\\",\"c\":[]",
        "\"stream_options\":null",
        "\"stream\":null",
        "\"model\":null",
    };
    char body[512];
    (void)state;
    for (size_t i = 0; i < N(rows); i++) {
        with_field(body, rows[i]);
        expect_messages(body, "user:hi|");
    }
}

static void test_used_fields(void **state)
{
    static const struct {
        const char *field, *model;
        bool stream, include_usage;
    } rows[] = {
        {"\"a\":1", "", false, false},
        {"\"model\":\"demo\"", "demo", false, false},
        {"\"model\":\""
         "012345678901234567890123456789012345678901234567890123456789012"
         "\"",
         "012345678901234567890123456789012345678901234567890123456789012", false, false},
        {"\"model\":\""
         "0123456789012345678901234567890123456789012345678901234567890123"
         "\"",
         "", false, false},
        {"\"stream\":false", "", false, false},
        {"\"stream\":true", "", true, false},
        {"\"stream\":true,\"stream_options\":null", "", true, false},
        {"\"stream\":true,\"stream_options\":{}", "", true, false},
        {"\"stream\":true,\"stream_options\":{\"include_usage\":null}", "", true, false},
        {"\"stream\":true,\"stream_options\":{\"include_usage\":false}", "", true, false},
        {"\"stream\":true,\"stream_options\":{\"include_usage\":true}", "", true, true},
        {"\"stream_options\":{\"include_usage\":true,\"include_obfuscation\":true},"
         "\"stream\":true",
         "", true, true},
    };
    char body[512];
    (void)state;
    for (size_t i = 0; i < N(rows); i++) {
        struct request r;
        struct request_fault f;
        with_field(body, rows[i].field);
        if (!parse(body, &r, &f))
            fail_msg("%s: %s", rows[i].field, f.detail);
        assert_string_equal(r.model, rows[i].model);
        assert_int_equal(r.stream, rows[i].stream);
        assert_int_equal(r.include_usage, rows[i].include_usage);
        request_free(&r);
    }
}

#define JSON(what, body)                                                                       \
    {                                                                                          \
        what, body, sizeof body - 1                                                            \
    }

static void test_hostile_json(void **state)
{
    static const struct {
        const char *what, *body;
        size_t n;
    } rows[] = {
        JSON("nothing", ""),
        JSON("blanks", "  \n"),
        JSON("a scalar", "5"),
        JSON("a string", "\"messages\""),
        JSON("cut", "{\"messages\":[{\"role\":\"user\",\"content\":\"a"),
        JSON("cut in an escape", "{\"messages\":\"\\"),
        JSON("one bracket too many", BODY(U("a")) "}"),
        JSON("two values", BODY(U("a")) BODY(U("a"))),
        JSON("a name twice", "{\"messages\":[" U("a") "],\"messages\":[" U("b") "]}"),
        JSON("a role twice",
             "{\"messages\":[{\"role\":\"user\",\"role\":\"assistant\",\"content\":\"a\"}]}"),
        JSON("NUL behind it", BODY(U("a")) "\0"),
        JSON("NUL in a text", BODY(U("a\0b"))),
        JSON("escaped NUL", BODY(U("a\\u0000b"))),
        JSON("a lone surrogate", BODY(U("\\ud800"))),
        JSON("a broken pair", BODY(U("\\ud83d\\u0041"))),
        JSON("overlong UTF-8", BODY(U("\xC0\xAF"))),
        JSON("cut UTF-8", BODY(U("\xE2\x80"))),
        JSON("Latin 1", BODY(U("\xE9"))),
        JSON("a surrogate in UTF-8", BODY(U("\xED\xA0\x80"))),
        JSON("above U+10FFFF", BODY(U("\xF4\x90\x80\x80"))),
        JSON("a raw control character", BODY(U("a\nb"))),
        JSON("a byte order mark", "\xEF\xBB\xBF" BODY(U("a"))),
        JSON("a comment", BODY(U("a") "/**/")),
        JSON("single quotes", "{'messages':[]}"),
        JSON("NaN", "{\"n\":NaN,\"messages\":[" U("a") "]}"),
        JSON("a number out of range", "{\"seed\":1e999,\"messages\":[" U("a") "]}"),
        JSON("thirty digits",
             "{\"seed\":123456789012345678901234567890,\"messages\":[" U("a") "]}"),
        JSON("octal", "{\"n\":01,\"messages\":[" U("a") "]}"),
    };
    (void)state;
    for (size_t i = 0; i < N(rows); i++)
        expect_fault(rows[i].what, rows[i].body, rows[i].n, CODE_BAD_JSON, "");
}

/* jansson recurses: depth is scanned before it sees the text. */
static void test_hostile_depth_and_number(void **state)
{
    struct request r;
    struct request_fault f;
    char body[256];
    (void)state;
    for (size_t depth = REQUEST_DEPTH_MAX - 1; depth <= REQUEST_DEPTH_MAX; depth++) {
        char open[32] = "", close[32] = "";
        memset(open, '[', depth);
        memset(close, ']', depth);
        int n =
            snprintf(body, sizeof body, "{\"x\":%s%s,\"messages\":[" U("[[") "]}", open, close);
        bool ok = request_parse(body, (size_t)n, &bounds, &r, &f);
        assert_int_equal(ok, depth + 1 <= REQUEST_DEPTH_MAX);
        if (ok)
            request_free(&r);
    }
    size_t large = 1 << 20;
    char *many = malloc(large);
    assert_non_null(many);
    memset(many, '[', large);
    expect_fault("a million brackets", many, large, CODE_BAD_JSON, "");
    memset(many, ']', large);
    expect_fault("a million closing ones", many, large, CODE_BAD_JSON, "");
    for (size_t i = 0; i + 2 < large; i += 3)
        memcpy(many + i, i == 0 ? "[[]" : ",[]", 3);
    many[large - 1] = ']';
    expect_fault("300,000 lists", many, large, CODE_BAD_JSON, "");
    memset(many, ',', large);
    expect_fault("a million commas", many, large, CODE_BAD_JSON, "");
    memset(many, '\\', large);
    many[0] = '"';
    expect_fault("a string that is no end of escapes", many, large, CODE_BAD_JSON, "");
    free(many);
}

/* F52's half that is ours: only JSON is taken, whatever else a page may send unasked. */
static void test_content_type(void **state)
{
    static const struct {
        const char *value;
        bool ok;
    } rows[] = {
        {"application/json", true},
        {"Application/JSON", true},
        {" application/json ", true},
        {"application/json;charset=utf-8", true},
        {"application/json; charset=UTF-8", true},
        {"application/json ; charset=\"utf-8\" ", true},
        {"application/json; a=b; charset=utf-8;", true},
        {"application/json;", true},
        {NULL, false},
        {"", false},
        {"text/plain", false},
        {"text/plain; application/json", false},
        {"application/x-www-form-urlencoded", false},
        {"multipart/form-data; boundary=application/json", false},
        {"application/jsonp", false},
        {"application/json+x", false},
        {"application/vnd.api+json", false},
        {"application/json, text/plain", false},
        {"application/json; charset=latin1", false},
        {"application/json; charset=utf-8; charset=utf-16", false},
        {"application/json; charset=", false},
        {"application/json; charset=\"utf-8", false},
        {"application/json; charset", false},
        {"application/json; =utf-8", false},
        {"application/json; charset =utf-8", false},
        {"application/json charset=utf-8", false},
        {"application/json; charset=utf-8 x", false},
        {"application/json\n", false},
    };
    (void)state;
    for (size_t i = 0; i < N(rows); i++)
        if (request_content_type_ok(rows[i].value) != rows[i].ok)
            fail_msg("'%s'", rows[i].value == NULL ? "(none)" : rows[i].value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_f25_content),
        cmocka_unit_test(test_f26_lengths),
        cmocka_unit_test(test_caps),
        cmocka_unit_test(test_number_of_messages),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_refused_fields),
        cmocka_unit_test(test_ignored_fields),
        cmocka_unit_test(test_used_fields),
        cmocka_unit_test(test_hostile_json),
        cmocka_unit_test(test_hostile_depth_and_number),
        cmocka_unit_test(test_content_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
