/*
 * The key-value store: making, opening, watching its files, rows and cursors. Faults that need
 * other processes, full disks or broken files are in test_kv_faults.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <grp.h>
#include <pthread.h>

#include "tests/unit/kv_scratch.h"

#define NOBODY 65534

static const char *in(const char *directory, const char *name)
{
    static char paths[4][PATH_MAX + 16];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

/* ---- making ---- */

static void test_create_makes_private_files_that_open(void **state)
{
    (void)state;
    const char *d = make_store("s", 0, 0);
    struct stat st;
    assert_int_equal(stat(in(d, "data.mdb"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(stat(in(d, "lock.mdb"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    struct kv *kv = open_store(d, MAP);
    assert_int_equal(count_rows(kv), 0);
    assert_error(kv_check_files(kv), ERROR_NONE);
    kv_close(kv);
    kv_close(NULL);
}

static void test_create_never_over_anything(void **state)
{
    (void)state;
    static const char *const there[] = {"data.mdb", "lock.mdb"};
    for (int i = 0; i < 2; i++) {
        const char *d = scratch_path(there[i]);
        assert_int_equal(mkdir(d, 0700), 0);
        scratch_write(in(d, there[i]), 0600, "mine", 4);
        assert_error(kv_create(d, MAP), ERROR_EXISTS);
        size_t n;
        unsigned char *data = read_file(in(d, there[i]), &n);
        assert_int_equal(n, 4);
        assert_memory_equal(data, "mine", 4);
        free(data);
        assert_int_equal(size_of(in(d, there[1 - i])), -1);
    }
    const char *d = make_store("s", 3, 10);
    assert_error(kv_create(d, MAP), ERROR_EXISTS);
    struct kv *kv = open_store(d, MAP);
    assert_int_equal(count_rows(kv), 3);
    kv_close(kv);
}

/* Runs `test` in a child as a user without rights; its exit status, or -1 if that cannot be. */
static int as_nobody(int (*test)(const char *directory), const char *directory)
{
    if (getuid() != 0)
        return -1;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        child_must(setgroups(0, NULL) == 0 && setgid(NOBODY) == 0 && setuid(NOBODY) == 0);
        _exit(test(directory));
    }
    return scratch_wait(child);
}

static int create_status(const char *directory)
{
    return (int)kv_create(directory, MAP);
}

static int open_status(const char *directory)
{
    struct kv *kv;
    return (int)kv_open(directory, MAP, &kv);
}

static int walk_status(const char *directory)
{
    return (int)kv_walk(directory, MAP, NULL, NULL);
}

static void test_create_without_right_or_directory(void **state)
{
    (void)state;
    assert_error(kv_create(scratch_path("none"), MAP), ERROR_STORE_MISSING);
    const char *d = scratch_path("s");
    assert_int_equal(mkdir(d, 0755), 0);
    assert_int_equal(chmod(scratch_directory, 0755), 0);
    int status = as_nobody(create_status, d);
    if (status < 0) {
        print_message("part skipped: not root\n");
        return;
    }
    assert_error((enum error)status, ERROR_STORE_IO);
    assert_int_equal(size_of(in(d, "data.mdb")), -1);
    assert_int_equal(size_of(in(d, "lock.mdb")), -1);
}

/* ---- opening only what is there: the table ---- */

/* Each changes a sound store of 200 rows in `d`. */
static void unlink_data(const char *d)
{
    assert_int_equal(unlink(in(d, "data.mdb")), 0);
}

static void unlink_lock(const char *d)
{
    assert_int_equal(unlink(in(d, "lock.mdb")), 0);
}

static void unlink_both(const char *d)
{
    unlink_data(d);
    unlink_lock(d);
}

static void remove_all(const char *d)
{
    unlink_both(d);
    assert_int_equal(rmdir(d), 0);
}

static void file_as_directory(const char *d)
{
    remove_all(d);
    scratch_write(d, 0600, "", 0);
}

static void cut_data(const char *d, off_t size)
{
    assert_int_equal(truncate(in(d, "data.mdb"), size), 0);
}

static void empty_data(const char *d)
{
    cut_data(d, 0);
}

static void cut_in_magic(const char *d)
{
    cut_data(d, 15);
}

static void cut_in_first_page(const char *d)
{
    cut_data(d, 100);
}

static void cut_after_first_page(const char *d)
{
    cut_data(d, sysconf(_SC_PAGESIZE));
}

static void cut_in_second_page(const char *d)
{
    cut_data(d, sysconf(_SC_PAGESIZE) + 400);
}

static void cut_after_metas(const char *d)
{
    cut_data(d, 2 * sysconf(_SC_PAGESIZE));
}

/* The last page may be free; the rows take more than the last four. */
static void cut_before_the_end(const char *d)
{
    cut_data(d, size_of(in(d, "data.mdb")) - 4 * sysconf(_SC_PAGESIZE));
}

static void overwrite_data(const char *d, int byte)
{
    size_t n;
    unsigned char *data = read_file(in(d, "data.mdb"), &n);
    for (size_t i = 0; i < n; i++)
        data[i] = byte < 0 ? (unsigned char)(i * 131 + 7) : (unsigned char)byte;
    scratch_write(in(d, "data.mdb"), 0600, data, n);
    free(data);
}

static void zeros(const char *d)
{
    overwrite_data(d, 0);
}

static void garbage(const char *d)
{
    overwrite_data(d, -1);
}

/* Writes into both meta pages, `offset` from LMDB's magic. */
static void patch_metas(const char *d, size_t offset, const void *bytes, size_t n)
{
    int fd = open(in(d, "data.mdb"), O_RDWR);
    off_t magic = (off_t)sizeof(size_t) + 8;
    assert_true(fd >= 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            pwrite(fd, bytes, n, i * sysconf(_SC_PAGESIZE) + magic + (off_t)offset),
            (ssize_t)n);
    close(fd);
}

static void other_byte_order(const char *d)
{
    static const unsigned char be[] = {0xBE, 0xEF, 0xC0, 0xDE}, le[] = {0xDE, 0xC0, 0xEF, 0xBE};
    uint32_t one = 1;
    unsigned char first;
    memcpy(&first, &one, 1);
    patch_metas(d, 0, first ? be : le, 4);
}

/* A 32-bit machine's page header is four bytes shorter, a 64-bit machine's four longer. */
static void other_word_size(const char *d)
{
    size_t n;
    unsigned char *data = read_file(in(d, "data.mdb"), &n);
    memmove(data + 4, data, n - 4);
    scratch_write(in(d, "data.mdb"), 0600, data, n);
    free(data);
}

static void newer_format(const char *d)
{
    uint32_t version = 2;
    patch_metas(d, 4, &version, sizeof version);
}

/* The flags of the main table: after magic, version, address, map size, and the free list's
 * {2 x 32 bits, 5 words}. MDB_DUPSORT is 4. */
static void table_with_duplicates(const char *d)
{
    uint16_t flags = 4;
    patch_metas(d, 8 + 2 * sizeof(size_t) + 8 + 5 * sizeof(size_t) + 4, &flags, sizeof flags);
}

static void data_is_directory(const char *d)
{
    unlink_data(d);
    assert_int_equal(mkdir(in(d, "data.mdb"), 0700), 0);
}

static void lock_is_directory(const char *d)
{
    unlink_lock(d);
    assert_int_equal(mkdir(in(d, "lock.mdb"), 0700), 0);
}

static void data_is_fifo(const char *d)
{
    unlink_data(d);
    assert_int_equal(mkfifo(in(d, "data.mdb"), 0600), 0);
}

static void data_is_link(const char *d)
{
    assert_int_equal(rename(in(d, "data.mdb"), in(d, "elsewhere")), 0);
    assert_int_equal(symlink("elsewhere", in(d, "data.mdb")), 0);
}

static void lock_is_link(const char *d)
{
    assert_int_equal(rename(in(d, "lock.mdb"), in(d, "elsewhere")), 0);
    assert_int_equal(symlink("elsewhere", in(d, "lock.mdb")), 0);
}

static const struct {
    const char *what;
    void (*change)(const char *d);
    enum error wanted;
    bool kv_walk_says_broken; /* else as kv_open */
} openings[] = {
    {"the directory is missing", remove_all, ERROR_STORE_MISSING, false},
    {"a file stands where the directory was", file_as_directory, ERROR_STORE_MISSING, false},
    {"data.mdb is missing: LMDB would make one", unlink_data, ERROR_STORE_MISSING, false},
    {"lock.mdb is missing: others may use the old one", unlink_lock, ERROR_STORE_MISSING,
     false},
    {"both are missing", unlink_both, ERROR_STORE_MISSING, false},
    {"data.mdb is empty: LMDB would make it a store", empty_data, ERROR_STORE_INVALID, false},
    {"data.mdb is cut inside the magic", cut_in_magic, ERROR_STORE_INVALID, false},
    {"data.mdb is cut inside its first page", cut_in_first_page, ERROR_STORE_INVALID, false},
    {"data.mdb is cut after one page", cut_after_first_page, ERROR_STORE_INVALID, false},
    {"data.mdb is cut inside the second page", cut_in_second_page, ERROR_STORE_INVALID, false},
    {"data.mdb is cut after the meta pages", cut_after_metas, ERROR_STORE_INVALID, true},
    {"data.mdb lacks its last pages", cut_before_the_end, ERROR_STORE_INVALID, true},
    {"data.mdb is all zeros", zeros, ERROR_STORE_INVALID, false},
    {"data.mdb is garbage", garbage, ERROR_STORE_INVALID, false},
    {"data.mdb is of the other byte order", other_byte_order, ERROR_STORE_INVALID, false},
    {"data.mdb is of another word size", other_word_size, ERROR_STORE_INVALID, false},
    {"data.mdb is of a newer LMDB format", newer_format, ERROR_STORE_INVALID, false},
    {"the main table allows duplicates", table_with_duplicates, ERROR_STORE_INVALID, false},
    {"data.mdb is a directory", data_is_directory, ERROR_STORE_INVALID, false},
    {"lock.mdb is a directory", lock_is_directory, ERROR_STORE_INVALID, false},
    {"data.mdb is a fifo", data_is_fifo, ERROR_STORE_INVALID, false},
    {"data.mdb is a link", data_is_link, ERROR_STORE_INVALID, false},
    {"lock.mdb is a link", lock_is_link, ERROR_STORE_INVALID, false},
};

/* Neither opening nor walking may make or change anything. */
static void test_open_only_what_is_there_F42(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof openings / sizeof openings[0]; i++) {
        print_message("  %s\n", openings[i].what);
        char name[16];
        snprintf(name, sizeof name, "s%zu", i);
        const char *d = make_store(name, 200, 200);
        openings[i].change(d);
        off_t data = size_of(in(d, "data.mdb"));
        bool lock = size_of(in(d, "lock.mdb")) >= 0;

        struct kv *kv = NULL;
        assert_error(kv_open(d, MAP, &kv), openings[i].wanted);
        assert_null(kv);
        assert_error(kv_walk(d, MAP, NULL, NULL),
                     openings[i].kv_walk_says_broken ? ERROR_STORE_BROKEN : openings[i].wanted);
        assert_int_equal(size_of(in(d, "data.mdb")), data);
        assert_int_equal(size_of(in(d, "lock.mdb")) >= 0, lock);
    }
}

static void test_open_without_rights_F42(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        const char *name;
        mode_t mode;
        int walked;
    } rows[] = {
        {"data.mdb cannot be read", "data.mdb", 0600, ERROR_STORE_IO},
        {"data.mdb cannot be written", "data.mdb", 0644, ERROR_NONE},
        {"lock.mdb cannot be written", "lock.mdb", 0644, ERROR_STORE_IO},
    };
    assert_int_equal(chmod(scratch_directory, 0755), 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        print_message("  %s\n", rows[i].what);
        char name[16];
        snprintf(name, sizeof name, "s%zu", i);
        const char *d = make_store(name, 20, 20);
        assert_int_equal(chmod(d, 0755), 0);
        assert_int_equal(chmod(in(d, "data.mdb"), 0666), 0);
        assert_int_equal(chmod(in(d, "lock.mdb"), 0666), 0);
        int status = as_nobody(open_status, d);
        if (status < 0) {
            print_message("skipped: not root\n");
            skip();
        }
        assert_error((enum error)status, ERROR_NONE);
        assert_int_equal(chmod(in(d, rows[i].name), rows[i].mode), 0);
        assert_error((enum error)as_nobody(open_status, d), ERROR_STORE_IO);
        assert_error((enum error)as_nobody(walk_status, d), (enum error)rows[i].walked);
    }
}

/* Pages taken at the end and freed in the same transaction are counted, but never written. */
static void test_sound_file_may_be_short(void **state)
{
    (void)state;
    const char *d = make_store("s", 10, 100);
    struct kv *kv = open_store(d, MAP);
    struct kv_usage u = {0, 0, 0};
    uint32_t n = 100;
    do {
        struct kv_txn *t = begin_write(kv);
        for (uint32_t i = 0; i < n; i++)
            assert_error(put_number(t, 1000 + i, 500), ERROR_NONE);
        for (uint32_t i = n; i-- > 0;) {
            unsigned char key[4];
            key_of(1000 + i, key);
            assert_error(kv_delete(t, key, sizeof key), ERROR_NONE);
        }
        assert_error(kv_commit(t), ERROR_NONE);
        t = begin_read(kv);
        assert_error(kv_usage(t, &u), ERROR_NONE);
        kv_free_read(t);
        n += 50;
    } while (n < 3000 && (uint64_t)size_of(in(d, "data.mdb")) >= u.reached_bytes);
    assert_true((uint64_t)size_of(in(d, "data.mdb")) < u.reached_bytes);
    assert_error(kv_check_files(kv), ERROR_NONE);
    kv_close(kv);

    kv = open_store(d, MAP);
    assert_int_equal(count_rows(kv), 10);
    fill(kv, 5000, 2000, 500);
    kv_close(kv);
    assert_error(kv_walk(d, MAP, NULL, NULL), ERROR_NONE);
}

/* A write cut short by a full disk can leave part of a page behind. */
static void test_part_of_a_page_at_the_end(void **state)
{
    (void)state;
    const char *d = make_store("s", 200, 200);
    assert_int_equal(truncate(in(d, "data.mdb"), size_of(in(d, "data.mdb")) + 777), 0);
    assert_error(kv_walk(d, MAP, NULL, NULL), ERROR_NONE);
    struct kv *kv = open_store(d, MAP);
    fill(kv, 1000, 200, 200);
    assert_int_equal(count_rows(kv), 400);
    kv_close(kv);
}

static void test_odd_map_sizes(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 5000, MAP + 1};
    const char *d = make_store("s", 100, 100);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct kv *kv = open_store(d, sizes[i]);
        assert_int_equal(count_rows(kv), 100);
        kv_close(kv);
        assert_error(kv_walk(d, sizes[i], NULL, NULL), ERROR_NONE);
    }
    struct kv *kv = NULL;
    assert_error(kv_open(d, SIZE_MAX, &kv), ERROR_MEMORY);
}

/* ---- the files under an open environment ---- */

static void nothing(const char *d)
{
    (void)d;
}

static void replace(const char *d, const char *name)
{
    copy_file(in(d, name), in(d, "copy"));
    assert_int_equal(rename(in(d, "copy"), in(d, name)), 0);
}

/* Reads and closes data.mdb, which LMDB does not lock. */
static void replace_data(const char *d)
{
    replace(d, "data.mdb");
}

static void replace_lock(const char *d)
{
    scratch_write(in(d, "copy"), 0600, "", 0);
    assert_int_equal(rename(in(d, "copy"), in(d, "lock.mdb")), 0);
}

/* Many file systems give a freed inode number to the next file at once. */
static void delete_and_make_anew(const char *d)
{
    unlink_data(d);
    scratch_write(in(d, "data.mdb"), 0600, "", 0);
    cut_data(d, 1 << 20);
}

static void grow_data(const char *d)
{
    cut_data(d, 1 << 20);
}

static void cut_a_byte(const char *d)
{
    cut_data(d, size_of(in(d, "data.mdb")) - 1);
}

static void cut_lock(const char *d)
{
    assert_int_equal(truncate(in(d, "lock.mdb"), size_of(in(d, "lock.mdb")) / 2), 0);
}

static void move_directory(const char *d)
{
    assert_int_equal(rename(d, scratch_path("moved")), 0);
}

static void restore_directory(const char *d)
{
    const char *moved = scratch_path("moved");
    assert_int_equal(rename(d, moved), 0);
    assert_int_equal(mkdir(d, 0700), 0);
    copy_file(in(moved, "data.mdb"), in(d, "data.mdb"));
    scratch_write(in(d, "lock.mdb"), 0600, "", 0);
}

static void there_and_back(const char *d)
{
    assert_int_equal(rename(in(d, "data.mdb"), in(d, "away")), 0);
    assert_int_equal(rename(in(d, "away"), in(d, "data.mdb")), 0);
}

static const struct {
    const char *what;
    void (*change)(const char *d);
    enum error wanted;
} watched[] = {
    {"nothing has happened", nothing, ERROR_NONE},
    {"data.mdb has grown, as it does with commits", grow_data, ERROR_NONE},
    {"data.mdb was away and is back", there_and_back, ERROR_NONE},
    {"data.mdb is deleted", unlink_data, ERROR_STORE_MISSING},
    {"lock.mdb is deleted: two could write at once", unlink_lock, ERROR_STORE_MISSING},
    {"data.mdb is replaced by a copy", replace_data, ERROR_STORE_REPLACED},
    {"data.mdb is deleted and made anew", delete_and_make_anew, ERROR_STORE_REPLACED},
    {"data.mdb is now a directory", data_is_directory, ERROR_STORE_REPLACED},
    {"data.mdb is now a link to itself", data_is_link, ERROR_STORE_REPLACED},
    {"lock.mdb is replaced", replace_lock, ERROR_STORE_REPLACED},
    {"data.mdb lost its last byte", cut_a_byte, ERROR_STORE_INVALID},
    {"data.mdb was emptied", empty_data, ERROR_STORE_INVALID},
    {"lock.mdb was cut", cut_lock, ERROR_STORE_INVALID},
    {"the directory was moved away", move_directory, ERROR_STORE_MISSING},
    {"the directory was restored from a backup", restore_directory, ERROR_STORE_REPLACED},
};

static void test_files_watched_while_open_F42(void **state)
{
    for (size_t i = 0; i < sizeof watched / sizeof watched[0]; i++) {
        print_message("  %s\n", watched[i].what);
        const char *d = make_store("s", 200, 200);
        struct kv *kv = open_store(d, MAP);
        assert_error(kv_check_files(kv), ERROR_NONE);
        watched[i].change(d);
        assert_error(kv_check_files(kv), watched[i].wanted);
        assert_error(kv_check_files(kv), watched[i].wanted);
        kv_close(kv);
        assert_int_equal(scratch_remove(state), 0);
        assert_int_equal(scratch_make(state), 0);
    }
}

static void test_never_shorter_than_seen_before(void **state)
{
    (void)state;
    const char *d = make_store("s", 200, 200);
    struct kv *kv = open_store(d, MAP);
    off_t first = size_of(in(d, "data.mdb"));
    cut_data(d, first + (1 << 20));
    assert_error(kv_check_files(kv), ERROR_NONE);
    cut_data(d, first);
    assert_error(kv_check_files(kv), ERROR_STORE_INVALID);
    kv_close(kv);
}

/* ---- rows ---- */

static void value_is(struct kv_txn *t, const char *key, const char *value)
{
    struct kv_slice v;
    assert_error(kv_get(t, key, strlen(key), &v), ERROR_NONE);
    assert_int_equal(v.n, strlen(value));
    assert_memory_equal(v.data, value, v.n);
}

static void test_rows(void **state)
{
    (void)state;
    struct kv *kv = open_store(make_store("s", 0, 0), MAP);
    struct kv_txn *t = begin_write(kv);
    struct kv_slice v = {"untouched", 9};
    assert_error(kv_get(t, "a", 1, &v), ERROR_NOT_FOUND);
    assert_string_equal(v.data, "untouched");
    assert_error(kv_put(t, "a", 1, "one", 3), ERROR_NONE);
    assert_error(kv_put(t, "b", 1, "", 0), ERROR_NONE);
    value_is(t, "a", "one");
    value_is(t, "b", "");
    assert_error(kv_put(t, "a", 1, "another", 7), ERROR_NONE);
    value_is(t, "a", "another");
    assert_error(kv_delete(t, "b", 1), ERROR_NONE);
    assert_error(kv_delete(t, "b", 1), ERROR_NOT_FOUND);
    assert_error(kv_commit(t), ERROR_NONE);

    t = begin_write(kv);
    assert_error(kv_put(t, "a", 1, "aborted", 7), ERROR_NONE);
    kv_abort(t);
    t = begin_read(kv);
    value_is(t, "a", "another");
    assert_error(kv_get(t, "b", 1, &v), ERROR_NOT_FOUND);
    kv_free_read(t);
    kv_close(kv);
}

static void test_key_lengths(void **state)
{
    (void)state;
    static const char key[KV_KEY_MAX + 1];
    static const char big[100000];
    struct kv *kv = open_store(make_store("s", 0, 0), MAP);
    struct kv_txn *t = begin_write(kv);
    struct kv_slice v;
    assert_error(kv_put(t, key, 1, "x", 1), ERROR_NONE);
    assert_error(kv_put(t, key, KV_KEY_MAX, big, sizeof big), ERROR_NONE);
    assert_error(kv_put(t, key, KV_KEY_MAX + 1, "x", 1), ERROR_TOO_LARGE);
    assert_error(kv_put(t, key, 0, "x", 1), ERROR_TOO_LARGE);
    assert_error(kv_get(t, key, 0, &v), ERROR_TOO_LARGE);
    assert_error(kv_delete(t, key, 0), ERROR_TOO_LARGE);
    assert_error(kv_get(t, key, KV_KEY_MAX, &v), ERROR_NONE);
    assert_int_equal(v.n, sizeof big);
    assert_error(kv_commit(t), ERROR_NONE);
    kv_close(kv);
    assert_error(kv_walk(scratch_path("s"), MAP, NULL, NULL), ERROR_NONE);
}

static void test_last_id(void **state)
{
    (void)state;
    struct kv *kv = open_store(make_store("s", 0, 0), MAP);
    struct kv_txn *r = begin_read(kv);
    uint64_t first = kv_last_id(r);
    kv_end_read(r);
    for (uint64_t i = 0; i < 3; i++) {
        struct kv_txn *w = begin_write(kv);
        assert_int_equal(kv_last_id(w), first + i);
        assert_error(put_number(w, (uint32_t)i, 1), ERROR_NONE);
        assert_error(kv_commit(w), ERROR_NONE);
        assert_error(kv_begin_read(kv, &r), ERROR_NONE);
        assert_int_equal(kv_last_id(r), first + i + 1);
        kv_end_read(r);
    }
    struct kv_txn *w = begin_write(kv);
    assert_error(put_number(w, 9, 1), ERROR_NONE);
    kv_abort(w);
    w = begin_write(kv);
    assert_int_equal(kv_last_id(w), first + 3);
    kv_abort(w);
    kv_free_read(r);
    kv_close(kv);
}

static void test_read_handles_are_kept_and_renewed(void **state)
{
    (void)state;
    struct kv *kv = open_store(make_store("s", 1, 1), MAP);
    struct kv_txn *old = begin_read(kv), *t = begin_read(kv), *same = t;
    struct kv_slice v;
    unsigned char key[4];
    key_of(7, key);
    kv_end_read(t);
    fill(kv, 7, 1, 1);
    assert_error(kv_begin_read(kv, &t), ERROR_NONE);
    assert_ptr_equal(t, same);
    assert_error(kv_get(t, key, 4, &v), ERROR_NONE);
    assert_error(kv_get(old, key, 4, &v), ERROR_NOT_FOUND); /* its own moment */
    kv_end_read(old);
    kv_free_read(old);
    kv_free_read(t); /* while it reads */
    kv_free_read(NULL);
    kv_close(kv);
}

static void test_usage(void **state)
{
    (void)state;
    struct kv *kv = open_store(make_store("s", 2000, 100), MAP);
    struct kv_txn *t = begin_read(kv);
    struct kv_usage full, emptied;
    assert_error(kv_usage(t, &full), ERROR_NONE);
    kv_free_read(t);
    assert_int_equal(full.map_bytes, MAP);
    assert_true(full.reached_bytes > 200000 && full.reached_bytes < MAP);
    assert_true(full.free_bytes < full.reached_bytes / 2);

    t = begin_write(kv);
    for (uint32_t i = 0; i < 2000; i++) {
        unsigned char key[4];
        key_of(i, key);
        assert_error(kv_delete(t, key, 4), ERROR_NONE);
    }
    assert_error(kv_commit(t), ERROR_NONE);
    t = begin_read(kv);
    assert_error(kv_usage(t, &emptied), ERROR_NONE);
    kv_free_read(t);
    assert_true(emptied.free_bytes > 200000);
    assert_true(kv_used_bytes(&emptied) < 50000);
    kv_close(kv);
}

static void test_filling_is_more_than_three_quarters_in_use(void **state)
{
    (void)state;
    assert_false(kv_is_filling(&(struct kv_usage){16 * MAP, 12 * MAP, 0}));
    assert_true(kv_is_filling(&(struct kv_usage){16 * MAP, 12 * MAP + 1, 0}));
    assert_false(kv_is_filling(&(struct kv_usage){16 * MAP, 16 * MAP, 4 * MAP})); /* reached */
    assert_false(kv_is_filling(&(struct kv_usage){0, 0, 0}));
}

/* ---- cursors ---- */

static void test_cursor_ends(void **state)
{
    (void)state;
    struct kv *kv = open_store(make_store("s", 0, 0), MAP);
    struct kv_txn *t = begin_write(kv);
    struct kv_cursor *c;
    struct kv_slice k, v;
    assert_error(kv_cursor_open(t, &c), ERROR_NONE);
    assert_error(kv_cursor_next(c, &k, &v), ERROR_NOT_FOUND);        /* before any seek */
    assert_error(kv_cursor_seek(c, "", 0, &k, &v), ERROR_NOT_FOUND); /* an empty table */
    assert_error(kv_cursor_delete(c), ERROR_NOT_FOUND);
    for (uint32_t i = 1; i <= 3; i++)
        assert_error(put_number(t, i * 10, i), ERROR_NONE);
    unsigned char key[4];
    key_of(11, key);
    assert_error(kv_cursor_seek(c, key, 4, &k, &v), ERROR_NONE); /* between two rows */
    assert_int_equal(number_of(k), 20);
    assert_int_equal(v.n, 2);
    assert_error(kv_cursor_next(c, &k, &v), ERROR_NONE);
    assert_int_equal(number_of(k), 30);
    assert_error(kv_cursor_next(c, &k, &v), ERROR_NOT_FOUND);
    assert_error(kv_cursor_next(c, &k, &v), ERROR_NOT_FOUND); /* does not start anew */
    assert_error(kv_cursor_delete(c), ERROR_NOT_FOUND);       /* nor delete the last */
    assert_int_equal(number_of(k), 30);                       /* untouched on failure */
    key_of(31, key);
    assert_error(kv_cursor_seek(c, key, 4, &k, &v), ERROR_NOT_FOUND);
    assert_error(kv_cursor_next(c, &k, &v), ERROR_NOT_FOUND);
    assert_error(kv_cursor_seek(c, "", 0, &k, &v), ERROR_NONE);
    assert_int_equal(number_of(k), 10);
    assert_error(kv_cursor_delete(c), ERROR_NONE);
    assert_error(kv_cursor_delete(c), ERROR_NOT_FOUND); /* stands on none */
    assert_error(kv_cursor_next(c, &k, &v), ERROR_NONE);
    assert_int_equal(number_of(k), 20);
    kv_cursor_close(c);
    kv_cursor_close(NULL);
    kv_abort(t);
    kv_close(kv);
}

/* As expired rows are erased: hundreds in a row from the front, over many pages, to the end. */
static void test_cursor_deletes_hundreds_in_a_row(void **state)
{
    (void)state;
    static const uint32_t left[] = {0, 1, 2, 300, 1500};
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++) {
        char name[16];
        snprintf(name, sizeof name, "s%zu", i);
        struct kv *kv = open_store(make_store(name, 2000, 150), MAP);
        struct kv_txn *t = begin_write(kv);
        struct kv_cursor *c;
        struct kv_slice k, v;
        assert_error(kv_cursor_open(t, &c), ERROR_NONE);
        enum error e = kv_cursor_seek(c, "", 0, &k, &v);
        for (uint32_t n = 0; n < 2000 - left[i]; n++) {
            assert_error(e, ERROR_NONE);
            assert_int_equal(number_of(k), n);
            assert_error(kv_cursor_delete(c), ERROR_NONE);
            e = kv_cursor_next(c, &k, &v);
        }
        assert_error(e, left[i] ? ERROR_NONE : ERROR_NOT_FOUND);
        kv_cursor_close(c);
        assert_error(kv_commit(t), ERROR_NONE);
        assert_int_equal(count_rows(kv), left[i]);
        kv_close(kv);
    }
}

