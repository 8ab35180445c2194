/* The board: counters that processes share. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mount.h>

#include <cmocka.h>

#include "platform/board.h"
#include "platform/file.h"
#include "tests/unit/scratch.h"

#define PROCESSES  8
#define ADDITIONS  20000
#define BOARD_SIZE 4096
#define SKIPPED    77 /* exit status of a child that may not do what a test needs */

static struct board *open_board(void)
{
    struct board *b = NULL;

    assert_int_equal(board_open(scratch_path("board"), &b), ERROR_NONE);
    return b;
}

static void test_a_new_board(void **state)
{
    struct board *b = open_board();
    struct stat st;
    uint8_t id[16], zeros[16] = {0};

    (void)state;
    for (unsigned i = 0; i < BOARD_COUNTERS; i++)
        assert_int_equal(board_get(b, i), 0);
    board_id(b, id);
    for (unsigned i = 0; i < sizeof id; i += 8)
        assert_memory_not_equal(id + i, zeros, 8);
    assert_int_equal(stat(scratch_path("board"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(st.st_size, BOARD_SIZE);
    assert_true(st.st_blocks * 512 >= BOARD_SIZE); /* no hole that a full disk could not fill */
    assert_int_equal(fcntl(board_fd(b), F_GETFD), FD_CLOEXEC);
    assert_int_equal(scratch_count(), 1);
    board_close(b);
    board_close(NULL);
}

static void test_counters_wrap_and_stay_apart(void **state)
{
    struct board *b = open_board();

    (void)state;
    board_add(b, 1, 5);
    board_add(b, 1, UINT32_MAX);
    assert_int_equal(board_get(b, 1), 4);
    board_add(b, 0, 1);
    board_add(b, BOARD_COUNTERS - 1, UINT32_MAX);
    assert_int_equal(board_get(b, 0), 1);
    assert_int_equal(board_get(b, 1), 4);
    assert_int_equal(board_get(b, 2), 0);
    assert_int_equal(board_get(b, BOARD_COUNTERS - 1), UINT32_MAX);
    board_add(b, BOARD_COUNTERS, 1); /* there is none */
    assert_int_equal(board_get(b, BOARD_COUNTERS), 0);
    board_add(b, UINT32_MAX, 1);
    board_close(b);
}

static void test_a_counter_is_exchanged_if_it_is_what_it_was(void **state)
{
    struct board *b = open_board();
    uint32_t from = 0;

    (void)state;
    assert_true(board_exchange(b, 70, &from, 17));
    assert_int_equal(board_get(b, 70), 17);
    from = 3;
    assert_false(board_exchange(b, 70, &from, 18));
    assert_int_equal(from, 17); /* what is there */
    assert_int_equal(board_get(b, 70), 17);
    assert_true(board_exchange(b, 70, &from, 0));
    from = 5;
    assert_false(board_exchange(b, BOARD_COUNTERS, &from, 1)); /* there is none */
    assert_int_equal(from, 0);
    assert_false(board_exchange(b, UINT32_MAX, &from, 1));
    board_close(b);
}

/* In a child: claims counters in the order of their numbers; writes how many it got. */
static int claim(int tell, uint32_t me)
{
    struct board *b;
    unsigned mine = 0;

    if (board_open(scratch_path("board"), &b) != ERROR_NONE)
        return 1;
    for (unsigned i = 0; i < BOARD_COUNTERS; i++) {
        uint32_t from = 0;

        if (board_exchange(b, i, &from, me))
            mine++;
        else if (from == 0)
            return 2;
    }
    return write(tell, &mine, sizeof mine) == sizeof mine ? 0 : 1;
}

static void test_F15_of_processes_that_claim_at_once_one_gets_it(void **state)
{
    struct board *b = open_board();
    pid_t children[PROCESSES];
    unsigned got, all = 0;
    int tell[2];

    (void)state;
    assert_int_equal(pipe(tell), 0);
    for (unsigned i = 0; i < PROCESSES; i++)
        if ((children[i] = fork()) == 0)
            _exit(claim(tell[1], i + 1));
    for (unsigned i = 0; i < PROCESSES; i++) {
        assert_int_equal(scratch_wait(children[i]), 0);
        assert_int_equal(read(tell[0], &got, sizeof got), sizeof got);
        all += got;
    }
    close(tell[0]);
    close(tell[1]);
    assert_int_equal(all, BOARD_COUNTERS);
    for (unsigned i = 0; i < BOARD_COUNTERS; i++)
        assert_in_range(board_get(b, i), 1, PROCESSES);
    board_close(b);
}

static void test_who_has_made_it(void **state)
{
    struct board *first = open_board(), *second = open_board();

    (void)state;
    assert_true(board_is_new(first));
    assert_false(board_is_new(second));
    board_close(first);
    board_close(second);
}

static void test_a_board_outlives_its_processes(void **state)
{
    struct board *b = open_board();
    uint8_t first[16], again[16];

    (void)state;
    board_id(b, first);
    board_add(b, 3, 7);
    board_close(b);
    b = open_board();
    board_id(b, again);
    assert_memory_equal(first, again, sizeof first);
    assert_int_equal(board_get(b, 3), 7);

    assert_int_equal(unlink(scratch_path("board")), 0);
    struct board *anew = open_board();
    struct file_id open_id, path_id;
    board_id(anew, again);
    assert_memory_not_equal(first, again, sizeof first);
    assert_int_equal(board_get(anew, 3), 0);
    assert_int_equal(file_id_fd(board_fd(b), &open_id), ERROR_NONE);
    assert_int_equal(file_id_path(scratch_path("board"), &path_id), ERROR_NONE);
    assert_false(file_id_equal(open_id, path_id)); /* so its holder can tell */
    board_close(b);
    board_close(anew);
}

static void test_F15_processes_that_add_at_once(void **state)
{
    struct board *b = open_board();
    pid_t children[PROCESSES];

    (void)state;
    for (unsigned i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            struct board *own;
            if (board_open(scratch_path("board"), &own) != ERROR_NONE)
                _exit(1);
            for (unsigned n = 0; n < ADDITIONS; n++) {
                board_add(own, 0, 1);
                board_add(own, 63, 1000003);
            }
            _exit(0);
        }
    }
    for (unsigned i = 0; i < PROCESSES; i++)
        assert_int_equal(scratch_wait(children[i]), 0);
    assert_int_equal(board_get(b, 0), PROCESSES * ADDITIONS);
    assert_int_equal(board_get(b, 63), (uint32_t)(UINT64_C(1000003) * PROCESSES * ADDITIONS));
    board_close(b);
}

static void *add_one(void *data)
{
    for (unsigned n = 0; n < ADDITIONS; n++)
        board_add(data, 9, 1);
    return NULL;
}

static void test_threads_that_add_at_once(void **state)
{
    struct board *b = open_board();
    pthread_t threads[4];

    (void)state;
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_one, b), 0);
    for (unsigned i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(board_get(b, 9), 4 * ADDITIONS);
    board_close(b);
}

/* What a racing process does once the gate is open: tells the id it got. */
static int open_and_tell(int gate, int tell)
{
    struct board *b;
    uint8_t id[16];
    char unused;

    (void)!read(gate, &unused, 1);
    if (board_open(scratch_path("board"), &b) != ERROR_NONE)
        return 1;
    board_id(b, id);
    board_add(b, 0, 1);
    return write(tell, id, sizeof id) == sizeof id ? 0 : 1;
}

static void test_F1_processes_that_create_at_once_have_one_board(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 20; round++) {
        pid_t children[PROCESSES];
        int gate[2], tell[2];
        uint8_t first[16], id[16];

        assert_int_equal(pipe(gate), 0);
        assert_int_equal(pipe(tell), 0);
        for (unsigned i = 0; i < PROCESSES; i++) {
            children[i] = fork();
            if (children[i] == 0) {
                close(gate[1]);
                _exit(open_and_tell(gate[0], tell[1]));
            }
        }
        close(gate[0]);
        close(gate[1]);
        for (unsigned i = 0; i < PROCESSES; i++)
            assert_int_equal(scratch_wait(children[i]), 0);
        for (unsigned i = 0; i < PROCESSES; i++) {
            assert_int_equal(read(tell[0], i == 0 ? first : id, sizeof id), sizeof id);
            if (i > 0)
                assert_memory_equal(id, first, sizeof id);
        }
        close(tell[0]);
        close(tell[1]);
        struct board *b = open_board();
        assert_int_equal(board_get(b, 0), PROCESSES);
        board_close(b);
        assert_int_equal(scratch_count(), 1);
        assert_int_equal(unlink(scratch_path("board")), 0);
    }
}

