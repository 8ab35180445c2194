/*
 * What is known of a model: the extra overhead that was learnt of it, and its breaker.
 */
#include <string.h>

#include "store/ledger_parts.h"
#include "store/rows.h"

struct question {
    const char *model;
    struct ledger_model out;
};

static enum error look(void *arg, const struct view_context *c)
{
    struct question *q = arg;
    struct row_key key;
    struct kv_slice value;
    struct overhead row;

    memset(&q->out, 0, sizeof q->out);
    key_overhead(q->model, &key);
    enum error e = kv_get(c->txn, key.bytes, key.n, &value);
    if (e != ERROR_NONE && e != ERROR_NOT_FOUND)
        return e;
    if (e == ERROR_NONE && !record_overhead_read(&value, &row))
        return ERROR_STORE_INVALID;
    if (e == ERROR_NONE)
        q->out.overhead = row.tokens;
    return breaker_wait(c, q->model, &q->out.breaker_wait_ms, &q->out.failures);
}

enum error ledger_model(struct ledger *l, const char *model, struct ledger_model *out)
{
    struct question q = {.model = model};
    enum error e = ledger_reading(l, look, &q);

    if (e == ERROR_NONE)
        *out = q.out;
    return e;
}

enum error ledger_forgive_model(struct ledger *l, const struct policy *p, const char *model)
{
    char order[LEDGER_MODEL_MAX] = "";

    memcpy(order, model, strnlen(model, sizeof order - 1));
    return ledger_order(l, p, OP_FORGIVE_MODEL, order, sizeof order);
}