#define MODEL 3000

struct model {
    bool there[MODEL];
    uint32_t at; /* the cursor's row; MODEL: none */
    bool deleted;
};

static uint32_t first_from(const struct model *m, uint32_t n)
{
    while (n < MODEL && !m->there[n])
        n++;
    return n;
}

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static void expect_row(struct model *m, enum error e, struct kv_slice k, uint32_t n)
{
    m->at = n;
    m->deleted = false;
    assert_error(e, n < MODEL ? ERROR_NONE : ERROR_NOT_FOUND);
    if (n < MODEL)
        assert_int_equal(number_of(k), n);
}

/* One random step of the cursor, or of the rows around it, against a plain array. */
static void model_step(struct model *m, struct kv_txn *t, struct kv_cursor *c, uint32_t *seed)
{
    uint32_t what = next_random(seed) % 100, n = next_random(seed) % MODEL;
    struct kv_slice k = {0}, v;
    unsigned char key[4];
    key_of(n, key);
    if (what < 10) {
        expect_row(m, kv_cursor_seek(c, key, 4, &k, &v), k, first_from(m, n));
    } else if (what < 50) {
        uint32_t from = m->at == MODEL ? MODEL : m->at + 1;
        expect_row(m, kv_cursor_next(c, &k, &v), k, first_from(m, from));
    } else if (what < 80) {
        bool stands = m->at < MODEL && !m->deleted;
        assert_error(kv_cursor_delete(c), stands ? ERROR_NONE : ERROR_NOT_FOUND);
        m->deleted = m->deleted || stands;
        if (stands)
            m->there[m->at] = false;
    } else if (what < 90) {
        if (n == m->at) /* LMDB's cursor would stand on what followed */
            return;
        assert_error(kv_delete(t, key, 4), m->there[n] ? ERROR_NONE : ERROR_NOT_FOUND);
        m->there[n] = false;
    } else {
        if (n == m->at && m->deleted) /* not "after" the deleted one */
            return;
        assert_error(put_number(t, n, next_random(seed) % 400), ERROR_NONE);
        m->there[n] = true;
    }
}

