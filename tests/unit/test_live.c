/* Places held by byte locks, with real processes as their holders. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "platform/file.h"
#include "platform/live.h"
#include "tests/unit/scratch.h"

#define LARGEST   INT64_MAX
#define PROCESSES 8

static struct live *open_live(void)
{
    struct live *l = NULL;

    assert_int_equal(live_open(scratch_path("live"), &l), ERROR_NONE);
    return l;
}

/* A process that holds an id until it is killed; returns once it does. */
static pid_t start_holder(uint64_t id)
{
    int ready[2];
    char byte;

    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        struct live *l;
        if (live_open(scratch_path("live"), &l) != ERROR_NONE ||
            live_hold(l, id) != ERROR_NONE || write(ready[1], "x", 1) != 1)
            _exit(1);
        scratch_stay();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return child;
}

static void end_holder(pid_t child)
{
    kill(child, SIGKILL);
    assert_int_equal(scratch_wait(child), 1000 + SIGKILL);
}

static const uint64_t ids[] = {0,
                               1,
                               0x7fffffff,
                               0x80000000,
                               0xffffffff,
                               UINT64_C(1) << 32,
                               UINT64_C(0x123456789abcdef0),
                               LARGEST - 1,
                               LARGEST};

#define IDS (sizeof ids / sizeof ids[0])

static void test_an_own_place(void **state)
{
    struct live *l = open_live();

    (void)state;
    for (size_t i = 0; i < IDS; i++) {
        assert_false(live_is_held(l, ids[i]));
        assert_int_equal(live_hold(l, ids[i]), ERROR_NONE);
        assert_true(live_is_held(l, ids[i])); /* the kernel alone would say no */
        assert_int_equal(live_hold(l, ids[i]), ERROR_BUSY);
    }
    for (size_t i = 0; i < IDS; i++) {
        live_drop(l, ids[i]);
        live_drop(l, ids[i]); /* twice is once */
        for (size_t j = 0; j < IDS; j++)
            assert_int_equal(live_is_held(l, ids[j]), j > i);
    }
    assert_int_equal(live_hold(l, ids[0]), ERROR_NONE);
    live_close(l);
}

static void test_F12_a_place_is_free_at_once_when_its_holder_is_killed(void **state)
{
    struct live *l = open_live();

    (void)state;
    for (size_t i = 0; i < IDS; i++) {
        pid_t holder = start_holder(ids[i]);
        for (size_t j = 0; j < IDS; j++)
            assert_int_equal(live_is_held(l, ids[j]), j == i);
        assert_int_equal(live_hold(l, ids[i]), ERROR_BUSY);
        live_drop(l, ids[i]); /* not ours: no effect */
        assert_true(live_is_held(l, ids[i]));
        end_holder(holder);
        assert_false(live_is_held(l, ids[i]));
        assert_int_equal(live_hold(l, ids[i]), ERROR_NONE);
        live_drop(l, ids[i]);
    }
    live_close(l);
}

static void test_the_top_bit_is_no_place(void **state)
{
    struct live *l = open_live();

    (void)state;
    assert_int_equal(live_hold(l, (uint64_t)LARGEST + 1), ERROR_SYSTEM);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(live_hold(l, UINT64_MAX), ERROR_SYSTEM);
    assert_true(live_is_held(l, UINT64_MAX)); /* in doubt, taken */
    live_drop(l, UINT64_MAX);
    live_close(l);
}

static void test_the_table_is_bounded(void **state)
{
    struct live *l = open_live();

    (void)state;
    for (uint64_t id = 0; id < LIVE_OWN_MAX; id++)
        assert_int_equal(live_hold(l, id), ERROR_NONE);
    assert_int_equal(live_hold(l, LIVE_OWN_MAX), ERROR_MEMORY);
    assert_false(live_is_held(l, LIVE_OWN_MAX));
    live_drop(l, 7);
    assert_int_equal(live_hold(l, LIVE_OWN_MAX), ERROR_NONE);
    assert_false(live_is_held(l, 7));
    live_close(l);
}

/* Two descriptions of one process are two holders: as two processes, and not as POSIX locks. */
static void test_closing_another_description_frees_nothing(void **state)
{
    struct live *one = open_live(), *two = open_live();

    (void)state;
    assert_int_equal(live_hold(one, 5), ERROR_NONE);
    assert_true(live_is_held(two, 5));
    assert_int_equal(live_hold(two, 5), ERROR_BUSY);
    live_close(two);
    two = open_live();
    assert_true(live_is_held(two, 5));
    live_close(one);
    assert_false(live_is_held(two, 5));
    live_close(two);
    live_close(NULL);
}

/* A forked child that lives on, as the one that walks the store, and what it does first. */
static pid_t start_child(struct live *l, bool closes, int *ready)
{
    int pipes[2];

    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0) {
        if (closes)
            close(live_fd(l));
        if (write(pipes[1], "x", 1) != 1)
            _exit(1);
        scratch_stay();
    }
    close(pipes[1]);
    *ready = pipes[0];
    return child;
}

static void test_a_child_neither_frees_nor_keeps_its_parents_places(void **state)
{
    struct live *other = open_live();

    (void)state;
    for (int closes = 0; closes < 2; closes++) {
        struct live *l = open_live();
        char byte;
        int ready;

        assert_int_equal(live_hold(l, 9), ERROR_NONE);
        pid_t child = start_child(l, closes, &ready);
        assert_int_equal(read(ready, &byte, 1), 1);
        close(ready);
        assert_true(live_is_held(other, 9));
        live_close(l); /* unlocks even where the child still has the description */
        assert_false(live_is_held(other, 9));
        end_holder(child);
    }
    live_close(other);
}

