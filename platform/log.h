/*
 * The log: lines of `name=value` words, or JSON, to standard error or syslog. Untrusted text is
 * escaped where it is written (logform.h). No line holds a key, prompt, address or money figure:
 * callers pass hashes and codes.
 */
#ifndef PLATFORM_LOG_H
#define PLATFORM_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "platform/logform.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO };
enum log_target { LOG_TARGET_STDERR, LOG_TARGET_SYSLOG };
enum log_format { LOG_FORMAT_WORDS, LOG_FORMAT_JSON };

/* Before threads are started; without it, errors and warnings go to standard error, as words. */
void log_open(enum log_target target, enum log_format format, enum log_level most);

/* Whether lines of this level are written: asked before anything is done for one. */
bool log_writes(enum log_level level);

/*
 * One line, written with one write(2): of words "pennygate: time=.. level=.. <formatted>",
 * without the name and the time where syslog adds its own; or one JSON object. The formatted
 * text begins with its words. At most LOG_LINE_MAX bytes, cut beyond.
 */
void log_line(enum log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same, with this time (seconds since 1970) instead of now. */
void log_line_at(int64_t time_s, enum log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

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
