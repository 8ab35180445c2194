/*
 * The lease against a model, in a long random walk: calls are charged and settled, copies made step
 * by step, hours, midnights and zones change, the clock is reset, transactions fail, and the power
 * goes at any of these moments. What is restored is never less than what was used, in any window,
 * now or later; and not more than it by more than the lease's own:
 *
 *     restored - live  <=  granted - charged, of each segment that the copy lacks
 *                        + what the copy already has of a segment that was under way
 *                        + what was given back, since the copy, of what was charged before it
 *                        + what was used, since the copy, beyond reservations of earlier dates
 *
 * for a calendar window. A sliding one has a segment's amounts in its newest slot, although what
 * was charged may be near its end there, or past it if the window is shorter than the segment.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/lease_fixture.h"

#define N(a)  (sizeof(a) / sizeof((a)[0]))
#define STEPS 12000

static const char *const texts[] = {"hour", "day", "month", "10s", "1h", "8h", "30d"};
#define WINDOWS N(texts)
#define DAY     1
static struct window windows[WINDOWS];

static const enum subject subjects[LEASE_SUBJECTS] = {SUBJECT_EVERYONE, SUBJECT_ANONYMOUS};

/* ---- counters, as a table in memory ---- */

#define ENTRIES 4096
struct entry {
    unsigned subject, window; /* indices */
    int64_t end_ms;           /* names the slot */
    struct amounts used;
};
struct counters {
    unsigned n;
    struct entry of[ENTRIES];
};

static struct entry *find_entry(struct counters *t, unsigned subject, unsigned window,
                                int64_t end_ms)
{
    for (struct entry *e = t->of; e < t->of + t->n; e++)
        if (e->subject == subject && e->window == window && e->end_ms == end_ms)
            return e;
    return NULL;
}

static struct entry *entry_of(struct counters *t, unsigned subject, unsigned window,
                              int64_t end_ms)
{
    struct entry *e = find_entry(t, subject, window, end_ms);

    if (e)
        return e;
    assert_true(t->n < ENTRIES);
    e = &t->of[t->n++];
    *e = (struct entry){subject, window, end_ms, {{0}}};
    return e;
}

static void drop_ended(struct counters *t, int64_t t_ms)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < t->n; i++)
        if (t->of[i].end_ms > t_ms - 2 * DAY_MS)
            t->of[kept++] = t->of[i];
    t->n = kept;
}

/* What the window has at the instant; of a sliding one also what was charged later, before store
 * time came back from there. */
static uint64_t sum_at(const struct counters *t, unsigned subject, unsigned window,
                       const struct zone *z, int64_t t_ms, unsigned unit)
{
    struct slot slot[WINDOW_SLOTS_MAX];
    uint64_t sum = 0;

    (void)window_slots(windows[window], z, t_ms, slot);
    for (const struct entry *e = t->of; e < t->of + t->n; e++) {
        bool counts = windows[window].kind == WINDOW_SLIDING ? e->end_ms > t_ms
                                                             : e->end_ms == slot->end_ms;

        if (e->subject == subject && e->window == window && counts)
            sum += e->used.of[unit];
    }
    return sum;
}

/* ---- the world ---- */

struct call {
    struct reservation of;
    unsigned crash; /* how many there had been: after one nobody settles it */
    bool anonymous, since_reset;
    int64_t end_ms[WINDOWS];
};
#define CALLS 32

struct world {
    struct leased *f;
    uint64_t random;
    struct zone utc, local;
    bool is_local;
    struct counters used;   /* what has really been used */
    struct counters live;   /* what the live rows say */
    struct counters copied; /* what those of the copy say */
    struct counters before; /* what had been used at a clock reset that no copy knows */
    struct counters since;  /* what has been since then */
    struct lease_row copied_row;
    int64_t copied_ms;
    struct counters taken; /* a copy that is not on flash yet */
    struct lease_row taken_row;
    int64_t taken_ms;
    int64_t restored_ms;     /* store time after the last power loss */
    unsigned copying;        /* 0: not; 1: closed; 2: rows taken; 3: on flash */
    bool reset, taken_reset; /* the clock was: no copy knows, or not the one that is taken */
    unsigned n_calls, crashes, resets, lost_resets;
    struct call call[CALLS];
    /* since the rows of the copy, and since those that are taken, per subject and unit */
    struct amounts beyond[LEASE_SUBJECTS], beyond_taken[LEASE_SUBJECTS];
    struct {
        uint64_t serial;
        struct amounts net[LEASE_SUBJECTS];
    } net[4 * LEASE_SEGMENTS]; /* by serial */
};

