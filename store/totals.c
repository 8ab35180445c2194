/*
 * What all days come to. Days that are erased go into a row of their own in the same
 * transaction, so that the sum is the same before and after it, in every process.
 */
#include <string.h>

#include "store/batch.h"
#include "store/rows.h"

/* Sums saturate far above what a site can come to, and never wrap. */
static void add_day(struct history_day *sum, const struct history_day *d)
{
    uint64_t *const to[] = {&sum->admitted, &sum->settled,   &sum->unknown,    &sum->given_back,
                            &sum->bypassed, &sum->tokens_in, &sum->tokens_out, &sum->cost_nano};
    const uint64_t more[] = {d->admitted, d->settled,   d->unknown,    d->given_back,
                             d->bypassed, d->tokens_in, d->tokens_out, d->cost_nano};

    for (unsigned i = 0; i < sizeof more / sizeof *more; i++)
        *to[i] = amount_add(*to[i], more[i]);
    for (unsigned i = 0; i < FIGURES; i++)
        sum->figures[i] = amount_add(sum->figures[i], d->figures[i]);
}

static enum error read_erased(struct kv_txn *t, struct history_day *out)
{
    struct row_key key;
    struct kv_slice value;

    memset(out, 0, sizeof *out);
    key_erased(&key);
    enum error e = kv_get(t, key.bytes, key.n, &value);
    if (e != ERROR_NONE)
        return e == ERROR_NOT_FOUND ? ERROR_NONE : e;
    return record_history_read(&value, out) ? ERROR_NONE : ERROR_STORE_INVALID;
}

enum error totals_erased(struct batch *b, const struct kv_slice *day)
{
    struct history_day d = {0}, sum;
    struct row_key key;
    struct record r;
    enum error e = read_erased(b->txn, &sum);

    if (e != ERROR_NONE)
        return e;
    if (!record_history_read(day, &d))
        return ERROR_STORE_INVALID;
    add_day(&sum, &d);
    key_erased(&key);
    record_history(&sum, &r);
    return batch_put(b, &key, &r);
}

static enum error visit_day(void *arg, struct kv_cursor *c, const struct kv_slice *key,
                            const struct kv_slice *value)
{
    struct history_day d = {0};

    (void)c;
    if (!key_history_day(key, &d.day))
        return ERROR_NOT_FOUND;
    if (!record_history_read(value, &d))
        return ERROR_STORE_INVALID;
    add_day(arg, &d);
    return ERROR_NONE;
}

static enum error totals(void *arg, const struct view_context *c)
{
    struct history_day board = {0};
    uint32_t more[FIGURES];
    struct row_key from;
    enum error e = read_erased(c->txn, arg);

    if (e != ERROR_NONE)
        return e;
    ledger_unfolded(c, more);
    for (unsigned i = 0; i < FIGURES; i++)
        board.figures[i] = more[i];
    add_day(arg, &board);
    key_table(TABLE_HISTORY, &from);
    return rows_each(c->txn, &from, visit_day, arg);
}

enum error ledger_totals(struct ledger *l, struct history_day *out)
{
    struct history_day sum;
    enum error e = ledger_reading(l, totals, &sum);

    if (e == ERROR_NONE)
        *out = sum;
    return e;
}
