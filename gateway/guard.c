/*
 * The owner's guard. Security: fails closed, compares MACs in constant time, and believes of the
 * caller the password alone: REMOTE_USER is the web server's word.
 */
#include "gateway/guard.h"

#include <string.h>
#include <strings.h>

#include "gateway/caller.h"
#include "platform/mac.h"

#define QUANTUM 4 /* letters of base64 that make three bytes */

/* The six bits of a letter; -1: it is none. */
static int bits_of(char letter)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = letter != '\0' ? strchr(letters, letter) : NULL;

    return at != NULL ? (int)(at - letters) : -1;
}

/* Four letters to at most three bytes; how many, 0: malformed. Only the last may be padded. */
static size_t decode_quantum(const char in[QUANTUM], bool last, uint8_t out[QUANTUM - 1])
{
    size_t letters = QUANTUM, bytes;
    uint32_t held = 0;

    while (last && letters > 2 && in[letters - 1] == '=')
        letters--;
    for (size_t i = 0; i < QUANTUM; i++) {
        int bits = i < letters ? bits_of(in[i]) : 0;

        if (bits < 0)
            return 0;
        held = held << 6 | (uint32_t)bits;
    }
    bytes = letters - 1;
    if ((held & ((UINT32_C(1) << (8 * (3 - bytes))) - 1)) != 0)
        return 0; /* bits that no byte has */
    for (size_t i = 0; i < bytes; i++)
        out[i] = (uint8_t)(held >> (16 - 8 * i));
    return bytes;
}

static bool decode(const char *text, uint8_t out[GUARD_TEXT_MAX], size_t *n)
{
    size_t length = strlen(text);

    *n = 0;
    if (length % QUANTUM != 0 || length / QUANTUM > GUARD_TEXT_MAX / (QUANTUM - 1))
        return false;
    for (size_t i = 0; i < length; i += QUANTUM) {
        size_t bytes = decode_quantum(text + i, i + QUANTUM == length, out + *n);

        if (bytes == 0)
            return false;
        *n += bytes;
    }
    return *n > 0;
}

const uint8_t *guard_password(const char *header, uint8_t out[GUARD_TEXT_MAX], size_t *n)
{
    static const char scheme[] = "basic ";
    const uint8_t *colon;
    size_t length;

    if (strncasecmp(header, scheme, sizeof(scheme) - 1) != 0)
        return NULL;
    header += sizeof(scheme) - 1;
    header += strspn(header, " ");
    if (!decode(header, out, &length))
        return NULL;
    colon = memchr(out, ':', length);
    if (colon == NULL)
        return NULL;
    *n = length - (size_t)(colon + 1 - out);
    return colon + 1;
}

void guard_hash(const struct ledger *l, const void *password, size_t n, uint8_t out[KEY_HASH])
{
    uint8_t mac[MAC_SIZE];

    ledger_mac(l, "dashboard", password, n, mac);
    memcpy(out, mac, KEY_HASH);
    mac_wipe(mac, sizeof(mac));
}

static bool is_listed(const struct exchange *x, const struct config *c)
{
    const char *name = exchange_param_only(x, "REMOTE_USER");

    for (unsigned i = 0; name != NULL && i < c->n_dashboard_accounts; i++)
        if (caller_account_equal(name, c->dashboard_accounts[i]))
            return true;
    return false;
}

/* Of several headers nobody knows which is meant: none counts. */
static bool is_password(const struct exchange *x, const struct ledger *l,
                        const uint8_t hash[KEY_HASH])
{
    const char *header = exchange_param_only(x, "HTTP_AUTHORIZATION");
    uint8_t text[GUARD_TEXT_MAX], shown[KEY_HASH];
    const uint8_t *password;
    bool equal = false;
    size_t n;

    if (header == NULL)
        return false;
    password = guard_password(header, text, &n);
    if (password != NULL) {
        guard_hash(l, password, n, shown);
        equal = mac_equal(shown, hash, KEY_HASH);
    }
    mac_wipe(text, sizeof(text));
    return equal;
}

enum guard guard_check(const struct exchange *x, const struct config *c, struct ledger *l,
                       enum error *e)
{
    uint8_t hash[KEY_HASH];

    *e = ERROR_NONE;
    if (is_listed(x, c))
        return GUARD_OPEN;
    *e = ledger_password(l, hash);
    if (*e == ERROR_NOT_FOUND)
        return GUARD_CLOSED;
    if (*e != ERROR_NONE)
        return GUARD_ERROR;
    if (exchange_param(x, "HTTP_AUTHORIZATION") == NULL)
        return GUARD_ASK;
    return is_password(x, l, hash) ? GUARD_OPEN : GUARD_WRONG;
}
