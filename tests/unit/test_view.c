/*
 * Which limits hold for whom, on a real store: keys with limits of their own, the owner's
 * bypass, dry runs and paced limits.
 */
#include "tests/unit/ledger_fixture.h"

#include <pthread.h>

#include "platform/file.h"
#include "store/period.h"

#define N(a) (sizeof(a) / sizeof((a)[0]))

static void must(struct fixture *f, enum decision want, struct reservation *r)
{
    struct answer a;
    struct reservation mine;

    assert_int_equal(ask(f, &a, r ? r : &mine), want);
}

static void must_refuse(struct fixture *f, enum refusal want)
{
    struct answer a;

    assert_int_equal(ask(f, &a, NULL), DECISION_REFUSED);
    assert_int_equal(a.verdict.refusal, want);
}

/* How many of n requests are admitted. */
static unsigned admitted_of(struct fixture *f, unsigned n)
{
    unsigned admitted = 0;

    for (unsigned i = 0; i < n; i++) {
        struct answer a;
        struct reservation r;

        admitted += ask(f, &a, &r) == DECISION_ADMITTED;
    }
    return admitted;
}

static struct history_day today;

static void see_day(void *arg, const struct history_day *d)
{
    (void)arg;
    today = *d;
}

static const struct history_day *history(struct fixture *f)
{
    memset(&today, 0, sizeof today);
    assert_int_equal(ledger_history(f->ledger, &f->policy, 0, see_day, NULL), ERROR_NONE);
    return &today;
}

static char *read_data(struct fixture *f, size_t *n)
{
    char path[128], *bytes;

    path_of(f, "data.mdb", path);
    assert_int_equal(file_read(path, 8 << 20, &bytes, n), ERROR_NONE);
    return bytes;
}

/* F11: whatever is asked n times leaves the data file byte for byte as it is. */
static void writes_nothing(struct fixture *f, unsigned n, enum decision want)
{
    size_t size[2];
    char *before = read_data(f, &size[0]);

    for (unsigned i = 0; i < n; i++)
        must(f, want, NULL);
    char *after = read_data(f, &size[1]);
    assert_int_equal(size[0], size[1]);
    assert_memory_equal(before, after, size[0]);
    free(before);
    free(after);
}

/* A refusal costs no hash that no limit asks for; a reservation has the places of all, since a
 * limit of concurrent may be added while the call is open. */
static void places_are_hashed_where_a_limit_bounds_them(void **state)
{
    static const struct {
        const char *why;
        unsigned site_streams;
        bool at_once;
        uint32_t known;
    } rows[] = {
        {"no limit of concurrent", 0, false, 0},
        {"streams of the whole site are not hashed", 8, false, 0},
        {"one per account", 0, true, 1U << SUBJECT_ACCOUNT},
    };
    struct fixture *f = *state;
    struct limit *l;
    struct answer a;

    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_CALLS, "day", 3);
    l = add_limit(f, "at-once", SUBJECT_ACCOUNT, UNIT_CONCURRENT, NULL, 3);
    f->demand.caller.id[SUBJECT_ACCOUNT] = (struct subject_id){.n = 2, .bytes = {0, 'a'}};
    f->demand.caller.anonymous = false;
    for (size_t i = 0; i < N(rows); i++) {
        f->policy.n_limits = 1 + rows[i].at_once;
        f->policy.site_streams = rows[i].site_streams;
        memset(&f->demand.hashes, 0, sizeof f->demand.hashes);
        assert_int_equal(ledger_check(f->ledger, &f->policy, &f->demand, &a), ERROR_NONE);
        assert_int_equal(a.decision, DECISION_ADMITTED);
        uint32_t own = (1U << SUBJECT_ADDRESS | 1U << SUBJECT_ACCOUNT);
        if ((f->demand.hashes.live_known & own) != rows[i].known)
            fail_msg("%s", rows[i].why);
    }
    f->policy.n_limits = 1;
    for (unsigned i = 0; i < 3; i++)
        must(f, DECISION_ADMITTED, NULL);
    f->limits[0].max = 100;
    f->policy.n_limits = 2;
    must_refuse(f, REFUSAL_CONCURRENT);
    l->subject = SUBJECT_ADDRESS;
    must_refuse(f, REFUSAL_CONCURRENT);
    l->subject = SUBJECT_EVERYONE;
    must_refuse(f, REFUSAL_CONCURRENT);
}

