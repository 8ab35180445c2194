/*
 * An incremental reader of server-sent events (pure): the same events for every split of the
 * bytes and every line ending (CR, LF, CRLF), after an optional BOM. Comments and fields other
 * than data and event are dropped. Source: WHATWG HTML, 9.2.6.
 */
#ifndef GATEWAY_SSE_H
#define GATEWAY_SSE_H

#include <stdbool.h>
#include <stddef.h>

#define SSE_EVENT_MAX 65536 /* data of one event; the longest seen of any provider is 20 KB */
#define SSE_NAME_MAX  32    /* event names; longer ones are cut: none of ours is */

struct sse {
    char *data; /* grows by need up to SSE_EVENT_MAX + 1; malloc'd */
    size_t n, room;
    bool has_data, failed, seen_cr, started;
    unsigned bom; /* bytes of a BOM seen at the start */
    char name[SSE_NAME_MAX];
    unsigned n_name;
    /* the field being read */
    char field[8];
    unsigned n_field;
    int state;
};

/* data[0..n) is NUL-terminated; valid during the call. Return false to stop reading. */
typedef bool sse_event_fn(void *arg, const char *event, const char *data, size_t n);

void sse_init(struct sse *s);
/* False if an event was too large, memory ran out, or the callback returned false; stays so. */
bool sse_feed(struct sse *s, const char *bytes, size_t n, sse_event_fn *fn, void *arg);
/* An unfinished event at the end of the bytes is dropped, as the standard orders. */
void sse_free(struct sse *s);

#endif
