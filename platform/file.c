/*
 * Files, read bounded and replaced whole. What is checked is always the open descriptor, since
 * the name may lead elsewhere a moment later. Buffers are wiped before they are given back to
 * the heap: any of them may have held a secret.
 *
 * A new file is written under one of a few temporary names beside its place. Its writer holds
 * a lock (flock) on it, so that the next writer can tell what a crash left behind and removes
 * it: an outdated key must not live on in a forgotten file.
 */
#include "platform/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "platform/clock.h"
#include "platform/mac.h"

#define READ_START     512 /* files of /proc say that they are empty */
#define TEMPORARIES    16  /* processes that may write the same file at the same moment */
#define TAKE_ATTEMPTS  64  /* a name can be swept by another between making and locking it */
#define LOCK_POLL_MS   10
#define OTHERS         077 /* mode bits of all but the owner */
#define OTHERS_NO_READ 037 /* the same, but the group may read */

/* Makes one file appear under its final name. */
typedef enum error publish_fn(const char *from, const char *to);

static enum error error_of_path(void)
{
    switch (errno) {
    case ENOENT:
    case ENOTDIR:
        return ERROR_NOT_FOUND;
    case ENXIO: /* a socket, or a device without a driver */
    case EISDIR:
    case ELOOP: /* with O_NOFOLLOW: a link */
        return ERROR_NOT_REGULAR;
    default:
        return ERROR_SYSTEM;
    }
}

/* Close that keeps errno for the caller to tell. */
static void close_quietly(int fd)
{
    int saved = errno;

    close(fd);
    errno = saved;
}

/* O_NONBLOCK because opening a FIFO would otherwise wait for its other end. */
static enum error open_regular(const char *path, int flags, int *fd, struct stat *st)
{
    enum error e = ERROR_NONE;
    int opened = open(path, flags | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, 0600);

    if (opened < 0)
        return error_of_path();
    if (fstat(opened, st) != 0)
        e = ERROR_SYSTEM;
    else if (!S_ISREG(st->st_mode))
        e = ERROR_NOT_REGULAR;
    if (e != ERROR_NONE) {
        close_quietly(opened);
        return e;
    }
    *fd = opened;
    return ERROR_NONE;
}

enum error file_open(const char *path, bool create, int *fd)
{
    struct stat st;

    return open_regular(path, O_RDWR | O_NOFOLLOW | (create ? O_CREAT : 0), fd, &st);
}

static void discard(char *buffer, size_t n)
{
    if (buffer == NULL)
        return;
    mac_wipe(buffer, n);
    free(buffer);
}

/* Not realloc: it would leave a copy behind. */
static bool grow(char **buffer, size_t *capacity, size_t wanted)
{
    char *bigger = malloc(wanted);

    if (bigger == NULL)
        return false;
    memcpy(bigger, *buffer, *capacity);
    discard(*buffer, *capacity);
    *buffer = bigger;
    *capacity = wanted;
    return true;
}

/* Reads to the end into *buffer, which keeps one byte of room; stops beyond max bytes. */
static enum error read_all(int fd, size_t max, char **buffer, size_t *capacity, size_t *n)
{
    for (;;) {
        if (*n > max)
            return ERROR_TOO_LARGE;
        if (*capacity - *n < 2 && !grow(buffer, capacity, *capacity * 2))
            return ERROR_MEMORY;
        ssize_t got = read(fd, *buffer + *n, *capacity - *n - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return ERROR_SYSTEM;
        if (got == 0)
            return ERROR_NONE;
        *n += (size_t)got;
    }
}

static enum error read_fd(int fd, off_t size, size_t max, char **out, size_t *n)
{
    if (size > 0 && (uintmax_t)size > max)
        return ERROR_TOO_LARGE;

    /* the size is a hint only: the file may grow while it is read */
    size_t length = 0, capacity = (size > 0 ? (size_t)size : READ_START) + 2;
    char *buffer = malloc(capacity);
    enum error e = ERROR_MEMORY;

