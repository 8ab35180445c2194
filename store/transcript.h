/*
 * A transcript: one conversation with its answer, as a row (pure). Nothing of it is trusted
 * when it is read again: decoding bounds everything, and the short fields are plain words, so
 * that they can be printed as they are. The texts can hold anything.
 */
#ifndef STORE_TRANSCRIPT_H
#define STORE_TRANSCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/kv.h"

#define TRANSCRIPT_VERSION      1
#define TRANSCRIPT_MAX          (256 * 1024) /* one row; a long conversation has 20 KB */
#define TRANSCRIPT_MIN          (16 * 1024)  /* room at least for what is no text */
#define TRANSCRIPT_MESSAGES_MAX 1024         /* no request has more */
#define TRANSCRIPT_WORD_MAX     48           /* ids, addresses, aliases; the NUL included */

enum transcript_role { TRANSCRIPT_USER, TRANSCRIPT_ASSISTANT, TRANSCRIPT_ROLES };

struct transcript_text {
    const char *at; /* UTF-8 as it came; may be NULL if n is 0 */
    size_t n;
};

struct transcript_message {
    enum transcript_role role;
    struct transcript_text text;
};

struct transcript {
    /* of printable ASCII without blanks, not empty */
    char id[TRANSCRIPT_WORD_MAX], model[TRANSCRIPT_WORD_MAX];
    char subject[TRANSCRIPT_WORD_MAX]; /* the log's hash of that day, or an address */
    char result[TRANSCRIPT_WORD_MAX];  /* as the log says: ok, gone, or an error's code */
    uint64_t tokens_in, tokens_out;
    bool cut; /* texts are shorter than they were */
    unsigned n_messages;
    const struct transcript_message *messages; /* the newest last */
    struct transcript_text answer;             /* what came of it */
};

/* Rows are in the order of time; the sequence tells those of one millisecond apart. */
struct transcript_key {
    int64_t time_ms; /* wall clock, since 1970 */
    uint32_t sequence;
};
#define TRANSCRIPT_KEY_BYTES 12
void transcript_key_write(const struct transcript_key *k, uint8_t out[TRANSCRIPT_KEY_BYTES]);
bool transcript_key_read(const struct kv_slice *key, struct transcript_key *out);

/*
 * A row of at most `max` bytes (>= TRANSCRIPT_MIN), malloc'd. If it would be longer, the answer
 * is cut to half of the room or what the messages leave, then the oldest messages, at whole
 * characters. ERROR_MEMORY; ERROR_SYNTAX if a word is none; ERROR_TOO_LARGE for too many
 * messages.
 */
enum error transcript_encode(const struct transcript *t, size_t max, uint8_t **out, size_t *n);

/* The texts are borrowed from the row; free the messages by transcript_free. ERROR_MEMORY,
 * ERROR_STORE_INVALID. */
enum error transcript_decode(const struct kv_slice *row, struct transcript *out);
void transcript_free(struct transcript *t);

/* Whether a row is one that this program may have written: for the walk, without its `arg`. */
bool transcript_row_ok(void *arg, const void *key, size_t nkey, const void *value,
                       size_t nvalue);

#endif
