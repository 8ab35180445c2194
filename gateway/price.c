/*
 * Prices: the worst and the real case of a request in tokens and nano-dollars, and dollars as
 * text. Security: the worst case must never be too small, so everything rounds up and
 * saturates; nothing wraps, whatever a provider reports or a client sends.
 */
#include "gateway/price.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MILLION  UINT64_C(1000000)
#define DOLLAR   UINT64_C(1000000000) /* in nano-dollars */
#define DECIMALS 9                    /* of a dollar: the nano-dollar */

/* Nano-dollars, and the millionths of one that are rounded up once, at the end. */
struct cost {
    uint64_t nano, millionths;
};

static uint64_t times(uint64_t a, uint64_t b)
{
    return b != 0 && a > AMOUNT_MAX / b ? AMOUNT_MAX : a * b;
}

static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void cost_add(struct cost *c, uint64_t tokens, uint64_t per_million)
{
    if (tokens > PRICE_COUNTED && per_million > 0) {
        c->nano = AMOUNT_MAX; /* the millionths would saturate too low */
        return;
    }
    c->nano = amount_add(c->nano, times(tokens, per_million / MILLION));
    c->millionths += tokens * (per_million % MILLION);
}

static uint64_t cost_sum(const struct cost *c, uint64_t per_call)
{
    return amount_add(amount_add(c->nano, divide_up(c->millionths, MILLION)), per_call);
}

static uint64_t worst_input(const struct price *p, const struct price_request *r)
{
    uint64_t tokens =
        amount_add(times(r->bytes / 1000, p->input_factor_milli),
                   divide_up(times(r->bytes % 1000, p->input_factor_milli), 1000));
    tokens = amount_add(tokens, p->overhead_per_call);
    tokens = amount_add(tokens, times(r->messages, p->overhead_per_message));
    return amount_add(tokens, r->extra_overhead);
}

void price_worst(const struct price *p, const struct price_request *r, struct amounts *out,
                 uint64_t *tokens_in, uint64_t *tokens_out)
{
    uint64_t in = worst_input(p, r);
    uint64_t generated = (uint64_t)p->max_output_tokens + p->thinking_tokens;
    uint64_t dearest = larger(p->input_nano, larger(p->cached_input_nano, p->cache_write_nano));
    struct cost c = {0, 0};
    cost_add(&c, in, dearest);
    cost_add(&c, generated, p->output_nano);
    out->of[UNIT_CALLS] = 1;
    out->of[UNIT_TOKENS] = amount_add(in, generated);
    out->of[UNIT_COST] = cost_sum(&c, p->per_call_nano);
    *tokens_in = in;
    *tokens_out = generated;
}

void price_real(const struct price *p, const struct usage *u, struct amounts *out)
{
    uint64_t parts = amount_add(u->cached_input, u->cache_write);
    struct cost c = {0, 0};
    cost_add(&c, amount_subtract(u->input, parts), p->input_nano);
    cost_add(&c, u->cached_input, p->cached_input_nano);
    cost_add(&c, u->cache_write, p->cache_write_nano);
    cost_add(&c, u->output, p->output_nano);
    out->of[UNIT_CALLS] = 1;
    out->of[UNIT_TOKENS] = amount_add(u->input, u->output);
    out->of[UNIT_COST] = cost_sum(&c, p->per_call_nano);
}

bool usage_whole(const struct usage *u)
{
    return u->known && !u->doubtful && !u->lacks_input;
}

bool usage_believable(const struct usage *u, uint64_t reserved_in, uint64_t reserved_out)
{
    if (!usage_whole(u) || u->cached_input > u->input ||
        u->cache_write > u->input - u->cached_input)
        return false;
    /* No prompt has no tokens: who fills in a 0 has not counted. */
    return u->input > 0 && divide_up(u->input, PRICE_BELIEVED) <= reserved_in &&
           divide_up(u->output, PRICE_BELIEVED) <= reserved_out;
}

void usage_merge(struct usage *total, const struct usage *more)
{
    total->doubtful = more->doubtful || (total->doubtful && !more->known);
    if (!more->known)
        return;
    total->lacks_input = more->lacks_input && (total->lacks_input || !total->known);
    total->known = true;
    total->input = larger(total->input, more->input);
    total->cached_input = larger(total->cached_input, more->cached_input);
    total->cache_write = larger(total->cache_write, more->cache_write);
    total->output = larger(total->output, more->output);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Adds digits to *value until something else comes; false once it is above `max`. */
static bool add_digits(const char **text, uint64_t max, uint64_t *value)
{
    for (; is_digit(**text); (*text)++) {
        uint64_t digit = (uint64_t)(**text - '0');
        if (*value > (max - digit) / 10)
            return false;
        *value = *value * 10 + digit;
    }
    return true;
}

bool price_parse(const char *text, uint64_t max, uint64_t *nano)
{
    const char *at = text[0] == '$' ? text + 1 : text;
    uint64_t dollars = 0, part = 0;
    if (!is_digit(at[0]) || (at[0] == '0' && is_digit(at[1]))) /* 010 may be meant octal */
        return false;
    if (!add_digits(&at, UINT64_MAX / DOLLAR - 1, &dollars))
        return false;
    if (*at == '.') {
        const char *first = ++at;
        if (strspn(first, "0123456789") > DECIMALS || !add_digits(&at, DOLLAR, &part) ||
            at == first)
            return false;
        for (size_t n = (size_t)(at - first); n < DECIMALS; n++)
            part *= 10;
    }
    uint64_t value = dollars * DOLLAR + part;
    if (*at != '\0' || value > max)
        return false;
    *nano = value;
    return true;
}

char *price_format(uint64_t nano, char out[PRICE_TEXT_MAX])
{
    int n =
        snprintf(out, PRICE_TEXT_MAX, "$%" PRIu64 ".%09" PRIu64, nano / DOLLAR, nano % DOLLAR);
    for (int kept = DECIMALS; kept > 2 && out[n - 1] == '0'; kept--)
        out[--n] = '\0';
    return out;
}
