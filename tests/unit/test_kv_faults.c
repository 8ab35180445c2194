/*
 * The key-value store under faults that really happen: killed writers and readers, full disks,
 * failing writes, broken pages, files that vanish while being opened, other processes' maps.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include "platform/clock.h"
#include "tests/unit/kv_scratch.h"

static const char *in(const char *directory, const char *name)
{
    static char paths[4][PATH_MAX + 16];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

/* A child that runs `work`, tells through a pipe that it is ready, and waits to be killed. */
struct held_child {
    pid_t pid;
    int ready;
};

static void be_ready(int fd)
{
    child_must(write(fd, "x", 1) == 1);
    for (;;)
        pause();
}

static struct held_child start(void (*work)(const char *directory, int fd),
                               const char *directory)
{
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    struct held_child c = {fork(), ends[0]};
    assert_true(c.pid >= 0);
    if (c.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a child never outlives a failed test */
        work(directory, ends[1]);
        _exit(0);
    }
    close(ends[1]);
    assert_int_equal(read(c.ready, &byte, 1), 1);
    return c;
}

static void kill_9(struct held_child c)
{
    assert_int_equal(kill(c.pid, SIGKILL), 0);
    assert_int_equal(scratch_wait(c.pid), 1000 + SIGKILL);
    close(c.ready);
}

/* ---- killed processes ---- */

static void write_and_hold(const char *directory, int fd)
{
    struct kv *kv;
    struct kv_txn *t;
    child_must(kv_open(directory, MAP, &kv) == ERROR_NONE);
    child_must(kv_begin_write(kv, &t) == ERROR_NONE);
    for (uint32_t i = 0; i < 50; i++)
        child_must(put_number(t, 100 + i, 500) == ERROR_NONE);
    be_ready(fd);
}

static void test_writer_killed_in_a_transaction_F45(void **state)
{
    (void)state;
    const char *d = make_store("s", 10, 10);
    for (int i = 0; i < 5; i++) {
        struct held_child c = start(write_and_hold, d);
        struct kv *kv = open_store(d, MAP);
        kill_9(c);
        alarm(WAIT_MS / 1000);
        fill(kv, 10 + (uint32_t)i, 1, 10); /* the lock is free again */
        alarm(0);
        assert_int_equal(count_rows(kv), 11 + i);
        assert_false(has_number(kv, 100));
        assert_error(kv_check_files(kv), ERROR_NONE);
        kv_close(kv);
        assert_error(kv_walk(d, MAP, NULL, NULL), ERROR_NONE);
    }
}

#define SMALL_MAP ((size_t)64 * 4096)

static void read_and_hold(const char *directory, int fd)
{
    struct kv *kv;
    struct kv_txn *t = NULL;
    child_must(kv_open(directory, SMALL_MAP, &kv) == ERROR_NONE);
    child_must(kv_begin_read(kv, &t) == ERROR_NONE);
    be_ready(fd);
}

static void only_open(const char *directory, int fd)
{
    struct kv *kv;
    child_must(kv_open(directory, MAP, &kv) == ERROR_NONE);
    be_ready(fd);
}

/* Rewrites one row until an error or `n` times. */
static enum error update(struct kv *kv, int n)
{
    enum error e = ERROR_NONE;
    for (int i = 0; i < n && !e; i++) {
        struct kv_txn *t = begin_write(kv);
        e = put_number(t, 0, 300);
        if (e)
            kv_abort(t);
        else
            e = kv_commit(t);
    }
    return e;
}

/* A dead reader pins every page that has been freed since: one row fills the map. */
static void test_dead_reader_is_cleared_F45(void **state)
{
    (void)state;
    const char *d = make_store("s", 1, 10);
    struct held_child c = start(read_and_hold, d);
    struct kv *kv = open_store(d, SMALL_MAP);
    assert_error(update(kv, 1000), ERROR_STORE_FULL);
    kv_clear_readers(kv);
    assert_error(update(kv, 1000), ERROR_STORE_FULL); /* it lives */
    kill_9(c);
    assert_error(update(kv, 1000), ERROR_STORE_FULL);
    kv_clear_readers(kv);
    assert_error(update(kv, 1000), ERROR_NONE);
    kv_close(kv);

    struct held_child other = start(only_open, d); /* or LMDB would make its lock file anew */
    c = start(read_and_hold, d);
    kv = open_store(d, SMALL_MAP);
    assert_error(update(kv, 1000), ERROR_STORE_FULL);
    kill_9(c);
    kv_close(kv);
    kv = open_store(d, SMALL_MAP); /* opening clears too */
    assert_error(update(kv, 1000), ERROR_NONE);
    kv_close(kv);
    kill_9(other);
}

static void take_all_slots(const char *directory, int fd)
{
    struct kv *kv;
    child_must(kv_open(directory, MAP, &kv) == ERROR_NONE);
    enum error e = ERROR_NONE;
    int n = -1;
    for (; !e; n++) {
        struct kv_txn *t = NULL;
        e = kv_begin_read(kv, &t);
    }
    child_must(e == ERROR_BUSY && n >= KV_READERS);
    be_ready(fd);
}

static void test_reader_slots_taken_and_died_F45(void **state)
{
    (void)state;
    const char *d = make_store("s", 5, 10);
    struct kv *kv = open_store(d, MAP), *second = NULL;
    struct held_child c = start(take_all_slots, d);
    struct kv_txn *t = NULL;
    assert_error(kv_begin_read(kv, &t), ERROR_BUSY);
    kv_close(kv);
    assert_error(kv_open(d, MAP, &second), ERROR_BUSY); /* opening needs one for a moment */
    assert_null(second);

    kill_9(c);
    kv = open_store(d, MAP);
    c = start(take_all_slots, d);
    kill_9(c);
    assert_int_equal(count_rows(kv), 5); /* the dead have been cleared */

    enum { SLOTS = KV_READERS + 64 };
    struct kv_txn *own[SLOTS] = {NULL};
    enum error e = ERROR_NONE;
    int n = 0;
    while (n < SLOTS && !(e = kv_begin_read(kv, &own[n])))
        n++;
    assert_true(n >= KV_READERS && n < SLOTS);
    assert_error(e, ERROR_BUSY);
    assert_null(own[n]);
    kv_free_read(own[7]);
    own[7] = NULL;
    assert_error(kv_begin_read(kv, &own[7]), ERROR_NONE);
    for (int i = 0; i < n; i++)
        kv_free_read(own[i]);
    kv_close(kv);
}

