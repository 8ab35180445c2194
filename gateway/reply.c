/*
 * Writes answers: a CGI header block and JSON or events, through a small buffer, without
 * allocating, so that a refusal can be told even when memory is short. Security: every text is
 * escaped here; what is shown of limits is filtered here once more (invariant 8).
 */
#include "gateway/reply.h"

#include <inttypes.h>
#include <string.h>

#include "gateway/figures.h"
#include "gateway/sink.h"

/* -- headers -- */

/* What a page's script may read besides the body. */
#define EXPOSED                                                                                \
    "X-Request-Id, Retry-After, retry-after-ms, x-should-retry, RateLimit, RateLimit-Policy, " \
    "X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset"

static void put_access(struct sink *s, const struct access *a)
{
    if (a == NULL)
        return;
    if (a->varies)
        sink_text(s, "Vary: Origin\r\n");
    if (a->origin == NULL)
        return;
    sink_text(s, "Access-Control-Allow-Origin: ");
    sink_text(s, a->origin);
    sink_text(s, "\r\nAccess-Control-Expose-Headers: " EXPOSED "\r\n");
    if (a->credentials)
        sink_text(s, "Access-Control-Allow-Credentials: true\r\n");
}

static void put_field(struct sink *s, const char *name, const char *value)
{
    sink_text(s, name);
    sink_text(s, value);
    sink_text(s, "\r\n");
}

static void put_number_field(struct sink *s, const char *name, uint64_t value)
{
    sink_text(s, name);
    sink_number(s, value);
    sink_text(s, "\r\n");
}

