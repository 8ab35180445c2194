/*
 * The lease's file, and segments by themselves (pure but for the file). Security stance: the file
 * is believed only as a whole, under a MAC of the site's secret that covers every byte of it and
 * the store's uuid; whoever could cut a segment out of it could give the site a fresh budget.
 */
#include "store/lease.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "platform/clock.h"
#include "platform/file.h"
#include "store/storetime.h"

/* The file, all integers big-endian:
 *   magic[8] version[1] count[1] uuid[16] rows[16] copied[8]
 *   { serial[8] from[8] until[8] day[8] { calls[8] tokens[8] cost[8] }2 }* mac[32] */
#define MAGIC        "PGLEASE\n"
#define MAGIC_SIZE   8
#define VERSION      1
#define UUID_SIZE    16
#define HEAD_SIZE    (MAGIC_SIZE + 1 + 1 + UUID_SIZE + LEASE_ROWS + 8)
#define SEGMENT_SIZE (4 * 8 + LEASE_SUBJECTS * UNITS_SUMMED * 8)
#define FILE_MAX     (HEAD_SIZE + LEASE_SEGMENTS * SEGMENT_SIZE + MAC_SIZE)

_Static_assert(FILE_MAX < 1024, "a page or two of flash, written often");

#define AT_VERSION MAGIC_SIZE
#define AT_COUNT   (MAGIC_SIZE + 1)
#define AT_UUID    (MAGIC_SIZE + 2)
#define AT_ROWS    (AT_UUID + UUID_SIZE)
#define AT_COPIED  (AT_ROWS + LEASE_ROWS)

/* ---- the file ---- */

static uint8_t *put_u64(uint8_t *p, uint64_t v)
{
    for (unsigned i = 0; i < 8; i++)
        p[i] = (uint8_t)(v >> 8 * (7 - i));
    return p + 8;
}

static uint64_t get_u64(const uint8_t **p)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < 8; i++)
        v = v << 8 | *(*p)++;
    return v;
}

static uint8_t *put_segment(uint8_t *p, const struct lease_segment *s)
{
    p = put_u64(p, s->serial);
    p = put_u64(p, (uint64_t)s->from_ms);
    p = put_u64(p, (uint64_t)s->until_ms);
    p = put_u64(p, (uint64_t)s->day);
    for (unsigned i = 0; i < LEASE_SUBJECTS; i++)
        for (unsigned u = 0; u < UNITS_SUMMED; u++)
            p = put_u64(p, s->granted[i].of[u]);
    return p;
}

static size_t encode(const struct lease *l, const uint8_t secret[MAC_SIZE],
                     const uint8_t uuid[16], uint8_t out[FILE_MAX])
{
    uint8_t *p = out + AT_COPIED;

    memcpy(out, MAGIC, MAGIC_SIZE);
    out[AT_VERSION] = VERSION;
    out[AT_COUNT] = (uint8_t)l->n;
    memcpy(out + AT_UUID, uuid, UUID_SIZE);
    memcpy(out + AT_ROWS, l->rows, LEASE_ROWS);
    p = put_u64(p, l->copied);
    for (unsigned i = 0; i < l->n; i++)
        p = put_segment(p, &l->segment[i]);
    size_t n = (size_t)(p - out);
    mac_compute(secret, "lease", out, n, p);
    return n + MAC_SIZE;
}

static enum error verify(const uint8_t *data, size_t n, const uint8_t secret[MAC_SIZE],
                         const uint8_t uuid[16])
{
    uint8_t mac[MAC_SIZE];

    if (n < HEAD_SIZE + MAC_SIZE || memcmp(data, MAGIC, MAGIC_SIZE) != 0)
        return ERROR_STORE_INVALID;
    if (data[AT_VERSION] > VERSION)
        return ERROR_STORE_VERSION;
    size_t body = HEAD_SIZE + (size_t)data[AT_COUNT] * SEGMENT_SIZE;
    if (data[AT_VERSION] != VERSION || n != body + MAC_SIZE ||
        memcmp(data + AT_UUID, uuid, UUID_SIZE) != 0)
        return ERROR_STORE_INVALID;
    mac_compute(secret, "lease", data, body, mac);
    return mac_equal(mac, data + body, MAC_SIZE) ? ERROR_NONE : ERROR_STORE_INVALID;
}

