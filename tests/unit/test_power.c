/*
 * Power is lost at random moments: processes of a site that ask, settle and copy are killed, tmpfs
 * is wiped, restores are cut off, and the hours go on over midnights. What everyone was admitted is
 * known beside the store, and must never be more than the limits allow, nor than the store knows
 * afterwards; what the store counts beyond it stays within the lease. PENNYGATE_ROUNDS says how
 * often, PENNYGATE_SEED where the random numbers begin.
 */
#include "tests/unit/ledger_fixture.h"

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "store/ledger_parts.h"

#define ROUNDS     120
#define WORKERS    2
#define DAY_MAX    640
#define HOUR_MAX   96
#define AHEAD      (DAY_MAX / 32 + 1) /* by which a segment is granted ahead, and one weight */
#define HOURS_MOST 20000

/* What the children did, which their death does not take. */
struct truth {
    atomic_int admitted[HOURS_MOST]; /* in each hour since the start */
    atomic_int segments[HOURS_MOST]; /* at most so many began in it */
};

struct world {
    struct fixture f; /* first */
    char flash[80], tmpfs[80];
    struct truth *truth;
    unsigned seed;
};

static unsigned chance(unsigned *seed, unsigned n)
{
    *seed = *seed * 1103515245u + 12345u;
    return (*seed >> 16) % n;
}

static unsigned hour_now(void)
{
    return (unsigned)((fake_now.wall_ms - START_MS) / HOUR_MS);
}

static int set_up_world(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    const char *seed = getenv("PENNYGATE_SEED");
    struct fixture *f;

    assert_non_null(w);
    assert_int_equal(set_up(state), 0);
    f = *state;
    close_ledger(f);
    w->f = *f;
    free(f);
    f = &w->f;
    *state = w;
    w->seed = seed ? (unsigned)atoi(seed) : 1;
    snprintf(w->flash, sizeof w->flash, "%s/flash", f->dir);
    snprintf(w->tmpfs, sizeof w->tmpfs, "%s/tmpfs", f->dir);
    assert_int_equal(mkdir(w->flash, 0700) | mkdir(w->tmpfs, 0700), 0);
    f->options.store = w->flash;
    f->options.run = w->tmpfs;
    f->options.lease = true;
    f->policy.limits = f->limits;
    add_limit(f, "day", SUBJECT_EVERYONE, UNIT_CALLS, "day", DAY_MAX);
    add_limit(f, "hour", SUBJECT_EVERYONE, UNIT_CALLS, "hour", HOUR_MAX);
    assert_int_equal(ledger_create(&f->options, "UTC0"), ERROR_NONE);
    w->truth =
        mmap(NULL, sizeof *w->truth, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(w->truth != MAP_FAILED);
    return 0;
}

static int tear_down_world(void **state)
{
    struct world *w = *state;

    munmap(w->truth, sizeof *w->truth);
    return tear_down(state);
}

/* As a site that stays: what died while it opened LMDB's lock file can keep the next one out for a
 * moment. */
static enum error open_patiently(struct world *w)
{
    enum error e;

    for (int i = 0;
         (e = ledger_open(&w->f.options, false, &w->f.ledger)) != ERROR_NONE && i < 50; i++)
        poll(NULL, 0, 100);
    return e;
}

/* What was given back is no use from before the settle on. */
static void settle_somehow(struct world *w, unsigned *seed, const struct reservation *r)
{
    struct settlement s = {.kind = (enum settle_kind)chance(seed, 3), .real = {{1, 10, 10}}};

    if (s.kind == SETTLE_NOTHING)
        atomic_fetch_sub(&w->truth->admitted[hour_now()], 1);
    (void)ledger_settle(w->f.ledger, r, &s, chance(seed, 2) == 0);
}

/* Until it is killed. */
static _Noreturn void work(struct world *w, unsigned seed)
{
    struct fixture *f = &w->f;
    struct answer a;
    struct reservation r;
    enum error e = open_patiently(w);

    if (e != ERROR_NONE)
        _exit((int)e);
    for (;;) {
        if (chance(&seed, 12) == 0) {
            atomic_fetch_add(&w->truth->segments[hour_now()], 1);
            (void)ledger_copy(f->ledger, &f->policy);
        }
        if (ledger_reserve(f->ledger, &f->policy, &f->demand, &a, &r) != ERROR_NONE ||
            a.decision != DECISION_ADMITTED)
            continue;
        atomic_fetch_add(&w->truth->admitted[hour_now()], 1);
        if (chance(&seed, 4) > 0)
            settle_somehow(w, &seed, &r);
        else
            ledger_release(f->ledger, &r);
    }
}

static void kill_at(pid_t child, useconds_t us)
{
    int status;

    if (us > 0)
        assert_int_equal(poll(NULL, 0, (int)(us / 1000)), 0);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFSIGNALED(status)) /* it had opened the store, or was still at it */
        fail_msg("a process could not open it: %s",
                 error_text((enum error)WEXITSTATUS(status)));
}

