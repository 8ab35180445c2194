/*
 * Preloaded into a program under test: a store's directory is as on jffs2, which maps nothing that
 * is open for writing. What is below a directory `run` stands for tmpfs.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void *map(const char *name, void *at, size_t n, int p, int f, int fd, long long o)
{
    char link[64], path[4096] = "";
    void *(*real)(void *, size_t, int, int, int, long long) = dlsym(RTLD_NEXT, name);

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (fd >= 0 && (f & MAP_SHARED) && readlink(link, path, sizeof path - 1) > 0 &&
        strstr(path, "/store/") && !strstr(path, "/run/")) {
        errno = EINVAL;
        return MAP_FAILED;
    }
    return real(at, n, p, f, fd, o);
}

void *mmap(void *at, size_t n, int p, int f, int fd, off_t o)
{
    return map("mmap", at, n, p, f, fd, o);
}

void *mmap64(void *at, size_t n, int p, int f, int fd, off64_t o)
{
    return map("mmap64", at, n, p, f, fd, o);
}
