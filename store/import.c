/*
 * Making a store of an export. Security stance: the text is hostile until its last line's MAC
 * has been found right, and all that was written before then is thrown away if it is not. Why
 * nobody gains anything by an import: store/export.h.
 */
#include <stdlib.h>
#include <string.h>

#include "store/export.h"
#include "store/export_line.h"
#include "store/ledger_parts.h"
#include "store/mark.h"
#include "store/rows.h"
#include "store/upgrade.h"

struct importing {
    const struct ledger_options *options;
    FILE *in;
    struct kv_txn *txn;
    struct state fresh;   /* of the store that is filled */
    struct schema schema; /* of the text's store, as its state */
    struct state state;
    bool has_schema, has_state, ended;
    struct periods periods;
    struct row_key last; /* keys ascend */
    struct export_mac mac;
    struct import_report report;
    struct export_line line;
};

/* ---- the store that is filled ---- */

struct look {
    struct importing *import;
    bool has_schema, has_state;
};

static bool key_is(const struct kv_slice *key, void (*of)(struct row_key *out))
{
    struct row_key k;

    of(&k);
    return key_equal(key, &k);
}

/* All that counts leaves a row of the history for longer than a year. */
static enum error look_at_row(void *arg, struct kv_cursor *c, const struct kv_slice *key,
                              const struct kv_slice *value)
{
    struct look *l = arg;
    struct schema schema;
    enum error e = ERROR_EXISTS;

    (void)c;
    if (key_is(key, key_schema)) {
        l->has_schema = true;
        e = ledger_schema(value, l->import->options->secret, &schema);
    } else if (key_is(key, key_state)) {
        l->has_state = record_state_read(value, &l->import->fresh);
        e = l->has_state ? ERROR_NONE : ERROR_STORE_INVALID;
    }
    return e;
}

static enum error look_at_store(struct importing *m)
{
    struct look l = {m, false, false};
    const struct row_key from = {0};
    enum error e = rows_each(m->txn, &from, look_at_row, &l);

    if (e == ERROR_NONE && (!l.has_schema || !l.has_state))
        e = ERROR_STORE_INVALID;
    return e;
}

/* ---- rows ---- */

/* Its day has been read before it: tables come in the order of their numbers. */
static enum error keep_charged(struct importing *m, const struct kv_slice *value)
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
    e = kv_get(m->txn, key.bytes, key.n, &there);
    if (e == ERROR_NONE && !record_history_read(&there, &day))
        e = ERROR_STORE_INVALID;
    if (e != ERROR_NONE && e != ERROR_NOT_FOUND)
        return e;
    history_unknown(&day, &h);
    m->report.under_way++;
    record_history(&day, &r);
    return kv_put(m->txn, key.bytes, key.n, r.bytes, r.n);
}

/* The state is written at the end, with the time and pause of both stores. */
static enum error take_row(struct importing *m)
{
    struct row_key *k = &m->line.key;
    struct record *v = &m->line.value;
    const struct kv_slice key = {k->bytes, k->n}, value = {v->bytes, v->n};

    if (key_is(&key, key_state)) {
        m->has_state = record_state_read(&value, &m->state);
        return m->has_state ? ERROR_NONE : ERROR_SYNTAX;
    }
    if (k->bytes[0] == TABLE_RESERVATION)
        return keep_charged(m, &value);
    if (key_is(&key, key_schema)) {
        enum error e = ledger_schema(&value, m->options->secret, &m->schema);

        if (e != ERROR_NONE)
            return e == ERROR_STORE_INVALID ? ERROR_SYNTAX : e;
        m->has_schema = true;
    }
    return kv_put(m->txn, k->bytes, k->n, v->bytes, v->n);
}

static int compare(const struct row_key *a, const struct row_key *b)
{
    int c = memcmp(a->bytes, b->bytes, a->n < b->n ? a->n : b->n);

    return c != 0 ? c : (int)a->n - (int)b->n;
}

/* Of an older program they are taken to our version, which may put them into another order. */
static enum error read_row(struct importing *m)
{
    struct row_key *k = &m->line.key;
    struct record *v = &m->line.value;
    enum error e;

    if (compare(k, &m->last) <= 0)
        return ERROR_SYNTAX;
    m->last = *k;
    m->report.rows++;
    e = upgrade_row(k, v);
    if (e != ERROR_NONE)
        return e == ERROR_STORE_INVALID ? ERROR_SYNTAX : e;
    return record_row_ok(k->bytes, k->n, v->bytes, v->n) ? take_row(m) : ERROR_SYNTAX;
}

/* ---- lines ---- */

static enum error read_window(struct importing *m)
{
    const struct period_entry *w = &m->line.window;

    if (m->report.rows > 0 || m->periods.n == PERIOD_WINDOWS ||
        periods_find(&m->periods, w->code) != NULL)
        return ERROR_SYNTAX;
    m->periods.entry[m->periods.n++] = *w;
    return ERROR_NONE;
}

static enum error read_end(struct importing *m)
{
    m->ended = true;
    return m->line.rows == m->report.rows &&
                   mac_equal(m->line.mac, m->mac.running, sizeof m->mac.running)
               ? ERROR_NONE
               : ERROR_SYNTAX;
}

