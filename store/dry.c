/*
 * What dry runs would have refused: a row per day and limit, written with the admission that
 * they did not stop. What others refuse is not counted here, since refusals write nothing.
 */
#include <string.h>

#include "store/batch.h"
#include "store/rows.h"

static enum error count_one(struct batch *b, int64_t day, const char *limit)
{
    struct row_key key;
    struct kv_slice value;
    struct record r;
    uint64_t n = 0;

    key_dry(day, limit, &key);
    enum error e = kv_get(b->txn, key.bytes, key.n, &value);
    if (e != ERROR_NONE && e != ERROR_NOT_FOUND)
        return e;
    if (e == ERROR_NONE && !record_count_read(&value, &n))
        return ERROR_STORE_INVALID;
    record_count(n + 1, &r);
    return batch_put(b, &key, &r);
}

enum error batch_dry(struct batch *b, const struct view *v, const struct verdict *verdict,
                     int64_t day)
{
    enum error e = ERROR_NONE;

    for (unsigned i = 0; i < v->n_limits && e == ERROR_NONE; i++)
        if (verdict->dry >> i & 1)
            e = count_one(b, day, v->limits[i].name);
    return e;
}

struct dry_walk {
    int64_t first;
    void (*visit)(void *arg, int64_t day, const char *limit, uint64_t n);
    void *arg;
};

static enum error visit_dry(void *arg, struct kv_cursor *c, const struct kv_slice *key,
                            const struct kv_slice *value)
{
    struct dry_walk *w = arg;
    char limit[LIMIT_NAME_MAX];
    int64_t day;
    uint64_t n;

    (void)c;
    if (!key_instant(TABLE_DRY, key, &day))
        return ERROR_NOT_FOUND;
    if (!key_dry_read(key, &day, limit) || !record_count_read(value, &n))
        return ERROR_STORE_INVALID;
    w->visit(w->arg, day, limit, n);
    return ERROR_NONE;
}

static enum error each_dry(void *arg, const struct view_context *c)
{
    struct dry_walk *w = arg;
    struct row_key from;

    key_dry(w->first, "", &from);
    return rows_each(c->txn, &from, visit_dry, w);
}

enum error ledger_dry(struct ledger *l, int64_t first,
                      void (*visit)(void *arg, int64_t day, const char *limit, uint64_t n),
                      void *arg)
{
    struct dry_walk w = {first, visit, arg};

    return ledger_reading(l, each_dry, &w);
}
