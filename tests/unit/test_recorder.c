/* The recorder: a queue that keeps nobody, and who writes what is in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "gateway/recorder.h"
#include "platform/clock.h"
#include "platform/log.h"
#include "store/archive.h"
#include "tests/unit/kv_scratch.h"

#define QUEUED    256 /* at most, and so many bytes: what gateway/recorder.c promises */
#define QUEUED_KB 1024
#define SOON_MS   1000
#define THREADS   4
#define EACH      50

static struct config config;
static char letters[TRANSCRIPT_MAX];

static int setup(void **state)
{
    int rc = scratch_make(state);

    memset(letters, 'x', sizeof letters);
    config = (struct config){
        .store = scratch_directory,
        .transcripts = true,
        .transcripts_keep_ms = 30 * (int64_t)86400000,
        .transcripts_size = (size_t)16 << 20,
    };
    return rc;
}

static struct recorder *new_recorder(bool single)
{
    struct recorder *r = NULL;

    assert_error(recorder_new(single, &r), ERROR_NONE);
    return r;
}

/* ---- what is logged ---- */

static int standard_error, log_file;

static void capture(void)
{
    FILE *file = tmpfile();

    assert_non_null(file);
    fflush(stderr);
    log_file = dup(fileno(file));
    standard_error = dup(STDERR_FILENO);
    assert_int_equal(dup2(log_file, STDERR_FILENO), STDERR_FILENO);
    log_open(LOG_TARGET_STDERR, LOG_FORMAT_WORDS, LOG_LEVEL_WARNING);
    fclose(file);
}

static void assert_logged(const char *text)
{
    char lines[1024];
    ssize_t n = pread(log_file, lines, sizeof lines - 1, 0);

    fflush(stderr);
    dup2(standard_error, STDERR_FILENO);
    close(standard_error);
    close(log_file);
    assert_true(n >= 0);
    lines[n] = '\0';
    if (strstr(lines, text) == NULL)
        fail_msg("not logged: %s", text);
}

static void put(struct recorder *r, size_t n_answer)
{
    struct transcript t = {.id = "i", .model = "m", .subject = "s", .result = "ok"};

    t.answer = (struct transcript_text){letters, n_answer};
    recorder_put(r, &config, &t);
}

static unsigned count(void)
{
    const struct archive_options o = {.store = scratch_directory,
                                      .map_bytes = config.transcripts_size,
                                      .keep_ms = config.transcripts_keep_ms,
                                      .clock = clock_read};
    struct transcript_key key = archive_first;
    struct archive *a = NULL;
    unsigned rows = 0;
    enum error e;
    uint8_t *row;
    size_t n;

    assert_error(archive_new(&o, &a), ERROR_NONE);
    while ((e = archive_next(a, &key, &row, &n, WAIT_MS)) == ERROR_NONE) {
        free(row);
        rows++;
    }
    assert_true(e == ERROR_NOT_FOUND || e == ERROR_STORE_MISSING);
    archive_free(a);
    return rows;
}

