/*
 * The breaker of a model: when it opens, whom it lets through to try, what closes it, and that
 * it is one for all processes.
 */
#include "tests/unit/ledger_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "platform/file.h"
#include "store/rows.h"

#define AFTER    3
#define PAUSE_MS 60000
#define LONG_MS  (3 * HOUR_MS) /* beyond every pause of these tests */

static enum decision ask_model(struct fixture *f, struct answer *a, struct reservation *r)
{
    memset(&f->demand.hashes, 0, sizeof f->demand.hashes);
    return ask(f, a, r);
}

static struct reservation admitted(struct fixture *f)
{
    struct reservation r;
    struct answer a;

    assert_int_equal(ask_model(f, &a, &r), DECISION_ADMITTED);
    return r;
}

static enum error settle_as(struct fixture *f, const struct reservation *r, enum health h,
                            int64_t retry_after_ms)
{
    struct settlement s = {.kind = SETTLE_NOTHING,
                           .health = h,
                           .breaker_after = AFTER,
                           .breaker_pause_ms = PAUSE_MS,
                           .retry_after_ms = retry_after_ms};

    return ledger_settle(f->ledger, r, &s, true);
}

static void call(struct fixture *f, enum health h)
{
    struct reservation r = admitted(f);

    assert_int_equal(settle_as(f, &r, h, 0), ERROR_NONE);
}

/* For how long it refuses; 0: it admits. Check and reservation say the same. */
static int64_t refuses_for(struct fixture *f)
{
    struct answer a, b;
    struct reservation r;

    assert_int_equal(ledger_check(f->ledger, &f->policy, &f->demand, &a), ERROR_NONE);
    if (a.decision == DECISION_ADMITTED)
        return 0;
    assert_int_equal(a.decision, DECISION_BREAKER);
    assert_int_equal(ledger_reserve(f->ledger, &f->policy, &f->demand, &b, &r), ERROR_NONE);
    assert_int_equal(b.decision, DECISION_BREAKER);
    assert_int_equal(b.wait_ms, a.wait_ms);
    assert_true(a.wait_ms > 0);
    return a.wait_ms;
}

static struct ledger_model known(struct fixture *f)
{
    struct ledger_model m;

    assert_int_equal(ledger_model(f->ledger, f->demand.model, &m), ERROR_NONE);
    return m;
}

/* What a series of calls comes to: g good, f failed, d denied, r refused, u unknown. */
static const struct {
    const char *why, *calls;
    int64_t retry_after_ms, wait_ms;
} series[] = {
    {"what is well has no breaker", "ggg", 0, 0},
    {"fewer failures than it takes", "ff", 0, 0},
    {"as many as it takes", "fff", 0, PAUSE_MS},
    {"one that went well begins the row anew", "ffgff", 0, 0},
    {"and then as many as it takes", "ffgfff", 0, PAUSE_MS},
    {"what says nothing neither counts nor begins anew", "fufuf", 0, PAUSE_MS},
    {"what may be one caller's fault or our key is none", "dddd", 0, 0},
    {"and neither counts nor begins anew", "fdfdf", 0, PAUSE_MS},
    {"one refusal is enough", "r", 0, PAUSE_MS},
    {"also after good ones", "ggr", 0, PAUSE_MS},
    {"what the API asks for, if it is longer", "r", 2 * PAUSE_MS, 2 * PAUSE_MS},
    {"the pause, if it is shorter", "r", 1000, PAUSE_MS},
    {"at most an hour", "r", 86400 * 1000LL, HOUR_MS},
    {"not what a clock of theirs makes of it", "r", INT64_MAX, HOUR_MS},
    {"nor below nothing", "r", -1, PAUSE_MS},
    {"a failure's waiting time is the pause", "fff", 2 * PAUSE_MS, PAUSE_MS},
};

static enum health health_of(char c)
{
    return c == 'g'   ? HEALTH_GOOD
           : c == 'f' ? HEALTH_FAILED
           : c == 'd' ? HEALTH_DENIED
           : c == 'r' ? HEALTH_REFUSED
                      : HEALTH_UNKNOWN;
}

