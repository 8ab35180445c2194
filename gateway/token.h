/* Words that the owner hands out: random bytes in letters that can be typed and read out. */
#ifndef GATEWAY_TOKEN_H
#define GATEWAY_TOKEN_H

#include <stddef.h>

#include "platform/error.h"

#define TOKEN_BYTES_MAX      20 /* 160 bits, of a key */
#define TOKEN_LETTERS(bytes) (((bytes)*8 + 4) / 5)

/* `bytes` random bytes as TOKEN_LETTERS(bytes) of a-z and 2-7, and a NUL. */
enum error token_make(size_t bytes, char *out);

#endif