static void test_cursor_as_an_array_would(void **state)
{
    (void)state;
    struct kv *kv = open_store(make_store("s", 0, 0), MAP);
    for (uint32_t seed = 1; seed <= 20; seed++) {
        struct model m = {.at = MODEL};
        struct kv_txn *t = begin_write(kv);
        struct kv_cursor *c;
        uint32_t random = seed;
        for (uint32_t i = 0; i < MODEL; i++) {
            m.there[i] = next_random(&random) % 3 != 0;
            if (m.there[i])
                assert_error(put_number(t, i, i % 400), ERROR_NONE);
        }
        assert_error(kv_cursor_open(t, &c), ERROR_NONE);
        for (int i = 0; i < 10000; i++)
            model_step(&m, t, c, &random);
        uint32_t n = 0;
        struct kv_slice k, v;
        for (enum error e = kv_cursor_seek(c, "", 0, &k, &v); !e;
             e = kv_cursor_next(c, &k, &v)) {
            n = first_from(&m, n);
            assert_int_equal(number_of(k), n++);
        }
        assert_int_equal(first_from(&m, n), MODEL);
        kv_cursor_close(c);
        kv_abort(t);
    }
    kv_close(kv);
}

/* ---- full, and the walk ---- */

static void test_map_full_F42(void **state)
{
    (void)state;
    const size_t map = 64 * 4096;
    const char *d = scratch_path("s");
    assert_int_equal(mkdir(d, 0700), 0);
    assert_error(kv_create(d, map), ERROR_NONE);
    struct kv *kv = open_store(d, map);
    uint32_t n = 0;
    enum error e;
    do {
        struct kv_txn *t = begin_write(kv);
        e = ERROR_NONE;
        for (uint32_t i = 0; i < 10 && !e; i++)
            e = put_number(t, n + i, 100);
        if (e)
            kv_abort(t);
        else
            e = kv_commit(t);
        n += e ? 0 : 10;
    } while (!e);
    assert_error(e, ERROR_STORE_FULL);
    assert_true(n > 500);
    assert_int_equal(count_rows(kv), n); /* the failed transaction changed nothing */
    kv_close(kv);
    assert_error(kv_walk(d, map, NULL, NULL), ERROR_NONE);
    kv = open_store(d, 2 * map); /* a larger map mends it */
    fill(kv, n, 100, 100);
    kv_close(kv);
}

