/*
 * The ledger on a real LMDB store, with a clock that the test moves: what is admitted, what is
 * charged, what stays, what goes, and what is refused because it cannot be counted.
 */
#include "tests/unit/ledger_fixture.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "platform/file.h"
#include "store/ledger_parts.h"
#include "store/period.h"

static void must(struct fixture *f, enum decision want, struct reservation *r)
{
    struct answer a;
    struct reservation mine;

    assert_int_equal(ask(f, &a, r ? r : &mine), want);
}

static void admits_up_to_max_and_settles_exactly(void **state)
{
    struct fixture *f = *state;
    struct reservation r[3];
    struct answer a;

    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_TOKENS, "day", 300);
    for (int i = 0; i < 3; i++)
        must(f, DECISION_ADMITTED, &r[i]);
    assert_int_equal(ask(f, &a, NULL), DECISION_REFUSED);
    assert_int_equal(a.verdict.refusal, REFUSAL_SITE);
    assert_int_equal(a.wait_ms, 17 * HOUR_MS);
    settle(f, &r[0], SETTLE_USAGE, 30, 300);
    assert_int_equal(used(f, 0), 230);
    settle(f, &r[0], SETTLE_USAGE, 1, 1); /* F15: settled twice changes nothing */
    assert_int_equal(used(f, 0), 230);
    settle(f, &r[1], SETTLE_UNKNOWN, 5, 5);
    assert_int_equal(used(f, 0), 230);
    settle(f, &r[2], SETTLE_NOTHING, 5, 5);
    assert_int_equal(used(f, 0), 130);
    must(f, DECISION_ADMITTED, NULL);
}

/* F46: what the API refused us is given back, the call too. */
static void f46_a_call_that_came_to_nothing_is_given_back(void **state)
{
    struct fixture *f = *state;
    struct reservation r;

    add_limit(f, "tokens", SUBJECT_EVERYONE, UNIT_TOKENS, "day", 300);
    add_limit(f, "cost", SUBJECT_EVERYONE, UNIT_COST, "day", 3000);
    add_limit(f, "calls", SUBJECT_EVERYONE, UNIT_CALLS, "day", 10);
    must(f, DECISION_ADMITTED, &r);
    settle(f, &r, SETTLE_NOTHING, 5, 5);
    for (unsigned i = 0; i < f->policy.n_limits; i++)
        assert_int_equal(used(f, i), 0);
}

static uint64_t overhead(struct fixture *f, const char *model)
{
    struct ledger_model m;

    assert_int_equal(ledger_model(f->ledger, model, &m), ERROR_NONE);
    return m.overhead;
}

static void settles_more_than_was_reserved_and_learns(void **state)
{
    struct fixture *f = *state;
    struct reservation r;
    struct settlement s = {.kind = SETTLE_USAGE,
                           .real = {{1, 250, 2500}},
                           .tokens_in = 210,
                           .tokens_out = 40,
                           .input_over = 150,
                           .overhead_max = 120};

    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_TOKENS, "day", 1000);
    assert_int_equal(overhead(f, "demo"), 0);
    must(f, DECISION_ADMITTED, &r);
    assert_int_equal(ledger_settle(f->ledger, &r, &s, true), ERROR_NONE);
    assert_int_equal(used(f, 0), 250);
    assert_int_equal(overhead(f, "demo"), 120); /* bounded */
    must(f, DECISION_ADMITTED, &r);
    s.input_over = 10; /* a smaller one does not shrink it */
    assert_int_equal(ledger_settle(f->ledger, &r, &s, true), ERROR_NONE);
    assert_int_equal(overhead(f, "demo"), 120);
    assert_int_equal(overhead(f, "other"), 0);
}

static char *read_data(struct fixture *f, size_t *n)
{
    char path[128], *bytes;

    path_of(f, "data.mdb", path);
    assert_int_equal(file_read(path, 8 << 20, &bytes, n), ERROR_NONE);
    return bytes;
}

static void refusals_leave_the_data_file_as_it_is(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    size_t n, m;

    add_limit(f, "visitor", SUBJECT_ADDRESS, UNIT_CALLS, "day", 1);
    must(f, DECISION_ADMITTED, NULL);
    char *before = read_data(f, &n);
    for (int i = 0; i < 10000; i++)
        assert_int_equal(ask(f, &a, NULL), DECISION_REFUSED);
    char *after = read_data(f, &m);
    assert_int_equal(n, m);
    assert_memory_equal(before, after, n);
    free(before);
    free(after);
}

/* The second of two that both passed the check is refused in the write transaction. */
static void refusal_inside_the_write_transaction_writes_nothing(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    struct reservation r;
    size_t n, m;

    add_limit(f, "visitor", SUBJECT_ADDRESS, UNIT_CALLS, "day", 1);
    must(f, DECISION_ADMITTED, NULL);
    char *before = read_data(f, &n);
    assert_int_equal(ledger_reserve(f->ledger, &f->policy, &f->demand, &a, &r), ERROR_NONE);
    assert_int_equal(a.decision, DECISION_REFUSED);
    char *after = read_data(f, &m);
    assert_int_equal(n, m);
    assert_memory_equal(before, after, n);
    free(before);
    free(after);
}

