/*
 * A ring of bytes.
 */
#include "gateway/callbuf.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 2048 /* what libcurl delivers at once, some ten events */

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static bool grow(struct callbuf *b, size_t wanted, size_t most)
{
    size_t room = b->room < FIRST_ROOM ? FIRST_ROOM : b->room, held = b->n;
    unsigned char *bytes;

    while (room < wanted)
        room *= 2;
    room = room > most ? most : room;
    bytes = malloc(room);
    if (bytes == NULL)
        return false;
    callbuf_take(b, bytes, held);
    free(b->bytes);
    *b = (struct callbuf){.bytes = bytes, .room = room, .n = held};
    return true;
}

bool callbuf_put(struct callbuf *b, const void *bytes, size_t n, size_t most)
{
    const unsigned char *from = bytes;
    size_t tail, straight;

    if (b->n > most || n > most - b->n)
        return false;
    if (n > b->room - b->n && !grow(b, b->n + n, most))
        return false;
    if (n == 0)
        return true;
    tail = (b->head + b->n) % b->room;
    straight = smaller(n, b->room - tail);
    memcpy(b->bytes + tail, from, straight);
    memcpy(b->bytes, from + straight, n - straight);
    b->n += n;
    return true;
}

size_t callbuf_take(struct callbuf *b, void *out, size_t n)
{
    unsigned char *to = out;
    size_t straight;

    n = smaller(n, b->n);
    if (n == 0)
        return 0;
    straight = smaller(n, b->room - b->head);
    memcpy(to, b->bytes + b->head, straight);
    memcpy(to + straight, b->bytes, n - straight);
    b->n -= n;
    b->head = b->n == 0 ? 0 : (b->head + n) % b->room;
    return n;
}

void callbuf_free(struct callbuf *b)
{
    free(b->bytes);
    *b = (struct callbuf){0};
}
