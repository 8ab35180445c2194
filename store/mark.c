/*
 * The mark is 40 bytes in one pwrite: magic, uuid, id, and the id's complement, so that a torn
 * or foreign file is recognised. It guards against rolled-back copies, not against an owner of
 * the run directory.
 */
#include "store/mark.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MARK_SIZE 40
static const uint8_t magic[8] = {'p', 'g', 'm', 'a', 'r', 'k', '0', '1'};

static void put64(uint8_t *at, uint64_t v)
{
    for (unsigned i = 0; i < 8; i++)
        at[i] = (uint8_t)(v >> (56 - 8 * i));
}

static uint64_t get64(const uint8_t *at)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < 8; i++)
        v = v << 8 | at[i];
    return v;
}

static void encode(const struct mark *m, uint8_t out[MARK_SIZE])
{
    memcpy(out, magic, 8);
    memcpy(out + 8, m->uuid, 16);
    put64(out + 24, m->last_id);
    put64(out + 32, ~m->last_id);
}

enum error mark_replace(const char *path, const struct mark *m)
{
    uint8_t b[MARK_SIZE];

    encode(m, b);
    return file_replace(path, 0600, b, sizeof b);
}

enum error mark_open(const char *path, int *fd)
{
    int f = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

    if (f < 0)
        return errno == ENOENT ? ERROR_NOT_FOUND : ERROR_SYSTEM;
    *fd = f;
    return ERROR_NONE;
}

enum error mark_create(const char *path, const struct mark *m)
{
    uint8_t b[MARK_SIZE];

    encode(m, b);
    enum error e = file_create(path, 0600, b, sizeof b);
    if (e == ERROR_NOT_FOUND || (e == ERROR_SYSTEM && errno == ENOENT))
        return ERROR_RUN_MISSING;
    return e == ERROR_EXISTS ? ERROR_NONE : e;
}

enum error mark_read(int fd, struct mark *out)
{
    uint8_t b[MARK_SIZE];
    ssize_t n = pread(fd, b, sizeof b, 0);

    if (n < 0)
        return ERROR_SYSTEM;
    if (n != MARK_SIZE || memcmp(b, magic, 8) != 0 || get64(b + 24) != ~get64(b + 32))
        return ERROR_STORE_INVALID;
    memcpy(out->uuid, b + 8, 16);
    out->last_id = get64(b + 24);
    return ERROR_NONE;
}

enum error mark_write(int fd, const struct mark *m)
{
    uint8_t b[MARK_SIZE];

    encode(m, b);
    return pwrite(fd, b, sizeof b, 0) == (ssize_t)sizeof b ? ERROR_NONE : ERROR_STORE_IO;
}

/* The note: boot id, device, inode. */
#define NOTE_SIZE 32

static void note(const uint8_t boot_id[16], struct file_id data, uint8_t out[NOTE_SIZE])
{
    memcpy(out, boot_id, 16);
    put64(out + 16, (uint64_t)data.dev);
    put64(out + 24, (uint64_t)data.ino);
}

bool mark_walked(const char *path, const uint8_t boot_id[16], struct file_id data)
{
    uint8_t want[NOTE_SIZE];
    char *have = NULL;
    size_t n = 0;

    if (file_read(path, NOTE_SIZE, &have, &n) != ERROR_NONE)
        return false;
    note(boot_id, data, want);
    bool same = n == NOTE_SIZE && memcmp(have, want, NOTE_SIZE) == 0;
    free(have);
    return same;
}

void mark_walked_note(const char *path, const uint8_t boot_id[16], struct file_id data)
{
    uint8_t b[NOTE_SIZE];

    note(boot_id, data, b);
    (void)file_replace(path, 0600, b, sizeof b);
}

#define COPIED_SIZE 17

bool mark_copied(const char *path, struct mark_copied *out)
{
    char *have = NULL;
    size_t n = 0;

    if (file_read(path, COPIED_SIZE, &have, &n) != ERROR_NONE)
        return false;
    if (n == COPIED_SIZE) {
        out->last_id = get64((const uint8_t *)have);
        out->boot_ms = (int64_t)get64((const uint8_t *)have + 8);
        out->tried = have[16] != 0;
    }
    free(have);
    return n == COPIED_SIZE;
}

enum error mark_copied_note(const char *path, const struct mark_copied *m)
{
    uint8_t b[COPIED_SIZE];

    put64(b, m->last_id);
    put64(b + 8, (uint64_t)m->boot_ms);
    b[16] = m->tried;
    return file_replace(path, 0600, b, sizeof b);
}
