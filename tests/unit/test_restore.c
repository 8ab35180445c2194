/*
 * Durability lease as a whole: live rows that go with the power, and come back from copy and lease.
 * What everyone and anonymous have used is never forgotten; after a copy nothing is wasted.
 */
#include "tests/unit/ledger_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "platform/file.h"
#include "store/copy.h"
#include "store/export.h"
#include "store/lease.h"
#include "store/ledger_parts.h"

#define SITE      0 /* limits of the fixture */
#define ANONYMOUS 1
#define ADDRESS   2
#define SITE_MAX  3200 /* 1/32 is granted ahead: 100 */

struct site {
    struct fixture f; /* first */
    char store[LEASED_PATH], run[LEASED_PATH];
};

/* In place of the library's: what happens while flash is written to. */
static void (*at_fsync)(void);

int fsync(int fd)
{
    void (*now)(void) = at_fsync;

    (void)fd;
    at_fsync = NULL;
    if (now)
        now();
    return 0;
}

static void run_command(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void run_command(const char *format, ...)
{
    char command[512];
    va_list args;

    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    assert_int_equal(system(command), 0);
}

static int set_up_site(void **state)
{
    struct fixture *f;
    struct site *s = calloc(1, sizeof *s);

    assert_non_null(s);
    set_up_leased(&s->f, s->store, s->run);
    f = &s->f;
    *state = s;
    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_CALLS, "day", SITE_MAX);
    add_limit(f, "anonymous", SUBJECT_ANONYMOUS, UNIT_TOKENS, "month", 100 * SITE_MAX);
    add_limit(f, "address", SUBJECT_ADDRESS, UNIT_CALLS, "day", 1000);
    assert_int_equal(ledger_create(&f->options, "UTC0"), ERROR_NONE);
    open_ledger(f);
    return 0;
}

static enum error try_open(struct site *s, bool adopt)
{
    return ledger_open(&s->f.options, adopt, &s->f.ledger);
}

/* All that is on tmpfs goes; a new boot. */
static void lose_power(struct site *s)
{
    close_ledger(&s->f); /* which commits what waits, and copies nothing */
    run_command("rm -rf '%s'/*", s->run);
    fake_now.boot_id[0]++;
    fake_now.boot_ms = 1000;
    fake_now.wall_ms += 1000;
}

static void lose_power_and_open(struct site *s)
{
    lose_power(s);
    open_ledger(&s->f);
}

static void copy(struct site *s)
{
    assert_int_equal(ledger_copy(s->f.ledger, &s->f.policy), ERROR_NONE);
}

static void ask_settled(struct site *s, unsigned n)
{
    struct answer a;
    struct reservation r;

    for (unsigned i = 0; i < n; i++) {
        assert_int_equal(ask(&s->f, &a, &r), DECISION_ADMITTED);
        settle(&s->f, &r, SETTLE_USAGE, 50, 500);
    }
}

static void read_lease(struct site *s, struct lease *out)
{
    assert_int_equal(
        lease_read(s->f.ledger->path_lease, s->f.options.secret, s->f.ledger->schema.uuid, out),
        ERROR_NONE);
}

static bool is_there(const char *directory, const char *name)
{
    char path[160];

    snprintf(path, sizeof path, "%s/%s", directory, name);
    return access(path, F_OK) == 0;
}

static void a_new_store_is_on_flash_at_once(void **state)
{
    struct site *s = *state;

    assert_true(is_there(s->store, "copy") && is_there(s->store, "lease") &&
                is_there(s->store, "periods") && !is_there(s->store, "data.mdb"));
    assert_true(is_there(s->run, "store/data.mdb") && !is_there(s->run, "new"));
    lose_power_and_open(s);
    assert_int_equal(used(&s->f, SITE), 0);
    ask_settled(s, 1);
}

static void what_everyone_used_is_never_forgotten(void **state)
{
    struct site *s = *state;
    uint64_t before, after;

    ask_settled(s, 7);
    before = used(&s->f, SITE);
    assert_int_equal(before, 7);
    lose_power_and_open(s);
    after = used(&s->f, SITE);
    assert_true(after >= before && after <= before + SITE_MAX / 32 + 1);
    assert_true(used(&s->f, ANONYMOUS) >= 7 * 50);
    lose_power_and_open(s); /* the same files lead to the same */
    assert_int_equal(used(&s->f, SITE), after);
    ask_settled(s, 3);
    lose_power_and_open(s);
    assert_true(used(&s->f, SITE) >= after + 3);
}

