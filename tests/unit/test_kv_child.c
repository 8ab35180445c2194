/* Work in a child that may die: answers, deaths, the deadline, and what the child inherits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/clock.h"
#include "store/kv_child.h"

#define LONG_MS 60000

#define assert_error(got, wanted) assert_string_equal(error_text(got), error_text(wanted))

static enum error answer(void *arg)
{
    return *(enum error *)arg;
}

static enum error leave(void *arg)
{
    _exit(*(int *)arg);
    return ERROR_NONE;
}

static enum error raise_signal(void *arg)
{
    raise(*(int *)arg);
    return ERROR_NONE;
}

/* As LMDB does on a file that was cut. */
static enum error read_beyond_the_end(void *arg)
{
    char *map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, *(int *)arg, 0);
    if (map == MAP_FAILED)
        return ERROR_SYSTEM;
    char first = *(volatile char *)map;
    munmap(map, 4096);
    return first ? ERROR_EXISTS : ERROR_NONE;
}

static enum error hang(void *arg)
{
    (void)arg;
    for (;;)
        pause();
    return ERROR_NONE;
}

static void assert_no_child_left(void)
{
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

static void test_every_answer_comes_through(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ERRORS; i++) {
        enum error e = (enum error)i;
        assert_error(kv_child_run(answer, &e, LONG_MS), e);
    }
    enum error no_error = (enum error)200;
    assert_error(kv_child_run(answer, &no_error, LONG_MS), ERROR_STORE_BROKEN);
    assert_no_child_left();
}

static void test_death_is_broken(void **state)
{
    (void)state;
    static const int signals[] = {SIGBUS, SIGSEGV, SIGABRT, SIGFPE, SIGILL, SIGKILL, SIGTERM};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        int s = signals[i];
        assert_error(kv_child_run(raise_signal, &s, LONG_MS), ERROR_STORE_BROKEN);
    }
    for (int status = 0; status < 3; status++)
        assert_error(kv_child_run(leave, &status, LONG_MS), ERROR_STORE_BROKEN);
    assert_no_child_left();
}

static enum error map_file_cut_to_nothing(void *arg)
{
    (void)arg;
    int fd = memfd_create("cut", 0);
    if (fd < 0 || ftruncate(fd, 0))
        return ERROR_SYSTEM;
    return read_beyond_the_end(&fd);
}

static void test_sigbus_of_a_cut_file_is_broken(void **state)
{
    (void)state;
    assert_error(kv_child_run(map_file_cut_to_nothing, NULL, LONG_MS), ERROR_STORE_BROKEN);
}

static void test_deadline(void **state)
{
    (void)state;
    int64_t before = clock_monotonic_ms();
    assert_error(kv_child_run(hang, NULL, 150), ERROR_STORE_BROKEN);
    int64_t took = clock_monotonic_ms() - before;
    assert_true(took >= 150 && took < LONG_MS);
    assert_no_child_left();
}

/* A web server may start its programs with SIGCHLD ignored: there is no exit status then. */
static void test_answer_with_sigchld_ignored(void **state)
{
    (void)state;
    enum error e = ERROR_TOO_LARGE;
    int bus = SIGBUS;
    signal(SIGCHLD, SIG_IGN);
    assert_error(kv_child_run(answer, &e, LONG_MS), ERROR_TOO_LARGE);
    assert_error(kv_child_run(raise_signal, &bus, LONG_MS), ERROR_STORE_BROKEN);
    assert_error(kv_child_run(hang, NULL, 50), ERROR_STORE_BROKEN);
    signal(SIGCHLD, SIG_DFL);
}

static int inherited[2]; /* a pipe of the parent */
static atomic_int *handled;

static void handler(int s)
{
    (void)s;
    atomic_fetch_add(handled, 1);
}

static enum error look_around(void *arg)
{
    (void)arg;
    struct sigaction a;
    struct rlimit core;
    sigset_t mask;
    for (int i = 0; i < 2; i++)
        if (fcntl(inherited[i], F_GETFD) >= 0 || errno != EBADF)
            return ERROR_EXISTS;
    if (sigaction(SIGUSR1, NULL, &a) || a.sa_handler != SIG_DFL)
        return ERROR_SYNTAX;
    if (sigprocmask(SIG_SETMASK, NULL, &mask) || sigismember(&mask, SIGUSR2))
        return ERROR_BUSY;
    if (getrlimit(RLIMIT_CORE, &core) || core.rlim_cur != 0 || prctl(PR_GET_DUMPABLE) != 0)
        return ERROR_LOOSE_MODE;
    return ERROR_NONE;
}

static void test_the_child_inherits_nothing_that_matters(void **state)
{
    (void)state;
    sigset_t mask, before, after;
    assert_int_equal(pipe(inherited), 0);
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &mask, &before);
    signal(SIGUSR1, handler);
    assert_error(kv_child_run(look_around, NULL, LONG_MS), ERROR_NONE);
    signal(SIGUSR1, SIG_DFL);
    pthread_sigmask(SIG_SETMASK, &before, &after);
    assert_true(sigismember(&after, SIGUSR2)); /* the parent's own mask is as it was */
    assert_false(sigismember(&after, SIGUSR1));
    close(inherited[0]);
    close(inherited[1]);
}

static enum error signal_itself(void *arg)
{
    (void)arg;
    raise(SIGUSR1);
    return ERROR_NONE;
}

static void test_the_parents_handlers_do_not_run_in_the_child(void **state)
{
    (void)state;
    int zero = open("/dev/zero", O_RDWR | O_CLOEXEC);
    assert_true(zero >= 0);
    handled = mmap(NULL, sizeof *handled, PROT_READ | PROT_WRITE, MAP_SHARED, zero, 0);
    close(zero);
    assert_true(handled != MAP_FAILED);
    signal(SIGUSR1, handler);
    assert_error(kv_child_run(signal_itself, NULL, LONG_MS), ERROR_STORE_BROKEN);
    assert_int_equal(atomic_load(handled), 0);
    signal(SIGUSR1, SIG_DFL);
    munmap(handled, sizeof *handled);
}

static void test_no_descriptors_left(void **state)
{
    (void)state;
    enum error none = ERROR_NONE;
    rlim_t highest = 0;
    struct rlimit before, tight;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    for (int fd = 0; fd < 200; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            highest = (rlim_t)fd;
    tight = (struct rlimit){highest + 3, before.rlim_max}; /* room for the pipe alone */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
    for (int i = 0; i < 10; i++)
        assert_error(kv_child_run(answer, &none, LONG_MS), ERROR_NONE);
    tight.rlim_cur = highest + 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
    while (dup(0) >= 0)
        ;
    assert_error(kv_child_run(answer, &none, LONG_MS), ERROR_SYSTEM);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_answer_comes_through),
        cmocka_unit_test(test_death_is_broken),
        cmocka_unit_test(test_sigbus_of_a_cut_file_is_broken),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_answer_with_sigchld_ignored),
        cmocka_unit_test(test_the_child_inherits_nothing_that_matters),
        cmocka_unit_test(test_the_parents_handlers_do_not_run_in_the_child),
        cmocka_unit_test(test_no_descriptors_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
