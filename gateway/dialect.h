/*
 * What all dialects share when they write and read JSON (pure). Security: of what an API sends,
 * only visible text, bounded counts and a code of letters, digits and '_' ever leave these.
 */
#ifndef GATEWAY_DIALECT_H
#define GATEWAY_DIALECT_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/jsontext.h"
#include "gateway/provider.h"

#define DIALECT_DEPTH_MAX 16         /* choices -> delta -> content -> part needs 6 */
#define DIALECT_NONE      UINT64_MAX /* no count: PRICE_COUNTED is far below it */

/* False if there is something that is no believable count; *count stays if there is none. */
bool dialect_count(const json_t *object, const char *name, uint64_t *count);

/* Appends the text of a JSON string to the part's. False: out of memory. */
bool dialect_text(struct part *out, const json_t *text);

/* Makes the part one that reports this error: an object, or whatever stands in its place. */
void dialect_error(struct part *out, const json_t *error);

/* What the error is called: its code, status or type, whichever fits first; else *out stays. */
void dialect_code(const json_t *error, char out[PROVIDER_CODE_MAX + 1]);

/* Whether `text` is this JSON string. False for what is no string. */
bool dialect_is(const json_t *text, const char *word);

/* What an API calls the end of an answer, by its words; another word is FINISH_OTHER, and without
 * one the part's stays. False if it is no string. */
struct dialect_finish {
    const char *word;
    enum finish finish;
};
bool dialect_finish(const json_t *v, const struct dialect_finish *words, size_t n,
                    struct part *out);

/* The word for how hard to think; NULL: none is to be sent. */
const char *dialect_effort(enum reasoning reasoning);

/* The last step of making a body: `root`, which is freed, as text; malloc'd. NULL: not ok, or out
 * of memory. */
char *dialect_body(bool ok, json_t *root, size_t *n);

/* The last step of reading an answer: the part to *out, or, if it made no sense, freed. */
bool dialect_end(bool ok, struct part *part, struct part *out);

#endif
