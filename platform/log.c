/*
 * The log. It must never hold up or fail a request: a line that cannot be written at once is
 * lost. Under FastCGI and CGI standard error is the web server's, mostly a pipe, and a full
 * pipe would block a worker for as long as its reader likes.
 */
#include "platform/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include "platform/clock.h"

#define PROGRAM   "pennygate"
#define REPEAT_MS 60000 /* log_line_once: a minute */

static const struct {
    const char *word;
    int priority;
} levels[] = {
    [LOG_LEVEL_ERROR] = {"error", LOG_ERR},
    [LOG_LEVEL_WARNING] = {"warning", LOG_WARNING},
    [LOG_LEVEL_INFO] = {"info", LOG_INFO},
};

/* Set before threads are started, read by all. */
static struct {
    enum log_target target;
    enum log_format format;
    enum log_level most;
    int fd;
    bool is_socket;
} sink = {LOG_TARGET_STDERR, LOG_FORMAT_WORDS, LOG_LEVEL_WARNING, STDERR_FILENO, false};

static pthread_mutex_t once_lock = PTHREAD_MUTEX_INITIALIZER;

/*
 * A pipe is opened a second time, without blocking. Setting O_NONBLOCK on descriptor 2 itself
 * would change it for the web server and everybody else who shares it.
 */
static void open_standard_error(void)
{
    struct stat st;

    sink.fd = -1;
    sink.is_socket = false;
    if (fstat(STDERR_FILENO, &st) != 0)
        return; /* closed: what has its number later must never receive log lines */
    sink.fd = STDERR_FILENO;
    sink.is_socket = S_ISSOCK(st.st_mode);
    if (S_ISFIFO(st.st_mode)) {
        int own = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_CLOEXEC);
        if (own >= 0)
            sink.fd = own;
    }
}

void log_open(enum log_target target, enum log_format format, enum log_level most)
{
    if (sink.fd > STDERR_FILENO)
        close(sink.fd);
    sink.target = target;
    sink.format = format;
    sink.most = most;
    if (target == LOG_TARGET_SYSLOG)
        openlog(PROGRAM, LOG_PID | LOG_NDELAY, LOG_DAEMON);
    else
        open_standard_error();
}

/* Asked before each write: a reader that has gone would otherwise mean SIGPIPE. */
static bool is_ready(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};

    return poll(&p, 1, 0) == 1 && p.revents == POLLOUT;
}

/* What cannot be written is lost: there is nobody left to tell. */
static void write_line(const char *line, size_t n)
{
    ssize_t put = 0;

    if (sink.is_socket)
        put = send(sink.fd, line, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    else if (is_ready(sink.fd))
        put = write(sink.fd, line, n);
    (void)put;
}

static logform_fn *const forms[] = {
    [LOG_FORMAT_WORDS] = logform_words,
    [LOG_FORMAT_JSON] = logform_json,
};

__attribute__((format(printf, 4, 0))) static void emit(int64_t time_s, enum log_level level,
                                                       unsigned suppressed, const char *format,
                                                       va_list values)
{
    const bool is_syslog = sink.target == LOG_TARGET_SYSLOG;
    char text[LOG_LINE_MAX], line[LOG_LINE_MAX + 1];
    struct logform l = {PROGRAM, time_s, levels[level].word, text, suppressed};
    int saved = errno;

    if (vsnprintf(text, sizeof text, format, values) < 0)
        text[0] = '\0';
    if (is_syslog)
        l.program = NULL;
    if (is_syslog && sink.format == LOG_FORMAT_WORDS)
        l.time_s = -1;
    size_t n = forms[sink.format](&l, line);
    if (is_syslog)
        syslog(levels[level].priority, "%.*s", (int)n - 1, line);
    else
        write_line(line, n);
    errno = saved;
}

bool log_writes(enum log_level level)
{
    return level <= sink.most;
}

void log_line_at(int64_t time_s, enum log_level level, const char *format, ...)
{
    va_list values;

    if (!log_writes(level))
        return;
    va_start(values, format);
    emit(time_s, level, 0, format, values);
    va_end(values);
}

void log_line(enum log_level level, const char *format, ...)
{
    va_list values;

    if (!log_writes(level))
        return;
    va_start(values, format);
    emit(clock_wall_s(), level, 0, format, values);
    va_end(values);
}

/* Whether to write now; then *suppressed is how many lines were left out before. */
static bool is_due(struct log_once *state, int key, unsigned *suppressed)
{
    int64_t now_ms = clock_monotonic_ms();

    pthread_mutex_lock(&once_lock);
    bool due = key != state->key || now_ms >= state->next_ms;
    if (due) {
        *suppressed = state->suppressed;
        *state = (struct log_once){.key = key, .next_ms = now_ms + REPEAT_MS};
    } else {
        state->suppressed++;
    }
    pthread_mutex_unlock(&once_lock);
    return due;
}

/* FNV-1a, without the sign. */
int log_key(const char *text)
{
    uint32_t hash = 2166136261U;

    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * 16777619U;
    return (int)(hash >> 1);
}

void log_line_once(struct log_once *state, int key, enum log_level level, const char *format,
                   ...)
{
    va_list values;
    unsigned suppressed;

    if (!log_writes(level) || !is_due(state, key, &suppressed))
        return;
    va_start(values, format);
    emit(clock_wall_s(), level, suppressed, format, values);
    va_end(values);
}
