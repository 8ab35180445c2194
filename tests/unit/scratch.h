/*
 * What several unit tests need: a temporary directory that goes away, small files in it, and
 * child processes with an end. To be included after cmocka.h.
 */
#ifndef TESTS_UNIT_SCRATCH_H
#define TESTS_UNIT_SCRATCH_H

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SCRATCH_SECONDS 120 /* no child needs longer */

static char scratch_directory[PATH_MAX - 64];

/* For cmocka's setup and teardown. */
static inline int scratch_make(void **state)
{
    const char *base = getenv("TMPDIR");

    (void)state;
    snprintf(scratch_directory, sizeof scratch_directory, "%s/unit-XXXXXX",
             base && *base ? base : "/tmp");
    return mkdtemp(scratch_directory) ? 0 : -1;
}

static inline int scratch_remove_one(const char *path, const struct stat *st, int type,
                                     struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static inline int scratch_remove(void **state)
{
    (void)state;
    return nftw(scratch_directory, scratch_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* The path of `name` in the directory; of the last eight asked for. */
static inline const char *scratch_path(const char *name)
{
    static char paths[8][PATH_MAX];
    static unsigned next;
    char *path = paths[next++ % 8];

    snprintf(path, PATH_MAX, "%s/%s", scratch_directory, name);
    return path;
}

static inline void scratch_write(const char *path, mode_t mode, const void *data, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, n), (ssize_t)n);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

/* How many entries the directory has. */
static inline unsigned scratch_count(void)
{
    DIR *d = opendir(scratch_directory);
    unsigned n = 0;

    assert_non_null(d);
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d))
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

/* A child that only has to be there; the alarm ends it if a failed test forgets it. */
static inline _Noreturn void scratch_stay(void)
{
    alarm(SCRATCH_SECONDS);
    for (;;)
        pause();
}

/* A child's exit status, or 1000 plus the signal that ended it. */
static inline int scratch_wait(pid_t child)
{
    int status;

    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

#endif
