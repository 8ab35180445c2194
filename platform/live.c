/*
 * Places held by byte locks. Locks of an open file description and not of the process, because
 * those of a process would be lost with any close of the file in it. Whatever cannot be told
 * counts as held: a place in doubt is never given twice.
 */
#include "platform/live.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "platform/file.h"

#define ID_MAX    INT64_MAX /* a lock's offset is signed */
#define PROBE     0         /* the byte that is locked, shared, to learn whether locks work */
#define NOT_OWNED LIVE_OWN_MAX

_Static_assert(sizeof(off_t) == 8, "63-bit ids need 64-bit offsets");

struct live {
    int fd;
    pthread_mutex_t lock; /* over all below, and over the order of lock and table */
    unsigned owned;
    uint64_t own[LIVE_OWN_MAX];
};

/* type: F_RDLCK, F_WRLCK, F_UNLCK; n = 0 means to the end. */
static struct flock bytes_at(short type, uint64_t id, off_t n)
{
    return (struct flock){
        .l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)id, .l_len = n};
}

static bool set_lock(int fd, short type, uint64_t id, off_t n)
{
    struct flock bytes = bytes_at(type, id, n);
    int rc;

    while ((rc = fcntl(fd, F_OFD_SETLK, &bytes)) != 0 && errno == EINTR)
        ;
    return rc == 0;
}

static bool is_contended(int error_number)
{
    return error_number == EAGAIN || error_number == EACCES;
}

/* Really sets a lock: some file systems answer questions about locks and then have none. */
static bool can_lock(int fd)
{
    if (!set_lock(fd, F_RDLCK, PROBE, 1))
        return is_contended(errno);
    return set_lock(fd, F_UNLCK, PROBE, 1);
}

enum error live_open(const char *path, struct live **out)
{
    struct live *l = malloc(sizeof *l);
    enum error e;

    if (l == NULL)
        return ERROR_MEMORY;
    l->owned = 0;
    e = file_open(path, true, &l->fd);
    if (e == ERROR_NOT_FOUND)
        e = ERROR_RUN_MISSING;
    if (e != ERROR_NONE) {
        free(l);
        return e;
    }
    if (!can_lock(l->fd))
        e = ERROR_UNSUPPORTED;
    else if (pthread_mutex_init(&l->lock, NULL) != 0)
        e = ERROR_MEMORY;
    if (e != ERROR_NONE) {
        close(l->fd);
        free(l);
        return e;
    }
    *out = l;
    return ERROR_NONE;
}

void live_close(struct live *l)
{
    if (l == NULL)
        return;
    /* a child that still has the description must not keep the places */
    (void)set_lock(l->fd, F_UNLCK, 0, 0);
    close(l->fd);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

static unsigned find_own(const struct live *l, uint64_t id)
{
    for (unsigned i = 0; i < l->owned; i++) {
        if (l->own[i] == id)
            return i;
    }
    return NOT_OWNED;
}

static enum error hold(struct live *l, uint64_t id)
{
    if (find_own(l, id) != NOT_OWNED)
        return ERROR_BUSY; /* the kernel would grant it a second time */
    if (l->owned == LIVE_OWN_MAX)
        return ERROR_MEMORY;
    if (!set_lock(l->fd, F_WRLCK, id, 1))
        return is_contended(errno) ? ERROR_BUSY : ERROR_SYSTEM;
    l->own[l->owned++] = id;
    return ERROR_NONE;
}

enum error live_hold(struct live *l, uint64_t id)
{
    if (id > ID_MAX) {
        errno = EINVAL;
        return ERROR_SYSTEM;
    }
    pthread_mutex_lock(&l->lock);
    enum error e = hold(l, id);
    pthread_mutex_unlock(&l->lock);
    return e;
}

void live_drop(struct live *l, uint64_t id)
{
    pthread_mutex_lock(&l->lock);
    unsigned i = find_own(l, id);
    /* if the kernel keeps the lock, so does the table: both must tell the same */
    if (i != NOT_OWNED && set_lock(l->fd, F_UNLCK, id, 1))
        l->own[i] = l->own[--l->owned];
    pthread_mutex_unlock(&l->lock);
}

bool live_is_held(struct live *l, uint64_t id)
{
    if (id > ID_MAX)
        return true;

    struct flock bytes = bytes_at(F_WRLCK, id, 1);

    pthread_mutex_lock(&l->lock);
    bool held = find_own(l, id) != NOT_OWNED || fcntl(l->fd, F_OFD_GETLK, &bytes) != 0 ||
                bytes.l_type != F_UNLCK;
    pthread_mutex_unlock(&l->lock);
    return held;
}

int live_fd(const struct live *l)
{
    return l->fd;
}
