/*
 * The main job, step by step. Security: the steps are in the order of what they cost us, and
 * nothing is charged or sent on before all of them have said yes.
 */
#include "gateway/chat.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/admission.h"
#include "gateway/relay.h"
#include "gateway/request.h"
#include "platform/log.h"

#define BODY_FIRST 4096 /* room at first for a body of unknown length; it doubles */

/* Beyond a model's total timeout: for the answer's last bytes; and until the reservation ends
 * by itself, before which its settle must have been committed. */
#define ANSWER_EXTRA_MS 5000
#define HOLD_EXTRA_MS   (ANSWER_EXTRA_MS + 10000)
#define OVERHEAD_MAX    4 /* x the worst-case input of a smallest request: invariant 6 */

struct chat {
    const struct chat_job *job;
    struct chat_log *log;
    const struct config *config;
    struct admission a;
    char *body;
    size_t n_body;
    struct request request;
    struct reservation reservation;
    struct place place;
    bool placed;
    char cookie[CALLER_COOKIE_MAX];
};

/* ---- refusing ---- */

/* Once a request, whatever comes of it; like all figures before the answer is out, because a CGI
 * process may be killed as soon as its caller has that. */
static void count_decision(struct chat *c)
{
    if (c->a.decision_us < 0 || c->log->decision_us >= 0)
        return;
    c->log->decision_us = c->a.decision_us;
    ledger_live_decision(c->a.ledger, c->a.decision_us);
}

/* The configuration's name of the limit that refused, or NULL: it is a key's own. */
static const char *configured_limit(const struct chat *c)
{
    for (unsigned i = 0; i < c->config->n_limits; i++)
        if (strcmp(c->config->limits[i].name, c->a.answer.limit) == 0)
            return c->config->limits[i].name;
    return NULL;
}

static bool refuse_with(struct chat *c, const struct reply_error *e)
{
    bool limited = c->a.answer.decision == DECISION_REFUSED;

    c->log->code = e->code;
    count_decision(c);
    if (limited) {
        snprintf(c->log->limit, sizeof(c->log->limit), "%s", c->a.answer.limit);
        ledger_live_limit(c->a.ledger, configured_limit(c));
    }
    reply_error(c->job->reply, e, limited ? &c->a.answer : NULL);
    return false;
}

static bool refuse(struct chat *c, enum code code)
{
    return refuse_with(c, &(struct reply_error){.code = code});
}

/* ---- the steps: each returns false if it has answered ---- */

static bool check_type(struct chat *c)
{
    const char *type = exchange_param(c->job->x, "CONTENT_TYPE");

    return (type != NULL && request_content_type_ok(type)) || refuse(c, CODE_CONTENT_TYPE);
}

/* Room for more: for the announced length and a byte to see the end by, else doubling. */
static bool make_room(struct chat *c, size_t *room, uint64_t length)
{
    size_t most = (size_t)c->config->max_body_bytes + 1, more = *room * 2;
    char *longer;

    if (*room == 0)
        more = length > 0 ? (size_t)length + 1 : BODY_FIRST;
    more = more < most ? more : most;
    longer = realloc(c->body, more);
    if (longer == NULL)
        return false;
    c->body = longer;
    *room = more;
    return true;
}

/* Reads to the end, since only then the exchange can be watched; stops a byte above the
 * bound. */
static enum code fill_body(struct chat *c, uint64_t length)
{
    size_t room = 0;
    ssize_t n;

    do {
        if (c->n_body > c->config->max_body_bytes)
            return CODE_BODY_TOO_LARGE;
        if (c->n_body == room && !make_room(c, &room, length))
            return CODE_BUSY;
        n = c->job->x->ops->read(c->job->x, c->body + c->n_body, room - c->n_body);
        c->n_body += n > 0 ? (size_t)n : 0;
    } while (n > 0);
    if (n < 0) /* too late, or broken off? */
        return c->job->x->ops->admitted(c->job->x, ANSWER_EXTRA_MS) ? CODE_BODY_INCOMPLETE
                                                                    : CODE_TIMEOUT_REQUEST;
    return length > 0 && c->n_body != length ? CODE_BODY_INCOMPLETE : CODE_NONE;
}