static void f49_a_window_across_midnight_still_counts(void **state)
{
    struct fixture *f = *state;
    struct answer a;

    add_limit(f, "burst", SUBJECT_ADDRESS, UNIT_CALLS, "10s", 10);
    pass(17 * HOUR_MS - 2000); /* 23:59:58 */
    for (int i = 0; i < 10; i++)
        must(f, DECISION_ADMITTED, NULL);
    pass(4000); /* 00:00:02 */
    assert_int_equal(ask(f, &a, NULL), DECISION_REFUSED);
    assert_int_equal(a.verdict.refusal, REFUSAL_BURST);
    assert_true(a.wait_ms > 0 && a.wait_ms <= 11250);
    pass(a.wait_ms - 1);
    assert_int_equal(ask(f, &a, NULL), DECISION_REFUSED);
    pass(1);
    must(f, DECISION_ADMITTED, NULL);
}

static void every_window_is_driven_across_midnight(void **state)
{
    static const char *const windows[] = {"1s", "10s", "1h", "12h", "1d",
                                          "7d", "8d",  "9d", "30d"};
    struct fixture *f = *state;
    struct answer a;

    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        f->policy.n_limits = 0;
        add_limit(f, "w", SUBJECT_ADDRESS, UNIT_CALLS, windows[i], 2);
        set_address(&f->demand, (uint8_t)(10 + i));
        int64_t to_midnight = DAY_MS - fake_now.wall_ms % DAY_MS;
        pass(to_midnight - 500);
        must(f, DECISION_ADMITTED, NULL);
        must(f, DECISION_ADMITTED, NULL);
        pass(1000);
        assert_int_equal(ask(f, &a, NULL), DECISION_REFUSED);
        reopen(f); /* and another process sees the same */
        assert_int_equal(ask(f, &a, NULL), DECISION_REFUSED);
        pass(a.wait_ms - 1);
        assert_int_equal(ask(f, &a, NULL), DECISION_REFUSED);
        pass(1);
        must(f, DECISION_ADMITTED, NULL);
    }
}

static void month_and_day_end_when_they_end(void **state)
{
    struct fixture *f = *state;
    struct answer a;

    add_limit(f, "month", SUBJECT_ADDRESS, UNIT_CALLS, "month", 2);
    add_limit(f, "day", SUBJECT_ADDRESS, UNIT_CALLS, "day", 1);
    must(f, DECISION_ADMITTED, NULL); /* 30 November */
    assert_int_equal(ask(f, &a, NULL), DECISION_REFUSED);
    assert_int_equal(a.wait_ms, 17 * HOUR_MS);
    pass(17 * HOUR_MS); /* 1 December: new day, new month */
    must(f, DECISION_ADMITTED, NULL);
    pass(DAY_MS);
    must(f, DECISION_ADMITTED, NULL);
    pass(DAY_MS);
    assert_int_equal(ask(f, &a, NULL), DECISION_REFUSED);
    assert_int_equal(a.wait_ms, 29 * DAY_MS);
}

static void places_are_free_when_the_stream_ends(void **state)
{
    struct fixture *f = *state;
    struct reservation r[2];
    struct answer a;

    add_limit(f, "at-once", SUBJECT_ADDRESS, UNIT_CONCURRENT, NULL, 2);
    must(f, DECISION_ADMITTED, &r[0]);
    must(f, DECISION_ADMITTED, &r[1]);
    assert_int_equal(ask(f, &a, NULL), DECISION_REFUSED);
    assert_int_equal(a.verdict.refusal, REFUSAL_CONCURRENT);
    assert_int_equal(a.wait_ms, CONCURRENT_WAIT_MS);
    set_address(&f->demand, 2); /* another caller is not concerned */
    must(f, DECISION_ADMITTED, NULL);
    set_address(&f->demand, 1);
    ledger_release(f->ledger, &r[0]); /* before its settle is written */
    must(f, DECISION_ADMITTED, NULL);
}

/* F12: a holder killed by SIGKILL frees its place at once; its money stays charged. */
static void f12_a_killed_holder_frees_its_place_and_keeps_its_charge(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    int ready[2];
    char c;

    add_limit(f, "at-once", SUBJECT_ADDRESS, UNIT_CONCURRENT, NULL, 1);
    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_TOKENS, "day", 1000);
    close_ledger(f);
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        struct reservation r;

        open_ledger(f);
        must(f, DECISION_ADMITTED, &r);
        (void)!write(ready[1], "r", 1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], &c, 1), 1);
    open_ledger(f);
    assert_int_equal(ask(f, &a, NULL), DECISION_REFUSED);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    must(f, DECISION_ADMITTED, NULL);
    assert_int_equal(used(f, 1), 200);
    close(ready[0]);
    close(ready[1]);
}

static void a_reservation_ends_by_itself_and_stays_charged(void **state)
{
    struct fixture *f = *state;
    struct reservation r;
    struct limit_use u;
    struct ledger_state s;

    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_TOKENS, "day", 1000);
    must(f, DECISION_ADMITTED, &r);
    assert_int_equal(ledger_limit_use(f->ledger, &f->policy, 0, &u), ERROR_NONE);
    assert_int_equal(u.reserved, 100);
    assert_int_equal(u.released, 1000); /* all of it, without a pace */
    pass(60001);
    assert_int_equal(ledger_maintain(f->ledger, &f->policy), ERROR_NONE);
    settle(f, &r, SETTLE_NOTHING, 0, 0); /* too late */
    assert_int_equal(ledger_limit_use(f->ledger, &f->policy, 0, &u), ERROR_NONE);
    assert_int_equal(u.used, 100);
    assert_int_equal(u.reserved, 0);
    assert_int_equal(ledger_state(f->ledger, &f->policy, &s), ERROR_NONE);
    assert_int_equal(s.open_streams, 0);
}