/* Hashes are kept from one question to the next: never for another caller or under another key. */
static void who_asked_before_is_nobody_else(void **state)
{
    struct fixture *f = *state;

    add_limit(f, "day", SUBJECT_ADDRESS, UNIT_CALLS, "day", 2);
    add_limit(f, "at-once", SUBJECT_ADDRESS, UNIT_CONCURRENT, NULL, 4);
    for (unsigned day = 0; day < 3; day++) {
        for (uint8_t last = 1; last <= 3; last++) {
            set_address(&f->demand, last);
            assert_int_equal(admitted_of(f, 3), 2);
            set_address(&f->demand, 1);
            must_refuse(f, REFUSAL_ADDRESS);
        }
        pass(24 * HOUR_MS); /* another period's key, and the places have ended */
    }
    set_address(&f->demand, 1);
    assert_int_equal(admitted_of(f, 3), 2);
    assert_int_equal(ledger_clock_reset(f->ledger, &f->policy), ERROR_NONE);
    set_address(&f->demand, 1);
    assert_int_equal(admitted_of(f, 3), 2); /* its day is new */
    must_refuse(f, REFUSAL_CONCURRENT);     /* and its places are still held */
}

/* Keys */

static void show_key(struct fixture *f, uint8_t which)
{
    memset(f->demand.caller.key_hash, which, KEY_HASH);
    f->demand.caller.has_key = true;
    f->demand.caller.anonymous = false;
    f->demand.caller.id[SUBJECT_KEY].n = 0;
    memset(&f->demand.hashes, 0, sizeof f->demand.hashes);
}

static struct limit own(enum unit u, const char *window, uint64_t max)
{
    struct limit l = {.subject = SUBJECT_KEY, .unit = u, .max = max};

    if (window)
        assert_true(window_parse(window, &l.window));
    return l;
}

/* Issues the key and shows it. */
static void issue(struct fixture *f, uint8_t which, const struct limit *limits, unsigned n)
{
    struct ledger_key k = {.n_limits = n};
    uint8_t hash[KEY_HASH];

    memset(hash, which, sizeof hash);
    snprintf(k.name, sizeof k.name, "key-%u", which);
    if (n > 0)
        memcpy(k.limits, limits, n * sizeof *limits);
    assert_int_equal(ledger_key_add(f->ledger, &f->policy, hash, &k), ERROR_NONE);
    show_key(f, which);
}

/* The configuration: 5 calls a day and 3 in 10 s per key, a dry run of 1 a day, 100 for all. */
static void configure_keys(struct fixture *f)
{
    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_CALLS, "day", 100);
    add_limit(f, "key-day", SUBJECT_KEY, UNIT_CALLS, "day", 5);
    add_limit(f, "key-trial", SUBJECT_KEY, UNIT_CALLS, "day", 1)->dry_run = true;
    add_limit(f, "key-tokens", SUBJECT_KEY, UNIT_TOKENS, "day", 1000);
}

