/*
 * Races with real processes and threads on one store: exact sums, distinct places, and never
 * one admission more than a limit's max, whoever is killed when.
 */
#include "tests/unit/ledger_fixture.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#define PROCESSES 8
#define EACH      500
#define TOTAL     (PROCESSES * EACH)
#define SPARE     200 /* for those that gave up waiting when they had been charged already */

/* What the children tell the parent, in shared memory. */
struct tally {
    unsigned seen[TOTAL + SPARE]; /* how often each "calls left" was answered */
    unsigned admitted[PROCESSES];
    unsigned refused[PROCESSES];
    unsigned failed[PROCESSES];
};

static struct tally *new_tally(void)
{
    struct tally *t =
        mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_true(t != MAP_FAILED);
    memset(t, 0, sizeof *t);
    return t;
}

static unsigned sum(const unsigned *v)
{
    unsigned n = 0;

    for (unsigned i = 0; i < PROCESSES; i++)
        n += v[i];
    return n;
}

/* In a child: nothing of cmocka's, which would run the parent's tests on. */
#define CHILD_MUST(cond) child_must((cond) ? ERROR_NONE : ERRORS, __LINE__, #cond)
#define CHILD_OK(call)   child_must((call), __LINE__, #call)

static void child_must(enum error e, int line, const char *what)
{
    if (e == ERROR_NONE)
        return;
    fprintf(stderr, "child: line %d: %s: %s\n", line, what, error_text(e));
    _exit(1);
}

static void ask_500_times(struct fixture *f, struct tally *t, unsigned me)
{
    struct answer a;
    struct reservation r;

    CHILD_OK(ledger_open(&f->options, false, &f->ledger));
    for (unsigned i = 0; i < EACH; i++) {
        enum error e;

        /* On a slow disk a commit may take longer than a caller waits: ask again. What the writer
         * had taken by then stays charged. */
        while ((e = ledger_reserve(f->ledger, &f->policy, &f->demand, &a, &r)) == ERROR_BUSY)
            t->failed[me]++;
        CHILD_OK(e);
        CHILD_MUST(a.decision == DECISION_ADMITTED);
        CHILD_MUST(a.verdict.n_standings == 1 &&
                   a.verdict.standings[0].remaining < TOTAL + SPARE);
        __atomic_add_fetch(&t->seen[a.verdict.standings[0].remaining], 1, __ATOMIC_SEQ_CST);
        t->admitted[me]++;
        ledger_release(f->ledger, &r);
    }
    CHILD_MUST(ledger_close(f->ledger, 60000));
}

static void eight_processes_500_each_are_4000_distinct(void **state)
{
    struct fixture *f = *state;
    struct tally *t = new_tally();
    pid_t child[PROCESSES];

    add_limit(f, "visitor", SUBJECT_ADDRESS, UNIT_CALLS, "day", TOTAL + SPARE);
    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_CALLS, "day", 2 * TOTAL);
    close_ledger(f);
    for (unsigned i = 0; i < PROCESSES; i++)
        if ((child[i] = fork()) == 0) {
            ask_500_times(f, t, i);
            _exit(0);
        }
    for (unsigned i = 0; i < PROCESSES; i++) {
        int status;

        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    unsigned distinct = 0;
    for (unsigned i = 0; i < TOTAL + SPARE; i++) {
        assert_true(t->seen[i] <= 1);
        distinct += t->seen[i];
    }
    assert_int_equal(distinct, TOTAL);
    open_ledger(f);
    /* Exactly 4000, unless somebody gave up waiting: then at most one more for each. */
    assert_true(used(f, 1) >= TOTAL && used(f, 1) <= TOTAL + sum(t->failed));
    munmap(t, sizeof *t);
}

/* A budget of 100 for 4 processes of 8 threads each. */
#define RACERS  4
#define THREADS 8
#define BUDGET  100

struct racer {
    struct fixture *f;
    struct tally *t;
    unsigned me;
    bool settle;
};

