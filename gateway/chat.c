/*
 * The main job, step by step. Security: the steps are in the order of what they cost us, and
 * nothing is charged or sent on before all of them have said yes.
 */
#include "gateway/chat.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/caller.h"
#include "gateway/relay.h"
#include "gateway/request.h"
#include "platform/log.h"

#define BODY_FIRST 4096 /* room at first for a body of unknown length; it doubles */

/* Beyond a model's total timeout: for the answer's last bytes; and until the reservation ends
 * by itself, before which its settle must have been committed. */
#define ANSWER_EXTRA_MS 5000
#define HOLD_EXTRA_MS   (ANSWER_EXTRA_MS + 10000)
/* Told while paused: the owner can always act, but not every second. */
#define PAUSED_MS    60000
#define OVERHEAD_MAX 4 /* x the worst-case input of a smallest request: invariant 6 */

struct chat {
    const struct chat_job *job;
    struct chat_log *log;
    const struct config *config;
    struct ledger *ledger;
    struct policy policy;
    char *body;
    size_t n_body;
    struct request request;
    const struct config_model *model;
    uint64_t overhead; /* the model's learnt one */
    struct demand demand;
    struct answer answer;
    struct reservation reservation;
    struct place place;
    bool placed;
};

/* ---- refusing ---- */

static bool refuse_with(struct chat *c, const struct reply_error *e,
                        const struct reply_rates *rates)
{
    c->log->code = e->code;
    reply_error(c->job->reply, e, rates);
    return false;
}

static bool refuse(struct chat *c, enum code code)
{
    return refuse_with(c, &(struct reply_error){.code = code}, NULL);
}

/*
 * A wait may be told exactly if it is one of the caller's own `calls` limits', or the fixed one
 * of `concurrent`; of all others a caller learns no more than the minute.
 */
static bool is_exact(const struct answer *a)
{
    const struct verdict *v = &a->verdict;

    if (v->refusal == REFUSAL_CONCURRENT && a->wait_ms == CONCURRENT_WAIT_MS)
        return true;
    for (unsigned i = 0; i < v->n_standings; i++) {
        if (v->standings[i].remaining == 0 && a->standing_wait_ms[i] == a->wait_ms)
            return true;
    }
    return false;
}

static bool refuse_limit(struct chat *c)
{
    const struct reply_rates rates = {&c->policy, &c->answer};
    const struct reply_error e = {
        .code = code_of_refusal(c->answer.verdict.refusal),
        .wait_ms = c->answer.wait_ms,
        .minute = !is_exact(&c->answer),
    };

    return refuse_with(c, &e, &rates);
}

/* Goes on only with a verdict, and only with that one. */
static bool decided(struct chat *c, enum error e)
{
    if (e != ERROR_NONE)
        return refuse(c, site_fault(c->job->site, c->job->use, e));
    switch (c->answer.decision) {
    case DECISION_ADMITTED:
        return true;
    case DECISION_REFUSED:
        return refuse_limit(c);
    case DECISION_TOO_LONG:
        return refuse(c, CODE_TOO_LONG);
    case DECISION_PAUSED:
        return refuse_with(c, &(struct reply_error){.code = CODE_PAUSED, .wait_ms = PAUSED_MS},
                           NULL);
    case DECISION_NO_KEY:
        return refuse(c, CODE_UNAUTHORIZED);
    case DECISION_BREAKER:
        return refuse_with(c,
                           &(struct reply_error){.code = CODE_UPSTREAM_PAUSED,
                                                 .wait_ms = c->answer.wait_ms},
                           NULL);
    case DECISION_BUSY:
        break;
    }
    return refuse(c, CODE_BUSY);
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
    return refuse_with(c,
                       &(struct reply_error){
                           .code = fault.code,
                           .param = fault.param[0] != '\0' ? fault.param : NULL,
                           .detail = fault.detail[0] != '\0' ? fault.detail : NULL,
                       },
                       NULL);
}

/* For the log; who cannot be named is "-". Costs a read transaction, so only where it
 * is shown. */
static void name_caller(struct chat *c)
{
    if (c->config->log_level >= LOG_LEVEL_INFO)
        ledger_display(c->ledger, &c->policy, &c->demand, SUBJECT_ADDRESS, c->log->subject);
}

static bool find_caller(struct chat *c)
{
    enum code code = caller_of(c->job->x, &c->demand.caller);

    return code == CODE_NONE || refuse(c, code);
}

/* The worst case of `bytes` in `messages` messages, the system prompt added. */
static void worst(const struct chat *c, size_t bytes, unsigned messages, uint64_t overhead,
                  struct demand *out)
{
    const char *prompt = c->model->system_prompt;
    const struct price_request r = {
        .bytes = bytes + (prompt != NULL ? strlen(prompt) : 0),
        .messages = messages + (prompt != NULL),
        .extra_overhead = overhead,
    };

    price_worst(&c->model->price, &r, &out->weights, &out->tokens_in, &out->tokens_out);
}

static bool choose_model(struct chat *c)
{
    c->model = config_model(c->config, c->request.model[0] != '\0' ? c->request.model : NULL);
    c->log->model = c->model->alias;
    c->job->reply->model = c->model->alias;
    snprintf(c->demand.model, sizeof(c->demand.model), "%s", c->model->alias);
    c->demand.hold_ms = c->model->total_timeout_ms + HOLD_EXTRA_MS;
    return true;
}

