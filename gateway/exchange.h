/*
 * One request and its answer, whatever brought it: a FastCGI connection or a CGI process.
 * An exchange belongs to one thread, apart from exchange_watch.
 */
#ifndef GATEWAY_EXCHANGE_H
#define GATEWAY_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct exchange;

struct exchange_ops {
    /* Up to n bytes of the body; 0 at its end; -1 if it broke off or the deadline has
     * passed. */
    ssize_t (*read)(struct exchange *x, void *buf, size_t n);
    /* Writes all or fails; once failed it stays failed (libfcgi itself forgets). */
    bool (*write)(struct exchange *x, const void *buf, size_t n);
    bool (*flush)(struct exchange *x);
    /* The request is admitted: from now on it is its whole answer that must be out within
     * answer_ms, or the other side counts as gone. False if the 5 s deadline has passed. */
    bool (*admitted)(struct exchange *x, int64_t answer_ms);
};

struct exchange {
    const struct exchange_ops *ops;
    char *const
        *env;    /* NAME=value, NULL-terminated; values hostile, valid during the exchange */
    bool single; /* the process serves this one request only (CGI) */
    /*
     * The descriptor by which the other side's leaving shows, or -1, and whether it is readable
     * then or fails (POLLERR, POLLHUP). FastCGI: the connection, readable at its end or with an
     * abort record. CGI: an epoll descriptor, readable when standard output has lost its reader
     * or SIGTERM has come. Only once the body has been read to its end.
     */
    int watch_fd;
    bool watch_readable;
};

/* The first value of a variable, or NULL; "" is not NULL. */
const char *exchange_param(const struct exchange *x, const char *name);

/* The value of its occurrence number i, from 0 on; NULL: it does not occur so often. */
const char *exchange_param_at(const struct exchange *x, const char *name, unsigned i);

/* How many times the variable occurs (servers that pass repeated headers repeat it). */
unsigned exchange_param_count(const struct exchange *x, const char *name);

/* Its value if it occurs exactly once, else NULL: of two nobody knows which is meant. */
const char *exchange_param_only(const struct exchange *x, const char *name);

/*
 * The body's length as CONTENT_LENGTH tells it. 0: not known, since servers that do not know it
 * say "", "0", "-1" (Caddy) or nothing. UINT64_MAX if it is no length at all, so that a bound
 * refuses it.
 */
uint64_t exchange_length(const struct exchange *x);

/* Whether the other side has left, for a watch_fd that poll has reported (or to ask now).
 * Callable from any thread. */
bool exchange_gone(int watch_fd, bool watch_readable);

/* The same, waiting for it so long; a signal can lengthen that. */
bool exchange_leaves(int watch_fd, bool watch_readable, int wait_ms);

#endif
