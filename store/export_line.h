/*
 * The lines of an export (pure): one JSON object each, with a newline.
 *
 *   {"pennygate":"store","format":1}                          the first
 *   {"window":W,"generation":"G","period":P,"key":HEX}        a period key, one of each window
 *   {"row":TABLE,"key":HEX,"value":HEX}                       a row, in the order of keys
 *   {"rows":N,"mac":HEX}                                      the last
 *
 * A row goes as its bytes, because these are the same on every machine (store/record.h) and
 * because a row that somebody forgot to translate would be a fresh budget. HEX is in lower case,
 * G a decimal in quotes: JSON's numbers end at 63 bits. Nothing else is a line: what is read must
 * be what would be written, to the byte.
 */
#ifndef STORE_EXPORT_LINE_H
#define STORE_EXPORT_LINE_H

#include "store/period.h"
#include "store/record.h"

#define EXPORT_FORMAT 1

/* A row of the longest key and value, and what stands around them. */
#define EXPORT_LINE_MAX (2 * (KV_KEY_MAX + RECORD_MAX) + 128)

enum export_kind { EXPORT_HEAD, EXPORT_WINDOW, EXPORT_ROW, EXPORT_END };

struct export_line {
    enum export_kind kind;
    struct period_entry window; /* EXPORT_WINDOW; secret */
    struct row_key key;         /* EXPORT_ROW, with its value */
    struct record value;
    uint64_t rows; /* EXPORT_END: how many there were */
    uint8_t mac[MAC_SIZE];
};

/* Writes the line, its newline included; returns its length. The key is of one of our tables. */
size_t export_line_write(const struct export_line *l, char out[EXPORT_LINE_MAX]);

/* Reads one, with its newline. ERROR_SYNTAX; ERROR_STORE_VERSION for another format. A row is
 * only looked at as far as that its table is the one that is named. */
enum error export_line_read(const char *text, size_t n, struct export_line *out);

/* The MAC of the lines so far, each with its newline: a chain, so that no line can be changed,
 * moved or left out, and no text that is cut can be ended anew. Wipe it. */
struct export_mac {
    struct mac_key key;
    uint8_t running[MAC_SIZE];
};
void export_mac_begin(struct export_mac *m, const uint8_t secret[MAC_SIZE]);
void export_mac_add(struct export_mac *m, const char *text, size_t n); /* < EXPORT_LINE_MAX */

#endif