static void *race(void *arg)
{
    struct racer *x = arg;
    struct fixture *f = x->f;
    struct settlement s = {.kind = SETTLE_UNKNOWN};

    for (int i = 0; i < 40; i++) {
        struct demand d = f->demand;
        struct answer a;
        struct reservation r;
        enum error e = ledger_check(f->ledger, &f->policy, &d, &a);

        if (e == ERROR_NONE && a.decision == DECISION_ADMITTED)
            e = ledger_reserve(f->ledger, &f->policy, &d, &a, &r);
        if (e != ERROR_NONE) {
            __atomic_add_fetch(&x->t->failed[x->me], 1, __ATOMIC_SEQ_CST);
            continue;
        }
        if (a.decision != DECISION_ADMITTED) {
            __atomic_add_fetch(&x->t->refused[x->me], 1, __ATOMIC_SEQ_CST);
            continue;
        }
        /* Here the upstream would be called: counted before anything can kill us. */
        __atomic_add_fetch(&x->t->admitted[x->me], 1, __ATOMIC_SEQ_CST);
        if (x->settle)
            (void)ledger_settle(f->ledger, &r, &s, false);
    }
    return NULL;
}

static void run_racer(struct fixture *f, struct tally *t, unsigned me)
{
    struct racer x = {f, t, me, me % 2 == 0};
    pthread_t thread[THREADS];

    CHILD_OK(ledger_open(&f->options, false, &f->ledger));
    for (unsigned i = 0; i < THREADS; i++)
        CHILD_MUST(pthread_create(&thread[i], NULL, race, &x) == 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    CHILD_MUST(ledger_close(f->ledger, 60000));
}

static void add_budgets(struct fixture *f)
{
    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_CALLS, "day", BUDGET);
    add_limit(f, "sliding", SUBJECT_EVERYONE, UNIT_CALLS, "1h", BUDGET + 1);
    add_limit(f, "visitor", SUBJECT_ADDRESS, UNIT_TOKENS, "30d", 100 * (BUDGET + 2));
}

static void f1_a_budget_of_100_admits_exactly_100(void **state)
{
    struct fixture *f = *state;
    struct tally *t = new_tally();
    pid_t child[RACERS];

    add_budgets(f);
    close_ledger(f);
    for (unsigned i = 0; i < RACERS; i++)
        if ((child[i] = fork()) == 0) {
            run_racer(f, t, i);
            _exit(0);
        }
    for (unsigned i = 0; i < RACERS; i++) {
        int status;

        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    /* Exactly 100, unless somebody gave up waiting for a slow disk when he had been charged. */
    assert_true(sum(t->admitted) <= BUDGET);
    assert_true(sum(t->admitted) + sum(t->failed) >= BUDGET);
    open_ledger(f);
    assert_int_equal(used(f, 0), BUDGET);
    munmap(t, sizeof *t);
}

/* F2: callers with plenty are reserved for like all others. */
static void f2_parallel_reservations_of_50_against_1000(void **state)
{
    struct fixture *f = *state;
    struct tally *t = new_tally();
    struct racer x = {f, t, 0, false};
    pthread_t thread[THREADS];

    add_limit(f, "tokens", SUBJECT_ADDRESS, UNIT_TOKENS, "day", 1000);
    f->demand.weights.of[UNIT_TOKENS] = 50;
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, race, &x), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    assert_true(t->admitted[0] <= 20 && t->admitted[0] + t->failed[0] >= 20);
    munmap(t, sizeof *t);
}

/*
 * A third of the processes is killed at random moments, again and again, on one budget. What
 * was admitted and counted by a process before it died is charged; nobody gets in beyond it.
 */
static void killed_processes_never_make_room(void **state)
{
    struct fixture *f = *state;
    struct tally *t = new_tally();
    unsigned seed = 20261130;

    add_budgets(f);
    close_ledger(f);
    for (int round = 0; round < 12; round++) {
        pid_t child[3];

        for (unsigned i = 0; i < 3; i++)
            if ((child[i] = fork()) == 0) {
                run_racer(f, t, i + 1);
                _exit(0);
            }
        struct timespec random_moment = {0, (long)(rand_r(&seed) % 30) * 1000000};
        nanosleep(&random_moment, NULL); /* the moment of death, not a wait */
        kill(child[round % 3], SIGKILL);
        for (unsigned i = 0; i < 3; i++)
            assert_int_equal(waitpid(child[i], NULL, 0), child[i]);
        assert_true(sum(t->admitted) <= BUDGET);
        open_ledger(f); /* after every death the store is whole */
        assert_true(used(f, 0) >= sum(t->admitted) && used(f, 0) <= BUDGET);
        close_ledger(f);
    }
    munmap(t, sizeof *t);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(eight_processes_500_each_are_4000_distinct),
        T(f1_a_budget_of_100_admits_exactly_100),
        T(f2_parallel_reservations_of_50_against_1000),
        T(killed_processes_never_make_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
