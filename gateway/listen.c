/*
 * The listening socket of `serve`. Made here and not by libfcgi, which lets the umask decide
 * who may connect, removes whatever is at the path, and ends the process on an error.
 * Security: whoever can connect can make the process allocate (gateway/fcgi.c), so the socket
 * appears under its name only once its mode and group are right, and nothing but a dead socket
 * is ever replaced.
 */
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "gateway/pool.h"

#define BACKLOG  1024 /* connections that wait in the kernel while all places are taken */
#define MESSAGE  256
#define NO_GROUP ((gid_t)-1)

static int fail(char message[MESSAGE], const char *path, const char *what, const char *why)
{
    snprintf(message, MESSAGE, "%s: %s: %s", path, what, why);
    return -1;
}

static bool make_address(struct sockaddr_un *a, const char *path)
{
    memset(a, 0, sizeof(*a));
    a->sun_family = AF_UNIX;
    if (strlen(path) >= sizeof(a->sun_path))
        return false;
    memcpy(a->sun_path, path, strlen(path));
    return true;
}

/* Whether `path` is free: nothing there, or a socket that nobody listens to. What cannot be
 * asked (a socket of another user, say) may be alive, and is left alone. */
static bool replaceable(const struct sockaddr_un *address, const char **why)
{
    struct stat st;
    int fd, error = 0;

    if (lstat(address->sun_path, &st) != 0) {
        *why = strerror(errno);
        return errno == ENOENT;
    }
    *why = "exists and is no socket";
    if (!S_ISSOCK(st.st_mode))
        return false;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0)
        error = errno;
    if (fd >= 0)
        close(fd);
    if (error == 0 || error == EAGAIN) /* EAGAIN: its backlog is full */
        *why = "another process listens there";
    else if (error == EACCES)
        *why = "no permission to ask the socket there; remove it if it is dead";
    else
        *why = strerror(error);
    return error == ECONNREFUSED;
}

static bool find_group(const char *group, gid_t *gid)
{
    const struct group *g;

    *gid = NO_GROUP;
    if (group == NULL)
        return true;
    g = getgrnam(group); /* cppcheck-suppress getgrnamCalled; there are no threads yet */
    if (g == NULL)
        return false;
    *gid = g->gr_gid;
    return true;
}

/* Bound to a name of its own, closed to everybody; -1 with errno. */
static int bind_closed(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    mode_t before;
    int result, error;

    if (fd < 0)
        return -1;
    unlink(address->sun_path); /* of an earlier process with our id */
    before = umask(0777);
    result = bind(fd, (const struct sockaddr *)address, sizeof(*address));
    error = errno;
    umask(before);
    if (result != 0) {
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

/* Opens the socket to those it is for, and gives it its name. NULL, or what failed,
 * with errno. */
static const char *publish(int fd, const char *temporary, const char *path, unsigned mode,
                           gid_t gid)
{
    if (gid != NO_GROUP && chown(temporary, (uid_t)-1, gid) != 0)
        return "socket-group";
    if (chmod(temporary, (mode_t)mode) != 0)
        return "socket-mode";
    return listen(fd, BACKLOG) == 0 && rename(temporary, path) == 0 ? NULL : "socket";
}

int pool_listen(const char *path, unsigned mode, const char *group, char message[MESSAGE])
{
    struct sockaddr_un address, temporary;
    char name[sizeof(address.sun_path)];
    const char *why = "", *failed;
    gid_t gid;
    int fd, n;

    n = snprintf(name, sizeof(name), "%s.new-%ld", path, (long)getpid());
    if (n < 0 || (size_t)n >= sizeof(name) || !make_address(&address, path) ||
        !make_address(&temporary, name))
        return fail(message, path, "socket", "the path is too long");
    if (!find_group(group, &gid))
        return fail(message, path, "socket-group", "no such group");
    if (!replaceable(&address, &why))
        return fail(message, path, "socket", why);
    fd = bind_closed(&temporary);
    if (fd < 0)
        return fail(message, path, "socket",
                    errno == ENOENT ? "its directory is missing" : strerror(errno));
    failed = publish(fd, name, path, mode, gid);
    if (failed != NULL) {
        n = errno;
        unlink(name);
        close(fd);
        return fail(message, path, failed, strerror(n));
    }
    return fd;
}