static bool read_body(struct chat *c)
{
    uint64_t length = exchange_length(c->job->x);
    enum code code = CODE_BODY_TOO_LARGE;

    if (length <= c->config->max_body_bytes)
        code = fill_body(c, length);
    return code == CODE_NONE || refuse(c, code);
}

static bool parse(struct chat *c)
{
    const struct request_bounds bounds = {
        .max_message_chars = c->config->max_message_chars,
        .max_input_chars = c->config->max_input_chars,
        .max_history = c->config->max_history,
    };
    struct request_fault fault;
    bool ok = request_parse(c->body, c->n_body, &bounds, &c->request, &fault);

    free(c->body);
    c->body = NULL;
    if (ok)
        return true;
    return refuse_with(c, &(struct reply_error){
                              .code = fault.code,
                              .param = fault.param[0] != '\0' ? fault.param : NULL,
                              .detail = fault.detail[0] != '\0' ? fault.detail : NULL,
                          });
}

static bool find_caller(struct chat *c)
{
    const struct chat_job *j = c->job;
    struct reply_error no;

    if (!admission_begin(&c->a, j->x, j->site, j->use, j->reply->created_s, &no))
        return refuse_with(c, &no);
    if (c->a.asker.proxied)
        ledger_figure(c->a.ledger, FIGURE_PROXIED);
    return true;
}

static bool is_kept(const struct config *c)
{
    return !SMALL && c->transcripts;
}

/* Whether the log's name of the caller is shown anywhere: it costs a read transaction. */
static bool is_named(const struct config *c)
{
    return c->log_level >= LOG_LEVEL_INFO || (is_kept(c) && !c->transcripts_address);
}

/* For the log; who cannot be named is "-". */
static void name_caller(struct chat *c)
{
    ledger_display(c->a.ledger, &c->a.policy, &c->a.demand, SUBJECT_ADDRESS, c->log->subject);
}

/* Before the body is parsed: a flood of refusals must cost as little as it can. */
static bool has_room(struct chat *c)
{
    struct reply_error no;

    return admission_room(&c->a, &no) || refuse_with(c, &no);
}

/* What is told and kept is the model that answers. */
static void name_model(struct chat *c)
{
    c->log->model = c->a.model->alias;
    c->job->reply->model = c->a.model->alias;
}

static struct admission_size size_of(const struct chat *c)
{
    return (struct admission_size){c->request.bytes, c->request.n_messages};
}

static bool choose_model(struct chat *c)
{
    admission_choose(&c->a, c->request.model[0] != '\0' ? c->request.model : NULL);
    name_model(c);
    return true;
}

static bool check_limits(struct chat *c)
{
    const struct admission_size size = size_of(c);
    struct reply_error no;

    if (!admission_weigh(&c->a, &size, &no))
        return refuse_with(c, &no);
    name_model(c);
    return true;
}

static bool load_upstream(struct chat *c)
{
    static struct log_once once;
    enum error e = upstream_load(c->job->upstream);

    if (e == ERROR_NONE)
        return true;
    log_line_once(&once, (int)e, LOG_LEVEL_ERROR, "libcurl cannot be used: %s", error_text(e));
    return refuse(c, CODE_UPSTREAM_UNREACHABLE);
}

static bool take_place(struct chat *c)
{
    c->placed = place_take(c->job->places, admission_streams(&c->a), &c->place);
    return c->placed || refuse(c, CODE_BUSY);
}

