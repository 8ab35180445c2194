/*
 * The upstream call, or both of them, and the answer. Security: of what the model API sends,
 * only text, finish and token counts reach the caller, through gateway/reply.c; never its
 * errors, headers or status.
 */
#include "gateway/relay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "gateway/diagnosis.h"
#include "gateway/sse.h"
#include "gateway/trouble.h"
#include "platform/clock.h"
#include "platform/mac.h"
#include "store/transcript.h"

#define HTTP_OK       200
#define TYPE_PLAIN    "application/json"
#define READ_SIZE     2048  /* on a worker's small stack; libcurl reads no more at a time */
#define WAIT_MS       60000 /* the call has clocks of its own: this only bounds one wait */
#define DRAIN_MS      200   /* for the last bytes after the end: the connection stays warm */
#define ERROR_WAIT_MS 1000  /* for an error's body, which mostly comes with its header */
#define ANSWER_FIRST  8192  /* room for a plain answer at first; it doubles */
#define FIXED_HEADERS 3
#define RECONNECT_MS  250 /* a server that is being started anew often has a listener by then */
#define LOOK_MS       100 /* how often a wait looks whether we are stopping */
#define TEXT_MAX      TRANSCRIPT_MAX /* kept of an answer's text: no more is written */

struct relay {
    const struct relay_job *job;
    struct reply *reply;
    struct relay_end *end;
    int64_t start_ms, until_ms; /* of all calls together */
    int64_t first_ms, last_ms;
    /* of the call under way */
    const struct config_model *model;
    const struct provider *provider;
    struct call *call;
    char *body;
    struct diagnosis why; /* for the owner, if the upstream is to blame */
    int64_t wait_ms;      /* for Retry-After */
    enum health blame;    /* what a failure says of the API */
    bool hurried;         /* the first call has left it less than its model's total timeout */
    struct part answer;   /* a plain one */
    /* of a stream */
    bool started; /* the header has been sent: trouble is an event now */
    bool spoken;  /* the first chunk has been sent */
    bool done;    /* the dialect's end mark has come */
    bool visible; /* of any answer: there was text in it */
    enum finish finish;
};

/* ---- how it ends ---- */

/* The first reason counts. */
static void fail(struct relay *r, enum code code, enum settle_kind kind)
{
    if (r->end->code != CODE_NONE || r->end->gone)
        return;
    r->end->code = code;
    r->end->kind = kind;
}

static bool failed(const struct relay *r)
{
    return r->end->code != CODE_NONE || r->end->gone;
}

static void leave(struct relay *r)
{
    if (!failed(r))
        r->end->gone = true;
    r->end->kind = SETTLE_UNKNOWN;
}

/* The call has ended without a whole answer. */
static void fail_end(struct relay *r, enum call_end end)
{
    static const enum code codes[] = {
        [CALL_RUNNING] = CODE_UPSTREAM_ERROR,
        [CALL_DONE] = CODE_UPSTREAM_ERROR,
        [CALL_GONE] = CODE_NONE,
        [CALL_UNREACHABLE] = CODE_UPSTREAM_UNREACHABLE,
        [CALL_TIMEOUT] = CODE_UPSTREAM_TIMEOUT,
        [CALL_BROKEN] = CODE_UPSTREAM_ERROR,
        [CALL_ABORTED] = CODE_STOPPING,
    };

    r->why.reason = call_reason(r->call);
    if (end == CALL_DONE && r->why.status == 0) /* libcurl takes such an answer for one */
        r->why.reason = "the answer ended within its header";
    /* A slow reader can do that, a long answer, or the first of two calls. */
    if ((r->spoken || r->hurried) && end == CALL_TIMEOUT && call_lasted(r->call))
        r->blame = HEALTH_UNKNOWN;
    if (end == CALL_GONE)
        leave(r);
    else
        fail(r, codes[end], call_was_sent(r->call) ? SETTLE_UNKNOWN : SETTLE_NOTHING);
}

/* As long as the breaker, which opens now, will tell the others to wait (store/breaker.c). */
static int64_t refused_wait(const struct relay *r)
{
    int64_t asked = call_retry_after(r->call) * 1000, pause = r->model->breaker_pause_ms;

    if (asked > LEDGER_RETRY_MAX_MS)
        asked = LEDGER_RETRY_MAX_MS;
    return asked > pause ? asked : pause;
}

