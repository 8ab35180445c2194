/*
 * The password of the owner's pages: a keyed hash in a row of its own, so that it holds for all
 * processes at once and goes with the store.
 */
#include <string.h>

#include "store/batch.h"
#include "store/rows.h"

struct password_order {
    bool remove;
    uint8_t hash[KEY_HASH];
};

enum error batch_password(struct batch *b, struct op *op)
{
    const struct password_order *o = op->order;
    struct row_key key;
    struct record r;

    key_password(&key);
    if (o->remove) {
        enum error e = kv_delete(b->txn, key.bytes, key.n);

        b->changed = b->changed || e == ERROR_NONE;
        op->error = e == ERROR_NOT_FOUND ? e : ERROR_NONE;
        return e == ERROR_NOT_FOUND ? ERROR_NONE : e;
    }
    record_password(o->hash, &r);
    return batch_put(b, &key, &r);
}

enum error ledger_set_password(struct ledger *l, const struct policy *p, const uint8_t *hash)
{
    struct password_order o = {.remove = hash == NULL};

    if (hash)
        memcpy(o.hash, hash, KEY_HASH);
    return ledger_order(l, p, OP_PASSWORD, &o, sizeof o);
}

static enum error look(void *arg, const struct view_context *c)
{
    struct row_key key;
    struct kv_slice value;

    key_password(&key);
    enum error e = kv_get(c->txn, key.bytes, key.n, &value);
    if (e != ERROR_NONE)
        return e;
    return record_password_read(&value, arg) ? ERROR_NONE : ERROR_STORE_INVALID;
}

enum error ledger_password(struct ledger *l, uint8_t hash[KEY_HASH])
{
    return ledger_reading(l, look, hash);
}
