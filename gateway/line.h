/*
 * The line of log that a request ends with, and how many there may be: of requests that are
 * admitted each has its line, of all others a site has at most log's `rate` a second, over all
 * its processes. A process that serves one request and has no ledger could not count them, and
 * writes none: it has told why it has no ledger. How many were left out is told by the next
 * line or, if none comes, by timed work or who leaves.
 */
#ifndef GATEWAY_LINE_H
#define GATEWAY_LINE_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/reply.h"
#include "gateway/site.h"

struct chat_log;

/* Of one request; begins as zeros. */
struct line {
    bool asked, wanted;
    int64_t time_s;    /* wall clock: its time stamp */
    uint32_t left_out; /* before it */
};

/*
 * Whether the request gets its line. Asked when all is known but before anything is spent on
 * the line; decided once, and the same if asked again.
 */
bool line_wanted(struct line *l, const struct site_use *use, bool admitted);

/* Writes the request's line, if it is wanted. `ms`: how long the whole took. */
void line_write(const struct site_use *use, const struct reply *r, struct chat_log *log,
                int64_t ms);

/* Tells of lines that were left out while there was no ledger: this process leaves. What a ledger
 * counts is told as it closes. */
void line_end(void);

#endif
