/* Files read bounded, replaced whole, created once, recognised again. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include <cmocka.h>

#include "platform/file.h"
#include "tests/unit/scratch.h"

#define PROCESSES 8
#define LONG_SIZE 300000 /* many writes' worth */

static void test_reading_is_bounded(void **state)
{
    static const struct {
        const char *says;
        size_t size, max;
        enum error expected;
    } rows[] = {
        {"an empty file", 0, 0, ERROR_NONE},
        {"an empty file under a bound", 0, 10, ERROR_NONE},
        {"one byte where none is allowed", 1, 0, ERROR_TOO_LARGE},
        {"exactly the bound", 1000, 1000, ERROR_NONE},
        {"one more", 1001, 1000, ERROR_TOO_LARGE},
        {"far more", LONG_SIZE, 1000, ERROR_TOO_LARGE},
        {"a long one", LONG_SIZE, LONG_SIZE, ERROR_NONE},
    };
    static char content[LONG_SIZE];
    const char *path = scratch_path("f");

    (void)state;
    for (size_t i = 0; i < sizeof content; i++)
        content[i] = (char)(i * 7); /* with NULs */
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char untouched, *out = &untouched;
        size_t n = 12345;

        scratch_write(path, 0644, content, rows[i].size);
        enum error e = file_read(path, rows[i].max, &out, &n);
        if (e != rows[i].expected)
            fail_msg("%s: %d", rows[i].says, e);
        if (e != ERROR_NONE) {
            assert_ptr_equal(out, &untouched);
            assert_int_equal(n, 12345);
            continue;
        }
        assert_int_equal(n, rows[i].size);
        assert_memory_equal(out, content, n);
        assert_int_equal(out[n], '\0');
        free(out);
    }
}

/* Those of /proc say that they are empty. */
static void test_a_file_longer_than_it_says(void **state)
{
    static char expected[65536];
    FILE *f = fopen("/proc/self/limits", "r");
    char *out;
    size_t n;

    (void)state;
    assert_non_null(f);
    size_t length = fread(expected, 1, sizeof expected, f);
    fclose(f);
    assert_in_range(length, 1000, sizeof expected - 1);
    assert_int_equal(file_read("/proc/self/limits", length, &out, &n), ERROR_NONE);
    assert_int_equal(n, length);
    assert_string_equal(out, expected);
    free(out);
    assert_int_equal(file_read("/proc/self/limits", length - 1, &out, &n), ERROR_TOO_LARGE);
    assert_int_equal(file_read("/proc/self/limits", 0, &out, &n), ERROR_TOO_LARGE);
}

static void make_socket(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    assert_true(strlen(path) < sizeof address.sun_path);
    memcpy(address.sun_path, path, strlen(path));
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    close(fd);
}

static void test_what_is_no_file(void **state)
{
    static const struct {
        const char *name;
        enum error reading, opening, creating;
    } rows[] = {
        {"missing", ERROR_NOT_FOUND, ERROR_NOT_FOUND, ERROR_NONE},
        {"no/directory", ERROR_NOT_FOUND, ERROR_NOT_FOUND, ERROR_NOT_FOUND},
        {"file/below", ERROR_NOT_FOUND, ERROR_NOT_FOUND, ERROR_NOT_FOUND},
        {"directory", ERROR_NOT_REGULAR, ERROR_NOT_REGULAR, ERROR_NOT_REGULAR},
        {"fifo", ERROR_NOT_REGULAR, ERROR_NOT_REGULAR, ERROR_NOT_REGULAR},
        {"socket", ERROR_NOT_REGULAR, ERROR_NOT_REGULAR, ERROR_NOT_REGULAR},
        {"link-to-itself", ERROR_NOT_REGULAR, ERROR_NOT_REGULAR, ERROR_NOT_REGULAR},
        {"dangling", ERROR_NOT_FOUND, ERROR_NOT_REGULAR, ERROR_NOT_REGULAR},
        {"link", ERROR_NONE, ERROR_NOT_REGULAR, ERROR_NOT_REGULAR},
        {"file", ERROR_NONE, ERROR_NONE, ERROR_NONE},
    };

    (void)state;
    scratch_write(scratch_path("file"), 0600, "x", 1);
    assert_int_equal(mkdir(scratch_path("directory"), 0700), 0);
    assert_int_equal(mkfifo(scratch_path("fifo"), 0600), 0);
    make_socket(scratch_path("socket"));
    assert_int_equal(symlink("link-to-itself", scratch_path("link-to-itself")), 0);
    assert_int_equal(symlink("nowhere", scratch_path("dangling")), 0);
    assert_int_equal(symlink("file", scratch_path("link")), 0);

    alarm(SCRATCH_SECONDS); /* a FIFO must not hold us up */
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *path = scratch_path(rows[i].name);
        char *out;
        size_t n;
        int fd;

        enum error e = file_read(path, 10, &out, &n);
        if (e == ERROR_NONE)
            free(out);
        if (e != rows[i].reading)
            fail_msg("reading %s: %d", rows[i].name, e);
        for (int create = 0; create < 2; create++) {
            e = file_open(path, create, &fd);
            if (e == ERROR_NONE)
                close(fd);
            if (e != (create ? rows[i].creating : rows[i].opening))
                fail_msg("opening %s: %d", rows[i].name, e);
        }
    }
    alarm(0);
    assert_int_equal(access(scratch_path("nowhere"), F_OK), -1);
}

