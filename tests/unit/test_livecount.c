/* Live counters: what lands where, exactly, over all processes of a site. */
#include "tests/unit/ledger_fixture.h"

#include <sys/wait.h>

#include "platform/board.h"

#define PROCESSES 8
#define EACH      5000

static struct ledger_live read_board(struct fixture *f)
{
    struct ledger_live v;

    ledger_live(f->ledger, &v);
    return v;
}

static void check_bounds(const uint32_t *bounds, uint32_t least, uint32_t most)
{
    assert_int_equal(bounds[0], least);
    assert_int_equal(bounds[LIVE_BUCKETS - 2], most);
    for (unsigned i = 1; i < LIVE_BUCKETS - 1; i++)
        assert_true(bounds[i] > bounds[i - 1]);
}

static void bounds_ascend(void **state)
{
    (void)state;
    check_bounds(ledger_decision_bounds_us, 50, 1000000);
    check_bounds(ledger_first_byte_bounds_ms, 50, 120000);
}

static void codes_are_counted_apart(void **state)
{
    struct fixture *f = *state;

    ledger_live_code(f->ledger, 0);
    ledger_live_code(f->ledger, 3);
    ledger_live_code(f->ledger, 3);
    ledger_live_code(f->ledger, LIVE_DECISION - LIVE_CODES - 1);
    ledger_live_code(f->ledger, LIVE_DECISION - LIVE_CODES); /* no code: a histogram's */
    ledger_live_code(f->ledger, UINT32_MAX);
    struct ledger_live v = read_board(f);
    assert_int_equal(v.of[LIVE_CODES], 1);
    assert_int_equal(v.of[LIVE_CODES + 3], 2);
    assert_int_equal(v.of[LIVE_DECISION - 1], 1);
    assert_int_equal(v.of[LIVE_DECISION], 0);
    assert_int_equal(v.of[LIVE_END - 1], 0);
}

static void a_value_is_in_the_bucket_whose_bound_it_does_not_exceed(void **state)
{
    static const struct {
        int64_t us;
        unsigned bucket;
        uint32_t sum;
    } rows[] = {
        {0, 0, 0},
        {50, 0, 50},
        {51, 1, 51},
        {100, 1, 100},
        {1000000, LIVE_BUCKETS - 2, 1000000},
        {1000001, LIVE_BUCKETS - 1, 1000001},
        {UINT32_MAX, LIVE_BUCKETS - 1, UINT32_MAX},
        {INT64_MAX, LIVE_BUCKETS - 1, UINT32_MAX}, /* no more than a counter can say */
        {-1, 0, 0},                                /* a clock that was set back */
        {INT64_MIN, 0, 0},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ledger_live before = read_board(f);

        ledger_live_decision(f->ledger, rows[i].us);
        struct ledger_live after = read_board(f);
        for (unsigned k = 0; k < LIVE_BUCKETS; k++)
            assert_int_equal(after.of[LIVE_DECISION + k],
                             before.of[LIVE_DECISION + k] + (k == rows[i].bucket));
        assert_int_equal(after.of[LIVE_DECISION + LIVE_BUCKETS],
                         (uint32_t)(before.of[LIVE_DECISION + LIVE_BUCKETS] + rows[i].sum));
    }
    ledger_live_first_byte(f->ledger, 120001);
    ledger_live_first_byte(f->ledger, 120000);
    struct ledger_live v = read_board(f);
    assert_int_equal(v.of[LIVE_FIRST_BYTE + LIVE_BUCKETS - 1], 1);
    assert_int_equal(v.of[LIVE_FIRST_BYTE + LIVE_BUCKETS - 2], 1);
    assert_int_equal(v.of[LIVE_FIRST_BYTE + LIVE_BUCKETS], 240001);
}

static void limits_are_counted_by_name(void **state)
{
    struct fixture *f = *state;
    struct ledger_live v = read_board(f);
    char longest[LIMIT_NAME_MAX];

    memset(longest, 'x', sizeof longest); /* even without its end */
    assert_int_equal(ledger_live_refused(&v, "site-day"), 0);
    ledger_live_limit(f->ledger, "site-day");
    ledger_live_limit(f->ledger, "visitor-day");
    ledger_live_limit(f->ledger, "site-day");
    ledger_live_limit(f->ledger, longest);
    v = read_board(f);
    assert_int_equal(ledger_live_refused(&v, "site-day"), 2);
    assert_int_equal(ledger_live_refused(&v, "visitor-day"), 1);
    assert_int_equal(ledger_live_refused(&v, "visitor-burst"), 0);
    assert_int_equal(ledger_live_refused(&v, longest), 1);
    assert_int_equal(ledger_live_refused_others(&v), 0);
    ledger_live_limit(f->ledger, NULL);
    v = read_board(f);
    assert_int_equal(ledger_live_refused_others(&v), 1);
}

