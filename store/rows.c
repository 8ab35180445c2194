/* Walking and reading rows. A row that does not decode is a broken store, never a zero. */
#include "store/rows.h"

#include <string.h>

enum error rows_each(struct kv_txn *t, const struct row_key *from, rows_visit *visit, void *arg)
{
    struct kv_cursor *c;
    struct kv_slice key, value;
    enum error e = kv_cursor_open(t, &c);

    if (e != ERROR_NONE)
        return e;
    e = kv_cursor_seek(c, from->bytes, from->n, &key, &value);
    while (e == ERROR_NONE && (e = visit(arg, c, &key, &value)) == ERROR_NONE)
        e = kv_cursor_next(c, &key, &value);
    kv_cursor_close(c);
    return e == ERROR_NOT_FOUND ? ERROR_NONE : e;
}

enum error rows_amounts(struct kv_txn *t, const struct row_key *key, struct amounts *out)
{
    struct kv_slice value;
    enum error e = kv_get(t, key->bytes, key->n, &value);

    if (e == ERROR_NONE)
        return record_amounts_read(&value, out) ? ERROR_NONE : ERROR_STORE_INVALID;
    if (e == ERROR_NOT_FOUND)
        memset(out, 0, sizeof *out);
    return e == ERROR_NOT_FOUND ? ERROR_NONE : e;
}