/* ---- counting across processes ---- */

#define PROCESSES  4
#define INCREMENTS 500

static void increment_once(const char *directory)
{
    struct kv *kv;
    struct kv_txn *t;
    struct kv_slice v;
    uint32_t n = 0;
    child_must(kv_open(directory, MAP, &kv) == ERROR_NONE);
    child_must(kv_check_files(kv) == ERROR_NONE);
    child_must(kv_begin_write(kv, &t) == ERROR_NONE);
    if (kv_get(t, "n", 1, &v) == ERROR_NONE) {
        child_must(v.n == sizeof n);
        memcpy(&n, v.data, sizeof n);
    }
    n++;
    child_must(kv_put(t, "n", 1, &n, sizeof n) == ERROR_NONE);
    child_must(kv_commit(t) == ERROR_NONE);
}

/* Each increment in a process of its own that leaves by _exit, as CGI does. */
static void churn(const char *directory)
{
    for (int i = 0; i < INCREMENTS; i++) {
        int status;
        pid_t pid = fork();
        child_must(pid >= 0);
        if (pid == 0) {
            increment_once(directory);
            _exit(0);
        }
        child_must(waitpid(pid, &status, 0) == pid && status == 0);
    }
}

static void test_counting_is_exact_over_processes_that_come_and_go(void **state)
{
    (void)state;
    const char *d = make_store("s", 0, 0);
    pid_t pids[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            churn(d);
            _exit(0);
        }
    }
    for (int i = 0; i < PROCESSES; i++)
        assert_int_equal(scratch_wait(pids[i]), 0);
    struct kv *kv = open_store(d, MAP);
    struct kv_txn *t = begin_read(kv);
    struct kv_slice v;
    uint32_t n;
    assert_error(kv_get(t, "n", 1, &v), ERROR_NONE);
    memcpy(&n, v.data, sizeof n);
    assert_int_equal(n, PROCESSES * INCREMENTS);
    kv_free_read(t);
    kv_close(kv);
}

/* LMDB 0.9.26-0.9.31 breaks its mutexes under who opens while the last one closes (ITS#9278).
 */
static void test_opening_beside_closing(void **state)
{
    (void)state;
    const char *d = make_store("s", 1, 10);
    pid_t pids[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] > 0)
            continue;
        for (int k = 0; k < 1000; k++) {
            struct kv *kv;
            struct kv_txn *t;
            child_must(kv_open(d, MAP, &kv) == ERROR_NONE);
            child_must(kv_begin_write(kv, &t) == ERROR_NONE);
            kv_abort(t);
            kv_close(kv);
        }
        _exit(0);
    }
    for (int i = 0; i < PROCESSES; i++)
        assert_int_equal(scratch_wait(pids[i]), 0);
}

/* ---- another process's larger map ---- */

static void grow(const char *directory, int fd)
{
    struct kv *kv;
    child_must(kv_open(directory, MAP, &kv) == ERROR_NONE);
    for (uint32_t n = 1000; n < 6000; n += 500) {
        struct kv_txn *t;
        child_must(kv_begin_write(kv, &t) == ERROR_NONE);
        for (uint32_t i = 0; i < 500; i++)
            child_must(put_number(t, n + i, 200) == ERROR_NONE);
        child_must(kv_commit(t) == ERROR_NONE);
    }
    be_ready(fd);
}

static void test_larger_map_of_another_process_is_followed(void **state)
{
    (void)state;
    const char *d = make_store("s", 10, 10);
    struct kv *kv = open_store(d, SMALL_MAP);
    struct kv_txn *t = begin_read(kv);
    kv_end_read(t);
    struct held_child c = start(grow, d);
    assert_error(kv_begin_read(kv, &t), ERROR_NONE);
    struct kv_usage u;
    assert_error(kv_usage(t, &u), ERROR_NONE);
    assert_int_equal(u.map_bytes, MAP);
    kv_free_read(t);
    assert_int_equal(count_rows(kv), 5010);
    fill(kv, 50000, 10, 10);
    assert_int_equal(count_rows(kv), 5020);
    kill_9(c);
    kv_close(kv);

    kv = open_store(d, SMALL_MAP); /* opens with what the file needs */
    assert_int_equal(count_rows(kv), 5020);
    kv_close(kv);
}

static void test_write_follows_a_larger_map_too(void **state)
{
    (void)state;
    const char *d = make_store("s", 10, 10);
    struct kv *kv = open_store(d, SMALL_MAP);
    struct held_child c = start(grow, d);
    fill(kv, 50000, 10, 10);
    kill_9(c);
    assert_int_equal(count_rows(kv), 5020);
    kv_close(kv);
}

struct worker {
    struct kv *kv;
    atomic_bool *stop;
    enum error failed;
    uint32_t rounds;
};

static void *read_all_the_time(void *arg)
{
    struct worker *w = arg;
    struct kv_txn *t = NULL;
    while (!w->failed && (!atomic_load(w->stop) || w->rounds == 0)) {
        struct kv_slice v;
        w->failed = kv_begin_read(w->kv, &t);
        if (w->failed)
            break;
        w->failed = kv_get(t, "\0\0\0", 4, &v);
        kv_end_read(t);
        w->rounds++;
    }
    kv_free_read(t);
    return NULL;
}

static void *write_all_the_time(void *arg)
{
    struct worker *w = arg;
    while (!w->failed && (!atomic_load(w->stop) || w->rounds == 0)) {
        struct kv_txn *t;
        w->failed = kv_begin_write(w->kv, &t);
        if (w->failed)
            break;
        w->failed = put_number(t, 0, w->rounds % 100);
        if (w->failed)
            kv_abort(t);
        else
            w->failed = kv_commit(t);
        w->rounds++;
        /* Where a commit waits for no disk, a reader that does not get its turn meanwhile keeps
         * more pages than a small map has. */
        if (w->failed == ERROR_STORE_FULL)
            w->failed = ERROR_NONE;
        else if (!w->failed)
            w->failed = kv_check_files(w->kv);
    }
    return NULL;
}

