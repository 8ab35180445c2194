/* What all dialects share when they write and read JSON: counts, text, errors. */
#include "gateway/dialect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool dialect_count(const json_t *object, const char *name, uint64_t *count)
{
    const json_t *v = json_object_get(object, name);
    if (v == NULL || json_is_null(v))
        return true;
    json_int_t n = json_integer_value(v); /* 0 if it is no integer */
    if (!json_is_integer(v) || n < 0 || (uint64_t)n > PRICE_COUNTED)
        return false;
    *count = (uint64_t)n;
    return true;
}

bool dialect_text(struct part *out, const json_t *text)
{
    size_t n = json_string_length(text);
    if (n == 0)
        return true;
    char *longer = realloc(out->text, out->bytes + n + 1);
    if (longer == NULL)
        return false;
    memcpy(longer + out->bytes, json_string_value(text), n + 1);
    out->text = longer;
    out->bytes += n;
    return true;
}

bool dialect_is(const json_t *text, const char *word)
{
    return json_is_string(text) && strcmp(json_string_value(text), word) == 0;
}

bool dialect_finish(const json_t *v, const struct dialect_finish *words, size_t n,
                    struct part *out)
{
    if (v == NULL || json_is_null(v))
        return true;
    if (!json_is_string(v))
        return false;
    out->finish = FINISH_OTHER;
    for (size_t i = 0; i < n; i++)
        if (dialect_is(v, words[i].word))
            out->finish = words[i].finish;
    return true;
}

const char *dialect_effort(enum reasoning reasoning)
{
    static const char *const words[] = {[REASONING_NONE] = "none",
                                        [REASONING_LOW] = "low",
                                        [REASONING_MEDIUM] = "medium",
                                        [REASONING_HIGH] = "high"};
    return words[reasoning];
}

char *dialect_body(bool ok, json_t *root, size_t *n)
{
    char *text = ok ? json_dumps(root, JSON_COMPACT) : NULL;

    json_decref(root);
    if (text != NULL)
        *n = strlen(text);
    return text;
}

bool dialect_end(bool ok, struct part *part, struct part *out)
{
    if (ok)
        *out = *part;
    else
        part_free(part);
    return ok;
}

/* Codes and types that speak of our key, credit or rate, and not of this request. */
static bool is_about_us(const char *word)
{
    static const char *const words[] = {
        "401",
        "402",
        "429",
        "access_terminated",
        "account_deactivated",
        "authentication_error",
        "billing_error",
        "billing_hard_limit_reached",
        "billing_not_active",
        "insufficient_quota",
        "invalid_api_key",
        "invalid_authentication",
        "permission_error",
        "rate_limit_error",
        "rate_limit_exceeded",
        "requests",
        "tokens",
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(word, words[i]) == 0)
            return true;
    return false;
}

static bool field_is_about_us(const json_t *error, const char *name)
{
    const json_t *v = json_object_get(error, name);
    char number[32]; /* 2^63 and its sign take 20 */
    if (json_is_string(v))
        return is_about_us(json_string_value(v));
    if (!json_is_integer(v))
        return false;
    snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    return is_about_us(number);
}

/* Words say more than numbers, and a code more than its kind. */
void dialect_code(const json_t *error, char out[PROVIDER_CODE_MAX + 1])
{
    static const char *const fields[] = {"code", "status", "type"}; /* Gemini has a status */
    char number[32];
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const char *word = json_string_value(json_object_get(error, fields[i]));
        if (word != NULL && provider_code(word, out))
            return;
    }
    const json_t *code = json_object_get(error, "code");
    if (!json_is_integer(code))
        return;
    snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(code));
    provider_code(number, out);
}

void dialect_error(struct part *out, const json_t *error)
{
    out->error = true;
    out->refused = field_is_about_us(error, "code") || field_is_about_us(error, "type");
    dialect_code(error, out->code);
}
