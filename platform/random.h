/* Random bytes from the kernel (getrandom), never from a user-space generator. */
#ifndef PLATFORM_RANDOM_H
#define PLATFORM_RANDOM_H

#include <stddef.h>

#include "platform/error.h"

#define RANDOM_MAX 256 /* up to here the kernel never gives less than was asked for */

/*
 * Fills out[0..n); ERROR_TOO_LARGE above RANDOM_MAX. Early in a boot, before the kernel's pool
 * is seeded, waits at most 2 s, then ERROR_SYSTEM (EAGAIN): a guessable secret is worse than
 * none.
 */
enum error random_bytes(void *out, size_t n);

#endif
