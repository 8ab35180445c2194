/*
 * The chat request: one table says what becomes of each field, and nothing outside of it is
 * looked at. Security: the body is a stranger's; everything is bounded before it is parsed or
 * copied, and no byte of it enters a message about a fault.
 */
#include "gateway/request.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "gateway/jsontext.h"

struct parse {
    const struct request_bounds *bounds;
    const json_t *root;
    struct request *out;
    struct request_fault *fault;
};

static bool fail(struct parse *p, enum code code, const char *detail)
{
    p->fault->code = code;
    snprintf(p->fault->detail, sizeof p->fault->detail, "%s", detail);
    return false;
}

static bool fail_memory(struct parse *p)
{
    return fail(p, CODE_BUSY, "There is not enough memory just now. Please try again soon.");
}

/* Names the field that is looked at, for a fault in it. */
static void at(struct parse *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void at(struct parse *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(p->fault->param, sizeof p->fault->param, format, args);
    va_end(args);
}

/* As at, for each field of the table: formatting would be a third of the parsing. */
static void at_field(struct parse *p, const char *name)
{
    size_t n = strnlen(name, sizeof p->fault->param - 1);

    memcpy(p->fault->param, name, n);
    p->fault->param[n] = '\0';
}

static size_t code_points(const char *text, size_t n)
{
    size_t points = 0;
    for (size_t i = 0; i < n; i++)
        points += ((unsigned char)text[i] & 0xC0) != 0x80;
    return points;
}

static bool is_blank(const struct message *m)
{
    return strspn(m->text, " \t\r\n") == m->bytes;
}

/* -- messages -- */

/* The text of a part, NULL if it is no text part. */
static const json_t *part_text(const json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    const json_t *text = json_object_get(part, "text");
    return type != NULL && strcmp(type, "text") == 0 && json_is_string(text) ? text : NULL;
}

/* Checks the list of parts and sums their bytes. */
static bool measure_parts(struct parse *p, size_t message, const json_t *parts, size_t *bytes)
{
    *bytes = 0;
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *text = part_text(json_array_get(parts, i));
        if (text == NULL) {
            at(p, "messages[%zu].content[%zu]", message, i);
            return fail(p, CODE_BAD_REQUEST, "Only text is taken here.");
        }
        *bytes += json_string_length(text);
    }
    return true;
}

static bool take_parts(struct parse *p, size_t message, const json_t *parts, struct message *m)
{
    size_t bytes;
    if (!measure_parts(p, message, parts, &bytes))
        return false;
    m->text = malloc(bytes + 1);
    if (m->text == NULL)
        return fail_memory(p);
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *text = part_text(json_array_get(parts, i));
        memcpy(m->text + m->bytes, json_string_value(text), json_string_length(text));
        m->bytes += json_string_length(text);
    }
    m->text[m->bytes] = '\0';
    return true;
}

static bool take_content(struct parse *p, size_t message, const json_t *content,
                         struct message *m)
{
    if (json_is_array(content))
        return take_parts(p, message, content, m);
    if (!json_is_string(content)) {
        at(p, "messages[%zu].content", message);
        return fail(p, CODE_BAD_REQUEST, "The content must be a text or a list of text parts.");
    }
    size_t bytes = json_string_length(content);
    m->text = malloc(bytes + 1);
    if (m->text == NULL)
        return fail_memory(p);
    memcpy(m->text, json_string_value(content), bytes + 1);
    m->bytes = bytes;
    return true;
}

static bool take_role(struct parse *p, size_t message, const json_t *role, struct message *m)
{
    static const char *const refused[] = {"system", "developer", "tool", "function"};
    const char *name = json_string_value(role);
    at(p, "messages[%zu].role", message);
    for (size_t i = 0; name != NULL && i < sizeof refused / sizeof refused[0]; i++)
        if (strcmp(name, refused[i]) == 0)
            return fail(p, CODE_UNSUPPORTED,
                        "Only user and assistant messages are taken here.");
    if (name == NULL || (strcmp(name, "user") != 0 && strcmp(name, "assistant") != 0))
        return fail(p, CODE_BAD_REQUEST, "The role must be user or assistant.");
    m->role = strcmp(name, "user") == 0 ? ROLE_USER : ROLE_ASSISTANT;
    return true;
}