static void after_a_copy_nothing_is_wasted(void **state)
{
    struct site *s = *state;
    struct lease l;

    ask_settled(s, 7);
    copy(s);
    read_lease(s, &l);
    assert_int_equal(l.n, 0);
    lose_power_and_open(s);
    assert_int_equal(used(&s->f, SITE), 7);
    assert_int_equal(used(&s->f, ANONYMOUS), 7 * 50);
    assert_int_equal(used(&s->f, SITE), 7);
    ask_settled(s, 1); /* and of the segment after it only that one is charged */
    read_lease(s, &l);
    assert_int_equal(l.n, 1);
    assert_true(l.segment[0].serial >= l.copied);
}

static void a_clean_stop_copies_what_waits(void **state)
{
    struct site *s = *state;
    struct answer a;
    struct reservation r;
    struct settlement real = {.kind = SETTLE_USAGE, .real = {{1, 10, 100}}};

    assert_int_equal(ask(&s->f, &a, &r), DECISION_ADMITTED);
    assert_int_equal(ledger_settle(s->f.ledger, &r, &real, false), ERROR_NONE);
    ledger_copy_last(s->f.ledger, 5000);
    lose_power_and_open(s);
    assert_int_equal(used(&s->f, SITE), 1);
    assert_int_equal(used(&s->f, ANONYMOUS), 10);
}

static void a_call_under_way_stays_charged_in_full(void **state)
{
    struct site *s = *state;
    struct answer a;
    struct reservation r;
    struct limit_use u;

    assert_int_equal(ask(&s->f, &a, &r), DECISION_ADMITTED);
    copy(s);
    lose_power_and_open(s);
    assert_int_equal(used(&s->f, ANONYMOUS), 100);
    settle(&s->f, &r, SETTLE_USAGE, 10, 100);
    assert_int_equal(used(&s->f, ANONYMOUS), 100);
    assert_int_equal(ledger_limit_use(s->f.ledger, &s->f.policy, ANONYMOUS, &u), ERROR_NONE);
    assert_int_equal(u.reserved, 0);
}

static void what_the_owner_ordered_holds_once_it_is_copied(void **state)
{
    struct site *s = *state;
    struct answer a;

    assert_int_equal(ledger_set_paused(s->f.ledger, &s->f.policy, true), ERROR_NONE);
    copy(s);
    lose_power_and_open(s);
    assert_int_equal(ledger_check(s->f.ledger, &s->f.policy, &s->f.demand, &a), ERROR_NONE);
    assert_int_equal(a.decision, DECISION_PAUSED);
}

static void an_older_copy_is_refused_until_adopted(void **state)
{
    struct site *s = *state;

    ask_settled(s, 2);
    run_command("cp '%s/copy' '%s/older'", s->store, s->store);
    copy(s);
    lose_power(s);
    run_command("cp '%s/older' '%s/copy'", s->store, s->store);
    assert_int_equal(try_open(s, false), ERROR_STORE_ROLLED_BACK);
    assert_false(is_there(s->run, "store") || is_there(s->run, "new"));
    assert_int_equal(try_open(s, true), ERROR_NONE);
    copy(s); /* as `adopt` does */
    lose_power_and_open(s);
    assert_int_equal(used(&s->f, SITE), 0);
}

static void what_is_missing_or_damaged_refuses_and_is_not_made(void **state)
{
    static const struct {
        const char *name, *harm;
        enum error error;
    } rows[] = {
        {"lease", "rm", ERROR_STORE_MISSING},
        {"copy", "rm", ERROR_STORE_MISSING},
        {"periods", "rm", ERROR_PERIODS},
        {"copy", "truncate -s -1", ERROR_STORE_INVALID},
        {"lease", "truncate -s -1", ERROR_STORE_INVALID},
        {"periods", "truncate -s -1", ERROR_PERIODS},
        {"copy", "truncate -s 0", ERROR_STORE_INVALID},
        {"lease", "truncate -s 0", ERROR_STORE_INVALID},
    };
    struct site *s = *state;

    ask_settled(s, 2);
    copy(s);
    lose_power(s);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        run_command("cp -a '%s' '%s/kept'", s->store, s->f.dir);
        run_command("%s '%s/%s'", rows[i].harm, s->store, rows[i].name);
        enum error e = try_open(s, false);
        if (e != rows[i].error)
            fail_msg("%s %s: %s", rows[i].harm, rows[i].name, error_text(e));
        assert_false(is_there(s->run, "store"));
        assert_true(strcmp(rows[i].harm, "rm") != 0 || !is_there(s->store, rows[i].name));
        run_command("rm -r '%s' && mv '%s/kept' '%s'", s->store, s->f.dir, s->store);
    }
    s->f.options.secret[0] ^= 1;
    assert_int_equal(try_open(s, false), ERROR_STORE_SECRET);
    s->f.options.secret[0] ^= 1;
    open_ledger(&s->f);
    assert_int_equal(used(&s->f, SITE), 2);
}

