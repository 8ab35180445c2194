/* A store of its own for each test, and a clock that the test moves. */
#ifndef TESTS_UNIT_LEDGER_FIXTURE_H
#define TESTS_UNIT_LEDGER_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/ledger.h"

#define HOUR_MS  (3600LL * 1000)
#define DAY_MS   (24 * HOUR_MS)
#define START_MS 1796022000000LL /* 2026-11-30 07:00:00 UTC */

static struct clock_now fake_now;
static enum error fake_error;

static enum error fake_clock(struct clock_now *out)
{
    if (fake_error != ERROR_NONE)
        return fake_error;
    *out = fake_now;
    return ERROR_NONE;
}

struct fixture {
    char dir[64];
    struct ledger_options options;
    struct ledger *ledger;
    struct limit limits[LIMITS_MAX];
    struct policy policy;
    struct demand demand;
};

/* Time passes: the clock and the boot clock together. */
static inline void pass(int64_t ms)
{
    fake_now.wall_ms += ms;
    fake_now.boot_ms += ms;
}

static inline void remove_store(const struct fixture *f)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf '%s'", f->dir);
    assert_int_equal(system(command), 0);
}

static inline void path_of(const struct fixture *f, const char *name, char out[128])
{
    snprintf(out, 128, "%s/%s", f->dir, name);
}

static inline struct limit *add_limit(struct fixture *f, const char *name, enum subject s,
                                      enum unit u, const char *window, uint64_t max)
{
    struct limit *l = &f->limits[f->policy.n_limits++];

    memset(l, 0, sizeof *l);
    snprintf(l->name, sizeof l->name, "%s", name);
    l->subject = s;
    l->unit = u;
    l->max = max;
    if (window)
        assert_true(window_parse(window, &l->window));
    return l;
}

static inline void set_address(struct demand *d, uint8_t last)
{
    const uint8_t a[5] = {4, 192, 0, 2, last};

    memcpy(d->caller.id[SUBJECT_ADDRESS].bytes, a, sizeof a);
    d->caller.id[SUBJECT_ADDRESS].n = sizeof a;
    d->caller.anonymous = true;
    memset(&d->hashes, 0, sizeof d->hashes); /* another request */
}

static inline void open_ledger(struct fixture *f)
{
    assert_int_equal(ledger_open(&f->options, false, &f->ledger), ERROR_NONE);
}

static inline void close_ledger(struct fixture *f)
{
    if (f->ledger)
        assert_true(ledger_close(f->ledger, 5000));
    f->ledger = NULL;
}

static inline void reopen(struct fixture *f)
{
    close_ledger(f);
    open_ledger(f);
}

static inline int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    const char *tmp = getenv("TMPDIR");

    assert_non_null(f);
    snprintf(f->dir, sizeof f->dir, "%s/pennygate-ledger-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(f->dir));
    fake_error = ERROR_NONE;
    memset(&fake_now, 0, sizeof fake_now);
    fake_now.wall_ms = START_MS;
    fake_now.boot_ms = 1000000;
    memset(fake_now.boot_id, 7, sizeof fake_now.boot_id);
    f->options.store = f->dir;
    memset(f->options.secret, 42, SECRET_SIZE);
    f->options.map_bytes = 4 << 20;
    f->options.clock = fake_clock;
    f->policy.limits = f->limits;
    f->policy.retention_ms = 7 * DAY_MS;
    f->demand.weights.of[UNIT_CALLS] = 1;
    f->demand.weights.of[UNIT_TOKENS] = 100;
    f->demand.weights.of[UNIT_COST] = 1000;
    f->demand.tokens_in = 60;
    f->demand.tokens_out = 40;
    f->demand.hold_ms = 60000;
    snprintf(f->demand.model, sizeof f->demand.model, "demo");
    set_address(&f->demand, 1);
    assert_int_equal(ledger_create(&f->options, "UTC0"), ERROR_NONE);
    open_ledger(f);
    *state = f;
    return 0;
}

/* As set_up, in place of *f, with durability lease in two directories of their own, whose names are
 * put into `store` and `run`; nothing is made in them. */
#define LEASED_PATH 80
static inline void set_up_leased(struct fixture *f, char store[LEASED_PATH],
                                 char run[LEASED_PATH])
{
    void *made;

    assert_int_equal(set_up(&made), 0);
    close_ledger(made);
    *f = *(struct fixture *)made;
    free(made);
    snprintf(store, LEASED_PATH, "%s/flash", f->dir);
    snprintf(run, LEASED_PATH, "%s/tmpfs", f->dir);
    assert_int_equal(mkdir(store, 0700) | mkdir(run, 0700), 0);
    f->options.store = store;
    f->options.run = run;
    f->options.lease = true;
    f->policy.limits = f->limits;
}

static inline int tear_down(void **state)
{
    struct fixture *f = *state;

    close_ledger(f);
    remove_store(f);
    free(f);
    return 0;
}

/* Asks as the service does: a check, then a reservation. */
static inline enum decision ask(struct fixture *f, struct answer *a, struct reservation *r)
{
    assert_int_equal(ledger_check(f->ledger, &f->policy, &f->demand, a), ERROR_NONE);
    if (a->decision != DECISION_ADMITTED)
        return a->decision;
    assert_int_equal(ledger_reserve(f->ledger, &f->policy, &f->demand, a, r), ERROR_NONE);
    return a->decision;
}

/* A request that must be admitted, of whoever f->demand is now. */
static inline struct reservation must_admit(struct fixture *f)
{
    struct reservation r;
    struct answer a;

    memset(&f->demand.hashes, 0, sizeof f->demand.hashes);
    assert_int_equal(ask(f, &a, &r), DECISION_ADMITTED);
    return r;
}

static inline void settle(struct fixture *f, const struct reservation *r, enum settle_kind kind,
                          uint64_t tokens, uint64_t cost)
{
    struct settlement s = {.kind = kind,
                           .real = {{1, tokens, cost}},
                           .tokens_in = tokens / 2,
                           .tokens_out = tokens - tokens / 2};

    assert_int_equal(ledger_settle(f->ledger, r, &s, true), ERROR_NONE);
}

static inline uint64_t used(struct fixture *f, unsigned limit)
{
    struct limit_use u;

    assert_int_equal(ledger_limit_use(f->ledger, &f->policy, limit, &u), ERROR_NONE);
    return u.used;
}

#endif