static uint64_t draw(struct world *w, uint64_t n)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return w->random % n;
}

static int64_t *store_ms(struct world *w)
{
    return &w->f->b.state.time.time_ms;
}

static const struct zone *zone_of(const struct world *w)
{
    return w->is_local ? &w->local : &w->utc;
}

static bool concerns(bool anonymous, unsigned subject)
{
    return subject == LEASE_EVERYONE || anonymous;
}

static struct amounts *net_of(struct world *w, uint64_t serial)
{
    unsigned at = (unsigned)(serial % N(w->net));

    if (w->net[at].serial != serial) {
        memset(&w->net[at], 0, sizeof w->net[at]);
        w->net[at].serial = serial;
    }
    return w->net[at].net;
}

static void add(struct amounts *a, const struct amounts *more, const struct amounts *minus)
{
    for (unsigned u = 0; u < UNITS_SUMMED; u++) {
        assert_true(a->of[u] + more->of[u] >= minus->of[u]);
        a->of[u] = a->of[u] + more->of[u] - minus->of[u];
    }
}

static void charge_entries(const struct world *w, struct counters *t, const struct call *c)
{
    for (unsigned i = 0; i < WINDOWS; i++)
        for (unsigned s = 0; s < LEASE_SUBJECTS; s++)
            if (concerns(c->anonymous, s))
                add(&entry_of(t, s, i, c->end_ms[i])->used, &c->of.reserved, &w->f->none);
}

/* One that has ended is gone, and stays so. */
static void settle_entries(struct counters *t, const struct call *c, const struct amounts *real)
{
    for (unsigned i = 0; i < WINDOWS; i++)
        for (unsigned s = 0; s < LEASE_SUBJECTS; s++) {
            struct entry *e = find_entry(t, s, i, c->end_ms[i]);

            if (e && concerns(c->anonymous, s))
                add(&e->used, real, &c->of.reserved);
        }
}

static void find_slots(struct world *w, struct call *c)
{
    for (unsigned i = 0; i < WINDOWS; i++) {
        struct slot slot[WINDOW_SLOTS_MAX];

        (void)window_slots(windows[i], zone_of(w), *store_ms(w), slot);
        c->end_ms[i] = slot->end_ms;
    }
}

/* ---- copies ---- */

static void copy_step(struct world *w)
{
    struct leased *f = w->f;

    switch (w->copying++) {
    case 0:
        assert_error(lease_close(f), ERROR_NONE);
        break;
    case 1:
        w->taken = w->live;
        w->taken_row = lease_row(f);
        w->taken_ms = *store_ms(w);
        w->taken_reset = false;
        memset(w->beyond_taken, 0, sizeof w->beyond_taken);
        break;
    case 2:
        w->copied = w->taken;
        w->copied_row = w->taken_row;
        w->copied_ms = w->taken_ms;
        memcpy(w->beyond, w->beyond_taken, sizeof w->beyond);
        w->reset = w->taken_reset;
        break;
    case 3:
        assert_error(lease_let_go(f, lease_first_after(&w->copied_row)), ERROR_NONE);
        w->copying = 0;
        break;
    }
}

static void copy_now(struct world *w)
{
    do
        copy_step(w);
    while (w->copying != 0);
    atomic_store(&w->f->ledger.wants_copy, false);
}

/* As batch_run does: a full file has a copy made, and then it is tried again. */
static bool is_full(struct world *w, enum error e)
{
    if (e != ERROR_BUSY) {
        assert_error(e, ERROR_NONE);
        return false;
    }
    assert_true(atomic_load(&w->f->ledger.wants_copy));
    copy_now(w);
    return true;
}

/* ---- what happens ---- */