static void a_keys_own_limit_decides_instead_of_the_configured_one(void **state)
{
    static const struct {
        const char *why;
        unsigned n;
        enum unit unit;
        const char *window;
        uint64_t max;
        unsigned admitted; /* of 20 */
        unsigned again;    /* of 5 in another process */
    } rows[] = {
        {"without limits of its own the configured ones hold", 0, UNIT_CALLS, "day", 0, 5, 0},
        {"a smaller one", 1, UNIT_CALLS, "day", 2, 2, 0},
        {"a larger one; the tokens of the configuration go on", 1, UNIT_CALLS, "day", 50, 10,
         0},
        {"F7 none at all", 1, UNIT_CALLS, "day", 0, 0, 0},
        {"without a max", 1, UNIT_CALLS, "day", LIMIT_UNLIMITED, 10, 0},
        {"of another unit: both hold", 1, UNIT_TOKENS, "day", 300, 3, 0},
        {"of another window: both hold", 1, UNIT_CALLS, "10s", 4, 4, 0},
        {"of another window and larger: the configured one holds", 1, UNIT_CALLS, "10s", 9, 5,
         0},
        {"places, which their holder has left", 1, UNIT_CONCURRENT, NULL, 4, 4, 1},
    };
    struct fixture *f = *state;

    configure_keys(f);
    for (uint8_t i = 0; i < N(rows); i++) {
        struct limit l = own(rows[i].unit, rows[i].window, rows[i].max);
        uint64_t before = used(f, 0);

        print_message("    %s\n", rows[i].why);
        issue(f, i, &l, rows[i].n);
        assert_int_equal(admitted_of(f, 20), rows[i].admitted);
        assert_int_equal(used(f, 0) - before, rows[i].admitted); /* the site pays as well */
        reopen(f);
        assert_int_equal(admitted_of(f, 5), rows[i].again);
    }
}

static void a_keys_own_limit_is_shown(void **state)
{
    struct fixture *f = *state;
    struct limit l = own(UNIT_CALLS, "day", 7);
    struct answer a;
    struct reservation r;

    configure_keys(f);
    issue(f, 1, &l, 1);
    assert_int_equal(ask(f, &a, &r), DECISION_ADMITTED);
    assert_int_equal(a.verdict.n_standings, 1);
    assert_int_equal(a.verdict.standings[0].limit.max, 7);
    assert_int_equal(a.verdict.standings[0].remaining, 6);
    assert_int_equal(a.verdict.dry, 0); /* its place is taken, too */
    assert_int_equal(admitted_of(f, 10), 6);
    must_refuse(f, REFUSAL_KEY);
    writes_nothing(f, 100, DECISION_REFUSED); /* F11 */
}

static void two_keys_of_one_address_are_two(void **state)
{
    struct fixture *f = *state;

    configure_keys(f);
    issue(f, 1, NULL, 0);
    issue(f, 2, NULL, 0);
    assert_int_equal(admitted_of(f, 20), 5);
    show_key(f, 1);
    assert_int_equal(admitted_of(f, 20), 5);
    set_address(&f->demand, 9); /* and a key goes where it is taken */
    show_key(f, 1);
    must_refuse(f, REFUSAL_KEY);
}

static void an_unknown_key_is_none_and_counts_nowhere(void **state)
{
    struct fixture *f = *state;

    configure_keys(f);
    show_key(f, 1);
    writes_nothing(f, 3, DECISION_NO_KEY);
    assert_int_equal(ledger_set_paused(f->ledger, &f->policy, true), ERROR_NONE);
    must(f, DECISION_NO_KEY, NULL);
    assert_int_equal(used(f, 0), 0);
}

/* F1: the check has passed, and then the owner revokes the key. */
static void f1_a_key_that_is_revoked_after_the_check_refuses(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    struct reservation r;

    configure_keys(f);
    issue(f, 1, NULL, 0);
    assert_int_equal(ledger_check(f->ledger, &f->policy, &f->demand, &a), ERROR_NONE);
    assert_int_equal(a.decision, DECISION_ADMITTED);
    assert_int_equal(ledger_key_revoke(f->ledger, &f->policy, "key-1"), ERROR_NONE);
    assert_int_equal(ledger_reserve(f->ledger, &f->policy, &f->demand, &a, &r), ERROR_NONE);
    assert_int_equal(a.decision, DECISION_NO_KEY);
    assert_int_equal(used(f, 0), 0);
    writes_nothing(f, 3, DECISION_NO_KEY);
}

/* F9: its first caller has no row and the window no key yet. */
static void f9_a_window_that_only_a_key_names_gets_a_period_key(void **state)
{
    struct fixture *f = *state;
    struct limit l = own(UNIT_CALLS, "2h", 2);
    struct answer a;

    configure_keys(f);
    issue(f, 1, &l, 1);
    assert_int_equal(admitted_of(f, 5), 2);
    reopen(f);
    assert_int_equal(ask(f, &a, NULL), DECISION_REFUSED);
    pass(a.wait_ms - 1);
    must_refuse(f, REFUSAL_KEY);
    pass(1);
    must(f, DECISION_ADMITTED, NULL);
    must(f, DECISION_ADMITTED, NULL);
    assert_int_equal(used(f, 0), 4);
}

