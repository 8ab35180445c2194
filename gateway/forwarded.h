/*
 * The caller's address behind proxies (pure). Security: a forwarding header is written by
 * whoever likes to; it is believed only as far as the proxies that are trusted have written it.
 */
#ifndef GATEWAY_FORWARDED_H
#define GATEWAY_FORWARDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "platform/address.h"

/* An address and how many of its bits count. */
struct prefix {
    uint8_t family; /* 4 or 6 */
    uint8_t bits;
    uint8_t bytes[16]; /* beyond `bits` zero */
};

/* "10.0.0.0/8", "2001:db8::/32", or an address alone, without brackets, zone or port. Bits
 * beyond the prefix must be zero (a mistake otherwise). `::ffff:a.b.c.d/N` is the IPv4 prefix
 * of N - 96 bits. False, and out untouched, for anything else. */
bool prefix_parse(const char *text, struct prefix *out);
bool prefix_has(const struct prefix *p, const struct address *a);
bool prefix_any_has(const struct prefix *p, unsigned n, const struct address *a); /* one of n */

/* So much of a value's end is looked at: a chain of proxies is a few hundred bytes. */
#define FORWARDED_LOOK 4096

enum forwarded_form { FORWARDED_LIST /* X-Forwarded-For: a, b, c */, FORWARDED_RFC7239 };

/*
 * Who sent the request that `peer` handed over with the header's value (NULL: none): walks the
 * list from the right as long as the hop is trusted; the first that is not is the caller; if all
 * are, the leftmost. What stands left of the caller is not read, and changes nothing.
 *
 * What cannot be read ends the walk: then it is the peer. So it is with an empty element; one of
 * Forwarded without `for=` or with two, with an identifier that is no address (`unknown`,
 * `_hidden`), or against the grammar (spaces around ';' excepted); and with a chain of trusted
 * hops that is longer than 64 or FORWARDED_LOOK bytes. So is it without a header, or if the peer
 * itself is not trusted. A value is one header's: if it is there twice, nobody knows which was
 * written last, and the caller of this has to take the peer. `out` may be `peer`.
 */
void forwarded_find(const struct address *peer, const char *value, enum forwarded_form form,
                    const struct prefix *trusted, unsigned n_trusted, struct address *out);

/* Loopback, private (RFC 1918, RFC 4193), link-local or shared (RFC 6598): where a proxy of
 * one's own stands. */
bool forwarded_is_private(const struct address *a);

#endif