/* The holder is gone and the settle waits for the next commit: what is in `used` for it is the
 * worst case still, and not the real use. */
static void what_is_not_settled_is_reserved_whether_or_not_its_holder_lives(void **state)
{
    struct fixture *f = *state;
    struct reservation r;
    struct limit_use u;
    struct ledger_state s;

    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_TOKENS, "day", 1000);
    add_limit(f, "at-once", SUBJECT_EVERYONE, UNIT_CONCURRENT, NULL, 9);
    must(f, DECISION_ADMITTED, &r);
    ledger_release(f->ledger, &r);
    assert_int_equal(ledger_limit_use(f->ledger, &f->policy, 0, &u), ERROR_NONE);
    assert_int_equal(u.used, 100);
    assert_int_equal(u.reserved, 100);
    assert_int_equal(ledger_limit_use(f->ledger, &f->policy, 1, &u), ERROR_NONE);
    assert_int_equal(u.reserved, 0); /* its place is free */
    assert_int_equal(ledger_state(f->ledger, &f->policy, &s), ERROR_NONE);
    assert_int_equal(s.open_streams, 0);
    settle(f, &r, SETTLE_USAGE, 30, 0);
    assert_int_equal(ledger_limit_use(f->ledger, &f->policy, 0, &u), ERROR_NONE);
    assert_int_equal(u.used, 30);
    assert_int_equal(u.reserved, 0);
}

static void a_new_boot_ends_old_reservations(void **state)
{
    struct fixture *f = *state;
    struct reservation r;
    struct ledger_state s;

    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_TOKENS, "day", 1000);
    must(f, DECISION_ADMITTED, &r);
    close_ledger(f);
    memset(fake_now.boot_id, 8, sizeof fake_now.boot_id);
    fake_now.boot_ms = 5000;
    fake_now.wall_ms += 60000;
    open_ledger(f);
    assert_int_equal(ledger_state(f->ledger, &f->policy, &s), ERROR_NONE);
    assert_int_equal(s.open_streams, 0);
    must(f, DECISION_ADMITTED, NULL);
    settle(f, &r, SETTLE_NOTHING, 0, 0);
    assert_int_equal(used(f, 0), 200);
}

static void f44_a_clock_that_jumps_never_reopens_a_window(void **state)
{
    struct fixture *f = *state;
    struct answer a;

    add_limit(f, "day", SUBJECT_ADDRESS, UNIT_CALLS, "day", 1);
    must(f, DECISION_ADMITTED, NULL);
    fake_now.wall_ms -= 400 * DAY_MS; /* back: the store's day goes on */
    assert_int_equal(ask(f, &a, NULL), DECISION_REFUSED);
    assert_int_equal(a.wait_ms, 34 * HOUR_MS); /* store time runs at half rate */
    fake_now.wall_ms += 400 * DAY_MS;
    assert_int_equal(ask(f, &a, NULL), DECISION_REFUSED);
    fake_now.wall_ms += 3650 * DAY_MS; /* ahead by years: the window has ended */
    must(f, DECISION_ADMITTED, NULL);
    fake_now.wall_ms -= 3650 * DAY_MS; /* and back: that new day goes on, slowly */
    assert_int_equal(ask(f, &a, NULL), DECISION_REFUSED);
    pass(2 * DAY_MS);
    must(f, DECISION_ADMITTED, NULL);
}

static void nothing_is_erased_for_a_day_after_a_step(void **state)
{
    struct fixture *f = *state;

    add_limit(f, "burst", SUBJECT_EVERYONE, UNIT_CALLS, "1h", 5);
    must(f, DECISION_ADMITTED, NULL);
    fake_now.wall_ms += 400 * DAY_MS;
    assert_int_equal(ledger_maintain(f->ledger, &f->policy), ERROR_NONE);
    must(f, DECISION_ADMITTED, NULL); /* writes the step */
    assert_int_equal(ledger_clock_reset(f->ledger, &f->policy), ERROR_NONE);
    assert_int_equal(used(f, 0), 1); /* the open window's use is carried */
}

static void clock_reset_carries_the_sites_use(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    struct ledger_state s;

    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_CALLS, "day", 3);
    add_limit(f, "visitor", SUBJECT_ADDRESS, UNIT_CALLS, "day", 2);
    must(f, DECISION_ADMITTED, NULL);
    fake_now.wall_ms += 700 * DAY_MS; /* a battery gone mad */
    must(f, DECISION_ADMITTED, NULL);
    must(f, DECISION_ADMITTED, NULL);
    fake_now.wall_ms -= 700 * DAY_MS;
    assert_int_equal(ask(f, &a, NULL), DECISION_REFUSED);
    assert_int_equal(ledger_clock_reset(f->ledger, &f->policy), ERROR_NONE);
    assert_int_equal(ledger_state(f->ledger, &f->policy, &s), ERROR_NONE);
    assert_int_equal(s.store_ms, s.clock_ms);
    assert_int_equal(used(f, 0), 3); /* two of the mad day, one of the real one */
    assert_int_equal(ask(f, &a, NULL), DECISION_REFUSED);
    assert_int_equal(a.verdict.refusal, REFUSAL_SITE);
    reopen(f);
    assert_int_equal(ask(f, &a, NULL), DECISION_REFUSED);
}