static void opens_after_failures_in_a_row_or_one_refusal(void **state)
{
    struct fixture *f = *state;

    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_CALLS, "day", 1000);
    for (size_t i = 0; i < sizeof series / sizeof *series; i++) {
        snprintf(f->demand.model, sizeof f->demand.model, "m%zu", i);
        for (const char *c = series[i].calls; *c != '\0'; c++) {
            struct reservation r = admitted(f);
            assert_int_equal(settle_as(f, &r, health_of(*c), series[i].retry_after_ms),
                             ERROR_NONE);
        }
        if (refuses_for(f) != series[i].wait_ms ||
            known(f).breaker_wait_ms != series[i].wait_ms)
            fail_msg("%s", series[i].why);
    }
    assert_int_equal(used(f, 0), 0); /* F46: all of these calls came back */
}

static void only_that_model_is_refused(void **state)
{
    struct fixture *f = *state;

    call(f, HEALTH_REFUSED);
    assert_int_equal(refuses_for(f), PAUSE_MS);
    snprintf(f->demand.model, sizeof f->demand.model, "other");
    assert_int_equal(refuses_for(f), 0);
    f->demand.model[0] = '\0'; /* status before a model is known */
    assert_int_equal(refuses_for(f), 0);
}

/* Whoever is over a limit hears of that, and shall not come back when the API is well. */
static void limits_are_told_first(void **state)
{
    struct fixture *f = *state;
    struct answer a;

    add_limit(f, "visitor", SUBJECT_ADDRESS, UNIT_CALLS, "day", 1);
    struct reservation r = admitted(f);
    set_address(&f->demand, 2);
    call(f, HEALTH_REFUSED);
    assert_int_equal(ask_model(f, &a, NULL), DECISION_BREAKER);
    set_address(&f->demand, 1);
    assert_int_equal(ask_model(f, &a, NULL), DECISION_REFUSED);
    ledger_release(f->ledger, &r);
}

static char *read_data(struct fixture *f, size_t *n)
{
    char path[128], *bytes;

    path_of(f, "data.mdb", path);
    assert_int_equal(file_read(path, 8 << 20, &bytes, n), ERROR_NONE);
    return bytes;
}

static void refusals_write_nothing(void **state)
{
    struct fixture *f = *state;
    size_t n, m;

    call(f, HEALTH_REFUSED);
    char *before = read_data(f, &n);
    for (int i = 0; i < 100; i++)
        assert_int_equal(refuses_for(f), PAUSE_MS);
    char *after = read_data(f, &m);
    assert_int_equal(n, m);
    assert_memory_equal(before, after, n);
    free(before);
    free(after);
}

static void calls_under_way_when_it_opened_change_nothing(void **state)
{
    static const enum health late[] = {HEALTH_FAILED, HEALTH_REFUSED, HEALTH_GOOD,
                                       HEALTH_UNKNOWN};
    struct fixture *f = *state;
    struct reservation r[8];

    for (unsigned i = 0; i < 8; i++)
        r[i] = admitted(f);
    call(f, HEALTH_REFUSED);
    pass(PAUSE_MS / 2);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(settle_as(f, &r[i], late[i], LONG_MS), ERROR_NONE);
    assert_int_equal(refuses_for(f), PAUSE_MS / 2);
    pass(PAUSE_MS / 2);
    for (unsigned i = 0; i < 4; i++) /* half open: it is the probe that tells */
        assert_int_equal(settle_as(f, &r[4 + i], late[i], LONG_MS), ERROR_NONE);
    assert_int_equal(refuses_for(f), 0);
    struct reservation probe = admitted(f);
    assert_true(probe.probe);
}

