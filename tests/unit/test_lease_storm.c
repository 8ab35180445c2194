/*
 * Power is lost at random moments, thousands of times: processes of a site with threads, which ask,
 * settle, replace and copy, are killed wherever they are, in restores and copies too; tmpfs is
 * wiped; hours, midnights and months pass meanwhile, and the clock may be days behind after a boot.
 * What they were admitted is known beside the store (lease_truth.h). It must never be more than any
 * limit's max in any window, nor more than the store knows afterwards; and what the store counts
 * beyond it in hour, day and month is what the lease had granted ahead, a part of 1/32 for each
 * segment, what was given back, and what nobody has heard the answer of.
 *
 * LEASE_STORMS: so many are killed; without it STORMS of them, or as many as BOUND_MS has time for.
 * LEASE_SEED: where the random numbers begin.
 */
#include "tests/unit/ledger_fixture.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "platform/file.h"
#include "store/copy.h"
#include "store/lease.h"
#include "store/ledger_parts.h"
#include "tests/unit/lease_truth.h"
#include "tests/unit/scratch.h"

#define N(a)     (sizeof(a) / sizeof((a)[0]))
#define STORMS   1500
#define BOUND_MS 40000 /* sanitizers, and machines with other work */
#define WORKERS  3
#define THREADS  2
#define TOKENS   40 /* a call's most */
#define COST     900
#define STOP_MS  20000
#define SHARE    32

/* Of everyone or anonymous; the windows that are asked for most are exhausted most. */
static const struct {
    enum subject subject;
    enum unit unit;
    const char *window;
    uint64_t max;
} limits[] = {
    {SUBJECT_EVERYONE, UNIT_CALLS, "hour", 160},
    {SUBJECT_EVERYONE, UNIT_CALLS, "day", 960},
    {SUBJECT_EVERYONE, UNIT_CALLS, "month", 9600},
    {SUBJECT_EVERYONE, UNIT_CALLS, "1h", 200},
    {SUBJECT_EVERYONE, UNIT_CALLS, "10s", 60},
    {SUBJECT_EVERYONE, UNIT_TOKENS, "hour", 4000},
    {SUBJECT_EVERYONE, UNIT_TOKENS, "1h", 5000},
    {SUBJECT_EVERYONE, UNIT_TOKENS, "day", 20000},
    {SUBJECT_EVERYONE, UNIT_COST, "day", 400000},
    {SUBJECT_EVERYONE, UNIT_COST, "month", 4000000},
    {SUBJECT_ANONYMOUS, UNIT_CALLS, "hour", 128},
    {SUBJECT_ANONYMOUS, UNIT_CALLS, "10s", 50},
    {SUBJECT_ANONYMOUS, UNIT_TOKENS, "day", 16000},
    {SUBJECT_ANONYMOUS, UNIT_COST, "1h", 90000},
    {SUBJECT_ANONYMOUS, UNIT_COST, "month", 3200000},
};

/* What all processes see, and the death of one does not take. */
struct common {
    atomic_llong wall_ms, boot_ms;
    uint8_t boot_id[16]; /* changes only while nobody runs */
    atomic_bool stop;    /* a clean one */
    struct truth truth;
};

static struct common *common;

struct world {
    struct fixture f; /* first */
    char flash[LEASED_PATH], tmpfs[LEASED_PATH];
    uint64_t random;
    int64_t real_ms;  /* what a right clock would show */
    int64_t month_ms; /* when the latest began */
    unsigned checked; /* events that sliding windows have been looked at for */
    /* of open segments in copies, this month and last */
    uint64_t twice[2][LEASE_SUBJECTS][UNITS_SUMMED];
    uint64_t beyond; /* calls counted in the hour and not used, over all comparisons */
    unsigned kills, restores_cut, starts, stops, exhausted, hours, compared;
};

