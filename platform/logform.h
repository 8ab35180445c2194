/*
 * How a line of the log looks: bytes in, bytes out; no clock, descriptor or lock. A text begins
 * with words `name=value`, as many as there are; what follows them, behind a colon, is for
 * people. Untrusted bytes are escaped here.
 */
#ifndef PLATFORM_LOGFORM_H
#define PLATFORM_LOGFORM_H

#include <stddef.h>
#include <stdint.h>

#define LOG_LINE_MAX    1024 /* with its newline: far below PIPE_BUF, so that lines never mix */
#define LOGFORM_WORDS   24   /* that become members; the longest line has 15 */
#define LOGFORM_NAME    32   /* the longest name of one */
#define LOGFORM_INTEGER 15   /* digits: more are not exact in every reader of JSON */

struct logform {
    const char *program; /* before the words; NULL: its reader knows */
    int64_t time_s;      /* since 1970; negative: none is written */
    const char *level;   /* a word */
    const char *text;    /* of anybody; cut where there is no room */
    unsigned suppressed; /* a count, written unless it is 0 */
};

/* Each writes one whole line with its newline, at most LOG_LINE_MAX bytes and a NUL, and returns
 * its length. */
typedef size_t logform_fn(const struct logform *l, char out[LOG_LINE_MAX + 1]);

/* [program: ][time=.. ]level=.. text[ suppressed=n]. Bytes below 0x20 and 0x7f, and `"`, `\`,
 * are written as \xNN. */
logform_fn logform_words;

/*
 * {"time":"..","level":"..","suppressed":n,"name":value..,"message":".."}: the words at the
 * text's beginning as members, an integer of at most LOGFORM_INTEGER digits as a number, all
 * other values as strings; the rest as the message. A word with a colon behind it is the last; a
 * word whose name has been there ends the words, so that no member comes twice. Valid whatever
 * the text is: a byte that is no UTF-8 becomes U+FFFD.
 */
logform_fn logform_json;

#endif
