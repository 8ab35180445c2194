/*
 * Making a store of an export. Security stance: the text is hostile until its last line's MAC
 * has been found right, and all that was written before then is thrown away if it is not. Why
 * nobody gains anything by an import: store/export.h.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/export.h"
#include "store/export_line.h"
#include "store/intake.h"
#include "store/lease.h"
#include "store/liverows.h"
#include "store/mark.h"
#include "store/rows.h"

struct importing {
    struct ledger *ledger;
    FILE *text;
    struct state fresh; /* of the store that is filled, and */
    uint8_t uuid[16];   /* its own */
    struct intake in;   /* the text's rows */
    bool ended;
    struct periods periods;
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
        e = ledger_schema(value, l->import->ledger->options.secret, &schema);
        if (e == ERROR_NONE)
            memcpy(l->import->uuid, schema.uuid, sizeof schema.uuid);
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
    enum error e = rows_each(m->in.txn, &from, look_at_row, &l);

    if (e == ERROR_NONE && (!l.has_schema || !l.has_state))
        e = ERROR_STORE_INVALID;
    return e;
}

/* ---- lines ---- */

static enum error read_row(struct importing *m)
{
    enum error e = intake_row(&m->in, &m->line.key, &m->line.value);

    m->report.rows = m->in.rows;
    return e;
}

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

    while (e == ERROR_NONE && fgets(text, sizeof text, m->text) != NULL) {
        m->report.line++;
        e = read_line(m, text, strlen(text));
    }
    mac_wipe(text, sizeof text);
    if (e == ERROR_NONE && ferror(m->text))
        e = ERROR_SYSTEM;
    return e == ERROR_NONE && !m->ended ? ERROR_SYNTAX : e;
}

/* ---- the end ---- */

/* Without its key a window's counters would all be nobody's. */
static bool has_keys(const struct importing *m)
{
    for (unsigned i = 0; i < m->in.state.n_windows; i++) {
        const struct period_entry *w = periods_find(&m->periods, m->in.state.window[i].code);

        if (w == NULL || w->generation != m->in.state.window[i].generation)
            return false;
    }
    return m->periods.n == m->in.state.n_windows;
}

/* The later of both, each as a store that was closed until now. */
static enum error merge_state(struct importing *m)
{
    struct storetime *t = &m->in.state.time;
    struct clock_now now;
    enum error e = m->ledger->options.clock(&now);

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
    m->in.state.paused = m->in.state.paused || m->fresh.paused;
    m->report.paused = m->in.state.paused;
    m->report.ahead = t->time_ms > now.wall_ms;
    return ERROR_NONE;
}

/* Rows in which nothing has been counted are no reason to believe that nothing has: others may have
 * been made since, elsewhere. The text's uuid is that of an import that failed late. */
static enum error look_at_lease(struct importing *m)
{
    struct ledger *l = m->ledger;
    struct lease file;
    enum error e = lease_read(l->path_lease, l->options.secret, m->uuid, &file);

    if (e != ERROR_NONE)
        e = lease_read(l->path_lease, l->options.secret, m->in.schema.uuid, &file);
    if (e != ERROR_NONE || memcmp(file.rows, l->rows_name, sizeof file.rows) == 0)
        return e;
    liverows_forsake(l);
    return ERROR_STORE_REPLACED;
}

static enum error write_periods(const struct importing *m)
{
    const struct ledger *l = m->ledger;

    return periods_write(l->path_periods, l->options.secret, m->in.schema.uuid, &m->periods);
}

static enum error write_leased(struct importing *m)
{
    struct ledger *l = m->ledger;
    int lock;
    enum error e = lease_lock(l->path_lease, LEDGER_WAIT_MS, &lock);

    if (e != ERROR_NONE)
        return e;
    if ((e = look_at_lease(m)) == ERROR_NONE && (e = write_periods(m)) == ERROR_NONE)
        e = copy_first(l, m->in.schema.uuid, m->in.txn);
    close(lock);
    return e;
}

/* All but the commit. The files go before it (store/export.h). */
static enum error fill(struct importing *m)
{
    enum error e = look_at_store(m);

    if (e == ERROR_NONE)
        e = read_lines(m);
    if (e == ERROR_NONE && (!m->in.has_schema || !m->in.has_state || !has_keys(m)))
        e = ERROR_SYNTAX;
    if (e != ERROR_NONE || (e = merge_state(m)) != ERROR_NONE ||
        (e = intake_state(&m->in)) != ERROR_NONE)
        return e;
    return m->ledger->options.lease ? write_leased(m) : write_periods(m);
}

static enum error import_into(struct importing *m)
{
    struct mark mark;
    enum error e = kv_begin_write(m->ledger->kv, &m->in.txn);

    if (e != ERROR_NONE)
        return e;
    mark.last_id = kv_last_id(m->in.txn);
    e = fill(m);
    if (e != ERROR_NONE) {
        kv_abort(m->in.txn);
        return e;
    }
    e = kv_commit(m->in.txn);
    memcpy(mark.uuid, m->in.schema.uuid, sizeof mark.uuid);
    return e == ERROR_NONE ? mark_replace(m->ledger->path_mark, &mark) : e;
}

static enum error open_rows(struct ledger *l)
{
    struct clock_now now;
    struct file_id id;
    enum error e = l->options.clock(&now);

    if (e == ERROR_NONE && file_id_path(l->run, &id) != ERROR_NONE)
        e = ERROR_RUN_MISSING;
    if (e == ERROR_NONE && (e = ledger_check_kind(l)) == ERROR_NONE && l->options.lease)
        e = liverows_need(l, &now, false);
    return e == ERROR_NONE ? ledger_open_rows(l) : e;
}

enum error ledger_import(const struct ledger_options *o, FILE *in, struct import_report *out)
{
    struct importing *m = calloc(1, sizeof *m);
    struct ledger *l = NULL;
    enum error e = m != NULL ? ledger_new(o, &l) : ERROR_MEMORY;

    if (e == ERROR_NONE && (e = open_rows(l)) == ERROR_NONE) {
        m->ledger = l;
        m->text = in;
        m->in.secret = l->options.secret;
        export_mac_begin(&m->mac, o->secret);
        e = import_into(m);
        m->report.under_way = m->in.under_way;
        *out = m->report;
    }
    ledger_free(l);
    if (m != NULL)
        mac_wipe(m, sizeof *m);
    free(m);
    return e;
}
