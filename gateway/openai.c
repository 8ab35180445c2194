/*
 * OpenAI's chat completions: the body that is sent, and what its answers say. Security: the
 * body is built from known fields, nothing of the caller's but the messages' text; an answer is
 * as hostile as a request, and of it only text, finish, token counts and the bare fact of an
 * error are taken: no text of an error can get any further.
 */
#include "gateway/openai.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/dialect.h"

/* -- what is sent -- */

static json_t *message(const char *role, const char *text, size_t n)
{
    return json_pack("{s:s, s:s%}", "role", role, "content", text, n);
}

static json_t *messages(const struct config_model *m, const struct request *r)
{
    json_t *list = json_array();
    bool ok = list != NULL;
    if (ok && m->system_prompt != NULL)
        ok = json_array_append_new(
                 list, message("system", m->system_prompt, strlen(m->system_prompt))) == 0;
    for (unsigned i = 0; ok && i < r->n_messages; i++) {
        const struct message *from = &r->messages[i];
        const char *role = from->role == ROLE_USER ? "user" : "assistant";
        ok = json_array_append_new(list, message(role, from->text, from->bytes)) == 0;
    }
    if (!ok) {
        json_decref(list);
        return NULL;
    }
    return list;
}

static char *body(const struct config_model *m, const struct request *r, size_t *n)
{
    json_t *root = json_object();
    bool ok = json_object_set_new(root, "model", json_string(m->name)) == 0 &&
              json_object_set_new(root, "messages", messages(m, r)) == 0 &&
              json_object_set_new(root, m->output_field,
                                  json_integer(m->price.max_output_tokens)) == 0;
    if (ok && dialect_effort(m->reasoning) != NULL)
        ok = json_object_set_new(root, "reasoning_effort",
                                 json_string(dialect_effort(m->reasoning))) == 0;
    if (ok && r->stream)
        ok = json_object_set_new(root, "stream", json_true()) == 0;
    if (ok && r->stream && m->stream_usage) /* unasked, most report no usage of a stream */
        ok = json_object_set_new(root, "stream_options",
                                 json_pack("{s:b}", "include_usage", 1)) == 0;
    return dialect_body(ok, root, n);
}

static int headers(const struct config_model *m, char *out[])
{
    static const char prefix[] = "Authorization: Bearer ";
    if (m->key == NULL)
        return 0;
    size_t room = sizeof prefix + strlen(m->key);
    out[0] = malloc(room);
    if (out[0] == NULL)
        return -1;
    snprintf(out[0], room, "%s%s", prefix, m->key);
    return 1;
}

/* -- token counts -- */

static bool details_of(const json_t *usage, const char *name, const json_t **details)
{
    *details = json_object_get(usage, name);
    return *details == NULL || json_is_null(*details) || json_is_object(*details);
}

/*
 * Some providers (Gemini, xAI) leave the reasoning out of completion_tokens, but not out of
 * total_tokens: what the total has beyond the prompt was generated, and is billed so.
 */
static bool take_usage(const json_t *v, struct usage *out)
{
    uint64_t prompt = DIALECT_NONE, completion = DIALECT_NONE, total = DIALECT_NONE,
             reasoning = 0;
    uint64_t cached = 0, written = 0;
    const json_t *in, *generated;
    if (!dialect_count(v, "prompt_tokens", &prompt) || prompt == DIALECT_NONE ||
        !dialect_count(v, "completion_tokens", &completion) || completion == DIALECT_NONE ||
        !dialect_count(v, "total_tokens", &total) ||
        !details_of(v, "prompt_tokens_details", &in) ||
        !details_of(v, "completion_tokens_details", &generated) ||
        !dialect_count(v, "prompt_cache_hit_tokens", &cached) || /* DeepSeek */
        !dialect_count(in, "cached_tokens", &cached) ||
        !dialect_count(in, "cache_write_tokens", &written) ||
        !dialect_count(generated, "reasoning_tokens", &reasoning))
        return false;
    if (total == DIALECT_NONE)
        total = prompt + completion;
    if (total == 0 || total < prompt + completion || cached + written > prompt)
        return false;
    completion = total - prompt;
    if (reasoning > completion)
        return false;
    *out = (struct usage){.known = true,
                          .input = prompt,
                          .cached_input = cached,
                          .cache_write = written,
                          .output = completion};
    return true;
}

/* null, an empty object and nothing but zeros are placeholders, and no reports. */
static bool is_placeholder(const json_t *v)
{
    uint64_t prompt = 0, completion = 0, total = 0;

    if (v == NULL || json_is_null(v))
        return true;
    return json_is_object(v) && dialect_count(v, "prompt_tokens", &prompt) &&
           dialect_count(v, "completion_tokens", &completion) &&
           dialect_count(v, "total_tokens", &total) && prompt == 0 && completion == 0 &&
           total == 0;
}

/* -- errors -- */