/* Of a live store that lease, copy or rows are taken from. */
static void a_live_store_without_its_lease_admits_nothing(void **state)
{
    struct site *s = *state;
    struct answer a;
    struct reservation r;

    run_command("rm '%s/lease'", s->store);
    assert_int_equal(ledger_reserve(s->f.ledger, &s->f.policy, &s->f.demand, &a, &r),
                     ERROR_STORE_MISSING);
    assert_int_equal(used(&s->f, SITE), 0);
    assert_false(is_there(s->store, "lease"));
}

static void what_a_crash_left_of_a_restore_is_no_store(void **state)
{
    struct site *s = *state;

    ask_settled(s, 2);
    copy(s);
    run_command("cp -a '%s/store' '%s/rows'", s->run, s->f.dir);
    lose_power(s);
    /* killed before the rename: */
    run_command("cp -a '%s/rows' '%s/new'", s->f.dir, s->run);
    open_ledger(&s->f);
    assert_int_equal(used(&s->f, SITE), 2);
    assert_false(is_there(s->run, "new"));
    /* of another boot, as where the run directory is on a disk: */
    lose_power(s);
    run_command("cp -a '%s/rows' '%s/store'", s->f.dir, s->run);
    open_ledger(&s->f);
    assert_int_equal(used(&s->f, SITE), 2);
    ask_settled(s, 1);
    /* killed while that was removed: */
    lose_power(s);
    run_command("cp -a '%s/rows' '%s/store' && rm '%s/store/data.mdb'", s->f.dir, s->run,
                s->run);
    open_ledger(&s->f);
    assert_true(used(&s->f, SITE) >= 3);
}

static void rows_of_this_boot_are_not_restored_over(void **state)
{
    struct site *s = *state;

    ask_settled(s, 5);
    reopen(&s->f);
    assert_int_equal(used(&s->f, SITE), 5);
    run_command("rm '%s/copy'", s->store);
    reopen(&s->f);
    assert_int_equal(used(&s->f, SITE), 5);
    copy(s);
    assert_true(is_there(s->store, "copy"));
}

/* Nobody copies: no process stays, and there is no cron. */
static void without_copies_one_is_made_once_the_lease_is_full(void **state)
{
    struct site *s = *state;
    struct lease l;
    uint64_t n = 0;

    for (unsigned hour = 0; hour < 3 * LEASE_SEGMENTS; hour++) {
        ask_settled(s, 1);
        n++;
        read_lease(s, &l);
        assert_true(l.n >= 1 && l.n <= LEASE_SEGMENTS);
        if (hour == LEASE_SEGMENTS)
            assert_int_equal(l.n, 1);
        pass(HOUR_MS);
        if (hour == 16) /* the day's counter begins anew at midnight */
            n = 0;
    }
    assert_int_equal(used(&s->f, SITE), n);
    lose_power_and_open(s);
    assert_true(used(&s->f, SITE) >= n);
}

static void a_copy_is_made_hourly_if_anything_changed(void **state)
{
    struct site *s = *state;

    ask_settled(s, 1);
    copy(s);
    assert_false(ledger_copy_is_due(s->f.ledger));
    pass(HOUR_MS);
    assert_false(ledger_copy_is_due(s->f.ledger)); /* nothing has */
    ask_settled(s, 1);
    assert_true(ledger_copy_is_due(s->f.ledger));
    assert_int_equal(ledger_copy_hourly(s->f.ledger, NULL), ERROR_NONE);
    assert_false(ledger_copy_is_due(s->f.ledger));
    ask_settled(s, 1);
    assert_false(ledger_copy_is_due(s->f.ledger)); /* no hour has passed */
    lose_power_and_open(s);
    assert_true(ledger_copy_is_due(s->f.ledger)); /* segments were charged: they wait for it */
    copy(s);
    lose_power_and_open(s);
    assert_false(ledger_copy_is_due(s->f.ledger)); /* it is as on flash */
}