/* Reads what comes of the error's body in time, for the code in it and nothing else. */
static void read_code(struct relay *r)
{
    enum call_end end = CALL_RUNNING;
    int64_t until = clock_monotonic_ms() + ERROR_WAIT_MS, now;
    char *text = malloc(PROVIDER_ERROR_MAX);
    size_t n = 0;

    if (text == NULL)
        return;
    while (end == CALL_RUNNING && n < PROVIDER_ERROR_MAX &&
           (now = clock_monotonic_ms()) < until)
        n += call_read(r->call, text + n, PROVIDER_ERROR_MAX - n, until - now, &end);
    r->provider->error_code(text, n, r->why.code);
    free(text);
}

static void fail_status(struct relay *r, int status)
{
    struct trouble t = trouble_of(status);
    enum settle_kind kind = t.free ? SETTLE_NOTHING : SETTLE_UNKNOWN;

    read_code(r);
    r->blame = t.health;
    if (!t.about_us) {
        fail(r, CODE_UPSTREAM_ERROR, kind);
        return;
    }
    r->wait_ms = refused_wait(r);
    fail(r, CODE_UPSTREAM_REFUSED, kind);
}

/* The provider reports an error inside a 200. */
static void fail_part(struct relay *r, const struct part *p)
{
    r->wait_ms = p->refused ? refused_wait(r) : 0;
    r->blame = p->refused ? HEALTH_REFUSED : HEALTH_FAILED;
    memcpy(r->why.code, p->code, sizeof(p->code));
    fail(r, p->refused ? CODE_UPSTREAM_REFUSED : CODE_UPSTREAM_ERROR, SETTLE_UNKNOWN);
}

static enum health health_of(const struct relay *r)
{
    const struct relay_end *e = r->end;

    if (e->gone)
        return r->spoken ? HEALTH_GOOD : HEALTH_UNKNOWN;
    if (e->code == CODE_NONE)
        return HEALTH_GOOD;
    return e->code < CODE_UPSTREAM_REFUSED || r->call == NULL ? HEALTH_UNKNOWN : r->blame;
}

/* What the call says of the API. */
static void note_health(struct relay *r)
{
    int64_t seconds = r->call != NULL ? call_retry_after(r->call) : -1;

    r->end->health = health_of(r);
    if (r->end->health == HEALTH_REFUSED && seconds > 0)
        r->end->retry_after_ms = r->wait_ms;
}

static void settle(struct relay *r)
{
    if (!failed(r))
        r->end->kind = r->end->usage.known ? SETTLE_USAGE : SETTLE_UNKNOWN;
    note_health(r);
    r->job->settle(r->job->arg, r->end);
    if (!failed(r) && r->finish == FINISH_LENGTH && !r->visible)
        diagnosis_tell_empty(r->model);
}

/* Not where the process is stopping or the caller has left: nothing is wrong then. */
static void tell_owner(const struct relay *r)
{
    if (r->end->code >= CODE_UPSTREAM_REFUSED && r->call != NULL)
        diagnosis_tell(r->model, &r->why);
}

/* Tells a failure: with a status of its own while nothing has been sent, else by an event. */
static void tell_failure(struct relay *r)
{
    struct reply_error e = {
        .code = r->end->code,
        .wait_ms = r->wait_ms,
        .billed = r->end->kind != SETTLE_NOTHING,
    };

    tell_owner(r); /* before the caller: a CGI process may be killed after that */
    if (r->end->gone)
        return;
    if (r->started)
        reply_stream_error(r->reply, r->end->code);
    else
        reply_error(r->reply, &e, NULL);
}

/* ---- the call ---- */

static bool type_is(const char *type, const char *wanted)
{
    size_t n = strlen(wanted);

    return strncasecmp(type, wanted, n) == 0 && strchr("; \t", type[n]) != NULL;
}

static enum error start(struct relay *r, const char *url, size_t n_body)
{
    const struct relay_job *j = r->job;
    const struct config_model *m = r->model;
    int64_t left_ms = r->until_ms - clock_monotonic_ms();
    const char *accept =
        j->request->stream ? "Accept: text/event-stream" : "Accept: " TYPE_PLAIN;
    const char *fixed[FIXED_HEADERS] = {"Content-Type: " TYPE_PLAIN, accept,
                                        "Accept-Encoding: identity"};
    const char *all[FIXED_HEADERS + PROVIDER_HEADERS_MAX];
    char *own[PROVIDER_HEADERS_MAX];
    int n = r->provider->headers(m, own);
    enum error e = ERROR_MEMORY;

