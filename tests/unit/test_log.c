/*
 * The log: what is written, and that nothing about standard error can hold up or end the
 * process. Standard error is exchanged for files, pipes and sockets; syslog's library calls
 * are caught here.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <time.h>

#include <cmocka.h>

#include "platform/log.h"
#include "tests/unit/scratch.h"

#define PREFIX  "pennygate: level=error "
#define THREADS 4
#define LINES   2000

static int standard_error = -1; /* the real one, meanwhile */

/* A failed assertion must still find its way out, so each test's end comes here too. */
static int restore(void **state)
{
    (void)state;
    fflush(stderr);
    dup2(standard_error, STDERR_FILENO);
    close(standard_error);
    log_open(LOG_TARGET_STDERR, LOG_FORMAT_WORDS, LOG_LEVEL_WARNING);
    return scratch_remove(state);
}

static int redirect(void **state)
{
    standard_error = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
    return standard_error < 0 ? -1 : scratch_make(state);
}

static void set_standard_error(int fd)
{
    assert_int_equal(dup2(fd, STDERR_FILENO), STDERR_FILENO);
    close(fd);
}

static void log_to_file(enum log_level most)
{
    set_standard_error(
        open(scratch_path("log"), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600));
    log_open(LOG_TARGET_STDERR, LOG_FORMAT_WORDS, most);
}

#define NAME  "pennygate: "
#define STAMP "time=2026-01-31T23:59:59Z "

/* Takes a line's time out, which is that of now. */
static void take_stamp(char *line)
{
    char *stamp = line + strlen(NAME);
    struct tm utc = {0};

    assert_memory_equal(line, NAME, strlen(NAME));
    assert_true(strlen(stamp) > strlen(STAMP));
    const char *end = strptime(stamp, "time=%Y-%m-%dT%H:%M:%SZ ", &utc);
    assert_ptr_equal(end, stamp + strlen(STAMP));
    assert_in_range(timegm(&utc), time(NULL) - 60, time(NULL) + 1);
    memmove(stamp, end, strlen(end) + 1);
}

static void take_stamps(char *text)
{
    for (char *line = text; *line != '\0'; line = strchr(line, '\n') + 1)
        take_stamp(line);
}

/* What the file has got, without the times; starts it anew. */
static const char *logged(void)
{
    static char text[256 * LOG_LINE_MAX];
    int fd = open(scratch_path("log"), O_RDWR | O_CLOEXEC);
    ssize_t n = read(fd, text, sizeof text - 1);

    assert_true(n >= 0);
    text[n] = '\0';
    assert_int_equal(ftruncate(fd, 0), 0);
    close(fd);
    take_stamps(text);
    return text;
}

static void test_untrusted_text_is_escaped(void **state)
{
    static const struct {
        const char *text, *written;
    } rows[] = {
        {"status=429 code=busy", "status=429 code=busy"},
        {"", ""},
        {"forged\npennygate: level=error", "forged\\x0apennygate: level=error"},
        {"\r\n\t", "\\x0d\\x0a\\x09"},
        {"\x1b[31mred", "\\x1b[31mred"},
        {"\x01\x1f\x20\x7e\x7f", "\\x01\\x1f ~\\x7f"},
        {"say \"x\"", "say \\x22x\\x22"},
        {"back\\slash", "back\\x5cslash"},
        {"\\x0a", "\\x5cx0a"},
        {"caf\xc3\xa9", "caf\xc3\xa9"},
        {"100%s%n", "100%s%n"},
    };

    (void)state;
    log_to_file(LOG_LEVEL_WARNING);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char expected[200];
        snprintf(expected, sizeof expected, PREFIX "%s\n", rows[i].written);
        log_line(LOG_LEVEL_ERROR, "%s", rows[i].text);
        assert_string_equal(logged(), expected);
    }
    log_line(LOG_LEVEL_WARNING, "n=%d key=%s", -3, "a\nb");
    assert_string_equal(logged(), "pennygate: level=warning n=-3 key=a\\x0ab\n");
}