static void one_probe_decides(void **state)
{
    struct fixture *f = *state;

    call(f, HEALTH_REFUSED);
    pass(PAUSE_MS - 1);
    assert_int_equal(refuses_for(f), 1);
    pass(1);
    struct reservation r = admitted(f);
    assert_true(r.probe);
    assert_in_range(refuses_for(f), 1000, 3000); /* a short wait until it is known */
    ledger_release(f->ledger, &r);               /* the stream has ended, its settle waits */
    assert_in_range(refuses_for(f), 1000, 3000);
    assert_int_equal(settle_as(f, &r, HEALTH_GOOD, 0), ERROR_NONE);
    assert_int_equal(refuses_for(f), 0);
    assert_int_equal(known(f).failures, 0);
    r = admitted(f);
    assert_false(r.probe);
    assert_int_equal(settle_as(f, &r, HEALTH_FAILED, 0), ERROR_NONE);
    assert_int_equal(known(f).failures, 1); /* counted from nothing */
}

static void each_probe_that_fails_doubles_the_pause(void **state)
{
    static const int64_t times[] = {1, 2, 4, 8, 16, 16, 16};
    struct fixture *f = *state;

    call(f, HEALTH_REFUSED);
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        assert_int_equal(refuses_for(f), times[i] * PAUSE_MS);
        pass(times[i] * PAUSE_MS);
        call(f, i % 2 ? HEALTH_FAILED : HEALTH_REFUSED);
    }
    pass(16 * PAUSE_MS);
    call(f, HEALTH_GOOD);
    call(f, HEALTH_REFUSED); /* and well again it begins with the first one */
    assert_int_equal(refuses_for(f), PAUSE_MS);
}

/* What the API asked for once is not what the next pause is doubled from. */
static void a_probe_that_is_refused_waits_as_asked(void **state)
{
    struct fixture *f = *state;
    struct reservation r = admitted(f);

    assert_int_equal(settle_as(f, &r, HEALTH_REFUSED, 10 * PAUSE_MS), ERROR_NONE);
    assert_int_equal(refuses_for(f), 10 * PAUSE_MS);
    pass(10 * PAUSE_MS);
    r = admitted(f);
    assert_int_equal(settle_as(f, &r, HEALTH_REFUSED, 1000), ERROR_NONE);
    assert_int_equal(refuses_for(f), 2 * PAUSE_MS);
}

static void a_probe_that_says_nothing_lets_the_next_one_try(void **state)
{
    struct fixture *f = *state;

    call(f, HEALTH_REFUSED);
    pass(PAUSE_MS);
    call(f, HEALTH_UNKNOWN);
    assert_int_equal(refuses_for(f), 0);
    struct reservation r = admitted(f);
    assert_true(r.probe);
    assert_in_range(refuses_for(f), 1000, 3000);
}

static void a_probe_past_its_deadline_is_over(void **state)
{
    struct fixture *f = *state;

    call(f, HEALTH_REFUSED);
    pass(PAUSE_MS);
    struct reservation r = admitted(f), next;
    pass(f->demand.hold_ms - 1);
    assert_in_range(refuses_for(f), 1000, 3000);
    pass(1);
    next = admitted(f);
    assert_true(next.probe);
    assert_int_equal(settle_as(f, &r, HEALTH_GOOD, 0), ERROR_NONE); /* too late: not its say */
    assert_in_range(refuses_for(f), 1000, 3000);
    assert_int_equal(settle_as(f, &next, HEALTH_GOOD, 0), ERROR_NONE);
    assert_int_equal(refuses_for(f), 0);
}

/* A settle that nobody waits for rides on the next commit, a second later at most; one that opens
 * the breaker must not, since all calls of that second would reach the API, too. */
static void a_failure_is_known_at_once(void **state)
{
    struct fixture *f = *state;
    struct settlement s = {.kind = SETTLE_NOTHING,
                           .health = HEALTH_REFUSED,
                           .breaker_after = AFTER,
                           .breaker_pause_ms = PAUSE_MS};
    int64_t quickest = INT64_MAX;

    for (int i = 0; i < 5 && quickest > 500; i++) { /* a slow disk is no failure of ours */
        struct reservation r = admitted(f);
        int64_t begun = clock_monotonic_ms();

        assert_int_equal(ledger_settle(f->ledger, &r, &s, false), ERROR_NONE);
        while (refuses_for(f) == 0)
            ;
        if (clock_monotonic_ms() - begun < quickest)
            quickest = clock_monotonic_ms() - begun;
        assert_int_equal(ledger_forgive_model(f->ledger, &f->policy, "demo"), ERROR_NONE);
    }
    assert_true(quickest <= 500);
}