static void a_keys_window_without_a_place_admits_nothing(void **state)
{
    struct fixture *f = *state;
    struct limit l = own(UNIT_CALLS, "99h", 5);
    struct answer a;
    struct reservation r;
    char window[16];

    issue(f, 1, &l, 1); /* while there was room */
    f->demand.caller.has_key = false;
    for (int i = 1; i < PERIOD_WINDOWS; i++) {
        snprintf(window, sizeof window, "%dh", i);
        add_limit(f, "w", SUBJECT_ADDRESS, UNIT_CALLS, window, 5);
    }
    must(f, DECISION_ADMITTED, NULL);
    show_key(f, 1);
    assert_int_equal(ledger_check(f->ledger, &f->policy, &f->demand, &a), ERROR_NONE);
    assert_int_equal(ledger_reserve(f->ledger, &f->policy, &f->demand, &a, &r),
                     ERROR_TOO_MANY_WINDOWS);
    assert_int_equal(history(f)->admitted, 1);
    f->demand.caller.has_key = false;
    must(f, DECISION_ADMITTED, NULL); /* others go on */
}

/* Every limit of a full configuration and of a key is a row of its own. */
static void as_many_limits_as_there_can_be(void **state)
{
    struct fixture *f = *state;
    const struct limit limits[] = {own(UNIT_CALLS, "2h", 9), own(UNIT_CALLS, "3h", 9),
                                   own(UNIT_CALLS, "4h", 9), own(UNIT_CALLS, "5h", 9)};
    struct reservation r;
    char window[16];

    for (unsigned i = 0; i < LIMITS_MAX; i++) {
        snprintf(window, sizeof window, "%uh", 6 + i / 4);
        add_limit(f, "w",
                  (enum subject[]){SUBJECT_ADDRESS, SUBJECT_VISITOR, SUBJECT_ACCOUNT,
                                   SUBJECT_EVERYONE}[i % 4],
                  UNIT_CALLS, window, 9);
    }
    for (enum subject s = SUBJECT_ADDRESS; s <= SUBJECT_ACCOUNT; s++)
        f->demand.caller.id[s] = (struct subject_id){.n = 3, .bytes = "abc"};
    issue(f, 1, limits, KEY_LIMITS_MAX);
    must(f, DECISION_ADMITTED, &r);
    assert_int_equal(used(f, LIMITS_MAX - 1), 1);
    settle(f, &r, SETTLE_NOTHING, 0, 0);
    assert_int_equal(used(f, LIMITS_MAX - 1), 0);
    assert_int_equal(admitted_of(f, 20), 9);
    fake_now.boot_id[0] ^= 1; /* the walk of another boot reads every row */
    reopen(f);
    must(f, DECISION_REFUSED, NULL);
}

/* The bypass */

static void bypass(struct fixture *f, uint64_t max)
{
    f->policy.n_limits = 0;
    add_limit(f, "bypass", SUBJECT_BYPASS, UNIT_CALLS, "1h", max);
    memset(&f->demand.hashes, 0, sizeof f->demand.hashes);
    f->demand.caller.bypass = true;
}

static void configure_site(struct fixture *f)
{
    f->policy.n_limits = 0;
    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_CALLS, "day", 2);
    add_limit(f, "anonymous", SUBJECT_ANONYMOUS, UNIT_CALLS, "day", 2);
    add_limit(f, "visitor", SUBJECT_ADDRESS, UNIT_CALLS, "day", 2);
    memset(&f->demand.hashes, 0, sizeof f->demand.hashes);
    f->demand.caller.bypass = false;
}

