/*
 * The two files of a store as they stand at their paths (no LMDB in here). LMDB makes what is
 * missing and initialises what is empty, both in silence; so its files are looked at before it
 * sees them, and held by descriptors that keep their inode numbers from being given to others.
 *
 * The descriptors are O_PATH: an ordinary one, when closed, would release the POSIX locks by
 * which LMDB knows that this process is alive.
 */
#ifndef STORE_KV_FILES_H
#define STORE_KV_FILES_H

#include <stdatomic.h>
#include <stdint.h>

#include "platform/error.h"
#include "platform/file.h"

enum { KV_FILE_DATA, KV_FILE_LOCK, KV_FILES_COUNT };

struct kv_files {
    struct kv_file {
        int fd;
        char *path;
        struct file_id id;
        atomic_uint_least32_t seen; /* longest seen, in blocks of 512 bytes: 32 bits are atomic
                                       everywhere, and enough for 2 TiB */
    } file[KV_FILES_COUNT];
};

/* Creates both, data.mdb empty, mode 0600. ERROR_EXISTS if one is there (nothing is made then),
 * ERROR_STORE_MISSING without the directory, ERROR_STORE_IO. */
enum error kv_files_create(const char *directory);

/* Makes the two names last. */
enum error kv_files_sync(const char *directory);

/* Removes what kv_files_create has just made, and nothing else may have used. */
void kv_files_remove(const char *directory);

/*
 * Takes hold of both: there, regular, no symbolic link, data.mdb not empty, lock.mdb on the
 * disk as far as LMDB will write to it. ERROR_STORE_MISSING, ERROR_STORE_INVALID,
 * ERROR_STORE_REPLACED, ERROR_STORE_IO, ERROR_MEMORY. Only while this process has no
 * environment open there. On failure nothing is held, and *out is not to be used.
 */
enum error kv_files_hold(const char *directory, struct kv_files *out);
void kv_files_release(struct kv_files *f);

/* Those at the path are those that are held, and not shorter than ever seen. Thread-safe.
 * ERROR_STORE_MISSING, ERROR_STORE_REPLACED, ERROR_STORE_INVALID, ERROR_STORE_IO. */
enum error kv_files_check(struct kv_files *f);

/* The present length of data.mdb. */
enum error kv_files_data_size(const struct kv_files *f, uint64_t *bytes);

#endif