/* Its old slots come round again, and others have charged them since. */
static void what_is_open_at_a_reset_takes_nothing_away_after_it(void **state)
{
    static const enum settle_kind kinds[] = {SETTLE_NOTHING, SETTLE_USAGE, SETTLE_UNKNOWN};
    struct fixture *f = *state;
    struct reservation open[3];
    struct limit_use use;
    struct answer a;

    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_TOKENS, "120s", 8000);
    add_limit(f, "at-once", SUBJECT_ADDRESS, UNIT_CONCURRENT, NULL, 3);
    f->demand.hold_ms = 600000;
    for (unsigned i = 0; i < 3; i++)
        must(f, DECISION_ADMITTED, &open[i]);
    for (unsigned i = 0; i < 60; i++) { /* over several pages of the store */
        set_address(&f->demand, (uint8_t)(10 + i));
        must(f, DECISION_ADMITTED, NULL);
    }
    set_address(&f->demand, 1);
    fake_now.wall_ms -= 60000; /* the clock is set right */
    pass(10);
    assert_int_equal(ledger_clock_reset(f->ledger, &f->policy), ERROR_NONE);
    assert_int_equal(ledger_limit_use(f->ledger, &f->policy, 0, &use), ERROR_NONE);
    assert_int_equal(use.used, 6300);
    assert_int_equal(use.reserved, 0);                    /* nothing of it comes back */
    assert_int_equal(ask(f, &a, NULL), DECISION_REFUSED); /* their places are taken */
    set_address(&f->demand, 2);
    f->demand.hold_ms = 1000;
    for (unsigned i = 0; i < 140; i++) { /* over all slots that they were charged to */
        struct reservation r;

        pass(1000);
        must(f, DECISION_ADMITTED, &r);
        settle(f, &r, SETTLE_USAGE, 5, 0);
        uint64_t before = used(f, 0);
        if (i % 40 == 39 && i / 40 < 3) {
            settle(f, &open[i / 40], kinds[i / 40], 1, 0);
            assert_int_equal(used(f, 0), before);
        }
    }
    set_address(&f->demand, 1);
    must(f, DECISION_ADMITTED, NULL);
}

/* Fault rows: what is done to a store that is closed, and what opening says. */
static void do_delete(struct fixture *f)
{
    char path[128];

    path_of(f, "data.mdb", path);
    assert_int_equal(unlink(path), 0);
}

static void do_empty(struct fixture *f)
{
    char path[128];

    path_of(f, "data.mdb", path);
    assert_int_equal(truncate(path, 0), 0);
}

static void do_cut(struct fixture *f)
{
    char path[128];
    struct stat st;

    path_of(f, "data.mdb", path);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(truncate(path, st.st_size / 2 / 4096 * 4096), 0);
}

static void do_garbage(struct fixture *f)
{
    char path[128];
    char bytes[16384];

    path_of(f, "data.mdb", path);
    memset(bytes, 0x5a, sizeof bytes);
    int fd = open(path, O_WRONLY | O_TRUNC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, sizeof bytes), sizeof bytes);
    close(fd);
}

static void do_remove_lock(struct fixture *f)
{
    char path[128];

    path_of(f, "lock.mdb", path);
    assert_int_equal(unlink(path), 0);
}

static void do_remove_periods(struct fixture *f)
{
    char path[128];

    path_of(f, "periods", path);
    assert_int_equal(unlink(path), 0);
}

static void do_damage_periods(struct fixture *f)
{
    char path[128];

    path_of(f, "periods", path);
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "X", 1, 40), 1);
    close(fd);
}

static void do_other_secret(struct fixture *f)
{
    f->options.secret[0] ^= 1;
}

static void do_remove_run(struct fixture *f)
{
    char command[256];

    snprintf(command, sizeof command, "rm -rf '%s/run'", f->dir);
    assert_int_equal(system(command), 0);
}

static void do_remove_all(struct fixture *f)
{
    remove_store(f);
}

static void do_empty_directory(struct fixture *f)
{
    char command[256];

    snprintf(command, sizeof command, "rm -rf '%s'/*", f->dir);
    assert_int_equal(system(command), 0);
}

static void do_open_run(struct fixture *f)
{
    char path[128];

    path_of(f, "run", path);
    assert_int_equal(chmod(path, 0755), 0);
}

static void do_bad_clock(struct fixture *f)
{
    (void)f;
    fake_error = ERROR_CLOCK;
}

