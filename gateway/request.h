/*
 * The request of POST /v1/chat/completions (pure): bounded strict JSON to a struct, by one
 * table that says of every field whether it is used, ignored or refused (pennygate-api(7) shows
 * it). Depth is scanned before parsing, since jansson recurses.
 */
#ifndef GATEWAY_REQUEST_H
#define GATEWAY_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/code.h"

#define REQUEST_DEPTH_MAX    16   /* messages -> parts -> part needs 5 */
#define REQUEST_MESSAGES_MAX 1024 /* bounds the array before max-history trims it */

enum role { ROLE_USER, ROLE_ASSISTANT };

struct message {
    enum role role;
    char *text; /* UTF-8, text parts joined; never NULL */
    size_t bytes;
};

struct request {
    struct message *messages; /* at most max_history, the newest last; the last is a user's */
    unsigned n_messages;
    size_t bytes; /* of all kept messages */
    bool stream;
    bool include_usage; /* stream_options.include_usage: the client wants the usage chunk */
    char model[64];     /* as asked for, or ""; longer than any alias is "" too */
};

struct request_bounds {
    uint32_t max_message_chars; /* the newest message; code points */
    uint32_t max_input_chars;   /* sum over the kept messages */
    uint32_t max_history;       /* messages kept, the newest ones */
};

/* What is wrong, for the caller: `param` is "" or a JSON path such as "messages[2].content";
 * `detail` a fixed sentence with at most the bound's number in it. */
struct request_fault {
    enum code code;
    char param[64];
    char detail[160];
};

/* Parses body[0..n). On false, fault says why and out needs no freeing. */
bool request_parse(const char *body, size_t n, const struct request_bounds *b,
                   struct request *out, struct request_fault *fault);
void request_free(struct request *r);

/* "application/json", with or without parameters (charset only utf-8), any case. */
bool request_content_type_ok(const char *value);

#endif