static void get_segment(const uint8_t **p, struct lease_segment *s)
{
    s->serial = get_u64(p);
    s->from_ms = (int64_t)get_u64(p);
    s->until_ms = (int64_t)get_u64(p);
    s->day = (int64_t)get_u64(p);
    for (unsigned i = 0; i < LEASE_SUBJECTS; i++)
        for (unsigned u = 0; u < UNITS_SUMMED; u++)
            s->granted[i].of[u] = get_u64(p);
}

/* Whatever was written is so; what computes with them need not look again. */
static bool is_sound(const struct lease_segment *s, uint64_t least)
{
    bool ok = s->serial >= least && s->from_ms >= 0 && s->from_ms < s->until_ms &&
              s->until_ms <= INSTANT_MAX_MS && s->day >= 0 &&
              s->day <= INSTANT_MAX_MS / 86400000;

    for (unsigned i = 0; i < LEASE_SUBJECTS; i++)
        for (unsigned u = 0; u < UNITS_SUMMED; u++)
            ok = ok && s->granted[i].of[u] <= AMOUNT_MAX;
    return ok;
}

static bool decode(const uint8_t *data, struct lease *l)
{
    const uint8_t *p = data + AT_COPIED;
    uint64_t least;

    memset(l, 0, sizeof *l);
    l->n = data[AT_COUNT]; /* at most LEASE_SEGMENTS, for the file is not longer */
    memcpy(l->rows, data + AT_ROWS, LEASE_ROWS);
    l->copied = get_u64(&p);
    least = l->copied > 0 ? l->copied : 1;
    for (unsigned i = 0; i < l->n; i++) {
        get_segment(&p, &l->segment[i]);
        if (!is_sound(&l->segment[i], least) || l->segment[i].serial == UINT64_MAX)
            return false;
        least = l->segment[i].serial + 1;
    }
    return true;
}

enum error lease_read(const char *path, const uint8_t secret[MAC_SIZE], const uint8_t uuid[16],
                      struct lease *out)
{
    struct lease l;
    char *data;
    size_t n;
    enum error e = file_read(path, FILE_MAX, &data, &n);

    if (e == ERROR_NOT_FOUND)
        return ERROR_STORE_MISSING;
    if (e == ERROR_NOT_REGULAR || e == ERROR_TOO_LARGE)
        return ERROR_STORE_INVALID;
    if (e != ERROR_NONE)
        return e == ERROR_MEMORY ? e : ERROR_STORE_IO;
    e = verify((const uint8_t *)data, n, secret, uuid);
    if (e == ERROR_NONE && !decode((const uint8_t *)data, &l))
        e = ERROR_STORE_INVALID;
    free(data);
    if (e == ERROR_NONE)
        *out = l;
    return e;
}

enum error lease_write(const char *path, const uint8_t secret[MAC_SIZE], const uint8_t uuid[16],
                       const struct lease *l)
{
    uint8_t data[FILE_MAX];
    size_t n = encode(l, secret, uuid, data);

    return file_replace(path, 0600, data, n) == ERROR_NONE ? ERROR_NONE : ERROR_STORE_IO;
}

static enum error open_file(const char *path, int *fd)
{
    *fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (*fd >= 0)
        return ERROR_NONE;
    return errno == ENOENT ? ERROR_STORE_MISSING : ERROR_STORE_IO;
}

