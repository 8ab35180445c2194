/*
 * A lease without a ledger around it: a live store with the lease's row alone, the file beside it,
 * and the functions of the batch, each call in a transaction of its own. Nothing is synced, and
 * what would be can be made to fail. To be included after cmocka.h.
 */
#ifndef TESTS_UNIT_LEASE_FIXTURE_H
#define TESTS_UNIT_LEASE_FIXTURE_H

#include "store/batch.h"
#include "store/lease.h"
#include "store/rows.h"
#include "tests/unit/kv_scratch.h"

#define HOUR_MS   (3600LL * 1000)
#define DAY_MS    (24 * HOUR_MS)
#define START_MS  1796022000000LL /* 2026-11-30 07:00:00 UTC */
#define START_DAY (START_MS / DAY_MS)

static int
    fsync_fails; /* in place of the library's: whether the file on flash can be written */

int fsync(int fd)
{
    (void)fd;
    errno = fsync_fails ? EIO : 0;
    return fsync_fails ? -1 : 0;
}

struct leased {
    struct ledger ledger;
    struct batch b;
    struct view view;
    struct op op;
    struct limit limits[8];
    struct amounts none;
};

static const uint8_t secret[MAC_SIZE] = {42};
static const uint8_t uuid[16] = {1, 2, 3};

static inline struct lease lease_file(const struct leased *f)
{
    struct lease l;

    assert_error(lease_read(f->ledger.path_lease, secret, uuid, &l), ERROR_NONE);
    return l;
}

static inline struct lease_row lease_row(const struct leased *f)
{
    struct kv_txn *t = begin_read(f->ledger.kv);
    struct lease_row row = {.closed = true};
    struct kv_slice value;
    struct row_key key;

    key_lease(&key);
    if (kv_get(t, key.bytes, key.n, &value) == ERROR_NONE)
        assert_true(record_lease_read(&value, &row));
    kv_free_read(t);
    return row;
}

static inline struct limit *lease_limit(struct leased *f, enum subject s, enum unit u,
                                        const char *window, uint64_t max)
{
    struct limit *l = &f->limits[f->view.n_limits];
    struct counter *c = &f->view.counter[f->view.n_limits++];

    *l = (struct limit){.subject = s, .unit = u, .max = max};
    assert_true(window_parse(window, &l->window));
    *c = (struct counter){.subject = s, .window = l->window, .slots = 1};
    f->view.n = f->view.n_limits;
    return l;
}

static inline void lease_begin(struct leased *f)
{
    f->b.txn = begin_write(f->ledger.kv);
}

/* Commits what went well; everything else is undone. */
static inline enum error lease_end(struct leased *f, enum error e)
{
    if (e == ERROR_NONE)
        return kv_commit(f->b.txn);
    kv_abort(f->b.txn);
    return e;
}

static inline enum error lease_charge(struct leased *f, uint64_t calls, uint64_t tokens,
                                      uint64_t cost, struct reservation *r)
{
    f->op.demand.weights = (struct amounts){{calls, tokens, cost}};
    lease_begin(f);
    return lease_end(f, batch_lease_charge(&f->b, &f->op, &f->view, r));
}

/* For tests in which it has to go well; the segment. */
static inline uint64_t lease_charged(struct leased *f, uint64_t calls, uint64_t tokens,
                                     uint64_t cost)
{
    struct reservation r = {.segment = 77};

    assert_error(lease_charge(f, calls, tokens, cost, &r), ERROR_NONE);
    return r.segment;
}

/* Of one that was charged to everyone, and to anonymous if the view has it; to n_rows rows. */
static inline enum error lease_settle(struct leased *f, const struct reservation *r,
                                      unsigned n_rows, struct amounts real)
{
    struct hold h = {.reserved = r->reserved, .n_rows = n_rows};

    for (unsigned s = 0; s < SUBJECTS; s++)
        if (f->view.present & 1U << s)
            h.live[h.n_live++].subject = (uint8_t)s;
    f->op.reservation = *r;
    lease_begin(f);
    return lease_end(f, batch_lease_settle(&f->b, &f->op, &h, &real));
}

static inline enum error lease_close(struct leased *f)
{
    lease_begin(f);
    return lease_end(f, batch_lease_close(&f->b, &f->op));
}

static inline enum error lease_let_go(struct leased *f, uint64_t first)
{
    f->op.order = &first;
    lease_begin(f);
    enum error e = batch_lease_prune(&f->b, &f->op);
    kv_abort(f->b.txn);
    f->op.order = NULL;
    return e;
}

/* A copy that has nothing but the row. */
static inline void lease_copied(struct leased *f)
{
    struct lease_row row;

    assert_error(lease_close(f), ERROR_NONE);
    row = lease_row(f);
    assert_error(lease_let_go(f, lease_first_after(&row)), ERROR_NONE);
}

/* A file that stays where it is stands for each that a ledger has in its run directory. */
static inline void stay_in_place(struct ledger *l, const char *directory)
{
    l->run = strdup(directory);
    l->path_mark = l->path_live = l->path_board = file_join(directory, "data.mdb");
    assert_error(file_id_path(l->path_mark, &l->mark_id), ERROR_NONE);
    l->live_id = l->board_id = l->mark_id;
}

static inline int lease_set_up(void **state)
{
    static unsigned number;
    struct leased *f = calloc(1, sizeof *f);
    const struct lease empty = {0};
    char name[32];

    assert_non_null(f);
    fsync_fails = 0;
    snprintf(name, sizeof name, "store-%u", number++);
    const char *directory = make_store(name, 0, 0);
    assert_error(kv_open_unsynced(directory, MAP, &f->ledger.kv), ERROR_NONE);
    f->ledger.options.lease = true;
    f->ledger.path_lease = file_join(directory, "lease");
    stay_in_place(&f->ledger, directory);
    memcpy(f->ledger.options.secret, secret, sizeof secret);
    memcpy(f->ledger.schema.uuid, uuid, sizeof uuid);
    f->b.ledger = &f->ledger;
    f->b.state.time.time_ms = START_MS;
    f->view.limits = f->limits;
    f->view.present = 1U << SUBJECT_ADDRESS | 1U << SUBJECT_EVERYONE;
    assert_error(lease_write(f->ledger.path_lease, secret, uuid, &empty), ERROR_NONE);
    *state = f;
    return 0;
}

static inline int lease_tear_down(void **state)
{
    struct leased *f = *state;

    kv_close(f->ledger.kv);
    free(f->ledger.path_lease);
    free(f->ledger.path_mark);
    free(f->ledger.run);
    free(f);
    return 0;
}

#endif
