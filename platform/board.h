/*
 * The board: live figures of all processes of a site, on one mapped page in the run directory.
 * 32-bit wrapping atomic counters (64-bit atomics are not atomic between processes on MIPS32).
 * Never reset; a board made anew has a new random id. Nothing on it can admit a request.
 */
#ifndef PLATFORM_BOARD_H
#define PLATFORM_BOARD_H

#include <stdbool.h>
#include <stdint.h>

#include "platform/error.h"

#define BOARD_COUNTERS 512 /* a page of 4096 bytes has room for 1000 */

struct board;

/* Opens the board at `path`, creating it whole or not at all. Errors as live_open, and
 * ERROR_STORE_INVALID for a file that is no board. */
enum error board_open(const char *path, struct board **out);
void board_close(struct board *b);

void board_add(struct board *b, unsigned counter, uint32_t n);
/* Puts `to` in the place of *from, if that is still there; else *from is what is. False of a
 * counter that there is none of: *from is 0. */
bool board_exchange(struct board *b, unsigned counter, uint32_t *from, uint32_t to);
uint32_t board_get(const struct board *b, unsigned counter);
void board_id(const struct board *b, uint8_t out[16]);
int board_fd(const struct board *b);
/* Whether this opening has made it: then nobody else will say since when it counts. */
bool board_is_new(const struct board *b);

#endif
