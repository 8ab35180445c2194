/*
 * Making a store: the one place that does. Never over another one, of either durability; what a
 * failure leaves is removed again, since half a store is none.
 *
 * A machine that fails in the middle removes nothing. So STORE/making is put there first and taken
 * away last, both durably, and is locked meanwhile. Where it is left, either what opens is all
 * there (the schema record; with a lease STORE/lease, of which the rows are made), and only the end
 * is missing: whatever it has counted since stays. Or nobody can have opened it, and it is begun
 * anew.
 * Who opens one takes STORE/making away: damage of what has counted is none that init may mend.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "platform/random.h"
#include "store/copy.h"
#include "store/kv_files.h"
#include "store/ledger_parts.h"
#include "store/liverows.h"
#include "store/mark.h"

static enum error make_schema(const struct ledger_options *o, const char *zone,
                              struct schema *out)
{
    struct zone parsed;

    memset(out, 0, sizeof *out);
    out->version = RECORD_VERSION;
    if (!zone_parse(zone, &parsed))
        return ERROR_SYNTAX;
    snprintf(out->zone, sizeof out->zone, "%s", zone);
    enum error e = random_bytes(out->uuid, sizeof out->uuid);
    if (e == ERROR_NONE)
        ledger_secret_check(o->secret, out->uuid, out->check);
    return e;
}

/* The civil day's window is there from the start: log and dashboard name callers by its key. */
static enum error make_periods(const struct ledger_options *o, const struct schema *schema,
                               const struct clock_now *now, const char *path,
                               struct state *state)
{
    struct window day = {WINDOW_DAY, 0};
    struct zone z;
    struct periods p;

    memset(&p, 0, sizeof p);
    (void)zone_parse(schema->zone, &z);
    enum error e =
        periods_add(&p, window_code(day), window_oldest_period(day, &z, now->wall_ms));
    if (e == ERROR_NONE)
        e = periods_write(path, o->secret, schema->uuid, &p);
    state->n_windows = 1;
    state->window[0].code = window_code(day);
    state->window[0].generation = p.entry[0].generation;
    mac_wipe(&p, sizeof p);
    return e;
}

static enum error put_first_rows(const struct ledger *l, struct kv_txn *t,
                                 const struct schema *schema, const struct state *state)
{
    struct row_key key;
    struct record r;
    enum error e;

    key_schema(&key);
    record_schema(schema, &r);
    e = kv_put(t, key.bytes, key.n, r.bytes, r.n);
    if (e != ERROR_NONE)
        return e;
    key_state(&key);
    record_state(state, &r);
    e = kv_put(t, key.bytes, key.n, r.bytes, r.n);
    return e == ERROR_NONE && l->options.lease ? copy_first(l, schema->uuid, t) : e;
}

static enum error commit_first_rows(struct ledger *l, const struct schema *schema,
                                    const struct state *state)
{
    struct kv_txn *t = NULL;
    enum error e = kv_begin_write(l->kv, &t);

    if (e != ERROR_NONE)
        return e;
    e = put_first_rows(l, t, schema, state);
    if (e != ERROR_NONE) {
        kv_abort(t);
        return e;
    }
    return kv_commit(t);
}

/* Opens l->kv, where nothing has been. */
static enum error begin_rows(struct ledger *l)
{
    enum error e;

    if (l->options.lease)
        return liverows_begin(l);
    e = kv_create(l->rows, l->options.map_bytes);
    return e == ERROR_NONE ? ledger_open_rows(l) : e;
}

static enum error put_mark(const struct ledger *l, const struct schema *schema)
{
    struct mark m = {.last_id = 0};

    memcpy(m.uuid, schema->uuid, sizeof m.uuid);
    return mark_replace(l->path_mark, &m);
}

static enum error fill_store(struct ledger *l, const char *zone)
{
    const struct ledger_options *o = &l->options;
    struct schema schema;
    struct state state;
    struct clock_now now;
    enum error e;

