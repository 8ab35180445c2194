/* Five bits to each letter; what is left at the end is filled with zeros. */
#include "gateway/token.h"

#include <stdint.h>

#include "platform/mac.h"
#include "platform/random.h"

enum error token_make(size_t bytes, char *out)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567";
    uint8_t random[TOKEN_BYTES_MAX + 1] = {0}; /* and what fills the last letter */
    enum error e = random_bytes(random, bytes);
    size_t n = e == ERROR_NONE ? TOKEN_LETTERS(bytes) : 0;

    for (size_t i = 0; i < n; i++) {
        size_t bit = i * 5;
        unsigned two = (unsigned)random[bit / 8] << 8 | random[bit / 8 + 1];

        out[i] = letters[two >> (11 - bit % 8) & 31];
    }
    out[n] = '\0';
    mac_wipe(random, sizeof(random));
    return e;
}