/* Readers and the writer of one process go on while its map is replaced under them. */
static void test_threads_follow_a_larger_map(void **state)
{
    (void)state;
    enum { THREADS = 5 };
    const char *d = make_store("s", 10, 10);
    struct kv *kv = open_store(d, SMALL_MAP);
    atomic_bool stop = false;
    struct worker w[THREADS];
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++) {
        w[i] = (struct worker){.kv = kv, .stop = &stop};
        assert_int_equal(
            pthread_create(&thread[i], NULL, i ? read_all_the_time : write_all_the_time, &w[i]),
            0);
    }
    struct held_child c = start(grow, d);
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        assert_error(w[i].failed, ERROR_NONE);
        assert_true(w[i].rounds > 0);
    }
    kill_9(c);
    assert_int_equal(count_rows(kv), 5010);
    kv_close(kv);
}

/* A transaction that does not end must not take the others with it. */
static void test_waiting_for_the_map_is_bounded(void **state)
{
    (void)state;
    const char *d = make_store("s", 10, 10);
    struct kv *kv = open_store(d, SMALL_MAP);
    struct kv_txn *held = begin_read(kv), *t = NULL;
    struct held_child c = start(grow, d);
    int64_t before = clock_monotonic_ms();
    assert_error(kv_begin_read(kv, &t), ERROR_BUSY);
    int64_t took = clock_monotonic_ms() - before;
    assert_true(took >= 1900 && took < WAIT_MS);
    assert_null(t);
    kv_free_read(held);
    assert_error(kv_begin_read(kv, &t), ERROR_NONE);
    kv_free_read(t);
    kill_9(c);
    kv_close(kv);
}

/* ---- disks ---- */

/* Runs `test` in a child with a tmpfs of 256 KiB of its own at `d`; skips if that cannot be. */
static void on_small_disk(void (*test)(const char *d))
{
    const char *d = scratch_path("disk");
    assert_int_equal(mkdir(d, 0700), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
            mount("none", d, "tmpfs", 0, "size=256k"))
            _exit(77);
        test(d);
        _exit(0);
    }
    int status = scratch_wait(pid);
    if (status == 77) {
        print_message("skipped: no right to mount a small disk\n");
        skip();
    }
    assert_int_equal(status, 0);
}

static uint32_t child_count(struct kv *kv)
{
    struct kv_txn *t = NULL;
    struct kv_cursor *c;
    struct kv_slice k, v;
    uint32_t n = 0;
    child_must(kv_begin_read(kv, &t) == ERROR_NONE);
    child_must(kv_cursor_open(t, &c) == ERROR_NONE);
    enum error e = kv_cursor_seek(c, "", 0, &k, &v);
    for (; !e; e = kv_cursor_next(c, &k, &v))
        n++;
    child_must(e == ERROR_NOT_FOUND);
    kv_cursor_close(c);
    kv_free_read(t);
    return n;
}

/* Of every byte of every value; never 1. */
static uint32_t child_sum(struct kv *kv)
{
    struct kv_txn *t = NULL;
    struct kv_cursor *c;
    struct kv_slice k, v;
    uint32_t sum = 0;
    child_must(kv_begin_read(kv, &t) == ERROR_NONE);
    child_must(kv_cursor_open(t, &c) == ERROR_NONE);
    enum error e = kv_cursor_seek(c, "", 0, &k, &v);
    for (; !e; e = kv_cursor_next(c, &k, &v))
        for (size_t i = 0; i < v.n; i++)
            sum += 2U * ((const unsigned char *)v.data)[i];
    child_must(e == ERROR_NOT_FOUND);
    return sum;
}

/* One row in a transaction of its own. */
static enum error child_put(struct kv *kv, uint32_t number, size_t n_value)
{
    struct kv_txn *t;
    enum error e = kv_begin_write(kv, &t);
    if (e)
        return e;
    e = put_number(t, number, n_value);
    if (!e)
        return kv_commit(t);
    kv_abort(t);
    return e;
}

static void fill_the_disk(const char *d)
{
    struct kv *kv;
    uint32_t n = 0;
    enum error e;
    child_must(kv_create(d, MAP) == ERROR_NONE);
    child_must(kv_open(d, MAP, &kv) == ERROR_NONE);
    int filler = open(in(d, "filler"), O_WRONLY | O_CREAT, 0600);
    static const char bytes[65536];
    child_must(write(filler, bytes, sizeof bytes) == (ssize_t)sizeof bytes);
    while (!(e = child_put(kv, n, 1000)))
        n++;
    child_must(e == ERROR_STORE_IO);
    child_must(n > 20 && child_count(kv) == n);
    child_must(child_put(kv, n, 1000) == ERROR_STORE_IO); /* again, and no crash */
    child_must(child_count(kv) == n);
    child_must(kv_check_files(kv) == ERROR_NONE);
    kv_close(kv);
    child_must(kv_open(d, MAP, &kv) == ERROR_NONE); /* refusals go on */
    child_must(child_count(kv) == n);
    child_must(unlink(in(d, "filler")) == 0 && close(filler) == 0);
    child_must(child_put(kv, n, 1000) == ERROR_NONE); /* mended */
    child_must(child_count(kv) == n + 1);
    kv_close(kv);
    child_must(kv_walk(d, MAP, NULL, NULL) == ERROR_NONE);
}

static void test_disk_full_F42(void **state)
{
    (void)state;
    on_small_disk(fill_the_disk);
}

static void create_on_full_disk(const char *d)
{
    static const char page[4096];
    int filler = open(in(d, "filler"), O_WRONLY | O_CREAT, 0600);
    while (write(filler, page, sizeof page) > 0)
        ;
    child_must(kv_create(d, MAP) == ERROR_STORE_IO);
    child_must(size_of(in(d, "data.mdb")) == -1 && size_of(in(d, "lock.mdb")) == -1);
    child_must(unlink(in(d, "filler")) == 0 && close(filler) == 0);
    child_must(kv_create(d, MAP) == ERROR_NONE);
}