static void timed_work_copies_in_a_thread_of_its_own(void **state)
{
    struct site *s = *state;

    ask_settled(s, 1);
    assert_true(ledger_copy_is_due(s->f.ledger)); /* nothing has been noted yet */
    copier_begin_due(s->f.ledger);
    copier_begin_due(s->f.ledger); /* one at a time */
    assert_true(copier_wait(s->f.ledger, clock_monotonic_ms() + 5000));
    assert_false(ledger_copy_is_due(s->f.ledger));
    pass(HOUR_MS);
    ask_settled(s, 1);
    copier_begin_due(s->f.ledger);
    close_ledger(&s->f); /* waits for it */
    lose_power_and_open(s);
    assert_int_equal(used(&s->f, SITE), 2);
}

static void a_copy_that_fails_leaves_the_one_before(void **state)
{
    struct site *s = *state;
    struct lease l;

    ask_settled(s, 1);
    copy(s);
    ask_settled(s, 1);
    for (unsigned i = 0; i < 16; i++) /* all names that it could be written under */
        run_command("mkdir '%s/copy.new%u'", s->store, i);
    assert_int_not_equal(ledger_copy(s->f.ledger, &s->f.policy), ERROR_NONE);
    read_lease(s, &l);
    assert_int_equal(l.n, 1);
    pass(HOUR_MS - 1);
    assert_true(ledger_copy_is_due(s->f.ledger));
    assert_int_not_equal(ledger_copy_hourly(s->f.ledger, NULL), ERROR_NONE);
    assert_false(ledger_copy_is_due(s->f.ledger)); /* a full flash is left alone for a while */
    pass(HOUR_MS / 6);
    assert_true(ledger_copy_is_due(s->f.ledger));
    lose_power_and_open(s);
    assert_true(used(&s->f, SITE) >= 2);
}

static void keep_flash(const struct site *s)
{
    run_command("rm -rf '%s.kept' && cp -a '%s' '%s.kept'", s->store, s->store, s->store);
}

static void put_back(const struct site *s, const char *name)
{
    run_command("cp -a '%s.kept/%s' '%s/%s'", s->store, name, s->store, name);
}

/* The live rows know more than what was put back, and nothing is admitted before they are copied:
 * also where they have just been. */
static void files_put_back_under_a_running_site_are_made_good(void **state)
{
    struct site *s = *state;

    keep_flash(s);
    for (unsigned copied = 0; copied < 2; copied++) {
        ask_settled(s, 150); /* more than is granted at once */
        copy(s);
        ask_settled(s, 150);
        if (copied)
            copy(s);
        put_back(s, "copy");
        put_back(s, "lease");
        ask_settled(s, 150);
    }
    lose_power_and_open(s);
    assert_true(used(&s->f, SITE) >= 900);
}

/* It names the rows before ours, and is no reason to give ours up. */
static void a_lease_of_the_last_boot_put_back_is_made_good(void **state)
{
    struct site *s = *state;
    uint8_t before[LEASE_ROWS];
    struct lease l;

    ask_settled(s, 1);
    keep_flash(s);
    read_lease(s, &l);
    memcpy(before, l.rows, sizeof before);
    lose_power_and_open(s);
    ask_settled(s, 150);
    put_back(s, "lease");
    ask_settled(s, 150);
    read_lease(s, &l);
    assert_memory_not_equal(l.rows, before, sizeof before);
    lose_power_and_open(s);
    assert_true(used(&s->f, SITE) >= 301);
}

static void a_lease_older_than_its_copy_is_refused_until_adopted(void **state)
{
    struct site *s = *state;

    ask_settled(s, 1);
    keep_flash(s);
    pass(HOUR_MS);
    ask_settled(s, 1);
    copy(s);
    lose_power(s);
    put_back(s, "lease");
    assert_int_equal(try_open(s, false), ERROR_STORE_ROLLED_BACK);
    assert_int_equal(try_open(s, true), ERROR_NONE);
    ask_settled(s, 1);
    lose_power_and_open(s);
    assert_true(used(&s->f, SITE) >= 3);
}

