/* Once an hour over all processes: the file holds the time at which it was last claimed. */
#include "platform/hourly.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "platform/file.h"

/* Of the open description and not of the process; gone when that is closed. */
static enum hourly lock(int fd)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    if (fcntl(fd, F_OFD_SETLK, &whole) == 0)
        return HOURLY_MINE;
    return errno == EAGAIN || errno == EACCES ? HOURLY_DONE : HOURLY_UNKNOWN;
}

static enum hourly claim(int fd, int64_t now_ms)
{
    uint64_t bytes = 0;
    enum hourly mine = lock(fd);

    if (mine != HOURLY_MINE)
        return mine;
    if (pread(fd, &bytes, sizeof bytes, 0) == sizeof bytes) {
        int64_t then_ms = (int64_t)be64toh(bytes);

        if (then_ms <= now_ms && then_ms > now_ms - HOURLY_MS)
            return HOURLY_DONE;
    }
    bytes = htobe64((uint64_t)now_ms);
    return pwrite(fd, &bytes, sizeof bytes, 0) == sizeof bytes ? HOURLY_MINE : HOURLY_UNKNOWN;
}

enum hourly hourly_claim(const char *path, int64_t now_ms)
{
    int fd;

    if (file_open(path, true, &fd) != ERROR_NONE)
        return HOURLY_UNKNOWN;
    enum hourly result = claim(fd, now_ms);
    close(fd);
    return result;
}

void hourly_release(const char *path)
{
    int fd, rc;

    if (file_open(path, false, &fd) != ERROR_NONE)
        return;
    rc = ftruncate(fd, 0);
    (void)rc; /* then it is the next hour's */
    close(fd);
}