    if (n < 0)
        return e;
    r->hurried = r->end->calls > 1 && left_ms < m->total_timeout_ms;
    memcpy(all, fixed, sizeof(fixed));
    for (int i = 0; i < n; i++)
        all[FIXED_HEADERS + i] = own[i];
    e = call_start(
        j->upstream,
        &(struct call_request){
            .url = url,
            .headers = all,
            .n_headers = (unsigned)(FIXED_HEADERS + n),
            .body = r->body,
            .n_body = n_body,
            .ca_file = m->ca_file,
            .shared_bytes = r->job->config->buffer_bytes,
            .connect_timeout_ms = m->connect_timeout_ms,
            .first_byte_timeout_ms = m->first_byte_timeout_ms,
            .idle_timeout_ms = m->idle_timeout_ms,
            .total_timeout_ms = left_ms < m->total_timeout_ms ? left_ms : m->total_timeout_ms,
            .watch_fd = r->reply->x->watch_fd,
            .watch_readable = r->reply->x->watch_readable,
        },
        &r->call);
    for (int i = 0; i < n; i++) {
        mac_wipe(own[i], strlen(own[i]));
        free(own[i]);
    }
    return e;
}

static bool open_call(struct relay *r)
{
    const struct config_model *m = r->model;
    size_t n_url = strlen(m->url) + strlen(r->provider->path) + 1, n_body = 0;
    char *url = malloc(n_url);
    enum error e = ERROR_MEMORY;

    r->end->calls++;
    r->body = r->provider->body(m, r->job->request, &n_body);
    if (url != NULL && r->body != NULL) {
        snprintf(url, n_url, "%s%s", m->url, r->provider->path);
        e = start(r, url, n_body);
    }
    free(url);
    if (e != ERROR_NONE) {
        fail(r, e == ERROR_STOPPING ? CODE_STOPPING : CODE_UPSTREAM_UNREACHABLE,
             SETTLE_NOTHING);
        return false;
    }
    place_set_call(r->job->places, r->job->place, r->call);
    return true;
}

static void close_call(struct relay *r)
{
    place_set_call(r->job->places, r->job->place, NULL);
    call_free(r->call);
    free(r->body);
    r->call = NULL;
    r->body = NULL;
}

/* Whether the answer's header is one that its body can be read after. */
static bool accept_answer(struct relay *r, int status, enum call_end end, const char *type)
{
    r->why.status = status;
    if (status == 0)
        fail_end(r, end);
    else if (status != HTTP_OK)
        fail_status(r, status);
    else if (!type_is(call_content_type(r->call), type))
        fail(r, CODE_UPSTREAM_ERROR, SETTLE_UNKNOWN);
    return !failed(r);
}

static void note_first(struct relay *r)
{
    if (r->first_ms >= 0)
        return;
    r->first_ms = clock_monotonic_ms() - r->start_ms;
    /* Before it is sent, for reply_count's reason. */
    ledger_live_first_byte(r->reply->ledger, r->first_ms);
}

/* ---- growing texts ---- */

struct bytes {
    char *at;
    size_t n, room;
};

static bool append(struct bytes *b, size_t max, const char *bytes, size_t n)
{
    size_t room = b->room > 0 ? b->room : ANSWER_FIRST;
    char *at = b->at;

    if (n > max - b->n)
        return false;
    while (room < b->n + n)
        room *= 2;
    if (room != b->room && (at = realloc(b->at, room)) == NULL)
        return false;
    memcpy(at + b->n, bytes, n);
    *b = (struct bytes){at, b->n + n, room};
    return true;
}

/* Where nobody wants the text this costs nothing; where there is no room, only the text. */
static void keep_text(struct relay *r, const struct part *p)
{
    struct relay_text *t = r->job->text;
    struct bytes b;

    if (t == NULL || p->text == NULL || t->cut)
        return;
    b = (struct bytes){t->at, t->n, t->room};
    t->cut = !append(&b, TEXT_MAX, p->text, p->bytes);
    t->at = b.at;
    t->n = b.n;
    t->room = b.room;
}

/* ---- a plain answer ---- */

static void read_whole(struct relay *r, struct bytes *b)
{
    enum call_end end = CALL_RUNNING;
    char bytes[READ_SIZE];

    while (end == CALL_RUNNING && !failed(r)) {
        size_t n = call_read(r->call, bytes, sizeof(bytes), WAIT_MS, &end);

        if (n > 0 && !append(b, ANSWER_MAX, bytes, n))
            fail(r, CODE_UPSTREAM_ERROR, SETTLE_UNKNOWN);
    }
    if (end != CALL_RUNNING && end != CALL_DONE)
        fail_end(r, end);
}