static bool is_nothing(const json_t *v)
{
    return v == NULL || json_is_null(v) || (json_is_array(v) && json_array_size(v) == 0);
}

/* What an assistant's message may hold beside text would have to be sent on to make sense. */
static bool refuse_beside(struct parse *p, size_t message, const json_t *item)
{
    static const char *const refused[] = {"tool_calls", "function_call", "audio"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (!is_nothing(json_object_get(item, refused[i]))) {
            at(p, "messages[%zu].%s", message, refused[i]);
            return fail(p, CODE_UNSUPPORTED, "Messages hold nothing but text here.");
        }
    return true;
}

static bool take_message(struct parse *p, size_t i, const json_t *item, struct message *m)
{
    at(p, "messages[%zu]", i);
    if (!json_is_object(item))
        return fail(p, CODE_BAD_REQUEST, "A message must be an object.");
    return take_role(p, i, json_object_get(item, "role"), m) && refuse_beside(p, i, item) &&
           take_content(p, i, json_object_get(item, "content"), m);
}

/* Removes the first n messages. */
static void drop_first(struct request *r, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        free(r->messages[i].text);
    r->n_messages -= n;
    memmove(r->messages, r->messages + n, r->n_messages * sizeof *r->messages);
}

/* Earlier messages without text say nothing, and some models refuse them. */
static void drop_blank(struct request *r)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < r->n_messages; i++) {
        if (i + 1 < r->n_messages && is_blank(&r->messages[i]))
            free(r->messages[i].text);
        else
            r->messages[kept++] = r->messages[i];
    }
    r->n_messages = kept;
}

/* Keeps the newest messages, beginning with a user's. The last one is a user's. */
static void trim_history(struct request *r, uint32_t max_history)
{
    unsigned first = r->n_messages > max_history ? r->n_messages - max_history : 0;
    if (first == r->n_messages)
        first--;
    while (r->messages[first].role != ROLE_USER)
        first++;
    drop_first(r, first);
}

static bool check_lengths(struct parse *p, size_t newest)
{
    struct request *r = p->out;
    const struct message *last = &r->messages[r->n_messages - 1];
    char detail[sizeof p->fault->detail];
    size_t points = 0;
    if (code_points(last->text, last->bytes) > p->bounds->max_message_chars) {
        at(p, "messages[%zu].content", newest);
        snprintf(detail, sizeof detail, "The message is longer than %lu characters.",
                 (unsigned long)p->bounds->max_message_chars);
        return fail(p, CODE_TOO_LONG, detail);
    }
    r->bytes = 0;
    for (unsigned i = 0; i < r->n_messages; i++) {
        points += code_points(r->messages[i].text, r->messages[i].bytes);
        r->bytes += r->messages[i].bytes;
    }
    if (points > p->bounds->max_input_chars) {
        at(p, "messages");
        snprintf(detail, sizeof detail, "The conversation is longer than %lu characters.",
                 (unsigned long)p->bounds->max_input_chars);
        return fail(p, CODE_TOO_LONG, detail);
    }
    return true;
}

static bool take_list(struct parse *p, const json_t *list, size_t n)
{
    struct request *r = p->out;
    r->messages = calloc(n, sizeof *r->messages);
    if (r->messages == NULL)
        return fail_memory(p);
    for (size_t i = 0; i < n; i++) {
        r->n_messages++;
        if (!take_message(p, i, json_array_get(list, i), &r->messages[i]))
            return false;
    }
    return true;
}

static bool take_messages(struct parse *p, const json_t *list)
{
    struct request *r = p->out;
    size_t n = json_array_size(list);
    if (n == 0)
        return fail(p, CODE_BAD_REQUEST, "There must be a list of messages.");
    if (n > REQUEST_MESSAGES_MAX)
        return fail(p, CODE_TOO_LONG, "There are too many messages.");
    if (!take_list(p, list, n))
        return false;
    const struct message *last = &r->messages[n - 1];
    if (last->role != ROLE_USER) {
        at(p, "messages[%zu].role", n - 1);
        return fail(p, CODE_BAD_REQUEST, "The last message must be the user's.");
    }
    if (is_blank(last)) {
        at(p, "messages[%zu].content", n - 1);
        return fail(p, CODE_BAD_REQUEST, "The message is empty.");
    }
    drop_blank(r);
    trim_history(r, p->bounds->max_history);
    return check_lengths(p, n - 1);
}

