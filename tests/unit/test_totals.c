/* The sum of all days: exact, and never less than it was, whatever is erased meanwhile. */
#include "tests/unit/ledger_fixture.h"

#include <poll.h>
#include <sys/wait.h>

#include "platform/board.h"

static struct history_day totals(struct fixture *f)
{
    struct history_day d;

    memset(&d, 0x5a, sizeof d);
    assert_int_equal(ledger_totals(f->ledger, &d), ERROR_NONE);
    return d;
}

static void spend(struct fixture *f)
{
    struct reservation r = must_admit(f);

    settle(f, &r, SETTLE_USAGE, 10, 7);
}

static void assert_same(const struct history_day *a, const struct history_day *b)
{
    assert_int_equal(a->admitted, b->admitted);
    assert_int_equal(a->settled, b->settled);
    assert_int_equal(a->unknown, b->unknown);
    assert_int_equal(a->given_back, b->given_back);
    assert_int_equal(a->bypassed, b->bypassed);
    assert_int_equal(a->tokens_in, b->tokens_in);
    assert_int_equal(a->tokens_out, b->tokens_out);
    assert_int_equal(a->cost_nano, b->cost_nano);
    for (unsigned i = 0; i < FIGURES; i++)
        assert_int_equal(a->figures[i], b->figures[i]);
}

static bool has_not_fallen(const struct history_day *from, const struct history_day *to)
{
    bool ok = to->admitted >= from->admitted && to->settled >= from->settled &&
              to->unknown >= from->unknown && to->given_back >= from->given_back &&
              to->bypassed >= from->bypassed && to->tokens_in >= from->tokens_in &&
              to->tokens_out >= from->tokens_out && to->cost_nano >= from->cost_nano;

    for (unsigned i = 0; i < FIGURES; i++)
        ok = ok && to->figures[i] >= from->figures[i];
    return ok;
}

static void count_day(void *arg, const struct history_day *d)
{
    (void)d;
    ++*(unsigned *)arg;
}

static unsigned days(struct fixture *f)
{
    unsigned n = 0;

    assert_int_equal(ledger_history(f->ledger, &f->policy, 0, count_day, &n), ERROR_NONE);
    return n;
}

static void nothing_at_first(void **state)
{
    static const struct history_day nothing;
    const struct history_day d = totals(*state);

    assert_same(&d, &nothing);
}

static void every_figure_is_summed_over_the_days(void **state)
{
    struct fixture *f = *state;

    for (unsigned i = 0; i < 3; i++) {
        struct reservation unknown = must_admit(f), nothing = must_admit(f),
                           usage = must_admit(f);

        settle(f, &unknown, SETTLE_UNKNOWN, 0, 0);
        settle(f, &nothing, SETTLE_NOTHING, 0, 0);
        settle(f, &usage, SETTLE_USAGE, 10, 7);
        f->demand.caller.bypass = true;
        usage = must_admit(f);
        settle(f, &usage, SETTLE_USAGE, 10, 7);
        f->demand.caller.bypass = false;
        for (unsigned k = 0; k < FIGURES; k++)
            for (unsigned n = 0; n <= k; n++)
                ledger_figure(f->ledger, (enum figure)k);
        pass(DAY_MS);
    }
    const struct history_day d = totals(f);
    assert_int_equal(d.admitted, 12);
    assert_int_equal(d.bypassed, 3);
    assert_int_equal(d.settled, 6);
    assert_int_equal(d.unknown, 3);
    assert_int_equal(d.given_back, 3);
    assert_int_equal(d.tokens_in, 3 * (60 + 5 + 5));
    assert_int_equal(d.tokens_out, 3 * (40 + 5 + 5));
    assert_int_equal(d.cost_nano, 3 * (1000 + 7 + 7));
    for (unsigned k = 0; k < FIGURES; k++)
        assert_int_equal(d.figures[k], 3 * (k + 1));
}

static void folding_changes_nothing(void **state)
{
    struct fixture *f = *state;

    spend(f);
    ledger_figure(f->ledger, FIGURE_BUSY);
    const struct history_day before = totals(f);
    assert_int_equal(before.figures[FIGURE_BUSY], 1);
    assert_int_equal(ledger_maintain(f->ledger, &f->policy), ERROR_NONE);
    struct history_day after = totals(f);
    assert_same(&after, &before);
    reopen(f);
    after = totals(f);
    assert_same(&after, &before);
}

