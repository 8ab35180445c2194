/*
 * The subjects of an exchange. Security: no subject, no service; secrets are compared as MACs, in
 * a time that does not depend on them. What no limit needs is not worked out, because a refusal
 * has to stay cheap.
 */
#include "gateway/caller.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "platform/mac.h"

#define ACCOUNT_WHOLE_MAX 40 /* longer names are hashed: SUBJECT_ID_MAX is 47 */
#define ACCOUNT_HASH      16

void caller_address_id(const struct address *a, struct subject_id *out)
{
    unsigned n = address_subject_bytes(a);

    memset(out, 0, sizeof *out);
    out->bytes[0] = a->family;
    memcpy(out->bytes + 1, a->bytes, n);
    out->n = (uint8_t)(1 + n);
}

void caller_account_id(const struct ledger *l, const char *name, struct subject_id *out)
{
    size_t n = strlen(name);
    bool whole = n <= ACCOUNT_WHOLE_MAX;
    uint8_t mac[MAC_SIZE];

    memset(out, 0, sizeof *out);
    out->bytes[0] = whole ? 0 : 1; /* no name equals the hash of another */
    if (!whole) {
        ledger_mac(l, "account", name, n, mac);
        n = ACCOUNT_HASH;
    }
    memcpy(out->bytes + 1, whole ? (const void *)name : mac, n);
    out->n = (uint8_t)(1 + n);
}

/* Hashed, since names can be of any length. */
void caller_account_id(const struct ledger *l, const char *name, struct subject_id *out)
{
    uint8_t mac[MAC_SIZE];

    ledger_mac(l, "account", name, strlen(name), mac);
    memset(out, 0, sizeof(*out));
    caller_address_id(&address, &out->id[SUBJECT_ADDRESS]);
    out->anonymous = out->id[SUBJECT_ACCOUNT].n == 0 && out->id[SUBJECT_KEY].n == 0;
    return CODE_NONE;
}