    memset(&state, 0, sizeof state);
    if ((e = o->clock(&now)) != ERROR_NONE ||
        (e = make_schema(o, zone, &schema)) != ERROR_NONE ||
        (e = make_periods(o, &schema, &now, l->path_periods, &state)) != ERROR_NONE ||
        (e = begin_rows(l)) != ERROR_NONE)
        return e;
    state.time.time_ms = now.wall_ms;
    state.time.boot_ms = now.boot_ms;
    memcpy(state.time.boot_id, now.boot_id, sizeof now.boot_id);
    if ((e = put_mark(l, &schema)) != ERROR_NONE ||
        (e = commit_first_rows(l, &schema, &state)) != ERROR_NONE)
        return e;
    return o->lease ? liverows_publish(l, &now) : ERROR_NONE;
}

/* ---- what must not be there, and what is removed ---- */

static const char *const names[] = {FILE_DATA, FILE_LOCK, FILE_PERIODS, FILE_COPY, FILE_LEASE};
#define NAMES (sizeof names / sizeof *names)

static bool is_there(const char *path)
{
    struct file_id id;

    return file_id_path(path, &id) == ERROR_NONE;
}

/* Anything of a store is one. */
static enum error look_for_one(const struct ledger *l)
{
    enum error e = l->options.lease && is_there(l->rows) ? ERROR_EXISTS : ERROR_NONE;

    for (size_t i = 0; i < NAMES && e == ERROR_NONE; i++) {
        char *path = file_join(l->options.store, names[i]);

        e = path == NULL ? ERROR_MEMORY : is_there(path) ? ERROR_EXISTS : ERROR_NONE;
        free(path);
    }
    return e;
}

static void remove_half(struct ledger *l)
{
    if (l->options.lease)
        liverows_discard(l);
    for (size_t i = 0; i < NAMES; i++) {
        char *path = file_join(l->options.store, names[i]);

        if (path != NULL)
            unlink(path);
        free(path);
    }
}

/* ---- what another one has begun ---- */

static enum error no_row(void *arg, struct row_key *key, struct record *value)
{
    (void)arg;
    (void)key;
    (void)value;
    return ERROR_NONE;
}

static enum error has_schema(struct ledger *l, bool *whole)
{
    struct kv_txn *t = NULL;
    struct kv_slice value;
    struct schema schema;
    struct row_key key;
    enum error e = kv_begin_read(l->kv, &t);

    if (e != ERROR_NONE)
        return e;
    key_schema(&key);
    e = kv_get(t, key.bytes, key.n, &value);
    *whole = e == ERROR_NONE;
    if (e == ERROR_NONE)
        e = ledger_schema(&value, l->options.secret, &schema);
    kv_free_read(t);
    return e == ERROR_NOT_FOUND ? ERROR_NONE : e;
}

/* Files that LMDB has not finished are none, and where it cannot map them it never will. */
static enum error look_at_data(struct ledger *l, bool *whole)
{
    enum error e = kv_open(l->options.store, l->options.map_bytes, &l->kv);

    if (e == ERROR_STORE_MISSING || e == ERROR_STORE_INVALID || e == ERROR_UNSUPPORTED)
        return ERROR_NONE;
    if (e != ERROR_NONE)
        return e;
    e = has_schema(l, whole);
    kv_close(l->kv);
    l->kv = NULL;
    return e;
}

static enum error look_at_flash(const struct ledger *l, bool *whole)
{
    uint8_t uuid[16];

    if (!is_there(l->path_lease))
        return is_there(l->rows) ? ERROR_EXISTS : ERROR_NONE;
    *whole = true;
    return copy_read(l->path_copy, l->options.secret, uuid, no_row, NULL);
}

/* Whether it can be opened, and so can have counted; ERROR_EXISTS: by the other durability. */
static enum error look_at_begun(struct ledger *l, bool *whole)
{
    bool data = false;
    enum error e;

    *whole = false;
    if ((e = look_at_data(l, &data)) != ERROR_NONE)
        return e;
    if (!l->options.lease) {
        *whole = data;
        return is_there(l->path_lease) ? ERROR_EXISTS : ERROR_NONE;
    }
    if (data)
        return ERROR_EXISTS;
    return look_at_flash(l, whole);
}

