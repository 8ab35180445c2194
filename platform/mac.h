/*
 * HMAC-SHA256 (BearSSL) and the constant-time comparison that BearSSL does not export.
 * The one file that includes bearssl.h.
 */
#ifndef PLATFORM_MAC_H
#define PLATFORM_MAC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAC_SIZE 32

/*
 * out = HMAC-SHA256(key, label || 0x00 || data). `label` is a string that names the purpose,
 * so that one key can never be made to answer for another purpose. out may overlap key or data.
 */
void mac_compute(const uint8_t key[MAC_SIZE], const char *label, const void *data, size_t n,
                 uint8_t out[MAC_SIZE]);

/* The same over uuid || data: bound to the store of that uuid. */
void mac_bound(const uint8_t key[MAC_SIZE], const char *label, const uint8_t uuid[16],
               const void *data, size_t n, uint8_t out[MAC_SIZE]);

/*
 * The same with a key made ready once: half of a short MAC's work is the key's. A prepared key
 * is as secret as the key: wipe it.
 */
struct mac_key {
    uint64_t prepared[17]; /* BearSSL's own; not to be looked at */
};
void mac_prepare(const uint8_t key[MAC_SIZE], struct mac_key *out);
void mac_with(const struct mac_key *key, const char *label, const void *data, size_t n,
              uint8_t out[MAC_SIZE]);

/* Whether a[0..n) equals b[0..n), in time that depends on n alone. */
bool mac_equal(const void *a, const void *b, size_t n);

/* Overwrites secrets; not removed by the optimiser. */
void mac_wipe(void *p, size_t n);

#endif
