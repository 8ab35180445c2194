/*
 * A child for dangerous work. It answers with one byte through a pipe, not by its exit status:
 * a process that was started with SIGCHLD ignored never learns that. No byte means that it
 * died.
 */
#include "store/kv_child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/clock.h"

#define DESCRIPTORS 1024 /* the usual limit of a process; those beyond it are not ours */
#define KILL_MS     2000 /* a killed child can only be stuck in the kernel, on a dying disk */

/* An inherited descriptor would keep the parent's sockets and its locks on places alive. */
static void drop_descriptors(int keep)
{
    for (int fd = 3; fd < DESCRIPTORS; fd++)
        if (fd != keep)
            close(fd);
}

static void reset_signals(void)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    for (int s = 1; s < NSIG; s++)
        sigaction(s, &action, NULL); /* fails for SIGKILL, SIGSTOP and the library's own */
    sigset_t none;
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
}

_Noreturn static void child(enum error (*work)(void *), void *arg, int answer)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* The limit alone does not stop a core that is piped to a handler, and it would hold the
     * site's secret. */
    prctl(PR_SET_DUMPABLE, 0);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    reset_signals();
    drop_descriptors(answer);
    uint8_t byte = (uint8_t)work(arg);
    _exit(write(answer, &byte, 1) == 1 ? 0 : 1);
}

/* The answer of one byte, or ERROR_STORE_BROKEN; *gone says whether the child has let go. */
static enum error wait_answer(int fd, int64_t bound_ms, bool *gone)
{
    int64_t end = clock_monotonic_ms() + bound_ms;
    *gone = false;
    for (;;) {
        int64_t left = end - clock_monotonic_ms();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int rc = poll(&p, 1, left > 0 ? (int)left : 0);
        if (rc < 0 && errno == EINTR)
            continue;
        if (rc <= 0)
            return ERROR_STORE_BROKEN;
        uint8_t byte;
        ssize_t n = read(fd, &byte, 1);
        if (n < 0 && errno == EINTR)
            continue;
        *gone = true;
        return n == 1 && byte < ERRORS ? (enum error)byte : ERROR_STORE_BROKEN;
    }
}

static void reap(pid_t pid)
{
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

enum error kv_child_run(enum error (*work)(void *arg), void *arg, int64_t bound_ms)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        return ERROR_SYSTEM;
    /* The parent's handlers must not run in the child: they may write to what it shares. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid == 0)
        child(work, arg, ends[1]);
    int cause = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        errno = cause;
        return cause == ENOMEM ? ERROR_MEMORY : ERROR_SYSTEM;
    }
    bool gone;
    enum error e = wait_answer(ends[0], bound_ms, &gone);
    if (!gone) {
        /* It still holds the pipe, so the number is still its own. */
        kill(pid, SIGKILL);
        wait_answer(ends[0], KILL_MS, &gone);
    }
    if (gone)
        reap(pid);
    close(ends[0]);
    return e;
}