static void test_a_line_is_bounded(void **state)
{
    static char text[3 * LOG_LINE_MAX];
    size_t room = LOG_LINE_MAX - strlen(PREFIX STAMP) - 1;

    (void)state;
    log_to_file(LOG_LEVEL_WARNING);
    for (size_t n = room - 5; n < room + 5; n++) {
        memset(text, 'x', n);
        text[n] = '\0';
        log_line(LOG_LEVEL_ERROR, "%s", text);
        const char *line = logged();
        size_t expected = n < room ? n : room;
        assert_int_equal(strlen(line), strlen(PREFIX) + expected + 1);
        assert_int_equal(strspn(line + strlen(PREFIX), "x"), expected);
        assert_int_equal(line[strlen(line) - 1], '\n');
    }
    /* never half an escape, wherever it falls */
    for (size_t n = room - 5; n <= room; n++) {
        memset(text, 'x', n);
        memcpy(text + n, "\n", 2);
        log_line(LOG_LEVEL_ERROR, "%s", text);
        const char *line = logged();
        bool fits = n + 4 <= room;
        assert_int_equal(strlen(line), strlen(PREFIX) + n + (fits ? 4 : 0) + 1);
        assert_int_equal(strstr(line, "\\x0a\n") != NULL, fits);
    }
    memset(text, '\n', sizeof text - 1);
    log_line(LOG_LEVEL_ERROR, "%s", text);
    assert_true(strlen(logged()) <= LOG_LINE_MAX - strlen(STAMP));
}

static void test_levels(void **state)
{
    static const char *const written[] = {
        "pennygate: level=error e\n",
        "pennygate: level=error e\npennygate: level=warning w\n",
        "pennygate: level=error e\npennygate: level=warning w\npennygate: level=info i\n",
    };

    (void)state;
    for (int most = LOG_LEVEL_ERROR; most <= LOG_LEVEL_INFO; most++) {
        log_to_file((enum log_level)most);
        log_line(LOG_LEVEL_ERROR, "e");
        log_line(LOG_LEVEL_WARNING, "w");
        log_line(LOG_LEVEL_INFO, "i");
        assert_string_equal(logged(), written[most]);
    }
}

static void test_errno_is_kept(void **state)
{
    (void)state;
    set_standard_error(open("/dev/full", O_WRONLY | O_CLOEXEC));
    log_open(LOG_TARGET_STDERR, LOG_FORMAT_WORDS, LOG_LEVEL_WARNING);
    errno = EINTR;
    log_line(LOG_LEVEL_ERROR, "x");
    assert_int_equal(errno, EINTR);
}

/* A datagram socket keeps writes apart. */
static void test_a_line_is_one_write(void **state)
{
    int ends[2];
    char text[2 * LOG_LINE_MAX];

    (void)state;
    log_to_file(LOG_LEVEL_WARNING); /* leaves descriptor 2 itself in use */
    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends), 0);
    set_standard_error(ends[0]);
    for (int opened = 0; opened < 2; opened++) {
        if (opened)
            log_open(LOG_TARGET_STDERR, LOG_FORMAT_WORDS, LOG_LEVEL_WARNING);
        log_line(LOG_LEVEL_ERROR, "one\ntwo");
        log_line(LOG_LEVEL_ERROR, "three");
        ssize_t n = recv(ends[1], text, sizeof text - 1, MSG_DONTWAIT);
        assert_true(n > 0);
        text[n] = '\0';
        take_stamp(text);
        assert_string_equal(text, PREFIX "one\\x0atwo\n");
        n = recv(ends[1], text, sizeof text - 1, MSG_DONTWAIT);
        assert_true(n > 0);
        text[n] = '\0';
        take_stamp(text);
        assert_string_equal(text, PREFIX "three\n");
        assert_int_equal(recv(ends[1], text, sizeof text, MSG_DONTWAIT), -1);
    }
    close(ends[1]);
}

static void *log_lines(void *data)
{
    for (unsigned i = 0; i < LINES; i++)
        log_line(LOG_LEVEL_ERROR, "%s", (const char *)data);
    return NULL;
}

static void log_from_threads(void)
{
    static char text[100] = "a line that is not so short that it is written by accident";
    pthread_t threads[THREADS];

    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, log_lines, text), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

/* Reads what is there, and returns how many lines it was; all of them whole. */
static unsigned drain(int fd)
{
    static char text[4 << 20];
    size_t n = 0;
    ssize_t got;
    unsigned lines = 0;

    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    while ((got = read(fd, text + n, sizeof text - n - 1)) > 0)
        n += (size_t)got;
    text[n] = '\0';
    for (char *line = text; *line; lines++) {
        char *end = strchr(line, '\n');
        assert_non_null(end);
        assert_memory_equal(line, NAME, strlen(NAME));
        assert_memory_equal(line + strlen(NAME STAMP), "level=error a line that",
                            strlen("level=error a line that"));
        line = end + 1;
    }
    return lines;
}