static void run_plain(struct relay *r)
{
    struct part *answer = &r->answer;
    enum call_end end = CALL_RUNNING;
    struct bytes b = {0};
    int status = 0;

    while (status == 0 && end == CALL_RUNNING)
        status = call_status(r->call, WAIT_MS, &end);
    if (!accept_answer(r, status, end, TYPE_PLAIN))
        return;
    read_whole(r, &b);
    if (!failed(r) && !r->provider->whole(b.at != NULL ? b.at : "", b.n, answer))
        fail(r, CODE_UPSTREAM_ERROR, SETTLE_UNKNOWN);
    free(b.at);
    keep_text(r, answer);
    if (!failed(r) && answer->error)
        fail_part(r, answer);
    r->finish = answer->finish;
    r->visible = answer->text != NULL;
    if (!failed(r))
        r->end->usage = answer->usage;
}

/* ---- a stream ---- */

/* After everything that is sent. */
static bool sent(struct relay *r, bool ok)
{
    r->last_ms = clock_monotonic_ms();
    if (!ok) {
        call_abort(r->call);
        leave(r);
    }
    return ok;
}

static bool begin(struct relay *r)
{
    if (r->started)
        return true;
    r->started = true;
    return sent(r, reply_stream_start(r->reply, r->job->rates));
}

static int64_t until_beat(const struct relay *r)
{
    int64_t left = r->last_ms + r->job->config->heartbeat_ms - clock_monotonic_ms();

    return left > 0 ? left : 0;
}

/* Nothing has been sent for a heartbeat's time: from now on trouble is an event. */
static void beat(struct relay *r)
{
    if (!failed(r) && until_beat(r) == 0 && begin(r))
        sent(r, reply_stream_heartbeat(r->reply));
}

static bool on_part(struct relay *r, const struct part *p)
{
    usage_merge(&r->end->usage, &p->usage);
    r->visible = r->visible || p->text != NULL;
    keep_text(r, p);
    if (p->error)
        fail_part(r, p);
    else if ((p->text != NULL || p->finish != FINISH_NONE) && begin(r)) {
        note_first(r);
        sent(r, reply_stream_text(r->reply, !r->spoken, p->text, p->finish));
        r->spoken = true;
        r->finish = p->finish != FINISH_NONE ? p->finish : r->finish;
    }
    r->done = p->done;
    return !failed(r) && !r->done;
}

static bool on_event(void *arg, const char *name, const char *data, size_t n)
{
    struct relay *r = arg;
    struct part part = {0};
    bool more;

    if (!r->provider->event(name, data, n, &part)) {
        fail(r, CODE_UPSTREAM_ERROR, SETTLE_UNKNOWN);
        return false;
    }
    more = on_part(r, &part);
    part_free(&part);
    return more;
}

static void read_events(struct relay *r)
{
    enum call_end end = CALL_RUNNING;
    char bytes[READ_SIZE];
    struct sse events;

    sse_init(&events);
    while (end == CALL_RUNNING && !r->done && !failed(r)) {
        size_t n = call_read(r->call, bytes, sizeof(bytes), until_beat(r), &end);

        if (n > 0 && !sse_feed(&events, bytes, n, on_event, r) && !r->done)
            fail(r, CODE_UPSTREAM_ERROR, SETTLE_UNKNOWN); /* too long an event, if no other */
        beat(r);
    }
    sse_free(&events);
    /* An end of the bytes is one of the answer only if the dialect says so. */
    if (!r->done && !failed(r) && (end != CALL_DONE || r->finish == FINISH_NONE))
        fail_end(r, end);
}

static void run_stream(struct relay *r)
{
    enum call_end end = CALL_RUNNING;
    int status = 0;

    while (status == 0 && end == CALL_RUNNING && !failed(r)) {
        status = call_status(r->call, until_beat(r), &end);
        if (status == 0 && end == CALL_RUNNING)
            beat(r);
    }
    if (!failed(r) && accept_answer(r, status, end, r->provider->content_type_sse))
        read_events(r);
}

/* What comes after the end mark is dropped, so that the connection can be used again. */
static void drain(struct relay *r)
{
    enum call_end end = CALL_RUNNING;
    int64_t until = clock_monotonic_ms() + DRAIN_MS, now;
    char bytes[READ_SIZE];

    while (end == CALL_RUNNING && (now = clock_monotonic_ms()) < until)
        call_read(r->call, bytes, sizeof(bytes), until - now, &end);
}