static void test_create_on_a_full_disk_leaves_nothing(void **state)
{
    (void)state;
    on_small_disk(create_on_full_disk);
}

/* LMDB would extend lock.mdb by a hole, and die of SIGBUS when it writes there. */
static void open_without_room_for_locks(const char *d)
{
    static const char page[4096];
    struct kv *kv;
    child_must(kv_create(d, MAP) == ERROR_NONE);
    child_must(truncate(in(d, "lock.mdb"), 0) == 0);
    int filler = open(in(d, "filler"), O_WRONLY | O_CREAT, 0600);
    while (write(filler, page, sizeof page) > 0)
        ;
    child_must(kv_open(d, MAP, &kv) == ERROR_STORE_IO);
    child_must(unlink(in(d, "filler")) == 0 && close(filler) == 0);
    child_must(kv_open(d, MAP, &kv) == ERROR_NONE);
    child_must(child_put(kv, 1, 100) == ERROR_NONE);
}

static void test_lock_file_on_a_full_disk_F42(void **state)
{
    (void)state;
    on_small_disk(open_without_room_for_locks);
}

static void open_read_only(const char *d)
{
    struct kv *kv;
    child_must(kv_create(d, MAP) == ERROR_NONE);
    child_must(mount("none", d, NULL, MS_REMOUNT | MS_RDONLY, NULL) == 0);
    child_must(kv_open(d, MAP, &kv) == ERROR_STORE_IO);
    child_must(mount("none", d, NULL, MS_REMOUNT, NULL) == 0);
    child_must(kv_open(d, MAP, &kv) == ERROR_NONE);
}

static void test_read_only_disk_F42(void **state)
{
    (void)state;
    on_small_disk(open_read_only);
}

/* The limit ends inside a page, so that the last write leaves part of one. */
static void write_beyond_limit(const char *d)
{
    struct kv *kv;
    uint32_t n = 100;
    enum error e;
    struct rlimit limit = {200 * 1000 + 7, RLIM_INFINITY};
    signal(SIGXFSZ, SIG_IGN);
    child_must(kv_open(d, MAP, &kv) == ERROR_NONE);
    child_must(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    while (!(e = child_put(kv, n, 3000)))
        n++;
    child_must(e == ERROR_STORE_IO);
    child_must(child_count(kv) == n);
    child_must(size_of(in(d, "data.mdb")) % 4096 != 0);
    limit.rlim_cur = RLIM_INFINITY;
    child_must(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    child_must(child_put(kv, n, 3000) == ERROR_NONE);
}

static void test_write_cut_short(void **state)
{
    (void)state;
    const char *d = make_store("s", 100, 10);
    pid_t pid = fork();
    if (pid == 0) {
        write_beyond_limit(d);
        _exit(0);
    }
    assert_int_equal(scratch_wait(pid), 0);
    assert_error(kv_walk(d, MAP, NULL, NULL), ERROR_NONE);
    struct kv *kv = open_store(d, MAP);
    assert_true(count_rows(kv) > 100);
    kv_close(kv);
}

/* LMDB writes its meta page through a descriptor of its own, the one with O_DSYNC. */
static int meta_descriptor(void)
{
    for (int fd = 3; fd < 100; fd++) {
        int flags = fcntl(fd, F_GETFL);
        if (flags >= 0 && flags & O_DSYNC)
            return fd;
    }
    return -1;
}

static void test_meta_page_cannot_be_written_F42(void **state)
{
    (void)state;
    const char *d = make_store("s", 5, 10);
    struct kv *kv = open_store(d, MAP);
    struct kv_txn *t = begin_read(kv);
    kv_end_read(t);
    int meta = meta_descriptor(), full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_true(meta >= 0 && full >= 0);
    assert_int_equal(dup2(full, meta), meta);
    struct kv_txn *w = begin_write(kv);
    assert_error(put_number(w, 5, 10), ERROR_NONE);
    assert_error(kv_commit(w), ERROR_STORE_IO);
    for (int i = 0; i < 2; i++) {
        assert_error(kv_begin_write(kv, &w), ERROR_STORE_IO);
        assert_error(kv_begin_read(kv, &t), ERROR_STORE_IO);
    }
    kv_free_read(t);
    close(full);
    kv_close(kv);
    kv = open_store(d, MAP);
    assert_int_equal(count_rows(kv), 5);
    fill(kv, 5, 10, 10);
    kv_close(kv);
    assert_error(kv_walk(d, MAP, NULL, NULL), ERROR_NONE);
}

/* ---- broken pages ---- */

#define SEEDS 200
#define PAGE  ((size_t)sysconf(_SC_PAGESIZE))

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* A page of noise, a byte, a run of zeros, a page in another's place, or a page's header. */
static void corrupt(unsigned char *data, size_t n, uint32_t *seed)
{
    size_t page = 4096, pages = n / page;
    unsigned char *at = data + next_random(seed) % pages * page;
    unsigned char *other = data + next_random(seed) % pages * page;
    switch (next_random(seed) % 5) {
    case 0:
        for (size_t i = 0; i < page; i++)
            at[i] = (unsigned char)next_random(seed);
        break;
    case 1:
        data[next_random(seed) % n] ^= (unsigned char)(1U << next_random(seed) % 8);
        break;
    case 2:
        memset(at + next_random(seed) % (page - 100), 0, 100);
        break;
    case 3:
        memmove(at, other, page);
        break;
    default:
        at[next_random(seed) % 32] = (unsigned char)next_random(seed);
    }
}

/* What a walk has passed must be readable without dying. */
static int read_everything(const char *d)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct kv *kv;
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        child_must(kv_open(d, MAP, &kv) == ERROR_NONE);
        _exit(child_sum(kv) == 1 ? 1 : 0);
    }
    return scratch_wait(pid);
}

