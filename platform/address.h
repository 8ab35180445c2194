/*
 * Internet addresses as subjects (pure). Every spelling of one caller is one subject:
 * an IPv4 address is itself, an IPv6 address is its /64 (a household or a rented machine has
 * 2^64 of them), `::ffff:a.b.c.d` is the IPv4 address.
 */
#ifndef PLATFORM_ADDRESS_H
#define PLATFORM_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* family 4: bytes[0..4); family 6: all of them. As a subject, and to address_equal, only the
 * first 8 of an IPv6 address count, the /64. The rest is zero. */
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

bool address_equal(const struct address *a, const struct address *b);

#endif