/* ---- from beginning to end ---- */

/* Locked; *begun: it was there already. ERROR_EXISTS: somebody else has just ended. */
static enum error take_making(const struct ledger *l, const char *path, int *fd, bool *begun)
{
    int f = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    struct file_id held, there;
    enum error e = ERROR_NONE;

    *begun = f < 0 && errno == EEXIST;
    if (*begun)
        e = file_open(path, false, &f);
    else if (f < 0)
        e = ERROR_SYSTEM;
    if (e != ERROR_NONE)
        return e == ERROR_NOT_FOUND ? ERROR_EXISTS : e;
    if ((e = file_lock(f, LEDGER_WAIT_MS)) == ERROR_NONE &&
        (e = file_id_fd(f, &held)) == ERROR_NONE &&
        (file_id_path(path, &there) != ERROR_NONE || !file_id_equal(held, there)))
        e = ERROR_EXISTS;
    if (e == ERROR_NONE)
        e = kv_files_sync(l->options.store);
    if (e != ERROR_NONE)
        close(f);
    else
        *fd = f;
    return e;
}

/* What was done, or undone, is on the disk before it goes. Whoever has opened the store meanwhile
 * may have taken it away. */
static enum error end_making(const struct ledger *l, const char *path)
{
    enum error e = kv_files_sync(l->options.store);

    if (e == ERROR_NONE && unlink(path) != 0 && errno != ENOENT)
        e = ERROR_SYSTEM;
    return e == ERROR_NONE ? kv_files_sync(l->options.store) : e;
}

void ledger_is_made(const struct ledger *l)
{
    char *making = file_join(l->options.store, FILE_MAKING);

    if (making != NULL && is_there(making))
        (void)end_making(l, making);
    free(making);
}

static enum error fill_or_undo(struct ledger *l, const char *zone)
{
    enum error e = fill_store(l, zone);

    if (e != ERROR_NONE && e != ERROR_EXISTS)
        remove_half(l);
    return e;
}

static enum error make_store(struct ledger *l, const char *zone, bool begun)
{
    bool whole = false;
    enum error e = begun ? look_at_begun(l, &whole) : look_for_one(l);

    if (e != ERROR_NONE || whole)
        return e;
    if (begun)
        remove_half(l);
    return fill_or_undo(l, zone);
}

/* What is not ours to end stays as it was found, with the note if it had one. */
static enum error make_noted(struct ledger *l, const char *zone, const char *making)
{
    bool begun = false;
    int fd = -1;
    enum error e = take_making(l, making, &fd, &begun), ended;

    if (e != ERROR_NONE)
        return e;
    e = make_store(l, zone, begun);
    if (e == ERROR_NONE || (e == ERROR_EXISTS && !begun) || look_for_one(l) == ERROR_NONE) {
        ended = end_making(l, making);
        e = e == ERROR_NONE ? ended : e;
    }
    close(fd);
    return e;
}

/* With a lease one that somebody is just making is seen, too. */
static enum error make_locked(struct ledger *l, const char *zone, const char *making)
{
    int lock = -1;
    enum error e = l->options.lease ? liverows_lock(l, &lock) : ERROR_NONE;

    if (e != ERROR_NONE)
        return e;
    e = make_noted(l, zone, making);
    if (lock >= 0)
        close(lock);
    return e;
}

enum error ledger_create(const struct ledger_options *o, const char *zone)
{
    struct ledger *l;
    char *making;
    enum error e = o->lease && !o->run ? ERROR_RUN_MISSING : ledger_new(o, &l);

    if (e != ERROR_NONE)
        return e;
    making = file_join(o->store, FILE_MAKING);
    if (making == NULL)
        e = ERROR_MEMORY;
    else if (!is_there(making))
        e = look_for_one(l);
    if (e == ERROR_NONE && (e = ledger_run_directory(l->run, !o->run)) == ERROR_NONE)
        e = make_locked(l, zone, making);
    free(making);
    ledger_free(l);
    return e;
}