static void test_broken_pages_never_kill_F42(void **state)
{
    (void)state;
    const char *from = make_store("from", 3000, 60), *d = scratch_path("d");
    struct kv *kv = open_store(from, MAP);
    fill(kv, 500, 10, 5000); /* overflow pages */
    struct kv_txn *t = begin_write(kv);
    for (uint32_t i = 1000; i < 1500; i++) {
        unsigned char key[4];
        key_of(i, key);
        assert_error(kv_delete(t, key, 4), ERROR_NONE);
    }
    assert_error(kv_commit(t), ERROR_NONE);
    kv_close(kv);
    assert_error(kv_walk(from, MAP, NULL, NULL), ERROR_NONE);

    size_t n;
    unsigned outcomes[ERRORS] = {0};
    unsigned char *sound = read_file(in(from, "data.mdb"), &n), *broken = malloc(n);
    assert_non_null(broken);
    assert_int_equal(mkdir(d, 0700), 0);
    for (uint32_t i = 1; i <= SEEDS; i++) {
        uint32_t seed = i * 7919;
        memcpy(broken, sound, n);
        for (uint32_t k = 1 + i % 3; k > 0; k--)
            corrupt(broken, n, &seed);
        scratch_write(in(d, "data.mdb"), 0600, broken, n);
        scratch_write(in(d, "lock.mdb"), 0600, "", 0);
        enum error e = kv_walk(d, MAP, NULL, NULL);
        assert_true(e == ERROR_NONE || e == ERROR_STORE_BROKEN || e == ERROR_STORE_INVALID ||
                    e == ERROR_MEMORY);
        outcomes[e]++;
        if (e == ERROR_NONE)
            assert_int_equal(read_everything(d), 0);
    }
    print_message("  %u broken, %u invalid, %u unnoticed (free pages, unused bytes, values)\n",
                  outcomes[ERROR_STORE_BROKEN], outcomes[ERROR_STORE_INVALID],
                  outcomes[ERROR_NONE]);
    assert_true(outcomes[ERROR_STORE_BROKEN] > SEEDS / 4);
    free(sound);
    free(broken);
}

/* The end of a file can be the middle of a value, which a cursor does not touch. */
static void test_file_cut_anywhere_F42(void **state)
{
    (void)state;
    const char *from = make_store("from", 20, 100), *d = scratch_path("d");
    struct kv *kv = open_store(from, MAP);
    for (uint32_t i = 0; i < 5; i++)
        fill(kv, 100 + i, 1, VALUE_MAX);
    kv_close(kv);
    size_t n;
    unsigned refused = 0;
    unsigned char *sound = read_file(in(from, "data.mdb"), &n);
    assert_int_equal(mkdir(d, 0700), 0);
    for (size_t cut = n; cut > PAGE; cut -= PAGE / 2) {
        scratch_write(in(d, "data.mdb"), 0600, sound, cut);
        scratch_write(in(d, "lock.mdb"), 0600, "", 0);
        enum error e = kv_open(d, MAP, &kv);
        assert_true(e == ERROR_NONE || e == ERROR_STORE_INVALID);
        refused += e != ERROR_NONE;
        if (e)
            continue;
        kv_close(kv);
        assert_int_equal(read_everything(d), 0);
    }
    assert_true(refused > n / PAGE);
    free(sound);
}

/* ---- damage that LMDB itself reads without complaint ---- */

#define BRANCH   1
#define LEAF     2
#define HEADER   (sizeof(size_t) + 8)
#define FLAGS_AT (sizeof(size_t) + 2)
#define TABLE    (8 + 5 * sizeof(size_t)) /* a table in a meta page: 8 bytes, 5 words */
#define MAIN_AT  (HEADER + 8 + 2 * sizeof(size_t) + TABLE)