static void work_and_die(struct world *w)
{
    pid_t child[WORKERS];

    atomic_fetch_add(&w->truth->segments[hour_now()], 1);
    for (unsigned i = 0; i < WORKERS; i++) {
        unsigned seed = chance(&w->seed, 1 << 15);

        child[i] = fork();
        assert_true(child[i] >= 0);
        if (child[i] == 0)
            work(w, seed);
    }
    for (unsigned i = 0; i < WORKERS; i++)
        kill_at(child[i], 1000 * chance(&w->seed, 25));
}

static void wipe(struct world *w)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf '%s'/*", w->tmpfs);
    assert_int_equal(system(command), 0);
    fake_now.boot_id[chance(&w->seed, 16)]++;
    fake_now.boot_ms = 1000;
}

/* Somebody who restores is killed, too. */
static void restore_and_die(struct world *w)
{
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        (void)ledger_open(&w->f.options, false, &w->f.ledger);
        for (;;)
            pause();
    }
    kill_at(child, 1000 * chance(&w->seed, 6));
}

static unsigned sum(const atomic_int *of, unsigned from, unsigned until)
{
    int n = 0;

    for (unsigned i = from; i < until; i++)
        n += atomic_load(&of[i]);
    return n > 0 ? (unsigned)n : 0;
}

static void compare(struct world *w)
{
    const unsigned hour = hour_now(), midnight = hour < 17 ? 0 : hour - (hour - 17) % 24;
    const unsigned today = sum(w->truth->admitted, midnight, hour + 1);
    const unsigned now = sum(w->truth->admitted, hour, hour + 1);
    const unsigned ahead = AHEAD * sum(w->truth->segments, midnight, hour + 1);

    assert_int_equal(open_patiently(w), ERROR_NONE);
    if (today > DAY_MAX || now > HOUR_MAX)
        fail_msg("hour %u: %u today and %u now were admitted", hour, today, now);
    if (used(&w->f, 0) < today || used(&w->f, 1) < now)
        fail_msg("hour %u: of %u and %u it knows %u and %u", hour, today, now,
                 (unsigned)used(&w->f, 0), (unsigned)used(&w->f, 1));
    if (used(&w->f, 0) > today + ahead + WORKERS * AHEAD)
        fail_msg("hour %u: %u were admitted, %u are counted, %u were granted ahead", hour,
                 today, (unsigned)used(&w->f, 0), ahead);
    close_ledger(&w->f);
}

static void never_over_and_nothing_is_forgotten(void **state)
{
    struct world *w = *state;
    const char *text = getenv("PENNYGATE_ROUNDS");
    unsigned rounds = text ? (unsigned)atoi(text) : ROUNDS, admitted;

    for (unsigned i = 0; i < rounds && hour_now() + 4 < HOURS_MOST; i++) {
        work_and_die(w);
        if (chance(&w->seed, 8) > 0)
            wipe(w);
        if (chance(&w->seed, 3) == 0)
            restore_and_die(w);
        pass(chance(&w->seed, 4) == 0 ? chance(&w->seed, 120) * 60000 : 1000);
        compare(w);
    }
    admitted = sum(w->truth->admitted, 0, hour_now() + 1);
    printf("%u rounds, %u hours, %u calls\n", rounds, hour_now(), admitted);
    assert_true(admitted > rounds / 4); /* it was about something */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(
        never_over_and_nothing_is_forgotten, set_up_world, tear_down_world)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
