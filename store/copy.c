/*
 * The copy as a file. Security stance: nothing in it is looked at, the lengths included, before
 * the MAC over all of it has been found right; what is read then is bounded all the same, and
 * whether a row is one of ours is for who takes it to say.
 */
#include "store/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/file.h"
#include "store/rows.h"

#define MAGIC      "PGSTCOPY"
#define MAGIC_SIZE 8
#define VERSION    1
#define UUID_SIZE  16
#define HEAD_SIZE  (MAGIC_SIZE + 1 + UUID_SIZE + MAC_SIZE)
#define ROW_HEAD   3 /* lengths of key and value */
#define COUNT_SIZE 8
#define LEAST_SIZE (HEAD_SIZE + 1 + COUNT_SIZE + MAC_SIZE)

static void put_int(uint8_t *at, uint64_t v, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        at[i] = (uint8_t)(v >> 8 * (bytes - 1 - i));
}

static uint64_t get_int(const uint8_t *at, unsigned bytes)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < bytes; i++)
        v = v << 8 | at[i];
    return v;
}

/* Tells a copy of another site from a damaged one. */
static void check_of(const uint8_t secret[MAC_SIZE], const uint8_t uuid[UUID_SIZE],
                     uint8_t out[MAC_SIZE])
{
    mac_compute(secret, "copy-secret", uuid, UUID_SIZE, out);
}

static void make_head(const uint8_t secret[MAC_SIZE], const uint8_t uuid[UUID_SIZE],
                      uint8_t out[HEAD_SIZE])
{
    memcpy(out, MAGIC, MAGIC_SIZE);
    out[MAGIC_SIZE] = VERSION;
    memcpy(out + MAGIC_SIZE + 1, uuid, UUID_SIZE);
    check_of(secret, uuid, out + MAGIC_SIZE + 1 + UUID_SIZE);
}

/* ---- the MAC ---- */

struct chain {
    struct mac_key key;
    uint8_t link[MAC_SIZE + COPY_BLOCK]; /* the MAC up to the block, and the block */
};

static void chain_begin(struct chain *c, const uint8_t secret[MAC_SIZE])
{
    memset(c->link, 0, MAC_SIZE);
    mac_prepare(secret, &c->key);
}

/* n bytes of the block. */
static void chain_add(struct chain *c, size_t n)
{
    mac_with(&c->key, "copy", c->link, MAC_SIZE + n, c->link);
}

/* ---- writing ---- */

struct writing {
    struct file_new file;
    struct chain chain;
    size_t n; /* of the block */
    uint64_t rows;
};

static enum error flush(struct writing *w)
{
    enum error e = file_new_write(&w->file, w->chain.link + MAC_SIZE, w->n);

    chain_add(&w->chain, w->n);
    w->n = 0;
    return e;
}

static enum error put(struct writing *w, const void *data, size_t n)
{
    const uint8_t *at = data;
    enum error e = ERROR_NONE;

    while (n > 0 && e == ERROR_NONE) {
        size_t part = COPY_BLOCK - w->n < n ? COPY_BLOCK - w->n : n;

        memcpy(w->chain.link + MAC_SIZE + w->n, at, part);
        w->n += part;
        at += part;
        n -= part;
        if (w->n == COPY_BLOCK)
            e = flush(w);
    }
    return e;
}

static enum error put_row(void *arg, struct kv_cursor *c, const struct kv_slice *key,
                          const struct kv_slice *value)
{
    struct writing *w = arg;
    uint8_t head[ROW_HEAD];
    enum error e;

    (void)c;
    if (key->n > KV_KEY_MAX || value->n > RECORD_MAX ||
        !record_row_ok(key->data, key->n, value->data, value->n))
        return ERROR_STORE_INVALID;
    put_int(head, key->n, 1);
    put_int(head + 1, value->n, 2);
    w->rows++;
    e = put(w, head, sizeof head);
    if (e == ERROR_NONE)
        e = put(w, key->data, key->n);
    return e == ERROR_NONE ? put(w, value->data, value->n) : e;
}

static enum error put_all(struct writing *w, const uint8_t head[HEAD_SIZE], struct kv_txn *t)
{
    const struct row_key from = {0};
    uint8_t end[1 + COUNT_SIZE] = {0};
    enum error e = put(w, head, HEAD_SIZE);

    if (e == ERROR_NONE)
        e = rows_each(t, &from, put_row, w);
    put_int(end + 1, w->rows, COUNT_SIZE);
    if (e == ERROR_NONE)
        e = put(w, end, sizeof end);
    if (e == ERROR_NONE && w->n > 0)
        e = flush(w);
    return e == ERROR_NONE ? file_new_write(&w->file, w->chain.link, MAC_SIZE) : e;
}

enum error copy_write(const char *path, const uint8_t secret[MAC_SIZE], const uint8_t uuid[16],
                      struct kv_txn *t)
{
    struct writing w = {.n = 0};
    uint8_t head[HEAD_SIZE];
    enum error e = file_new_begin(path, 0600, &w.file);

    if (e == ERROR_NONE) {
        make_head(secret, uuid, head);
        chain_begin(&w.chain, secret);
        e = file_new_end(&w.file, path, 0600, put_all(&w, head, t));
    }
    mac_wipe(&w.chain, sizeof w.chain);
    return e == ERROR_SYSTEM || e == ERROR_NOT_FOUND ? ERROR_STORE_IO : e;
}

/* ---- reading ---- */

/* From `at` on, as far as the MAC covers it. */
struct reading {
    int fd;
    uint64_t at, end;
    struct chain chain;
    size_t n, used; /* of the block */
};

/* Fills the block anew; its length is known, so that all of it must be there. */
static enum error fill(struct reading *r)
{
    uint64_t left = r->end - r->at;

