/*
 * Preloaded into a program under test: the machine's clocks as they stand in the file named by
 * CLOCK_SHIM, read at each call, so that a test can step them:
 *
 *     WALL [BOOT [ID]]
 *
 * WALL and BOOT are milliseconds by which CLOCK_REALTIME and CLOCK_BOOTTIME are moved, ID is what
 * the program reads of the kernel's boot id ("-": it cannot be read). CLOCK_MONOTONIC stays real,
 * as threads wait by it. A process that is to be of another boot has to be started anew, as it is.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"

struct clocks {
    long long wall_ms, boot_ms;
    char boot_id[40]; /* empty: the kernel's own */
};

static int real_open(const char *path, int flags, mode_t mode)
{
    static int (*real)(const char *, int, ...);

    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "open");
    return real(path, flags, mode);
}

static struct clocks clocks(void)
{
    const char *path = getenv("CLOCK_SHIM");
    struct clocks c = {0};
    char text[128] = {0};
    int fd = path == NULL ? -1 : real_open(path, O_RDONLY | O_CLOEXEC, 0);

    if (fd < 0)
        return c;
    if (read(fd, text, sizeof text - 1) > 0)
        (void)sscanf(text, "%lld %lld %39s", &c.wall_ms, &c.boot_ms, c.boot_id);
    close(fd);
    return c;
}

static int open_boot_id(const char *id)
{
    int fd = -1;

    if (strcmp(id, "-") == 0) {
        errno = EACCES;
        return -1;
    }
    fd = memfd_create("boot_id", MFD_CLOEXEC);
    if (fd >= 0)
        (void)(dprintf(fd, "%s\n", id) + lseek(fd, 0, SEEK_SET));
    return fd;
}

int open(const char *path, int flags, ...)
{
    va_list more;
    mode_t mode = 0;

    va_start(more, flags);
    if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE)
        mode = va_arg(more, mode_t);
    va_end(more);
    if (strcmp(path, BOOT_ID_FILE) == 0) {
        struct clocks c = clocks();

        if (c.boot_id[0] != '\0')
            return open_boot_id(c.boot_id);
    }
    return real_open(path, flags, mode);
}

int open64(const char *path, int flags, ...) __attribute__((alias("open")));

static void move(struct timespec *t, long long by_ms)
{
    long long ms = (long long)t->tv_sec * 1000 + t->tv_nsec / 1000000 + by_ms;

    t->tv_sec = ms / 1000;
    t->tv_nsec = ms % 1000 * 1000000;
}

int clock_gettime(clockid_t id, struct timespec *t)
{
    static int (*real)(clockid_t, struct timespec *);
    int status;

    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    status = real(id, t);
    if (status == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        move(t, clocks().wall_ms);
    if (status == 0 && id == CLOCK_BOOTTIME)
        move(t, clocks().boot_ms);
    return status;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
    struct timespec now;

    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    t->tv_sec = now.tv_sec;
    t->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    if (out != NULL)
        *out = now.tv_sec;
    return now.tv_sec;
}
