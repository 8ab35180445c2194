/*
 * Writing through a small buffer, without allocating: to an exchange, to any function, or to
 * nothing. A sink that writes to nothing only counts, so that a body's length is known before
 * its header ends.
 */
#ifndef GATEWAY_SINK_H
#define GATEWAY_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/exchange.h"

#define SINK_BUFFER 1024 /* most events and all headers of a plain answer in one write */

/* Takes all n bytes, n > 0, or fails; after that it is not called again. */
typedef bool sink_write(void *to, const void *bytes, size_t n);

struct sink {
    sink_write *write; /* or NULL: counts */
    void *to;
    struct exchange *x; /* flushed at the end; or NULL */
    size_t total;
    bool failed;
    size_t n;
    char buffer[SINK_BUFFER];
};

void sink_init(struct sink *s, struct exchange *x); /* NULL: counts */
void sink_to(struct sink *s, sink_write *write, void *to);
sink_write sink_file; /* to a FILE */

void sink_text(struct sink *s, const char *text);
void sink_bytes(struct sink *s, const char *bytes, size_t n);
/* At most SINK_PIECE bytes; the sink fails where it would be more. */
#define SINK_PIECE 256 /* longest formatted piece: a policy item of 100 bytes */
void sink_format(struct sink *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Decimal. A flood is answered by this: a number by sink_format costs ten times as much. */
void sink_number(struct sink *s, uint64_t number);
/* A JSON string, escaped. */
void sink_string(struct sink *s, const char *text);
/* Sends what is left. False if something could not be written. */
bool sink_end(struct sink *s);

#endif