static void test_secrets_need_a_tight_mode(void **state)
{
    static const struct {
        mode_t mode;
        enum error owner_only, group_ok;
    } rows[] = {
        {0600, ERROR_NONE, ERROR_NONE},
        {0400, ERROR_NONE, ERROR_NONE},
        {0700, ERROR_NONE, ERROR_NONE},
        {0640, ERROR_LOOSE_MODE, ERROR_NONE},
        {0440, ERROR_LOOSE_MODE, ERROR_NONE},
        {0620, ERROR_LOOSE_MODE, ERROR_LOOSE_MODE},
        {0660, ERROR_LOOSE_MODE, ERROR_LOOSE_MODE},
        {0650, ERROR_LOOSE_MODE, ERROR_LOOSE_MODE},
        {0604, ERROR_LOOSE_MODE, ERROR_LOOSE_MODE},
        {0602, ERROR_LOOSE_MODE, ERROR_LOOSE_MODE},
        {0601, ERROR_LOOSE_MODE, ERROR_LOOSE_MODE},
        {0644, ERROR_LOOSE_MODE, ERROR_LOOSE_MODE},
    };
    const char *path = scratch_path("key");

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        scratch_write(path, rows[i].mode, "key", 3);
        for (int group_ok = 0; group_ok < 2; group_ok++) {
            char *out = NULL;
            size_t n;
            enum error e = file_read_secret(path, 3, group_ok, &out, &n);
            if (e != (group_ok ? rows[i].group_ok : rows[i].owner_only))
                fail_msg("mode %o, group_ok %d: %d", rows[i].mode, group_ok, e);
            free(out);
        }
        assert_int_equal(unlink(path), 0);
    }
}

static void assert_content(const char *path, const char *expected)
{
    char *out;
    size_t n;

    assert_int_equal(file_read(path, LONG_SIZE, &out, &n), ERROR_NONE);
    assert_string_equal(out, expected);
    free(out);
}

static void test_replacing(void **state)
{
    const char *path = scratch_path("f");
    struct stat st;

    (void)state;
    mode_t mask = umask(0077);
    assert_int_equal(file_replace(path, 0640, "one", 3), ERROR_NONE);
    umask(mask);
    assert_content(path, "one");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640); /* whatever the umask */
    assert_int_equal(file_replace(path, 0600, "", 0), ERROR_NONE);
    assert_content(path, "");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(file_replace(scratch_path("no/f"), 0600, "x", 1), ERROR_NOT_FOUND);
    assert_int_equal(scratch_count(), 1);
}

static void test_a_relative_path(void **state)
{
    int here = open(".", O_RDONLY | O_DIRECTORY);

    (void)state;
    assert_int_equal(chdir(scratch_directory), 0);
    assert_int_equal(file_replace("f", 0600, "x", 1), ERROR_NONE);
    assert_int_equal(file_create("g", 0600, "x", 1), ERROR_NONE);
    assert_int_equal(fchdir(here), 0);
    close(here);
    assert_content(scratch_path("f"), "x");
    assert_int_equal(scratch_count(), 2);
}

static void test_a_path_too_long(void **state)
{
    static char path[PATH_MAX + 10];

    (void)state;
    memset(path, 'a', sizeof path - 1);
    path[0] = '/';
    assert_int_equal(file_replace(path, 0600, "x", 1), ERROR_TOO_LARGE);
    assert_int_equal(file_create(path, 0600, "x", 1), ERROR_TOO_LARGE);
}

