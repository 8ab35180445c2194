/*
 * What long work is at: one line on standard error while it lasts, gone when it ends. Only on a
 * terminal, and only once it has lasted for a moment. One piece of work at a time. It knows
 * nothing of what else is written to the terminal: the work should write nothing, and a warning
 * that it logs all the same (opening a store may) stands on the line behind what is shown there,
 * which then stays.
 */
#ifndef GATEWAY_PROGRESS_H
#define GATEWAY_PROGRESS_H

#include <stdint.h>

/* What is done, as "copying": a text that stays. */
void progress_begin(const char *what);
/* So much of it so far; shown behind the text. */
void progress_count(uint32_t n);
/* Ends it, if it was begun. */
void progress_end(void);

#endif