/* Nobody is charged who has left in the meantime. */
static bool admit(struct chat *c)
{
    struct exchange *x = c->job->x;

    c->a.demand.hold_ms = c->a.model->total_timeout_ms + HOLD_EXTRA_MS;
    if (!x->ops->admitted(x, c->a.model->total_timeout_ms + ANSWER_EXTRA_MS))
        return refuse(c, CODE_TIMEOUT_REQUEST);
    c->log->gone = exchange_gone(x->watch_fd, x->watch_readable);
    return !c->log->gone;
}

static bool reserve(struct chat *c)
{
    const struct admission_size size = size_of(c);
    struct admission *a = &c->a;
    enum error e = admission_reserve(a, &c->reservation);
    struct reply_error no;

    if (e == ERROR_NONE && a->answer.decision == DECISION_BREAKER &&
        admission_fall_back(a, &size)) { /* somebody else has just begun to probe the first */
        name_model(c);
        if (!admit(c))
            return false;
        e = admission_reserve(a, &c->reservation);
    }
    if (!admission_decided(a, e, &no))
        return refuse_with(c, &no);
    c->log->admitted = true;
    admission_cookie(a, c->cookie);
    if (c->cookie[0] != '\0') /* with whatever is answered from now on */
        c->job->reply->cookie = c->cookie;
    return true;
}

/* ---- after the reservation ---- */

/* False if the report is not to be believed. */
static bool settle_usage(struct chat *c, const struct usage *u, struct settlement *s)
{
    const struct reservation *r = &c->reservation;
    struct demand smallest;

    if (!usage_believable(u, r->tokens_in, r->tokens_out))
        return false;
    price_real(&c->a.model->price, u, &s->real);
    s->tokens_in = u->input;
    s->tokens_out = u->output;
    if (u->input >
        r->tokens_in) /* above the bound: by how much without what was learnt before */
        s->input_over = u->input - (r->tokens_in - c->a.overhead);
    admission_worst(&c->a, 1, 1, 0, &smallest);
    s->overhead_max = smallest.tokens_in * OVERHEAD_MAX;
    return true;
}

static struct settlement settlement_of(const struct chat *c, const struct relay_end *end)
{
    return (struct settlement){
        .kind = end->kind,
        .health = end->health,
        .breaker_after = c->a.model->breaker_after,
        .breaker_pause_ms = c->a.model->breaker_pause_ms,
        .retry_after_ms = end->retry_after_ms,
    };
}

/* Refused or not done, the first failure is told. */
static const struct config_model *replace(void *arg, const struct relay_end *end)
{
    struct chat *c = arg;
    const struct admission_size size = size_of(c);
    const struct settlement first = settlement_of(c, end);

    if (admission_replace(&c->a, &size, &first, &c->reservation) != ERROR_NONE)
        return NULL;
    name_model(c);
    return c->a.model;
}

static bool again(void *arg)
{
    struct chat *c = arg;
    struct ledger_model known;

    return ledger_model(c->a.ledger, c->a.model->alias, &known) == ERROR_NONE &&
           known.breaker_wait_ms == 0;
}

static void settle(void *arg, const struct relay_end *end)
{
    struct chat *c = arg;
    struct settlement s = settlement_of(c, end);
    enum error e;

    if (s.kind == SETTLE_USAGE && !settle_usage(c, &end->usage, &s))
        s.kind = SETTLE_UNKNOWN;
    s.upstream_error = end->code >= CODE_UPSTREAM_REFUSED;
    if (end->code == CODE_NONE && !end->gone)
        ledger_live_code(c->a.ledger, code_live(CODE_NONE));
    e = ledger_settle(c->a.ledger, &c->reservation, &s, c->job->x->single);
    if (e != ERROR_NONE) /* stays charged as reserved */
        site_fault(c->job->site, c->job->use, e);
    if (s.kind == SETTLE_NOTHING)
        return;
    c->log->usage = s.kind == SETTLE_USAGE ? "reported" : "estimated";
    c->log->tokens_in = s.kind == SETTLE_USAGE ? s.tokens_in : c->reservation.tokens_in;
    c->log->tokens_out = s.kind == SETTLE_USAGE ? s.tokens_out : c->reservation.tokens_out;
}