static void a_bypass_counts_for_itself_alone(void **state)
{
    struct fixture *f = *state;
    struct answer a;

    configure_site(f);
    assert_int_equal(admitted_of(f, 5), 2); /* the site is full */
    bypass(f, 3);
    show_key(f, 1); /* not asked for: there is none */
    assert_int_equal(admitted_of(f, 10), 3);
    assert_int_equal(ask(f, &a, NULL), DECISION_REFUSED);
    assert_int_equal(a.verdict.refusal, REFUSAL_BYPASS);
    assert_int_equal(a.verdict.n_standings, 0);
    assert_int_equal(used(f, 0), 3);
    writes_nothing(f, 100, DECISION_REFUSED); /* F11 */
    f->demand.caller.has_key = false;
    configure_site(f);
    assert_int_equal(used(f, 0), 2);
    must_refuse(f, REFUSAL_ADDRESS);
    assert_int_equal(history(f)->admitted, 5);
    assert_int_equal(history(f)->bypassed, 3);
}

static void no_limit_of_others_holds_for_a_bypass_nor_its_for_them(void **state)
{
    struct fixture *f = *state;

    configure_site(f);
    for (unsigned i = 0; i < f->policy.n_limits; i++)
        f->limits[i].max = 0;
    f->demand.caller.bypass = true;
    must(f, DECISION_ADMITTED, NULL);
    bypass(f, 0);
    f->demand.caller.bypass = false;
    must(f, DECISION_ADMITTED, NULL);
}

static void streams_of_a_bypass_are_streams_of_the_site(void **state)
{
    struct fixture *f = *state;
    struct reservation own_one, others;

    f->policy.site_streams = 2;
    bypass(f, 9);
    must(f, DECISION_ADMITTED, &own_one);
    configure_site(f);
    must(f, DECISION_ADMITTED, &others);
    must(f, DECISION_BUSY, NULL);
    bypass(f, 9);
    must(f, DECISION_BUSY, NULL);
    ledger_release(f->ledger, &others);
    must(f, DECISION_ADMITTED, NULL);
    ledger_release(f->ledger, &own_one);
    configure_site(f);
    must(f, DECISION_ADMITTED, NULL);
}

static void clock_reset_carries_what_the_bypass_has_used(void **state)
{
    struct fixture *f = *state;

    bypass(f, 2);
    must(f, DECISION_ADMITTED, NULL);
    must(f, DECISION_ADMITTED, NULL);
    fake_now.wall_ms -= 700 * DAY_MS;
    assert_int_equal(ledger_clock_reset(f->ledger, &f->policy), ERROR_NONE);
    must_refuse(f, REFUSAL_BYPASS);
    assert_int_equal(used(f, 0), 2);
}

/* F1, F2: threads that ask at once. */
#define THREADS 8
#define ASKED   25

struct asker {
    struct fixture *f;
    unsigned admitted;
};

static void *ask_often(void *arg)
{
    struct asker *x = arg;

    for (unsigned i = 0; i < ASKED; i++) {
        struct demand d = x->f->demand;
        struct answer a;
        struct reservation r;

        if (ledger_check(x->f->ledger, &x->f->policy, &d, &a) != ERROR_NONE)
            return x;
        if (a.decision == DECISION_ADMITTED &&
            ledger_reserve(x->f->ledger, &x->f->policy, &d, &a, &r) != ERROR_NONE)
            return x;
        x->admitted += a.decision == DECISION_ADMITTED;
    }
    return NULL;
}

