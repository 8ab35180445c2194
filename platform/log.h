/*
 * The log: lines of `name=value` words to standard error or syslog. Untrusted text is escaped
 * here, where it is written. No line holds a key, prompt, address or money figure: callers
 * pass hashes and codes.
 */
#ifndef PLATFORM_LOG_H
#define PLATFORM_LOG_H

#include <stddef.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO };
enum log_target { LOG_TARGET_STDERR, LOG_TARGET_SYSLOG };

/* Before threads are started; without it, errors and warnings go to standard error. */
void log_open(enum log_target target, enum log_level most);

/*
 * One line, written with one write(2): "pennygate: level=.. <formatted>". At most LOG_LINE_MAX
 * bytes, cut beyond. Bytes below 0x20 and 0x7f, and `"`, `\` are written as \xNN.
 */
#define LOG_LINE_MAX 1024
void log_line(enum log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * The same, for a condition that may hold for thousands of requests: written when `key` (an
 * error number, say) differs from the last one written at this place, or a minute after it,
 * with the count of what was left out. `state` is static storage of the calling place.
 */
struct log_once {
    int key;
    long long next_ms;
    unsigned suppressed;
};
int log_key(const char *text); /* for a text as `key`; not negative */
void log_line_once(struct log_once *state, int key, enum log_level level, const char *format,
                   ...) __attribute__((format(printf, 4, 5)));

#endif
