/*
 * The bytes a call holds between transfer thread and worker: first in, first out, bounded
 * (pure: no lock). It grows by need, since a worker that keeps up leaves it all but empty.
 */
#ifndef GATEWAY_CALLBUF_H
#define GATEWAY_CALLBUF_H

#include <stdbool.h>
#include <stddef.h>

struct callbuf {
    unsigned char *bytes; /* malloc'd */
    size_t room;
    size_t head, n; /* the first byte's place, and how many there are */
};

/*
 * All of bytes[0..n), or nothing if more than `most` bytes would be held or memory ran out:
 * a transfer is paused as a whole.
 */
bool callbuf_put(struct callbuf *b, const void *bytes, size_t n, size_t most);

/* Up to n bytes; how many. */
size_t callbuf_take(struct callbuf *b, void *out, size_t n);

void callbuf_free(struct callbuf *b);

#endif