static void f42_what_opening_says(void **state)
{
    static const struct {
        const char *what;
        void (*how)(struct fixture *);
        enum error want;
    } rows[] = {
        {"data file deleted", do_delete, ERROR_STORE_MISSING},
        {"data file emptied: LMDB would make it anew", do_empty, ERROR_STORE_INVALID},
        {"data file cut", do_cut, ERROR_STORE_INVALID},
        {"garbage in its place", do_garbage, ERROR_STORE_INVALID},
        {"lock file deleted", do_remove_lock, ERROR_STORE_MISSING},
        {"period keys deleted", do_remove_periods, ERROR_PERIODS},
        {"period keys damaged", do_damage_periods, ERROR_PERIODS},
        {"another secret", do_other_secret, ERROR_STORE_SECRET},
        {"run directory missing", do_remove_run, ERROR_RUN_MISSING},
        {"run directory open to others", do_open_run, ERROR_OWNER},
        {"nothing left at all", do_remove_all, ERROR_STORE_MISSING},
        {"the directory is empty", do_empty_directory, ERROR_STORE_MISSING},
        {"clock unreadable", do_bad_clock, ERROR_CLOCK},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *s;
        struct ledger *l = NULL;

        set_up(&s);
        struct fixture *f = s;
        add_limit(f, "site", SUBJECT_EVERYONE, UNIT_CALLS, "day", 1000);
        for (int k = 0; k < 20; k++)
            must(f, DECISION_ADMITTED, NULL);
        close_ledger(f);
        rows[i].how(f);
        enum error e = ledger_open(&f->options, false, &l);
        if (e != rows[i].want)
            print_error("%s: %s\n", rows[i].what, error_text(e));
        assert_int_equal(e, rows[i].want);
        assert_null(l);
        tear_down(&s);
    }
}

/* The same under an open ledger: each is seen before the next decision. */
static void f42_what_a_running_process_says(void **state)
{
    static const struct {
        const char *what;
        void (*how)(struct fixture *);
    } rows[] = {
        {"data file deleted", do_delete},
        {"lock file deleted", do_remove_lock},
        {"data file cut", do_cut},
        {"period keys deleted", do_remove_periods},
        {"period keys damaged", do_damage_periods},
        {"run directory missing", do_remove_run},
        {"clock unreadable", do_bad_clock},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *s;
        struct answer a;
        struct reservation r;

        set_up(&s);
        struct fixture *f = s;
        add_limit(f, "site", SUBJECT_EVERYONE, UNIT_CALLS, "day", 1000);
        for (int k = 0; k < 20; k++)
            must(f, DECISION_ADMITTED, NULL);
        rows[i].how(f);
        if (ledger_check(f->ledger, &f->policy, &f->demand, &a) == ERROR_NONE)
            print_error("%s: not seen\n", rows[i].what);
        assert_int_not_equal(ledger_check(f->ledger, &f->policy, &f->demand, &a), ERROR_NONE);
        assert_int_not_equal(ledger_reserve(f->ledger, &f->policy, &f->demand, &a, &r),
                             ERROR_NONE);
        tear_down(&s);
    }
}

static void a_rolled_back_copy_is_refused_until_adopted(void **state)
{
    struct fixture *f = *state;
    char command[300];
    struct ledger *l = NULL;

    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_CALLS, "day", 1000);
    must(f, DECISION_ADMITTED, NULL);
    close_ledger(f);
    snprintf(command, sizeof command, "cp '%s/data.mdb' '%s/copy'", f->dir, f->dir);
    assert_int_equal(system(command), 0);
    open_ledger(f);
    for (int i = 0; i < 3; i++)
        must(f, DECISION_ADMITTED, NULL);
    close_ledger(f);
    snprintf(command, sizeof command, "cp '%s/copy' '%s/data.mdb'", f->dir, f->dir);
    assert_int_equal(system(command), 0);
    assert_int_equal(ledger_open(&f->options, false, &l), ERROR_STORE_ROLLED_BACK);
    assert_int_equal(ledger_open(&f->options, true, &f->ledger), ERROR_NONE);
    assert_int_equal(used(f, 0), 1);
    must(f, DECISION_ADMITTED, NULL);
    reopen(f);
    assert_int_equal(used(f, 0), 2);
}

static void a_store_is_never_made_over_another(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(ledger_create(&f->options, "UTC0"), ERROR_EXISTS);
    close_ledger(f);
    do_delete(f);
    assert_int_equal(ledger_create(&f->options, "UTC0"), ERROR_EXISTS); /* the rest is there */
}

static void pause_is_read_by_every_decision(void **state)
{
    struct fixture *f = *state;
    struct answer a;

    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_CALLS, "day", 10);
    assert_int_equal(ledger_set_paused(f->ledger, &f->policy, true), ERROR_NONE);
    assert_int_equal(ask(f, &a, NULL), DECISION_PAUSED);
    reopen(f);
    assert_int_equal(ask(f, &a, NULL), DECISION_PAUSED);
    assert_int_equal(ledger_set_paused(f->ledger, &f->policy, false), ERROR_NONE);
    must(f, DECISION_ADMITTED, NULL);
}

struct seen {
    unsigned n;
    struct history_day last;
};

static void see(void *arg, const struct history_day *d)
{
    struct seen *s = arg;

    s->n++;
    s->last = *d;
}