/* Each row spoils one thing of a good board. */
static void test_F42_what_is_no_board(void **state)
{
    static const struct {
        const char *says;
        size_t size; /* of the file */
        size_t at;   /* the byte that is changed, SIZE_MAX: none */
        enum error expected;
    } rows[] = {
        {"as it was", BOARD_SIZE, SIZE_MAX, ERROR_NONE},
        {"emptied", 0, SIZE_MAX, ERROR_STORE_INVALID},
        {"cut by a byte", BOARD_SIZE - 1, SIZE_MAX, ERROR_STORE_INVALID},
        {"cut in its header", 16, SIZE_MAX, ERROR_STORE_INVALID},
        {"longer by a byte", BOARD_SIZE + 1, SIZE_MAX, ERROR_STORE_INVALID},
        {"another magic, first byte", BOARD_SIZE, 0, ERROR_STORE_INVALID},
        {"another magic, last byte", BOARD_SIZE, 7, ERROR_STORE_INVALID},
        {"another version or byte order, first byte", BOARD_SIZE, 8, ERROR_STORE_INVALID},
        {"another version or byte order, last byte", BOARD_SIZE, 11, ERROR_STORE_INVALID},
        {"another size, first byte", BOARD_SIZE, 12, ERROR_STORE_INVALID},
        {"another size, last byte", BOARD_SIZE, 15, ERROR_STORE_INVALID},
        {"another id is another board", BOARD_SIZE, 16, ERROR_NONE},
    };
    const char *path = scratch_path("board");
    char *good;
    size_t n;

    (void)state;
    board_close(open_board());
    assert_int_equal(file_read(path, BOARD_SIZE, &good, &n), ERROR_NONE);
    assert_int_equal(n, BOARD_SIZE);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char bad[BOARD_SIZE + 1] = {0};
        struct board *b = NULL;

        memcpy(bad, good, BOARD_SIZE);
        if (rows[i].at != SIZE_MAX)
            bad[rows[i].at] = (char)(bad[rows[i].at] ^ 0x40);
        scratch_write(path, 0600, bad, rows[i].size);
        enum error e = board_open(path, &b);
        if (e != rows[i].expected)
            fail_msg("%s: %d", rows[i].says, e);
        assert_int_equal(b != NULL, e == ERROR_NONE);
        board_close(b);
        /* and nothing was mended in silence */
        char *after;
        assert_int_equal(file_read(path, sizeof bad, &after, &n), ERROR_NONE);
        assert_int_equal(n, rows[i].size);
        assert_memory_equal(after, bad, n);
        free(after);
    }
    free(good);
}