static struct site *robbed;
static struct ledger *of_others;

static void rob(void)
{
    run_command("rm -rf '%s'/*", robbed->run);
    assert_int_equal(ledger_open(&robbed->f.options, false, &of_others), ERROR_NONE);
}

/* Neither of both knows the other's lease. */
static void rows_that_go_while_the_lease_is_written_admit_nobody(void **state)
{
    struct answer a;
    struct reservation r;

    robbed = *state;
    at_fsync = rob;
    assert_int_not_equal(
        ledger_reserve(robbed->f.ledger, &robbed->f.policy, &robbed->f.demand, &a, &r),
        ERROR_NONE);
    assert_non_null(of_others);
    assert_true(ledger_close(of_others, LEDGER_WAIT_MS));
}

static ino_t inode_of_copy(const struct site *s)
{
    char path[160];
    struct stat st;

    snprintf(path, sizeof path, "%s/copy", s->store);
    assert_int_equal(stat(path, &st), 0);
    return st.st_ino;
}

/* Else each request of a CGI site would write to flash, where one is cut off or tmpfs is full. */
static void a_copy_that_cannot_be_noted_is_not_written(void **state)
{
    struct site *s = *state;
    ino_t before = inode_of_copy(s);

    ask_settled(s, 1);
    for (unsigned i = 0; i < 16; i++)
        run_command("mkdir '%s/store/copied.new%u'", s->run, i);
    assert_int_not_equal(ledger_copy_hourly(s->f.ledger, NULL), ERROR_NONE);
    assert_true(inode_of_copy(s) == before);
    run_command("rmdir '%s'/store/copied.new*", s->run);
    assert_int_equal(ledger_copy_hourly(s->f.ledger, NULL), ERROR_NONE);
    assert_true(inode_of_copy(s) != before);
}

static void fill_lease(struct site *s)
{
    struct lease l;

    do {
        pass(HOUR_MS);
        ask_settled(s, 1);
        read_lease(s, &l);
    } while (l.n < LEASE_SEGMENTS);
    pass(HOUR_MS);
}

static void a_flood_does_not_try_to_copy_at_each_request(void **state)
{
    struct site *s = *state;
    struct answer a;
    struct reservation r;

    fill_lease(s);
    for (unsigned i = 0; i < 16; i++) /* all names that it could be written under */
        run_command("mkdir '%s/copy.new%u'", s->store, i);
    assert_int_not_equal(ledger_reserve(s->f.ledger, &s->f.policy, &s->f.demand, &a, &r),
                         ERROR_NONE);
    run_command("rmdir '%s'/copy.new*", s->store);
    assert_int_equal(ledger_reserve(s->f.ledger, &s->f.policy, &s->f.demand, &a, &r),
                     ERROR_BUSY);
    pass(10000);
    ask_settled(s, 1);
}

/* A limit that is written later, for everyone alone: its window has no other counter. */
static void a_window_that_came_after_the_copy_is_charged(void **state)
{
    struct site *s = *state;

    ask_settled(s, 1);
    copy(s);
    add_limit(&s->f, "fortnight", SUBJECT_EVERYONE, UNIT_CALLS, "14d", 1000);
    ask_settled(s, 5);
    lose_power_and_open(s);
    assert_true(used(&s->f, 3) >= 5);
}

static void time_does_not_go_back(void **state)
{
    struct site *s = *state;
    struct ledger_state t;

    copy(s);
    pass(10 * DAY_MS);
    ask_settled(s, 1);
    lose_power(s);
    fake_now.wall_ms -= 9 * DAY_MS; /* no clock battery */
    open_ledger(&s->f);
    assert_int_equal(ledger_state(s->f.ledger, &s->f.policy, &t), ERROR_NONE);
    assert_true(t.store_ms >= START_MS + 10 * DAY_MS);
    assert_true(used(&s->f, SITE) >= 1);
}

/* Keys that timed work let go of since the copy: a time whose keys are gone could count nobody. */
/* The clock is months ahead for a while, which only the lease knows of, and is mended. */
static void after_a_step_that_no_copy_has_the_owner_has_a_day(void **state)
{
    struct site *s = *state;
    int64_t right_ms;

    ask_settled(s, 3);
    copy(s);
    right_ms = fake_now.wall_ms;
    fake_now.wall_ms += 100 * DAY_MS;
    ask_settled(s, 1);
    lose_power(s);
    fake_now.wall_ms = right_ms + 5000;
    open_ledger(&s->f);
    ask_settled(s, 1); /* what has ended is erased with it */
    uint64_t ahead = used(&s->f, SITE);
    assert_int_equal(ledger_clock_reset(s->f.ledger, &s->f.policy), ERROR_NONE);
    assert_int_equal(used(&s->f, SITE), ahead + 3);
}

