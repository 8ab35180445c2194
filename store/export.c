/*
 * Writing a store as text. What would not be taken back is not written: a row that does not
 * decode ends it, and so does a window whose key the file beside the store does not have.
 */
#include "store/export.h"

#include <string.h>

#include "store/export_line.h"
#include "store/ledger_parts.h"
#include "store/rows.h"

struct exporting {
    FILE *out;
    struct export_mac mac;
    struct export_line line; /* 2 KB: one for all */
    uint64_t rows;
};

static enum error write_line(struct exporting *x)
{
    char text[EXPORT_LINE_MAX];
    size_t n = export_line_write(&x->line, text);
    bool ok = fwrite(text, 1, n, x->out) == n;

    if (x->line.kind != EXPORT_END)
        export_mac_add(&x->mac, text, n);
    mac_wipe(text, sizeof text);
    return ok ? ERROR_NONE : ERROR_SYSTEM;
}

/* Those that the rows were hashed under. ERROR_PERIODS: they are to be read again. */
static enum error find_windows(const struct view_context *c)
{
    for (unsigned i = 0; i < c->state->n_windows; i++) {
        const struct period_entry *entry =
            periods_find(&c->ledger->periods, c->state->window[i].code);

        if (entry == NULL || entry->generation != c->state->window[i].generation)
            return ERROR_PERIODS;
    }
    return ERROR_NONE;
}

static enum error write_windows(struct exporting *x, const struct view_context *c)
{
    enum error e = ERROR_NONE;

    x->line.kind = EXPORT_WINDOW;
    for (unsigned i = 0; i < c->state->n_windows && e == ERROR_NONE; i++) {
        x->line.window = *periods_find(&c->ledger->periods, c->state->window[i].code);
        e = write_line(x);
    }
    return e;
}

/* The lease is the machine's, not the store's: an import begins with none. */
static bool is_lease(const struct kv_slice *key)
{
    struct row_key lease;

    key_lease(&lease);
    return key_equal(key, &lease);
}

static enum error write_row(void *arg, struct kv_cursor *c, const struct kv_slice *key,
                            const struct kv_slice *value)
{
    struct exporting *x = arg;

    (void)c;
    if (!record_row_ok(key->data, key->n, value->data, value->n) ||
        !record_take(key, value, &x->line.key, &x->line.value))
        return ERROR_STORE_INVALID;
    if (is_lease(key))
        return ERROR_NONE;
    x->line.kind = EXPORT_ROW;
    x->rows++;
    return write_line(x);
}

/* Nothing is written before all period keys are there: it may be called once more for them. */
static enum error write_all(void *arg, const struct view_context *c)
{
    struct exporting *x = arg;
    const struct row_key from = {0};
    enum error e = find_windows(c);

    if (e != ERROR_NONE)
        return e;
    x->line.kind = EXPORT_HEAD;
    if ((e = write_line(x)) != ERROR_NONE || (e = write_windows(x, c)) != ERROR_NONE ||
        (e = rows_each(c->txn, &from, write_row, x)) != ERROR_NONE)
        return e;
    x->line.kind = EXPORT_END;
    x->line.rows = x->rows;
    memcpy(x->line.mac, x->mac.running, sizeof x->line.mac);
    return write_line(x);
}

enum error ledger_export(struct ledger *l, FILE *out, uint64_t *rows)
{
    struct exporting x = {.out = out};
    enum error e = ledger_verify(l);

    if (e != ERROR_NONE)
        return e;
    export_mac_begin(&x.mac, l->options.secret);
    e = ledger_reading(l, write_all, &x);
    if (e == ERROR_NONE)
        *rows = x.rows;
    mac_wipe(&x, sizeof x);
    return e;
}