static enum error common_clock(struct clock_now *out)
{
    out->wall_ms = atomic_load(&common->wall_ms);
    out->boot_ms = atomic_load(&common->boot_ms);
    memcpy(out->boot_id, common->boot_id, sizeof out->boot_id);
    return ERROR_NONE;
}

static void wait_us(long us)
{
    const struct timespec t = {0, us * 1000};

    (void)nanosleep(&t, NULL);
}

/* In place of the library's: SIGKILL takes nothing that was written, but flash needs its time, in
 * which everybody else goes on. */
int fsync(int fd)
{
    static atomic_uint calls;

    (void)fd;
    if (atomic_fetch_add(&calls, 1) % 4 == 0)
        wait_us(1000);
    return 0;
}

static uint64_t draw(uint64_t *random, uint64_t n)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random % n;
}

static enum error see_time(void *arg, const struct view_context *c)
{
    *(int64_t *)arg = storetime_now(&c->state->time, c->now);
    return ERROR_NONE;
}

static int64_t store_time(struct ledger *l)
{
    int64_t t = NEVER;

    (void)ledger_reading(l, see_time, &t);
    return t;
}

static void open_again(struct world *w)
{
    enum error e = ledger_open(&w->f.options, false, &w->f.ledger);

    if (e != ERROR_NONE)
        fail_msg("start %u: it cannot be opened: %s", w->starts, error_text(e));
}

/* ---- a process of the site, until it is killed ---- */

struct worker {
    struct fixture *f;
    uint64_t random;
    pthread_t thread;
};

static void demand_something(struct worker *w, struct demand *d)
{
    *d = w->f->demand;
    d->weights.of[UNIT_TOKENS] = 1 + draw(&w->random, TOKENS);
    d->weights.of[UNIT_COST] = 1 + draw(&w->random, COST);
    d->caller.anonymous = draw(&w->random, 4) > 0;
}

/* It is noted before the store is asked, so that what nobody hears of is known, too. */
static struct event *note_asked(struct worker *w, const struct demand *d, struct event *e)
{
    int64_t from = store_time(w->f->ledger);

    if (from == NEVER || (e == NULL && (e = truth_next(&common->truth)) == NULL))
        return NULL;
    e->from_ms = from;
    e->until_ms = e->slides_ms = NEVER;
    e->anonymous = d->caller.anonymous;
    e->reserved = d->weights;
    e->real = d->weights;
    atomic_store(&e->state, EVENT_ASKED);
    return e;
}

static void note_admitted(struct worker *w, struct event *e, const struct reservation *r)
{
    e->until_ms = store_time(w->f->ledger);
    e->slides_ms = e->until_ms == e->from_ms ? e->from_ms : NEVER;
    e->segment = r->segment;
    atomic_store(&e->state, EVENT_ADMITTED);
}

static struct settlement draw_settlement(struct worker *w, const struct reservation *r)
{
    struct settlement s = {.kind = SETTLE_USAGE, .real = r->reserved, .breaker_after = 1000};
    uint64_t kind = draw(&w->random, 8);

    if (kind == 0)
        s.kind = SETTLE_UNKNOWN;
    if (kind == 1)
        s.kind = SETTLE_NOTHING;
    if (kind <= 1)
        return s;
    for (unsigned u = UNIT_TOKENS; u < UNITS_SUMMED; u++)
        s.real.of[u] = kind == 2 ? r->reserved.of[u] + draw(&w->random, 50)
                                 : draw(&w->random, r->reserved.of[u] + 1);
    return s;
}

/* More than was reserved is known to the store once it has committed it; less has been used from
 * the answer's end on. */