static void names_beyond_the_table_are_counted_together(void **state)
{
    struct fixture *f = *state;
    char name[LIMIT_NAME_MAX];

    for (unsigned round = 0; round < 2; round++)
        for (unsigned i = 0; i < LIVE_LIMIT_SLOTS + 10; i++) {
            snprintf(name, sizeof name, "limit-%u", i);
            ledger_live_limit(f->ledger, name);
        }
    struct ledger_live v = read_board(f);
    for (unsigned i = 0; i < LIVE_LIMIT_SLOTS + 10; i++) {
        snprintf(name, sizeof name, "limit-%u", i);
        assert_int_equal(ledger_live_refused(&v, name), i < LIVE_LIMIT_SLOTS - 1 ? 2 : 0);
    }
    assert_int_equal(ledger_live_refused_others(&v), 2 * 11);
}

static void nothing_of_it_is_history(void **state)
{
    struct fixture *f = *state;
    struct history_day d;

    ledger_live_code(f->ledger, 0);
    ledger_live_decision(f->ledger, 10);
    ledger_live_first_byte(f->ledger, 10);
    ledger_live_limit(f->ledger, "site-day");
    assert_int_equal(ledger_totals(f->ledger, &d), ERROR_NONE);
    for (unsigned i = 0; i < FIGURES; i++)
        assert_int_equal(d.figures[i], 0);
}

static void a_board_says_since_when_it_counts(void **state)
{
    struct fixture *f = *state;
    struct board *old = NULL;
    char path[128];

    path_of(f, "run/board", path);
    assert_int_equal(read_board(f).of[LIVE_SINCE], START_MS / 1000);
    pass(HOUR_MS);
    reopen(f); /* whoever finds it changes nothing */
    assert_int_equal(read_board(f).of[LIVE_SINCE], START_MS / 1000);
    close_ledger(f);
    assert_int_equal(unlink(path), 0);
    open_ledger(f);
    assert_int_equal(read_board(f).of[LIVE_SINCE], (START_MS + HOUR_MS) / 1000);
    close_ledger(f);
    assert_int_equal(unlink(path), 0); /* made by a program that did not note it */
    assert_int_equal(board_open(path, &old), ERROR_NONE);
    board_close(old);
    open_ledger(f);
    assert_int_equal(read_board(f).of[LIVE_SINCE], 0);
}

static _Noreturn void count_in_a_child(struct fixture *f, unsigned me)
{
    char own[LIMIT_NAME_MAX];

    if (ledger_open(&f->options, false, &f->ledger) != ERROR_NONE)
        _exit(1);
    for (unsigned i = 0; i < EACH; i++) {
        ledger_live_code(f->ledger, i % 3);
        ledger_live_decision(f->ledger, i % 2 ? 60 : 70000);
        ledger_live_first_byte(f->ledger, 1000);
        snprintf(own, sizeof own, "own-%u-%u", me, i % 4);
        ledger_live_limit(f->ledger, own);
        snprintf(own, sizeof own, "all-%u", i % 8); /* claimed by all of them at once */
        ledger_live_limit(f->ledger, own);
    }
    _exit(ledger_close(f->ledger, 60000) ? 0 : 1);
}

static void check_limits(const struct ledger_live *v)
{
    char name[LIMIT_NAME_MAX];

    for (unsigned i = 0; i < 8; i++) {
        snprintf(name, sizeof name, "all-%u", i);
        assert_int_equal(ledger_live_refused(v, name), PROCESSES * EACH / 8);
    }
    for (unsigned i = 0; i < PROCESSES * 4; i++) {
        snprintf(name, sizeof name, "own-%u-%u", i / 4, i % 4);
        assert_int_equal(ledger_live_refused(v, name), EACH / 4);
    }
    assert_int_equal(ledger_live_refused_others(v), 0);
}

static void f15_processes_that_count_at_once(void **state)
{
    struct fixture *f = *state;
    pid_t child[PROCESSES];

    close_ledger(f);
    for (unsigned i = 0; i < PROCESSES; i++)
        if ((child[i] = fork()) == 0)
            count_in_a_child(f, i);
    for (unsigned i = 0; i < PROCESSES; i++) {
        int status;

        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    open_ledger(f);
    struct ledger_live v = read_board(f);
    assert_int_equal(v.of[LIVE_CODES] + v.of[LIVE_CODES + 1] + v.of[LIVE_CODES + 2],
                     PROCESSES * EACH);
    assert_int_equal(v.of[LIVE_DECISION + 1], PROCESSES * EACH / 2);
    assert_int_equal(v.of[LIVE_DECISION + LIVE_BUCKETS], PROCESSES * EACH / 2 * 70060U);
    assert_int_equal(v.of[LIVE_FIRST_BYTE + LIVE_BUCKETS], PROCESSES * EACH * 1000U);
    check_limits(&v);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_ascend),
        T(codes_are_counted_apart),
        T(a_value_is_in_the_bucket_whose_bound_it_does_not_exceed),
        T(limits_are_counted_by_name),
        T(names_beyond_the_table_are_counted_together),
        T(nothing_of_it_is_history),
        T(a_board_says_since_when_it_counts),
        T(f15_processes_that_count_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
