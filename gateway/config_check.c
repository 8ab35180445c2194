/*
 * What a configuration must be beyond its syntax before it may spend money, and what it can
 * spend at most. Pure but for looking whether certificates are there.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/config.h"
#include "gateway/config_value.h"

#define LINE_MAX_BYTES 256
#define DAY_SECONDS    86400U

/* Below $0.001 per million somebody has written the price of one token. The cheapest known
 * model costs ten times that. */
#define PRICE_MIN_NANO 1000000U

struct faults {
    void (*tell)(void *arg, const char *line);
    void *arg;
    unsigned n;
};

static void fault(struct faults *f, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void fault(struct faults *f, const char *format, ...)
{
    char line[LINE_MAX_BYTES];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    f->n++;
    f->tell(f->arg, line);
}

/* ---- sizes of requests ---- */

static void worst(const struct config_model *m, uint64_t bytes, unsigned messages,
                  struct amounts *out)
{
    size_t prompt = m->system_prompt != NULL ? strlen(m->system_prompt) : 0;
    struct price_request r = {.bytes = (size_t)bytes + prompt,
                              .messages = messages + (prompt > 0)};
    uint64_t in, generated;

    price_worst(&m->price, &r, out, &in, &generated);
}

/* A code point has at most four bytes, and JSON never makes text shorter than it is. */
static uint64_t largest_bytes(const struct config *c)
{
    uint64_t bytes = (uint64_t)c->max_input_chars * 4;

    return bytes < c->max_body_bytes ? bytes : c->max_body_bytes;
}

void config_smallest(const struct config_model *m, struct amounts *out)
{
    worst(m, 1, 1, out);
}

void config_largest(const struct config *c, const struct config_model *m, struct amounts *out)
{
    worst(m, largest_bytes(c), c->max_history, out);
}

/* ---- the most that a day can cost ---- */

static uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t v;

    return __builtin_mul_overflow(a, b, &v) || v > AMOUNT_MAX ? AMOUNT_MAX : v;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t dearest_token_nano(const struct price *p)
{
    return larger(larger(p->input_nano, p->output_nano),
                  larger(p->cached_input_nano, p->cache_write_nano));
}

/* What `tokens` can cost at one model: at its dearest price, in as many calls as they allow. */
static uint64_t tokens_nano(const struct config_model *m, uint64_t tokens)
{
    struct amounts least;
    uint64_t calls;

    config_smallest(m, &least);
    calls = tokens / larger(least.of[UNIT_TOKENS], 1);
    return amount_add(times(tokens / 1000000 + 1, dearest_token_nano(&m->price)),
                      times(calls, m->price.per_call_nano + 1));
}

/* What one window of a limit can cost. */
static uint64_t window_nano(const struct config *c, const struct limit *l)
{
    uint64_t most = 0;

    if (l->unit == UNIT_COST)
        return l->max;
    for (unsigned i = 0; i < c->n_models; i++) {
        struct amounts largest;

        config_largest(c, &c->models[i], &largest);
        most = larger(most, l->unit == UNIT_CALLS ? times(l->max, largest.of[UNIT_COST])
                                                  : tokens_nano(&c->models[i], l->max));
    }
    return most;
}

static bool enforces(const struct limit *l)
{
    return l->subject == SUBJECT_EVERYONE && l->unit != UNIT_CONCURRENT &&
           l->max != LIMIT_UNLIMITED;
}

uint64_t config_day_nano(const struct config *c)
{
    uint64_t least = UINT64_MAX;

    for (unsigned i = 0; i < c->n_models; i++) {
        if (!c->models[i].price.known)
            return UINT64_MAX;
    }
    for (unsigned i = 0; i < c->n_limits; i++) {
        const struct limit *l = &c->limits[i];
        uint64_t seconds, nano;

        if (!enforces(l))
            continue;
        seconds = window_seconds(l->window);
        nano = times(window_nano(c, l), (DAY_SECONDS + seconds - 1) / seconds);
        if (nano < AMOUNT_MAX && nano < least)
            least = nano;
    }
    return least;
}

/* ---- faults ---- */

static void check_ceiling(const struct config *c, struct faults *f)
{
    if (c->site_ceiling_none)
        return;
    for (unsigned i = 0; i < c->n_limits; i++) {
        const struct limit *l = &c->limits[i];

        if (enforces(l) && window_seconds(l->window) >= DAY_SECONDS)
            return;
    }
    fault(f, "no limit for everyone over a day or more: write one, or site-ceiling = none");
}

static bool has_cost_limit(const struct config *c)
{
    for (unsigned i = 0; i < c->n_limits; i++) {
        if (c->limits[i].unit == UNIT_COST)
            return true;
    }
    return false;
}

static void check_prices(const struct config *c, const struct config_model *m, struct faults *f)
{
    const struct price *p = &m->price;
    const struct {
        const char *key;
        uint64_t nano;
    } prices[] = {{"price-input", p->input_nano},
                  {"price-cached-input", p->cached_input_nano},
                  {"price-cache-write", p->cache_write_nano},
                  {"price-output", p->output_nano}};

    if (!p->known && has_cost_limit(c))
        fault(f,
              "model %s: a limit counts cost, but price-input or price-output is missing "
              "(0 if it is free)",
              m->alias);
    else if (!p->known && (p->input_nano > 0 || p->output_nano > 0))
        fault(f, "model %s: one of price-input and price-output is missing", m->alias);
    for (unsigned i = 0; i < sizeof prices / sizeof prices[0]; i++) {
        char text[PRICE_TEXT_MAX];

        if (prices[i].nano > 0 && prices[i].nano < PRICE_MIN_NANO) {
            fault(f, "model %s: %s is %s per million tokens: was it meant per token?", m->alias,
                  prices[i].key, price_format(prices[i].nano, text));
            break;
        }
    }
}

/* A limit of 0 says that nothing is admitted; for tokens and cost below the smallest request
 * it is a mistake, since every caller would hear that even one letter is too long. */
static void check_fit(const struct config *c, const struct config_model *m, struct faults *f)
{
    struct amounts least;

    config_smallest(m, &least);
    for (unsigned i = 0; i < c->n_limits; i++) {
        const struct limit *l = &c->limits[i];
        char needs[CONFIG_VALUE_MAX], max[CONFIG_VALUE_MAX];

        if ((l->unit != UNIT_TOKENS && l->unit != UNIT_COST) || least.of[l->unit] <= l->max)
            continue;
        fault(f, "limit %s: the smallest request to model %s reserves %s, the max is %s",
              l->name, m->alias, config_value_amount(l->unit, least.of[l->unit], needs),
              config_value_amount(l->unit, l->max, max));
    }
}

static void check_largest(const struct config *c, const struct config_model *m,
                          struct faults *f)
{
    const struct price *p = &m->price;
    size_t prompt = m->system_prompt != NULL ? strlen(m->system_prompt) : 0;
    uint64_t tokens = ((largest_bytes(c) + prompt) * p->input_factor_milli + 999) / 1000 +
                      p->overhead_per_call +
                      (uint64_t)p->overhead_per_message * (c->max_history + 1);

    if (tokens > PRICE_TOKENS_MAX)
        fault(f,
              "model %s: the largest request could have %" PRIu64 " tokens, at most %llu are "
              "allowed for: lower request { max-input-chars }",
              m->alias, tokens, PRICE_TOKENS_MAX);
}

static bool is_readable_file(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, R_OK) == 0;
}

/* What would fail with each call. */
static void check_call(const struct config_model *m, struct faults *f)
{
    static const char appended[] = "/chat/completions";
    size_t n = strlen(m->url), k = sizeof appended - 1;

    if (m->key_loose)
        fault(f, "model %s: others can read key-file %.100s: chmod 640 or 600", m->alias,
              m->key_file);
    if (n >= k && strcmp(m->url + n - k, appended) == 0)
        fault(f, "model %s: url ends in %s, which is appended: leave it out", m->alias,
              appended);
    if (m->ca_file != NULL && !is_readable_file(m->ca_file))
        fault(f, "model %s: ca-file %.100s: no file that can be read", m->alias, m->ca_file);
}

unsigned config_faults(const struct config *c, void (*tell)(void *arg, const char *line),
                       void *arg)
{
    struct faults f = {.tell = tell, .arg = arg};

    if (c->n_models == 0)
        fault(&f, "no model: write a section model NAME { url = ... model = ... }");
    check_ceiling(c, &f);
    for (unsigned i = 0; i < c->n_models; i++) {
        const struct config_model *m = &c->models[i];

        check_prices(c, m, &f);
        check_fit(c, m, &f);
        check_largest(c, m, &f);
        check_call(m, &f);
    }
    return f.n;
}
