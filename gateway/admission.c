/* Whether a request may go ahead. Security: what is not decided is refused. */
#include "gateway/admission.h"

#include <stdio.h>
#include <string.h>

#include "platform/clock.h"

/* Told while paused: the owner can always act, but not every second. */
#define PAUSED_MS        60000
#define SECONDS_OF_DAY   86400
#define ADMISSION_NO_KEY "This key is not, or no longer, one of this site's."

static bool refuse(struct reply_error *no, enum code code)
{
    *no = (struct reply_error){.code = code};
    return false;
}

/* The owner's own calls: no limit but theirs, and nobody's subjects. */
static void bypass(struct admission *a)
{
    a->policy.limits = &a->config->bypass;
    a->policy.n_limits = 1;
}

bool admission_begin(struct admission *a, const struct exchange *x, struct site *site,
                     const struct site_use *use, int64_t now_s, struct reply_error *no)
{
    enum code code;

    memset(a, 0, sizeof(*a));
    a->x = x;
    a->site = site;
    a->use = use;
    a->decision_us = -1;
    a->config = use->config;
    a->ledger = use->ledger;
    a->policy = config_policy(use->config, x->single);
    a->today = now_s / SECONDS_OF_DAY;
    code = caller_of(x, a->config, a->ledger, a->today, &a->asker);
    if (code != CODE_NONE) {
        refuse(no, code);
        no->bearer = a->config->require != REQUIRE_ACCOUNT;
        return false;
    }
    a->demand.caller = a->asker.caller;
    if (a->demand.caller.bypass)
        bypass(a);
    return true;
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

bool admission_decided(struct admission *a, enum error e, struct reply_error *no)
{
    const struct answer *answer = &a->answer;

    if (e != ERROR_NONE)
        return refuse(no, site_fault(a->site, a->use, e));
    switch (answer->decision) {
    case DECISION_ADMITTED:
        return true;
    case DECISION_REFUSED:
        *no = (struct reply_error){
            .code = code_of_refusal(answer->verdict.refusal),
            .wait_ms = answer->wait_ms,
            .minute = !is_exact(answer),
        };
        return false;
    case DECISION_TOO_LONG:
        return refuse(no, CODE_TOO_LONG);
    case DECISION_PAUSED:
        *no = (struct reply_error){.code = CODE_PAUSED, .wait_ms = PAUSED_MS};
        return false;
    case DECISION_NO_KEY:
        *no = (struct reply_error){
            .code = CODE_UNAUTHORIZED, .bearer = true, .detail = ADMISSION_NO_KEY};
        return false;
    case DECISION_BREAKER:
        *no = (struct reply_error){.code = CODE_UPSTREAM_PAUSED, .wait_ms = answer->wait_ms};
        return false;
    case DECISION_BUSY:
        break;
    }
    return refuse(no, CODE_BUSY);
}

/* The ledger has been asked, since `start_us`. */
static void add_time(struct admission *a, int64_t start_us)
{
    int64_t before_us = a->decision_us > 0 ? a->decision_us : 0;

    a->decision_us = before_us + clock_monotonic_us() - start_us;
}

static enum error ask_ledger(struct admission *a)
{
    int64_t start_us = clock_monotonic_us();
    enum error e = ledger_check(a->ledger, &a->policy, &a->demand, &a->answer);

    add_time(a, start_us);
    return e;
}

enum error admission_reserve(struct admission *a, struct reservation *r)
{
    int64_t start_us = clock_monotonic_us();
    enum error e = ledger_reserve(a->ledger, &a->policy, &a->demand, &a->answer, r);

    add_time(a, start_us);
    return e;
}

bool admission_room(struct admission *a, struct reply_error *no)
{
    a->demand.weights = (struct amounts){.of[UNIT_CALLS] = 1};
    return admission_decided(a, ask_ledger(a), no);
}

bool admission_known(struct admission *a, struct reply_error *no)
{
    enum error e;

    if (!a->demand.caller.has_key)
        return true;
    a->demand.weights = (struct amounts){.of[UNIT_CALLS] = 1};
    e = ask_ledger(a);
    return (e == ERROR_NONE && a->answer.decision != DECISION_NO_KEY) ||
           admission_decided(a, e, no);
}

static void choose(struct admission *a, const struct config_model *m)
{
    a->model = m;
    a->demand.unpriced = !m->price.known;
    snprintf(a->demand.model, sizeof(a->demand.model), "%s", m->alias);
}

void admission_choose(struct admission *a, const char *alias)
{
    choose(a, config_model(a->config, alias));
}

void admission_worst(const struct admission *a, size_t bytes, unsigned messages,
                     uint64_t overhead, struct demand *out)
{
    const char *prompt = a->model->system_prompt;
    const struct price_request r = {
        .bytes = bytes + (prompt != NULL ? strlen(prompt) : 0),
        .messages = messages + (prompt != NULL),
        .extra_overhead = overhead,
    };

    price_worst(&a->model->price, &r, &out->weights, &out->tokens_in, &out->tokens_out);
}

/* A key may have limits of its own that only the store knows. */
static bool weight_matters(const struct admission *a)
{
    for (unsigned i = 0; i < a->policy.n_limits; i++)
        if (a->policy.limits[i].unit == UNIT_TOKENS || a->policy.limits[i].unit == UNIT_COST)
            return true;
    return a->demand.caller.has_key;
}

/* The demand at the chosen model; how its breaker stands. */
static enum error weigh(struct admission *a, const struct admission_size *size,
                        int64_t *breaker_ms)
{
    struct ledger_model known = {0};
    enum error e = ledger_model(a->ledger, a->model->alias, &known);

    a->overhead = known.overhead;
    *breaker_ms = known.breaker_wait_ms;
    admission_worst(a, size->bytes, size->messages, a->overhead, &a->demand);
    return e;
}

/* Where only calls are limited, admission_room has asked all there is to ask. */
static bool fits(struct admission *a, const struct admission_size *size, struct reply_error *no)
{
    int64_t breaker_ms;
    enum error e = weigh(a, size, &breaker_ms);

    if (e == ERROR_NONE && breaker_ms > 0) {
        *no = (struct reply_error){.code = CODE_UPSTREAM_PAUSED, .wait_ms = breaker_ms};
        return false;
    }
    if (e == ERROR_NONE && weight_matters(a))
        e = ask_ledger(a);
    return admission_decided(a, e, no);
}

bool admission_fall_back(struct admission *a, const struct admission_size *size)
{
    const struct config_model *first = a->model, *other = config_fallback(a->config, first);
    const struct answer before = a->answer;
    struct reply_error no;

    if (other == NULL)
        return false;
    choose(a, other);
    if (fits(a, size, &no))
        return true;
    choose(a, first); /* nothing more is asked of it */
    a->answer = before;
    return false;
}

bool admission_weigh(struct admission *a, const struct admission_size *size,
                     struct reply_error *no)
{
    struct reply_error first;

    if (fits(a, size, &first) ||
        (first.code == CODE_UPSTREAM_PAUSED && admission_fall_back(a, size)))
        return true;
    *no = first;
    return false;
}

enum error admission_replace(struct admission *a, const struct admission_size *size,
                             const struct settlement *first, struct reservation *r)
{
    const struct config_model *model = a->model;
    const uint64_t overhead = a->overhead;
    struct answer answer = {.decision = DECISION_BREAKER};
    int64_t breaker_ms;
    int64_t start_us = clock_monotonic_us();
    enum error e;

    choose(a, config_fallback(a->config, model));
    e = weigh(a, size, &breaker_ms);
    if (e == ERROR_NONE)
        e = ledger_replace(a->ledger, &a->policy, &a->demand, first, &answer, r);
    add_time(a, start_us);
    if (e == ERROR_NONE && answer.decision == DECISION_ADMITTED) {
        a->answer = answer;
        return e;
    }
    choose(a, model);
    a->overhead = overhead;
    return e != ERROR_NONE ? e : ERROR_BUSY;
}

void admission_cookie(const struct admission *a, char out[CALLER_COOKIE_MAX])
{
    out[0] = '\0';
    if (a->asker.cookie_due)
        caller_cookie(a->x, a->config, a->ledger, a->today, &a->asker, out);
}

unsigned admission_streams(const struct admission *a)
{
    return a->x->single ? 1 : a->config->streams;
}