static void time_is_no_earlier_than_the_period_keys(void **state)
{
    struct site *s = *state;
    struct ledger_state t;
    int64_t crashed_ms;

    add_limit(&s->f, "sliding", SUBJECT_ADDRESS, UNIT_CALLS, "1h", 1000);
    add_limit(&s->f, "long", SUBJECT_ADDRESS, UNIT_CALLS, "30d", 1000);
    add_limit(&s->f, "month", SUBJECT_ADDRESS, UNIT_CALLS, "month", 1000);
    ask_settled(s, 1);
    copy(s);
    for (unsigned days = 1; days < 40; days += 6) {
        pass(days * DAY_MS + HOUR_MS / 7);
        assert_int_equal(ledger_maintain(s->f.ledger, &s->f.policy), ERROR_NONE);
        crashed_ms = fake_now.wall_ms;
        lose_power(s);
        fake_now.wall_ms = START_MS;
        open_ledger(&s->f);
        assert_int_equal(ledger_state(s->f.ledger, &s->f.policy, &t), ERROR_NONE);
        assert_true(t.store_ms <= crashed_ms);
        ask_settled(s, 1);
        lose_power(s);
        fake_now.wall_ms = crashed_ms;
        open_ledger(&s->f);
    }
}

static void a_store_of_the_other_durability_is_named(void **state)
{
    struct site *s = *state;

    close_ledger(&s->f);
    s->f.options.lease = false;
    assert_int_equal(try_open(s, false), ERROR_STORE_DURABILITY);
    assert_int_equal(ledger_create(&s->f.options, "UTC0"), ERROR_EXISTS);
    s->f.options.lease = true;
    s->f.options.store = s->f.dir; /* where the fixture has made one */
    assert_int_equal(try_open(s, false), ERROR_STORE_DURABILITY);
    run_command("rm -rf '%s/store'", s->run);
    assert_int_equal(ledger_create(&s->f.options, "UTC0"), ERROR_EXISTS);
    s->f.options.store = s->store;
}

static void half_a_store_is_removed(void **state)
{
    struct site *s = *state;

    close_ledger(&s->f);
    assert_int_equal(ledger_create(&s->f.options, "UTC0"), ERROR_EXISTS);
    run_command("rm -rf '%s/store' '%s'/*", s->run, s->store);
    for (unsigned i = 0; i < 16; i++)
        run_command("mkdir '%s/lease.new%u'", s->store, i);
    assert_int_not_equal(ledger_create(&s->f.options, "UTC0"), ERROR_NONE);
    run_command("rmdir '%s'/lease.new*", s->store);
    assert_false(is_there(s->store, "copy") || is_there(s->store, "periods") ||
                 is_there(s->run, "store") || is_there(s->run, "new"));
    assert_int_equal(ledger_create(&s->f.options, "UTC0"), ERROR_NONE);
    s->f.options.run = NULL;
    assert_int_equal(ledger_create(&s->f.options, "UTC0"), ERROR_RUN_MISSING);
    s->f.options.run = s->run;
}

static void begin(struct site *s)
{
    run_command("touch '%s/making'", s->store);
}

static enum error make(struct site *s)
{
    return ledger_create(&s->f.options, "UTC0");
}

static void what_a_crash_left_of_a_new_store_is_ended(void **state)
{
    struct site *s = *state;

    ask_settled(s, 3);
    copy(s);
    close_ledger(&s->f);
    begin(s);
    assert_int_equal(make(s), ERROR_NONE);
    assert_false(is_there(s->store, "making"));
    open_ledger(&s->f);
    assert_int_equal(used(&s->f, SITE), 3); /* it could be opened, and has counted */

    lose_power(s);
    begin(s);
    assert_int_equal(make(s), ERROR_NONE);
    open_ledger(&s->f);
    assert_int_equal(used(&s->f, SITE), 3);

    close_ledger(&s->f);
    begin(s);
    s->f.options.secret[0] ^= 1;
    assert_int_equal(make(s), ERROR_STORE_SECRET);
    s->f.options.secret[0] ^= 1;
    s->f.options.lease = false;
    assert_int_equal(make(s), ERROR_EXISTS);
    s->f.options.lease = true;
    run_command("mv '%s/lease' '%s/../lease'", s->store, s->store);
    assert_int_equal(make(s), ERROR_EXISTS); /* the live rows have counted */
    assert_true(is_there(s->store, "copy") && is_there(s->run, "store"));
    run_command("mv '%s/../lease' '%s/lease'", s->store, s->store);
    assert_int_equal(make(s), ERROR_NONE);
    open_ledger(&s->f);
    assert_int_equal(used(&s->f, SITE), 3);
}