/* Whoever had it has mostly put another file there: then that one's is asked for. */
enum error lease_lock(const char *path, int64_t wait_ms, int *fd)
{
    const int64_t until = clock_monotonic_ms() + wait_ms;
    struct file_id held, there;
    enum error e = ERROR_BUSY;
    int f;

    do {
        if ((e = open_file(path, &f)) != ERROR_NONE)
            return e;
        e = file_lock(f, until - clock_monotonic_ms());
        if (e == ERROR_NONE && file_id_fd(f, &held) == ERROR_NONE &&
            file_id_path(path, &there) == ERROR_NONE && file_id_equal(held, there)) {
            *fd = f;
            return ERROR_NONE;
        }
        close(f);
    } while (e == ERROR_NONE && clock_monotonic_ms() < until);
    return e == ERROR_NONE ? ERROR_BUSY : e;
}

/* ---- segments ---- */

/* The date is asked for by itself: where clocks are put back over midnight it comes again within
 * the hour. */
bool lease_covers(const struct lease_row *r, int64_t store_ms, int64_t day)
{
    const struct lease_segment *s = &r->segment;

    return !r->closed && s->from_ms <= store_ms && store_ms < s->until_ms && s->day == day;
}

/* The later one keeps its begin, by which it is known what went before it. */
static bool join(struct lease_segment *later, const struct lease_segment *s)
{
    if (s->until_ms != later->until_ms || s->day != later->day || s->from_ms > later->from_ms)
        return false;
    for (unsigned i = 0; i < LEASE_SUBJECTS; i++)
        for (unsigned u = 0; u < UNITS_SUMMED; u++)
            later->granted[i].of[u] = amount_add(later->granted[i].of[u], s->granted[i].of[u]);
    return true;
}

static bool make_room(struct lease *l)
{
    for (unsigned i = 0; i + 2 < l->n; i++)
        if (join(&l->segment[i + 1], &l->segment[i])) {
            l->n--;
            memmove(&l->segment[i], &l->segment[i + 1], (l->n - i) * sizeof *l->segment);
            return true;
        }
    return false;
}

bool lease_put(struct lease *l, const struct lease_segment *s)
{
    unsigned at = 0;

    while (at < l->n && l->segment[at].serial < s->serial)
        at++;
    if (at == l->n || l->segment[at].serial != s->serial) {
        if (l->n == LEASE_SEGMENTS) {
            if (at < l->n || !make_room(l))
                return false;
            at = l->n;
        }
        memmove(&l->segment[at + 1], &l->segment[at], (l->n - at) * sizeof *l->segment);
        l->n++;
    }
    l->segment[at] = *s;
    return true;
}

bool lease_prune(struct lease *l, uint64_t first)
{
    unsigned gone = 0;

    if (first <= l->copied)
        return false;
    while (gone < l->n && l->segment[gone].serial < first)
        gone++;
    l->n -= gone;
    memmove(&l->segment[0], &l->segment[gone], l->n * sizeof *l->segment);
    l->copied = first;
    return true;
}

static bool grants(const struct lease_segment *s, const struct lease_segment *least)
{
    for (unsigned i = 0; i < LEASE_SUBJECTS; i++)
        for (unsigned u = 0; u < UNITS_SUMMED; u++)
            if (s->granted[i].of[u] < least->granted[i].of[u])
                return false;
    return true;
}

bool lease_has(const struct lease *l, const struct lease_segment *of_row)
{
    if (of_row->serial < l->copied)
        return true;
    for (unsigned i = 0; i < l->n; i++)
        if (l->segment[i].serial >= of_row->serial) /* or they have become one */
            return grants(&l->segment[i], of_row);
    return of_row->serial == 0; /* there has been none */
}

/* Of an open one the copy may lack what is charged in it later. */
uint64_t lease_first_after(const struct lease_row *in_copy)
{
    if (in_copy == NULL)
        return 1;
    return in_copy->closed ? in_copy->segment.serial + 1 : in_copy->segment.serial;
}