static void set_view(struct world *w, bool anonymous)
{
    struct leased *f = w->f;

    f->view.present = 1U << SUBJECT_ADDRESS | 1U << SUBJECT_EVERYONE;
    f->view.present |= anonymous ? 1U << SUBJECT_ANONYMOUS : 0;
    f->op.policy.local_time = w->is_local;
}

static void charge_call(struct world *w)
{
    struct leased *f = w->f;
    struct call c = {.anonymous = draw(w, 3) > 0, .since_reset = w->reset, .crash = w->crashes};

    if (w->n_calls == CALLS)
        return;
    c.of.reserved = (struct amounts){{1, draw(w, 500), draw(w, 90000)}};
    set_view(w, c.anonymous);
    for (unsigned s = 0; s < f->view.n; s++)
        f->view.counter[s].slot[0].used.of[UNIT_CALLS] =
            sum_at(&w->live, LEASE_EVERYONE, DAY, zone_of(w), *store_ms(w), UNIT_CALLS);
    while (is_full(w, lease_charge(f, c.of.reserved.of[0], c.of.reserved.of[1],
                                   c.of.reserved.of[2], &c.of)))
        ;
    c.since_reset = w->reset; /* a copy may have been made */
    find_slots(w, &c);
    charge_entries(w, &w->used, &c);
    charge_entries(w, &w->live, &c);
    if (w->reset)
        charge_entries(w, &w->since, &c);
    for (unsigned s = 0; s < LEASE_SUBJECTS; s++)
        if (concerns(c.anonymous, s))
            add(&net_of(w, c.of.segment)[s], &c.of.reserved, &f->none);
    w->call[w->n_calls++] = c;
}

/* Whatever was written to the file before the transaction failed. */
static void charge_in_vain(struct world *w)
{
    struct leased *f = w->f;
    struct reservation r;

    set_view(w, draw(w, 2) == 0);
    f->op.demand.weights = (struct amounts){{1, draw(w, 500), draw(w, 90000)}};
    lease_begin(f);
    (void)batch_lease_charge(&f->b, &f->op, &f->view, &r);
    kv_abort(f->b.txn);
}

static void note_settled(struct world *w, const struct call *c, const struct amounts *real,
                         uint64_t segment_before, bool closed_before)
{
    bool own = !closed_before && segment_before == c->of.segment;
    struct lease_row row = lease_row(w->f);

    for (unsigned s = 0; s < LEASE_SUBJECTS; s++)
        for (unsigned u = 0; u < UNITS_SUMMED && concerns(c->anonymous, s); u++) {
            uint64_t over =
                c->end_ms[0] == 0 ? 0 : amount_subtract(real->of[u], c->of.reserved.of[u]);
            uint64_t back = amount_subtract(c->of.reserved.of[u], real->of[u]);

            net_of(w, row.segment.serial)[s].of[u] += over;
            if (own)
                net_of(w, c->of.segment)[s].of[u] -= back;
            w->beyond[s].of[u] += over + (own ? 0 : back);
            w->beyond_taken[s].of[u] += over + (own ? 0 : back);
        }
}

static void settle_call(struct world *w)
{
    struct leased *f = w->f;

    if (w->n_calls == 0)
        return;
    struct call *at = &w->call[draw(w, w->n_calls)], c = *at;
    *at = w->call[--w->n_calls];
    if (c.crash != w->crashes)
        return; /* its process is gone, and it stays charged */
    struct amounts real = c.of.reserved;
    real.of[UNIT_CALLS] = draw(w, 10) > 0;
    real.of[UNIT_TOKENS] = draw(w, 20) ? draw(w, c.of.reserved.of[UNIT_TOKENS] + 1)
                                       : c.of.reserved.of[UNIT_TOKENS] + draw(w, 300);
    real.of[UNIT_COST] =
        draw(w, 5) ? draw(w, c.of.reserved.of[UNIT_COST] + 1) : real.of[UNIT_COST];
    set_view(w, c.anonymous);
    struct lease_row before;
    do
        before = lease_row(f);
    while (is_full(w, lease_settle(f, &c.of, c.end_ms[0] != 0, real)));
    note_settled(w, &c, &real, before.segment.serial, before.closed);
    settle_entries(&w->used, &c, &real);
    settle_entries(&w->live, &c, &real);
    if (w->reset && c.since_reset)
        settle_entries(&w->since, &c, &real);
}