static void what_nobody_could_open_is_begun_anew(void **state)
{
    static const char *const gone[] = {"lease", "lease copy", "lease copy periods"};
    struct site *s = *state;

    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) {
        lose_power(s);
        run_command("cd '%s' && rm %s", s->store, gone[i]);
        assert_int_not_equal(try_open(s, false), ERROR_NONE);
        if (is_there(s->store, "periods"))
            assert_int_equal(make(s), ERROR_EXISTS); /* of a store that was lost */
        begin(s);
        assert_int_equal(try_open(s, false), ERROR_STORE_MISSING);
        assert_int_equal(make(s), ERROR_NONE);
        assert_false(is_there(s->store, "making"));
        open_ledger(&s->f);
        ask_settled(s, 1);
    }
}

/* The same of durability commit. */
static void half_of_a_synced_store_is_ended_or_begun_anew(void **state)
{
    static const char *const left[] = {"rm data.mdb", "rm data.mdb lock.mdb", ": >data.mdb",
                                       "rm periods data.mdb", "rm data.mdb; : >lock.mdb"};
    struct site *s = *state;

    lose_power(s);
    run_command("rm '%s'/*", s->store);
    s->f.options.lease = false;
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
        assert_int_equal(make(s), ERROR_NONE);
        open_ledger(&s->f);
        ask_settled(s, 2);
        close_ledger(&s->f);
        begin(s);
        s->f.options.secret[0] ^= 1;
        assert_int_equal(make(s), ERROR_STORE_SECRET);
        s->f.options.secret[0] ^= 1;
        assert_int_equal(make(s), ERROR_NONE);
        open_ledger(&s->f);
        assert_int_equal(used(&s->f, SITE), 2);
        close_ledger(&s->f);
        run_command("cd '%s' && { %s; }", s->store, left[i]);
        assert_int_equal(make(s), ERROR_EXISTS);
        begin(s);
        assert_int_equal(try_open(s, false), ERROR_STORE_MISSING);
        assert_int_equal(make(s), ERROR_NONE);
        open_ledger(&s->f);
        assert_int_equal(used(&s->f, SITE), 0);
        close_ledger(&s->f);
        run_command("rm '%s'/*", s->store);
    }
}

/* Or damage, much later, would be taken for a half that is to be begun anew. */
static void what_was_opened_once_is_made_to_the_end(void **state)
{
    struct site *s = *state;

    for (unsigned i = 0; i < 2; i++) {
        close_ledger(&s->f);
        begin(s);
        open_ledger(&s->f);
        ask_settled(s, 1);
        assert_false(is_there(s->store, "making"));
        lose_power(s);
        if (i > 0)
            break;
        run_command("rm '%s'/*", s->store);
        s->f.options.lease = false;
        assert_int_equal(make(s), ERROR_NONE);
        open_ledger(&s->f);
    }
    run_command(": >'%s/data.mdb'", s->store);
    assert_int_equal(try_open(s, false), ERROR_STORE_INVALID);
    assert_int_equal(make(s), ERROR_EXISTS);
}

/* Processes of a site that start at once after a boot. */
static void of_many_one_restores(void **state)
{
    struct site *s = *state;
    pid_t child[6];

    ask_settled(s, 4);
    copy(s);
    for (unsigned round = 0; round < 10; round++) {
        lose_power(s);
        for (unsigned i = 0; i < 6; i++)
            if ((child[i] = fork()) == 0) {
                struct answer a;
                struct reservation r;

                _exit(try_open(s, false) == ERROR_NONE &&
                              ledger_reserve(s->f.ledger, &s->f.policy, &s->f.demand, &a, &r) ==
                                  ERROR_NONE &&
                              a.decision == DECISION_ADMITTED
                          ? 0
                          : 1);
            }
        for (unsigned i = 0; i < 6; i++) {
            int status;

            assert_int_equal(waitpid(child[i], &status, 0), child[i]);
            assert_int_equal(status, 0);
        }
        open_ledger(&s->f);
        assert_int_equal(used(&s->f, SITE), 4 + 6 * (round + 1));
        copy(s);
    }
}

