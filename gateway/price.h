/*
 * Prices (pure). Money is nano-dollars in uint64_t; a price is nano-dollars per million tokens
 * ("$0.15" per million is 150,000,000). The worst case of a request is a true upper bound: a
 * token is at least one byte of UTF-8, so bytes x input-factor + overheads bound the input, and
 * the cap bounds the output. Rounded up once per call. A price is multiplied as its quotient
 * and remainder by a million, so that within the bounds below every product and sum stays under
 * 2^63, also for 16 times the tokens; what is beyond them saturates at AMOUNT_MAX.
 */
#ifndef GATEWAY_PRICE_H
#define GATEWAY_PRICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/rule.h"

#define PRICE_MAX_NANO   1000000000000ULL /* $1000 per million: above it a unit was mistaken */
#define PRICE_TOKENS_MAX 4194304ULL       /* tokens of a kind in one request, at most */
#define PRICE_BELIEVED   16               /* times what was reserved: most that is believed */
#define PRICE_COUNTED    (PRICE_BELIEVED * PRICE_TOKENS_MAX) /* above it no sum is made */

struct price {
    bool known; /* price-input and price-output are given (they may be 0: free) */
    uint64_t input_nano, cached_input_nano, cache_write_nano, output_nano; /* per million */
    uint64_t per_call_nano;
    uint32_t max_output_tokens, thinking_tokens;
    uint32_t overhead_per_call, overhead_per_message; /* input tokens */
    uint32_t input_factor_milli; /* tokens per 1000 bytes; 1000 = one each */
};

/* What a request holds, for its bound. */
struct price_request {
    size_t bytes;            /* UTF-8 bytes of all text sent on, system prompt included */
    unsigned messages;       /* sent on, system prompt included */
    uint64_t extra_overhead; /* ledger_model */
};

/* What a provider reported. Each within [0, 16 x reserved] or it is not believable. */
struct usage {
    bool known;
    uint64_t input, cached_input, cache_write, output; /* cached and write are parts of input */
    bool doubtful; /* the last report was a provisional one, or one that nobody can believe */
    bool lacks_input; /* no report has said yet what the input was */
};

/* Worst case: calls 1, tokens, cost; and the two parts of tokens. */
void price_worst(const struct price *p, const struct price_request *r, struct amounts *out,
                 uint64_t *tokens_in, uint64_t *tokens_out);

/* Real: calls 1, tokens, cost. u->known and believable. */
void price_real(const struct price *p, const struct usage *u, struct amounts *out);

/* Whether it speaks of a whole answer, so that callers may see it. */
bool usage_whole(const struct usage *u);

/* Invariant 6: whole, parts not above totals, each kind at most 16 x its reserved tokens. */
bool usage_believable(const struct usage *u, uint64_t reserved_in, uint64_t reserved_out);

/*
 * Merges a further report of the same call: running totals, so field-wise maximum; a report
 * of zeros after a real one changes nothing. A provisional report counts only together with
 * one after it that is not.
 */
void usage_merge(struct usage *total, const struct usage *more);

/* "$1.50", "1.50", "0": dollars with at most 9 decimals to nano-dollars. No sign, no
 * exponent. */
bool price_parse(const char *text, uint64_t max, uint64_t *nano);
/* "$1.50": at least two decimals, as many as needed. Returns out. */
#define PRICE_TEXT_MAX 32
char *price_format(uint64_t nano, char out[PRICE_TEXT_MAX]);

#endif
