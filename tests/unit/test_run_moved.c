/*
 * Durability lease, and the run directory becomes another one while the machine stays up: the
 * configuration is changed, and changed back, or one process has been given another one than the
 * rest. The rows in either are of this boot, but only those that were restored last count on.
 */
#include "tests/unit/ledger_fixture.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "store/export.h"
#include "store/ledger_parts.h"
#include "store/liverows.h"

#define MOST 64 /* 1/32 is granted ahead: 2 */

struct site {
    struct fixture f; /* first */
    char store[LEASED_PATH], run[LEASED_PATH], other[LEASED_PATH];
};

static int set_up_site(void **state)
{
    struct site *s = calloc(1, sizeof *s);

    assert_non_null(s);
    set_up_leased(&s->f, s->store, s->run);
    snprintf(s->other, sizeof s->other, "%s/other", s->f.dir);
    assert_int_equal(mkdir(s->other, 0700), 0);
    add_limit(&s->f, "site", SUBJECT_EVERYONE, UNIT_CALLS, "day", MOST);
    assert_int_equal(ledger_create(&s->f.options, "UTC0"), ERROR_NONE);
    *state = s;
    return 0;
}

/* How many of n are admitted; a ledger that cannot go on is opened anew, as the service does. */
static unsigned admitted(struct site *s, struct ledger **l, const char *run, unsigned n)
{
    struct ledger_options o = s->f.options;
    unsigned of = 0;

    o.run = run;
    while (n-- > 0) {
        struct answer a;
        struct reservation r;

        if (*l && ledger_verify(*l) != ERROR_NONE) {
            assert_true(ledger_close(*l, LEDGER_WAIT_MS));
            *l = NULL;
        }
        if (!*l)
            assert_int_equal(ledger_open(&o, false, l), ERROR_NONE);
        of += ledger_reserve(*l, &s->f.policy, &s->f.demand, &a, &r) == ERROR_NONE &&
              a.decision == DECISION_ADMITTED;
    }
    return of;
}

static void stop(struct ledger **l)
{
    ledger_copy_last(*l, 5000);
    assert_true(ledger_close(*l, 5000));
    *l = NULL;
}

/* By the shell, for which $A and $B are both run directories. */
static void run_command(const struct site *s, const char *what)
{
    assert_int_equal(setenv("A", s->run, 1) | setenv("B", s->other, 1), 0);
    assert_int_equal(system(what), 0);
}

static void lose_power(struct site *s)
{
    run_command(s, "rm -rf \"$A\"/* \"$B\"/*");
    fake_now.boot_id[0]++;
}

static void changed_and_changed_back_is_never_over(void **state)
{
    struct site *s = *state;
    struct ledger *l = NULL;
    unsigned n = 0;

    for (unsigned i = 0; i < 4; i++) {
        n += admitted(s, &l, i % 2 ? s->other : s->run, MOST / 4);
        stop(&l);
    }
    assert_true(n > MOST / 2);
    n += admitted(s, &l, s->run, 2 * MOST);
    assert_true(n <= MOST);
    assert_true(ledger_close(l, 5000));
}

/* With what is in it: those are not the rows that the lease grants to, but a copy of them. */
static void copied_along_and_set_back_is_never_over(void **state)
{
    struct site *s = *state;
    struct ledger *l = NULL, *copied = NULL;
    unsigned n = admitted(s, &l, s->run, 4);

    run_command(s, "cp -a \"$A\"/. \"$B\"");
    n += admitted(s, &copied, s->other, MOST / 2); /* while those are still in use, too */
    n += admitted(s, &l, s->run, 4);
    stop(&copied);
    stop(&l);
    n += admitted(s, &l, s->run, 2 * MOST);
    assert_true(n > MOST / 2);
    assert_true(n <= MOST);
    assert_true(ledger_close(l, 5000));
}

static void two_at_once_are_never_over(void **state)
{
    struct site *s = *state;
    struct ledger *one = NULL, *two = NULL;
    unsigned n = 0;

    for (unsigned i = 0; i < MOST; i++) {
        n += admitted(s, &one, s->run, 3);
        n += admitted(s, &two, s->other, 3);
    }
    assert_true(n <= MOST);
    assert_true(ledger_close(one, 5000) && ledger_close(two, 5000));
}

/* What the owner orders first is not ordered of rows that do not count on. */
static void an_order_after_it_holds(void **state)
{
    struct site *s = *state;
    struct ledger *l = NULL;
    struct answer a;

    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(admitted(s, &l, i ? s->other : s->run, 5), 5);
        stop(&l);
    }
    open_ledger(&s->f);
    assert_true(used(&s->f, 0) >= 10);
    assert_int_equal(ledger_set_paused(s->f.ledger, &s->f.policy, true), ERROR_NONE);
    assert_int_equal(ledger_copy(s->f.ledger, &s->f.policy), ERROR_NONE);
    reopen(&s->f);
    assert_int_equal(ledger_check(s->f.ledger, &s->f.policy, &s->f.demand, &a), ERROR_NONE);
    assert_int_equal(a.decision, DECISION_PAUSED);
}