static FILE *export_all(struct fixture *f)
{
    FILE *text = tmpfile();
    uint64_t rows;

    assert_non_null(text);
    assert_int_equal(ledger_export(f->ledger, text, &rows), ERROR_NONE);
    assert_int_equal(fseek(text, 0, SEEK_SET), 0);
    return text;
}

static void an_export_goes_from_one_durability_to_the_other(void **state)
{
    struct site *s = *state;
    struct import_report report;
    FILE *text;
    struct lease l;

    ask_settled(s, 5);
    text = export_all(&s->f);
    close_ledger(&s->f);
    run_command("rm '%s'/*", s->store);
    run_command("rm -rf '%s'/*", s->run);
    s->f.options.lease = false;
    assert_int_equal(ledger_create(&s->f.options, "UTC0"), ERROR_NONE);
    assert_int_equal(ledger_import(&s->f.options, text, &report), ERROR_NONE);
    fclose(text);
    open_ledger(&s->f);
    assert_int_equal(used(&s->f, SITE), 5);
    text = export_all(&s->f);
    close_ledger(&s->f);
    run_command("rm '%s'/*", s->store);
    run_command("rm -rf '%s'/*", s->run);
    s->f.options.lease = true;
    assert_int_equal(ledger_create(&s->f.options, "UTC0"), ERROR_NONE);
    assert_int_equal(ledger_import(&s->f.options, text, &report), ERROR_NONE);
    assert_int_equal(ledger_import(&s->f.options, text, &report), ERROR_EXISTS);
    fclose(text);
    lose_power_and_open(s); /* the import was copied before it had succeeded */
    assert_int_equal(used(&s->f, SITE), 5);
    assert_int_equal(used(&s->f, ANONYMOUS), 5 * 50);
    read_lease(s, &l);
    assert_int_equal(l.n, 0);
    ask_settled(s, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_site, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_new_store_is_on_flash_at_once),
        TEST(what_everyone_used_is_never_forgotten),
        TEST(after_a_copy_nothing_is_wasted),
        TEST(a_clean_stop_copies_what_waits),
        TEST(a_call_under_way_stays_charged_in_full),
        TEST(what_the_owner_ordered_holds_once_it_is_copied),
        TEST(an_older_copy_is_refused_until_adopted),
        TEST(what_is_missing_or_damaged_refuses_and_is_not_made),
        TEST(a_live_store_without_its_lease_admits_nothing),
        TEST(what_a_crash_left_of_a_restore_is_no_store),
        TEST(rows_of_this_boot_are_not_restored_over),
        TEST(without_copies_one_is_made_once_the_lease_is_full),
        TEST(a_copy_is_made_hourly_if_anything_changed),
        TEST(timed_work_copies_in_a_thread_of_its_own),
        TEST(a_copy_that_fails_leaves_the_one_before),
        TEST(a_copy_that_cannot_be_noted_is_not_written),
        TEST(rows_that_go_while_the_lease_is_written_admit_nobody),
        TEST(a_flood_does_not_try_to_copy_at_each_request),
        TEST(files_put_back_under_a_running_site_are_made_good),
        TEST(a_lease_of_the_last_boot_put_back_is_made_good),
        TEST(a_lease_older_than_its_copy_is_refused_until_adopted),
        TEST(a_window_that_came_after_the_copy_is_charged),
        TEST(time_does_not_go_back),
        TEST(after_a_step_that_no_copy_has_the_owner_has_a_day),
        TEST(time_is_no_earlier_than_the_period_keys),
        TEST(a_store_of_the_other_durability_is_named),
        TEST(half_a_store_is_removed),
        TEST(what_a_crash_left_of_a_new_store_is_ended),
        TEST(what_nobody_could_open_is_begun_anew),
        TEST(half_of_a_synced_store_is_ended_or_begun_anew),
        TEST(what_was_opened_once_is_made_to_the_end),
        TEST(of_many_one_restores),
        TEST(an_export_goes_from_one_durability_to_the_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
