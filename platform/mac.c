/*
 * HMAC-SHA256 by BearSSL. Everything that held a key is wiped before returning; comparisons
 * take the same time whatever they compare.
 */
#include "platform/mac.h"

#include <bearssl.h>
#include <string.h>

_Static_assert(MAC_SIZE == br_sha256_SIZE, "HMAC-SHA256 fills a MAC");

_Static_assert(sizeof(br_hmac_key_context) <= sizeof(struct mac_key), "a prepared key fits");

void mac_prepare(const uint8_t key[MAC_SIZE], struct mac_key *out)
{
    br_hmac_key_context kc;

    memset(&kc, 0, sizeof kc); /* BearSSL leaves the part that SHA-256 does not use as it is */
    memset(out, 0, sizeof *out);
    br_hmac_key_init(&kc, &br_sha256_vtable, key, MAC_SIZE);
    memcpy(out, &kc, sizeof kc);
    mac_wipe(&kc, sizeof kc);
}

static void mac_of_both(const struct mac_key *key, const char *label, const void *head,
                        size_t n_head, const void *data, size_t n, uint8_t out[MAC_SIZE])
{
    br_hmac_key_context kc;
    br_hmac_context hc;

    memcpy(&kc, key, sizeof kc);
    br_hmac_init(&hc, &kc, 0);
    br_hmac_update(&hc, label, strlen(label) + 1); /* the NUL ends the label unambiguously */
    if (n_head > 0)
        br_hmac_update(&hc, head, n_head);
    if (n > 0)
        br_hmac_update(&hc, data, n);
    br_hmac_out(&hc, out);
    mac_wipe(&kc, sizeof kc);
    mac_wipe(&hc, sizeof hc);
}

void mac_with(const struct mac_key *key, const char *label, const void *data, size_t n,
              uint8_t out[MAC_SIZE])
{
    mac_of_both(key, label, NULL, 0, data, n, out);
}

void mac_bound(const uint8_t key[MAC_SIZE], const char *label, const uint8_t uuid[16],
               const void *data, size_t n, uint8_t out[MAC_SIZE])
{
    struct mac_key ready;

    mac_prepare(key, &ready);
    mac_of_both(&ready, label, uuid, 16, data, n, out);
    mac_wipe(&ready, sizeof ready);
}

void mac_compute(const uint8_t key[MAC_SIZE], const char *label, const void *data, size_t n,
                 uint8_t out[MAC_SIZE])
{
    struct mac_key ready;

    mac_prepare(key, &ready);
    mac_with(&ready, label, data, n, out);
    mac_wipe(&ready, sizeof ready);
}

bool mac_equal(const void *a, const void *b, size_t n)
{
    /* volatile, or a compiler may leave the loop at the first difference */
    const volatile uint8_t *x = a, *y = b;
    uint8_t different = 0;

    for (size_t i = 0; i < n; i++)
        different = (uint8_t)(different | (x[i] ^ y[i]));
    return different == 0;
}

void mac_wipe(void *p, size_t n)
{
    explicit_bzero(p, n);
}
