/*
 * Anthropic's Messages API: the body that is sent, and what its answers say. Security: as in
 * openai.c. Nothing that costs more than tokens is ever asked for: no tools, no cache, no
 * service tier; max_tokens bounds the thinking too.
 */
#include "gateway/anthropic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/dialect.h"

#define API_VERSION "2023-06-01" /* of the header; what is read here has not changed since */

/* -- what is sent -- */

static json_t *block(const struct message *m)
{
    return json_pack("{s:s, s:s%}", "type", "text", "text", m->text, m->bytes);
}

/* A message and those after it of the same role, as the blocks of one turn: roles alternate. */
static json_t *turn(const struct request *r, unsigned *i)
{
    enum role role = r->messages[*i].role;
    json_t *content = json_array();
    bool ok = content != NULL;
    while (*i < r->n_messages && r->messages[*i].role == role)
        ok = ok && json_array_append_new(content, block(&r->messages[(*i)++])) == 0;
    if (!ok) {
        json_decref(content);
        return NULL;
    }
    return json_pack("{s:s, s:o}", "role", role == ROLE_USER ? "user" : "assistant", "content",
                     content);
}

/* What the assistant said before any user's message is left out: the API begins with a user. */
static json_t *messages(const struct request *r)
{
    json_t *list = json_array();
    bool ok = list != NULL;
    unsigned i = 0;
    while (i < r->n_messages && r->messages[i].role == ROLE_ASSISTANT)
        i++;
    while (ok && i < r->n_messages)
        ok = json_array_append_new(list, turn(r, &i)) == 0;
    if (!ok) {
        json_decref(list);
        return NULL;
    }
    return list;
}

static bool put_reasoning(json_t *root, enum reasoning reasoning)
{
    if (reasoning == REASONING_AS_IS)
        return true;
    if (reasoning == REASONING_NONE)
        return json_object_set_new(root, "thinking", json_pack("{s:s}", "type", "disabled")) ==
               0;
    return json_object_set_new(root, "output_config",
                               json_pack("{s:s}", "effort", dialect_effort(reasoning))) == 0;
}

static char *body(const struct config_model *m, const struct request *r, size_t *n)
{
    json_t *root = json_object();
    bool ok =
        json_object_set_new(root, "model", json_string(m->name)) == 0 &&
        json_object_set_new(root, "max_tokens", json_integer(m->price.max_output_tokens)) == 0;
    if (ok && m->system_prompt != NULL && m->system_prompt[0] != '\0')
        ok = json_object_set_new(root, "system", json_string(m->system_prompt)) == 0;
    ok = ok && json_object_set_new(root, "messages", messages(r)) == 0 &&
         put_reasoning(root, m->reasoning);
    if (ok && r->stream)
        ok = json_object_set_new(root, "stream", json_true()) == 0;
    return dialect_body(ok, root, n);
}

static int headers(const struct config_model *m, char *out[])
{
    static const char prefix[] = "x-api-key: ";
    out[0] = strdup("anthropic-version: " API_VERSION);
    if (out[0] == NULL)
        return -1;
    if (m->key == NULL)
        return 1;
    size_t room = sizeof prefix + strlen(m->key);
    out[1] = malloc(room);
    if (out[1] == NULL) {
        free(out[0]);
        return -1;
    }
    snprintf(out[1], room, "%s%s", prefix, m->key);
    return 2;
}

/* -- token counts -- */

struct counts {
    uint64_t input, created, read, output; /* DIALECT_NONE: input or output is not there */
};

static bool take_counts(const json_t *v, struct counts *c)
{
    *c = (struct counts){.input = DIALECT_NONE, .output = DIALECT_NONE};
    return json_is_object(v) && dialect_count(v, "input_tokens", &c->input) &&
           dialect_count(v, "cache_creation_input_tokens", &c->created) &&
           dialect_count(v, "cache_read_input_tokens", &c->read) &&
           dialect_count(v, "output_tokens", &c->output);
}

static bool is_zero(uint64_t count)
{
    return count == 0 || count == DIALECT_NONE;
}

/*
 * The input is the sum of its three parts. null, an empty object and nothing but zeros are
 * placeholders, and no reports.
 */
static void take_usage(const json_t *v, struct usage *out)
{
    struct counts c;
    if (v == NULL || json_is_null(v))
        return;
    bool ok = take_counts(v, &c);
    if (ok && is_zero(c.input) && is_zero(c.output) && c.created == 0 && c.read == 0)
        return;
    bool lacks_input = c.input == DIALECT_NONE;
    uint64_t input = (lacks_input ? 0 : c.input) + c.created + c.read;
    if (!ok || c.output == DIALECT_NONE || input > PRICE_COUNTED) {
        out->doubtful = true;
        return;
    }
    *out = (struct usage){.known = true,
                          .input = input,
                          .cached_input = c.read,
                          .cache_write = c.created,
                          .output = c.output,
                          .lacks_input = lacks_input};
}

