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
#define ESCAPED   4     /* the length of \xNN */

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
    enum log_level most;
    int fd;
    bool is_socket;
} sink = {LOG_TARGET_STDERR, LOG_LEVEL_WARNING, STDERR_FILENO, false};

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
        return; /* closed: what gets its number later must never receive log lines */
    sink.fd = STDERR_FILENO;
    sink.is_socket = S_ISSOCK(st.st_mode);
    if (S_ISFIFO(st.st_mode)) {
        int own = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_CLOEXEC);
        if (own >= 0)
            sink.fd = own;
    }
}

void log_open(enum log_target target, enum log_level most)
{
    if (sink.fd > STDERR_FILENO)
        close(sink.fd);
    sink.target = target;
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

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c != 0x7f && c != '"' && c != '\\';
}

/* Copies text into out[0..max), escaped, and returns the length; never half an escape. */
static size_t escape(const char *text, char *out, size_t max)
{
    static const char digits[] = "0123456789abcdef";
    size_t n = 0;

    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;

        if (n + (is_plain(c) ? 1 : ESCAPED) > max)
            break;
        if (is_plain(c)) {
            out[n++] = (char)c;
        } else {
            out[n++] = '\\';
            out[n++] = 'x';
            out[n++] = digits[c >> 4];
            out[n++] = digits[c & 15];
        }
    }
    return n;
}

/* One whole line with its newline; `text` is escaped and, if need be, cut. Returns the
 * length. */
static size_t compose(char out[LOG_LINE_MAX + 1], enum log_level level, const char *text,
                      unsigned suppressed)
{
    char suffix[32] = "\n";

    if (suppressed > 0)
        snprintf(suffix, sizeof suffix, " suppressed=%u\n", suppressed);
    size_t n =
        (size_t)snprintf(out, LOG_LINE_MAX + 1, PROGRAM ": level=%s ", levels[level].word);
    n += escape(text, out + n, LOG_LINE_MAX - n - strlen(suffix));
    return n + (size_t)snprintf(out + n, LOG_LINE_MAX + 1 - n, "%s", suffix);
}

__attribute__((format(printf, 3, 0))) static void
emit(enum log_level level, unsigned suppressed, const char *format, va_list values)
{
    char text[LOG_LINE_MAX], line[LOG_LINE_MAX + 1];
    int saved = errno;

    if (vsnprintf(text, sizeof text, format, values) < 0)
        text[0] = '\0';
    size_t n = compose(line, level, text, suppressed);
    if (sink.target == LOG_TARGET_SYSLOG) {
        const char *words =
            line + sizeof PROGRAM ": " - 1; /* syslog names the program itself */
        syslog(levels[level].priority, "%.*s", (int)(line + n - words - 1), words);
    } else {
        write_line(line, n);
    }
    errno = saved;
}

void log_line(enum log_level level, const char *format, ...)
{
    va_list values;

    if (level > sink.most)
        return;
    va_start(values, format);
    emit(level, 0, format, values);
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

    if (level > sink.most || !is_due(state, key, &suppressed))
        return;
    va_start(values, format);
    emit(level, suppressed, format, values);
    va_end(values);
}