static void history_counts_each_day_and_folds_the_board(void **state)
{
    struct fixture *f = *state;
    struct reservation r[3];
    struct seen seen = {0};

    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_CALLS, "day", 3);
    for (int i = 0; i < 3; i++)
        must(f, DECISION_ADMITTED, &r[i]);
    settle(f, &r[0], SETTLE_USAGE, 50, 500);
    settle(f, &r[1], SETTLE_UNKNOWN, 0, 0);
    ledger_figure(f->ledger, FIGURE_REFUSED + REFUSAL_SITE);
    ledger_figure(f->ledger, FIGURE_REFUSED + REFUSAL_SITE);
    assert_int_equal(ledger_history(f->ledger, &f->policy, 0, see, &seen), ERROR_NONE);
    assert_int_equal(seen.n, 1);
    assert_int_equal(seen.last.admitted, 3);
    assert_int_equal(seen.last.settled, 1);
    assert_int_equal(seen.last.unknown, 1);
    assert_int_equal(seen.last.cost_nano, 1500);
    assert_int_equal(seen.last.tokens_in + seen.last.tokens_out, 150);
    assert_int_equal(seen.last.figures[FIGURE_REFUSED + REFUSAL_SITE], 2);
    assert_int_equal(ledger_maintain(f->ledger, &f->policy), ERROR_NONE);
    assert_int_equal(ledger_history(f->ledger, &f->policy, 0, see, &seen), ERROR_NONE);
    assert_int_equal(seen.last.figures[FIGURE_REFUSED + REFUSAL_SITE],
                     2); /* folded, not doubled */
    pass(DAY_MS);
    settle(f, &r[2], SETTLE_USAGE, 10,
           100); /* F43: settles against the day it was charged to */
    assert_int_equal(ledger_history(f->ledger, &f->policy, 0, see, &seen), ERROR_NONE);
    assert_true(seen.last.admitted == 3 || seen.last.unknown == 0);
}

static void ended_rows_and_keys_go(void **state)
{
    struct fixture *f = *state;
    struct ledger_state first, last;
    size_t n, m;
    char path[128], *before, *after;

    add_limit(f, "burst", SUBJECT_ADDRESS, UNIT_CALLS, "10s", 1000);
    add_limit(f, "day", SUBJECT_ADDRESS, UNIT_CALLS, "day", 1000);
    path_of(f, "periods", path);
    assert_int_equal(file_read(path, 4096, &before, &n), ERROR_NONE);
    for (int day = 0; day < 40; day++) {
        for (int i = 0; i < 30; i++) {
            struct reservation r;

            set_address(&f->demand, (uint8_t)i);
            must(f, DECISION_ADMITTED, &r);
            settle(f, &r, SETTLE_USAGE, 10, 10);
            pass(20000);
        }
        if (day == 12)
            assert_int_equal(ledger_state(f->ledger, &f->policy, &first), ERROR_NONE);
        pass(DAY_MS - 30 * 20000);
    }
    assert_int_equal(ledger_state(f->ledger, &f->policy, &last), ERROR_NONE);
    /* A steady state after the retention: pages freed are pages used again. */
    assert_true(kv_used_bytes(&last.usage) <= kv_used_bytes(&first.usage) + 8 * 4096);
    assert_int_equal(file_read(path, 4096, &after, &m), ERROR_NONE);
    assert_true(m >= n && memcmp(before, after, n) != 0);
    free(before);
    free(after);
}

static void the_name_in_the_log_changes_daily(void **state)
{
    struct fixture *f = *state;
    char a[17], b[17], c[17], d[17];
    struct demand other = f->demand;

    assert_int_equal(ledger_display(f->ledger, &f->policy, &f->demand, SUBJECT_ADDRESS, a),
                     ERROR_NONE);
    assert_int_equal(ledger_display(f->ledger, &f->policy, &f->demand, SUBJECT_ADDRESS, b),
                     ERROR_NONE);
    assert_string_equal(a, b);
    other.caller.id[SUBJECT_ADDRESS].bytes[4]++;
    assert_int_equal(ledger_display(f->ledger, &f->policy, &other, SUBJECT_ADDRESS, c),
                     ERROR_NONE);
    assert_string_not_equal(a, c);
    pass(DAY_MS);
    assert_int_equal(ledger_display(f->ledger, &f->policy, &f->demand, SUBJECT_ADDRESS, d),
                     ERROR_NONE);
    assert_string_not_equal(a, d);
    assert_int_equal(ledger_display(f->ledger, &f->policy, &f->demand, SUBJECT_KEY, d),
                     ERROR_NONE);
    assert_string_equal(d, "-");
}

static void windows_of_past_configurations_make_room(void **state)
{
    struct fixture *f = *state;
    char window[16];

    for (int i = 1; i <= 40; i++) {
        f->policy.n_limits = 0;
        snprintf(window, sizeof window, "%ds", i);
        add_limit(f, "w", SUBJECT_ADDRESS, UNIT_CALLS, window, 1);
        must(f, DECISION_ADMITTED, NULL);
        must(f, DECISION_REFUSED, NULL);
        pass(60000);
    }
}

static void too_many_live_windows_are_an_error(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    struct reservation r;
    char window[16];
    enum error e = ERROR_NONE;

    for (int i = 1; i <= 20 && e == ERROR_NONE; i++) {
        f->policy.n_limits = 0;
        snprintf(window, sizeof window, "%dh", i);
        add_limit(f, "w", SUBJECT_ADDRESS, UNIT_CALLS, window, 1);
        e = ledger_reserve(f->ledger, &f->policy, &f->demand, &a, &r);
        assert_true(e == ERROR_NONE ? i <= PERIOD_WINDOWS - 1 : i == PERIOD_WINDOWS);
    }
    assert_int_equal(e, ERROR_TOO_MANY_WINDOWS);
}

