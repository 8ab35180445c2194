/*
 * Calls to the model API. One thread of the process runs them all with curl_multi, so that
 * connections and TLS sessions are shared and stay warm; workers and it exchange bytes through
 * a bounded buffer per call with back-pressure (a full buffer pauses the transfer). It also
 * watches each call's client and aborts the transfer at once when the client leaves.
 *
 * libcurl is loaded (dlopen) by upstream_load, at the first forward and before anything is
 * reserved, because refusals and CGI must not pay its 12 ms and 2 MB.
 */
#ifndef GATEWAY_UPSTREAM_H
#define GATEWAY_UPSTREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "platform/error.h"

struct upstream;
struct call;

/*
 * Bytes a call holds at most between transfer thread and worker: on a connection of its own
 * what libcurl can deliver at once, then TCP holds the upstream back. On a connection that it
 * shares (HTTP/2) a paused call can stop the others (libcurl 7.88 does), so it holds
 * shared_bytes, which should be a whole answer (1,000 tokens as events have some 200 KB),
 * before one slow client can do that.
 */
#define UPSTREAM_BUFFER 16384

/* An empty handle; no thread, no libcurl yet. */
enum error upstream_new(unsigned streams, struct upstream **out);

/* Loads libcurl and starts the thread, once; thread-safe. ERROR_NOT_FOUND if there is no usable
 * libcurl, ERROR_MEMORY, ERROR_SYSTEM. */
enum error upstream_load(struct upstream *u);

/*
 * Aborts all calls, ends the thread, within `bound_ms`. All calls must have been freed. False: the
 * thread is stuck, where a libcurl without resolver threads asks a name server that is silent;
 * then everything is left as it is, and the process must _exit.
 */
bool upstream_free(struct upstream *u, int64_t bound_ms);

struct call_request {
    const char *url;
    const char *const *headers; /* "Name: value"; may hold the key */
    unsigned n_headers;
    const char *body; /* kept by reference until the call is freed */
    size_t n_body;
    const char *ca_file; /* or NULL */
    size_t shared_bytes; /* at least UPSTREAM_BUFFER */
    int64_t connect_timeout_ms;
    int64_t first_byte_timeout_ms; /* from the start to the first byte of the answer's body */
    int64_t idle_timeout_ms;       /* between two bytes of the body */
    int64_t total_timeout_ms;      /* from the start to the end */
    int watch_fd;                  /* exchange's, or -1 */
    bool watch_readable;
};

enum call_end {
    CALL_RUNNING,
    CALL_DONE,        /* the answer ended as HTTP says it does */
    CALL_GONE,        /* the client left; the transfer was aborted */
    CALL_UNREACHABLE, /* no connection: refused, name, TLS: nothing of the request was sent */
    CALL_TIMEOUT,     /* connect (then nothing was sent), first byte, idle or total */
    CALL_BROKEN,      /* the transfer failed midway, or the answer's header was too large */
    CALL_ABORTED      /* by us: call_abort, or the process is stopping */
};

enum error call_start(struct upstream *u, const struct call_request *r, struct call **out);

/*
 * Waits until there are bytes, the end, or wait_ms have passed (0: only looks). Returns the
 * number of bytes put into buf; 0 with *end == CALL_RUNNING means time has passed. Bytes that
 * arrived before the end are delivered before it.
 */
size_t call_read(struct call *c, void *buf, size_t n, int64_t wait_ms, enum call_end *end);

/*
 * Waits until the status is known (the final response's header is complete), the call has
 * ended, or wait_ms have passed. The status, or 0. *end as above.
 */
int call_status(struct call *c, int64_t wait_ms, enum call_end *end);

/* After call_status returned one: the header's Content-Type, "" if none or over 127 bytes;
 * valid until the call is freed. Retry-After in seconds from its arrival, -1 if none or neither
 * a number of seconds nor a date. */
const char *call_content_type(const struct call *c);
int64_t call_retry_after(const struct call *c);

/* Whether any byte of the request may have reached the other side. */
bool call_was_sent(const struct call *c);

/* Why it did not end with CALL_DONE, for the log: a short fixed text without any value of the
 * request or the answer; "" if there is nothing to say. Static storage. After the end. */
const char *call_reason(const struct call *c);

/* Whether its total time ran out: a caller who reads slowly can cause that. After the end. */
bool call_lasted(const struct call *c);

void call_abort(struct call *c);
/* Aborts if it is running, waits until the transfer thread has let go of it (milliseconds). */
void call_free(struct call *c);

#endif