/* Nobody reads: the web server hangs. Blocked, a thread would run into the alarm. */
static void test_F54_a_full_pipe_holds_up_nobody(void **state)
{
    int ends[2];

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    set_standard_error(ends[1]);
    log_open(LOG_TARGET_STDERR, LOG_FORMAT_WORDS, LOG_LEVEL_WARNING);
    assert_int_equal(fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK, 0); /* others share it */
    alarm(SCRATCH_SECONDS);
    log_from_threads();
    alarm(0);
    unsigned lines = drain(ends[0]);
    assert_in_range(lines, 100, THREADS * LINES - 1);

    log_line(LOG_LEVEL_ERROR, "a line that comes when there is room again");
    assert_int_equal(drain(ends[0]), 1);
    close(ends[0]);
}

static void test_F54_a_full_pipe_before_log_open(void **state)
{
    static char text[] = "a line that is long enough";
    int ends[2];

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    log_to_file(LOG_LEVEL_WARNING); /* leaves descriptor 2 itself in use */
    set_standard_error(ends[1]);
    alarm(SCRATCH_SECONDS);
    log_lines(text);
    alarm(0);
    assert_true(drain(ends[0]) > 100);
    close(ends[0]);
}

static void test_F54_a_full_socket_holds_up_nobody(void **state)
{
    int ends[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    set_standard_error(ends[0]);
    log_open(LOG_TARGET_STDERR, LOG_FORMAT_WORDS, LOG_LEVEL_WARNING);
    alarm(SCRATCH_SECONDS);
    log_from_threads();
    alarm(0);
    assert_in_range(drain(ends[1]), 100, THREADS * LINES - 1);
    close(ends[1]);
}

/* A child each: what would go wrong is its end by SIGPIPE. */
static void test_a_reader_that_has_gone(void **state)
{
    (void)state;
    log_to_file(LOG_LEVEL_WARNING);
    for (int as_socket = 0; as_socket < 2; as_socket++) {
        for (int opened = 0; opened < 2; opened++) {
            pid_t child = fork();
            if (child == 0) {
                int ends[2];
                signal(SIGPIPE, SIG_DFL);
                if ((as_socket ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends)) != 0)
                    _exit(1);
                dup2(ends[1], STDERR_FILENO);
                close(ends[1]);
                if (opened)
                    log_open(LOG_TARGET_STDERR, LOG_FORMAT_WORDS, LOG_LEVEL_WARNING);
                close(ends[0]);
                log_line(LOG_LEVEL_ERROR, "x");
                log_line(LOG_LEVEL_ERROR, "x");
                _exit(0);
            }
            assert_int_equal(scratch_wait(child), 0);
        }
    }
}

/* A file that is opened later may get the number 2: lines must never end up in it. */
static void test_a_closed_standard_error_stays_closed(void **state)
{
    (void)state;
    close(STDERR_FILENO);
    log_open(LOG_TARGET_STDERR, LOG_FORMAT_WORDS, LOG_LEVEL_WARNING);
    log_line(LOG_LEVEL_ERROR, "x");
    int store = open(scratch_path("log"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(store, STDERR_FILENO);
    log_line(LOG_LEVEL_ERROR, "x");
    assert_string_equal(logged(), "");
    log_open(LOG_TARGET_STDERR, LOG_FORMAT_WORDS,
             LOG_LEVEL_WARNING); /* does not close it either */
    assert_int_equal(fcntl(store, F_GETFD), FD_CLOEXEC);
}

static void test_a_condition_that_holds_is_told_once_a_minute(void **state)
{
    struct log_once place = {0}, other = {0};

    (void)state;
    log_to_file(LOG_LEVEL_WARNING);
    for (unsigned i = 0; i < 1000; i++)
        log_line_once(&place, 0, LOG_LEVEL_ERROR, "error=%d", 0);
    assert_string_equal(logged(), PREFIX "error=0\n");
    assert_int_equal(place.suppressed, 999);

    log_line_once(&other, 0, LOG_LEVEL_ERROR, "elsewhere");
    assert_string_equal(logged(), PREFIX "elsewhere\n");

    log_line_once(&place, 5, LOG_LEVEL_ERROR, "error=%d", 5); /* another condition */
    assert_string_equal(logged(), PREFIX "error=5 suppressed=999\n");
    log_line_once(&place, 5, LOG_LEVEL_ERROR, "error=%d", 5);
    assert_string_equal(logged(), "");
    log_line_once(&place, 0, LOG_LEVEL_ERROR, "error=%d", 0); /* and back */
    assert_string_equal(logged(), PREFIX "error=0 suppressed=1\n");

    struct timespec t;
    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &t), 0);
    long long now_ms = (long long)t.tv_sec * 1000 + t.tv_nsec / 1000000;
    assert_in_range(place.next_ms, now_ms + 50000, now_ms + 60000);
    log_line_once(&place, 0, LOG_LEVEL_ERROR, "error=%d", 0);
    place.next_ms = now_ms + 60000; /* not yet */
    log_line_once(&place, 0, LOG_LEVEL_ERROR, "error=%d", 0);
    assert_string_equal(logged(), "");
    place.next_ms = now_ms; /* the minute has passed */
    log_line_once(&place, 0, LOG_LEVEL_ERROR, "error=%d", 0);
    assert_string_equal(logged(), PREFIX "error=0 suppressed=2\n");
}