static void a_day_that_is_erased_stays_in_the_sum(void **state)
{
    struct fixture *f = *state;
    char note[128];

    for (unsigned i = 0; i < 5; i++) {
        spend(f);
        ledger_figure(f->ledger, FIGURE_PAUSED);
        pass(DAY_MS);
    }
    assert_int_equal(ledger_maintain(f->ledger, &f->policy), ERROR_NONE);
    const struct history_day before = totals(f);
    assert_int_equal(before.admitted, 5);
    assert_int_equal(before.figures[FIGURE_PAUSED], 5);
    pass(397 * DAY_MS); /* one after the other: each in a transaction of its own */
    for (unsigned i = 0; i < 7; i++) {
        pass(DAY_MS);
        assert_int_equal(ledger_maintain(f->ledger, &f->policy), ERROR_NONE);
        spend(f); /* what erases, where nobody maintains */
        pass(2000);
        const struct history_day now = totals(f);
        assert_int_equal(now.admitted, 6 + i);
        assert_int_equal(now.cost_nano, 7 * (6 + i));
        assert_int_equal(now.figures[FIGURE_PAUSED], 5);
    }
    assert_int_equal(days(f), 7);
    close_ledger(f); /* and the row of the sum is known to the walk */
    path_of(f, "run/walked", note);
    assert_int_equal(unlink(note), 0);
    open_ledger(f);
    assert_int_equal(totals(f).admitted, 12);
}

/* A call of a day that was long ago, by a clock that was wrong, ends as that day is erased. */
static void a_day_in_hand_is_not_summed_twice(void **state)
{
    struct fixture *f = *state;

    spend(f);
    (void)must_admit(f);
    fake_now.wall_ms += 500 * DAY_MS;
    assert_int_equal(ledger_set_paused(f->ledger, &f->policy, true), ERROR_NONE); /* a write */
    pass(25 * HOUR_MS); /* nothing is erased for a day after a step */
    assert_int_equal(totals(f).admitted, 2);
    assert_int_equal(ledger_maintain(f->ledger, &f->policy), ERROR_NONE);
    const struct history_day after = totals(f);
    assert_int_equal(after.admitted, 2);
    assert_int_equal(after.settled, 1);
    assert_int_equal(after.unknown, 1);
    assert_int_equal(after.cost_nano, 1007);
    pass(2 * HOUR_MS);
    assert_int_equal(ledger_maintain(f->ledger, &f->policy), ERROR_NONE);
    const struct history_day again = totals(f);
    assert_same(&again, &after);
    assert_int_equal(days(f), 0);
}

static void f44_no_clock_makes_it_fall(void **state)
{
    static const int64_t steps_days[] = {0, 30, -20, 800, -805, 500, 1, -1};
    struct fixture *f = *state;
    struct history_day last = {0};

    for (unsigned i = 0; i < 3 * sizeof steps_days / sizeof *steps_days; i++) {
        fake_now.wall_ms += steps_days[i % (sizeof steps_days / sizeof *steps_days)] * DAY_MS;
        if (i % 2 == 1)
            assert_int_equal(ledger_clock_reset(f->ledger, &f->policy), ERROR_NONE);
        spend(f);
        ledger_figure(f->ledger, FIGURE_INVALID);
        struct history_day now = totals(f);
        assert_true(has_not_fallen(&last, &now));
        last = now;
        pass(26 * HOUR_MS); /* so that erasing is not put off */
        assert_int_equal(ledger_maintain(f->ledger, &f->policy), ERROR_NONE);
        now = totals(f);
        assert_same(&now, &last);
    }
    assert_int_equal(last.settled, 24);
    assert_int_equal(last.figures[FIGURE_INVALID], 24);
}

static void what_was_folded_outlives_the_board(void **state)
{
    struct fixture *f = *state;
    char path[128];

    ledger_figure(f->ledger, FIGURE_BUSY);
    assert_int_equal(ledger_maintain(f->ledger, &f->policy), ERROR_NONE);
    close_ledger(f);
    path_of(f, "run/board", path);
    assert_int_equal(unlink(path), 0); /* a boot, with the run directory on tmpfs */
    open_ledger(f);
    assert_int_equal(totals(f).figures[FIGURE_BUSY], 1);
    ledger_figure(f->ledger, FIGURE_BUSY);
    assert_int_equal(totals(f).figures[FIGURE_BUSY], 2);
}

