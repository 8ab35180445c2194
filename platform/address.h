/*
 * Internet addresses (pure). Every spelling of one caller is one subject: an IPv4 address is
 * itself, an IPv6 address is its /64 (a household or a rented machine has 2^64 of them),
 * `::ffff:a.b.c.d` is the IPv4 address. A trusted proxy, though, is one host of its /64.
 */
#ifndef PLATFORM_ADDRESS_H
#define PLATFORM_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* family 4: bytes[0..4), the rest zero; family 6: all of them. */
struct address {
    uint8_t family;
    uint8_t bytes[16];
};

#define ADDRESS_TEXT_MAX 64 /* longest text looked at: 45 for IPv6, brackets, port, zone */

/*
 * Parses text[0..n): dotted IPv4 (no octal, no leading zeros), any IPv6 spelling, in brackets
 * or not, with a zone id (`%eth0`, dropped), with a port (`1.2.3.4:80`, `[::1]:80`, dropped).
 * False, and out untouched, for anything else.
 */
bool address_parse(const char *text, size_t n, struct address *out);

/* How many of the bytes, from the first, are the subject: 4, or 8 of an IPv6 address. */
unsigned address_subject_bytes(const struct address *a);

/* Whether two are one subject. */
bool address_equal(const struct address *a, const struct address *b);

#endif