static void test_the_count_is_there_on_a_line_that_is_cut(void **state)
{
    static char text[2 * LOG_LINE_MAX];
    struct log_once place = {.key = 1, .next_ms = INT64_MAX, .suppressed = 4294967295u};

    (void)state;
    memset(text, '\n', sizeof text - 1);
    log_to_file(LOG_LEVEL_WARNING);
    log_line_once(&place, 2, LOG_LEVEL_ERROR, "%s", text);
    const char *line = logged();
    assert_true(strlen(line) <= LOG_LINE_MAX);
    assert_non_null(strstr(line, "\\x0a suppressed=4294967295\n"));
}

static void test_a_level_not_wanted_counts_nothing(void **state)
{
    struct log_once place = {0};

    (void)state;
    log_to_file(LOG_LEVEL_ERROR);
    log_line_once(&place, 1, LOG_LEVEL_WARNING, "x");
    assert_int_equal(place.key, 0);
    assert_int_equal(place.suppressed, 0);
    assert_string_equal(logged(), "");
}

static void *log_once_lines(void *data)
{
    for (unsigned i = 0; i < LINES; i++)
        log_line_once(data, 7, LOG_LEVEL_ERROR, "x");
    return NULL;
}

static void test_threads_that_tell_the_same(void **state)
{
    struct log_once place = {0};
    pthread_t threads[THREADS];

    (void)state;
    log_to_file(LOG_LEVEL_WARNING);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, log_once_lines, &place), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_string_equal(logged(), PREFIX "x\n");
    assert_int_equal(place.suppressed, THREADS * LINES - 1);
}

/* In place of the C library's. <syslog.h> is not included: it may define them inline. */
static struct {
    char ident[32], text[2 * LOG_LINE_MAX];
    int options, facility, priority;
    unsigned calls;
} caught;

void openlog(const char *ident, int options, int facility);
void syslog(int priority, const char *format, ...) __attribute__((format(printf, 2, 3)));
void __syslog_chk(int priority, int flag, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

void openlog(const char *ident, int options, int facility)
{
    snprintf(caught.ident, sizeof caught.ident, "%s", ident);
    caught.options = options;
    caught.facility = facility;
}

void syslog(int priority, const char *format, ...)
{
    va_list values;

    va_start(values, format);
    vsnprintf(caught.text, sizeof caught.text, format, values);
    va_end(values);
    caught.priority = priority;
    caught.calls++;
}

/* What glibc makes of it with _FORTIFY_SOURCE. */
void __syslog_chk(int priority, int flag, const char *format, ...)
{
    va_list values;

    (void)flag;
    va_start(values, format);
    vsnprintf(caught.text, sizeof caught.text, format, values);
    va_end(values);
    caught.priority = priority;
    caught.calls++;
}

static void test_syslog(void **state)
{
    static const struct {
        enum log_level level;
        int priority; /* RFC 5424: 3 error, 4 warning, 6 informational */
        const char *text;
    } rows[] = {
        {LOG_LEVEL_ERROR, 3, "level=error a=%s\\x0a"},
        {LOG_LEVEL_WARNING, 4, "level=warning a=%s\\x0a"},
        {LOG_LEVEL_INFO, 6, "level=info a=%s\\x0a"},
    };

    (void)state;
    log_to_file(LOG_LEVEL_INFO);
    log_open(LOG_TARGET_SYSLOG, LOG_FORMAT_WORDS, LOG_LEVEL_INFO);
    assert_string_equal(caught.ident, "pennygate");
    assert_int_equal(caught.facility, 3 << 3); /* daemon */
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        log_line(rows[i].level, "a=%s", "%s\n");
        assert_int_equal(caught.priority & 7, rows[i].priority);
        assert_string_equal(caught.text, rows[i].text);
    }
    log_open(LOG_TARGET_SYSLOG, LOG_FORMAT_WORDS, LOG_LEVEL_ERROR);
    log_line(LOG_LEVEL_INFO, "x");
    assert_int_equal(caught.calls, 3);
    assert_string_equal(logged(), "");
}