/* -- text and finish -- */

/* The visible text of a block or a delta of this type: thinking, signatures, the input of tools
 * and what is not known yet have none. */
static bool take_text(const json_t *from, const char *type, struct part *out)
{
    const json_t *text = json_object_get(from, "text");
    if (!json_is_string(json_object_get(from, "type")))
        return false;
    if (!dialect_is(json_object_get(from, "type"), type))
        return true;
    return json_is_string(text) && dialect_text(out, text);
}

static bool take_stop_reason(const json_t *v, struct part *out)
{
    static const struct dialect_finish finishes[] = {
        {"end_turn", FINISH_STOP},     {"stop_sequence", FINISH_STOP},
        {"max_tokens", FINISH_LENGTH}, {"model_context_window_exceeded", FINISH_LENGTH},
        {"refusal", FINISH_FILTER},
    };
    return dialect_finish(v, finishes, sizeof finishes / sizeof finishes[0], out);
}

/* -- events -- */

/* Its output is that of the first token: provisional until message_delta. */
static bool take_start(const json_t *root, struct part *out)
{
    const json_t *message = json_object_get(root, "message");
    take_usage(json_object_get(message, "usage"), &out->usage);
    out->usage.doubtful = out->usage.doubtful || out->usage.known;
    return json_is_object(message);
}

static bool take_block(const json_t *root, struct part *out)
{
    return take_text(json_object_get(root, "content_block"), "text", out);
}

static bool take_delta(const json_t *root, struct part *out)
{
    return take_text(json_object_get(root, "delta"), "text_delta", out);
}

static bool take_end(const json_t *root, struct part *out)
{
    const json_t *delta = json_object_get(root, "delta");
    take_usage(json_object_get(root, "usage"), &out->usage);
    return json_is_object(delta) &&
           take_stop_reason(json_object_get(delta, "stop_reason"), out);
}

static bool take_stop(const json_t *root, struct part *out)
{
    (void)root;
    out->done = true;
    return true;
}

static bool take_error(const json_t *root, struct part *out)
{
    dialect_error(out, json_object_get(root, "error"));
    return true;
}

/* By its type: events that are not known, pings among them, say nothing. */
static bool take_event(const json_t *root, struct part *out)
{
    static const struct {
        const char *type;
        bool (*take)(const json_t *root, struct part *out);
    } events[] = {
        {"message_start", take_start},       {"content_block_start", take_block},
        {"content_block_delta", take_delta}, {"message_delta", take_end},
        {"message_stop", take_stop},         {"error", take_error},
    };
    const json_t *type = json_object_get(root, "type");
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++)
        if (dialect_is(type, events[i].type))
            return events[i].take(root, out);
    return json_is_string(type);
}

static bool event(const char *name, const char *data, size_t n, struct part *out)
{
    struct part part = {0};
    (void)name; /* the data says the same, and some servers leave the name out */
    json_t *root = jsontext_load(data, n, DIALECT_DEPTH_MAX);
    const json_t *error = json_object_get(root, "error");
    /* An error is one under any type: proxies on the way have shapes of their own. */
    bool ok = error != NULL && !json_is_null(error) ? take_error(root, &part)
                                                    : take_event(root, &part);
    json_decref(root);
    return dialect_end(ok, &part, out);
}

/* -- whole answers -- */

static bool take_message(const json_t *root, struct part *out)
{
    const json_t *content = json_object_get(root, "content");
    for (size_t i = 0; i < json_array_size(content); i++)
        if (!take_text(json_array_get(content, i), "text", out))
            return false;
    take_usage(json_object_get(root, "usage"), &out->usage);
    return json_is_array(content) && dialect_is(json_object_get(root, "type"), "message") &&
           take_stop_reason(json_object_get(root, "stop_reason"), out);
}

static bool whole(const char *text, size_t n, struct part *out)
{
    struct part part = {0};
    json_t *root = jsontext_load(text, n, DIALECT_DEPTH_MAX);
    const json_t *error = json_object_get(root, "error");
    bool ok = error != NULL && !json_is_null(error) ? take_error(root, &part)
                                                    : take_message(root, &part);
    json_decref(root);
    return dialect_end(ok, &part, out);
}

static void error_code(const char *text, size_t n, char out[PROVIDER_CODE_MAX + 1])
{
    json_t *root = jsontext_load(text, n, DIALECT_DEPTH_MAX);
    out[0] = '\0';
    dialect_code(json_object_get(root, "error"), out);
    json_decref(root);
}

const struct provider anthropic_provider = {
    .path = "/messages",
    .content_type_sse = "text/event-stream",
    .body = body,
    .headers = headers,
    .event = event,
    .whole = whole,
    .error_code = error_code,
};