static void settle_event(struct worker *w, struct event *e, const struct reservation *r)
{
    static const struct amounts nothing;
    struct settlement s = draw_settlement(w, r);
    const struct amounts real = s.kind == SETTLE_NOTHING ? nothing : s.real;
    bool over = real.of[UNIT_TOKENS] > r->reserved.of[UNIT_TOKENS] ||
                real.of[UNIT_COST] > r->reserved.of[UNIT_COST];
    struct clock_now now;

    if (!over)
        e->real = real;
    enum error failed = ledger_settle(w->f->ledger, r, &s, over || draw(&w->random, 2) == 0);
    (void)common_clock(&now);
    if (over && failed == ERROR_NONE && now.boot_ms < r->deadline_boot_ms)
        e->real = real;
}

static void replace(struct worker *w, struct event *first, struct reservation *r)
{
    const struct settlement nothing = {.kind = SETTLE_NOTHING, .breaker_after = 1000};
    struct event *e;
    struct demand d;
    struct answer a;

    demand_something(w, &d);
    d.caller.anonymous = first->anonymous;
    memset(&first->real, 0, sizeof first->real);
    if ((e = note_asked(w, &d, NULL)) == NULL ||
        ledger_replace(w->f->ledger, &w->f->policy, &d, &nothing, &a, r) != ERROR_NONE)
        return;
    if (a.decision == DECISION_ADMITTED)
        note_admitted(w, e, r);
    else
        atomic_store(&e->state, EVENT_NONE);
    if (a.decision == DECISION_ADMITTED)
        settle_event(w, e, r);
}

static void use(struct worker *w, struct event *e, struct reservation *r)
{
    uint64_t what = draw(&w->random, 8);

    if (what == 0)
        replace(w, e, r);
    else if (what < 6)
        settle_event(w, e, r);
    ledger_release(w->f->ledger, r);
}

/* As the service does: a check, then a reservation. *unheard: an event to be used again. */
static bool ask_once(struct worker *w, struct event **unheard)
{
    struct ledger *l = w->f->ledger;
    struct reservation r;
    struct demand d;
    struct answer a;

    demand_something(w, &d);
    if (ledger_check(l, &w->f->policy, &d, &a) != ERROR_NONE || a.decision != DECISION_ADMITTED)
        return false;
    struct event *e = note_asked(w, &d, *unheard);
    *unheard = NULL;
    if (e == NULL || ledger_reserve(l, &w->f->policy, &d, &a, &r) != ERROR_NONE)
        return false;
    if (a.decision != DECISION_ADMITTED) {
        atomic_store(&e->state, EVENT_NONE);
        *unheard = e;
        return false;
    }
    note_admitted(w, e, &r);
    use(w, e, &r);
    return true;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct event *unheard = NULL;

    while (!atomic_load(&common->stop)) {
        if (draw(&w->random, 40) == 0)
            (void)ledger_copy(w->f->ledger, &w->f->policy);
        else if (!ask_once(w, &unheard))
            (void)poll(NULL, 0, 1); /* as callers come again later */
    }
    return NULL;
}

static _Noreturn void be_a_process(struct fixture *f, uint64_t random)
{
    struct worker w[THREADS];
    enum error e = ledger_open(&f->options, false, &f->ledger);

    if (e != ERROR_NONE)
        _exit((int)e);
    for (unsigned i = 0; i < THREADS; i++) {
        w[i] = (struct worker){.f = f, .random = random + i};
        if (pthread_create(&w[i].thread, NULL, work, &w[i]) != 0)
            _exit(255);
    }
    for (unsigned i = 0; i < THREADS; i++)
        (void)pthread_join(w[i].thread, NULL);
    ledger_copy_last(f->ledger, STOP_MS);
    _exit(ledger_close(f->ledger, STOP_MS) ? 0 : 255);
}

/* ---- time ---- */

static void move_clock(struct world *w, int64_t ms)
{
    w->real_ms += ms;
    atomic_fetch_add(&common->boot_ms, ms);
    atomic_fetch_add(&common->wall_ms, ms);
}

static void set_clock(struct world *w)
{
    atomic_store(&common->wall_ms, w->real_ms);
}

