/* Any text behind `Basic `: a password that is understood lies within what was decoded, and the
 * text is the only one that decodes to that. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/guard.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SCHEME "Basic "

static void require(bool ok)
{
    if (!ok)
        abort();
}

static void encode(const uint8_t *in, size_t n, char *out)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t i = 0; i < n; i += 3) {
        uint32_t held = (uint32_t)in[i] << 16 | (i + 1 < n ? (uint32_t)in[i + 1] << 8 : 0) |
                        (i + 2 < n ? (uint32_t)in[i + 2] : 0);

        *out++ = letters[held >> 18];
        *out++ = letters[held >> 12 & 63];
        *out++ = '=';
        *out++ = '=';
        if (i + 1 < n)
            out[-2] = letters[held >> 6 & 63];
        if (i + 2 < n)
            out[-1] = letters[held & 63];
    }
    *out = '\0';
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *header = malloc(sizeof(SCHEME) + size);
    char again[GUARD_TEXT_MAX * 2];
    uint8_t text[GUARD_TEXT_MAX];
    const uint8_t *password;
    size_t n = 0;

    require(header != NULL);
    memcpy(header, SCHEME, sizeof(SCHEME) - 1);
    memcpy(header + sizeof(SCHEME) - 1, data, size);
    header[sizeof(SCHEME) - 1 + size] = '\0';
    password = guard_password(header, text, &n);
    if (password != NULL) {
        size_t before = (size_t)(password - text);

        require(before > 0 && before + n <= sizeof(text) && password[-1] == ':');
        require(memchr(text, ':', before - 1) == NULL);
        encode(text, before + n, again);
        header += strlen(SCHEME);
        require(strcmp(header + strspn(header, " "), again) == 0);
        header -= strlen(SCHEME);
    }
    free(header);
    return 0;
}