/* -- other fields that are used -- */

static bool take_model(struct parse *p, const json_t *v)
{
    if (v != NULL && !json_is_string(v))
        return fail(p, CODE_BAD_REQUEST, "The model must be a name.");
    if (v != NULL && json_string_length(v) < sizeof p->out->model)
        memcpy(p->out->model, json_string_value(v), json_string_length(v) + 1);
    return true;
}

static bool take_stream(struct parse *p, const json_t *v)
{
    if (v != NULL && !json_is_boolean(v))
        return fail(p, CODE_BAD_REQUEST, "stream must be true or false.");
    p->out->stream = json_is_true(v);
    return true;
}

static bool take_stream_options(struct parse *p, const json_t *v)
{
    if (v == NULL)
        return true;
    if (!json_is_object(v) || !json_is_true(json_object_get(p->root, "stream")))
        return fail(p, CODE_BAD_REQUEST, "stream_options goes with stream: true alone.");
    const json_t *usage = json_object_get(v, "include_usage");
    at(p, "stream_options.include_usage");
    if (usage != NULL && !json_is_boolean(usage) && !json_is_null(usage))
        return fail(p, CODE_BAD_REQUEST, "include_usage must be true or false.");
    p->out->include_usage = json_is_true(usage);
    return true;
}

/* -- values that make a refused field harmless -- */

static bool is_text(const json_t *v, const char *text)
{
    return json_is_string(v) && strcmp(json_string_value(v), text) == 0;
}

static bool is_one(const json_t *v)
{
    return json_is_integer(v) && json_integer_value(v) == 1;
}

static bool is_zero(const json_t *v)
{
    return json_is_integer(v) && json_integer_value(v) == 0;
}

static bool is_false(const json_t *v)
{
    return json_is_false(v);
}

/* Without tools, "auto" can only choose none. */
static bool chooses_none(const json_t *v)
{
    return is_text(v, "none") || is_text(v, "auto");
}

static bool is_text_list(const json_t *v)
{
    for (size_t i = 0; i < json_array_size(v); i++)
        if (!is_text(json_array_get(v, i), "text"))
            return false;
    return json_is_array(v);
}

static bool is_text_format(const json_t *v)
{
    return is_text(json_object_get(v, "type"), "text");
}

/*
 * Every known field. Used: `take` is given its value, NULL if there is none. Refused: unless null
 * or `harmless`. Ignored: never sent on, like every field that is not in the table. In the
 * order in which faults are told: what is cheap to see first.
 */
enum treatment { USED, IGNORED, REFUSED };
static const struct field {
    const char *name;
    enum treatment treatment;
    bool (*take)(struct parse *p, const json_t *v);
    bool (*harmless)(const json_t *v);
} fields[] = {
    {"model", USED, take_model, NULL},
    {"stream", USED, take_stream, NULL},
    {"stream_options", USED, take_stream_options, NULL},

    {"n", REFUSED, NULL, is_one},
    {"tools", REFUSED, NULL, is_nothing},
    {"tool_choice", REFUSED, NULL, chooses_none},
    {"functions", REFUSED, NULL, is_nothing},
    {"function_call", REFUSED, NULL, chooses_none},
    {"modalities", REFUSED, NULL, is_text_list},
    {"audio", REFUSED, NULL, is_nothing},
    {"web_search_options", REFUSED, NULL, is_nothing},
    {"prediction", REFUSED, NULL, is_nothing},
    {"logprobs", REFUSED, NULL, is_false},
    {"top_logprobs", REFUSED, NULL, is_zero},
    {"response_format", REFUSED, NULL, is_text_format},

    {"max_tokens", IGNORED, NULL, NULL},
    {"max_completion_tokens", IGNORED, NULL, NULL},
    {"temperature", IGNORED, NULL, NULL},
    {"top_p", IGNORED, NULL, NULL},
    {"stop", IGNORED, NULL, NULL},
    {"seed", IGNORED, NULL, NULL},
    {"presence_penalty", IGNORED, NULL, NULL},
    {"frequency_penalty", IGNORED, NULL, NULL},
    {"logit_bias", IGNORED, NULL, NULL},
    {"reasoning_effort", IGNORED, NULL, NULL},
    {"verbosity", IGNORED, NULL, NULL},
    {"parallel_tool_calls", IGNORED, NULL, NULL},
    {"service_tier", IGNORED, NULL, NULL},
    {"store", IGNORED, NULL, NULL},
    {"metadata", IGNORED, NULL, NULL},
    {"user", IGNORED, NULL, NULL},
    {"safety_identifier", IGNORED, NULL, NULL},
    {"prompt_cache_key", IGNORED, NULL, NULL},
    {"prompt_cache_retention", IGNORED, NULL, NULL},
    {"moderation", IGNORED, NULL, NULL},

    {"messages", USED, take_messages, NULL},
};