static uint16_t half_at(const unsigned char *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static void add_to_word(unsigned char *p, size_t n)
{
    size_t v;
    memcpy(&v, p, sizeof v);
    v += n;
    memcpy(p, &v, sizeof v);
}

/* Calls `change` for each page of the kind; the file may hold old ones too. */
static unsigned on_pages(unsigned char *data, size_t n, uint16_t kind,
                         unsigned (*change)(unsigned char *page, size_t pages))
{
    unsigned changed = 0;
    for (size_t at = 2 * PAGE; at + PAGE <= n; at += PAGE)
        if (half_at(data + at + FLAGS_AT) == kind)
            changed += change(data + at, n / PAGE);
    return changed;
}

/* The second node's key is the first of its page: one more, and a search goes elsewhere. */
static unsigned mislead_searches(unsigned char *page, size_t pages)
{
    unsigned char *node = page + half_at(page + HEADER + 2);
    (void)pages;
    if (half_at(node + 6) != 4 || node[8 + 3] == 0xFF)
        return 0;
    node[8 + 3]++;
    return 1;
}

/* The words of a free list's first record: its transaction, how many pages, their numbers. */
static unsigned char *free_record(unsigned char *page)
{
    unsigned char *node = page + half_at(page + HEADER);
    return half_at(node + 6) == sizeof(size_t) ? node + 8 : NULL;
}

static void set_word(unsigned char *record, size_t word, size_t value)
{
    memcpy(record + word * sizeof value, &value, sizeof value);
}

static unsigned free_a_meta_page(unsigned char *page, size_t pages)
{
    unsigned char *r = free_record(page);
    size_t n;
    (void)pages;
    if (!r)
        return 0;
    memcpy(&n, r + sizeof n, sizeof n);
    set_word(r, 1 + n, 1); /* the last is the lowest */
    return 1;
}

static unsigned free_beyond_the_end(unsigned char *page, size_t pages)
{
    unsigned char *r = free_record(page);
    if (r)
        set_word(r, 2, pages + 1000);
    return r != NULL;
}

static unsigned free_the_same_twice(unsigned char *page, size_t pages)
{
    unsigned char *r = free_record(page);
    (void)pages;
    if (r)
        memcpy(r + 3 * sizeof(size_t), r + 2 * sizeof(size_t), sizeof(size_t));
    return r != NULL;
}

static unsigned free_more_than_there_are(unsigned char *page, size_t pages)
{
    unsigned char *r = free_record(page);
    (void)pages;
    if (r)
        set_word(r, 1, 1000000);
    return r != NULL;
}

static unsigned free_out_of_order(unsigned char *page, size_t pages)
{
    unsigned char *r = free_record(page), first[sizeof(size_t)];
    (void)pages;
    if (!r)
        return 0;
    memcpy(first, r + 2 * sizeof first, sizeof first);
    memcpy(r + 2 * sizeof first, r + 3 * sizeof first, sizeof first);
    memcpy(r + 3 * sizeof first, first, sizeof first);
    return 1;
}

/* The key of the last record, so that the order of the keys stays right. */
static unsigned freed_by_a_later_transaction(unsigned char *page, size_t pages)
{
    size_t last = (half_at(page + FLAGS_AT + 2) - HEADER) / 2 - 1;
    (void)pages;
    if (!free_record(page))
        return 0;
    set_word(page + half_at(page + HEADER + 2 * last) + 8, 0, 1000000);
    return 1;
}

static unsigned freed_by_one_twice(unsigned char *page, size_t pages)
{
    size_t last = (half_at(page + FLAGS_AT + 2) - HEADER) / 2 - 1;
    unsigned char *r = free_record(page);
    (void)pages;
    if (!r || last == 0)
        return 0;
    memcpy(r, page + half_at(page + HEADER + 2 * last) + 8, sizeof(size_t));
    return 1;
}

static const struct {
    const char *what;
    uint16_t kind;
    unsigned (*change)(unsigned char *page, size_t pages);
} quiet_damage[] = {
    {"a branch page misleads searches, not cursors", BRANCH, mislead_searches},
    {"a meta page is free", LEAF, free_a_meta_page},
    {"a page beyond the end is free", LEAF, free_beyond_the_end},
    {"a page is free twice", LEAF, free_the_same_twice},
    {"free pages are out of order", LEAF, free_out_of_order},
    {"a record of the free list is shorter than it says", LEAF, free_more_than_there_are},
    {"two records are of one transaction", LEAF, freed_by_one_twice},
    {"pages were freed in the future", LEAF, freed_by_a_later_transaction},
};

static const struct {
    const char *what;
    size_t at; /* of a word in both meta pages */
} wrong_sums[] = {
    {"more pages in use than there are", MAIN_AT + 8 + sizeof(size_t)},
    {"more rows counted than there are", MAIN_AT + 8 + 3 * sizeof(size_t)},
};

static void test_walk_sees_quiet_damage_F42(void **state)
{
    (void)state;
    if (sizeof(size_t) == 4) /* the free list's keys would look like ours */
        skip();
    const char *d = make_store("s", 2000, 100);
    struct kv *kv = open_store(d, MAP);
    for (uint32_t i = 0; i < 20; i++)
        fill(kv, i * 100, 50, 90);
    kv_close(kv);
    size_t n;
    unsigned char *sound = read_file(in(d, "data.mdb"), &n), *broken = malloc(n);
    assert_non_null(broken);
    assert_error(kv_walk(d, MAP, NULL, NULL), ERROR_NONE);
    for (size_t i = 0; i < sizeof quiet_damage / sizeof quiet_damage[0]; i++) {
        print_message("  %s\n", quiet_damage[i].what);
        memcpy(broken, sound, n);
        assert_true(on_pages(broken, n, quiet_damage[i].kind, quiet_damage[i].change) > 0);
        scratch_write(in(d, "data.mdb"), 0600, broken, n);
        assert_error(kv_walk(d, MAP, NULL, NULL), ERROR_STORE_BROKEN);
    }
    for (size_t i = 0; i < sizeof wrong_sums / sizeof wrong_sums[0]; i++) {
        print_message("  %s\n", wrong_sums[i].what);
        memcpy(broken, sound, n);
        add_to_word(broken + wrong_sums[i].at, 1000);
        add_to_word(broken + PAGE + wrong_sums[i].at, 1000);
        scratch_write(in(d, "data.mdb"), 0600, broken, n);
        assert_error(kv_walk(d, MAP, NULL, NULL), ERROR_STORE_BROKEN);
    }
    free(sound);
    free(broken);
}

static void *use_the_heap(void *arg)
{
    atomic_bool *stop = arg;
    for (size_t n = 1; !atomic_load(stop); n = n * 7 % 100003 + 1) {
        volatile char *p = malloc(n);
        if (p)
            p[0] = 1;
        free((void *)(uintptr_t)p);
    }
    return NULL;
}

/* When a store has been mended, it is walked again, from a process that has threads by then. */
static void test_walk_beside_busy_threads(void **state)
{
    (void)state;
    const char *d = make_store("s", 2000, 60);
    atomic_bool stop = false;
    pthread_t thread[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, use_the_heap, &stop), 0);
    for (int i = 0; i < 50; i++)
        assert_error(kv_walk(d, MAP, NULL, NULL), ERROR_NONE);
    atomic_store(&stop, true);
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
}

/* ---- the moment between look and open ---- */

/* Takes data.mdb away and puts it back, over what LMDB may have made meanwhile. */
static void blink(const char *directory, int fd)
{
    char data[PATH_MAX + 16], away[PATH_MAX + 16];
    snprintf(data, sizeof data, "%s/data.mdb", directory);
    snprintf(away, sizeof away, "%s/away", directory);
    child_must(write(fd, "x", 1) == 1);
    for (;;)
        child_must(rename(data, away) == 0 && rename(away, data) == 0);
}

/* However the race goes, an empty store that LMDB made is never taken for the real one. */
static void test_file_that_vanishes_while_opening_F42(void **state)
{
    (void)state;
    const char *d = make_store("s", 5, 10);
    unsigned outcomes[ERRORS] = {0};
    struct held_child c = start(blink, d);
    int64_t end = clock_monotonic_ms() + 3000;
    do {
        struct kv *kv;
        enum error e = kv_open(d, MAP, &kv);
        outcomes[e]++;
        if (!e) {
            assert_true(has_number(kv, 4));
            kv_close(kv);
        }
    } while (clock_monotonic_ms() < end);
    kill_9(c);
    print_message("  %u opened, %u missing, %u replaced\n", outcomes[ERROR_NONE],
                  outcomes[ERROR_STORE_MISSING], outcomes[ERROR_STORE_REPLACED]);
    assert_true(outcomes[ERROR_NONE] > 0 && outcomes[ERROR_STORE_MISSING] > 0);
}