/* One that is left over stops last. */
static void what_was_restored_last_is_what_is_kept(void **state)
{
    struct site *s = *state;
    struct ledger *one = NULL, *two = NULL;
    unsigned n = admitted(s, &one, s->run, 10);

    n += admitted(s, &two, s->other, 20);
    stop(&two);
    stop(&one);
    lose_power(s);
    n += admitted(s, &one, s->run, 2 * MOST);
    assert_true(n <= MOST);
    assert_true(ledger_close(one, 5000));
}

/*
 * The owner has a short limit beside that of the day, of which more is granted ahead than the short
 * one has. What is left of that to rows that were replaced is charged to the short window when the
 * others are restored, and must not be spent once it has gone from there.
 */
static void a_short_window_is_never_over(void **state)
{
    struct site *s = *state;
    struct ledger *one = NULL, *two = NULL;

    s->f.limits[0].max = 32 * 20;
    add_limit(&s->f, "short", SUBJECT_EVERYONE, UNIT_CALLS, "20m", 10);
    assert_int_equal(admitted(s, &one, s->run, 1), 1);
    assert_int_equal(admitted(s, &two, s->other, 1), 0); /* all that was granted is charged */
    pass(25 * 60 * 1000);
    unsigned n = admitted(s, &two, s->other, 20);
    n += admitted(s, &one, s->run, 20);
    assert_true(n > 0);
    assert_true(n <= 10);
    assert_true(ledger_close(one, 5000) && ledger_close(two, 5000));
}

/* What the owner orders of the one holds for the other, too, whatever that has been granted. */
static void an_order_holds_for_the_rows_before(void **state)
{
    struct site *s = *state;
    struct ledger *one = NULL, *two = NULL;

    s->f.limits[0].max = 32 * 20;
    assert_int_equal(admitted(s, &one, s->run, 1), 1);
    assert_int_equal(admitted(s, &two, s->other, 1), 1);
    assert_int_equal(ledger_set_paused(two, &s->f.policy, true), ERROR_NONE);
    assert_int_equal(ledger_copy(two, &s->f.policy), ERROR_NONE);
    assert_int_equal(admitted(s, &one, s->run, 10), 0);
    assert_true(ledger_close(one, 5000) && ledger_close(two, 5000));
}

/* Where nothing has ever been counted, but elsewhere it has. */
static void an_import_is_not_into_rows_that_do_not_count_on(void **state)
{
    struct site *s = *state;
    struct ledger *two = NULL;
    struct import_report report;
    uint64_t rows;
    FILE *text = tmpfile();

    assert_non_null(text);
    open_ledger(&s->f);
    assert_int_equal(ledger_export(s->f.ledger, text, &rows), ERROR_NONE);
    close_ledger(&s->f);
    assert_int_equal(admitted(s, &two, s->other, 10), 10);
    for (unsigned i = 0; i < 2; i++) {
        rewind(text);
        assert_int_not_equal(ledger_import(&s->f.options, text, &report), ERROR_NONE);
    }
    fclose(text);
    stop(&two);
    lose_power(s);
    open_ledger(&s->f);
    assert_true(used(&s->f, 0) >= 10);
}

/* Somebody else has put them in their place meanwhile. */
static void only_rows_of_ones_own_are_given_up(void **state)
{
    struct site *s = *state;
    struct ledger *one = NULL, *two = NULL;
    char boot[LEASED_PATH + 16];

    snprintf(boot, sizeof boot, "%s/store/boot", s->run);
    assert_int_equal(admitted(s, &one, s->run, 1), 1);
    run_command(s, "rm -rf \"$A\"/*");
    assert_int_equal(admitted(s, &two, s->run, 1), 1);
    liverows_forsake(one);
    assert_int_equal(access(boot, F_OK), 0);
    liverows_forsake(two);
    assert_int_equal(access(boot, F_OK), -1);
    assert_true(ledger_close(one, 5000) && ledger_close(two, 5000));
}

/* What somebody else makes there now is not put in its place under our name. */
static void rows_half_made_elsewhere_are_not_published(void **state)
{
    struct site *s = *state;
    struct ledger_options o = s->f.options;
    struct ledger *one = NULL, *two = NULL;

    assert_int_equal(ledger_new(&o, &one) | ledger_new(&o, &two), ERROR_NONE);
    run_command(s, "rm -rf \"$A\"/*");
    assert_int_equal(liverows_begin(one), ERROR_NONE);
    run_command(s, "mv \"$A\" \"$A.1\" && mkdir -m 700 \"$A\"");
    assert_int_equal(liverows_begin(two), ERROR_NONE);
    assert_int_not_equal(liverows_publish(one, &fake_now), ERROR_NONE);
    assert_int_equal(liverows_publish(two, &fake_now), ERROR_NONE);
    ledger_free(one);
    ledger_free(two);
}

