/*
 * Files as the program needs them: read whole and bounded, replaced whole, and recognised
 * again. Never follows a symbolic link for a file that it creates.
 */
#ifndef PLATFORM_FILE_H
#define PLATFORM_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "platform/error.h"

/* What identifies an open file against what stands at its path. */
struct file_id {
    dev_t dev;
    ino_t ino;
};

/* What tells that a file's content may have changed. */
struct file_stamp {
    struct file_id id;
    int64_t mtime_ns, ctime_ns;
    off_t size;
    bool exists;
};

/*
 * Reads a regular file of at most `max` bytes. *out is malloc'd, *n its length, and a NUL is
 * put after it for convenience. ERROR_NOT_FOUND, ERROR_NOT_REGULAR, ERROR_TOO_LARGE,
 * ERROR_SYSTEM, ERROR_MEMORY. The descriptor that was read, not the path, is what is checked.
 */
enum error file_read(const char *path, size_t max, char **out, size_t *n);

/*
 * As file_read, for secrets: ERROR_LOOSE_MODE unless only its owner may read and write it
 * (mode & 077 == 0), or its group may read it too where `group_ok`.
 */
enum error file_read_secret(const char *path, size_t max, bool group_ok, char **out, size_t *n);

/*
 * Puts `n` bytes at `path` such that after a crash either the old or the new content is there:
 * new file beside it (O_EXCL, mode), write, fsync, rename, fsync of the directory.
 */
enum error file_replace(const char *path, mode_t mode, const void *data, size_t n);

/*
 * The same for what does not fit into memory: file_new_begin, file_new_write as often as needed,
 * file_new_end. On an error of the first nothing has begun. file_new_end puts the file in its
 * place if `e`, what came of the writing, is ERROR_NONE, and throws it away otherwise; returns
 * `e`, or what it failed by itself.
 */
struct file_new {
    char path[PATH_MAX]; /* the temporary name; locked as long as it is written */
    int fd;
};
enum error file_new_begin(const char *path, mode_t mode, struct file_new *out);
enum error file_new_write(struct file_new *f, const void *data, size_t n);
enum error file_new_end(struct file_new *f, const char *path, mode_t mode, enum error e);

/*
 * Creates `path` with this content, complete or not at all (temporary name, fsync, link);
 * ERROR_EXISTS if something is there.
 */
enum error file_create(const char *path, mode_t mode, const void *data, size_t n);

/*
 * Opens a regular file for reading and writing; with `create`, makes an empty one (0600) if
 * there is none. Never follows a link, waits for nobody. ERROR_NOT_FOUND, ERROR_NOT_REGULAR
 * (links too), ERROR_SYSTEM.
 */
enum error file_open(const char *path, bool create, int *fd);

/* Takes the lock (flock) of a file or directory; it goes with the descriptor. ERROR_BUSY if
 * somebody else has it after wait_ms; ERROR_UNSUPPORTED. */
enum error file_lock(int fd, int64_t wait_ms);

/* Whether what is written there ends with the boot (tmpfs, ramfs). */
bool file_is_volatile(const char *path);

/* "DIRECTORY/NAME", malloc'd; NULL: no memory. */
char *file_join(const char *directory, const char *name);

/* The identity of an open descriptor, or of what stands at a path (links not followed). */
enum error file_id_fd(int fd, struct file_id *out);
enum error file_id_path(const char *path, struct file_id *out);
bool file_id_equal(struct file_id a, struct file_id b);

/* The stamp of what stands at `path` (links followed); exists = false if nothing does. */
struct file_stamp file_stamp(const char *path);
bool file_stamp_equal(const struct file_stamp *a, const struct file_stamp *b);

#endif
