/*
 * The visitor's cookie (pure): an id that the gateway makes and signs, so that nobody can make
 * up one, bring one from another site, or change its date.
 *
 * Value: "1." id (16 bytes) "." issued (days since 1970) "." mac (16 bytes), bytes in base64url.
 * The mac is over all that stands before it, under a key that is this site's alone.
 */
#ifndef GATEWAY_COOKIE_H
#define GATEWAY_COOKIE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "platform/mac.h"

#define COOKIE_ID       16
#define COOKIE_DAYS     30 /* after these it is none any more: a visitor is not known for ever */
#define COOKIE_RENEW    7  /* issued anew, with the same id, once it is so many days old */
#define COOKIE_NAME_MAX 32
#define COOKIE_TEXT_MAX 96           /* of a value */
#define COOKIE_PREFIX   "pennygate_" /* of every site's name */

struct cookie {
    uint8_t id[COOKIE_ID];
    int64_t day; /* of issue */
};

/* The name: "pennygate_" and 8 hex digits that depend on the key (and tell nothing of it), so
 * that two sites under one host do not overwrite each other's. */
void cookie_name(const uint8_t key[MAC_SIZE], char out[COOKIE_NAME_MAX]);

/* Writes the value. */
void cookie_write(const uint8_t key[MAC_SIZE], const struct cookie *c,
                  char out[COOKIE_TEXT_MAX]);

/* Reads one. False, and out untouched: not ours, changed, spelt otherwise than cookie_write
 * does, from the future (a day of slack), or more than COOKIE_DAYS old. */
bool cookie_read(const uint8_t key[MAC_SIZE], const char *text, size_t n, int64_t today,
                 struct cookie *out);

/*
 * Looks for the name in Cookie headers' values (several, since servers pass repeated headers as
 * repeated variables; parts divided by ';' or, as Apache joins them, ','). 0: none, and *value
 * and *n are untouched; 1: they are it, borrowed, without spaces and quotes around; 2 or more:
 * so many, and none of them counts.
 */
unsigned cookie_find(const char *const *headers, unsigned n_headers, const char *name,
                     const char **value, size_t *n);

#endif