static void pass_some_time(struct world *w)
{
    const int64_t to_hour = HOUR_MS - w->real_ms % HOUR_MS;
    const int64_t to_day = DAY_MS - w->real_ms % DAY_MS;

    switch (draw(&w->random, 24)) {
    case 0: /* the edge of an hour, of a day */
        move_clock(w, to_hour - (int64_t)draw(&w->random, 1500));
        break;
    case 1:
        move_clock(w, to_day - (int64_t)draw(&w->random, 1500));
        break;
    case 2:
    case 3:
        move_clock(w, (int64_t)draw(&w->random, 40 * 60000));
        break;
    case 4:
        if (draw(&w->random, 4) == 0)
            move_clock(w, (int64_t)draw(&w->random, 6 * DAY_MS));
        else
            set_clock(w);
        break;
    default:
        move_clock(w, (int64_t)draw(&w->random, 4000));
    }
}

/* Without a battery the clock begins anywhere in the past, at 1970 too. */
static void boot(struct world *w)
{
    common->boot_id[draw(&w->random, 16)]++;
    atomic_store(&common->boot_ms, 1000 + (int64_t)draw(&w->random, 9000));
    set_clock(w);
    if (draw(&w->random, 6) == 0)
        atomic_store(
            &common->wall_ms,
            draw(&w->random, 3) == 0 ? 0 : w->real_ms - (int64_t)draw(&w->random, 40 * DAY_MS));
}

/* ---- power ---- */

static pid_t begin_process(struct world *w)
{
    uint64_t random = draw(&w->random, UINT64_MAX - THREADS) + 1;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0)
        be_a_process(&w->f, random);
    return child;
}

/* Whoever has ended by himself could not open the store, or not end in time. */
static void kill_one(struct world *w, pid_t child)
{
    int status;

    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFSIGNALED(status))
        fail_msg("a process: %s", WEXITSTATUS(status) < ERRORS
                                      ? error_text((enum error)WEXITSTATUS(status))
                                      : "it did not end");
    w->kills++;
}

static void work_and_die(struct world *w)
{
    pid_t child[WORKERS];
    unsigned n = 1 + (unsigned)draw(&w->random, WORKERS);

    for (unsigned i = 0; i < n; i++)
        child[i] = begin_process(w);
    for (unsigned i = 0; i < n; i++) {
        /* the moment of death */
        wait_us((long)draw(&w->random, draw(&w->random, 2) == 0 ? 1500 : 12000));
        if (draw(&w->random, 3) == 0)
            pass_some_time(w);
        kill_one(w, child[i]);
    }
}

