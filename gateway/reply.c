/*
 * Writes answers: a CGI header block and JSON or events, through a small buffer, without
 * allocating, so that a refusal can be told even when memory is short. Security: every text is
 * escaped here; what is shown of limits is filtered here once more (invariant 8).
 */
#include "gateway/reply.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SINK_BUFFER 1024 /* most events and all headers of a plain answer in one write */

/* Writes to an exchange, or only counts if there is none. */
struct sink {
    struct exchange *x;
    size_t total;
    bool failed;
    size_t n;
    char buffer[SINK_BUFFER];
};

static void sink_init(struct sink *s, struct exchange *x)
{
    s->x = x;
    s->total = 0;
    s->failed = false;
    s->n = 0;
}

static void drain(struct sink *s)
{
    if (s->n > 0 && s->x != NULL && !s->failed)
        s->failed = !s->x->ops->write(s->x, s->buffer, s->n);
    s->n = 0;
}

static void put_bytes(struct sink *s, const char *bytes, size_t n)
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

static void put(struct sink *s, const char *text)
{
    put_bytes(s, text, strlen(text));
}

#define PIECE_MAX 256 /* longest formatted piece: a policy item of 100 bytes */

static void put_format(struct sink *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void put_format(struct sink *s, const char *format, ...)
{
    char piece[PIECE_MAX];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(piece, sizeof piece, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof piece)
        s->failed = true; /* a cut header must not be sent */
    else
        put_bytes(s, piece, (size_t)n);
}

/* A JSON string. UTF-8 needs no escape, U+2028 neither. */
static void put_string(struct sink *s, const char *text)
{
    put(s, "\"");
    while (*text != '\0') {
        size_t plain = 0;
        while ((unsigned char)text[plain] >= 0x20 && text[plain] != '"' && text[plain] != '\\')
            plain++;
        put_bytes(s, text, plain);
        text += plain;
        if (*text != '\0')
            put_format(s, "\\u%04x", (unsigned)(unsigned char)*text++);
    }
    put(s, "\"");
}

static bool sink_end(struct sink *s)
{
    drain(s);
    return !s->failed && s->x->ops->flush(s->x);
}

/* -- headers -- */

static void put_head(struct sink *s, const struct reply *r, int status, const char *reason)
{
    put_format(s, "Status: %d %s\r\n", status, reason);
    put(s, "X-Content-Type-Options: nosniff\r\n");
    if (r->id[0] != '\0')
        put_format(s, "X-Request-Id: %s\r\n", r->id);
}

static int64_t seconds_up(int64_t ms)
{
    return ms <= 0 ? 0 : ms / 1000 + (ms % 1000 != 0);
}

static int64_t minutes_up(int64_t ms)
{
    return ms <= 0 ? 0 : (ms / 60000 + (ms % 60000 != 0)) * 60;
}

#define SDK_PATIENCE_S 60 /* SDKs sleep no longer than this, but would ask again at once */

static void put_retry(struct sink *s, int status, const struct reply_error *e)
{
    int64_t seconds = e->minute ? minutes_up(e->wait_ms) : seconds_up(e->wait_ms);
    if (seconds == 0 && (status == 429 || status == 503))
        seconds = 1;
    if (seconds > 0)
        put_format(s, "Retry-After: %" PRId64 "\r\n", seconds);
    if (!e->minute && e->wait_ms > 0 && e->wait_ms < 1000)
        put_format(s, "retry-after-ms: %" PRId64 "\r\n", e->wait_ms);
    if (seconds > SDK_PATIENCE_S || e->billed)
        put(s, "x-should-retry: false\r\n");
}

#define FIELD_INTEGER_MAX UINT64_C(999999999999999) /* RFC 9651: 15 digits */

static uint64_t field_integer(uint64_t n)
{
    return n < FIELD_INTEGER_MAX ? n : FIELD_INTEGER_MAX;
}

static int64_t field_seconds(int64_t ms)
{
    return (int64_t)field_integer((uint64_t)seconds_up(ms));
}

/* The limit of the i-th standing if a caller may know how it stands, else NULL. */
static const struct limit *shown(const struct reply_rates *rates, unsigned i)
{
    const struct limit *l = &rates->answer->verdict.standings[i].limit;
    bool own = l->subject != SUBJECT_ANONYMOUS && l->subject != SUBJECT_EVERYONE;
    return own && l->unit == UNIT_CALLS && l->max != LIMIT_UNLIMITED ? l : NULL;
}

static void put_policy_item(struct sink *s, const struct limit *l)
{
    put_format(s, "\"%s\";q=%" PRIu64 ";w=%" PRIu32, l->name, field_integer(l->max),
               window_seconds(l->window));
}

static void put_standing_item(struct sink *s, const struct limit *l, uint64_t remaining,
                              int64_t wait_ms)
{
    put_format(s, "\"%s\";r=%" PRIu64 ";t=%" PRId64, l->name, field_integer(remaining),
               field_seconds(wait_ms));
}

/* The standing with the fewest calls left, of several the one with the longest wait; or -1. */
static int tightest(const struct reply_rates *rates, unsigned n)
{
    const struct answer *a = rates->answer;
    int best = -1;
    for (unsigned i = 0; i < n; i++) {
        uint64_t left = a->verdict.standings[i].remaining;
        if (shown(rates, i) == NULL)
            continue;
        if (best < 0 || left < a->verdict.standings[best].remaining ||
            (left == a->verdict.standings[best].remaining &&
             a->standing_wait_ms[i] > a->standing_wait_ms[best]))
            best = (int)i;
    }
    return best;
}

/* draft-ietf-httpapi-ratelimit-headers, and the older X- names of one limit. */
static void put_rates(struct sink *s, const struct reply_rates *rates)
{
    if (rates == NULL || rates->answer == NULL)
        return;
    const struct verdict *v = &rates->answer->verdict;
    unsigned n = v->n_standings < STANDINGS_MAX ? v->n_standings : STANDINGS_MAX;
    int best = tightest(rates, n);
    if (best < 0)
        return;
    const char *separator = "RateLimit-Policy: ";
    for (unsigned i = 0; i < n; i++)
        if (shown(rates, i) != NULL) {
            put(s, separator);
            put_policy_item(s, shown(rates, i));
            separator = ", ";
        }
    separator = "\r\nRateLimit: ";
    for (unsigned i = 0; i < n; i++)
        if (shown(rates, i) != NULL) {
            put(s, separator);
            put_standing_item(s, shown(rates, i), v->standings[i].remaining,
                              rates->answer->standing_wait_ms[i]);
            separator = ", ";
        }
    put_format(s,
               "\r\nX-RateLimit-Limit: %" PRIu64 "\r\nX-RateLimit-Remaining: %" PRIu64
               "\r\nX-RateLimit-Reset: %" PRId64 "\r\n",
               field_integer(shown(rates, (unsigned)best)->max),
               field_integer(v->standings[best].remaining),
               field_seconds(rates->answer->standing_wait_ms[best]));
}

/* -- plain answers -- */

typedef void body_fn(struct sink *s, const struct reply *r, const void *what);

/* Ends the header with the body's length, and writes the body: once counted, once sent. */
static bool put_body(struct sink *s, const struct reply *r, body_fn *body, const void *what)
{
    struct sink count;
    sink_init(&count, NULL);
    body(&count, r, what);
    put(s, "Content-Type: application/json\r\nCache-Control: no-store\r\n");
    put_format(s, "Content-Length: %zu\r\n\r\n", count.total);
    if (!r->head)
        body(s, r, what);
    return sink_end(s);
}

static void put_error_object(struct sink *s, const struct code_entry *c, const char *detail,
                             const char *param)
{
    put(s, "{\"error\":{\"message\":");
    put_string(s, detail != NULL ? detail : c->message);
    put_format(s, ",\"type\":\"%s\",\"code\":\"%s\",\"param\":", c->type, c->name);
    if (param != NULL)
        put_string(s, param);
    else
        put(s, "null");
    put(s, "}}");
}

static void error_body(struct sink *s, const struct reply *r, const void *what)
{
    const struct reply_error *e = what;
    (void)r;
    put_error_object(s, code_entry(e->code), e->detail, e->param);
    put(s, "\n");
}

bool reply_error(struct reply *r, const struct reply_error *e, const struct reply_rates *rates)
{
    const struct code_entry *c = code_entry(e->code);
    struct sink s;
    sink_init(&s, r->x);
    put_head(&s, r, c->status, c->reason);
    if (e->allow != NULL)
        put_format(&s, "Allow: %s\r\n", e->allow);
    put_retry(&s, c->status, e);
    put_rates(&s, rates);
    return put_body(&s, r, error_body, e);
}

static const char *finish_word(enum finish f)
{
    switch (f) {
    case FINISH_LENGTH:
        return "length";
    case FINISH_FILTER:
        return "content_filter";
    default: /* nothing else can be asked for here, so nothing else is told */
        return "stop";
    }
}

static void put_common(struct sink *s, const struct reply *r, const char *object)
{
    put(s, "{\"id\":");
    put_string(s, r->id);
    put_format(s, ",\"object\":\"%s\",\"created\":%" PRId64 ",\"model\":", object,
               r->created_s);
    put_string(s, r->model);
}

static void put_usage(struct sink *s, const struct usage *u)
{
    put_format(s,
               ",\"usage\":{\"prompt_tokens\":%" PRIu64 ",\"completion_tokens\":%" PRIu64
               ",\"total_tokens\":%" PRIu64 "}",
               u->input, u->output, amount_add(u->input, u->output));
}

static void completion_body(struct sink *s, const struct reply *r, const void *what)
{
    const struct part *p = what;
    put_common(s, r, "chat.completion");
    put(s, ",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":");
    put_string(s, p->text != NULL ? p->text : "");
    put_format(s, ",\"refusal\":null},\"logprobs\":null,\"finish_reason\":\"%s\"}]",
               finish_word(p->finish));
    if (p->usage.known)
        put_usage(s, &p->usage);
    put(s, "}\n");
}

bool reply_completion(struct reply *r, const struct part *p, const struct reply_rates *rates)
{
    struct sink s;
    sink_init(&s, r->x);
    put_head(&s, r, 200, "OK");
    put_rates(&s, rates);
    return put_body(&s, r, completion_body, p);
}

static void models_body(struct sink *s, const struct reply *r, const void *what)
{
    const struct config *c = what;
    put(s, "{\"object\":\"list\",\"data\":[");
    for (unsigned i = 0; i < c->n_models; i++) {
        put(s, i == 0 ? "{\"id\":" : ",{\"id\":");
        put_string(s, c->models[i].alias);
        put_format(s, ",\"object\":\"model\",\"created\":%" PRId64 ",\"owned_by\":\"site\"}",
                   r->created_s);
    }
    put(s, "]}\n");
}

bool reply_models(struct reply *r, const struct config *c)
{
    struct sink s;
    sink_init(&s, r->x);
    put_head(&s, r, 200, "OK");
    return put_body(&s, r, models_body, c);
}

/* -- streams -- */

bool reply_stream_start(struct reply *r, const struct reply_rates *rates)
{
    struct sink s;
    sink_init(&s, r->x);
    put_head(&s, r, 200, "OK");
    put_rates(&s, rates);
    /* nginx heeds X-Accel-Buffering; compressing filters would hold events back. */
    put(&s, "Content-Type: text/event-stream; charset=utf-8\r\n"
            "Cache-Control: no-cache, no-transform\r\n"
            "X-Accel-Buffering: no\r\n\r\n");
    return sink_end(&s);
}

bool reply_stream_text(struct reply *r, bool first, const char *text, enum finish f)
{
    struct sink s;
    sink_init(&s, r->x);
    put(&s, "data: ");
    put_common(&s, r, "chat.completion.chunk");
    put(&s, ",\"choices\":[{\"index\":0,\"delta\":{");
    if (first)
        put(&s, "\"role\":\"assistant\",");
    if (first || text != NULL) {
        put(&s, "\"content\":");
        put_string(&s, text != NULL ? text : "");
    }
    put(&s, "},\"finish_reason\":");
    if (f == FINISH_NONE)
        put(&s, "null");
    else
        put_format(&s, "\"%s\"", finish_word(f));
    put(&s, "}]}\n\n");
    return sink_end(&s);
}

bool reply_stream_usage(struct reply *r, const struct usage *u)
{
    struct sink s;
    sink_init(&s, r->x);
    put(&s, "data: ");
    put_common(&s, r, "chat.completion.chunk");
    put(&s, ",\"choices\":[]");
    put_usage(&s, u);
    put(&s, "}\n\n");
    return sink_end(&s);
}

bool reply_stream_error(struct reply *r, enum code code)
{
    struct sink s;
    sink_init(&s, r->x);
    put(&s, "data: ");
    put_error_object(&s, code_entry(code), NULL, NULL);
    put(&s, "\n\n");
    return sink_end(&s);
}

static bool put_line(struct reply *r, const char *line)
{
    struct sink s;
    sink_init(&s, r->x);
    put(&s, line);
    return sink_end(&s);
}

bool reply_stream_heartbeat(struct reply *r)
{
    return put_line(r, ":\n\n");
}

bool reply_stream_done(struct reply *r)
{
    return put_line(r, "data: [DONE]\n\n");
}
