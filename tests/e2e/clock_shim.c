/*
 * Preloaded into a program under test: the wall clock is moved by the milliseconds that stand
 * in the file named by CLOCK_SHIM, read at each call, so that a test can step it. Monotonic and
 * boot time stay real, as when a machine's clock is set.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long long offset_ms(void)
{
    const char *path = getenv("CLOCK_SHIM");
    char text[32] = {0};
    int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return 0;
    if (read(fd, text, sizeof text - 1) < 0)
        text[0] = '\0';
    close(fd);
    return strtoll(text, NULL, 10);
}

int clock_gettime(clockid_t id, struct timespec *t)
{
    static int (*real)(clockid_t, struct timespec *);
    int status;

    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    status = real(id, t);
    if (status == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
        long long ms = (long long)t->tv_sec * 1000 + t->tv_nsec / 1000000 + offset_ms();

        t->tv_sec = ms / 1000;
        t->tv_nsec = ms % 1000 * 1000000;
    }
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
