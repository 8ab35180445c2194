/*
 * Period keys: subjects are hashed under a key that changes with the period and cannot be
 * turned back. One ratchet for each window: key(n+1) = HMAC(key(n), "next"). The file beside
 * the store holds, for each window, the key of the oldest period that a live slot can have;
 * younger keys follow from it, older ones are gone once it has been replaced. Deterministic:
 * processes that race, or an older state after a crash, lead to the same keys.
 *
 * File: magic, version, count, store uuid, {code u32, generation u64, period i64, key[32]}*,
 * HMAC over all of it under the secret ("period-file"). At most PERIOD_WINDOWS entries.
 */
#ifndef STORE_PERIOD_H
#define STORE_PERIOD_H

#include <stdbool.h>
#include <stdint.h>

#include "platform/error.h"
#include "platform/mac.h"
#include "store/window.h"

#define PERIOD_WINDOWS  16
#define PERIOD_STEP_MAX 200000 /* 500 years of days: a jump beyond it is a broken file */
#define PERIOD_CACHED   WINDOW_SLOTS_MAX /* a decision hashes under as many periods at most */

struct period_entry {
    uint32_t code;       /* window_code */
    uint64_t generation; /* random; the store's row of the window must have the same */
    int64_t period;
    uint8_t key[MAC_SIZE];
};

struct periods {
    unsigned n;
    struct period_entry entry[PERIOD_WINDOWS];
};

/* Reads and verifies. ERROR_PERIODS: missing, of another store or secret, damaged. Otherwise as
 * file_read_secret: ERROR_LOOSE_MODE, ERROR_MEMORY, ERROR_SYSTEM. */
enum error periods_read(const char *path, const uint8_t secret[MAC_SIZE],
                        const uint8_t uuid[16], struct periods *out);
/* Replaces the file (file_replace, 0600). */
enum error periods_write(const char *path, const uint8_t secret[MAC_SIZE],
                         const uint8_t uuid[16], const struct periods *p);

/* The entry of a window, or NULL. */
const struct period_entry *periods_find(const struct periods *p, uint32_t code);

/* Adds an entry with a random key and generation. ERROR_EXISTS if the window has one,
 * ERROR_TOO_MANY_WINDOWS, ERROR_SYSTEM. */
enum error periods_add(struct periods *p, uint32_t code, int64_t period);

/*
 * Moves every entry to the oldest period that its window needs at the store time, wiping the
 * old keys; says whether anything moved (then write the file). Never moves back.
 */
bool periods_advance(struct periods *p, const struct zone *z, int64_t store_ms);

/* The first instant at which every slot that counts has its key: they have been moved since. */
int64_t periods_begin_ms(const struct periods *p);

/*
 * out[0..16) = the first 16 bytes of HMAC(HMAC(secret, "period" || key of that period),
 * kind || id); labels "period" and "subject". False if the period is older than the entry (its
 * key is gone) or further away than PERIOD_STEP_MAX. `cache` (zeroed at first, one per entry,
 * secret and thread of use, wiped by the owner) remembers the last derived keys, since a caller
 * is hashed under the same few periods all day; each call wipes from it what the entry has left
 * behind.
 */
struct period_cache {
    struct period_cached {
        bool used;
        uint32_t code;
        uint64_t generation;
        int64_t period;
        struct mac_key key; /* HMAC(secret, "period" || key of that period) */
    } last[PERIOD_CACHED];
};
bool periods_hash(const struct period_entry *e, struct period_cache *cache,
                  const uint8_t secret[MAC_SIZE], int64_t period, uint8_t kind, const void *id,
                  uint8_t n, uint8_t out[16]);

#endif