/* F54: a process stopped inside a write transaction. */
static void f54_a_stopped_writer_makes_the_others_say_busy(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    struct reservation r;
    int ready[2];
    char c;

    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_CALLS, "day", 10);
    must(f, DECISION_ADMITTED, NULL);
    close_ledger(f);
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        struct kv *kv = NULL;
        struct kv_txn *t = NULL;

        if (kv_open(f->dir, f->options.map_bytes, &kv) == ERROR_NONE &&
            kv_begin_write(kv, &t) == ERROR_NONE)
            (void)!write(ready[1], "r", 1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], &c, 1), 1);
    kill(child, SIGSTOP);
    open_ledger(f);
    assert_int_equal(ledger_check(f->ledger, &f->policy, &f->demand, &a), ERROR_NONE);
    int64_t before = clock_monotonic_ms();
    assert_int_equal(ledger_reserve(f->ledger, &f->policy, &f->demand, &a, &r), ERROR_BUSY);
    int64_t took = clock_monotonic_ms() - before;
    assert_true(took >= LEDGER_WAIT_MS - 10 && took < LEDGER_WAIT_MS + 1500);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    must(f, DECISION_ADMITTED, NULL); /* the withdrawn one was not charged */
    assert_int_equal(used(f, 0), 2);
    close(ready[0]);
    close(ready[1]);
}

static void a_full_map_refuses_and_loses_nothing(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    struct reservation r;
    enum error e = ERROR_NONE;
    unsigned n = 0;

    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_CALLS, "day", 1000000);
    add_limit(f, "visitor", SUBJECT_ADDRESS, UNIT_CALLS, "day", 1000000);
    close_ledger(f);
    remove_store(f);
    assert_int_equal(mkdir(f->dir, 0700), 0);
    f->options.map_bytes = 128 << 10;
    assert_int_equal(ledger_create(&f->options, "UTC0"), ERROR_NONE);
    open_ledger(f);
    for (; n < 5000 && e == ERROR_NONE; n += e == ERROR_NONE) {
        f->demand.caller.id[SUBJECT_ADDRESS].bytes[3] = (uint8_t)(n >> 8);
        set_address(&f->demand, (uint8_t)n);
        f->demand.caller.id[SUBJECT_ADDRESS].bytes[2] = (uint8_t)(n >> 8);
        e = ledger_reserve(f->ledger, &f->policy, &f->demand, &a, &r);
    }
    assert_int_equal(e, ERROR_STORE_FULL);
    assert_true(n > 100);
    assert_int_equal(used(f, 0), n);
    reopen(f);
    assert_int_equal(used(f, 0), n);
    e = ledger_reserve(f->ledger, &f->policy, &f->demand, &a,
                       &r); /* a page may have come free */
    assert_int_equal(used(f, 0), e == ERROR_NONE ? n + 1 : n);
}

/* A reader that goes on once the writer has come for the third time. */
static struct kv_txn *slow_reader;
static atomic_uint attempts;

static enum error clock_of_slow_reader(struct clock_now *out)
{
    if (atomic_fetch_add(&attempts, 1) == 2 && slow_reader) {
        kv_free_read(slow_reader);
        slow_reader = NULL;
    }
    return fake_clock(out);
}

static void a_reader_that_loses_its_turn_has_nobody_refused(void **state)
{
    struct fixture *f = *state;
    struct reservation r;
    struct answer a;

    close_ledger(f);
    remove_store(f);
    assert_int_equal(mkdir(f->dir, 0700), 0);
    f->options.map_bytes = 128 << 10;
    f->options.clock = clock_of_slow_reader;
    assert_int_equal(ledger_create(&f->options, "UTC0"), ERROR_NONE);
    open_ledger(f);
    must(f, DECISION_ADMITTED, &r);
    assert_int_equal(kv_begin_read(f->ledger->kv, &slow_reader), ERROR_NONE);
    for (unsigned n = 0; n < 100 && slow_reader; n++) {
        atomic_store(&attempts, 0);
        assert_int_equal(ledger_reserve(f->ledger, &f->policy, &f->demand, &a, &r), ERROR_NONE);
    }
    assert_null(slow_reader);
}

static bool is_three_quarters_full(struct fixture *f)
{
    struct ledger_state s;

    assert_int_equal(ledger_state(f->ledger, &f->policy, &s), ERROR_NONE);
    return kv_is_filling(&s.usage);
}

/* What the log says of a store that fills up, or runs ahead of the clock. */
static void the_owner_is_told_in_time(void **state)
{
    struct fixture *f = *state;
    char text[4096] = "", path[128];
    int before = dup(STDERR_FILENO), file;

    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_CALLS, "day", 1000000);
    add_limit(f, "visitor", SUBJECT_ADDRESS, UNIT_CALLS, "day", 1000000);
    close_ledger(f);
    remove_store(f);
    assert_int_equal(mkdir(f->dir, 0700), 0);
    f->options.map_bytes = 256 << 10;
    assert_int_equal(ledger_create(&f->options, "UTC0"), ERROR_NONE);
    open_ledger(f);
    for (unsigned n = 0; n < 5000 && !is_three_quarters_full(f); n++) {
        struct reservation r;

        set_address(&f->demand, (uint8_t)n);
        f->demand.caller.id[SUBJECT_ADDRESS].bytes[2] = (uint8_t)(n >> 8);
        must(f, DECISION_ADMITTED, &r);
        settle(f, &r, SETTLE_USAGE, 1, 1);
    }
    fake_now.wall_ms -= 2 * HOUR_MS;
    path_of(f, "log", path);
    file = open(path, O_RDWR | O_CREAT, 0600);
    assert_true(file >= 0 && dup2(file, STDERR_FILENO) >= 0);
    assert_int_equal(ledger_maintain(f->ledger, &f->policy), ERROR_NONE);
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    assert_true(pread(file, text, sizeof text - 1, 0) > 0);
    assert_non_null(strstr(text, "store_filling"));
    assert_non_null(strstr(text, "store_ahead_of_clock seconds=7200"));
    close(file);
    close(before);
}

