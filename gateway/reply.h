/*
 * What callers get to see: OpenAI-shaped JSON and events, rebuilt from known fields only.
 * Writes to an exchange; each function returns false once the exchange has failed.
 */
#ifndef GATEWAY_REPLY_H
#define GATEWAY_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/access.h"
#include "gateway/code.h"
#include "gateway/exchange.h"
#include "gateway/provider.h"
#include "store/ledger.h"

/* What all answers of one request share. */
struct reply {
    struct exchange *x;
    char id[40];                 /* "chatcmpl-" and 24 hex digits: also the log's request id */
    int64_t created_s;           /* wall clock */
    const char *model;           /* alias */
    bool head;                   /* HEAD: no body */
    const struct access *access; /* for CORS; NULL: no page is told anything */
    const char *cookie;    /* Set-Cookie's value, on what is answered from now on; or NULL */
    struct ledger *ledger; /* where an error is counted before it is told; or NULL */
    bool counted;
};

struct reply_error {
    enum code code;
    int64_t wait_ms; /* Retry-After; 0: none, but 429 and 503 always carry one (at least 1 s) */
    bool minute;     /* round the wait up to the minute: shared or non-call limits */
    bool billed;     /* something may have been billed: x-should-retry: false */
    const char *param;  /* or NULL */
    const char *detail; /* a fixed sentence instead of the code's own, or NULL */
    const char *allow;  /* 405: the Allow header */
    bool bearer;        /* 401: a key would help */
    bool basic;         /* 401: a password would help */
};

/* Counts an error that is told to nobody, once a request: what is told is counted before it is,
 * because a CGI process may be killed as soon as its caller has the answer. */
void reply_count(struct reply *r, enum code code);

/* A whole error answer with status, headers and body. `rates`, here and below: the answer whose
 * standings, the caller's own limits of calls, are told in the rate headers; NULL: none. */
bool reply_error(struct reply *r, const struct reply_error *e, const struct answer *rates);

/* A whole plain completion. */
bool reply_completion(struct reply *r, const struct part *p, const struct answer *rates);

/* GET /v1/models: the aliases. */
bool reply_models(struct reply *r, const struct config *c);

/*
 * GET /status: available unless `no` has a code. `a` is what the ledger said of a request that
 * was not made; NULL if it was not asked.
 */
bool reply_status(struct reply *r, const struct config *c, const struct reply_error *no,
                  const struct answer *a);

/* 200 with the JSON that `body` writes; it is called twice, once to count. */
struct sink;
typedef void reply_body(struct sink *s, const struct reply *r, const void *what);
bool reply_json(struct reply *r, reply_body *body, const void *what);

/* The same of another type, with further lines of the header, each with its \r\n. */
bool reply_page(struct reply *r, const char *type, const char *lines, reply_body *body,
                const void *what);

/* A file that caches may keep: `known` is what the browser says that it has (If-None-Match), or
 * NULL; if the file's tag is among it, 304. */
struct reply_file {
    const char *type, *lines; /* as of reply_page, Cache-Control among them */
    const char *tag;          /* with its quotes */
    const char *text;
    size_t n;
};
bool reply_file(struct reply *r, const struct reply_file *f, const char *known);

/* 308 to the directory `name` beside the path that was asked for. Relative, so that it is right
 * also where a proxy has shortened that path, and no web server takes it for one to follow
 * itself (RFC 3875, 6.2.2). `name` is the owner's, with neither colon nor slash. */
bool reply_moved(struct reply *r, const char *name);

/* A preflight's answer: `allow` are the path's methods, `asked` the names of headers that the
 * page wants to send, or NULL. */
bool reply_preflight(struct reply *r, const char *allow, const char *asked);

/* Streams: the header (with everything that keeps each web server from buffering), flushed. */
bool reply_stream_start(struct reply *r, const struct answer *rates);
/* One chunk; `first` adds the role; text may be NULL; finish ends the choice. Flushed. */
bool reply_stream_text(struct reply *r, bool first, const char *text, enum finish f);
bool reply_stream_usage(struct reply *r, const struct usage *u);
bool reply_stream_heartbeat(struct reply *r);
bool reply_stream_filler(struct reply *r); /* a comment about as long as an event */
bool reply_stream_error(struct reply *r, enum code code);
bool reply_stream_done(struct reply *r); /* data: [DONE] */

#endif