    if (buffer != NULL)
        e = read_all(fd, max, &buffer, &capacity, &length);
    if (e != ERROR_NONE) {
        discard(buffer, capacity);
        return e;
    }
    buffer[length] = '\0';
    *out = buffer;
    *n = length;
    return ERROR_NONE;
}

static enum error read_checked(const char *path, size_t max, mode_t forbidden, char **out,
                               size_t *n)
{
    struct stat st;
    int fd;
    enum error e = open_regular(path, O_RDONLY, &fd, &st);

    if (e != ERROR_NONE)
        return e;
    if ((st.st_mode & forbidden) != 0)
        e = ERROR_LOOSE_MODE;
    else
        e = read_fd(fd, st.st_size, max, out, n);
    close_quietly(fd);
    return e;
}

enum error file_read(const char *path, size_t max, char **out, size_t *n)
{
    return read_checked(path, max, 0, out, n);
}

enum error file_read_secret(const char *path, size_t max, bool group_ok, char **out, size_t *n)
{
    return read_checked(path, max, group_ok ? OTHERS_NO_READ : OTHERS, out, n);
}

static bool at_path(int fd, const char *path)
{
    struct file_id open_id, path_id;

    return file_id_fd(fd, &open_id) == ERROR_NONE &&
           file_id_path(path, &path_id) == ERROR_NONE && file_id_equal(open_id, path_id);
}

static bool temporary_name(const char *path, unsigned i, char out[PATH_MAX])
{
    int n = snprintf(out, PATH_MAX, "%s.new%u", path, i);

    return n > 0 && n < PATH_MAX;
}

/* Removes what dead writers left: a file under a temporary name that nobody has locked. */
static void sweep(const char *path)
{
    char name[PATH_MAX];
    struct stat st;
    int fd;

    for (unsigned i = 0; i < TEMPORARIES; i++) {
        if (!temporary_name(path, i, name) ||
            open_regular(name, O_RDONLY | O_NOFOLLOW, &fd, &st) != ERROR_NONE)
            continue;
        if (flock(fd, LOCK_EX | LOCK_NB) == 0 && at_path(fd, name))
            unlink(name);
        close(fd);
    }
}

/*
 * Takes the first free temporary name. Only once it is locked and still at its path is it
 * ours: before, a sweeper may have taken it for a dead one.
 */
static enum error take_temporary(const char *path, mode_t mode, struct file_new *t)
{
    for (unsigned attempt = 0; attempt < TAKE_ATTEMPTS; attempt++) {
        if (!temporary_name(path, attempt % TEMPORARIES, t->path))
            return ERROR_TOO_LARGE;
        t->fd = open(t->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
        if (t->fd < 0 && errno != EEXIST)
            return error_of_path();
        if (t->fd < 0)
            continue;
        bool locked = flock(t->fd, LOCK_EX | LOCK_NB) == 0;
        if (locked && at_path(t->fd, t->path))
            return ERROR_NONE;
        bool unsupported = !locked && errno != EWOULDBLOCK;
        if (unsupported)
            unlink(t->path);
        close_quietly(t->fd);
        if (unsupported)
            return ERROR_UNSUPPORTED;
    }
    return ERROR_BUSY;
}

static enum error write_all(int fd, const void *data, size_t n)
{
    const char *at = data;

    while (n > 0) {
        ssize_t put = write(fd, at, n);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return ERROR_SYSTEM;
        at += put;
        n -= (size_t)put;
    }
    return ERROR_NONE;
}

/* Makes the names in the directory of `path` durable, where its file system can (EINVAL). */
static enum error sync_directory(const char *path)
{
    char directory[PATH_MAX] = ".";
    const char *slash = strrchr(path, '/');
    size_t n = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);

    if (n >= sizeof directory)
        return ERROR_TOO_LARGE;
    if (n > 0) {
        memcpy(directory, path, n);
        directory[n] = '\0';
    }
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return ERROR_SYSTEM;
    enum error e = fsync(fd) == 0 || errno == EINVAL ? ERROR_NONE : ERROR_SYSTEM;
    close_quietly(fd);
    return e;
}

static enum error publish_by_rename(const char *from, const char *to)
{
    return rename(from, to) == 0 ? ERROR_NONE : ERROR_SYSTEM;
}

static enum error publish_by_link(const char *from, const char *to)
{
    if (link(from, to) == 0)
        return ERROR_NONE;
    return errno == EEXIST ? ERROR_EXISTS : ERROR_SYSTEM;
}

enum error file_new_begin(const char *path, mode_t mode, struct file_new *out)
{
    sweep(path);
    return take_temporary(path, mode, out);
}

static enum error end(struct file_new *f, const char *path, mode_t mode, publish_fn *publish,
                      enum error e)
{
    /* fchmod because the mode asked for must not depend on the umask */
    if (e == ERROR_NONE && (fchmod(f->fd, mode) != 0 || fsync(f->fd) != 0))
        e = ERROR_SYSTEM;
    if (e == ERROR_NONE)
        e = publish(f->path, path);

