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
    if (e == ERROR_NOT_FOUND)
        return ERROR_NONE;
    if (e != ERROR_NONE)
        return e;
    if (!record_overhead_read(&value, &row))
        return ERROR_STORE_INVALID;
    q->out.overhead = row.tokens;
    return ERROR_NONE;
}

enum error ledger_model(struct ledger *l, const char *model, struct ledger_model *out)
{
    struct question q = {.model = model};
    enum error e = ledger_reading(l, look, &q);

    if (e == ERROR_NONE)
        *out = q.out;
    return e;
}