static bool take_field(struct parse *p, const struct field *f)
{
    const json_t *v = json_object_get(p->root, f->name);
    if (json_is_null(v))
        v = NULL;
    at_field(p, f->name);
    if (f->treatment == USED)
        return f->take(p, v);
    if (f->treatment == REFUSED && v != NULL && !f->harmless(v))
        return fail(p, CODE_UNSUPPORTED, "This field asks for something not offered here.");
    return true;
}

static bool take_fields(struct parse *p)
{
    if (!json_is_object(p->root))
        return fail(p, CODE_BAD_REQUEST, "The request must be an object.");
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (!take_field(p, &fields[i]))
            return false;
    return true;
}

bool request_parse(const char *body, size_t n, const struct request_bounds *b,
                   struct request *out, struct request_fault *fault)
{
    struct request r = {0};
    struct parse p = {b, NULL, &r, fault};
    memset(fault, 0, sizeof *fault);
    json_t *root = jsontext_load(body, n, REQUEST_DEPTH_MAX);
    if (root == NULL)
        return fail(&p, CODE_BAD_JSON, "The body is not valid JSON, or is nested too deeply.");
    p.root = root;
    bool ok = take_fields(&p);
    json_decref(root);
    if (!ok) {
        request_free(&r);
        return false;
    }
    memset(fault, 0, sizeof *fault);
    *out = r;
    return true;
}

void request_free(struct request *r)
{
    for (unsigned i = 0; i < r->n_messages; i++)
        free(r->messages[i].text);
    free(r->messages);
    memset(r, 0, sizeof *r);
}

/* -- Content-Type -- */

static const char *skip_blanks(const char *s)
{
    return s + strspn(s, " \t");
}

/* RFC 9110, 5.6.2 */
static size_t token_length(const char *s)
{
    return strspn(s, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                     "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
}

static bool equals(const char *s, size_t n, const char *lower)
{
    return n == strlen(lower) && strncasecmp(s, lower, n) == 0;
}

/* One `name=value` or `name="value"` at *s, which moves behind it. */
static bool parameter_ok(const char **s)
{
    const char *name = *s;
    size_t n_name = token_length(name);
    if (n_name == 0 || name[n_name] != '=')
        return false;
    const char *value = name + n_name + 1;
    bool quoted = *value == '"';
    value += quoted;
    size_t n_value = quoted ? strcspn(value, "\"\\") : token_length(value);
    const char *end = value + n_value;
    if ((quoted && *end != '"') || (!quoted && n_value == 0))
        return false;
    *s = end + quoted;
    return !equals(name, n_name, "charset") || equals(value, n_value, "utf-8");
}

bool request_content_type_ok(const char *value)
{
    static const char type[] = "application/json";
    if (value == NULL)
        return false;
    const char *s = skip_blanks(value);
    if (strncasecmp(s, type, sizeof type - 1) != 0)
        return false;
    s = skip_blanks(s + sizeof type - 1);
    while (*s == ';') {
        s = skip_blanks(s + 1);
        if (*s != ';' && *s != '\0' && !parameter_ok(&s))
            return false;
        s = skip_blanks(s);
    }
    return *s == '\0';
}
