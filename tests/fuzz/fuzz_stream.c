/*
 * Any bytes as a stream, through event reader and each dialect: the same answer at once, byte by
 * byte, and in pieces that the input chooses. Its first byte says in how many sizes.
 */
#include "gateway/sse.h"
#include "tests/fuzz/part_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What the relay would have of it. */
struct seen {
    const struct provider *provider;
    char *text;
    size_t n, room;
    struct usage usage;
    enum finish finish;
    unsigned events;
    bool error, done, nonsense;
};

static bool see(void *arg, const char *name, const char *data, size_t n)
{
    struct seen *s = arg;
    struct part p;
    s->events++;
    if (!s->provider->event(name, data, n, &p)) {
        s->nonsense = true;
        return false;
    }
    part_check(&p, n);
    require(p.bytes <= s->room - s->n); /* no more comes out than went in */
    if (p.text != NULL)
        memcpy(s->text + s->n, p.text, p.bytes);
    s->n += p.bytes;
    usage_merge(&s->usage, &p.usage);
    s->finish = p.finish != FINISH_NONE ? p.finish : s->finish;
    s->error = p.error;
    s->done = p.done;
    part_free(&p);
    return !s->error && !s->done;
}

/* In pieces of 1 + steps[i] bytes; all at once if there are no steps. */
static struct seen feed(enum provider_kind kind, const char *bytes, size_t n,
                        const uint8_t *steps, size_t n_steps)
{
    struct seen s = {.provider = provider_of(kind), .text = malloc(n + 1), .room = n};
    struct sse events;
    require(s.text != NULL);
    sse_init(&events);
    for (size_t i = 0, k = 0; i < n; k++) {
        size_t step = n_steps == 0 ? n : 1 + (size_t)steps[k % n_steps];
        step = step < n - i ? step : n - i;
        if (!sse_feed(&events, bytes + i, step, see, &s))
            break;
        i += step;
    }
    sse_free(&events);
    return s;
}

static void require_same(const struct seen *a, const struct seen *b)
{
    require(a->n == b->n && memcmp(a->text, b->text, a->n) == 0);
    require(a->finish == b->finish && a->events == b->events && a->error == b->error &&
            a->done == b->done && a->nonsense == b->nonsense);
    require(a->usage.known == b->usage.known && a->usage.input == b->usage.input &&
            a->usage.cached_input == b->usage.cached_input &&
            a->usage.cache_write == b->usage.cache_write &&
            a->usage.output == b->usage.output && a->usage.doubtful == b->usage.doubtful &&
            a->usage.lacks_input == b->usage.lacks_input);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum provider_kind kinds[] = {PROVIDER_OPENAI, PROVIDER_ANTHROPIC};
    static const uint8_t one = 0;
    size_t n_steps = size > 0 ? data[0] % 8u : 0;
    if (size < 1 + n_steps)
        return 0;
    const char *text = (const char *)data + 1 + n_steps;
    size -= 1 + n_steps;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct seen whole = feed(kinds[i], text, size, NULL, 0);
        struct seen bytes = feed(kinds[i], text, size, &one, 1);
        struct seen pieces = feed(kinds[i], text, size, data + 1, n_steps);
        require_same(&whole, &bytes);
        require_same(&whole, &pieces);
        free(whole.text);
        free(bytes.text);
        free(pieces.text);
    }
    return 0;
}