static void put_head(struct sink *s, const struct reply *r, int status, const char *reason)
{
    sink_text(s, "Status: ");
    sink_number(s, (uint64_t)status);
    put_field(s, " ", reason);
    sink_text(s, "X-Content-Type-Options: nosniff\r\n");
    if (r->id[0] != '\0')
        put_field(s, "X-Request-Id: ", r->id);
    put_access(s, r->access);
    if (r->cookie != NULL)
        put_field(s, "Set-Cookie: ", r->cookie);
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

/* Retry-After; 0: none is told. */
static int64_t retry_seconds(int status, const struct reply_error *e)
{
    int64_t seconds = e->minute ? minutes_up(e->wait_ms) : seconds_up(e->wait_ms);
    return seconds == 0 && (status == 429 || status == 503) ? 1 : seconds;
}

static void put_retry(struct sink *s, int status, const struct reply_error *e)
{
    int64_t seconds = retry_seconds(status, e);
    if (seconds > 0)
        put_number_field(s, "Retry-After: ", (uint64_t)seconds);
    if (!e->minute && e->wait_ms > 0 && e->wait_ms < 1000)
        put_number_field(s, "retry-after-ms: ", (uint64_t)e->wait_ms);
    if (seconds > SDK_PATIENCE_S || e->billed)
        sink_text(s, "x-should-retry: false\r\n");
}

#define FIELD_INTEGER_MAX UINT64_C(999999999999999) /* RFC 9651: 15 digits */

static uint64_t field_integer(uint64_t n)
{
    return n < FIELD_INTEGER_MAX ? n : FIELD_INTEGER_MAX;
}

static uint64_t field_seconds(int64_t ms)
{
    return field_integer((uint64_t)seconds_up(ms));
}

/* The limit of the i-th standing if a caller may know how it stands, else NULL. */
static const struct limit *shown(const struct answer *a, unsigned i)
{
    const struct limit *l = &a->verdict.standings[i].limit;
    bool own = l->subject <= SUBJECT_KEY; /* those after it are shared, or the owner's */
    return own && l->unit == UNIT_CALLS && l->max != LIMIT_UNLIMITED ? l : NULL;
}

/* "name", and two numbers with what stands before each. */
static void put_item(struct sink *s, const struct limit *l, const char *before_a, uint64_t a,
                     const char *before_b, uint64_t b)
{
    sink_text(s, "\"");
    sink_text(s, l->name);
    sink_text(s, before_a);
    sink_number(s, a);
    sink_text(s, before_b);
    sink_number(s, b);
}

static void put_policy_item(struct sink *s, const struct limit *l)
{
    put_item(s, l, "\";q=", field_integer(l->max), ";w=", window_seconds(l->window));
}

static void put_standing_item(struct sink *s, const struct limit *l, uint64_t remaining,
                              int64_t wait_ms)
{
    put_item(s, l, "\";r=", field_integer(remaining), ";t=", field_seconds(wait_ms));
}

/* The standing with the fewest calls left, of several the one with the longest wait; or -1. */
static int tightest(const struct answer *a, unsigned n)
{
    int best = -1;
    for (unsigned i = 0; i < n; i++) {
        uint64_t left = a->verdict.standings[i].remaining;
        if (shown(a, i) == NULL)
            continue;
        if (best < 0 || left < a->verdict.standings[best].remaining ||
            (left == a->verdict.standings[best].remaining &&
             a->standing_wait_ms[i] > a->standing_wait_ms[best]))
            best = (int)i;
    }
    return best;
}

/* draft-ietf-httpapi-ratelimit-headers, and the older X- names of one limit. */
static void put_rates(struct sink *s, const struct answer *a)
{
    if (a == NULL)
        return;
    const struct verdict *v = &a->verdict;
    unsigned n = v->n_standings < STANDINGS_MAX ? v->n_standings : STANDINGS_MAX;
    int best = tightest(a, n);
    if (best < 0)
        return;
    const char *separator = "RateLimit-Policy: ";
    for (unsigned i = 0; i < n; i++)
        if (shown(a, i) != NULL) {
            sink_text(s, separator);
            put_policy_item(s, shown(a, i));
            separator = ", ";
        }
    separator = "\r\nRateLimit: ";
    for (unsigned i = 0; i < n; i++)
        if (shown(a, i) != NULL) {
            sink_text(s, separator);
            put_standing_item(s, shown(a, i), v->standings[i].remaining,
                              a->standing_wait_ms[i]);
            separator = ", ";
        }
    put_number_field(s,
                     "\r\nX-RateLimit-Limit: ", field_integer(shown(a, (unsigned)best)->max));
    put_number_field(s, "X-RateLimit-Remaining: ", field_integer(v->standings[best].remaining));
    put_number_field(s, "X-RateLimit-Reset: ", field_seconds(a->standing_wait_ms[best]));
}

/* -- plain answers -- */

/* Ends the header with the body's length, and writes the body. It is made once to be counted, and
 * again to be sent if it is longer than what a sink holds back. */
static bool put_body(struct sink *s, const struct reply *r, const char *type, reply_body *body,
                     const void *what)
{
    struct sink count;
    sink_init(&count, NULL);
    body(&count, r, what);
    s->failed |= count.failed; /* its length is not known */
    put_field(s, "Content-Type: ", type);
    put_number_field(s, "Content-Length: ", count.total);
    sink_text(s, "\r\n");
    if (!r->head && count.n == count.total)
        sink_bytes(s, count.buffer, count.n);
    else if (!r->head)
        body(s, r, what);
    return sink_end(s);
}

/* What is said of one request alone is kept by no cache. */
static bool put_private(struct sink *s, const struct reply *r, const char *type,
                        reply_body *body, const void *what)
{
    sink_text(s, "Cache-Control: no-store\r\n");
    return put_body(s, r, type, body, what);
}

#define JSON_TYPE "application/json"

bool reply_json(struct reply *r, reply_body *body, const void *what)
{
    return reply_page(r, JSON_TYPE, "", body, what);
}

bool reply_page(struct reply *r, const char *type, const char *lines, reply_body *body,
                const void *what)
{
    struct sink s;
    sink_init(&s, r->x);
    put_head(&s, r, 200, "OK");
    sink_text(&s, lines);
    return put_private(&s, r, type, body, what);
}

static void file_body(struct sink *s, const struct reply *r, const void *what)
{
    const struct reply_file *f = what;
    (void)r;
    sink_bytes(s, f->text, f->n);
}

/* Tags have quotes, so that none is found within another; which of them are weak, or that there
 * are several, does not matter here (RFC 9110, 13.1.2). */
static bool is_known(const char *known, const char *tag)
{
    return known != NULL && (strcmp(known, "*") == 0 || strstr(known, tag) != NULL);
}

bool reply_file(struct reply *r, const struct reply_file *f, const char *known)
{
    bool same = is_known(known, f->tag);
    struct sink s;
    sink_init(&s, r->x);
    if (same)
        put_head(&s, r, 304, "Not Modified");
    else
        put_head(&s, r, 200, "OK");
    sink_text(&s, f->lines);
    sink_format(&s, "ETag: %s\r\n", f->tag);
    if (!same)
        return put_body(&s, r, f->type, file_body, f);
    sink_text(&s, "\r\n");
    return sink_end(&s);
}

bool reply_moved(struct reply *r, const char *name)
{
    struct sink s;
    sink_init(&s, r->x);
    put_head(&s, r, 308, "Permanent Redirect");
    sink_text(&s, "Location: ");
    sink_text(&s, name);
    sink_text(&s, "/\r\nCache-Control: no-store\r\nContent-Length: 0\r\n\r\n");
    return sink_end(&s);
}

static void put_error_object(struct sink *s, const struct code_entry *c, const char *detail,
                             const char *param)
{
    sink_text(s, "{\"error\":{\"message\":");
    sink_string(s, detail != NULL ? detail : c->message);
    sink_text(s, ",\"type\":\"");
    sink_text(s, c->type);
    sink_text(s, "\",\"code\":\"");
    sink_text(s, c->name);
    sink_text(s, "\",\"param\":");
    if (param != NULL)
        sink_string(s, param);
    else
        sink_text(s, "null");
    sink_text(s, "}}");
}

static void error_body(struct sink *s, const struct reply *r, const void *what)
{
    const struct reply_error *e = what;
    (void)r;
    put_error_object(s, code_entry(e->code), e->detail, e->param);
    sink_text(s, "\n");
}

void reply_count(struct reply *r, enum code code)
{
    if (!r->counted)
        figures_count(r->ledger, code);
    r->counted = r->counted || code != CODE_NONE;
}

bool reply_error(struct reply *r, const struct reply_error *e, const struct answer *rates)
{
    const struct code_entry *c = code_entry(e->code);
    struct sink s;
    reply_count(r, e->code);
    sink_init(&s, r->x);
    put_head(&s, r, c->status, c->reason);
    if (e->allow != NULL)
        sink_format(&s, "Allow: %s\r\n", e->allow);
    if (e->bearer && c->status == 401)
        sink_text(&s, "WWW-Authenticate: Bearer\r\n");
    if (e->basic && c->status == 401)
        sink_text(&s, "WWW-Authenticate: Basic realm=\"pennygate\", charset=\"UTF-8\"\r\n");
    put_retry(&s, c->status, e);
    put_rates(&s, rates);
    return put_private(&s, r, JSON_TYPE, error_body, e);
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
    sink_text(s, "{\"id\":");
    sink_string(s, r->id);
    sink_format(s, ",\"object\":\"%s\",\"created\":%" PRId64 ",\"model\":", object,
                r->created_s);
    sink_string(s, r->model);
}

static void put_usage(struct sink *s, const struct usage *u)
{
    sink_format(s,
                ",\"usage\":{\"prompt_tokens\":%" PRIu64 ",\"completion_tokens\":%" PRIu64
                ",\"total_tokens\":%" PRIu64 "}",
                u->input, u->output, amount_add(u->input, u->output));
}

static void completion_body(struct sink *s, const struct reply *r, const void *what)
{
    const struct part *p = what;
    put_common(s, r, "chat.completion");
    sink_text(s, ",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":");
    sink_string(s, p->text != NULL ? p->text : "");
    sink_format(s, ",\"refusal\":null},\"logprobs\":null,\"finish_reason\":\"%s\"}]",
                finish_word(p->finish));
    if (usage_whole(&p->usage))
        put_usage(s, &p->usage);
    sink_text(s, "}\n");
}

bool reply_completion(struct reply *r, const struct part *p, const struct answer *rates)
{
    struct sink s;
    sink_init(&s, r->x);
    put_head(&s, r, 200, "OK");
    put_rates(&s, rates);
    return put_private(&s, r, JSON_TYPE, completion_body, p);
}

static void models_body(struct sink *s, const struct reply *r, const void *what)
{
    const struct config *c = what;
    sink_text(s, "{\"object\":\"list\",\"data\":[");
    for (unsigned i = 0; i < c->n_models; i++) {
        sink_text(s, i == 0 ? "{\"id\":" : ",{\"id\":");
        sink_string(s, c->models[i].alias);
        sink_format(s, ",\"object\":\"model\",\"created\":%" PRId64 ",\"owned_by\":\"site\"}",
                    r->created_s);
    }
    sink_text(s, "]}\n");
}

bool reply_models(struct reply *r, const struct config *c)
{
    return reply_json(r, models_body, c);
}

/* -- status -- */

struct status {
    const struct config *config;
    const struct reply_error *no;
    const struct answer *answer;
};

static void put_seconds(struct sink *s, const char *name, int64_t seconds)
{
    sink_format(s, seconds > 0 ? ",\"%s\":%" PRId64 : ",\"%s\":null", name, seconds);
}

/* The answer counted a call that is not made: it is given back here. */
static void put_limit(struct sink *s, const struct limit *l, const struct answer *a, unsigned i)
{
    uint64_t left = a->verdict.standings[i].remaining;
    if (a->verdict.outcome == OUTCOME_ADMITTED && left < l->max)
        left++;
    sink_text(s, "{\"name\":");
    sink_string(s, l->name);
    sink_format(s, ",\"remaining\":%" PRIu64 ",\"max\":%" PRIu64 ",\"window_s\":%" PRIu32,
                field_integer(left), field_integer(l->max), window_seconds(l->window));
    put_seconds(s, "more_in_s",
                left < l->max ? (int64_t)field_seconds(a->standing_wait_ms[i]) : 0);
    sink_text(s, "}");
}

static void put_limits(struct sink *s, const struct answer *a)
{
    const char *separator = "";
    sink_text(s, ",\"limits\":[");
    for (unsigned i = 0; a != NULL && i < a->verdict.n_standings && i < STANDINGS_MAX; i++) {
        const struct limit *l = shown(a, i);
        if (l == NULL)
            continue;
        sink_text(s, separator);
        put_limit(s, l, a, i);
        separator = ",";
    }
    sink_text(s, "]");
}

static void put_offer(struct sink *s, const struct config *c)
{
    sink_format(s,
                ",\"input\":{\"max_message_chars\":%" PRIu32 ",\"max_input_chars\":%" PRIu32
                ",\"max_history\":%" PRIu32 "},\"model\":",
                c->max_message_chars, c->max_input_chars, c->max_history);
    sink_string(s, c->models[0].alias);
    sink_text(s, ",\"models\":");
    for (unsigned i = 0; i < c->n_models; i++) {
        sink_text(s, i == 0 ? "[" : ",");
        sink_string(s, c->models[i].alias);
    }
    sink_text(s, "]");
}

static void status_body(struct sink *s, const struct reply *r, const void *what)
{
    const struct status *status = what;
    const struct reply_error *no = status->no;
    (void)r;
    if (no->code == CODE_NONE) {
        sink_text(s, "{\"available\":true,\"code\":null,\"message\":null,\"retry_after\":null");
    } else {
        const struct code_entry *c = code_entry(no->code);
        sink_format(s, "{\"available\":false,\"code\":\"%s\",\"message\":", c->name);
        sink_string(s, c->message);
        put_seconds(s, "retry_after", retry_seconds(c->status, no));
    }
    put_limits(s, status->answer);
    put_offer(s, status->config);
    sink_text(s, "}\n");
}

bool reply_status(struct reply *r, const struct config *c, const struct reply_error *no,
                  const struct answer *a)
{
    const struct status status = {c, no, a};

    return reply_json(r, status_body, &status);
}

/* -- preflights -- */

#define PREFLIGHT_AGE "600" /* seconds: a change of allowed-origins must not take hours */

bool reply_preflight(struct reply *r, const char *allow, const char *asked)
{
    char headers[ACCESS_HEADERS_MAX];
    struct sink s;
    access_headers(asked, headers);
    sink_init(&s, r->x);
    put_head(&s, r, 204, "No Content");
    sink_format(&s, "Access-Control-Allow-Methods: %s\r\n", allow);
    if (headers[0] != '\0') {
        sink_text(&s, "Access-Control-Allow-Headers: ");
        sink_text(&s, headers);
        sink_text(&s, "\r\n");
    }
    sink_text(&s, "Access-Control-Max-Age: " PREFLIGHT_AGE "\r\n"
                  "Cache-Control: no-store\r\n\r\n");
    return sink_end(&s);
}

/* -- streams -- */

bool reply_stream_start(struct reply *r, const struct answer *rates)
{
    struct sink s;
    sink_init(&s, r->x);
    put_head(&s, r, 200, "OK");
    put_rates(&s, rates);
    /* nginx heeds X-Accel-Buffering; compressing filters would hold events back. */
    sink_text(&s, "Content-Type: text/event-stream; charset=utf-8\r\n"
                  "Cache-Control: no-cache, no-transform\r\n"
                  "X-Accel-Buffering: no\r\n\r\n");
    return sink_end(&s);
}

bool reply_stream_text(struct reply *r, bool first, const char *text, enum finish f)
{
    struct sink s;
    sink_init(&s, r->x);
    sink_text(&s, "data: ");
    put_common(&s, r, "chat.completion.chunk");
    sink_text(&s, ",\"choices\":[{\"index\":0,\"delta\":{");
    if (first)
        sink_text(&s, "\"role\":\"assistant\",");
    if (first || text != NULL) {
        sink_text(&s, "\"content\":");
        sink_string(&s, text != NULL ? text : "");
    }
    sink_text(&s, "},\"finish_reason\":");
    if (f == FINISH_NONE)
        sink_text(&s, "null");
    else
        sink_format(&s, "\"%s\"", finish_word(f));
    sink_text(&s, "}]}\n\n");
    return sink_end(&s);
}

bool reply_stream_usage(struct reply *r, const struct usage *u)
{
    struct sink s;
    sink_init(&s, r->x);
    sink_text(&s, "data: ");
    put_common(&s, r, "chat.completion.chunk");
    sink_text(&s, ",\"choices\":[]");
    put_usage(&s, u);
    sink_text(&s, "}\n\n");
    return sink_end(&s);
}

bool reply_stream_error(struct reply *r, enum code code)
{
    struct sink s;
    reply_count(r, code);
    sink_init(&s, r->x);
    sink_text(&s, "data: ");
    put_error_object(&s, code_entry(code), NULL, NULL);
    sink_text(&s, "\n\n");
    return sink_end(&s);
}

static bool put_line(struct reply *r, const char *line)
{
    struct sink s;
    sink_init(&s, r->x);
    sink_text(&s, line);
    return sink_end(&s);
}

bool reply_stream_heartbeat(struct reply *r)
{
    return put_line(r, ":\n\n");
}

bool reply_stream_filler(struct reply *r)
{
    return put_line(r, ": ................................................................"
                       "................................................................\n\n");
}

bool reply_stream_done(struct reply *r)
{
    return put_line(r, "data: [DONE]\n\n");
}