static void make_call(struct relay *r, const struct config_model *m)
{
    r->model = m;
    r->provider = provider_of(m->provider);
    r->blame = HEALTH_FAILED;
    if (!open_call(r))
        return;
    if (r->job->request->stream)
        run_stream(r);
    else
        run_plain(r);
}

/* ---- a second call ---- */

/*
 * Whether the request may be asked once more: nothing can have been billed, and the caller is
 * there and has got nothing. No request makes more than two calls (F13).
 */
static bool may_go_on(const struct relay *r)
{
    const struct exchange *x = r->reply->x;

    return r->call != NULL && r->end->calls == 1 && r->end->code >= CODE_UPSTREAM_REFUSED &&
           r->end->kind == SETTLE_NOTHING && !r->started &&
           clock_monotonic_ms() < r->until_ms &&
           !exchange_gone(x->watch_fd, x->watch_readable) && !places_are_cut(r->job->places);
}

/* The wait before the same model is asked once more; -1: that cannot help. */
static int64_t wait_again(const struct relay *r)
{
    if (r->why.status != 0)
        return trouble_again_ms(r->why.status, call_retry_after(r->call), r->why.code);
    return r->end->code == CODE_UPSTREAM_UNREACHABLE ? RECONNECT_MS : -1;
}

/* False if the caller leaves meanwhile, or the process is stopping. */
static bool wait_for(struct relay *r, int64_t ms)
{
    const struct exchange *x = r->reply->x;
    int64_t until = clock_monotonic_ms() + ms, left;

    while ((left = until - clock_monotonic_ms()) > 0) {
        int look = (int)(left < LOOK_MS ? left : LOOK_MS);

        if (exchange_leaves(x->watch_fd, x->watch_readable, look) ||
            places_are_cut(r->job->places))
            return false;
    }
    return true;
}

/* Not where the first heartbeat would fall due in the wait: after it trouble has no status. */
static bool try_again(struct relay *r)
{
    int64_t wait = wait_again(r);

    if (wait < 0 || (r->job->request->stream && wait >= until_beat(r)) ||
        clock_monotonic_ms() + wait >= r->until_ms)
        return false;
    return wait_for(r, wait) && r->job->again(r->job->arg);
}

/* The model to be asked in a second call, or NULL. A fallback is better than the same again. */
static const struct config_model *next_model(struct relay *r)
{
    if (!may_go_on(r))
        return NULL;
    if (r->model->fallback == NULL)
        return try_again(r) ? r->model : NULL;
    note_health(r);
    return r->job->replace(r->job->arg, r->end);
}

static void call_next(struct relay *r, const struct config_model *m)
{
    tell_owner(r);
    close_call(r);
    *r->end = (struct relay_end){.calls = r->end->calls};
    r->why = (struct diagnosis){0};
    r->wait_ms = 0;
    make_call(r, m);
}

/* ---- the whole ---- */

static void finish_plain(struct relay *r)
{
    note_first(r);
    r->end->gone = !reply_completion(r->reply, &r->answer, r->job->rates);
}

/* An end that says no reason is one like any other, as in a plain answer; and one without a word
 * before it is told as an empty answer, not as nothing at all. */
static bool send_finish(struct relay *r)
{
    return r->finish != FINISH_NONE ||
           sent(r, reply_stream_text(r->reply, !r->spoken, NULL, FINISH_STOP));
}

static void finish_stream(struct relay *r)
{
    const struct usage *u = &r->end->usage;

    r->end->gone = !begin(r) || !send_finish(r) ||
                   (r->job->request->include_usage && usage_whole(u) &&
                    !sent(r, reply_stream_usage(r->reply, u))) ||
                   !sent(r, reply_stream_done(r->reply));
    if (!r->end->gone && !r->reply->x->single)
        drain(r);
}

void relay_run(const struct relay_job *job, struct relay_end *end, int64_t *first_ms)
{
    struct relay r = {
        .job = job,
        .reply = job->reply,
        .end = end,
        .start_ms = clock_monotonic_ms(),
        .first_ms = -1,
    };
    const struct config_model *next;

    memset(end, 0, sizeof(*end));
    r.last_ms = r.start_ms;
    r.until_ms = r.start_ms + job->model->total_timeout_ms;
    make_call(&r, job->model);
    next = next_model(&r);
    if (next != NULL)
        call_next(&r, next);
    settle(&r);
    if (failed(&r))
        tell_failure(&r);
    else if (job->request->stream)
        finish_stream(&r);
    else
        finish_plain(&r);
    part_free(&r.answer);
    close_call(&r);
    *first_ms = r.first_ms;
}
