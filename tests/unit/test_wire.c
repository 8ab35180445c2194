/*
 * Streams as the APIs write them (tests/wire/PROVIDER-*.sse), through event reader and dialect: the
 * same answer for every split of the bytes.
 */
#include <stdlib.h>

#include "gateway/sse.h"
#include "tests/unit/parts.h"

#define N(a)     (sizeof(a) / sizeof((a)[0]))
#define FILE_MAX 8192 /* a fixture's bytes */

/* What a caller would have, as the relay puts it together. */
struct seen {
    const struct provider *provider;
    char text[64];
    size_t n;
    enum finish finish;
    struct usage usage;
    char code[PROVIDER_CODE_MAX + 1];
    bool error, done, nonsense;
};

static bool see(void *arg, const char *name, const char *data, size_t n)
{
    struct seen *s = arg;
    struct part p;
    if (!s->provider->event(name, data, n, &p)) {
        s->nonsense = true;
        return false;
    }
    if (p.text != NULL)
        s->n += (size_t)snprintf(s->text + s->n, sizeof s->text - s->n, "%s", p.text);
    assert_true(s->n < sizeof s->text);
    if (p.finish != FINISH_NONE)
        s->finish = p.finish;
    usage_merge(&s->usage, &p.usage);
    memcpy(s->code, p.code, sizeof s->code);
    s->error = p.error;
    s->done = p.done;
    part_free(&p);
    return !s->error && !s->done;
}

/* "text/finish/usage/end" */
static void read_stream(enum provider_kind kind, const char *bytes, size_t n, size_t step,
                        char out[256])
{
    struct seen s = {.provider = provider_of(kind)};
    struct sse events;
    char usage[96];
    sse_init(&events);
    for (size_t i = 0; i < n; i += step)
        if (!sse_feed(&events, bytes + i, step < n - i ? step : n - i, see, &s))
            break;
    sse_free(&events);
    usage_text(&s.usage, usage, sizeof usage);
    snprintf(out, 256, "%s/%s/%s/%s%s%s", s.text, finish_text(s.finish), usage,
             s.done ? "done" : "", s.error ? "error " : "", s.nonsense ? "nonsense" : s.code);
}

static size_t read_fixture(const char *name, char bytes[FILE_MAX])
{
    char path[128];
    snprintf(path, sizeof path, "tests/wire/%s.sse", name);
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        fail_msg("%s: run from the root of the sources", path);
    size_t n = fread(bytes, 1, FILE_MAX, f);
    fclose(f);
    assert_true(n > 0 && n < FILE_MAX);
    return n;
}

static void test_streams(void **state)
{
    static const struct {
        enum provider_kind kind;
        const char *name, *what;
    } rows[] = {
        {PROVIDER_OPENAI, "openai-reasoning", "Salt – 塩./stop/19,0,0,74/done"},
        {PROVIDER_OPENAI, "openai-used-up", "/length/19,0,0,300/done"},
        {PROVIDER_OPENAI, "openrouter-comments", "Salt./stop/20,5,7,10/done"},
        {PROVIDER_OPENAI, "openrouter-error", "Sa/-/-/error 502"},
        {PROVIDER_OPENAI, "groq-unasked", "Salt./stop/24,0,0,8/done"},
        {PROVIDER_OPENAI, "deepseek-keepalive", "Salt./stop/100,64,0,9/done"},
        {PROVIDER_OPENAI, "mistral-thinking", "Salt./stop/5,0,0,15/done"},
        {PROVIDER_OPENAI, "gemini-totals", "Salt./stop/8,0,0,39/done"},
        {PROVIDER_OPENAI, "ollama-reasoning", "Salt./stop/15,0,0,9/done"},
        {PROVIDER_OPENAI, "llamacpp-timings", "Salt./stop/15,0,0,9/done"},
        {PROVIDER_OPENAI, "llamacpp-error-field", "Sa/-/-/"},
        {PROVIDER_OPENAI, "vllm-continuous", "Salt./stop/9,0,0,3/done"},
        {PROVIDER_ANTHROPIC, "anthropic-text", "Salt – 塩./stop/25,0,0,15/done"},
        {PROVIDER_ANTHROPIC, "anthropic-thinking", "Salt./stop/125,100,20,83/done"},
        {PROVIDER_ANTHROPIC, "anthropic-used-up", "/length/25,0,0,300/done"},
        {PROVIDER_ANTHROPIC, "anthropic-overloaded", "Sa/-/25,0,0,1?/error overloaded_error"},
        {PROVIDER_ANTHROPIC, "anthropic-cut", "Sa/-/25,0,0,1?/"},
        {PROVIDER_ANTHROPIC, "llamacpp-messages", "Salt./stop/0,0,0,9~/done"},
        /* the wrong provider in the configuration */
        {PROVIDER_ANTHROPIC, "openai-reasoning", "/-/-/nonsense"},
        {PROVIDER_OPENAI, "anthropic-text", "/-/-/"},
        {PROVIDER_OPENAI, "anthropic-overloaded", "/-/-/error overloaded_error"},
    };
    static char bytes[FILE_MAX];
    char text[256];
    (void)state;
    for (size_t i = 0; i < N(rows); i++) {
        size_t n = read_fixture(rows[i].name, bytes);
        for (size_t step = 1; step <= n; step++) {
            read_stream(rows[i].kind, bytes, n, step, text);
            if (strcmp(text, rows[i].what) != 0)
                fail_msg("%s, %zu bytes a time: %s", rows[i].name, step, text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
