/*
 * Transcripts as bytes: version, flags, four words, two counts, the messages, the answer.
 * Integers are big-endian; a text is preceded by its length.
 */
#include "store/transcript.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "store/storetime.h"

#define FLAG_CUT 1

/* Of a message and of the answer, beside the text. */
#define MESSAGE_BYTES 5
#define LENGTH_BYTES  4

_Static_assert(TRANSCRIPT_MESSAGES_MAX *MESSAGE_BYTES + 4 * TRANSCRIPT_WORD_MAX + 64 <
                   TRANSCRIPT_MIN,
               "what is no text fits the smallest row");

/* ---- keys ---- */

void transcript_key_write(const struct transcript_key *k, uint8_t out[TRANSCRIPT_KEY_BYTES])
{
    uint64_t time = htobe64((uint64_t)k->time_ms);
    uint32_t sequence = htobe32(k->sequence);

    memcpy(out, &time, sizeof time);
    memcpy(out + sizeof time, &sequence, sizeof sequence);
}

bool transcript_key_read(const struct kv_slice *key, struct transcript_key *out)
{
    uint64_t time;
    uint32_t sequence;

    if (key->n != TRANSCRIPT_KEY_BYTES)
        return false;
    memcpy(&time, key->data, sizeof time);
    memcpy(&sequence, (const uint8_t *)key->data + sizeof time, sizeof sequence);
    time = be64toh(time);
    if (time > INSTANT_MAX_MS)
        return false;
    *out = (struct transcript_key){(int64_t)time, be32toh(sequence)};
    return true;
}

/* ---- the four words ---- */

static const size_t words[] = {
    offsetof(struct transcript, id),
    offsetof(struct transcript, model),
    offsetof(struct transcript, subject),
    offsetof(struct transcript, result),
};
#define WORDS (sizeof words / sizeof words[0])

static bool is_word(const char *at, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (at[i] < 0x21 || at[i] > 0x7e)
            return false;
    }
    return n > 0 && n < TRANSCRIPT_WORD_MAX;
}

static const char *word_of(const struct transcript *t, size_t i, size_t *n)
{
    const char *at = (const char *)t + words[i];

    *n = strnlen(at, TRANSCRIPT_WORD_MAX);
    return at;
}

/* ---- cutting ---- */

/* The longest start of the text that fits and ends with a whole character. */
static size_t fitting(const struct transcript_text *t, size_t room)
{
    size_t n = t->n < room ? t->n : room;

    while (n > 0 && n < t->n && ((uint8_t)t->at[n] & 0xc0) == 0x80)
        n--;
    return n;
}

/* How much of each text is kept: length[i] of message i, length[n_messages] of the answer. */
static bool share(const struct transcript *t, size_t room, size_t *length)
{
    size_t wanted = 0, answer = room / 2;
    bool cut = false;

    for (unsigned i = 0; i < t->n_messages; i++)
        wanted += t->messages[i].text.n;
    if (wanted < room - answer)
        answer = room - wanted;
    length[t->n_messages] = fitting(&t->answer, answer);
    room -= length[t->n_messages];
    cut = length[t->n_messages] < t->answer.n;
    for (unsigned i = t->n_messages; i-- > 0;) {
        length[i] = fitting(&t->messages[i].text, room);
        room -= length[i];
        cut = cut || length[i] < t->messages[i].text.n;
    }
    return cut;
}

/* ---- writing ---- */

static void put_bytes(uint8_t **at, const void *bytes, size_t n)
{
    if (n > 0)
        memcpy(*at, bytes, n);
    *at += n;
}

/* width: 1 to 8 bytes. */
static void put_int(uint8_t **at, uint64_t v, unsigned width)
{
    uint64_t b = htobe64(v << (64 - 8 * width));

    put_bytes(at, &b, width);
}

static size_t fixed_bytes(const struct transcript *t)
{
    size_t fixed = 2 + 2 * 8 + 2 + LENGTH_BYTES + t->n_messages * (size_t)MESSAGE_BYTES, n;

    for (size_t i = 0; i < WORDS; i++) {
        word_of(t, i, &n);
        fixed += 1 + n;
    }
    return fixed;
}

static void write_row(const struct transcript *t, bool cut, const size_t *length, uint8_t *at)
{
    size_t n;

    put_int(&at, TRANSCRIPT_VERSION, 1);
    put_int(&at, cut ? FLAG_CUT : 0, 1);
    for (size_t i = 0; i < WORDS; i++) {
        const char *word = word_of(t, i, &n);

        put_int(&at, n, 1);
        put_bytes(&at, word, n);
    }
    put_int(&at, t->tokens_in, 8);
    put_int(&at, t->tokens_out, 8);
    put_int(&at, t->n_messages, 2);
    for (unsigned i = 0; i < t->n_messages; i++) {
        put_int(&at, t->messages[i].role, 1);
        put_int(&at, length[i], LENGTH_BYTES);
        put_bytes(&at, t->messages[i].text.at, length[i]);
    }
    put_int(&at, length[t->n_messages], LENGTH_BYTES);
    put_bytes(&at, t->answer.at, length[t->n_messages]);
}

