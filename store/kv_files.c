/*
 * The two files of a store at their paths. Security stance: whatever stands at a path may have
 * been put there by anyone who can write to the directory; only what is held is compared.
 */
#include "store/kv_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/kv.h"

#define BLOCK 512

/* LMDB's lock file: a slot of 64 bytes for each reader behind less than a KiB of its own. A
 * whole number of blocks. */
#define LOCK_BYTES (KV_READERS * 64 + 1024)

static const char *const names[KV_FILES_COUNT] = {"data.mdb", "lock.mdb"};

static enum error error_of_errno(void)
{
    switch (errno) {
    case ENOENT:
    case ENOTDIR:
        return ERROR_STORE_MISSING;
    case EEXIST:
        return ERROR_EXISTS;
    case ELOOP:
        return ERROR_STORE_INVALID;
    case ENOMEM:
        return ERROR_MEMORY;
    default:
        return ERROR_STORE_IO;
    }
}

static char *path_of(const char *directory, const char *name)
{
    size_t n = strlen(directory) + 1 + strlen(name) + 1;
    char *path = malloc(n);
    if (path)
        snprintf(path, n, "%s/%s", directory, name);
    return path;
}

static uint_least32_t blocks(off_t size)
{
    uint64_t n = (uint64_t)size / BLOCK;
    return n > UINT32_MAX ? UINT32_MAX : (uint_least32_t)n;
}

static enum error fill_lock(int fd)
{
    static char zeros[BLOCK]; /* not const, or they would all be in the program's file */
    for (off_t at = 0; at < LOCK_BYTES; at += BLOCK)
        if (pwrite(fd, zeros, BLOCK, at) != BLOCK)
            return ERROR_STORE_IO;
    return ERROR_NONE;
}

/*
 * LMDB maps the lock file for writing and leaves holes in it; on a full disk the first write to
 * a hole kills the process by SIGBUS. Where a file system cannot allocate ahead (ubifs), a new
 * file is written, and an old one left to its luck.
 */
static enum error allocate_lock(int fd, bool is_new)
{
    struct stat st;
    if (fstat(fd, &st))
        return ERROR_STORE_IO;
    if (st.st_size >= LOCK_BYTES && (uint64_t)st.st_blocks * BLOCK >= LOCK_BYTES)
        return ERROR_NONE;
    while (fallocate(fd, 0, 0, LOCK_BYTES)) {
        if (errno == EINTR)
            continue;
        if (errno != EOPNOTSUPP && errno != ENOSYS)
            return ERROR_STORE_IO;
        return is_new ? fill_lock(fd) : ERROR_NONE;
    }
    return ERROR_NONE;
}

static enum error create_one(const char *directory, int which)
{
    char *path = path_of(directory, names[which]);
    if (!path)
        return ERROR_MEMORY;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    enum error e = fd < 0 ? error_of_errno() : ERROR_NONE;
    if (!e && which == KV_FILE_LOCK) {
        e = allocate_lock(fd, true);
        if (e)
            unlink(path);
    }
    if (fd >= 0)
        close(fd);
    free(path);
    return e;
}

static void remove_one(const char *directory, const char *name)
{
    char *path = path_of(directory, name);
    if (path)
        unlink(path);
    free(path);
}

/* The lock file first: of two that create at once, one fails here before any data is made. */
enum error kv_files_create(const char *directory)
{
    enum error e = create_one(directory, KV_FILE_LOCK);
    if (e)
        return e;
    e = create_one(directory, KV_FILE_DATA);
    if (e)
        remove_one(directory, names[KV_FILE_LOCK]);
    return e;
}

void kv_files_remove(const char *directory)
{
    remove_one(directory, names[KV_FILE_DATA]);
    remove_one(directory, names[KV_FILE_LOCK]);
}

enum error kv_files_sync(const char *directory)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return error_of_errno();
    enum error e = fsync(fd) ? ERROR_STORE_IO : ERROR_NONE;
    close(fd);
    return e;
}

static enum error hold_one(const char *directory, int which, struct kv_file *out)
{
    out->path = path_of(directory, names[which]);
    if (!out->path)
        return ERROR_MEMORY;
    out->fd = open(out->path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (out->fd < 0 || fstat(out->fd, &st))
        return error_of_errno();
    if (!S_ISREG(st.st_mode))
        return ERROR_STORE_INVALID;
    /* LMDB refuses a file that is not its own by itself, but makes a fresh store of an empty
     * one. An empty lock file is none of ours: LMDB makes it anew if nobody uses it. */
    if (which == KV_FILE_DATA && st.st_size == 0)
        return ERROR_STORE_INVALID;
    out->id = (struct file_id){st.st_dev, st.st_ino};
    atomic_init(&out->seen, blocks(st.st_size));
    return ERROR_NONE;
}

static enum error prepare_lock(const struct kv_file *f)
{
    int fd = open(f->path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return error_of_errno();
    struct file_id id;
    enum error e = file_id_fd(fd, &id) ? ERROR_STORE_IO : ERROR_NONE;
    if (!e && !file_id_equal(f->id, id))
        e = ERROR_STORE_REPLACED;
    if (!e)
        e = allocate_lock(fd, false);
    close(fd);
    return e;
}

enum error kv_files_hold(const char *directory, struct kv_files *out)
{
    enum error e = ERROR_NONE;
    for (int i = 0; i < KV_FILES_COUNT; i++) {
        out->file[i].fd = -1;
        out->file[i].path = NULL;
    }
    for (int i = 0; i < KV_FILES_COUNT && !e; i++)
        e = hold_one(directory, i, &out->file[i]);
    if (!e)
        e = prepare_lock(&out->file[KV_FILE_LOCK]);
    if (e)
        kv_files_release(out);
    return e;
}

void kv_files_release(struct kv_files *f)
{
    for (int i = 0; i < KV_FILES_COUNT; i++) {
        if (f->file[i].fd >= 0)
            close(f->file[i].fd);
        free(f->file[i].path);
        f->file[i].fd = -1;
        f->file[i].path = NULL;
    }
}

static enum error check_one(struct kv_file *f)
{
    /* Read before the size is asked: a file that another thread sees grow in between must not
     * look cut. */
    uint_least32_t seen = atomic_load(&f->seen);
    struct stat st;
    if (lstat(f->path, &st))
        return error_of_errno();
    if (!file_id_equal(f->id, (struct file_id){st.st_dev, st.st_ino}))
        return ERROR_STORE_REPLACED;
    uint_least32_t now = blocks(st.st_size);
    if (now < seen)
        return ERROR_STORE_INVALID;
    while (now > seen && !atomic_compare_exchange_weak(&f->seen, &seen, now))
        ;
    return ERROR_NONE;
}

enum error kv_files_check(struct kv_files *f)
{
    enum error e = check_one(&f->file[KV_FILE_DATA]);
    return e ? e : check_one(&f->file[KV_FILE_LOCK]);
}

enum error kv_files_data_size(const struct kv_files *f, uint64_t *bytes)
{
    struct stat st;
    if (fstat(f->file[KV_FILE_DATA].fd, &st))
        return ERROR_STORE_IO;
    *bytes = (uint64_t)st.st_size;
    return ERROR_NONE;
}
