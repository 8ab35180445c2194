/*
 * The last alerts, whether or not anybody delivers them: one row, so that noting another one
 * costs no more than the alert itself, and what is kept is bounded by what it is.
 */
#include <string.h>

#include "store/batch.h"
#include "store/rows.h"

static enum error read_list(struct kv_txn *t, struct told_list *out)
{
    struct row_key key;
    struct kv_slice value;

    memset(out, 0, sizeof *out);
    key_told(&key);
    enum error e = kv_get(t, key.bytes, key.n, &value);
    if (e != ERROR_NONE)
        return e == ERROR_NOT_FOUND ? ERROR_NONE : e;
    return record_told_read(&value, out) ? ERROR_NONE : ERROR_STORE_INVALID;
}

static enum error write_list(struct batch *b, const struct told_list *list)
{
    struct row_key key;
    struct record r;

    key_told(&key);
    record_told(list, &r);
    return batch_put(b, &key, &r);
}

enum error told_note(struct batch *b, uint64_t id, const struct alert_row *alert,
                     enum told told)
{
    struct told_list list;
    enum error e = read_list(b->txn, &list);

    if (e != ERROR_NONE)
        return e;
    list.n += list.n < TOLD_MAX;
    memmove(&list.row[1], &list.row[0], (list.n - 1) * sizeof list.row[0]);
    list.row[0] = (struct told_row){
        .id = id, .reason = alert->reason, .time_s = alert->time_s, .told = told};
    return write_list(b, &list);
}

enum error told_mark(struct batch *b, uint64_t id, enum told told)
{
    struct told_list list;
    enum error e = read_list(b->txn, &list);

    for (unsigned i = 0; i < list.n && e == ERROR_NONE; i++)
        if (list.row[i].id == id && list.row[i].told == TOLD_WAITS) {
            list.row[i].told = told;
            return write_list(b, &list);
        }
    return e;
}

static enum error look(void *arg, const struct view_context *c)
{
    return read_list(c->txn, arg);
}

enum error ledger_told(struct ledger *l, struct ledger_told out[TOLD_MAX], unsigned *n)
{
    struct told_list list;
    enum error e = ledger_reading(l, look, &list);

    if (e != ERROR_NONE)
        return e;
    *n = list.n;
    for (unsigned i = 0; i < list.n; i++) {
        const struct told_row *row = &list.row[i];

        out[i] = (struct ledger_told){.kind = row->reason.kind,
                                      .percent = row->reason.percent,
                                      .time_s = row->time_s,
                                      .told = row->told};
        memcpy(out[i].name, row->reason.name, sizeof out[i].name);
    }
    return ERROR_NONE;
}