static void test_paths(void **state)
{
    struct board *b;

    (void)state;
    assert_int_equal(board_open(scratch_path("no/board"), &b), ERROR_RUN_MISSING);
    assert_int_equal(board_open(scratch_directory, &b), ERROR_NOT_REGULAR);
    assert_int_equal(mkfifo(scratch_path("fifo"), 0600), 0);
    assert_int_equal(board_open(scratch_path("fifo"), &b), ERROR_NOT_REGULAR);
    assert_int_equal(symlink("nowhere", scratch_path("link")), 0);
    assert_int_equal(board_open(scratch_path("link"), &b), ERROR_NOT_REGULAR);
    assert_int_equal(scratch_count(), 2);
}

/* Uses up the file system to its last byte. */
static void fill_up(const char *path)
{
    static const char zeros[512];
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    while (write(fd, zeros, sizeof zeros) > 0)
        ;
    close(fd);
}

static bool write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0)
        close(fd);
    return ok;
}

/* A place of our own to mount in: as root at once, else as root of a user namespace. */
static bool enter_namespace(void)
{
    char users[64], groups[64];

    snprintf(users, sizeof users, "0 %u 1", (unsigned)getuid());
    snprintf(groups, sizeof groups, "0 %u 1", (unsigned)getgid());
    if (unshare(CLONE_NEWNS) == 0)
        return true;
    return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
           write_text("/proc/self/setgroups", "deny") &&
           write_text("/proc/self/uid_map", users) && write_text("/proc/self/gid_map", groups);
}

/* In a child of its own: it mounts, and a SIGBUS would end it. */
static int on_a_full_tmpfs(void)
{
    struct board *b;

    if (!enter_namespace() || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", scratch_directory, "tmpfs", 0, "size=64k") != 0)
        return SKIPPED;
    if (board_open(scratch_path("board"), &b) != ERROR_NONE)
        return 1;
    fill_up(scratch_path("fill"));
    board_add(b, 63, 3);
    if (board_get(b, 63) != 3)
        return 2;
    board_close(b);
    if (board_open(scratch_path("other"), &b) != ERROR_SYSTEM || errno != ENOSPC)
        return 3;
    if (access(scratch_path("other"), F_OK) == 0 || scratch_count() != 2)
        return 4;
    return 0;
}

static void test_F42_a_full_disk_kills_nobody(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0)
        _exit(on_a_full_tmpfs());
    int status = scratch_wait(child);
    if (status == SKIPPED) {
        print_message("skipped: may not mount a tmpfs\n");
        skip();
    }
    assert_int_equal(status, 0);
}

#define IN_SCRATCH(f) cmocka_unit_test_setup_teardown(f, scratch_make, scratch_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_SCRATCH(test_a_new_board),
        IN_SCRATCH(test_counters_wrap_and_stay_apart),
        IN_SCRATCH(test_a_counter_is_exchanged_if_it_is_what_it_was),
        IN_SCRATCH(test_F15_of_processes_that_claim_at_once_one_gets_it),
        IN_SCRATCH(test_who_has_made_it),
        IN_SCRATCH(test_a_board_outlives_its_processes),
        IN_SCRATCH(test_F15_processes_that_add_at_once),
        IN_SCRATCH(test_F1_processes_that_create_at_once_have_one_board),
        IN_SCRATCH(test_threads_that_add_at_once),
        IN_SCRATCH(test_F42_what_is_no_board),
        IN_SCRATCH(test_paths),
        IN_SCRATCH(test_F42_a_full_disk_kills_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