/* Its instants are of the boot that is over. */
static void a_new_boot_begins_with_closed_breakers(void **state)
{
    struct fixture *f = *state;

    call(f, HEALTH_REFUSED);
    close_ledger(f);
    memset(fake_now.boot_id, 8, sizeof fake_now.boot_id);
    fake_now.boot_ms = 5000;
    fake_now.wall_ms += 5000;
    open_ledger(f);
    assert_int_equal(known(f).failures, 0);
    assert_int_equal(refuses_for(f), 0);
    call(f, HEALTH_FAILED);
    assert_int_equal(known(f).failures, 1);
    call(f, HEALTH_GOOD);
    assert_int_equal(known(f).failures, 0);
}

static void the_owner_closes_it(void **state)
{
    struct fixture *f = *state;
    struct settlement s = {.kind = SETTLE_USAGE,
                           .real = {{1, 250, 2500}},
                           .tokens_in = 210,
                           .input_over = 150,
                           .overhead_max = 120};
    struct reservation r = admitted(f);

    assert_int_equal(ledger_settle(f->ledger, &r, &s, true), ERROR_NONE);
    call(f, HEALTH_REFUSED);
    assert_int_equal(known(f).overhead, 120);
    assert_int_equal(ledger_forgive_model(f->ledger, &f->policy, "other"), ERROR_NONE);
    assert_int_equal(refuses_for(f), PAUSE_MS);
    assert_int_equal(ledger_forgive_model(f->ledger, &f->policy, "demo"), ERROR_NONE);
    assert_int_equal(refuses_for(f), 0);
    assert_int_equal(known(f).overhead, 0);
    assert_int_equal(ledger_forgive_model(f->ledger, &f->policy, "demo"), ERROR_NONE);
}

/* With real processes. In a child nothing of cmocka's, which would run the parent's tests on. */
#define CHILDREN 8

struct report {
    unsigned admitted[CHILDREN], refused[CHILDREN], failed[CHILDREN];
};

static unsigned sum(const unsigned *v)
{
    unsigned n = 0;

    for (unsigned i = 0; i < CHILDREN; i++)
        n += v[i];
    return n;
}

/*
 * One process of eight: asks again and again, without the check, so that all get into write
 * transactions. The API refuses each call that reaches it, if `settles`; otherwise the calls
 * stay under way until all have asked.
 */
static void ask_often(struct fixture *f, struct report *t, unsigned me, bool settles)
{
    struct reservation r[20];
    unsigned n = 0;

    if (ledger_open(&f->options, false, &f->ledger) != ERROR_NONE)
        _exit(1);
    for (unsigned i = 0; i < 20; i++) {
        struct answer a;
        enum error e = ledger_reserve(f->ledger, &f->policy, &f->demand, &a, &r[n]);

        if (e != ERROR_NONE) {
            t->failed[me]++;
            continue;
        }
        if (a.decision != DECISION_ADMITTED) {
            t->refused[me] += a.decision == DECISION_BREAKER;
            continue;
        }
        t->admitted[me]++;
        if (!settles)
            n++;
        else if (settle_as(f, &r[n], HEALTH_REFUSED, 0) != ERROR_NONE)
            _exit(2);
    }
}