static enum error read_line(struct importing *m, const char *text, size_t n)
{
    enum error e = export_line_read(text, n, &m->line);

    if (e != ERROR_NONE)
        return e;
    if (m->ended || (m->line.kind == EXPORT_HEAD) != (m->report.line == 1))
        return ERROR_SYNTAX;
    if (m->line.kind == EXPORT_END)
        return read_end(m);
    export_mac_add(&m->mac, text, n);
    if (m->line.kind == EXPORT_WINDOW)
        return read_window(m);
    return m->line.kind == EXPORT_ROW ? read_row(m) : ERROR_NONE;
}

/* A NUL in a line ends it for strlen, and so leaves it without its newline. */
static enum error read_lines(struct importing *m)
{
    char text[EXPORT_LINE_MAX];
    enum error e = ERROR_NONE;

    while (e == ERROR_NONE && fgets(text, sizeof text, m->in) != NULL) {
        m->report.line++;
        e = read_line(m, text, strlen(text));
    }
    mac_wipe(text, sizeof text);
    if (e == ERROR_NONE && ferror(m->in))
        e = ERROR_SYSTEM;
    return e == ERROR_NONE && !m->ended ? ERROR_SYNTAX : e;
}

/* ---- the end ---- */

/* Without its key a window's counters would all be nobody's. */
static bool has_keys(const struct importing *m)
{
    for (unsigned i = 0; i < m->state.n_windows; i++) {
        const struct period_entry *w = periods_find(&m->periods, m->state.window[i].code);

        if (w == NULL || w->generation != m->state.window[i].generation)
            return false;
    }
    return m->periods.n == m->state.n_windows;
}

/* The later of both, each as a store that was closed until now. */
static enum error merge_state(struct importing *m)
{
    struct storetime *t = &m->state.time;
    struct clock_now now;
    enum error e = m->options->clock(&now);

    if (e != ERROR_NONE)
        return e;
    storetime_advance(t, &now);
    storetime_advance(&m->fresh.time, &now);
    if (m->fresh.time.time_ms > t->time_ms) {
        t->time_ms = m->fresh.time.time_ms;
        t->boot_ms = m->fresh.time.boot_ms;
    }
    if (m->fresh.time.hold_until_ms > t->hold_until_ms)
        t->hold_until_ms = m->fresh.time.hold_until_ms;
    if (m->fresh.time.before_ms < t->before_ms)
        t->before_ms = m->fresh.time.before_ms;
    m->state.paused = m->state.paused || m->fresh.paused;
    m->report.paused = m->state.paused;
    m->report.ahead = t->time_ms > now.wall_ms;
    return ERROR_NONE;
}

static enum error put_state(struct importing *m)
{
    struct row_key key;
    struct record r;
    enum error e = merge_state(m);

    if (e != ERROR_NONE)
        return e;
    key_state(&key);
    record_state(&m->state, &r);
    return kv_put(m->txn, key.bytes, key.n, r.bytes, r.n);
}

static enum error write_periods(const struct importing *m)
{
    char *path = file_join(m->options->store, "periods");
    enum error e = path != NULL
                       ? periods_write(path, m->options->secret, m->schema.uuid, &m->periods)
                       : ERROR_MEMORY;

    free(path);
    return e;
}

static enum error fill(struct importing *m)
{
    enum error e = look_at_store(m);

    if (e == ERROR_NONE)
        e = read_lines(m);
    if (e == ERROR_NONE && (!m->has_schema || !m->has_state || !has_keys(m)))
        e = ERROR_SYNTAX;
    if (e == ERROR_NONE)
        e = put_state(m);
    return e == ERROR_NONE ? write_periods(m) : e;
}

static enum error import_into(struct importing *m, struct kv *kv, const char *path_mark)
{
    struct mark mark;
    enum error e = kv_begin_write(kv, &m->txn);

    if (e != ERROR_NONE)
        return e;
    mark.last_id = kv_last_id(m->txn);
    e = fill(m);
    if (e != ERROR_NONE) {
        kv_abort(m->txn);
        return e;
    }
    e = kv_commit(m->txn);
    memcpy(mark.uuid, m->schema.uuid, sizeof mark.uuid);
    return e == ERROR_NONE ? mark_replace(path_mark, &mark) : e;
}

enum error ledger_import(const struct ledger_options *o, FILE *in, struct import_report *out)
{
    struct importing *m = calloc(1, sizeof *m);
    char *run = o->run != NULL ? strdup(o->run) : file_join(o->store, "run");
    char *path_mark = run != NULL ? file_join(run, "mark") : NULL;
    struct kv *kv = NULL;
    struct file_id id;
    enum error e = m != NULL && path_mark != NULL ? ERROR_NONE : ERROR_MEMORY;

    if (e == ERROR_NONE && file_id_path(run, &id) != ERROR_NONE)
        e = ERROR_RUN_MISSING;
    if (e == ERROR_NONE)
        e = kv_open(o->store, o->map_bytes, &kv);
    if (e == ERROR_NONE) {
        m->options = o;
        m->in = in;
        export_mac_begin(&m->mac, o->secret);
        e = import_into(m, kv, path_mark);
        *out = m->report;
        kv_close(kv);
    }
    if (m != NULL)
        mac_wipe(m, sizeof *m);
    free(m);
    free(run);
    free(path_mark);
    return e;
}