/* The board is a file that the machine, or somebody with its rights, can spoil; history is kept. */
static void garbage_on_the_board_is_no_history(void **state)
{
    static const struct {
        const char *why;
        uint32_t leap, counted;
    } rows[] = {
        {"nothing", 0, 0},
        {"much", 1000000, 1000000},
        {"as much as is believed", 1U << 28, 1U << 28},
        {"one more", (1U << 28) + 1, 0},
        {"half of all", 1U << 31, 0},
        {"one back", UINT32_MAX, 0},
        {"back to where it was", 0U - 1000000, 0},
        {"and it counts on", 1, 1},
    };
    struct fixture *f = *state;
    struct board *board;
    uint64_t sum = 0;
    char path[128];

    path_of(f, "run/board", path);
    assert_int_equal(board_open(path, &board), ERROR_NONE);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        board_add(board, FIGURE_UPSTREAM, rows[i].leap);
        board_add(board, FIGURE_BUSY, 1);
        sum += rows[i].counted;
        for (int folded = 0; folded < 2; folded++) {
            struct history_day d = totals(f);

            if (d.figures[FIGURE_UPSTREAM] != sum || d.figures[FIGURE_BUSY] != i + 1)
                fail_msg("%s: %llu", rows[i].why,
                         (unsigned long long)d.figures[FIGURE_UPSTREAM]);
            assert_int_equal(ledger_maintain(f->ledger, &f->policy), ERROR_NONE);
        }
    }
    board_close(board);
}

/* ---- over all processes ---- */

#define PROCESSES 8
#define EACH      40
#define OLD_DAYS  60

static _Noreturn void spend_in_a_child(struct fixture *f, int say)
{
    const struct settlement s = {
        .kind = SETTLE_USAGE, .real = {{1, 10, 7}}, .tokens_in = 5, .tokens_out = 5};
    struct answer a;
    struct reservation r;
    char byte = 0;
    bool ok = ledger_open(&f->options, false, &f->ledger) == ERROR_NONE;

    for (unsigned i = 0; ok && i < EACH; i++) {
        enum error e;

        ledger_figure(f->ledger, FIGURE_BUSY);
        while ((e = ledger_reserve(f->ledger, &f->policy, &f->demand, &a, &r)) == ERROR_BUSY)
            continue;
        ok = e == ERROR_NONE && a.decision == DECISION_ADMITTED;
        while (ok && (e = ledger_settle(f->ledger, &r, &s, i % 2 == 0)) == ERROR_BUSY)
            continue; /* it happens once, whether it was withdrawn or not */
        ok = ok && e == ERROR_NONE;
        ledger_figure(f->ledger, FIGURE_PAUSED);
    }
    ok = ok && ledger_close(f->ledger, 60000) && write(say, &byte, 1) == 1;
    _exit(ok ? 0 : 1);
}

/* Reads until all children have ended; they erase old days meanwhile. */
static void watch(struct fixture *f, int listen)
{
    struct history_day last = {0}, now;
    struct pollfd said = {listen, POLLIN, 0};
    char bytes[PROCESSES];

    for (;;) {
        now = totals(f);
        assert_true(has_not_fallen(&last, &now));
        last = now;
        if (poll(&said, 1, 0) == 1 && read(listen, bytes, sizeof bytes) <= 0)
            return;
    }
}

static void f15_exact_and_never_less_over_all_processes(void **state)
{
    struct fixture *f = *state;
    pid_t child[PROCESSES];
    int say[2];

    for (unsigned i = 0; i < OLD_DAYS; i++) {
        spend(f);
        pass(DAY_MS);
    }
    pass(401 * DAY_MS);
    close_ledger(f);
    /* Where a commit waits for no disk, a reader that does not get its turn keeps many pages. */
    f->options.map_bytes = 64 << 20;
    assert_int_equal(pipe(say), 0);
    for (unsigned i = 0; i < PROCESSES; i++)
        if ((child[i] = fork()) == 0)
            spend_in_a_child(f, say[1]);
    close(say[1]);
    open_ledger(f);
    watch(f, say[0]);
    close(say[0]);
    for (unsigned i = 0; i < PROCESSES; i++) {
        int status;

        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    const struct history_day d = totals(f);
    /* Of calls that gave up waiting some have been charged: they are admitted and not settled. */
    assert_true(d.admitted >= OLD_DAYS + PROCESSES * EACH);
    assert_int_equal(d.settled, OLD_DAYS + PROCESSES * EACH);
    assert_int_equal(d.tokens_out, 5 * d.settled);
    assert_int_equal(d.cost_nano, 7 * d.settled);
    assert_int_equal(d.figures[FIGURE_BUSY], PROCESSES * EACH);
    assert_int_equal(d.figures[FIGURE_PAUSED], PROCESSES * EACH);
    assert_true(days(f) < OLD_DAYS);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(nothing_at_first),
        T(every_figure_is_summed_over_the_days),
        T(folding_changes_nothing),
        T(a_day_that_is_erased_stays_in_the_sum),
        T(a_day_in_hand_is_not_summed_twice),
        T(f44_no_clock_makes_it_fall),
        T(what_was_folded_outlives_the_board),
        T(garbage_on_the_board_is_no_history),
        T(f15_exact_and_never_less_over_all_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