static void wipe(struct world *w)
{
    assert_int_equal(nftw(w->tmpfs, scratch_remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
    assert_int_equal(mkdir(w->tmpfs, 0700), 0);
}

/* Somebody who restores is killed while he does. */
static void restore_and_die(struct world *w)
{
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        enum error e = ledger_open(&w->f.options, false, &w->f.ledger);

        if (e != ERROR_NONE)
            _exit((int)e);
        scratch_stay();
    }
    wait_us((long)draw(&w->random, 1500));
    kill_one(w, child);
    w->restores_cut++;
}

static enum error see_row(void *arg, struct row_key *key, struct record *value)
{
    const struct kv_slice v = {value->bytes, value->n};
    struct row_key lease;

    key_lease(&lease);
    if (key->n == lease.n && memcmp(key->bytes, lease.bytes, key->n) == 0 &&
        !record_lease_read(&v, arg))
        return ERROR_STORE_INVALID;
    return ERROR_NONE;
}

static struct lease_row row_of_copy(const struct world *w)
{
    struct lease_row row = {.closed = true};
    char *path = file_join(w->flash, "copy");
    uint8_t uuid[16];

    assert_int_equal(copy_read(path, w->f.options.secret, uuid, see_row, &row), ERROR_NONE);
    free(path);
    return row;
}

/* What a copy has of a segment that was not closed then is charged once more with the segment. */
static void note_open_segment(struct world *w)
{
    const struct lease_row row = row_of_copy(w);

    for (unsigned i = 0; i < LEASE_SUBJECTS && !row.closed; i++)
        for (unsigned u = 0; u < UNITS_SUMMED; u++)
            w->twice[0][i][u] += row.charged[i].of[u];
}

static void lose_power(struct world *w)
{
    note_open_segment(w);
    wipe(w);
    if (draw(&w->random, 4) > 0)
        boot(w); /* else only tmpfs has gone */
    w->starts++;
    while (draw(&w->random, 4) == 0)
        restore_and_die(w);
}

/* ---- the store against the truth ---- */

static struct span span_of(const struct limit *l, int64_t now_ms)
{
    static const struct zone utc;
    struct span s = {.anonymous = l->subject == SUBJECT_ANONYMOUS,
                     .slides = l->window.kind == WINDOW_SLIDING};
    struct slot slot[WINDOW_SLOTS_MAX];

    (void)window_slots(l->window, &utc, now_ms, slot);
    s.from_ms = s.slides ? now_ms - (int64_t)l->window.seconds * 1000 + 1
                         : window_begins_ms(l->window, &utc, now_ms);
    s.until_ms = s.slides ? now_ms + 1 : window_frees_ms(l->window, &utc, now_ms, slot);
    return s;
}

static uint64_t granted_ahead(const struct world *w, const struct limit *l)
{
    uint64_t share = UINT64_MAX;

    for (unsigned i = 0; i < N(limits); i++) {
        const struct limit *other = &w->f.limits[i];

        if (other->subject == l->subject && other->unit == l->unit &&
            window_seconds(other->window) >= 3600 && other->max / SHARE < share)
            share = other->max / SHARE;
    }
    return share;
}

static void compare_waste(struct world *w, const struct limit *l, const struct span *s,
                          uint64_t counted, uint64_t real)
{
    unsigned i = l->subject == SUBJECT_ANONYMOUS ? LEASE_ANONYMOUS : LEASE_EVERYONE;
    uint64_t ahead = granted_ahead(w, l) * truth_segments(&common->truth, s);
    uint64_t most = real + ahead + truth_unsure(&common->truth, s, l->unit) +
                    w->twice[0][i][l->unit] + w->twice[1][i][l->unit];

    if (counted > most)
        fail_msg("start %u: %s: %llu counted, %llu used, at most %llu can be", w->starts,
                 l->name, (unsigned long long)counted, (unsigned long long)real,
                 (unsigned long long)most);
}

static void must_be_within(const struct world *w, const struct limit *l, uint64_t admitted)
{
    if (admitted > l->max)
        fail_msg("start %u: %s: %llu of %llu were admitted", w->starts, l->name,
                 (unsigned long long)admitted, (unsigned long long)l->max);
}

/* Of what was admitted since the last time, by the store time of then. */
static void compare_sliding(struct world *w)
{
    for (unsigned i = 0; i < N(limits); i++) {
        const struct limit *l = &w->f.limits[i];

        if (l->window.kind == WINDOW_SLIDING)
            must_be_within(w, l,
                           truth_most(&common->truth, w->checked, l->window.seconds * 1000,
                                      l->subject == SUBJECT_ANONYMOUS, l->unit));
    }
}

static void compare_limit(struct world *w, unsigned number, int64_t now_ms)
{
    const struct limit *l = &w->f.limits[number];
    const struct span s = span_of(l, now_ms);
    uint64_t counted = used(&w->f, number);
    uint64_t real = truth_used(&common->truth, &s, l->unit, false);

    if (counted < real)
        fail_msg("start %u: %s: %llu were used, it knows %llu", w->starts, l->name,
                 (unsigned long long)real, (unsigned long long)counted);
    if (!s.slides) {
        must_be_within(w, l, truth_used(&common->truth, &s, l->unit, true));
        compare_waste(w, l, &s, counted, real);
    }
    w->exhausted += counted >= l->max;
    if (number == 0)
        w->beyond += counted - real;
}

/* What no window has any more is forgotten, a while later: a clock that is behind after a boot can
 * lead back to the month of the copy. */
static void forget_ended(struct world *w, int64_t now_ms)
{
    static const struct zone utc;
    int64_t month_ms = window_begins_ms((struct window){WINDOW_MONTH, 0}, &utc, now_ms);

    if (month_ms <= w->month_ms)
        return;
    w->month_ms = month_ms;
    memcpy(w->twice[1], w->twice[0], sizeof w->twice[1]);
    memset(w->twice[0], 0, sizeof w->twice[0]);
    truth_forget(&common->truth, month_ms - 31 * DAY_MS);
    w->checked = atomic_load(&common->truth.n);
}

static void compare(struct world *w)
{
    static int64_t hour;

    assert_true(atomic_load(&common->truth.n) < EVENTS_MAX);
    compare_sliding(w);
    open_again(w);
    int64_t now = store_time(w->f.ledger);
    truth_is_now(&common->truth, now);
    for (unsigned i = 0; i < N(limits); i++)
        compare_limit(w, i, now);
    w->checked = atomic_load(&common->truth.n);
    forget_ended(w, now);
    w->compared++;
    w->hours += now / HOUR_MS != hour;
    hour = now / HOUR_MS;
    close_ledger(&w->f);
}

static enum error see_live_row(void *arg, const struct view_context *c)
{
    struct lease_row *out = arg;
    struct kv_slice value;
    struct row_key key;

    key_lease(&key);
    enum error e = kv_get(c->txn, key.bytes, key.n, &value);
    if (e == ERROR_NONE && !record_lease_read(&value, out))
        e = ERROR_STORE_INVALID;
    return e == ERROR_NOT_FOUND ? ERROR_NONE : e;
}

/* What a start has to charge: nothing but a segment that no row has, since somebody was killed when
 * it began. One that was over when the rows were restored was charged nowhere, so that they did not
 * differ from the copy and none was made; its month has ended. */
static void left_in_lease(const struct world *w, struct amounts out[LEASE_SUBJECTS])
{
    static const struct zone utc;
    const struct lease_row in_copy = row_of_copy(w);
    struct ledger *l = w->f.ledger;
    struct lease_row row = {.closed = true};
    struct lease lease;
    const int64_t month_ms =
        window_begins_ms((struct window){WINDOW_MONTH, 0}, &utc, store_time(l));

    assert_int_equal(ledger_reading(l, see_live_row, &row), ERROR_NONE);
    memset(out, 0, LEASE_SUBJECTS * sizeof *out);
    assert_int_equal(lease_read(l->path_lease, l->options.secret, l->schema.uuid, &lease),
                     ERROR_NONE);
    for (unsigned i = 0; i < lease.n; i++) {
        const struct lease_segment *s = &lease.segment[i];

        if (s->serial < lease_first_after(&in_copy))
            continue;
        if (s->serial <= row.segment.serial) {
            assert_true(s->day * DAY_MS < month_ms);
            continue;
        }
        for (unsigned k = 0; k < LEASE_SUBJECTS * UNITS_SUMMED; k++)
            out[k / UNITS_SUMMED].of[k % UNITS_SUMMED] +=
                s->granted[k / UNITS_SUMMED].of[k % UNITS_SUMMED];
    }
}

static void start_after_stop(struct world *w)
{
    struct amounts left[LEASE_SUBJECTS];
    uint64_t before[N(limits)];

    open_again(w);
    for (unsigned i = 0; i < N(limits); i++)
        before[i] = used(&w->f, i);
    left_in_lease(w, left);
    close_ledger(&w->f);
    wipe(w);
    open_again(w);
    for (unsigned i = 0; i < N(limits); i++) {
        const struct limit *l = &w->f.limits[i];

        assert_in_range(used(&w->f, i), before[i],
                        before[i] + left[l->subject == SUBJECT_ANONYMOUS].of[l->unit]);
    }
    close_ledger(&w->f);
}

/* All that has been counted is in the copy then, and nothing else. */
static void stop_cleanly(struct world *w)
{
    pid_t child[WORKERS];

    for (unsigned i = 0; i < WORKERS; i++)
        child[i] = begin_process(w);
    wait_us(5000);
    atomic_store(&common->stop, true);
    for (unsigned i = 0; i < WORKERS; i++)
        assert_int_equal(scratch_wait(child[i]), 0);
    atomic_store(&common->stop, false);
    start_after_stop(w);
    w->stops++;
}

static void never_over_and_what_is_wasted_is_within_the_lease(void **state)
{
    const char *storms = getenv("LEASE_STORMS"), *seed = getenv("LEASE_SEED");
    unsigned kills = storms ? (unsigned)strtoul(storms, NULL, 10) : STORMS;
    struct world *w = *state;
    int64_t begun = clock_monotonic_ms(), calls = 0;

    w->random = 0x9E3779B97F4A7C15ULL * ((seed ? strtoull(seed, NULL, 10) : 0) + 1);
    while (w->kills < kills && (storms || clock_monotonic_ms() - begun < BOUND_MS)) {
        work_and_die(w);
        calls += (int64_t)atomic_load(&common->truth.n) - w->checked;
        if (draw(&w->random, 8) > 0)
            lose_power(w);
        if (draw(&w->random, 16) == 0)
            stop_cleanly(w);
        compare(w);
        pass_some_time(w);
    }
    print_message("%u killed, %u of them at restoring, %u power losses, %u clean stops, %lld "
                  "calls, %u hours, %u times exhausted, in %lld s; of an hour's %u calls %llu "
                  "were counted and not used on average\n",
                  w->kills, w->restores_cut, w->starts, w->stops, (long long)calls, w->hours,
                  w->exhausted, (long long)(clock_monotonic_ms() - begun) / 1000,
                  (unsigned)limits[0].max, (unsigned long long)(w->beyond / w->compared));
#ifndef __SANITIZE_THREAD__ /* which is too slow for much to happen between two kills */
    assert_true(calls > w->kills && w->exhausted > 0 && w->hours > w->kills / 100);
#endif
}

static int set_up_world(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    struct fixture *f;

    assert_non_null(w);
    set_up_leased(&w->f, w->flash, w->tmpfs);
    f = &w->f;
    *state = w;
    f->options.clock = common_clock;
    for (unsigned i = 0; i < N(limits); i++) {
        char name[LIMIT_NAME_MAX];

        snprintf(name, sizeof name, "%s-%u-%s",
                 limits[i].subject == SUBJECT_EVERYONE ? "everyone" : "anonymous",
                 (unsigned)limits[i].unit, limits[i].window);
        add_limit(f, name, limits[i].subject, limits[i].unit, limits[i].window, limits[i].max);
    }
    add_limit(f, "address", SUBJECT_ADDRESS, UNIT_CALLS, "8h", 1000000);
    common =
        mmap(NULL, sizeof *common, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(common != MAP_FAILED);
    w->real_ms = START_MS + 10 * HOUR_MS;
    set_clock(w);
    atomic_store(&common->boot_ms, 1000000);
    assert_int_equal(ledger_create(&f->options, "UTC0"), ERROR_NONE);
    return 0;
}

static int tear_down_world(void **state)
{
    munmap(common, sizeof *common);
    return tear_down(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(
        never_over_and_what_is_wasted_is_within_the_lease, set_up_world, tear_down_world)};

    if (access("/dev/shm", W_OK) == 0) /* what is not synced is killed more often */
        (void)setenv("TMPDIR", "/dev/shm", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