static enum error ask_ledger(struct chat *c)
{
    return ledger_check(c->ledger, &c->policy, &c->demand, &c->answer);
}

/*
 * Whoever is over a limit already hears so before the body is parsed: a flood of refusals must
 * cost as little as it can. Sees to it that the store can be read at all, too.
 */
static bool has_room(struct chat *c)
{
    c->demand.weights = (struct amounts){.of[UNIT_CALLS] = 1};
    enum error e = ask_ledger(c);
    if (e == ERROR_NONE)
        name_caller(c);
    return decided(c, e);
}

static bool weight_matters(const struct chat *c)
{
    for (unsigned i = 0; i < c->policy.n_limits; i++)
        if (c->policy.limits[i].unit == UNIT_TOKENS || c->policy.limits[i].unit == UNIT_COST)
            return true;
    return false;
}

/* Where only calls are limited, has_room has asked all there is to ask. */
static bool check_limits(struct chat *c)
{
    struct ledger_model known = {0};
    enum error e = ledger_model(c->ledger, c->model->alias, &known);

    c->overhead = known.overhead;
    worst(c, c->request.bytes, c->request.n_messages, c->overhead, &c->demand);
    if (e == ERROR_NONE && weight_matters(c))
        e = ask_ledger(c);
    return decided(c, e);
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

/* A process that serves one request takes its place site-wide, by policy.site_streams. */
static bool take_place(struct chat *c)
{
    unsigned streams = c->job->x->single ? 1 : c->config->streams;

    c->placed = place_take(c->job->places, streams, &c->place);
    return c->placed || refuse(c, CODE_BUSY);
}

/* Nobody is charged who has left in the meantime. */
static bool admit(struct chat *c)
{
    struct exchange *x = c->job->x;

    if (!x->ops->admitted(x, c->model->total_timeout_ms + ANSWER_EXTRA_MS))
        return refuse(c, CODE_TIMEOUT_REQUEST);
    c->log->gone = exchange_gone(x->watch_fd, x->watch_readable);
    return !c->log->gone;
}

static bool reserve(struct chat *c)
{
    return decided(
        c, ledger_reserve(c->ledger, &c->policy, &c->demand, &c->answer, &c->reservation));
}

/* ---- after the reservation ---- */

/* False if the report is not to be believed. */
static bool settle_usage(struct chat *c, const struct usage *u, struct settlement *s)
{
    const struct reservation *r = &c->reservation;
    struct demand smallest;

    if (!usage_believable(u, r->tokens_in, r->tokens_out))
        return false;
    price_real(&c->model->price, u, &s->real);
    s->tokens_in = u->input;
    s->tokens_out = u->output;
    if (u->input >
        r->tokens_in) /* above the bound: by how much without what was learnt before */
        s->input_over = u->input - (r->tokens_in - c->overhead);
    worst(c, 1, 1, 0, &smallest);
    s->overhead_max = smallest.tokens_in * OVERHEAD_MAX;
    return true;
}

static void settle(void *arg, const struct relay_end *end)
{
    struct chat *c = arg;
    struct settlement s = {.kind = end->kind};
    enum error e;

    if (s.kind == SETTLE_USAGE && !settle_usage(c, &end->usage, &s))
        s.kind = SETTLE_UNKNOWN;
    s.upstream_error = end->code >= CODE_UPSTREAM_REFUSED;
    e = ledger_settle(c->ledger, &c->reservation, &s, c->job->x->single);
    if (e != ERROR_NONE) /* stays charged as reserved */
        site_fault(c->job->site, c->job->use, e);
    if (s.kind == SETTLE_NOTHING)
        return;
    c->log->usage = s.kind == SETTLE_USAGE ? "reported" : "estimated";
    c->log->tokens_in = s.kind == SETTLE_USAGE ? s.tokens_in : c->reservation.tokens_in;
    c->log->tokens_out = s.kind == SETTLE_USAGE ? s.tokens_out : c->reservation.tokens_out;
}

static void forward(struct chat *c)
{
    const struct reply_rates rates = {&c->policy, &c->answer};
    const struct relay_job job = {
        .upstream = c->job->upstream,
        .places = c->job->places,
        .place = &c->place,
        .config = c->config,
        .model = c->model,
        .request = &c->request,
        .reply = c->job->reply,
        .rates = &rates,
        .settle = settle,
        .arg = c,
    };
    struct relay_end end;

    relay_run(&job, &end, &c->log->first_ms);
    c->log->code = end.code;
    c->log->gone = end.gone;
}

typedef bool step_fn(struct chat *c);

void chat_handle(const struct chat_job *job, struct chat_log *log)
{
    static step_fn *const steps[] = {check_type, read_body,    find_caller,  has_room,
                                     parse,      choose_model, check_limits, load_upstream,
                                     take_place, admit,        reserve};
    struct chat c = {
        .job = job,
        .log = log,
        .config = job->use->config,
        .ledger = job->use->ledger,
        .policy = config_policy(job->use->config, job->x->single),
    };
    bool go = true;

    *log = (struct chat_log){.model = "-", .subject = "-", .usage = "none", .first_ms = -1};
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && go; i++)
        go = steps[i](&c);
    if (go)
        forward(&c);
    if (c.placed)
        place_leave(job->places, &c.place);
    request_free(&c.request);
    free(c.body);
}