/* ---- processes ---- */

#define PROCESSES 4
#define KILLS     60
#define NO_END    1000000

/* What all of them see. */
struct seen {
    atomic_uint admitted, rolled_back;
};

static void live_a_while(struct site *s, const char *run, struct seen *seen, unsigned seed)
{
    struct ledger_options o = s->f.options;
    struct ledger *l = NULL;

    o.run = run;
    enum error e = ledger_open(&o, false, &l);
    for (unsigned i = 0; i < 1 + seed % 7 && e == ERROR_NONE; i++) {
        struct answer a;
        struct reservation r;

        e = ledger_reserve(l, &s->f.policy, &s->f.demand, &a, &r);
        if (e == ERROR_NONE && a.decision == DECISION_ADMITTED)
            atomic_fetch_add(&seen->admitted, 1);
        if (e == ERROR_NONE && i == seed % 5)
            e = ledger_copy(l, &s->f.policy);
    }
    if (e == ERROR_STORE_ROLLED_BACK)
        atomic_fetch_add(&seen->rolled_back, 1);
    if (l && seed % 3 == 0)
        ledger_copy_last(l, 1000);
    if (l && !ledger_close(l, LEDGER_WAIT_MS))
        _exit(0);
}

static pid_t begin_process(struct site *s, unsigned number, struct seen *seen)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0)
        for (unsigned seed = (unsigned)getpid();; seed = seed * 1103515245 + 12345)
            live_a_while(s, number % 2 ? s->other : s->run, seen, seed >> 16);
    return pid;
}

/* While processes run. Where one is emptied, what others make meanwhile may stay. */
static void disturb(const struct site *s, unsigned how)
{
    static const char *const hows[] = {
        "rm -rf \"$A\"/* 2>/dev/null || :",
        "mv \"$A\" \"$A.1\" && mkdir -m 700 \"$A\" && rm -rf \"$A.1\"",
        "mv \"$A\" \"$A.1\" && mv \"$B\" \"$A\" && mv \"$A.1\" \"$B\"",
    };

    if (how < sizeof hows / sizeof *hows)
        run_command(s, hows[how]);
}

/* Wherever a process is killed, and whoever goes on. An admission that was not told any more is in
 * the store alone. */
static void processes_that_take_the_rows_from_each_other_forget_nothing(void **state)
{
    struct site *s = *state;
    struct seen *seen =
        mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid[PROCESSES];

    assert_true(seen != MAP_FAILED);
    /* not what is refused is of interest, and little is granted ahead for less than an hour */
    s->f.limits[0].max = NO_END;
    assert_true(window_parse("30m", &s->f.limits[0].window));
    for (unsigned i = 0; i < PROCESSES; i++)
        pid[i] = begin_process(s, i, seen);
    for (unsigned n = 0; n < KILLS + PROCESSES; n++) {
        unsigned i = n % PROCESSES, before = atomic_load(&seen->admitted);

        for (unsigned tries = 0; tries < 20 && atomic_load(&seen->admitted) < before + 3;
             tries++)
            usleep(1000 + 700 * (n % 11)); /* poll; somewhere in what it does */
        disturb(s, n * 7 % 5);
        kill(pid[i], SIGKILL);
        assert_int_equal(waitpid(pid[i], NULL, 0), pid[i]);
        if (n < KILLS)
            pid[i] = begin_process(s, i, seen);
    }
    assert_true(atomic_load(&seen->admitted) > PROCESSES);
    assert_int_equal(atomic_load(&seen->rolled_back), 0);
    lose_power(s);
    open_ledger(&s->f);
    assert_true(used(&s->f, 0) >= atomic_load(&seen->admitted));
    munmap(seen, sizeof *seen);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up_site, tear_down)
    const struct CMUnitTest tests[] = {
        T(changed_and_changed_back_is_never_over),
        T(copied_along_and_set_back_is_never_over),
        T(two_at_once_are_never_over),
        T(an_order_after_it_holds),
        T(what_was_restored_last_is_what_is_kept),
        T(a_short_window_is_never_over),
        T(an_order_holds_for_the_rows_before),
        T(an_import_is_not_into_rows_that_do_not_count_on),
        T(only_rows_of_ones_own_are_given_up),
        T(rows_half_made_elsewhere_are_not_published),
        T(processes_that_take_the_rows_from_each_other_forget_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
