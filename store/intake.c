/* Rows of another store. Security stance: whatever the source is, a row that this program cannot
 * have written is not taken. */
#include "store/intake.h"

#include <string.h>

#include "store/upgrade.h"

/* Its day has been read before it: tables come in the order of their numbers. */
static enum error keep_charged(struct intake *in, const struct kv_slice *value)
{
    struct history_day day;
    struct kv_slice there;
    struct row_key key;
    struct record r;
    struct hold h;
    enum error e;

    if (!record_hold_read(value, &h))
        return ERROR_SYNTAX;
    memset(&day, 0, sizeof day);
    key_history(h.day, &key);
    e = kv_get(in->txn, key.bytes, key.n, &there);
    if (e == ERROR_NONE && !record_history_read(&there, &day))
        e = ERROR_STORE_INVALID;
    if (e != ERROR_NONE && e != ERROR_NOT_FOUND)
        return e;
    history_unknown(&day, &h);
    in->under_way++;
    record_history(&day, &r);
    return kv_put(in->txn, key.bytes, key.n, r.bytes, r.n);
}

static bool key_is(const struct kv_slice *key, void (*of)(struct row_key *out))
{
    struct row_key k;

    of(&k);
    return key_equal(key, &k);
}

static enum error take_row(struct intake *in, const struct kv_slice *key,
                           const struct kv_slice *value)
{
    if (key_is(key, key_state)) {
        in->has_state = record_state_read(value, &in->state);
        return in->has_state ? ERROR_NONE : ERROR_SYNTAX;
    }
    if (((const uint8_t *)key->data)[0] == TABLE_RESERVATION)
        return keep_charged(in, value);
    if (key_is(key, key_schema)) {
        enum error e = ledger_schema(value, in->secret, &in->schema);

        if (e != ERROR_NONE)
            return e == ERROR_STORE_INVALID ? ERROR_SYNTAX : e;
        in->has_schema = true;
    }
    return kv_put(in->txn, key->data, key->n, value->data, value->n);
}

static int compare(const struct row_key *a, const struct row_key *b)
{
    int c = memcmp(a->bytes, b->bytes, a->n < b->n ? a->n : b->n);

    return c != 0 ? c : (int)a->n - (int)b->n;
}

/* Of an older program they are taken to our version, which may put them into another order. */
enum error intake_row(struct intake *in, struct row_key *key, struct record *value)
{
    enum error e;

    if (compare(key, &in->last) <= 0)
        return ERROR_SYNTAX;
    in->last = *key;
    in->rows++;
    e = upgrade_row(key, value);
    if (e != ERROR_NONE)
        return e == ERROR_STORE_INVALID ? ERROR_SYNTAX : e;
    if (!record_row_ok(key->bytes, key->n, value->bytes, value->n))
        return ERROR_SYNTAX;
    const struct kv_slice k = {key->bytes, key->n}, v = {value->bytes, value->n};
    return take_row(in, &k, &v);
}

enum error intake_state(struct intake *in)
{
    struct row_key key;
    struct record r;

    key_state(&key);
    record_state(&in->state, &r);
    return kv_put(in->txn, key.bytes, key.n, r.bytes, r.n);
}