static unsigned ask_at_once(struct fixture *f)
{
    struct asker x[THREADS];
    pthread_t thread[THREADS];
    unsigned admitted = 0;

    for (unsigned i = 0; i < THREADS; i++) {
        x[i] = (struct asker){.f = f};
        assert_int_equal(pthread_create(&thread[i], NULL, ask_often, &x[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        void *failed;

        pthread_join(thread[i], &failed);
        assert_null(failed);
        admitted += x[i].admitted;
    }
    return admitted;
}

static void f1_f2_exactly_as_many_as_a_keys_own_limit_says(void **state)
{
    struct fixture *f = *state;
    struct limit one = own(UNIT_CALLS, "day", 1), tokens = own(UNIT_TOKENS, "1h", 1000);

    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_TOKENS, "day", 1000000);
    issue(f, 1, &one, 1);
    assert_int_equal(ask_at_once(f), 1);
    issue(f, 2, &tokens, 1);
    f->demand.weights.of[UNIT_TOKENS] = 50;
    assert_int_equal(ask_at_once(f), 20);
    assert_int_equal(used(f, 0), 1100);
}

static void f1_f2_exactly_as_many_as_the_bypass_says(void **state)
{
    struct fixture *f = *state;

    bypass(f, 20);
    assert_int_equal(ask_at_once(f), 20);
    assert_int_equal(used(f, 0), 20);
}

static void f1_f2_exactly_as_many_as_a_pace_has_released(void **state)
{
    struct fixture *f = *state;

    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_CALLS, "day", 24)->pace = true;
    assert_int_equal(ask_at_once(f), 9); /* at 7 o'clock */
    assert_int_equal(used(f, 0), 9);
}

/* Dry runs */

struct dry {
    unsigned n;
    struct {
        int64_t day;
        char limit[LIMIT_NAME_MAX];
        uint64_t n;
    } row[8];
};

static void see_dry(void *arg, int64_t day, const char *limit, uint64_t n)
{
    struct dry *d = arg;

    assert_true(d->n < N(d->row));
    d->row[d->n].day = day;
    snprintf(d->row[d->n].limit, LIMIT_NAME_MAX, "%s", limit);
    d->row[d->n++].n = n;
}

static struct dry dry(struct fixture *f, int64_t first)
{
    struct dry d = {0};

    assert_int_equal(ledger_dry(f->ledger, first, see_dry, &d), ERROR_NONE);
    return d;
}

static void what_dry_runs_would_have_refused_is_counted_by_day(void **state)
{
    struct fixture *f = *state;
    int64_t day = START_MS / DAY_MS;
    struct dry d;

    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_CALLS, "day", 5);
    add_limit(f, "trial", SUBJECT_ADDRESS, UNIT_CALLS, "day", 2)->dry_run = true;
    add_limit(f, "money", SUBJECT_ADDRESS, UNIT_COST, "day", 999)->dry_run = true;
    add_limit(f, "roomy", SUBJECT_ADDRESS, UNIT_CALLS, "day", 100)->dry_run = true;
    assert_int_equal(dry(f, 0).n, 0);
    assert_int_equal(admitted_of(f, 20), 5);
    writes_nothing(f, 100, DECISION_REFUSED); /* by the site: they count nothing more */
    d = dry(f, 0);
    assert_int_equal(d.n, 2);
    assert_int_equal(d.row[0].day, day);
    assert_string_equal(d.row[0].limit, "money");
    assert_int_equal(d.row[0].n, 5); /* too long for it, each of them */
    assert_string_equal(d.row[1].limit, "trial");
    assert_int_equal(d.row[1].n, 3);
    pass(DAY_MS);
    must(f, DECISION_ADMITTED, NULL);
    assert_int_equal(dry(f, day).n, 3);
    assert_int_equal(dry(f, day + 1).n, 1);
    fake_now.boot_id[0] ^= 1; /* the walk of another boot reads every row */
    reopen(f);
    assert_int_equal(dry(f, 0).n, 3);
}

static void counts_of_dry_runs_go_with_the_history(void **state)
{
    struct fixture *f = *state;
    struct limit *l = add_limit(f, "trial", SUBJECT_EVERYONE, UNIT_CALLS, "day", 0);

    l->dry_run = true;
    must(f, DECISION_ADMITTED, NULL);
    for (int i = 0; i < 402; i++) { /* not at once: that would be a clock that stepped */
        pass(DAY_MS);
        assert_int_equal(ledger_maintain(f->ledger, &f->policy), ERROR_NONE);
        if (i < 400)
            assert_int_equal(dry(f, 0).n, 1);
    }
    assert_int_equal(dry(f, 0).n, 0);
}