const char *chat_result(const struct chat_log *log)
{
    if (log->gone)
        return "gone";
    return log->code == CODE_NONE ? "ok" : code_entry(log->code)->name;
}

static void name_in_transcript(const struct chat *c, char out[TRANSCRIPT_WORD_MAX])
{
    const struct address *a = &c->a.asker.address;

    if (!c->config->transcripts_address ||
        inet_ntop(a->family == 4 ? AF_INET : AF_INET6, a->bytes, out, TRANSCRIPT_WORD_MAX) ==
            NULL)
        snprintf(out, TRANSCRIPT_WORD_MAX, "%s", c->log->subject);
}

/* As it was sent on, without the system prompt, which is the owner's own. */
static void keep_transcript(struct chat *c, const struct relay_text *text)
{
    static const enum transcript_role roles[] = {
        [ROLE_USER] = TRANSCRIPT_USER, [ROLE_ASSISTANT] = TRANSCRIPT_ASSISTANT};
    const struct request *q = &c->request;
    struct transcript_message *messages = calloc(q->n_messages, sizeof(*messages));
    struct transcript t = {
        .tokens_in = c->log->tokens_in,
        .tokens_out = c->log->tokens_out,
        .cut = text->cut,
        .n_messages = messages != NULL ? q->n_messages : 0,
        .messages = messages,
        .answer = {text->at, text->n},
    };

    for (unsigned i = 0; i < t.n_messages; i++)
        messages[i] = (struct transcript_message){roles[q->messages[i].role],
                                                  {q->messages[i].text, q->messages[i].bytes}};
    snprintf(t.id, sizeof(t.id), "%s", c->job->reply->id);
    snprintf(t.model, sizeof(t.model), "%s", c->log->model);
    snprintf(t.result, sizeof(t.result), "%s", chat_result(c->log));
    name_in_transcript(c, t.subject);
    recorder_put(c->job->recorder, c->config, &t);
    free(messages);
}

static void forward(struct chat *c)
{
    struct relay_text text = {0};
    const struct relay_job job = {
        .upstream = c->job->upstream,
        .places = c->job->places,
        .place = &c->place,
        .config = c->config,
        .model = c->a.model,
        .request = &c->request,
        .reply = c->job->reply,
        .rates = &c->a.answer,
        .text = is_kept(c->config) ? &text : NULL,
        .replace = replace,
        .again = again,
        .settle = settle,
        .arg = c,
    };
    struct relay_end end;

    if (is_named(c->config))
        name_caller(c);
    relay_run(&job, &end, &c->log->first_ms);
    c->log->code = end.code;
    c->log->gone = end.gone;
    c->log->calls = end.calls;
    if (is_kept(c->config))
        keep_transcript(c, &text);
    free(text.at);
}

typedef bool step_fn(struct chat *c);

void chat_handle(const struct chat_job *job, struct chat_log *log)
{
    static step_fn *const steps[] = {check_type, find_caller,  read_body,    has_room,
                                     parse,      choose_model, check_limits, load_upstream,
                                     take_place, admit,        reserve};
    struct chat c = {
        .job = job,
        .log = log,
        .config = job->use->config,
        .a.decision_us = -1,
    };
    bool go = true;

    *log = (struct chat_log){.what = log->what,
                             .model = "-",
                             .subject = "-",
                             .usage = "none",
                             .first_ms = -1,
                             .decision_us = -1};
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && go; i++)
        go = steps[i](&c);
    count_decision(&c);
    if (go)
        forward(&c);
    else if (c.a.decision_us >= 0 && line_wanted(&log->line, job->use, false))
        name_caller(&c);
    log->decision_us = c.a.decision_us; /* with what a fallback has taken */
    if (c.placed)
        place_leave(job->places, &c.place);
    request_free(&c.request);
    free(c.body);
}