static void pass(struct world *w)
{
    static const int64_t longest_ms[] = {2000, 60000, HOUR_MS / 4, 3 * HOUR_MS, DAY_MS};

    *store_ms(w) +=
        (int64_t)draw(w, (uint64_t)longest_ms[draw(w, 12) < 10 ? draw(w, 3) : draw(w, 5)]);
    drop_ended(&w->used, *store_ms(w));
    drop_ended(&w->live, *store_ms(w));
    drop_ended(&w->since, *store_ms(w));
}

/* As reset.c: what is in the windows of one time is in those of another, in the newest slot. */
static void carry(const struct counters *from, int64_t from_ms, const struct zone *z,
                  int64_t to_ms, struct counters *out)
{
    memset(out, 0, sizeof *out);
    for (unsigned i = 0; i < WINDOWS; i++)
        for (unsigned s = 0; s < LEASE_SUBJECTS; s++) {
            struct slot slot[WINDOW_SLOTS_MAX];

            (void)window_slots(windows[i], z, to_ms, slot);
            for (unsigned u = 0; u < UNITS_SUMMED; u++)
                entry_of(out, s, i, slot->end_ms)->used.of[u] =
                    sum_at(from, s, i, z, from_ms, u);
        }
}

/* Store time goes back; calls under way keep their places and settle nothing. */
static void reset_clock(struct world *w)
{
    int64_t old_ms = *store_ms(w), new_ms = old_ms - (int64_t)draw(w, 30 * DAY_MS);
    static struct counters carried;

    if (w->reset || draw(w, 4) > 0)
        return;
    assert_error(lease_close(w->f), ERROR_NONE);
    *store_ms(w) = new_ms;
    w->before = w->used;
    w->since.n = 0;
    carry(&w->used, old_ms, zone_of(w), new_ms, &carried);
    w->used = carried;
    carry(&w->live, old_ms, zone_of(w), new_ms, &carried);
    w->live = carried;
    for (unsigned i = 0; i < w->n_calls; i++)
        memset(w->call[i].end_ms, 0, sizeof w->call[i].end_ms);
    w->reset = w->taken_reset = true;
    w->resets++;
}

static void change_zone(struct world *w)
{
    w->is_local = !w->is_local;
}

/* ---- the power goes ---- */

static void put_rows(struct kv_txn *t, const struct counters *rows)
{
    static const uint8_t none[SUBJECT_HASH];

    for (unsigned i = 0; i < rows->n; i++) {
        const struct entry *e = &rows->of[i];
        struct slot slot = {.end_ms = e->end_ms};
        struct row_key key;
        struct record r;

        key_counter(windows[e->window], &slot, subjects[e->subject], none, &key);
        record_amounts(&e->used, &r);
        assert_error(kv_put(t, key.bytes, key.n, r.bytes, r.n), ERROR_NONE);
    }
}

static unsigned window_of(uint32_t code)
{
    unsigned i = 0;

    while (i < WINDOWS && window_code(windows[i]) != code)
        i++;
    assert_true(i < WINDOWS);
    return i;
}

static enum error take_back(void *arg, struct kv_cursor *c, const struct kv_slice *key,
                            const struct kv_slice *value)
{
    struct counters *out = arg;
    const uint8_t *bytes = key->data;
    bool day = bytes[0] == TABLE_DAY;
    struct amounts a;
    int64_t end_ms;

    assert_true(key_instant(day ? TABLE_DAY : TABLE_COUNTER, key, &end_ms));
    assert_true(record_amounts_read(value, &a));
    unsigned s = bytes[day ? 9 : 13] == SUBJECT_EVERYONE ? LEASE_EVERYONE : LEASE_ANONYMOUS;
    entry_of(out, s, day ? DAY : window_of(key_window(key)), end_ms)->used = a;
    return kv_cursor_delete(c);
}

