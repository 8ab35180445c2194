/*
 * Providers: the dialects of model APIs, as a table of functions that turn bytes into structs
 * (pure: no socket, no clock). Adding one is one file.
 */
#ifndef GATEWAY_PROVIDER_H
#define GATEWAY_PROVIDER_H

#include <stdbool.h>
#include <stddef.h>

#include "gateway/config.h"
#include "gateway/price.h"
#include "gateway/request.h"

#define ANSWER_MAX 1048576 /* a whole plain answer; 300 tokens need 2 KB, 16,000 100 KB */

enum finish { FINISH_NONE, FINISH_STOP, FINISH_LENGTH, FINISH_FILTER, FINISH_OTHER };

/* What an error of a provider is called, for the owner's log: [a-z0-9_]{1,40}, or "". */
#define PROVIDER_CODE_MAX 40
/* What is read of an error's body to find it; real ones have under 1 KB. */
#define PROVIDER_ERROR_MAX 8192

/* What one event, or one whole plain answer, says. */
struct part {
    char *text; /* malloc'd UTF-8, or NULL: no visible text */
    size_t bytes;
    enum finish finish;
    struct usage usage; /* known = false if none */
    bool error;         /* the provider reports an error inside a 200 */
    bool done;          /* the dialect's own end mark ([DONE]) */
    bool refused;       /* error: about our key, credit or rate (see provider->refused) */
    char code[PROVIDER_CODE_MAX + 1]; /* error: as provider->error_code says */
};

struct provider {
    const char *path;             /* appended to the model's url: "/chat/completions" */
    const char *content_type_sse; /* an answer to a streamed request has this type */
    /* The upstream body from the allow-list of fields; malloc'd, or NULL: out of memory. */
    char *(*body)(const struct config_model *m, const struct request *r, size_t *n);
    /*
     * Request headers apart from Content-Type and Accept, one "Name: value" a slot, written
     * into out[i] (malloc'd, holds the key: wipe); returns how many, at most
     * PROVIDER_HEADERS_MAX. -1: out of memory.
     */
    int (*headers)(const struct config_model *m, char *out[]);
    /* One event's data to a part. False: not of the dialect's shape (nonsense, too deep). */
    bool (*event)(const char *name, const char *data, size_t n, struct part *out);
    /* A whole plain answer's body to a part. */
    bool (*whole)(const char *body, size_t n, struct part *out);
    /* What the body of an answer with an error's status calls the error; "" if nothing fit. */
    void (*error_code)(const char *body, size_t n, char out[PROVIDER_CODE_MAX + 1]);
};
#define PROVIDER_HEADERS_MAX 4

const struct provider *provider_of(enum provider_kind kind);

/* Puts a provider's word for an error into *out, in small letters. False, and *out is as it
 * was, if the word is empty, too long, or has anything but letters, digits and '_': it is no
 * code. */
bool provider_code(const char *word, char out[PROVIDER_CODE_MAX + 1]);
void part_free(struct part *p);

#endif
