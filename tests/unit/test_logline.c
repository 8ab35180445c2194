/* The log's bound: so many lines a second, whoever writes them, and none left out uncounted. */
#include "tests/unit/ledger_fixture.h"

#include <sys/mman.h>
#include <sys/wait.h>

#include "platform/log.h"
#include "store/ledger_parts.h"

#define PROCESSES 8
#define SECONDS   10  /* whoever is that late is of this boot */
#define EACH      400 /* lines of a process in a second */
#define MOST      100 /* that may be written of all of them */
#define NOW       1796022000U

static uint32_t left_out;

static unsigned write_lines(struct fixture *f, uint32_t now_s, unsigned most, unsigned n)
{
    unsigned written = 0;

    for (unsigned i = 0; i < n; i++)
        written += ledger_log_line(f->ledger, now_s, most, &left_out);
    return written;
}

static void so_many_in_a_second_and_no_more(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(write_lines(f, NOW, 5, 3), 3);
    assert_int_equal(write_lines(f, NOW, 5, 10), 2);
    assert_int_equal(write_lines(f, NOW + 1, 5, 10), 5);
    assert_int_equal(write_lines(f, NOW + 1, 6, 10), 1); /* the bound has been raised */
    assert_int_equal(write_lines(f, NOW + 2, 0, 10), 0);
    assert_int_equal(write_lines(f, NOW + 3, UINT32_MAX, 5000), LEDGER_LOG_LINES_MAX);
}

static void the_next_line_tells_how_many_were_left_out_once(void **state)
{
    struct fixture *f = *state;

    left_out = 99;
    assert_true(ledger_log_line(f->ledger, NOW, 1, &left_out));
    assert_int_equal(left_out, 0);
    assert_int_equal(write_lines(f, NOW, 1, 7), 0);
    assert_true(ledger_log_line(f->ledger, NOW + 1, 2, &left_out));
    assert_int_equal(left_out, 7);
    assert_true(ledger_log_line(f->ledger, NOW + 1, 2, &left_out));
    assert_int_equal(left_out, 0);
    reopen(f); /* the board outlives the process */
    assert_false(ledger_log_line(f->ledger, NOW + 1, 2, &left_out));
    assert_true(ledger_log_line(f->ledger, NOW + 2, 2, &left_out));
    assert_int_equal(left_out, 1);
    struct ledger_live v;
    ledger_live(f->ledger, &v);
    assert_int_equal(v.of[LIVE_LOG_LEFT_OUT], 8); /* a counter that never falls */
}

static void any_second_can_be_the_first(void **state)
{
    static const uint32_t seconds[] = {0, 1, 4095, 1U << 20, (1U << 20) - 1, NOW, UINT32_MAX};

    for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++) {
        assert_int_equal(set_up(state), 0);
        assert_int_equal(write_lines(*state, seconds[i], 2, 3), 2);
        assert_int_equal(write_lines(*state, seconds[i] + 1, 2, 3), 2);
        assert_int_equal(tear_down(state), 0);
    }
}

/* Otherwise it would begin its second again, and then that one the next. */
static void who_comes_late_with_a_second_begins_none(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(write_lines(f, NOW, 5, 3), 3);
    assert_int_equal(write_lines(f, NOW + 1, 5, 3), 3);
    assert_int_equal(write_lines(f, NOW, 5, 3), 0);
    assert_int_equal(write_lines(f, NOW - 9, 5, 3), 0);
    assert_int_equal(write_lines(f, NOW + 1, 5, 3), 2);
}

/* Waiting until it has caught up could silence the log for hours. */
static void a_new_boot_does_not_silence_the_log(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(write_lines(f, NOW, 5, 6), 5);
    assert_int_equal(write_lines(f, NOW - 3600, 5, 6), 5);
    assert_int_equal(write_lines(f, 17, 5, 6), 5);
}

/* Standard error and the log, kept in memory from here on. */
static int keep_log(int *before)
{
    int kept = memfd_create("log", MFD_CLOEXEC);

    fflush(stderr);
    *before = dup(STDERR_FILENO);
    assert_true(kept >= 0 && *before >= 0 && dup2(kept, STDERR_FILENO) == STDERR_FILENO);
    log_open(LOG_TARGET_STDERR, LOG_FORMAT_WORDS, LOG_LEVEL_INFO);
    return kept;
}

/* What the log tells of in lines of its own; -1: it has none. */
static int told_alone(int kept)
{
    static const char event[] = " level=info event=left_out left_out=";
    char text[4096] = "";
    ssize_t n = pread(kept, text, sizeof text - 1, 0);
    int told = 0;

    for (char *at = text; n > 0 && (at = strstr(at, event)) != NULL; at++)
        told += (int)strtol(at + sizeof event - 1, NULL, 10);
    return strstr(text, event) != NULL ? told : -1;
}