/* Killed, the parent unlocks nothing: only a child that closed does not keep its places. */
static void test_a_child_that_closed_does_not_outlive_its_parents_places(void **state)
{
    struct live *other = open_live();
    int ready[2];
    pid_t child;

    (void)state;
    assert_int_equal(pipe(ready), 0);
    pid_t parent = fork();
    if (parent == 0) {
        struct live *l;
        if (live_open(scratch_path("live"), &l) != ERROR_NONE || live_hold(l, 9) != ERROR_NONE)
            _exit(1);
        child = fork();
        if (child == 0) {
            close(live_fd(l));
            child = getpid();
            if (write(ready[1], &child, sizeof child) != sizeof child)
                _exit(1);
        }
        scratch_stay();
    }
    assert_int_equal(read(ready[0], &child, sizeof child), sizeof child);
    assert_true(live_is_held(other, 9));
    end_holder(parent);
    assert_false(live_is_held(other, 9));
    kill(child, SIGKILL);
    close(ready[0]);
    close(ready[1]);
    live_close(other);
}

/* All of them want the same places: each is had by one. */
static void test_F1_processes_that_race_for_places(void **state)
{
    struct live *l = open_live();
    pid_t children[PROCESSES];
    int gate[2], done[2], had = 0;

    (void)state;
    assert_int_equal(pipe(gate), 0);
    assert_int_equal(pipe(done), 0);
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            struct live *own;
            char held = 0, unused;
            close(gate[1]);
            if (live_open(scratch_path("live"), &own) != ERROR_NONE)
                _exit(1);
            (void)!read(gate[0], &unused, 1);
            for (uint64_t id = 0; id < 100; id++)
                held = (char)(held + (live_hold(own, id) == ERROR_NONE));
            if (write(done[1], &held, 1) != 1)
                _exit(1);
            scratch_stay();
        }
    }
    close(gate[0]);
    close(gate[1]);
    for (int i = 0; i < PROCESSES; i++) {
        char held;
        assert_int_equal(read(done[0], &held, 1), 1);
        had += held;
    }
    assert_int_equal(had, 100);
    for (uint64_t id = 0; id < 100; id++)
        assert_true(live_is_held(l, id));
    assert_false(live_is_held(l, 100));
    for (int i = 0; i < PROCESSES; i++)
        end_holder(children[i]);
    for (uint64_t id = 0; id < 100; id++)
        assert_false(live_is_held(l, id));
    close(done[0]);
    close(done[1]);
    live_close(l);
}

struct worker {
    struct live *l, *other;
    uint64_t first;
    unsigned wrong;
};

static void *hold_and_drop(void *data)
{
    struct worker *w = data;

    for (unsigned round = 0; round < 200; round++) {
        uint64_t id = w->first + round;
        w->wrong += live_hold(w->l, id) != ERROR_NONE;
        w->wrong += !live_is_held(w->l, id);
        w->wrong += !live_is_held(w->other, id);
        live_drop(w->l, id);
        w->wrong += live_is_held(w->other, id);
    }
    return NULL;
}

static void test_threads(void **state)
{
    struct live *l = open_live(), *other = open_live();
    struct worker workers[4];
    pthread_t threads[4];

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        workers[i] = (struct worker){l, other, i * 1000, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, hold_and_drop, &workers[i]), 0);
    }
    for (unsigned i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(workers[i].wrong, 0);
    }
    live_close(l);
    live_close(other);
}

static void test_opening(void **state)
{
    const char *path = scratch_path("live");
    struct stat st;
    struct live *l;
    struct file_id open_id, path_id;

    (void)state;
    assert_int_equal(live_open(scratch_path("no/live"), &l), ERROR_RUN_MISSING);
    assert_int_equal(live_open(scratch_directory, &l), ERROR_NOT_REGULAR);
    assert_int_equal(mkfifo(scratch_path("fifo"), 0600), 0);
    assert_int_equal(live_open(scratch_path("fifo"), &l), ERROR_NOT_REGULAR);
    assert_int_equal(symlink("nowhere", scratch_path("link")), 0);
    assert_int_equal(live_open(scratch_path("link"), &l), ERROR_NOT_REGULAR);
    assert_int_equal(access(scratch_path("nowhere"), F_OK), -1);

    mode_t mask = umask(0);
    l = open_live();
    umask(mask);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(fcntl(live_fd(l), F_GETFD), FD_CLOEXEC);
    assert_int_equal(file_id_fd(live_fd(l), &open_id), ERROR_NONE);
    assert_int_equal(file_id_path(path, &path_id), ERROR_NONE);
    assert_true(file_id_equal(open_id, path_id));
    assert_int_equal(live_hold(l, LARGEST), ERROR_NONE);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 0); /* a lock beyond the end needs no bytes */
    live_close(l);
}

#define IN_SCRATCH(f) cmocka_unit_test_setup_teardown(f, scratch_make, scratch_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_SCRATCH(test_an_own_place),
        IN_SCRATCH(test_F12_a_place_is_free_at_once_when_its_holder_is_killed),
        IN_SCRATCH(test_the_top_bit_is_no_place),
        IN_SCRATCH(test_the_table_is_bounded),
        IN_SCRATCH(test_closing_another_description_frees_nothing),
        IN_SCRATCH(test_a_child_neither_frees_nor_keeps_its_parents_places),
        IN_SCRATCH(test_a_child_that_closed_does_not_outlive_its_parents_places),
        IN_SCRATCH(test_F1_processes_that_race_for_places),
        IN_SCRATCH(test_threads),
        IN_SCRATCH(test_opening),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
