/*
 * Writes in pieces of a buffer. Security: every text of JSON is escaped here, a cut piece is
 * not sent.
 */
#include "gateway/sink.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void sink_to(struct sink *s, sink_write *write, void *to)
{
    s->write = write;
    s->to = to;
    s->x = NULL;
    s->total = 0;
    s->failed = false;
    s->n = 0;
}

static bool to_exchange(void *to, const void *bytes, size_t n)
{
    struct exchange *x = to;

    return x->ops->write(x, bytes, n);
}

void sink_init(struct sink *s, struct exchange *x)
{
    sink_to(s, x != NULL ? to_exchange : NULL, x);
    s->x = x;
}

bool sink_file(void *to, const void *bytes, size_t n)
{
    return fwrite(bytes, 1, n, to) == n;
}

static void drain(struct sink *s)
{
    if (s->n > 0 && s->write != NULL && !s->failed)
        s->failed = !s->write(s->to, s->buffer, s->n);
    s->n = 0;
}

void sink_bytes(struct sink *s, const char *bytes, size_t n)
{
    s->total += n;
    while (n > 0) {
        size_t room = sizeof s->buffer - s->n;
        size_t part = n < room ? n : room;
        memcpy(s->buffer + s->n, bytes, part);
        s->n += part;
        bytes += part;
        n -= part;
        if (s->n == sizeof s->buffer)
            drain(s);
    }
}

void sink_text(struct sink *s, const char *text)
{
    sink_bytes(s, text, strlen(text));
}

void sink_format(struct sink *s, const char *format, ...)
{
    va_list args;
    if (sizeof s->buffer - s->n < SINK_PIECE)
        drain(s);
    va_start(args, format);
    int n = vsnprintf(s->buffer + s->n, SINK_PIECE, format, args);
    va_end(args);
    if (n < 0 || n >= SINK_PIECE) {
        s->failed = true; /* a cut header must not be sent */
        return;
    }
    s->n += (size_t)n;
    s->total += (size_t)n;
}

void sink_number(struct sink *s, uint64_t number)
{
    char digits[20]; /* of 64 bits */
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    sink_bytes(s, digits + at, sizeof digits - at);
}

/* UTF-8 needs no escape, U+2028 neither. */
void sink_string(struct sink *s, const char *text)
{
    sink_text(s, "\"");
    while (*text != '\0') {
        size_t plain = 0;
        while ((unsigned char)text[plain] >= 0x20 && text[plain] != '"' && text[plain] != '\\')
            plain++;
        sink_bytes(s, text, plain);
        text += plain;
        if (*text != '\0')
            sink_format(s, "\\u%04x", (unsigned)(unsigned char)*text++);
    }
    sink_text(s, "\"");
}

bool sink_end(struct sink *s)
{
    drain(s);
    return !s->failed && (s->x == NULL || s->x->ops->flush(s->x));
}