/* The archive, held as another process would. */
static int hold(void)
{
    mkdir(scratch_path("transcripts"), 0700);
    int fd = open(scratch_path("transcripts"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    assert_int_equal(flock(fd, LOCK_EX), 0);
    return fd;
}

static void test_who_keeps_nothing_makes_nothing(void **state)
{
    struct recorder *r = new_recorder(false);

    (void)state;
    assert_true(recorder_free(r, 0));
    assert_true(recorder_free(NULL, 0));
    assert_int_equal(scratch_count(), 0);
}

static void test_what_is_put_is_written_before_the_end(void **state)
{
    struct recorder *r = new_recorder(false);

    (void)state;
    for (int i = 0; i < 200; i++)
        put(r, 100);
    assert_true(recorder_free(r, WAIT_MS));
    assert_int_equal(count(), 200);
}

static void *put_many(void *arg)
{
    for (int i = 0; i < EACH; i++)
        put(arg, 100);
    return NULL;
}

static void test_many_threads_put(void **state)
{
    struct recorder *r = new_recorder(false);
    pthread_t threads[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, put_many, r), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_true(recorder_free(r, WAIT_MS));
    assert_int_equal(count(), THREADS * EACH);
}

static const struct {
    const char *what;
    size_t n_answer;
    unsigned wanted;
} floods[] = {
    {"many small ones", 100, QUEUED},
    {"few large ones", TRANSCRIPT_MAX, QUEUED_KB * 1024 / TRANSCRIPT_MAX},
};

static void test_a_stuck_archive_costs_its_bound_and_no_time(void **state)
{
    for (size_t i = 0; i < sizeof floods / sizeof floods[0]; i++) {
        struct recorder *r = new_recorder(false);
        int fd = hold();
        int64_t begin = clock_monotonic_ms();

        print_message("%s\n", floods[i].what);
        for (int k = 0; k < 400; k++)
            put(r, floods[i].n_answer);
        assert_true(clock_monotonic_ms() - begin < SOON_MS);
        close(fd);
        assert_true(recorder_free(r, WAIT_MS));
        assert_int_equal(count(), floods[i].wanted);
        scratch_remove(state);
        assert_int_equal(scratch_make(state), 0);
    }
}

static void test_a_stop_does_not_wait_for_a_stuck_archive(void **state)
{
    struct recorder *r = new_recorder(false);
    int64_t begin = clock_monotonic_ms();
    int fd = hold();

    (void)state;
    put(r, 100);
    recorder_stop(r);
    assert_false(recorder_free(r, 50));
    assert_true(clock_monotonic_ms() - begin < SOON_MS);
    close(fd);
    assert_true(recorder_free(r, WAIT_MS));
    assert_int_equal(count(), 1);
}

static void test_why_one_is_not_kept_is_told(void **state)
{
    const struct transcript nameless = {.id = "", .model = "m", .subject = "s", .result = "ok"};
    struct recorder *r = new_recorder(true);

    (void)state;
    capture();
    recorder_put(r, &config, &nameless);
    assert_logged("a transcript is not kept: it cannot be written as a row");
    for (int i = 0; i < QUEUED; i++)
        put(r, 1);
    capture();
    put(r, 1);
    assert_logged("a transcript is not kept: too many wait");
    assert_true(recorder_free(r, WAIT_MS));
}

static void test_after_a_stop_nothing_is_taken(void **state)
{
    struct recorder *r = new_recorder(false);

    (void)state;
    recorder_stop(r);
    capture();
    put(r, 100);
    assert_logged("a transcript is not kept: the process is leaving");
    assert_false(recorder_waits(r));
    assert_true(recorder_free(r, WAIT_MS));
    assert_int_equal(count(), 0);
}

static void test_a_process_of_one_request_writes_by_itself(void **state)
{
    struct recorder *r = new_recorder(true);

    (void)state;
    assert_false(recorder_waits(r));
    put(r, 100);
    assert_true(recorder_waits(r));
    assert_int_equal(scratch_count(), 0); /* not yet */
    recorder_run(r);
    assert_false(recorder_waits(r));
    assert_int_equal(count(), 1);
    put(r, 100); /* never run */
    assert_true(recorder_free(r, 0));
    assert_int_equal(count(), 1);
}

static void test_another_time_to_keep_is_taken_up(void **state)
{
    struct recorder *r = new_recorder(true);

    (void)state;
    put(r, 100);
    recorder_run(r);
    poll(NULL, 0, 2); /* until the clock has gone on */
    config.transcripts_keep_ms = 1;
    put(r, 100);
    poll(NULL, 0, 2);
    recorder_run(r);
    assert_true(recorder_free(r, 0));
    config.transcripts_keep_ms = WAIT_MS;
    assert_int_equal(count(), 1);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, scratch_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_who_keeps_nothing_makes_nothing),
        T(test_what_is_put_is_written_before_the_end),
        T(test_many_threads_put),
        T(test_a_stuck_archive_costs_its_bound_and_no_time),
        T(test_a_stop_does_not_wait_for_a_stuck_archive),
        T(test_why_one_is_not_kept_is_told),
        T(test_after_a_stop_nothing_is_taken),
        T(test_a_process_of_one_request_writes_by_itself),
        T(test_another_time_to_keep_is_taken_up),
    };

    log_open(LOG_TARGET_STDERR, LOG_FORMAT_WORDS, LOG_LEVEL_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