/* Loads the copy, charges the lease, and takes the rows out again. */
static void restore(struct world *w, const struct lease *l)
{
    const struct row_key from = {.n = 1, .bytes = {TABLE_DAY}};
    const struct restore_time when = {&w->local, w->copied_ms, *store_ms(w)};
    uint32_t codes[WINDOWS];
    unsigned charged;
    const bool has_row = w->copied_row.segment.serial != 0;

    for (unsigned i = 0; i < WINDOWS; i++)
        codes[i] = window_code(windows[i]);
    struct kv_txn *t = begin_write(w->f->ledger.kv);
    put_rows(t, &w->copied);
    assert_error(
        lease_restore(t, l, has_row ? &w->copied_row : NULL, &when, codes, WINDOWS, &charged),
        ERROR_NONE);
    w->live.n = 0;
    assert_error(rows_each(t, &from, take_back, &w->live), ERROR_NONE);
    struct lease_row row = {.segment.serial = w->copied_row.segment.serial, .closed = true};
    if (l->n > 0 && l->segment[l->n - 1].serial > row.segment.serial)
        row.segment.serial = l->segment[l->n - 1].serial;
    struct row_key key;
    struct record r;
    key_lease(&key);
    record_lease(&row, &r);
    assert_error(kv_put(t, key.bytes, key.n, r.bytes, r.n), ERROR_NONE);
    assert_error(kv_commit(t), ERROR_NONE);
}

/* In every window, now and at later times, by either zone. */
static void expect_no_less(struct world *w)
{
    static const int64_t later_ms[] = {0,           1,          1250,        11249,
                                       HOUR_MS / 2, HOUR_MS,    9 * HOUR_MS, 12 * HOUR_MS,
                                       DAY_MS,      2 * DAY_MS, 20 * DAY_MS, 31 * DAY_MS};

    for (unsigned k = 0; k < N(later_ms) * 2 * WINDOWS * LEASE_SUBJECTS * UNITS_SUMMED; k++) {
        unsigned u = k % UNITS_SUMMED, s = k / UNITS_SUMMED % LEASE_SUBJECTS;
        unsigned i = k / UNITS_SUMMED / LEASE_SUBJECTS % WINDOWS;
        unsigned at = k / UNITS_SUMMED / LEASE_SUBJECTS / WINDOWS;
        const struct zone *z = at % 2 ? &w->utc : &w->local;
        int64_t t = *store_ms(w) + later_ms[at / 2];
        uint64_t used = sum_at(&w->used, s, i, z, t, u);
        uint64_t restored = sum_at(&w->live, s, i, z, t, u);

        if (restored < used)
            fail_msg("crash %u: %s, subject %u, unit %u, %lld ms later: %llu of %llu",
                     w->crashes, texts[i], s, u, (long long)later_ms[at / 2],
                     (unsigned long long)restored, (unsigned long long)used);
    }
}

/* See above; `live` is as it was before. */
static void expect_little_more(struct world *w, const struct counters *live,
                               const struct lease *l)
{
    uint64_t first = w->copied_row.segment.serial ? lease_first_after(&w->copied_row) : 1;

    for (unsigned i = 0; i <= 2; i++) /* the calendar's */
        for (unsigned s = 0; s < LEASE_SUBJECTS; s++)
            for (unsigned u = 0; u < UNITS_SUMMED; u++) {
                uint64_t most = sum_at(live, s, i, &w->utc, *store_ms(w), u);

                most += w->beyond[s].of[u];
                if (!w->copied_row.closed)
                    most += w->copied_row.charged[s].of[u];
                for (unsigned k = 0; k < l->n; k++)
                    if (l->segment[k].serial >= first)
                        most += l->segment[k].granted[s].of[u] -
                                net_of(w, l->segment[k].serial)[s].of[u];
                assert_in_range(sum_at(&w->live, s, i, &w->utc, *store_ms(w), u), 0, most);
            }
}

/* Store time may be back before what was used last: that counts no longer than if it were used
 * now, for no window's length passes sooner. */
static void come_back(struct world *w)
{
    for (struct entry *e = w->used.of; e < w->used.of + w->used.n; e++) {
        struct slot slot[WINDOW_SLOTS_MAX];

        if (windows[e->window].kind != WINDOW_SLIDING)
            continue;
        (void)window_slots(windows[e->window], &w->utc, *store_ms(w), slot);
        e->end_ms = e->end_ms < slot->end_ms ? e->end_ms : slot->end_ms;
    }
}

/* With a reset that is lost the store has the time from before it, and what has been used since
 * then counts as if it were used now. */