/* All ask, and none leaves before all have: who leaves drops the place of its call. */
static void eight_ask(struct fixture *f, struct report *t, bool settles)
{
    pid_t child[CHILDREN];
    int done[2], leave[2];
    char c;

    memset(t, 0, sizeof *t);
    close_ledger(f);
    assert_int_equal(pipe(done), 0);
    assert_int_equal(pipe(leave), 0);
    for (unsigned i = 0; i < CHILDREN; i++)
        if ((child[i] = fork()) == 0) {
            close(leave[1]);
            ask_often(f, t, i, settles);
            (void)!write(done[1], "d", 1);
            (void)!read(leave[0], &c, 1);
            _exit(0);
        }
    close(done[1]);
    close(leave[0]);
    for (unsigned i = 0; i < CHILDREN; i++)
        assert_int_equal(read(done[0], &c, 1), 1);
    close(done[0]);
    close(leave[1]);
    for (unsigned i = 0; i < CHILDREN; i++) {
        int status;

        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    open_ledger(f);
}

static struct report *new_report(void)
{
    struct report *t =
        mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_true(t != MAP_FAILED);
    return t;
}

/* F46: an API that refuses us is reached by the calls that were under way, and by one probe for
 * each pause, whatever comes; and none of them costs a visitor anything. */
static void f46_eight_processes_reach_an_api_that_refuses_once_a_pause(void **state)
{
    struct fixture *f = *state;
    struct report *t = new_report();

    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_CALLS, "day", 100);
    eight_ask(f, t, true);
    assert_in_range(sum(t->admitted), 1, CHILDREN);
    assert_int_equal(sum(t->admitted) + sum(t->refused) + sum(t->failed), 20 * CHILDREN);
    for (int64_t pause = PAUSE_MS; pause <= 8 * PAUSE_MS; pause *= 2) {
        assert_int_equal(refuses_for(f), pause);
        pass(pause);
        eight_ask(f, t, true);
        assert_int_equal(sum(t->admitted), 1);
    }
    assert_int_equal(used(f, 0), 0);
    munmap(t, sizeof *t);
}

static void half_open_admits_one_of_eight_processes(void **state)
{
    struct fixture *f = *state;
    struct report *t = new_report();

    call(f, HEALTH_REFUSED);
    pass(PAUSE_MS);
    eight_ask(f, t, false);
    assert_int_equal(sum(t->admitted), 1);
    assert_int_equal(sum(t->refused) + sum(t->failed), 20 * CHILDREN - 1);
    /* its process is gone without a settle: the next one may try at once */
    assert_int_equal(refuses_for(f), 0);
    munmap(t, sizeof *t);
}

static void a_killed_probe_lets_the_next_one_try(void **state)
{
    struct fixture *f = *state;
    int ready[2], leave[2];
    char c;

    call(f, HEALTH_REFUSED);
    pass(PAUSE_MS);
    close_ledger(f);
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(leave), 0);
    pid_t child = fork();
    if (child == 0) {
        struct answer a;
        struct reservation r;

        if (ledger_open(&f->options, false, &f->ledger) != ERROR_NONE ||
            ledger_reserve(f->ledger, &f->policy, &f->demand, &a, &r) != ERROR_NONE ||
            a.decision != DECISION_ADMITTED || !r.probe)
            _exit(1);
        close(leave[1]);
        (void)!write(ready[1], "r", 1);
        (void)!read(leave[0], &c, 1); /* until it is killed, or there is no test any more */
        _exit(0);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &c, 1), 1);
    open_ledger(f);
    assert_in_range(refuses_for(f), 1000, 3000);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(refuses_for(f), 0);
    struct reservation r = admitted(f);
    assert_true(r.probe);
    assert_in_range(refuses_for(f), 1000, 3000);
    close(ready[0]);
    close(leave[0]);
    close(leave[1]);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(opens_after_failures_in_a_row_or_one_refusal),
        T(only_that_model_is_refused),
        T(limits_are_told_first),
        T(refusals_write_nothing),
        T(calls_under_way_when_it_opened_change_nothing),
        T(one_probe_decides),
        T(each_probe_that_fails_doubles_the_pause),
        T(a_probe_that_is_refused_waits_as_asked),
        T(a_probe_that_says_nothing_lets_the_next_one_try),
        T(a_probe_past_its_deadline_is_over),
        T(a_failure_is_known_at_once),
        T(a_new_boot_begins_with_closed_breakers),
        T(the_owner_closes_it),
        T(f46_eight_processes_reach_an_api_that_refuses_once_a_pause),
        T(half_open_admits_one_of_eight_processes),
        T(a_killed_probe_lets_the_next_one_try),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