    r->n = 0;
    r->used = 0;
    while (r->n < COPY_BLOCK && r->n < left) {
        size_t want =
            left - r->n < COPY_BLOCK - r->n ? (size_t)(left - r->n) : COPY_BLOCK - r->n;
        ssize_t got =
            pread(r->fd, r->chain.link + MAC_SIZE + r->n, want, (off_t)(r->at + r->n));

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return ERROR_STORE_IO;
        if (got == 0)
            return ERROR_STORE_INVALID;
        r->n += (size_t)got;
    }
    r->at += r->n;
    return ERROR_NONE;
}

static enum error take(struct reading *r, void *out, size_t n)
{
    uint8_t *to = out;

    while (n > 0) {
        size_t part = r->n - r->used < n ? r->n - r->used : n;

        memcpy(to, r->chain.link + MAC_SIZE + r->used, part);
        r->used += part;
        to += part;
        n -= part;
        if (n > 0 && r->at == r->end)
            return ERROR_STORE_INVALID;
        if (n > 0) {
            enum error e = fill(r);
            if (e != ERROR_NONE)
                return e;
        }
    }
    return ERROR_NONE;
}

static void rewind_to(struct reading *r, uint64_t at)
{
    r->at = at;
    r->n = 0;
    r->used = 0;
}

static enum error verify_mac(struct reading *r)
{
    uint8_t mac[MAC_SIZE];
    enum error e = ERROR_NONE;

    rewind_to(r, 0);
    while (e == ERROR_NONE && r->at < r->end) {
        e = fill(r);
        chain_add(&r->chain, r->n);
    }
    if (e != ERROR_NONE)
        return e;
    ssize_t got = pread(r->fd, mac, sizeof mac, (off_t)r->end);
    if (got < 0)
        return ERROR_STORE_IO;
    return got == MAC_SIZE && mac_equal(mac, r->chain.link, MAC_SIZE) ? ERROR_NONE
                                                                      : ERROR_STORE_INVALID;
}

static enum error read_head(struct reading *r, const uint8_t secret[MAC_SIZE],
                            uint8_t uuid[UUID_SIZE])
{
    uint8_t head[HEAD_SIZE], check[MAC_SIZE];
    enum error e;

    rewind_to(r, 0);
    if ((e = take(r, head, sizeof head)) != ERROR_NONE)
        return e;
    if (memcmp(head, MAGIC, MAGIC_SIZE) != 0 || head[MAGIC_SIZE] == 0)
        return ERROR_STORE_INVALID;
    if (head[MAGIC_SIZE] > VERSION)
        return ERROR_STORE_VERSION;
    memcpy(uuid, head + MAGIC_SIZE + 1, UUID_SIZE);
    check_of(secret, uuid, check);
    return mac_equal(check, head + MAGIC_SIZE + 1 + UUID_SIZE, sizeof check)
               ? ERROR_NONE
               : ERROR_STORE_SECRET;
}

/* ERROR_NOT_FOUND: it was the last. */
static enum error read_row(struct reading *r, struct row_key *key, struct record *value)
{
    uint8_t lengths[ROW_HEAD - 1];
    enum error e = take(r, &key->n, 1);

    if (e != ERROR_NONE)
        return e;
    if (key->n == 0)
        return ERROR_NOT_FOUND;
    if ((e = take(r, lengths, sizeof lengths)) != ERROR_NONE)
        return e;
    value->n = (size_t)get_int(lengths, sizeof lengths);
    if (key->n > sizeof key->bytes || value->n > sizeof value->bytes)
        return ERROR_STORE_INVALID;
    e = take(r, key->bytes, key->n);
    return e == ERROR_NONE ? take(r, value->bytes, value->n) : e;
}

static enum error read_rows(struct reading *r, copy_row *row, void *arg)
{
    uint8_t count[COUNT_SIZE];
    struct row_key key;
    struct record value;
    uint64_t rows = 0;
    enum error e;

    rewind_to(r, HEAD_SIZE);
    while ((e = read_row(r, &key, &value)) == ERROR_NONE) {
        rows++;
        if ((e = row(arg, &key, &value)) != ERROR_NONE)
            return e;
    }
    if (e != ERROR_NOT_FOUND || (e = take(r, count, sizeof count)) != ERROR_NONE)
        return e;
    return get_int(count, sizeof count) == rows && r->at == r->end && r->used == r->n
               ? ERROR_NONE
               : ERROR_STORE_INVALID;
}

static enum error open_copy(const char *path, struct reading *r)
{
    struct stat st;

    r->fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (r->fd < 0)
        return errno == ENOENT  ? ERROR_STORE_MISSING
               : errno == ELOOP ? ERROR_STORE_INVALID
                                : ERROR_STORE_IO;
    if (fstat(r->fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size >= LEAST_SIZE) {
        r->end = (uint64_t)st.st_size - MAC_SIZE;
        return ERROR_NONE;
    }
    close(r->fd);
    return ERROR_STORE_INVALID;
}

enum error copy_read(const char *path, const uint8_t secret[MAC_SIZE], uint8_t uuid[16],
                     copy_row *row, void *arg)
{
    struct reading r = {.n = 0};
    uint8_t found[UUID_SIZE];
    enum error e = open_copy(path, &r);

    if (e != ERROR_NONE)
        return e;
    chain_begin(&r.chain, secret);
    if ((e = read_head(&r, secret, found)) == ERROR_NONE)
        e = verify_mac(&r);
    if (e == ERROR_NONE)
        e = read_rows(&r, row, arg);
    if (e == ERROR_NONE)
        memcpy(uuid, found, UUID_SIZE);
    mac_wipe(&r.chain, sizeof r.chain);
    close(r.fd);
    return e;
}