    int saved = errno;
    if (e != ERROR_NONE || publish == publish_by_link)
        unlink(f->path);
    close(f->fd); /* last: it is the lock on the name */
    errno = saved;
    return e == ERROR_NONE ? sync_directory(path) : e;
}

enum error file_new_write(struct file_new *f, const void *data, size_t n)
{
    return write_all(f->fd, data, n);
}

enum error file_new_end(struct file_new *f, const char *path, mode_t mode, enum error e)
{
    return end(f, path, mode, publish_by_rename, e);
}

static enum error write_whole(const char *path, mode_t mode, const void *data, size_t n,
                              publish_fn *publish)
{
    struct file_new f;
    enum error e = file_new_begin(path, mode, &f);

    return e == ERROR_NONE ? end(&f, path, mode, publish, write_all(f.fd, data, n)) : e;
}

enum error file_replace(const char *path, mode_t mode, const void *data, size_t n)
{
    return write_whole(path, mode, data, n, publish_by_rename);
}

enum error file_create(const char *path, mode_t mode, const void *data, size_t n)
{
    return write_whole(path, mode, data, n, publish_by_link);
}

enum error file_lock(int fd, int64_t wait_ms)
{
    int64_t until = clock_monotonic_ms() + wait_ms;

    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return ERROR_UNSUPPORTED;
        if (clock_monotonic_ms() >= until)
            return ERROR_BUSY;
        poll(NULL, 0, LOCK_POLL_MS);
    }
    return ERROR_NONE;
}

/* The kernel's numbers, since its headers are not everywhere. */
#define TMPFS 0x01021994U
#define RAMFS 0x858458f6U

bool file_is_volatile(const char *path)
{
    struct statfs fs;

    return statfs(path, &fs) == 0 &&
           ((uint32_t)fs.f_type == TMPFS || (uint32_t)fs.f_type == RAMFS);
}

char *file_join(const char *directory, const char *name)
{
    size_t n = strlen(directory) + strlen(name) + 2;
    char *path = malloc(n);

    if (path != NULL)
        snprintf(path, n, "%s/%s", directory, name);
    return path;
}

enum error file_id_fd(int fd, struct file_id *out)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return ERROR_SYSTEM;
    *out = (struct file_id){st.st_dev, st.st_ino};
    return ERROR_NONE;
}

enum error file_id_path(const char *path, struct file_id *out)
{
    struct stat st;

    if (lstat(path, &st) != 0)
        return error_of_path();
    *out = (struct file_id){st.st_dev, st.st_ino};
    return ERROR_NONE;
}

bool file_id_equal(struct file_id a, struct file_id b)
{
    return a.dev == b.dev && a.ino == b.ino;
}

/* Unsigned, because a hostile time of 2^60 seconds must wrap and not be undefined. */
static int64_t nanoseconds(struct timespec t)
{
    return (int64_t)((uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec);
}

struct file_stamp file_stamp(const char *path)
{
    struct file_stamp stamp = {.exists = false};
    struct stat st;

    if (stat(path, &st) != 0)
        return stamp;
    stamp.id = (struct file_id){st.st_dev, st.st_ino};
    stamp.mtime_ns = nanoseconds(st.st_mtim);
    stamp.ctime_ns = nanoseconds(st.st_ctim);
    stamp.size = st.st_size;
    stamp.exists = true;
    return stamp;
}

bool file_stamp_equal(const struct file_stamp *a, const struct file_stamp *b)
{
    return a->exists == b->exists && file_id_equal(a->id, b->id) &&
           a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns && a->size == b->size;
}