static void end_log(int kept, int before)
{
    dup2(before, STDERR_FILENO);
    close(before);
    close(kept);
    log_open(LOG_TARGET_STDERR, LOG_FORMAT_WORDS, LOG_LEVEL_WARNING);
}

static void who_leaves_tells_what_no_line_has_told_of(void **state)
{
    struct fixture *f = *state;
    int before, kept = keep_log(&before), told[3];

    write_lines(f, NOW, 1, 8);
    reopen(f);
    told[0] = told_alone(kept);
    reopen(f);
    told[1] = told_alone(kept);
    log_open(LOG_TARGET_STDERR, LOG_FORMAT_WORDS, LOG_LEVEL_WARNING);
    write_lines(f, NOW, 1, 1);
    reopen(f); /* where it would not be written, it waits for who can */
    log_open(LOG_TARGET_STDERR, LOG_FORMAT_WORDS, LOG_LEVEL_INFO);
    ledger_log_tell(f->ledger, 2);
    told[2] = told_alone(kept);
    end_log(kept, before);
    assert_int_equal(told[0], 7);
    assert_int_equal(told[1], 7);
    assert_int_equal(told[2], 7 + 1 + 2);
}

/* Also in a process that has not written yet: a flood is turned away without that. */
static void timed_work_tells_what_no_line_has_told_of(void **state)
{
    struct fixture *f = *state;
    struct writer *w = &f->ledger->writer;
    int before, kept = keep_log(&before), told = -1;

    write_lines(f, NOW, 1, 8);
    w->maintain_ms = 0; /* now; nobody else is there yet */
    assert_false(ledger_is_timed(f->ledger));
    ledger_begin_timed(f->ledger, &f->policy);
    pthread_mutex_lock(&w->lock); /* whoever is admitted just now may have it */
    assert_true(ledger_is_timed(f->ledger));
    pthread_mutex_unlock(&w->lock);
    for (int i = 0; i < 1000 && told < 0; i++) {
        usleep(10000); /* poll */
        told = told_alone(kept);
    }
    reopen(f); /* without the thread that logs */
    end_log(kept, before);
    assert_int_equal(told, 7);
    assert_int_equal(ledger_log_left_out(f->ledger), 0);
}

struct tally {
    unsigned written[SECONDS][PROCESSES];
    unsigned left_out[PROCESSES];
    unsigned second; /* the clock that they share */
};

static _Noreturn void write_in_a_child(struct fixture *f, struct tally *t, unsigned me)
{
    if (ledger_open(&f->options, false, &f->ledger) != ERROR_NONE)
        _exit(1);
    for (unsigned i = 0; i < SECONDS * EACH; i++) {
        unsigned s = __atomic_load_n(&t->second, __ATOMIC_SEQ_CST);
        uint32_t others = 0;

        if (ledger_log_line(f->ledger, NOW + s, MOST, &others))
            t->written[s][me]++;
        t->left_out[me] += others;
        if (me == 0 && i % EACH == EACH - 1 && s < SECONDS - 1)
            __atomic_add_fetch(&t->second, 1, __ATOMIC_SEQ_CST);
    }
    _exit(ledger_close(f->ledger, 60000) ? 0 : 1);
}

static unsigned sum(const unsigned *v)
{
    unsigned n = 0;

    for (unsigned i = 0; i < PROCESSES; i++)
        n += v[i];
    return n;
}

static void f15_never_more_in_a_second_over_all_processes(void **state)
{
    struct fixture *f = *state;
    struct tally *t =
        mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child[PROCESSES];
    unsigned written = 0, told;

    assert_true(t != MAP_FAILED);
    close_ledger(f);
    for (unsigned i = 0; i < PROCESSES; i++)
        if ((child[i] = fork()) == 0)
            write_in_a_child(f, t, i);
    for (unsigned i = 0; i < PROCESSES; i++) {
        int status;

        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    for (unsigned s = 0; s < SECONDS; s++) {
        assert_true(sum(t->written[s]) <= MOST);
        written += sum(t->written[s]);
    }
    assert_true(written >= MOST);
    open_ledger(f);
    assert_true(ledger_log_line(f->ledger, NOW + SECONDS, MOST, &left_out));
    told = sum(t->left_out) + left_out;
    assert_int_equal(written + told, PROCESSES * SECONDS * EACH); /* each is one or the other */
    munmap(t, sizeof *t);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(so_many_in_a_second_and_no_more),
        T(the_next_line_tells_how_many_were_left_out_once),
        T(who_leaves_tells_what_no_line_has_told_of),
        T(timed_work_tells_what_no_line_has_told_of),
        cmocka_unit_test(any_second_can_be_the_first),
        T(who_comes_late_with_a_second_begins_none),
        T(a_new_boot_does_not_silence_the_log),
        T(f15_never_more_in_a_second_over_all_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
