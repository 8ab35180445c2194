/*
 * Where the process begins: what it inherits is made safe, then it is decided who started it.
 * In CGI the arguments are never looked at: some web servers make them from the query string
 * (RFC 3875, 4.4), so that a stranger would write our command line.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/cli.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

extern char **environ;

/* A closed standard descriptor would be given to the next file opened, and a line of the log
 * would then be written into the store. */
static bool fill_standard_descriptors(void)
{
    int fd = open("/dev/null", O_RDWR);

    while (fd >= 0 && fd <= STDERR_FILENO)
        fd = open("/dev/null", O_RDWR);
    return fd >= 0 && close(fd) == 0;
}

/* Proxies of the environment are not ours to use, and HTTP_PROXY is a request's header. */
static void drop_proxies(void)
{
    static const char suffix[] = "_proxy=";
    char **to = environ;

    for (char **from = environ; from != NULL && *from != NULL; from++) {
        size_t n = strcspn(*from, "=") + 1, want = sizeof suffix - 1;

        if (n < want || strncasecmp(*from + n - want, suffix, want) != 0)
            *to++ = *from;
    }
    if (to != NULL)
        *to = NULL;
}

static void harden(void)
{
    const struct rlimit none = {0, 0};
    sigset_t nothing;

    umask(077);
    setrlimit(RLIMIT_CORE, &none);      /* a core file would hold keys, */
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* and so does our memory */
    signal(SIGPIPE, SIG_IGN);           /* who went away shows in write's result */
    sigemptyset(&nothing);
    sigprocmask(SIG_SETMASK, &nothing, NULL); /* an inherited mask could hold SIGTERM back */
    drop_proxies();
}

#define LARGE 16384

/* One arena for all threads: each further one would cost more than all that they allocate. And
 * pieces of LARGE bytes straight from the system: of most of them (libcurl's and the store's
 * buffers) only a part is ever touched, and what is freed is gone at once. */
static void spare_memory(void)
{
#ifdef __GLIBC__
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, LARGE);
#endif
}

static bool is_listening(int fd)
{
    int value = 0;
    socklen_t n = sizeof value;

    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &value, &n) == 0 && value != 0;
}

int main(int argc, char **argv)
{
    bool listening;
    int status;

    if (!fill_standard_descriptors())
        _exit(CLI_FAILED);
    harden();
    spare_memory();
    listening = is_listening(STDIN_FILENO);
    if (!listening && getenv("GATEWAY_INTERFACE") != NULL)
        status = cli_cgi(environ);
    else
        status = cli_main(argc, argv, environ, listening);
    /* The store is left open: see cli_open and kv_close. */
    _exit(status);
}