static bool accept_all(void *arg, const void *key, size_t nkey, const void *value,
                       size_t nvalue)
{
    (void)arg;
    (void)key;
    (void)value;
    return nkey == 4 && nvalue == 60;
}

static bool is_next(void *arg, const void *key, size_t nkey, const void *value, size_t nvalue)
{
    uint32_t *visited = arg;
    unsigned char wanted[4];
    (void)value;
    (void)nvalue;
    key_of((*visited)++, wanted);
    return nkey == 4 && memcmp(key, wanted, 4) == 0;
}

static bool refuse_the_last(void *arg, const void *key, size_t nkey, const void *value,
                            size_t nvalue)
{
    unsigned char last[4];
    (void)arg;
    (void)value;
    (void)nvalue;
    key_of(2999, last);
    return nkey != 4 || memcmp(key, last, 4) != 0;
}

static void test_walk_visits_every_row(void **state)
{
    (void)state;
    const char *d = make_store("s", 3000, 60);
    uint32_t visited = 0;
    assert_error(kv_walk(d, MAP, NULL, NULL), ERROR_NONE);
    assert_error(kv_walk(d, MAP, accept_all, NULL), ERROR_NONE);
    assert_error(kv_walk(d, MAP, is_next, &visited), ERROR_NONE);
    assert_error(kv_walk(d, MAP, refuse_the_last, NULL), ERROR_STORE_BROKEN);
    struct kv *kv = open_store(d, MAP);
    assert_int_equal(count_rows(kv), 3000);
    kv_close(kv);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, scratch_make, scratch_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_create_makes_private_files_that_open),
        TEST(test_create_never_over_anything),
        TEST(test_create_without_right_or_directory),
        TEST(test_open_only_what_is_there_F42),
        TEST(test_open_without_rights_F42),
        TEST(test_sound_file_may_be_short),
        TEST(test_part_of_a_page_at_the_end),
        TEST(test_odd_map_sizes),
        TEST(test_files_watched_while_open_F42),
        TEST(test_never_shorter_than_seen_before),
        TEST(test_rows),
        TEST(test_key_lengths),
        TEST(test_last_id),
        TEST(test_read_handles_are_kept_and_renewed),
        TEST(test_usage),
        TEST(test_filling_is_more_than_three_quarters_in_use),
        TEST(test_cursor_ends),
        TEST(test_cursor_deletes_hundreds_in_a_row),
        TEST(test_cursor_as_an_array_would),
        TEST(test_map_full_F42),
        TEST(test_walk_visits_every_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
