/*
 * The store's mark in the run directory: {uuid, id of the last committed transaction}, written
 * at the start of each write transaction, under LMDB's lock, from what that transaction found.
 * It therefore never goes back and is never ahead, and a store that is older than its mark has
 * been rolled back. And the notes that this boot has walked this file, and of the last copy.
 */
#ifndef STORE_MARK_H
#define STORE_MARK_H

#include <stdbool.h>
#include <stdint.h>

#include "platform/error.h"
#include "platform/file.h"

struct mark {
    uint8_t uuid[16];
    uint64_t last_id;
};

/* Opens the mark; *fd stays open for mark_read and mark_write. ERROR_NOT_FOUND, ERROR_SYSTEM.
 */
enum error mark_open(const char *path, int *fd);
/* Makes one where there is none (a new boot with the run directory on tmpfs); one that another
 * process has made meanwhile stays. ERROR_RUN_MISSING, ERROR_SYSTEM. */
enum error mark_create(const char *path, const struct mark *m);
/* ERROR_STORE_INVALID for a damaged one. */
enum error mark_read(int fd, struct mark *out);
enum error mark_write(int fd, const struct mark *m);
/* Puts one in place of whatever is there. */
enum error mark_replace(const char *path, const struct mark *m);

/* Whether `path` notes that the data file was walked in this boot; and noting it (failure to
 * note only means that the next process walks again). */
bool mark_walked(const char *path, const uint8_t boot_id[16], struct file_id data);
void mark_walked_note(const char *path, const uint8_t boot_id[16], struct file_id data);

/* The note of the last copy to flash (durability `lease`), beside the live rows. False: there is
 * none. */
struct mark_copied {
    uint64_t last_id; /* the last transaction that is in it */
    int64_t
        boot_ms; /* when a copy was begun; where `tried`, the last one, which has not ended */
    bool tried;
};
bool mark_copied(const char *path, struct mark_copied *out);
enum error mark_copied_note(const char *path, const struct mark_copied *m);

#endif