/* The error that an answer reports, or NULL. */
static const json_t *error_in(const json_t *root)
{
    const json_t *error = json_object_get(root, "error");
    const char *object = json_string_value(json_object_get(root, "object"));
    if (error == NULL && object != NULL && strcmp(object, "error") == 0)
        return root;                          /* as vLLM and Mistral write it */
    if (error == NULL || json_is_null(error)) /* Groq, at the end of what it gave up */
        error = json_object_get(json_object_get(root, "x_groq"), "error");
    return json_is_null(error) ? NULL : error;
}

static void take_error(const json_t *root, struct part *out)
{
    const json_t *error = error_in(root);
    if (error != NULL)
        dialect_error(out, error);
}

static void error_code(const char *text, size_t n, char out[PROVIDER_CODE_MAX + 1])
{
    json_t *root = jsontext_load(text, n, DIALECT_DEPTH_MAX);
    out[0] = '\0';
    /* Gemini puts its errors into a list of one */
    dialect_code(error_in(json_is_array(root) ? json_array_get(root, 0) : root), out);
    json_decref(root);
}

/* -- text and finish -- */

/* The visible text of one of the content's parts, or NULL: reasoning, say. */
static const json_t *visible(const json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    const json_t *text = json_object_get(part, "text");
    return type != NULL && strcmp(type, "text") == 0 && json_is_string(text) ? text : NULL;
}

static bool take_content(const json_t *content, struct part *out)
{
    if (content == NULL || json_is_null(content))
        return true;
    if (json_is_string(content))
        return dialect_text(out, content);
    for (size_t i = 0; i < json_array_size(content); i++) {
        const json_t *part = json_array_get(content, i);
        const json_t *text = visible(part);
        if (!json_is_object(part) || (text != NULL && !dialect_text(out, text)))
            return false;
    }
    return json_is_array(content);
}

static bool take_finish(const json_t *v, struct part *out)
{
    static const struct dialect_finish finishes[] = {
        {"", FINISH_NONE},
        {"stop", FINISH_STOP},
        {"length", FINISH_LENGTH},
        {"model_length", FINISH_LENGTH},                 /* Mistral: its context is full */
        {"insufficient_system_resource", FINISH_LENGTH}, /* DeepSeek: it was cut short */
        {"content_filter", FINISH_FILTER},
    };
    if (dialect_is(v, "error"))
        out->error = true; /* as OpenRouter ends a stream that failed */
    return dialect_finish(v, finishes, sizeof finishes / sizeof finishes[0], out);
}

/* One choice; `holder` is the name of what has the content. We asked for one choice alone. */
static bool take_choice(const json_t *choice, const char *holder, struct part *out)
{
    const json_t *index = json_object_get(choice, "index");
    const json_t *held = json_object_get(choice, holder);
    if (!json_is_object(choice))
        return false;
    if (json_is_integer(index) && json_integer_value(index) != 0)
        return true;
    if (held != NULL && !json_is_null(held) && !json_is_object(held))
        return false;
    return take_content(json_object_get(held, "content"), out) &&
           take_finish(json_object_get(choice, "finish_reason"), out);
}

static bool take_choices(const json_t *choices, const char *holder, struct part *out)
{
    if (choices == NULL || json_is_null(choices))
        return true;
    for (size_t i = 0; i < json_array_size(choices); i++)
        if (!take_choice(json_array_get(choices, i), holder, out))
            return false;
    return json_is_array(choices);
}

static bool take_answer(const json_t *root, const char *holder, struct part *out)
{
    if (!json_is_object(root))
        return false;
    const json_t *usage = json_object_get(root, "usage");
    if (usage == NULL || json_is_null(usage)) /* Groq, where it was not asked for */
        usage = json_object_get(json_object_get(root, "x_groq"), "usage");
    if (!take_usage(usage, &out->usage))
        out->usage.doubtful = !is_placeholder(usage);
    take_error(root, out);
    return out->error || take_choices(json_object_get(root, "choices"), holder, out);
}

static bool event(const char *name, const char *data, size_t n, struct part *out)
{
    static const char end[] = "[DONE]";
    struct part part = {0};
    (void)name; /* this dialect names no events */
    if (n == sizeof end - 1 && memcmp(data, end, n) == 0) {
        part.done = true;
        *out = part;
        return true;
    }
    json_t *root = jsontext_load(data, n, DIALECT_DEPTH_MAX);
    bool ok = take_answer(root, "delta", &part);
    json_decref(root);
    return dialect_end(ok, &part, out);
}

static bool whole(const char *text, size_t n, struct part *out)
{
    struct part part = {0};
    json_t *root = jsontext_load(text, n, DIALECT_DEPTH_MAX);
    const json_t *first = json_array_get(json_object_get(root, "choices"), 0);
    bool ok = take_answer(root, "message", &part) &&
              (part.error || json_is_object(json_object_get(first, "message")));
    json_decref(root);
    return dialect_end(ok, &part, out);
}

const struct provider openai_provider = {
    .path = "/chat/completions",
    .content_type_sse = "text/event-stream",
    .body = body,
    .headers = headers,
    .event = event,
    .whole = whole,
    .error_code = error_code,
};
