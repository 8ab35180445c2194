/*
 * A store as text, and a store made of that text: for another machine, since LMDB's files do not
 * move between word sizes and byte orders, and as a copy that can be kept.
 *
 * The text has everything that decides: all rows (counters, history, issued keys, password,
 * alerts and what they were told for, overheads, breakers, pause, zone, store time, and what has
 * been folded of the board) and the period keys, without which no counter would find its caller
 * again. It is therefore as secret as the store. Its lines (store/export_line.h) end with a MAC
 * under the site's secret over all that went before, so that a text that was cut, changed or
 * made up gives nobody anything. Transcripts are not in it: they decide nothing.
 *
 * Why an import cannot give anybody a fresh budget, nor lower a counter:
 *   - It only goes into a store that has never counted: one with nothing but the two rows that
 *     making it wrote. Whatever it adds is more than what was there. It is looked at in the
 *     write transaction that fills it, so that nothing can be counted meanwhile.
 *   - It only makes the store that the text is of: with the same secret, the same uuid (visitors'
 *     cookies, issued keys and the password of the pages are bound to it) and the period keys
 *     under which the rows were hashed. Callers are found again.
 *   - Store time does not go back: it is the later of both, and advances from the text's as
 *     after a boot, so that a clock that is far ahead erases nothing for a day.
 *   - A call under way at the export stays charged in full; it was not told how it ended, and
 *     its row is not taken over: no settle gives anything back.
 *   - If either store was paused, it is paused.
 * What it cannot know is what was counted after the export. As with any copy that is put back,
 * that is lost, which is why only the owner can do it, and only after moving the store away.
 *
 * All is done in one transaction. The period keys, a file, go before it: if the machine dies
 * between, or before the mark is written, the store refuses everything, and the import is done
 * again, or `adopt`.
 */
#ifndef STORE_EXPORT_H
#define STORE_EXPORT_H

#include <stdio.h>

#include "store/ledger.h"

/* Writes all lines from one read transaction; *rows: how many rows. `out` should not be a pipe
 * that somebody reads slowly: as long as the transaction lasts, no page that it sees can be used
 * again. ERROR_SYSTEM if it cannot be written to (the caller flushes and looks once more);
 * ERROR_STORE_*, ERROR_PERIODS. */
enum error ledger_export(struct ledger *l, FILE *out, uint64_t *rows);

struct import_report {
    unsigned long line; /* the last that was read, from 1; also after an error */
    uint64_t rows;
    unsigned under_way; /* calls that stay charged in full */
    bool paused, ahead; /* the store's time is ahead of the clock */
};

/*
 * Fills the store at o->store, which ledger_create has made and no process has open, from a
 * regular file. ERROR_EXISTS: it has counted already. ERROR_STORE_REPLACED: perhaps it has, but
 * with other live rows, and the next one will know. ERROR_SYNTAX: not a line of an export, or not
 * the whole of one, or changed. ERROR_STORE_SECRET: one of the two is of another secret.
 * ERROR_STORE_VERSION: of a newer program. ERROR_STORE_*, ERROR_RUN_MISSING, ERROR_CLOCK,
 * ERROR_MEMORY, ERROR_SYSTEM. After an error no row has changed; if it came as late as the
 * commit, the period keys have: another import mends that, with a lease one of the same store.
 */
enum error ledger_import(const struct ledger_options *o, FILE *in, struct import_report *out);

#endif