static void settles_ride_on_the_next_commit_or_come_alone(void **state)
{
    struct fixture *f = *state;
    struct reservation r;
    struct settlement s = {.kind = SETTLE_NOTHING};
    int64_t limit = clock_monotonic_ms() + 10000;

    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_CALLS, "day", 10);
    must(f, DECISION_ADMITTED, &r);
    assert_int_equal(ledger_settle(f->ledger, &r, &s, false), ERROR_NONE);
    while (used(f, 0) != 0 && clock_monotonic_ms() < limit)
        usleep(5000); /* poll */
    assert_int_equal(used(f, 0), 0);
    must(f, DECISION_ADMITTED, &r);
    assert_int_equal(ledger_settle(f->ledger, &r, &s, false), ERROR_NONE);
    must(f, DECISION_ADMITTED, NULL); /* its commit carried the settle */
    assert_int_equal(used(f, 0), 1);
    must(f, DECISION_ADMITTED, &r);
    assert_int_equal(ledger_settle(f->ledger, &r, &s, false), ERROR_NONE);
    reopen(f); /* a stop commits what waits */
    assert_int_equal(used(f, 0), 1);
}

struct toucher {
    struct ledger *ledger;
    char path[128];
    atomic_bool stop;
};

/* To the ledger each new time stamp is another process's new period file. */
static void *touch_periods(void *arg)
{
    struct toucher *t = arg;
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}};

    while (!atomic_load(&t->stop)) {
        times[1].tv_nsec = (times[1].tv_nsec + 1000) % 1000000000;
        if (utimensat(AT_FDCWD, t->path, times, 0) != 0 ||
            ledger_verify(t->ledger) != ERROR_NONE)
            return t;
        poll(NULL, 0, 1); /* no file changes all the time */
    }
    return NULL;
}

/* Threads read the period file again while the writer copies the keys, advances them and writes
 * them: it must not see half of each (the thread sanitizer tells). */
static void period_keys_are_whole_whoever_reads_them(void **state)
{
    struct fixture *f = *state;
    struct toucher t = {.ledger = f->ledger};
    struct reservation r;
    pthread_t thread;
    void *failed;

    add_limit(f, "mine", SUBJECT_ADDRESS, UNIT_CALLS, "day", 1);
    path_of(f, "periods", t.path);
    assert_int_equal(pthread_create(&thread, NULL, touch_periods, &t), 0);
    for (int day = 0; day < 40; day++) {
        must(f, DECISION_ADMITTED, &r);
        must(f, DECISION_REFUSED, NULL);
        pass(DAY_MS);
    }
    atomic_store(&t.stop, true);
    pthread_join(thread, &failed);
    assert_null(failed);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(admits_up_to_max_and_settles_exactly),
        T(f46_a_call_that_came_to_nothing_is_given_back),
        T(settles_more_than_was_reserved_and_learns),
        T(refusals_leave_the_data_file_as_it_is),
        T(refusal_inside_the_write_transaction_writes_nothing),
        T(f49_a_window_across_midnight_still_counts),
        T(every_window_is_driven_across_midnight),
        T(month_and_day_end_when_they_end),
        T(places_are_free_when_the_stream_ends),
        T(f12_a_killed_holder_frees_its_place_and_keeps_its_charge),
        T(a_reservation_ends_by_itself_and_stays_charged),
        T(what_is_not_settled_is_reserved_whether_or_not_its_holder_lives),
        T(a_new_boot_ends_old_reservations),
        T(f44_a_clock_that_jumps_never_reopens_a_window),
        T(nothing_is_erased_for_a_day_after_a_step),
        T(clock_reset_carries_the_sites_use),
        T(what_is_open_at_a_reset_takes_nothing_away_after_it),
        cmocka_unit_test(f42_what_opening_says),
        cmocka_unit_test(f42_what_a_running_process_says),
        T(a_rolled_back_copy_is_refused_until_adopted),
        T(a_store_is_never_made_over_another),
        T(pause_is_read_by_every_decision),
        T(history_counts_each_day_and_folds_the_board),
        T(ended_rows_and_keys_go),
        T(the_name_in_the_log_changes_daily),
        T(windows_of_past_configurations_make_room),
        T(too_many_live_windows_are_an_error),
        T(f54_a_stopped_writer_makes_the_others_say_busy),
        T(a_full_map_refuses_and_loses_nothing),
        T(a_reader_that_loses_its_turn_has_nobody_refused),
        T(the_owner_is_told_in_time),
        T(settles_ride_on_the_next_commit_or_come_alone),
        T(period_keys_are_whole_whoever_reads_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