static void dry_runs_change_no_answer(void **state)
{
    struct fixture *f = *state;
    struct answer with, without;

    for (unsigned i = 0; i < 6; i++) {
        struct reservation r;

        f->policy.n_limits = 0;
        add_limit(f, "site", SUBJECT_EVERYONE, UNIT_CALLS, "day", 4);
        add_limit(f, "mine", SUBJECT_ADDRESS, UNIT_CALLS, "10s", 3);
        assert_int_equal(ledger_check(f->ledger, &f->policy, &f->demand, &without), ERROR_NONE);
        add_limit(f, "trial", SUBJECT_ADDRESS, UNIT_CALLS, "10s", 1)->dry_run = true;
        add_limit(f, "at-once", SUBJECT_ADDRESS, UNIT_CONCURRENT, NULL, 1)->dry_run = true;
        ask(f, &with, &r);
        assert_int_equal(with.verdict.dry, i > 0 ? 3 << 2 : 0);
        with.verdict.dry = 0;
        assert_memory_equal(&with, &without, sizeof with);
    }
}

/* Pace */

static uint64_t released_of(struct fixture *f, unsigned limit)
{
    struct limit_use u;

    assert_int_equal(ledger_limit_use(f->ledger, &f->policy, limit, &u), ERROR_NONE);
    return u.released;
}

static void a_paced_site_leaves_some_for_the_evening(void **state)
{
    struct fixture *f = *state;
    struct answer a;

    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_CALLS, "day", 48)->pace = true;
    assert_int_equal(released_of(f, 0), 18); /* 7 hours and 2: 18 half hours */
    assert_int_equal(admitted_of(f, 50), 18);
    assert_int_equal(ask(f, &a, NULL), DECISION_REFUSED);
    assert_int_equal(a.verdict.refusal, REFUSAL_SITE);
    assert_int_equal(a.wait_ms, HOUR_MS / 2);
    writes_nothing(f, 100, DECISION_REFUSED); /* F11 */
    pass(a.wait_ms - 1);
    must_refuse(f, REFUSAL_SITE);
    pass(1);
    assert_int_equal(admitted_of(f, 50), 1);
    fake_now.wall_ms -= 5 * HOUR_MS; /* F44: nothing that was released comes back */
    must_refuse(f, REFUSAL_SITE);
    fake_now.wall_ms += 5 * HOUR_MS;
    pass(16 * HOUR_MS); /* 23:30 */
    assert_int_equal(released_of(f, 0), 48);
    assert_int_equal(admitted_of(f, 50), 48 - 19);
    assert_int_equal(ask(f, &a, NULL), DECISION_REFUSED);
    assert_int_equal(a.wait_ms, HOUR_MS / 2);
    pass(a.wait_ms);
    assert_int_equal(admitted_of(f, 50), 4);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(places_are_hashed_where_a_limit_bounds_them),
        T(who_asked_before_is_nobody_else),
        T(a_keys_own_limit_decides_instead_of_the_configured_one),
        T(a_keys_own_limit_is_shown),
        T(two_keys_of_one_address_are_two),
        T(an_unknown_key_is_none_and_counts_nowhere),
        T(f1_a_key_that_is_revoked_after_the_check_refuses),
        T(f9_a_window_that_only_a_key_names_gets_a_period_key),
        T(a_keys_window_without_a_place_admits_nothing),
        T(as_many_limits_as_there_can_be),
        T(a_bypass_counts_for_itself_alone),
        T(no_limit_of_others_holds_for_a_bypass_nor_its_for_them),
        T(streams_of_a_bypass_are_streams_of_the_site),
        T(clock_reset_carries_what_the_bypass_has_used),
        T(f1_f2_exactly_as_many_as_a_keys_own_limit_says),
        T(f1_f2_exactly_as_many_as_the_bypass_says),
        T(f1_f2_exactly_as_many_as_a_pace_has_released),
        T(what_dry_runs_would_have_refused_is_counted_by_day),
        T(counts_of_dry_runs_go_with_the_history),
        T(dry_runs_change_no_answer),
        T(a_paced_site_leaves_some_for_the_evening),
    };
    return cmocka_run_group_tests_name("view", tests, NULL, NULL);
}