static void expect_reset_lost(struct world *w, int64_t crashed_ms)
{
    struct slot slot[WINDOW_SLOTS_MAX];
    static struct counters since;

    carry(&w->since, crashed_ms, zone_of(w), *store_ms(w), &since);
    w->used = w->before;
    come_back(w);
    for (unsigned i = 0; i < WINDOWS; i++) {
        (void)window_slots(windows[i], zone_of(w), *store_ms(w), slot);
        for (unsigned s = 0; s < LEASE_SUBJECTS; s++)
            add(&entry_of(&w->used, s, i, slot->end_ms)->used,
                &entry_of(&since, s, i, slot->end_ms)->used, &w->f->none);
    }
    expect_no_less(w);
    w->lost_resets++;
    w->reset = false;
    copy_now(w);
}

static void crash(struct world *w)
{
    const struct lease l = lease_file(w->f);
    int64_t crashed_ms = *store_ms(w), t = w->copied_ms;
    static struct counters live;
    bool off = draw(w, 3) == 0;

    for (unsigned i = 0; i < l.n; i++)
        t = l.segment[i].from_ms > t ? l.segment[i].from_ms : t;
    if (off && !w->reset) /* the clock is right again; else store time begins in the past */
        t = crashed_ms + (int64_t)draw(w, 4 * HOUR_MS);
    *store_ms(w) = t;
    live = w->live;
    come_back(w);
    restore(w, &l);
    w->crashes++;
    w->copying = 0;
    if (w->reset) {
        expect_reset_lost(w, crashed_ms);
    } else {
        expect_no_less(w);
        /* back before the last start, windows are open whose rows were not restored then */
        if (t >= w->restored_ms)
            expect_little_more(w, &live, &l);
    }
    w->restored_ms = t;
    for (unsigned k = 0; k < l.n; k++) /* what was not used is, from now on */
        memcpy(net_of(w, l.segment[k].serial), l.segment[k].granted,
               sizeof l.segment[k].granted);
}

static const struct {
    unsigned weight;
    void (*happens)(struct world *w);
} steps[] = {
    {300, charge_call}, {250, settle_call}, {150, pass},      {30, charge_in_vain},
    {60, copy_step},    {2, change_zone},   {1, reset_clock}, {8, crash},
};

static void walk(struct leased *f, uint64_t seed)
{
    static struct world w;
    unsigned total = 0;

    memset(&w, 0, sizeof w);
    w.f = f;
    w.random = 0x9E3779B97F4A7C15ULL * (seed + 1);
    assert_true(zone_parse(seed % 2 ? "IST-5:30" : "NST3:30NDT,M3.2.0,M11.1.0/0:10", &w.local));
    f->ledger.zone = w.local;
    *store_ms(&w) = 1793400000000 + (int64_t)draw(&w, 60 * DAY_MS); /* 2026-10-30 and later */
    w.copied_row.closed = true;
    w.copied_ms = *store_ms(&w);
    lease_limit(f, SUBJECT_EVERYONE, UNIT_CALLS, "day", 2000);
    for (unsigned i = 0; i < N(steps); i++)
        total += steps[i].weight;
    for (unsigned n = 0; n < STEPS; n++) {
        uint64_t at = draw(&w, total);
        unsigned i = 0;

        for (; at >= steps[i].weight; i++)
            at -= steps[i].weight;
        steps[i].happens(&w);
    }
    assert_true(w.crashes > 50);
    if (getenv("VERBOSE"))
        print_message("seed %llu: %u crashes, %u resets, %u of them lost\n",
                      (unsigned long long)seed, w.crashes, w.resets, w.lost_resets);
}

static void whatever_happens_nothing_that_was_used_is_forgotten(void **state)
{
    const char *text = getenv("LEASE_WALKS"); /* more of them, by hand */
    uint64_t walks = text ? strtoull(text, NULL, 10) : 2;

    for (unsigned i = 0; i < WINDOWS; i++)
        assert_true(window_parse(texts[i], &windows[i]));
    for (uint64_t seed = 0; seed < walks; seed++) {
        assert_int_equal(lease_set_up(state), 0);
        walk(*state, seed);
        lease_tear_down(state);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_happens_nothing_that_was_used_is_forgotten),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