/* What the file has got, as it is. */
static const char *logged_json(void)
{
    static char text[4 * LOG_LINE_MAX];
    int fd = open(scratch_path("log"), O_RDWR | O_CLOEXEC);
    ssize_t n = read(fd, text, sizeof text - 1);

    assert_true(n >= 0);
    text[n] = '\0';
    assert_int_equal(ftruncate(fd, 0), 0);
    close(fd);
    return text;
}

static void test_an_object_stands_alone_on_its_line(void **state)
{
    static const char line[] =
        "{\"time\":\"1970-01-01T00:00:01Z\",\"level\":\"info\",\"n\":1,\"message\":\"so\"}";
    struct log_once place = {.key = 1, .next_ms = INT64_MAX, .suppressed = 3};

    (void)state;
    log_to_file(LOG_LEVEL_INFO);
    log_open(LOG_TARGET_STDERR, LOG_FORMAT_JSON, LOG_LEVEL_INFO);
    log_line_at(1, LOG_LEVEL_INFO, "n=%d so", 1);
    const char *text = logged_json();
    assert_memory_equal(text, line, strlen(line));
    assert_string_equal(text + strlen(line), "\n");

    log_line_once(&place, 2, LOG_LEVEL_INFO, "x");
    assert_non_null(
        strstr(logged_json(), "\"level\":\"info\",\"suppressed\":3,\"message\":\"x\"}\n"));

    log_open(LOG_TARGET_SYSLOG, LOG_FORMAT_JSON, LOG_LEVEL_INFO);
    log_line_at(1, LOG_LEVEL_INFO, "n=%d so", 1);
    assert_string_equal(caught.text, line);
    assert_string_equal(logged_json(), "");
}

static void test_what_is_not_written_is_known_before(void **state)
{
    (void)state;
    log_to_file(LOG_LEVEL_WARNING);
    assert_true(log_writes(LOG_LEVEL_ERROR));
    assert_true(log_writes(LOG_LEVEL_WARNING));
    assert_false(log_writes(LOG_LEVEL_INFO));
    log_line_at(1, LOG_LEVEL_INFO, "x");
    assert_string_equal(logged(), "");
}

#define REDIRECTED(f) cmocka_unit_test_setup_teardown(f, redirect, restore)

int main(void)
{
    const struct CMUnitTest tests[] = {
        REDIRECTED(test_untrusted_text_is_escaped),
        REDIRECTED(test_a_line_is_bounded),
        REDIRECTED(test_levels),
        REDIRECTED(test_errno_is_kept),
        REDIRECTED(test_a_line_is_one_write),
        REDIRECTED(test_F54_a_full_pipe_holds_up_nobody),
        REDIRECTED(test_F54_a_full_pipe_before_log_open),
        REDIRECTED(test_F54_a_full_socket_holds_up_nobody),
        REDIRECTED(test_a_reader_that_has_gone),
        REDIRECTED(test_a_closed_standard_error_stays_closed),
        REDIRECTED(test_a_condition_that_holds_is_told_once_a_minute),
        REDIRECTED(test_the_count_is_there_on_a_line_that_is_cut),
        REDIRECTED(test_a_level_not_wanted_counts_nothing),
        REDIRECTED(test_threads_that_tell_the_same),
        REDIRECTED(test_syslog),
        REDIRECTED(test_an_object_stands_alone_on_its_line),
        REDIRECTED(test_what_is_not_written_is_known_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
