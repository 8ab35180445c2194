/*
 * The reader of server-sent events: a state for each place in a line, so that bytes may be cut
 * anywhere. Security: one event is bounded; comments and unknown fields are dropped unkept.
 */
#include "gateway/sse.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 1024 /* most events of a stream are 300 bytes */

enum {
    IN_FIELD,    /* the field's name, or a line's start */
    BEFORE_DATA, /* after `data:`: one blank is not part of the value */
    IN_DATA,
    BEFORE_NAME, /* after `event:` */
    IN_NAME,
    IN_DROPPED /* a comment, or a field that means nothing here */
};

static const char byte_order_mark[3] = {'\xEF', '\xBB', '\xBF'};

void sse_init(struct sse *s)
{
    memset(s, 0, sizeof *s);
}

void sse_free(struct sse *s)
{
    free(s->data);
    sse_init(s);
}

/* Appends to the event's data and keeps it NUL-terminated. */
static void append(struct sse *s, const char *bytes, size_t n)
{
    if (n > SSE_EVENT_MAX - s->n) {
        s->failed = true;
        return;
    }
    size_t need = s->n + n + 1;
    if (need > s->room) {
        size_t room = s->room == 0 ? FIRST_ROOM : s->room;
        while (room < need)
            room *= 2;
        if (room > SSE_EVENT_MAX + 1)
            room = SSE_EVENT_MAX + 1;
        char *data = realloc(s->data, room);
        if (data == NULL) {
            s->failed = true;
            return;
        }
        s->data = data;
        s->room = room;
    }
    if (n > 0)
        memcpy(s->data + s->n, bytes, n);
    s->n += n;
    s->data[s->n] = '\0';
}

/* The length is kept because a hostile name may hold NULs. */
static void append_name(struct sse *s, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n && s->n_name < sizeof s->name - 1; i++)
        s->name[s->n_name++] = bytes[i];
    s->name[s->n_name] = '\0';
}

static void forget_name(struct sse *s)
{
    s->n_name = 0;
    s->name[0] = '\0';
}

static bool field_is(const struct sse *s, const char *name)
{
    return s->n_field == strlen(name) && memcmp(s->field, name, s->n_field) == 0;
}

/* The field's name is complete. */
static void begin_value(struct sse *s)
{
    if (field_is(s, "data")) {
        append(s, "\n", s->has_data ? 1 : 0);
        s->has_data = true;
        s->state = BEFORE_DATA;
    } else if (field_is(s, "event")) {
        forget_name(s);
        s->state = BEFORE_NAME;
    } else {
        s->state = IN_DROPPED;
    }
}

static void dispatch(struct sse *s, sse_event_fn *fn, void *arg)
{
    if (s->has_data && !fn(arg, s->name[0] == '\0' ? "message" : s->name, s->data, s->n))
        s->failed = true;
    s->n = 0;
    s->has_data = false;
    forget_name(s);
}

static void end_line(struct sse *s, sse_event_fn *fn, void *arg)
{
    bool in_field = s->state == IN_FIELD;
    if (in_field && s->n_field > 0)
        begin_value(s); /* a field without a colon: its value is empty */
    else if (in_field)
        dispatch(s, fn, arg);
    s->state = IN_FIELD;
    s->n_field = 0;
}

/* Takes bytes of a line and returns how many; none only where the state moves on. */
static size_t take(struct sse *s, const char *bytes, size_t n)
{
    switch (s->state) {
    case IN_FIELD:
        if (bytes[0] == ':')
            begin_value(s);
        else if (s->n_field < sizeof s->field)
            s->field[s->n_field++] = bytes[0];
        return 1;
    case BEFORE_DATA:
    case BEFORE_NAME:
        s->state = s->state == BEFORE_DATA ? IN_DATA : IN_NAME;
        return bytes[0] == ' ' ? 1 : 0;
    case IN_DATA:
        append(s, bytes, n);
        return n;
    case IN_NAME:
        append_name(s, bytes, n);
        return n;
    default:
        return n;
    }
}

static size_t skip_byte_order_mark(struct sse *s, const char *bytes, size_t n)
{
    size_t i = 0;
    while (!s->started && i < n) {
        if (bytes[i] == byte_order_mark[s->bom]) {
            i++;
            s->started = ++s->bom == sizeof byte_order_mark;
        } else {
            s->started = true; /* no mark: what was seen of it begins a field's name */
            memcpy(s->field, byte_order_mark, s->bom);
            s->n_field = s->bom;
        }
    }
    return i;
}

bool sse_feed(struct sse *s, const char *bytes, size_t n, sse_event_fn *fn, void *arg)
{
    size_t i = skip_byte_order_mark(s, bytes, n);
    while (i < n && !s->failed) {
        bool after_cr = s->seen_cr;
        s->seen_cr = false;
        if (bytes[i] == '\n' && after_cr) {
            i++; /* the second half of CR LF */
        } else if (bytes[i] == '\n' || bytes[i] == '\r') {
            s->seen_cr = bytes[i++] == '\r';
            end_line(s, fn, arg);
        } else {
            size_t end = i;
            while (end < n && bytes[end] != '\n' && bytes[end] != '\r')
                end++;
            i += take(s, bytes + i, end - i);
        }
    }
    return !s->failed;
}
