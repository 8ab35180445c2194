/* Any body: what is accepted keeps every bound, makes an upstream body that is read again as the
 * same messages, and is priced as no less than all of these. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/admission.h"
#include "gateway/openai.h"
#include "gateway/request.h"

#define EACH 16 /* tokens that a message costs beyond its text */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct request_bounds bounds = {
    .max_message_chars = 20, .max_input_chars = 50, .max_history = 5};

static void require(bool ok)
{
    if (!ok)
        abort();
}

static size_t points(const struct message *m)
{
    size_t n = 0;
    for (size_t i = 0; i < m->bytes; i++)
        n += ((unsigned char)m->text[i] & 0xC0) != 0x80;
    return n;
}

static void check_accepted(const struct request *r)
{
    size_t bytes = 0, chars = 0;
    require(r->n_messages >= 1 && r->n_messages <= bounds.max_history);
    require(r->messages[0].role == ROLE_USER);
    require(r->messages[r->n_messages - 1].role == ROLE_USER);
    require(points(&r->messages[r->n_messages - 1]) <= bounds.max_message_chars);
    for (unsigned i = 0; i < r->n_messages; i++) {
        require(strlen(r->messages[i].text) == r->messages[i].bytes);
        require(strspn(r->messages[i].text, " \t\r\n") < r->messages[i].bytes);
        bytes += r->messages[i].bytes;
        chars += points(&r->messages[i]);
    }
    require(bytes == r->bytes && chars <= bounds.max_input_chars);
    require(memchr(r->model, '\0', sizeof r->model) != NULL);
    require(r->stream || !r->include_usage);
}

static void check_fault(const struct request_fault *f)
{
    require(f->code == CODE_BAD_JSON || f->code == CODE_BAD_REQUEST ||
            f->code == CODE_UNSUPPORTED || f->code == CODE_TOO_LONG);
    require(memchr(f->param, '\0', sizeof f->param) != NULL && f->detail[0] != '\0');
    require(memchr(f->detail, '\0', sizeof f->detail) != NULL);
}

static void check_body(const struct request *r)
{
    static char name[] = "m", prompt[] = "kurz \xF0\x9F\xA7\x82", field[] = "max_tokens";
    const struct config_model m = {
        .name = name,
        .system_prompt = prompt,
        .output_field = field,
        .stream_usage = true,
        .price = {.overhead_per_message = EACH, .input_factor_milli = 1000}};
    const struct admission a = {.model = &m};
    struct demand d;
    size_t n = 0, sent = 0;
    char *body = openai_provider.body(&m, r, &n);
    require(body != NULL);
    json_t *v = json_loadb(body, n, JSON_REJECT_DUPLICATES, NULL);
    const json_t *messages = json_object_get(v, "messages");
    require(json_object_size(v) == (r->stream ? 5 : 3));
    require(json_array_size(messages) == r->n_messages + 1);
    for (unsigned i = 0; i < r->n_messages; i++) {
        const json_t *content = json_object_get(json_array_get(messages, i + 1), "content");
        require(json_string_length(content) == r->messages[i].bytes);
        require(strcmp(json_string_value(content), r->messages[i].text) == 0);
    }
    /* A token is at least a byte of what is sent: the worst case is no less than all of it. */
    for (unsigned i = 0; i < json_array_size(messages); i++) {
        const json_t *content = json_object_get(json_array_get(messages, i), "content");
        sent += json_string_length(content) + EACH;
    }
    admission_worst(&a, r->bytes, r->n_messages, 0, &d);
    require(d.tokens_in == sent);
    json_decref(v);
    free(body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct request r;
    struct request_fault f;
    char *value = malloc(size + 1);
    require(value != NULL);
    memcpy(value, data, size);
    value[size] = '\0';
    if (request_parse(value, size, &bounds, &r, &f)) {
        check_accepted(&r);
        check_body(&r);
        request_free(&r);
    } else {
        check_fault(&f);
    }
    request_content_type_ok(value);
    free(value);
    return 0;
}
