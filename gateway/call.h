/*
 * A call as its two sides share it: the worker that waits for the answer (gateway/upstream.h
 * declares what it may do) and the transfer thread (gateway/upstream.c). Private to call.c and
 * upstream.c.
 *
 * One lock guards all calls of an upstream: it is held for a copy of some KB, and never while
 * libcurl or the kernel is asked for anything that can wait. A call belongs to the transfer
 * thread from call_post until call_finish, and to its worker after it.
 */
#ifndef GATEWAY_CALL_H
#define GATEWAY_CALL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/callbuf.h"
#include "gateway/upstream.h"

#define CALL_HEADER_MAX 65536 /* all header lines of an answer; real ones have 1 to 3 KB */
#define CALL_TYPE_MAX   128

struct curl_slist;

/* Calls that the transfer thread must look at, oldest first. */
struct call_queue {
    pthread_mutex_t lock;
    struct call *first;
    int wake_fd; /* an eventfd, written to when the queue stops being empty */
    bool stopping;
    bool ended;          /* the transfer thread has done its last */
    pthread_cond_t gone; /* ... which is told by this */
};

struct call {
    struct call_queue *queue;
    struct call_request request; /* url and ca_file are copies, headers NULL: see `headers` */
    pthread_cond_t changed;

    /* Under the lock. */
    struct call *next_queued;
    bool queued, abort;
    bool paused;       /* written by the transfer thread only: its buffer had no room */
    enum call_end end; /* CALL_RUNNING as long as the transfer thread may touch the call */
    int status;        /* 0 until the header is complete; what it says is fixed from then on */
    struct callbuf buffer;
    size_t most; /* that the buffer may hold */

    /* Read from the header; the worker's once `status` is set. */
    char type[CALL_TYPE_MAX];
    int64_t retry_after_s;

    /* The transfer thread's; the worker's after the end. */
    bool sent;          /* a byte of the request may have left */
    size_t given;       /* bytes of the body that libcurl has taken */
    size_t n_header;    /* bytes of header received */
    int64_t start_ms;   /* clock_monotonic_ms, as all times here */
    int64_t byte_ms;    /* the last byte of the body, or when a pause ended; 0: none yet */
    int64_t watch_ms;   /* when to watch the client again; 0: it is being watched, or never */
    const char *reason; /* of its end; static storage */
    void *easy;         /* the transfer, or NULL: not begun */
    struct curl_slist *headers;
    struct call *next, **link; /* the list of running calls */
};

/* An empty call for a copy of `r`, without its headers. NULL: out of memory. */
struct call *call_new(struct call_queue *q, const struct call_request *r);
/* Of a call that never ran or has ended and whose headers are gone. */
void call_destroy(struct call *c);

/* An empty one without a wake_fd. False: out of memory. */
bool call_queue_init(struct call_queue *q);
void call_queue_destroy(struct call_queue *q);
/* Asks the transfer thread to end; whether it has within bound_ms. */
bool call_queue_stop(struct call_queue *q, int64_t bound_ms);

/* Puts the call into the queue and wakes the transfer thread. False if it is stopping. */
bool call_post(struct call *c);

/*
 * What follows is for the transfer thread.
 */

/* The thread's last act. */
void call_queue_end(struct call_queue *q);

/* The next call in the queue, or NULL; what is wanted of it. */
struct call *call_next(struct call_queue *q, bool *abort, bool *stopping);

/* A line of the header, its line end included, of a response with this status (0: not known
 * yet). False if the header has become too large. */
bool call_header(struct call *c, const char *line, size_t n, int status);

/* The connection carries other calls, too. */
void call_shares_connection(struct call *c);

/* Bytes of the body. False if there is no room: then the call is paused. */
bool call_body(struct call *c, const void *bytes, size_t n, int64_t now_ms);
void call_resumed(struct call *c, int64_t now_ms);

/* When the first of the call's clocks runs out, and what is to be said then. */
int64_t call_deadline(const struct call *c, const char **reason);

/* Gives the call to its worker: the transfer thread must not touch it any more. */
void call_finish(struct call *c, enum call_end end);

#endif
