/* Any bytes: the same events fed at once, byte by byte, and in pieces that the input chooses.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/sse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What a reading came to; every event is put down with its name and lengths. */
struct record {
    char *text;
    size_t n, room, events;
};

static void put(struct record *r, const void *bytes, size_t n)
{
    if (n > r->room - r->n)
        abort(); /* more came out than went in */
    memcpy(r->text + r->n, bytes, n);
    r->n += n;
}

static bool see(void *arg, const char *event, const char *data, size_t n)
{
    struct record *r = arg;
    if (n > SSE_EVENT_MAX || data[n] != '\0' || strlen(event) >= SSE_NAME_MAX ||
        strpbrk(event, "\r\n") != NULL || memchr(data, '\r', n) != NULL)
        abort();
    put(r, &n, sizeof n);
    put(r, event, strlen(event) + 1);
    put(r, data, n);
    r->events++;
    return true;
}

/* Feeds in pieces of 1 + steps[i] bytes; all at once if there are no steps. */
static bool feed(const char *bytes, size_t n, const uint8_t *steps, size_t n_steps,
                 struct record *r)
{
    struct sse s;
    bool ok = true;
    size_t room = n * 10 + 64; /* an event takes at least 6 bytes and has a name of 7 */
    *r = (struct record){.text = malloc(room), .room = room};
    if (r->text == NULL)
        abort();
    sse_init(&s);
    for (size_t i = 0, k = 0; i < n; k++) {
        size_t step = n_steps == 0 ? n : 1 + (size_t)steps[k % n_steps];
        step = step < n - i ? step : n - i;
        bool now = sse_feed(&s, bytes + i, step, see, r);
        if (now && !ok)
            abort(); /* what has failed stays so */
        ok = now;
        i += step;
    }
    sse_free(&s);
    return ok;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t one = 0;
    struct record whole, bytes, pieces;
    size_t n_steps = size > 0 ? data[0] % 8u : 0;
    const char *text;
    if (size < 1 + n_steps)
        return 0;
    text = (const char *)data + 1 + n_steps;
    size -= 1 + n_steps;
    bool ok = feed(text, size, NULL, 0, &whole);
    if (feed(text, size, &one, 1, &bytes) != ok ||
        feed(text, size, data + 1, n_steps, &pieces) != ok)
        abort();
    if (bytes.events != whole.events || bytes.n != whole.n || pieces.n != whole.n ||
        memcmp(bytes.text, whole.text, whole.n) != 0 ||
        memcmp(pieces.text, whole.text, whole.n) != 0)
        abort();
    free(whole.text);
    free(bytes.text);
    free(pieces.text);
    return 0;
}
