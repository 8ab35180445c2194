/*
 * What the tests of the store share: stores in the scratch directory, rows, errors by name. To
 * be included after cmocka.h.
 */
#ifndef TESTS_UNIT_KV_SCRATCH_H
#define TESTS_UNIT_KV_SCRATCH_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "store/kv.h"
#include "tests/unit/scratch.h"

#define MAP       ((size_t)4 << 20)
#define VALUE_MAX 8192
#define WAIT_MS   20000 /* a machine under load is slow; one that hangs is worse */
#define FILES_MAX ((size_t)16 << 20)

#define assert_error(got, wanted) assert_string_equal(error_text(got), error_text(wanted))

/* The whole file, malloc'd. Closes it: only while no environment is open there. */
static inline unsigned char *read_file(const char *path, size_t *n)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_true(st.st_size >= 0 && (size_t)st.st_size < FILES_MAX);
    *n = (size_t)st.st_size;
    unsigned char *data = malloc(*n + 1);
    assert_non_null(data);
    assert_int_equal(read(fd, data, *n), (ssize_t)*n);
    close(fd);
    return data;
}

static inline off_t size_of(const char *path)
{
    struct stat st;
    return lstat(path, &st) ? -1 : st.st_size;
}

static inline void copy_file(const char *from, const char *to)
{
    size_t n;
    unsigned char *data = read_file(from, &n);
    scratch_write(to, 0600, data, n);
    free(data);
}

static inline struct kv *open_store(const char *directory, size_t map)
{
    struct kv *kv = NULL;
    assert_error(kv_open(directory, map, &kv), ERROR_NONE);
    return kv;
}

static inline struct kv_txn *begin_write(struct kv *kv)
{
    struct kv_txn *t = NULL;
    assert_error(kv_begin_write(kv, &t), ERROR_NONE);
    return t;
}

static inline struct kv_txn *begin_read(struct kv *kv)
{
    struct kv_txn *t = NULL;
    assert_error(kv_begin_read(kv, &t), ERROR_NONE);
    return t;
}

static inline void key_of(uint32_t number, unsigned char key[4])
{
    for (int i = 0; i < 4; i++)
        key[i] = (unsigned char)(number >> 8 * (3 - i));
}

static inline uint32_t number_of(struct kv_slice key)
{
    unsigned char b[4];
    assert_int_equal(key.n, 4);
    memcpy(b, key.data, 4);
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static inline enum error put_number(struct kv_txn *t, uint32_t number, size_t n_value)
{
    static const unsigned char value[VALUE_MAX];
    unsigned char key[4];
    key_of(number, key);
    return kv_put(t, key, sizeof key, value, n_value);
}

static inline void fill(struct kv *kv, uint32_t first, uint32_t n, size_t n_value)
{
    struct kv_txn *t = begin_write(kv);
    for (uint32_t i = 0; i < n; i++)
        assert_error(put_number(t, first + i, n_value), ERROR_NONE);
    assert_error(kv_commit(t), ERROR_NONE);
}

static inline bool has_number(struct kv *kv, uint32_t number)
{
    struct kv_txn *t = begin_read(kv);
    struct kv_slice v;
    unsigned char key[4];
    key_of(number, key);
    enum error e = kv_get(t, key, sizeof key, &v);
    kv_free_read(t);
    assert_true(e == ERROR_NONE || e == ERROR_NOT_FOUND);
    return e == ERROR_NONE;
}

static inline uint32_t count_rows(struct kv *kv)
{
    struct kv_txn *t = begin_read(kv);
    struct kv_cursor *c;
    struct kv_slice k, v;
    uint32_t n = 0;
    assert_error(kv_cursor_open(t, &c), ERROR_NONE);
    enum error e = kv_cursor_seek(c, "", 0, &k, &v);
    for (; !e; e = kv_cursor_next(c, &k, &v))
        n++;
    assert_error(e, ERROR_NOT_FOUND);
    kv_cursor_close(c);
    kv_free_read(t);
    return n;
}

/* A store with n rows of n_value bytes in a new directory of this name, closed again. */
static inline const char *make_store(const char *name, uint32_t n, size_t n_value)
{
    const char *directory = scratch_path(name);
    assert_int_equal(mkdir(directory, 0700), 0);
    assert_error(kv_create(directory, MAP), ERROR_NONE);
    struct kv *kv = open_store(directory, MAP);
    fill(kv, 0, n, n_value);
    kv_close(kv);
    return directory;
}

/* For children, which must not use cmocka's assertions. */
#define child_must(condition)                                                                  \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            fprintf(stderr, "child: line %d: %s\n", __LINE__, #condition);                     \
            _exit(99);                                                                         \
        }                                                                                      \
    } while (0)

#endif