static enum error check(const struct transcript *t)
{
    size_t n;

    if (t->n_messages > TRANSCRIPT_MESSAGES_MAX)
        return ERROR_TOO_LARGE;
    for (size_t i = 0; i < WORDS; i++) {
        const char *word = word_of(t, i, &n);

        if (!is_word(word, n))
            return ERROR_SYNTAX;
    }
    return ERROR_NONE;
}

enum error transcript_encode(const struct transcript *t, size_t max, uint8_t **out, size_t *n)
{
    size_t fixed, total, *length;
    uint8_t *row;
    bool cut;
    enum error e = check(t);

    if (e != ERROR_NONE)
        return e;
    length = calloc(t->n_messages + 1, sizeof *length);
    if (length == NULL)
        return ERROR_MEMORY;
    fixed = total = fixed_bytes(t);
    cut = share(t, max - fixed, length) || t->cut;
    for (unsigned i = 0; i <= t->n_messages; i++)
        total += length[i];
    row = malloc(total);
    if (row != NULL) {
        write_row(t, cut, length, row);
        *out = row;
        *n = total;
    }
    free(length);
    return row != NULL ? ERROR_NONE : ERROR_MEMORY;
}

/* ---- reading: past the end the reader is bad, and one check at the end decides ---- */

struct get {
    const uint8_t *at, *end;
    bool bad;
};

static const uint8_t *get_bytes(struct get *g, size_t n)
{
    const uint8_t *at = g->at;

    if (g->bad || n > (size_t)(g->end - g->at)) {
        g->bad = true;
        return NULL;
    }
    g->at += n;
    return at;
}

static uint64_t get_int(struct get *g, unsigned width)
{
    const uint8_t *at = get_bytes(g, width);
    uint64_t v = 0;

    for (unsigned i = 0; at != NULL && i < width; i++)
        v = v << 8 | at[i];
    return v;
}

static struct transcript_text get_text(struct get *g)
{
    size_t n = (size_t)get_int(g, LENGTH_BYTES);
    const uint8_t *at = get_bytes(g, n);

    return (struct transcript_text){(const char *)at, at != NULL ? n : 0};
}

static void get_words(struct get *g, struct transcript *out)
{
    for (size_t i = 0; i < WORDS; i++) {
        size_t n = (size_t)get_int(g, 1);
        const char *at = (const char *)get_bytes(g, n);

        if (at == NULL || !is_word(at, n))
            g->bad = true;
        else
            memcpy((char *)out + words[i], at, n); /* out is all zeros: the NUL is there */
    }
}

static enum error get_messages(struct get *g, struct transcript *out)
{
    unsigned n = (unsigned)get_int(g, 2);
    struct transcript_message *messages;

    if (g->bad || n > TRANSCRIPT_MESSAGES_MAX ||
        n * (size_t)MESSAGE_BYTES > (size_t)(g->end - g->at))
        return ERROR_STORE_INVALID;
    messages = calloc(n > 0 ? n : 1, sizeof *messages);
    if (messages == NULL)
        return ERROR_MEMORY;
    for (unsigned i = 0; i < n; i++) {
        unsigned role = (unsigned)get_int(g, 1);

        g->bad = g->bad || role >= TRANSCRIPT_ROLES;
        messages[i] = (struct transcript_message){(enum transcript_role)role, get_text(g)};
    }
    out->n_messages = n;
    out->messages = messages;
    return ERROR_NONE;
}

enum error transcript_decode(const struct kv_slice *row, struct transcript *out)
{
    struct get g = {.at = row->data, .end = (const uint8_t *)row->data + row->n};
    struct transcript t;
    unsigned version = (unsigned)get_int(&g, 1), flags = (unsigned)get_int(&g, 1);
    enum error e;

    memset(&t, 0, sizeof t);
    t.cut = flags == FLAG_CUT;
    get_words(&g, &t);
    t.tokens_in = get_int(&g, 8);
    t.tokens_out = get_int(&g, 8);
    if (version != TRANSCRIPT_VERSION || flags > FLAG_CUT || row->n > TRANSCRIPT_MAX)
        return ERROR_STORE_INVALID;
    e = get_messages(&g, &t);
    if (e != ERROR_NONE)
        return e;
    t.answer = get_text(&g);
    if (g.bad || g.at != g.end) {
        transcript_free(&t);
        return ERROR_STORE_INVALID;
    }
    *out = t;
    return ERROR_NONE;
}

void transcript_free(struct transcript *t)
{
    /* Made by get_messages; const for its readers only. */
    void *messages;

    memcpy(&messages, &t->messages, sizeof messages);
    free(messages);
    t->messages = NULL;
    t->n_messages = 0;
}

bool transcript_row_ok(void *arg, const void *key, size_t nkey, const void *value,
                       size_t nvalue)
{
    struct kv_slice k = {key, nkey}, v = {value, nvalue};
    struct transcript_key read;
    struct transcript t;

    (void)arg;
    if (!transcript_key_read(&k, &read) || transcript_decode(&v, &t) != ERROR_NONE)
        return false;
    transcript_free(&t);
    return true;
}