/* As on a full disk. */
static void test_what_cannot_be_written_leaves_the_old(void **state)
{
    const char *path = scratch_path("f"), *other = scratch_path("g");
    static const char longer[5000];

    (void)state;
    assert_int_equal(file_replace(path, 0600, "old", 3), ERROR_NONE);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit limit = {4096, 4096};
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &limit);
        enum error a = file_replace(path, 0600, longer, sizeof longer);
        int error = errno;
        enum error b = file_create(other, 0600, longer, sizeof longer);
        _exit(a == ERROR_SYSTEM && error == EFBIG && b == ERROR_SYSTEM ? 0 : 1);
    }
    assert_int_equal(scratch_wait(child), 0);
    assert_content(path, "old");
    assert_int_equal(scratch_count(), 1);
}

static void test_links_are_replaced_and_not_followed(void **state)
{
    const char *victim = scratch_path("victim"), *path = scratch_path("f");
    struct stat st;

    (void)state;
    scratch_write(victim, 0600, "mine", 4);
    assert_int_equal(symlink("victim", path), 0);
    /* an attacker who guesses the temporary name gains nothing either */
    assert_int_equal(symlink("victim", scratch_path("f.new0")), 0);
    assert_int_equal(file_replace(path, 0600, "new", 3), ERROR_NONE);
    assert_content(victim, "mine");
    assert_content(path, "new");
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISREG(st.st_mode));
}

static void test_creating_once(void **state)
{
    const char *path = scratch_path("f");

    (void)state;
    assert_int_equal(file_create(path, 0600, "one", 3), ERROR_NONE);
    assert_int_equal(file_create(path, 0600, "two", 3), ERROR_EXISTS);
    assert_content(path, "one");
    assert_int_equal(symlink("nowhere", scratch_path("dangling")), 0);
    assert_int_equal(file_create(scratch_path("dangling"), 0600, "x", 1), ERROR_EXISTS);
    assert_int_equal(mkdir(scratch_path("directory"), 0700), 0);
    assert_int_equal(file_create(scratch_path("directory"), 0600, "x", 1), ERROR_EXISTS);
    assert_int_equal(file_create(scratch_path("no/f"), 0600, "x", 1), ERROR_NOT_FOUND);
    assert_int_equal(scratch_count(), 3);
}

/* What a dead writer leaves may hold a key that must be forgotten. */
static void test_what_dead_writers_left_is_removed(void **state)
{
    const char *path = scratch_path("f");

    (void)state;
    scratch_write(scratch_path("f.new0"), 0600, "old key", 7);
    scratch_write(scratch_path("f.new7"), 0600, "older key", 9);
    scratch_write(scratch_path("f.new"), 0600, "somebody's", 10);
    assert_int_equal(file_replace(path, 0600, "x", 1), ERROR_NONE);
    assert_int_equal(scratch_count(), 2);
    assert_int_equal(access(scratch_path("f.new"), F_OK), 0);
}

static void test_what_a_live_writer_writes_is_left_alone(void **state)
{
    const char *live = scratch_path("f.new0");

    (void)state;
    scratch_write(live, 0600, "half", 4);
    int fd = open(live, O_RDONLY);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(file_replace(scratch_path("f"), 0600, "x", 1), ERROR_NONE);
    assert_content(live, "half");
    close(fd);
    assert_int_equal(file_replace(scratch_path("f"), 0600, "x", 1), ERROR_NONE);
    assert_int_equal(scratch_count(), 1);
}

/* Content that shows whether it is whole: one letter, LONG_SIZE times. */
static void write_letter(const char *path, int letter)
{
    static char content[LONG_SIZE];

    memset(content, letter, sizeof content);
    if (file_replace(path, 0600, content, sizeof content) != ERROR_NONE)
        _exit(1);
}

static void assert_whole(const char *path)
{
    char *out;
    size_t n;

    assert_int_equal(file_read(path, LONG_SIZE, &out, &n), ERROR_NONE);
    assert_int_equal(n, LONG_SIZE);
    for (size_t i = 1; i < n; i++) {
        if (out[i] != out[0])
            fail_msg("mixed at %zu", i);
    }
    free(out);
}

