/* The subjects of an exchange. Security: no subject, no service. */
#include "gateway/caller.h"

#include <string.h>

#include "platform/address.h"

/* An address as bytes: its family, so that no IPv4 address equals the start of an IPv6 one, and
 * the part that counts (platform/address.h). */
static void set_address(struct subject_id *id, const struct address *a)
{
    uint8_t n = a->family == 4 ? 4 : 8;

    id->bytes[0] = a->family;
    memcpy(id->bytes + 1, a->bytes, n);
    id->n = (uint8_t)(1 + n);
}

enum code caller_of(const struct exchange *x, struct caller *out)
{
    const char *text = exchange_param(x, "REMOTE_ADDR");
    struct address address;

    if (exchange_param_count(x, "REMOTE_ADDR") != 1 ||
        !address_parse(text, strlen(text), &address))
        return CODE_NO_ADDRESS;
    memset(out, 0, sizeof(*out));
    set_address(&out->id[SUBJECT_ADDRESS], &address);
    out->anonymous = out->id[SUBJECT_ACCOUNT].n == 0 && out->id[SUBJECT_KEY].n == 0;
    return CODE_NONE;
}
