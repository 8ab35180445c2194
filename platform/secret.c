/*
 * The site's secret. Never shown, never logged; every buffer that held it is wiped.
 */
#include "platform/secret.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "platform/file.h"
#include "platform/mac.h"
#include "platform/random.h"

#define SECRET_DIGITS ((size_t)2 * SECRET_SIZE)
#define SECRET_TEXT   (SECRET_DIGITS + 1) /* and a newline */
#define SECRET_MODE   0600

static const char digits[] = "0123456789abcdef";

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

static bool decode(const char *text, size_t n, uint8_t out[SECRET_SIZE])
{
    if (n == SECRET_TEXT && text[SECRET_DIGITS] == '\n')
        n = SECRET_DIGITS;
    if (n != SECRET_DIGITS)
        return false;
    for (size_t i = 0; i < SECRET_SIZE; i++) {
        int high = digit_value(text[2 * i]), low = digit_value(text[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

enum error secret_read(const char *path, uint8_t out[SECRET_SIZE])
{
    char *text;
    size_t n;
    uint8_t secret[SECRET_SIZE];
    enum error e = file_read_secret(path, SECRET_TEXT, false, &text, &n);

    if (e == ERROR_TOO_LARGE)
        return ERROR_SYNTAX;
    if (e != ERROR_NONE)
        return e;
    if (decode(text, n, secret))
        memcpy(out, secret, SECRET_SIZE);
    else
        e = ERROR_SYNTAX;
    mac_wipe(secret, sizeof secret);
    mac_wipe(text, n);
    free(text);
    return e;
}

enum error secret_create(const char *path)
{
    uint8_t secret[SECRET_SIZE];
    char text[SECRET_TEXT];
    enum error e = random_bytes(secret, sizeof secret);

    if (e != ERROR_NONE)
        return e;
    for (size_t i = 0; i < SECRET_SIZE; i++) {
        text[2 * i] = digits[secret[i] >> 4];
        text[2 * i + 1] = digits[secret[i] & 15];
    }
    text[SECRET_DIGITS] = '\n';
    e = file_create(path, SECRET_MODE, text, sizeof text);
    mac_wipe(secret, sizeof secret);
    mac_wipe(text, sizeof text);
    return e;
}