static void test_processes_that_replace_at_once(void **state)
{
    const char *path = scratch_path("f");
    pid_t children[PROCESSES];

    (void)state;
    write_letter(path, 'z');
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            for (unsigned round = 0; round < 10; round++)
                write_letter(path, 'a' + i);
            _exit(0);
        }
    }
    for (unsigned i = 0; i < 50; i++)
        assert_whole(path);
    for (int i = 0; i < PROCESSES; i++)
        assert_int_equal(scratch_wait(children[i]), 0);
    assert_whole(path);
    assert_int_equal(scratch_count(), 1);
}

static void test_a_writer_killed_anywhere(void **state)
{
    const char *path = scratch_path("f");

    (void)state;
    write_letter(path, 'z');
    for (unsigned round = 0; round < 30; round++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(SCRATCH_SECONDS);
            for (;;)
                write_letter(path, 'a' + (int)(round % 26));
        }
        for (unsigned i = 0; i < round; i++)
            assert_whole(path);
        kill(child, SIGKILL);
        assert_int_equal(scratch_wait(child), 1000 + SIGKILL);
        assert_whole(path);
    }
    write_letter(path, 'y');
    assert_int_equal(scratch_count(), 1);
}

/* All wait for the parent's end of a pipe to close, and then start at the same moment. */
static void test_of_processes_that_create_at_once_one_does(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 20; round++) {
        const char *path = scratch_path("f");
        pid_t children[PROCESSES];
        int gate[2], made = 0;

        assert_int_equal(pipe(gate), 0);
        for (int i = 0; i < PROCESSES; i++) {
            children[i] = fork();
            if (children[i] == 0) {
                char text[2] = {(char)('a' + i), '\0'}, unused;
                close(gate[1]);
                (void)!read(gate[0], &unused, 1);
                _exit((int)file_create(path, 0600, text, 1));
            }
        }
        close(gate[0]);
        close(gate[1]);
        char winner[2] = "?";
        for (int i = 0; i < PROCESSES; i++) {
            int status = scratch_wait(children[i]);
            assert_true(status == ERROR_NONE || status == ERROR_EXISTS);
            made += status == ERROR_NONE;
            winner[0] = status == ERROR_NONE ? (char)('a' + i) : winner[0];
        }
        assert_int_equal(made, 1);
        assert_content(path, winner);
        assert_int_equal(scratch_count(), 1);
        assert_int_equal(unlink(path), 0);
    }
}

/* A file that another process goes on lengthening is read whole or refused. */
static void test_a_file_that_grows_while_it_is_read(void **state)
{
    const char *path = scratch_path("f");
    size_t last = 0, n;
    char *out;

    (void)state;
    scratch_write(path, 0600, "", 0);
    pid_t child = fork();
    if (child == 0) {
        int fd = open(path, O_WRONLY | O_APPEND);
        for (unsigned i = 0; i < LONG_SIZE / 10; i++) {
            if (write(fd, "xxxxxxxxxx", 10) != 10)
                _exit(1);
        }
        _exit(0);
    }
    while (last < LONG_SIZE) {
        assert_int_equal(file_read(path, LONG_SIZE, &out, &n), ERROR_NONE);
        assert_true(n >= last && n <= LONG_SIZE);
        assert_int_equal(strspn(out, "x"), n);
        free(out);
        last = n;
        if (n > 1000)
            assert_int_equal(file_read(path, 1000, &out, &n), ERROR_TOO_LARGE);
    }
    assert_int_equal(scratch_wait(child), 0);
}

static void test_identity(void **state)
{
    const char *path = scratch_path("f");
    struct file_id open_id, path_id;
    int fd;

    (void)state;
    assert_int_equal(file_id_path(path, &path_id), ERROR_NOT_FOUND);
    assert_int_equal(file_open(path, true, &fd), ERROR_NONE);
    assert_int_equal(file_id_fd(fd, &open_id), ERROR_NONE);
    assert_int_equal(file_id_path(path, &path_id), ERROR_NONE);
    assert_true(file_id_equal(open_id, path_id));

    assert_int_equal(file_replace(path, 0600, "", 0), ERROR_NONE);
    assert_int_equal(file_id_path(path, &path_id), ERROR_NONE);
    assert_false(file_id_equal(open_id, path_id));

    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("elsewhere", path), 0);
    assert_int_equal(link(path, scratch_path("same")), 0);
    struct file_id other;
    assert_int_equal(file_id_path(path, &path_id), ERROR_NONE);
    assert_int_equal(file_id_path(scratch_path("same"), &other), ERROR_NONE);
    assert_true(file_id_equal(path_id, other));
    close(fd);
    assert_int_equal(file_id_fd(fd, &open_id), ERROR_SYSTEM);
}

