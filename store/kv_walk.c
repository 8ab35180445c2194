/*
 * The walk: everything that LMDB takes on trust and that can be checked from outside. Security
 * stance: the file is hostile here, so all of it runs in a child that may die; every byte of
 * every row is read now, so that a page that is not there kills the child and nobody later.
 */
#include "store/kv_walk.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "store/kv_child.h"

#define WALK_BOUND_MS   60000 /* a walk of 12 MB takes 10 ms; a minute is a sick disk */
#define FIRST_FREE_PAGE 2     /* behind the meta pages */

struct walk {
    const char *directory;
    size_t map_bytes;
    kv_visit_fn *visit;
    void *arg;
};

/* ---- rows ---- */

static void touch(struct kv_slice s)
{
    const volatile unsigned char *p = s.data;
    for (size_t i = 0; i < s.n; i++)
        (void)p[i];
}

static bool ascends(struct kv_slice before, struct kv_slice now)
{
    size_t n = before.n < now.n ? before.n : now.n;
    int c = memcmp(before.data, now.data, n);
    return c < 0 || (c == 0 && before.n < now.n);
}

/* A wrong key on a branch page hides rows from searches alone, and a row that is not found
 * counts as nothing used. */
static bool is_found(struct kv_txn *t, struct kv_slice key, struct kv_slice value)
{
    struct kv_slice again;
    return kv_get(t, key.data, key.n, &again) == ERROR_NONE && again.data == value.data &&
           again.n == value.n;
}

static bool walk_rows(struct kv_txn *t, const struct walk *w, uint64_t wanted)
{
    struct kv_cursor *c;
    struct kv_slice key, value, before = {"", 0};
    uint64_t rows = 0;
    bool ok = true;
    if (kv_cursor_open(t, &c))
        return false;
    enum error e = kv_cursor_seek(c, "", 0, &key, &value);
    for (; !e && ok; e = kv_cursor_next(c, &key, &value)) {
        touch(key);
        touch(value);
        ok = key.n <= KV_KEY_MAX && ascends(before, key) && is_found(t, key, value) &&
             (!w->visit || w->visit(w->arg, key.data, key.n, value.data, value.n));
        before = key;
        rows++;
    }
    kv_cursor_close(c);
    return ok && e == ERROR_NOT_FOUND && rows == wanted;
}

/* ---- the free list ---- */

struct free_list {
    unsigned char *marks; /* a bit for each page */
    size_t pages;
    uint64_t last_id;
    size_t before; /* transaction of the record before */
    size_t total;
};

static size_t number_at(struct kv_slice s, size_t i)
{
    size_t number;
    memcpy(&number, (const char *)s.data + i * sizeof number, sizeof number);
    return number;
}

/* False if there is no such page, or it is out of order, or free already. */
static bool mark(struct free_list *f, size_t page, size_t above)
{
    unsigned char bit = (unsigned char)(1U << page % CHAR_BIT);
    if (page < FIRST_FREE_PAGE || page >= above || f->marks[page / CHAR_BIT] & bit)
        return false;
    f->marks[page / CHAR_BIT] |= bit;
    return true;
}

static bool walk_record(void *arg, struct kv_slice key, struct kv_slice record)
{
    struct free_list *f = arg;
    if (key.n != sizeof(size_t) || record.n < sizeof(size_t))
        return false;
    size_t id = number_at(key, 0), n = number_at(record, 0), above = f->pages;
    if (id <= f->before || id > f->last_id || n > record.n / sizeof(size_t) - 1)
        return false;
    for (size_t i = 1; i <= n; i++) {
        size_t page = number_at(record, i);
        if (!mark(f, page, above))
            return false;
        above = page;
    }
    f->before = id;
    f->total += n;
    return true;
}

static bool walk_free(struct kv_txn *t, struct free_list *f, const struct kv_sums *sums)
{
    if (kv_each_free(t, walk_record, f))
        return false;
    /* More than there are: some page is claimed twice, and a write would destroy a row. */
    return sums->pages_used + f->total <= sums->pages;
}

/* ---- the whole ---- */

static enum error walk_all(struct kv_txn *t, const struct walk *w)
{
    struct kv_sums sums;
    if (kv_sums(t, &sums))
        return ERROR_STORE_BROKEN;
    struct free_list f = {.pages = (size_t)sums.pages, .last_id = kv_last_id(t)};
    f.marks = calloc(f.pages / CHAR_BIT + 1, 1);
    if (!f.marks)
        return ERROR_MEMORY;
    bool ok = walk_free(t, &f, &sums) && walk_rows(t, w, sums.rows);
    free(f.marks);
    return ok ? ERROR_NONE : ERROR_STORE_BROKEN;
}

/* The environment is not closed: _exit does it, and races with nobody's opening. */
static enum error walk_in_child(void *arg)
{
    const struct walk *w = arg;
    struct kv *kv;
    struct kv_txn *t = NULL;
    enum error e = kv_open_for_walk(w->directory, w->map_bytes, &kv);
    if (!e)
        e = kv_begin_read(kv, &t);
    if (!e)
        e = walk_all(t, w);
    kv_free_read(t);
    return e;
}

enum error kv_walk(const char *directory, size_t map_bytes, kv_visit_fn *visit, void *arg)
{
    struct walk w = {directory, map_bytes, visit, arg};
    return kv_child_run(walk_in_child, &w, WALK_BOUND_MS);
}

/* ---- usage ---- */

static bool count_free(void *arg, struct kv_slice key, struct kv_slice record)
{
    uint64_t *pages = arg;
    (void)key;
    *pages += record.n >= sizeof(size_t) ? number_at(record, 0) : 0;
    return true;
}

uint64_t kv_used_bytes(const struct kv_usage *u)
{
    return u->reached_bytes > u->free_bytes ? u->reached_bytes - u->free_bytes : 0;
}

bool kv_is_filling(const struct kv_usage *u)
{
    return kv_used_bytes(u) > u->map_bytes / 4 * 3;
}

enum error kv_usage(struct kv_txn *t, struct kv_usage *out)
{
    struct kv_sums sums;
    uint64_t free_pages = 0;
    enum error e = kv_sums(t, &sums);
    if (!e)
        e = kv_each_free(t, count_free, &free_pages);
    if (!e)
        *out = (struct kv_usage){
            .map_bytes = sums.map_bytes,
            .reached_bytes = sums.pages * sums.page_bytes,
            .free_bytes = free_pages * sums.page_bytes,
        };
    return e;
}

enum error kv_taken(struct kv_txn *t, uint64_t *map_bytes, uint64_t *taken_bytes)
{
    struct kv_sums sums;
    enum error e = kv_sums(t, &sums);
    if (e)
        return e;
    *map_bytes = sums.map_bytes;
    *taken_bytes = sums.pages_used * sums.page_bytes;
    return ERROR_NONE;
}
