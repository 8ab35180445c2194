/*
 * The owner's line about a model API that does not work. Security: nothing in it is the
 * upstream's text but a code of letters, digits and '_', and that only without any part of the
 * key; a hostile upstream could say it in other ways, but only to those who read the log.
 */
#include "gateway/diagnosis.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "platform/log.h"

#define KEY_PART  4  /* letters in a row that a code may not share with the key */
#define KINDS     16 /* lines that are held back separately: models and errors take turns */
#define STATUS_5X 500

static const struct {
    int status;
    const char *look;
} looks[] = {
    {200, "what came is an error or no answer of this API: look at url and provider"},
    {301, "url leads elsewhere: write the address that it leads to"},
    {302, "url leads elsewhere: write the address that it leads to"},
    {307, "url leads elsewhere: write the address that it leads to"},
    {308, "url leads elsewhere: write the address that it leads to"},
    {400, "look at model, output-field, reasoning and the credit there"},
    {401, "look at the key in key-file"},
    {402, "there is no credit left with the provider"},
    {403, "look at the key in key-file: it may not use this model, or not from here"},
    {404, "look at model and url"},
    {405, "look at url"},
    {413, "look at max-input-chars"},
    {422, "look at model, output-field and stream-usage"},
    {429, "the provider's credit or rate is used up"},
};

static const char *where_to_look(const struct diagnosis *d)
{
    for (size_t i = 0; i < sizeof(looks) / sizeof(looks[0]); i++) {
        if (looks[i].status == d->status)
            return looks[i].look;
    }
    return d->status >= STATUS_5X ? "the provider has trouble" : "look at url";
}

static bool shows_key(const char *code, const char *key)
{
    size_t n_code = strlen(code), n_key = key != NULL ? strlen(key) : 0;
    size_t part = n_key < KEY_PART ? n_key : KEY_PART;

    if (part == 0)
        return false;
    for (size_t i = 0; i + part <= n_code; i++) {
        for (size_t k = 0; k + part <= n_key; k++) {
            if (strncasecmp(code + i, key + k, part) == 0)
                return true;
        }
    }
    return false;
}

void diagnosis_text(const struct config_model *m, const struct diagnosis *d,
                    char out[DIAGNOSIS_TEXT_MAX])
{
    bool coded = d->code[0] != '\0' && !shows_key(d->code, m->key);

    if (d->reason != NULL && d->reason[0] != '\0')
        snprintf(out, DIAGNOSIS_TEXT_MAX, "model %s: the call failed: %s (%s)", m->alias,
                 d->reason,
                 d->status != 0 ? "in the middle of the answer"
                                : "look at url, ca-file, the timeouts and the network");
    else
        snprintf(out, DIAGNOSIS_TEXT_MAX, "model %s: the API answered %d%s%s: %s", m->alias,
                 d->status, coded ? " " : "", coded ? d->code : "", where_to_look(d));
}

static void tell(enum log_level level, const char *text)
{
    static struct log_once once[KINDS];
    int key = log_key(text);

    log_line_once(&once[key % KINDS], key, level, "%s", text);
}

void diagnosis_tell(const struct config_model *m, const struct diagnosis *d)
{
    char text[DIAGNOSIS_TEXT_MAX];

    diagnosis_text(m, d, text);
    tell(LOG_LEVEL_ERROR, text);
}

void diagnosis_tell_empty(const struct config_model *m)
{
    char text[DIAGNOSIS_TEXT_MAX];

    snprintf(text, sizeof(text),
             "model %s: an answer was used up before its first word: raise max-output-tokens, "
             "or set reasoning",
             m->alias);
    tell(LOG_LEVEL_WARNING, text);
}