#ifndef RENAME_EXCHANGE /* musl 1.2.3 has neither this nor the function */
#define RENAME_EXCHANGE (1 << 1)
#endif

/* Puts two stores in each other's place, again and again. */
static void exchange(const char *directory, int fd)
{
    char data[PATH_MAX + 16], other[PATH_MAX + 16];
    snprintf(data, sizeof data, "%s/data.mdb", directory);
    snprintf(other, sizeof other, "%s/other", directory);
    child_must(write(fd, "x", 1) == 1);
    for (;;)
        child_must(syscall(SYS_renameat2, AT_FDCWD, data, AT_FDCWD, other, RENAME_EXCHANGE) ==
                   0);
}

static void wait_for_exchange(const char *directory)
{
    struct stat first, now;
    int64_t end = clock_monotonic_ms() + WAIT_MS;
    assert_int_equal(stat(in(directory, "data.mdb"), &first), 0);
    do {
        assert_int_equal(stat(in(directory, "data.mdb"), &now), 0);
        assert_true(clock_monotonic_ms() < end);
    } while (now.st_ino == first.st_ino);
}

/* What passes the check is what stands at the path, and not what stood there for a moment. */
static void test_file_that_is_exchanged_while_opening_F42(void **state)
{
    (void)state;
    const char *d = make_store("s", 5, 10), *o = make_store("o", 7, 10);
    struct stat st;
    assert_int_equal(rename(in(o, "data.mdb"), in(d, "other")), 0);
    assert_int_equal(stat(in(d, "other"), &st), 0);
    ino_t other = st.st_ino;
    struct held_child c = start(exchange, d);
    unsigned opened = 0;
    for (int i = 0; i < 500; i++) {
        struct kv *kv = NULL;
        int status;
        wait_for_exchange(d);
        enum error e = kv_open(d, MAP, &kv);
        kill(c.pid, SIGSTOP);
        assert_int_equal(waitpid(c.pid, &status, WUNTRACED), c.pid);
        assert_true(WIFSTOPPED(status));
        assert_true(e == ERROR_NONE || e == ERROR_STORE_REPLACED);
        if (!e) {
            opened++;
            assert_int_equal(stat(in(d, "data.mdb"), &st), 0);
            if (kv_check_files(kv) == ERROR_NONE)
                assert_int_equal(count_rows(kv), st.st_ino == other ? 7 : 5);
            kv_close(kv);
        }
        kill(c.pid, SIGCONT);
    }
    kill_9(c);
    print_message("  %u opened\n", opened);
}

/* ---- older copies ---- */

static void write_over(const char *path, const unsigned char *data, size_t n)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, n), (ssize_t)n);
    assert_int_equal(ftruncate(fd, (off_t)n), 0);
    close(fd);
}

static void refused_as_older(struct kv *kv)
{
    struct kv_txn *r = NULL, *w = NULL;
    for (int i = 0; i < 3; i++) {
        assert_error(kv_begin_read(kv, &r), ERROR_STORE_ROLLED_BACK);
        assert_null(r);
        assert_error(kv_begin_write(kv, &w), ERROR_STORE_ROLLED_BACK);
        assert_null(w);
    }
}

static void open_and_hold(const char *directory, int fd)
{
    struct kv *kv;
    child_must(kv_open(directory, MAP, &kv) == ERROR_NONE);
    be_ready(fd);
}

/*
 * While a process holds the store, the lock file goes on numbering transactions: without a look
 * at its own pages an older copy would pass for the newest, by one commit or by many.
 */
static void test_older_copy_under_a_running_process_F42(void **state)
{
    (void)state;
    const char *d = make_store("s", 10, 10), *data = in(d, "data.mdb");
    for (uint32_t commits = 1; commits <= 4; commits++) {
        struct kv *kv = open_store(d, MAP), *other = NULL;
        struct kv_txn *kept = begin_read(kv);
        uint64_t older_id = kv_last_id(kept);
        size_t n_older, n_newer;
        unsigned char *older = read_file(data, &n_older);
        kv_end_read(kept);
        for (uint32_t i = 0; i < commits; i++)
            fill(kv, commits * 100 + i, 1, 10);
        unsigned char *newer = read_file(data, &n_newer);
        write_over(data, older, n_older);
        refused_as_older(kv);
        assert_error(kv_begin_read(kv, &kept), ERROR_STORE_ROLLED_BACK);
        write_over(data, newer, n_newer); /* mended */
        assert_true(has_number(kv, commits * 100));
        assert_error(kv_begin_read(kv, &kept), ERROR_NONE);
        assert_true(kv_last_id(kept) == older_id + commits);
        kv_free_read(kept);
        kv_close(kv);

        struct held_child c = start(open_and_hold, d);
        write_over(data, older, n_older);
        assert_error(kv_open(d, MAP, &other), ERROR_STORE_ROLLED_BACK);
        kill_9(c); /* nobody holds it: now it is what it is, and its id tells */
        other = open_store(d, MAP);
        kept = begin_read(other);
        assert_true(kv_last_id(kept) == older_id);
        kv_free_read(kept);
        fill(other, 0, 1, 10);
        kv_close(other);
        free(older);
        free(newer);
    }
}

/* ---- who makes LMDB's lock file anew is killed in the middle of it ---- */

#define LOCK_HEAD 512 /* numbers and mutexes lie in it, behind magic and format */

static void lock_and_forget_number(const char *directory, int fd)
{
    static const unsigned char zeros[LOCK_HEAD];
    struct flock alone = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    int lock = open(in(directory, "lock.mdb"), O_RDWR | O_CLOEXEC);
    child_must(lock >= 0 && fcntl(lock, F_SETLK, &alone) == 0 &&
               pwrite(lock, zeros + 8, sizeof zeros - 8, 8) == sizeof zeros - 8);
    be_ready(fd);
}

