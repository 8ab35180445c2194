/*
 * Keys that the owner has issued. Of a token only a keyed hash is in the store, and it is the
 * row's name: who reads the store learns no token, and a look-up compares nothing secret.
 */
#include <string.h>

#include "platform/random.h"
#include "store/batch.h"
#include "store/rows.h"

struct key_order {
    uint8_t hash[KEY_HASH];
    struct ledger_key key;
};

enum error key_find(struct kv_txn *t, const uint8_t hash[KEY_HASH], struct ledger_key *out)
{
    struct row_key row;
    struct kv_slice value;

    key_issued(hash, &row);
    enum error e = kv_get(t, row.bytes, row.n, &value);
    if (e != ERROR_NONE)
        return e;
    return record_issued_read(&value, out) ? ERROR_NONE : ERROR_STORE_INVALID;
}

struct key_walk {
    key_visit *visit;
    void *arg;
};

static enum error visit_key(void *arg, struct kv_cursor *c, const struct kv_slice *key,
                            const struct kv_slice *value)
{
    struct key_walk *w = arg;
    struct ledger_key k;

    if (!key_is_issued(key))
        return ERROR_NOT_FOUND;
    if (!record_issued_read(value, &k))
        return ERROR_STORE_INVALID;
    memcpy(k.hash, (const uint8_t *)key->data + key->n - KEY_HASH, KEY_HASH);
    return w->visit(w->arg, c, &k);
}

enum error keys_each(struct kv_txn *t, key_visit *visit, void *arg)
{
    struct key_walk w = {visit, arg};
    struct row_key from;

    key_issued_all(&from);
    return rows_each(t, &from, visit_key, &w);
}

/* Issuing */

#define WINDOWS_SEEN (PERIOD_WINDOWS + 1) /* one more than may be */

/* What the keys that are there leave for another one. */
struct census {
    const struct ledger_key *fresh;
    unsigned n;
    bool taken; /* the name */
    unsigned n_windows;
    struct window window[WINDOWS_SEEN];
};

static void count_windows(struct census *c, const struct limit *limits, unsigned n)
{
    c->n_windows = rule_windows(limits, n, c->window, c->n_windows, WINDOWS_SEEN);
}

static enum error count_key(void *arg, struct kv_cursor *cursor, const struct ledger_key *k)
{
    struct census *c = arg;

    (void)cursor;
    c->n++;
    c->taken = c->taken || strcmp(k->name, c->fresh->name) == 0;
    count_windows(c, k->limits, k->n_limits);
    return ERROR_NONE;
}

/* A window too many would only be found out when the key is used, and then as a failure. */
static enum error take_census(struct batch *b, struct op *op, const struct ledger_key *fresh)
{
    struct census c = {.fresh = fresh,
                       .n_windows = 1, /* always there: the log names callers by it */
                       .window = {{WINDOW_DAY, 0}}};

    count_windows(&c, op->policy.limits, op->policy.n_limits);
    count_windows(&c, fresh->limits, fresh->n_limits);
    enum error e = keys_each(b->txn, count_key, &c);
    if (c.taken)
        op->error = ERROR_EXISTS;
    else if (c.n >= KEYS_MAX)
        op->error = ERROR_TOO_LARGE;
    else if (c.n_windows > PERIOD_WINDOWS)
        op->error = ERROR_TOO_MANY_WINDOWS;
    return e;
}

enum error batch_key_add(struct batch *b, struct op *op)
{
    struct key_order *o = op->order;
    struct row_key row;
    struct record value;
    enum error e = take_census(b, op, &o->key);

    if (e != ERROR_NONE || op->error != ERROR_NONE ||
        (op->error = random_bytes(o->key.id, sizeof o->key.id)) != ERROR_NONE)
        return e;
    o->key.created_s = b->now.wall_ms / 1000;
    key_issued(o->hash, &row);
    record_issued(&o->key, &value);
    return batch_put(b, &row, &value);
}

enum error ledger_key_add(struct ledger *l, const struct policy *p,
                          const uint8_t hash[KEY_HASH], const struct ledger_key *k)
{
    struct key_order o = {.key = *k};

    if (!key_name_ok(k->name) || k->n_limits > KEY_LIMITS_MAX)
        return ERROR_SYNTAX;
    memcpy(o.hash, hash, KEY_HASH);
    return ledger_order(l, p, OP_KEY_ADD, &o, sizeof o);
}

/* Revoking */

struct search {
    const char *name;
    bool found;
};

static enum error remove_named(void *arg, struct kv_cursor *c, const struct ledger_key *k)
{
    struct search *s = arg;

    if (strcmp(k->name, s->name) != 0)
        return ERROR_NONE;
    s->found = true;
    enum error e = kv_cursor_delete(c);
    return e == ERROR_NONE ? ERROR_NOT_FOUND : e; /* there is only one */
}

enum error batch_key_revoke(struct batch *b, struct op *op)
{
    struct search s = {op->order, false};
    enum error e = keys_each(b->txn, remove_named, &s);

    b->changed = b->changed || s.found;
    op->error = s.found ? ERROR_NONE : ERROR_NOT_FOUND;
    return e;
}

enum error ledger_key_revoke(struct ledger *l, const struct policy *p, const char *name)
{
    char order[LIMIT_NAME_MAX] = "";

    if (!key_name_ok(name))
        return ERROR_NOT_FOUND;
    memcpy(order, name, strlen(name));
    return ledger_order(l, p, OP_KEY_REVOKE, order, sizeof order);
}

/* Listing */

struct listing {
    void (*visit)(void *arg, const struct ledger_key *k);
    void *arg;
};

static enum error show_key(void *arg, struct kv_cursor *c, const struct ledger_key *k)
{
    struct listing *w = arg;

    (void)c;
    w->visit(w->arg, k);
    return ERROR_NONE;
}

static enum error list(void *arg, const struct view_context *c)
{
    return keys_each(c->txn, show_key, arg);
}

enum error ledger_keys(struct ledger *l, void (*visit)(void *arg, const struct ledger_key *k),
                       void *arg)
{
    struct listing w = {visit, arg};

    return ledger_reading(l, list, &w);
}
