/*
 * Taking a store's rows to this program's version. Every row carries its version, and what is
 * not understood ends it all before anything is committed.
 */
#include "store/upgrade.h"

#include <string.h>

#define SCHEMA_VERSION_AT 8 /* behind its magic; all other values begin with the version */

static bool is_schema(const struct kv_slice *key)
{
    struct row_key schema;

    key_schema(&schema);
    return key_equal(key, &schema);
}

unsigned upgrade_version(const struct kv_slice *key, const struct kv_slice *value)
{
    size_t at = is_schema(key) ? SCHEMA_VERSION_AT : 0;

    return at < value->n ? ((const uint8_t *)value->data)[at] : 0;
}

static unsigned version_of(const struct row_key *key, const struct record *value)
{
    const struct kv_slice k = {key->bytes, key->n}, v = {value->bytes, value->n};

    return upgrade_version(&k, &v);
}

enum error upgrade_row(struct row_key *key, struct record *value)
{
    unsigned version = version_of(key, value);

    while (version < RECORD_VERSION) {
        /* A step that does nothing would never end. */
        if (upgrade_steps[version] == NULL || !upgrade_steps[version](key, value) ||
            version_of(key, value) != version + 1)
            return ERROR_STORE_INVALID;
        version++;
    }
    return version == RECORD_VERSION ? ERROR_NONE : ERROR_STORE_VERSION;
}

bool upgrade_row_ok(void *arg, const void *key, size_t nkey, const void *value, size_t nvalue)
{
    struct upgrade_look *look = arg;
    const struct kv_slice key_slice = {key, nkey}, value_slice = {value, nvalue};
    unsigned version = upgrade_version(&key_slice, &value_slice);
    struct row_key k;
    struct record v;

    if (!look->begun)
        *look = (struct upgrade_look){.begun = true, .version = version};
    if (version != look->version)
        return false;
    if (version == RECORD_VERSION)
        return record_row_ok(key, nkey, value, nvalue);
    if (version > RECORD_VERSION)
        return true; /* opening names the version */
    return record_take(&key_slice, &value_slice, &k, &v) && upgrade_row(&k, &v) == ERROR_NONE &&
           record_row_ok(k.bytes, k.n, v.bytes, v.n);
}

static enum error replace_row(struct kv_txn *t, const struct row_key *was,
                              const struct row_key *key, const struct record *value)
{
    enum error e = ERROR_NONE;

    if (!record_row_ok(key->bytes, key->n, value->bytes, value->n))
        return ERROR_STORE_INVALID;
    if (was->n != key->n || memcmp(was->bytes, key->bytes, key->n) != 0)
        e = kv_delete(t, was->bytes, was->n);
    return e == ERROR_NONE ? kv_put(t, key->bytes, key->n, value->bytes, value->n) : e;
}

/* Copies out the first row behind *key. ERROR_NOT_FOUND: there is none. */
static enum error next_row(struct kv_txn *t, struct row_key *key, struct record *value)
{
    struct kv_slice found, content;
    struct kv_cursor *c;
    enum error e = kv_cursor_open(t, &c);

    if (e != ERROR_NONE)
        return e;
    e = kv_cursor_seek(c, key->bytes, key->n, &found, &content);
    if (e == ERROR_NONE && key_equal(&found, key))
        e = kv_cursor_next(c, &found, &content);
    if (e == ERROR_NONE && !record_take(&found, &content, key, value))
        e = ERROR_STORE_INVALID;
    kv_cursor_close(c);
    return e;
}

static enum error upgrade_rows(struct kv_txn *t)
{
    struct row_key at = {0};
    struct record value;
    enum error e;

    while ((e = next_row(t, &at, &value)) == ERROR_NONE) {
        struct row_key key = at;

        if (version_of(&key, &value) == RECORD_VERSION)
            continue; /* a step that changed its key put it further back */
        if ((e = upgrade_row(&key, &value)) != ERROR_NONE ||
            (e = replace_row(t, &at, &key, &value)) != ERROR_NONE)
            return e;
    }
    return e == ERROR_NOT_FOUND ? ERROR_NONE : e;
}

/* Whether the rows are still those of an older version. */
static enum error is_older(struct kv_txn *t, bool *out)
{
    struct kv_slice key_slice, value;
    struct row_key key;
    enum error e;

    key_schema(&key);
    e = kv_get(t, key.bytes, key.n, &value);
    if (e != ERROR_NONE)
        return e == ERROR_NOT_FOUND ? ERROR_STORE_INVALID : e;
    key_slice = (struct kv_slice){key.bytes, key.n};
    *out = upgrade_version(&key_slice, &value) < RECORD_VERSION;
    return ERROR_NONE;
}

enum error upgrade_store(struct kv *kv)
{
    struct kv_txn *t;
    bool older = false;
    enum error e = kv_begin_write(kv, &t);

    if (e != ERROR_NONE)
        return e;
    e = is_older(t, &older);
    if (e == ERROR_NONE && older)
        e = upgrade_rows(t);
    if (e == ERROR_NONE && older)
        return kv_commit(t);
    kv_abort(t);
    return e;
}