/* As the kernel shows it: `1: -> POSIX  ADVISORY  READ 77 fe:00:1234 0 0`. */
static bool somebody_waits_for(const char *path)
{
    char line[256], inode[32];
    bool waits = false;
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    snprintf(inode, sizeof inode, ":%llu ", (unsigned long long)st.st_ino);
    FILE *f = fopen("/proc/locks", "re");
    assert_non_null(f);
    while (!waits && fgets(line, sizeof line, f))
        waits = strstr(line, "->") && strstr(line, inode);
    fclose(f);
    return waits;
}

static enum error open_beside(const char *directory)
{
    struct kv *kv = NULL;
    struct kv_txn *t = NULL;
    enum error e = kv_open(directory, MAP, &kv);
    if (!e)
        e = kv_begin_read(kv, &t);
    return e;
}

static enum error walk_beside(const char *directory)
{
    return kv_walk(directory, MAP, NULL, NULL);
}

static void test_lock_file_that_nobody_has_finished_F45(void **state)
{
    (void)state;
    static enum error (*const beside[])(const char *directory) = {open_beside, walk_beside};
    const char *d = make_store("s", 3, 10);
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++) {
        int64_t end = clock_monotonic_ms() + WAIT_MS;
        struct held_child c = start(lock_and_forget_number, d);
        pid_t opener = fork();
        assert_true(opener >= 0);
        if (opener == 0)
            _exit((int)beside[i](d));
        while (!somebody_waits_for(in(d, "lock.mdb")) && clock_monotonic_ms() < end)
            poll(NULL, 0, 1);
        kill_9(c);
        assert_error((enum error)scratch_wait(opener), ERROR_NONE);
    }
}

/* ---- a reader that is overtaken while it begins ---- */

#define OVERTAKEN 400 /* of so many interruptions some ten hit the place */

/* Shared with the writer: how many commits are wanted, and how many there are. */
static struct overtaking {
    atomic_uint wanted, done;
} * overtaking;
static volatile sig_atomic_t interruptions;

/* Each transaction says in a row which one it is. */
static void commit_as_wanted(const char *directory, int fd)
{
    struct kv *kv;
    struct kv_txn *t;
    child_must(kv_open_unsynced(directory, MAP, &kv) == ERROR_NONE);
    for (bool told = false;; atomic_fetch_add(&overtaking->done, 1)) {
        while (told && atomic_load(&overtaking->done) >= atomic_load(&overtaking->wanted))
            sched_yield();
        child_must(kv_begin_write(kv, &t) == ERROR_NONE);
        uint64_t id = kv_last_id(t) + 1;
        enum error e = kv_put(t, "id", 2, &id, sizeof id);
        if (e == ERROR_NONE)
            e = kv_commit(t);
        else
            kv_abort(t);
        /* full: the reader may be interrupted so often that it holds what many commits free */
        child_must(e == ERROR_NONE || e == ERROR_STORE_FULL);
        if (!told)
            child_must(write(fd, "x", 1) == 1);
        told = true;
    }
}

/* As if we had lost our turn, wherever we are, for as long as the writer takes to overtake us. */
static void lose_turn(int signal)
{
    unsigned until = atomic_load(&overtaking->done) + 3;
    int64_t end = clock_monotonic_ms() + WAIT_MS;
    (void)signal;
    atomic_store(&overtaking->wanted, until);
    while (atomic_load(&overtaking->done) < until && clock_monotonic_ms() < end)
        sched_yield();
    interruptions++;
}

static void test_reader_that_is_overtaken_F48(void **state)
{
    (void)state;
    const struct sigaction lose = {.sa_handler = lose_turn, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 200}, {0, 200}}, never = {0};
    const char *d = make_store("s", 0, 0);
    struct kv_txn *t = NULL;
    unsigned wrong = 0;
    overtaking = mmap(NULL, sizeof *overtaking, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(overtaking != MAP_FAILED);
    struct held_child c = start(commit_as_wanted, d);
    struct kv *kv = NULL;
    assert_error(kv_open_unsynced(d, MAP, &kv), ERROR_NONE);
    interruptions = 0;
    assert_int_equal(sigaction(SIGALRM, &lose, NULL) | setitimer(ITIMER_REAL, &often, NULL), 0);
    while (interruptions < OVERTAKEN) {
        struct kv_slice value;
        uint64_t id = 0;
        enum error e = kv_begin_read(kv, &t);
        if (e == ERROR_BUSY)
            continue; /* overtaken each time */
        assert_error(e, ERROR_NONE);
        assert_error(kv_get(t, "id", 2, &value), ERROR_NONE);
        memcpy(&id, value.data, sizeof id);
        wrong += id != kv_last_id(t);
        kv_end_read(t);
    }
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    assert_int_equal(wrong, 0);
    kv_free_read(t);
    kv_close(kv);
    kill_9(c);
    munmap(overtaking, sizeof *overtaking);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, scratch_make, scratch_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_writer_killed_in_a_transaction_F45),
        TEST(test_dead_reader_is_cleared_F45),
        TEST(test_reader_slots_taken_and_died_F45),
        TEST(test_counting_is_exact_over_processes_that_come_and_go),
        TEST(test_opening_beside_closing),
        TEST(test_larger_map_of_another_process_is_followed),
        TEST(test_write_follows_a_larger_map_too),
        TEST(test_threads_follow_a_larger_map),
        TEST(test_waiting_for_the_map_is_bounded),
        TEST(test_disk_full_F42),
        TEST(test_create_on_a_full_disk_leaves_nothing),
        TEST(test_lock_file_on_a_full_disk_F42),
        TEST(test_read_only_disk_F42),
        TEST(test_write_cut_short),
        TEST(test_meta_page_cannot_be_written_F42),
        TEST(test_broken_pages_never_kill_F42),
        TEST(test_file_cut_anywhere_F42),
        TEST(test_walk_sees_quiet_damage_F42),
        TEST(test_walk_beside_busy_threads),
        TEST(test_file_that_vanishes_while_opening_F42),
        TEST(test_file_that_is_exchanged_while_opening_F42),
        TEST(test_older_copy_under_a_running_process_F42),
        TEST(test_lock_file_that_nobody_has_finished_F45),
        TEST(test_reader_that_is_overtaken_F48),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