static void set_time(const char *path, time_t seconds, long nanoseconds)
{
    struct timespec times[2] = {{seconds, nanoseconds}, {seconds, nanoseconds}};

    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void assert_changed(const char *path, struct file_stamp *last)
{
    struct file_stamp now = file_stamp(path);

    assert_true(file_stamp_equal(&now, &now));
    assert_false(file_stamp_equal(last, &now));
    *last = now;
}

static void test_F53_stamps(void **state)
{
    const char *path = scratch_path("f"), *way = scratch_path("link");
    struct file_stamp last = file_stamp(path), missing = file_stamp(scratch_path("g"));

    (void)state;
    assert_false(last.exists);
    assert_true(file_stamp_equal(&last, &missing));
    assert_int_equal(symlink("f", way), 0);
    assert_false(file_stamp(way).exists);

    scratch_write(path, 0600, "abc", 3);
    assert_true(file_stamp(path).exists);
    assert_changed(way, &last);
    scratch_write(path, 0600, "abcd", 4); /* another size */
    assert_changed(way, &last);
    set_time(path, 1000000000, 1);
    assert_changed(way, &last);
    assert_int_equal(last.mtime_ns, INT64_C(1000000000000000001));
    set_time(path, 1000000000, 2); /* by a nanosecond */
    assert_changed(way, &last);
    assert_int_equal(file_replace(path, 0600, "abcd", 4), ERROR_NONE);
    set_time(path, 1000000000, 2); /* another file of the same look */
    assert_changed(way, &last);
    assert_int_equal(unlink(path), 0);
    assert_changed(way, &last);
    assert_true(file_stamp_equal(&last, &missing));
}

/* Only the change time tells; it moves with the kernel's tick. */
static void test_F53_a_change_that_hides_its_time(void **state)
{
    const char *path = scratch_path("f");
    struct file_stamp first, now;
    time_t give_up = time(NULL) + 60;

    (void)state;
    scratch_write(path, 0600, "abc", 3);
    set_time(path, 1000000000, 0);
    first = file_stamp(path);
    do {
        scratch_write(path, 0600, "xyz", 3);
        set_time(path, 1000000000, 0);
        now = file_stamp(path);
        assert_int_equal(now.mtime_ns, first.mtime_ns);
    } while (file_stamp_equal(&first, &now) && time(NULL) < give_up);
    assert_false(file_stamp_equal(&first, &now));
}

static void test_times_out_of_this_world(void **state)
{
    const char *path = scratch_path("f");
    static const int64_t times[] = {-1, INT32_MIN, INT32_MAX, INT64_C(15000000000)};

    (void)state;
    scratch_write(path, 0600, "", 0);
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        if ((time_t)times[i] != times[i])
            continue; /* a machine with 32 bits of time */
        set_time(path, (time_t)times[i], 5);
        struct file_stamp stamp = file_stamp(path);
        assert_true(file_stamp_equal(&stamp, &stamp));
    }
}

#define IN_SCRATCH(f) cmocka_unit_test_setup_teardown(f, scratch_make, scratch_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_SCRATCH(test_reading_is_bounded),
        IN_SCRATCH(test_a_file_longer_than_it_says),
        IN_SCRATCH(test_what_is_no_file),
        IN_SCRATCH(test_secrets_need_a_tight_mode),
        IN_SCRATCH(test_replacing),
        IN_SCRATCH(test_a_relative_path),
        IN_SCRATCH(test_a_path_too_long),
        IN_SCRATCH(test_what_cannot_be_written_leaves_the_old),
        IN_SCRATCH(test_links_are_replaced_and_not_followed),
        IN_SCRATCH(test_creating_once),
        IN_SCRATCH(test_what_dead_writers_left_is_removed),
        IN_SCRATCH(test_what_a_live_writer_writes_is_left_alone),
        IN_SCRATCH(test_processes_that_replace_at_once),
        IN_SCRATCH(test_a_writer_killed_anywhere),
        IN_SCRATCH(test_of_processes_that_create_at_once_one_does),
        IN_SCRATCH(test_a_file_that_grows_while_it_is_read),
        IN_SCRATCH(test_identity),
        IN_SCRATCH(test_F53_stamps),
        IN_SCRATCH(test_F53_a_change_that_hides_its_time),
        IN_SCRATCH(test_times_out_of_this_world),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
