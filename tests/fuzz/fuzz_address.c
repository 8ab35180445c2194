/* Any text: an address that is understood is one of two families, is the same however it is
 * dressed, and as a subject whatever host of its /64 it is. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/address.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

static void expect_same(const struct address *a, const char *text)
{
    struct address again;
    require(address_parse(text, strlen(text), &again) && address_equal(a, &again));
}

static void check_ipv4(const struct address *a)
{
    static const char *const forms[] = {"%u.%u.%u.%u", "%u.%u.%u.%u:80", "::ffff:%u.%u.%u.%u",
                                        "[::FFFF:%u.%u.%u.%u]:80"};
    const uint8_t *b = a->bytes;
    char text[ADDRESS_TEXT_MAX];
    for (size_t i = 4; i < sizeof a->bytes; i++)
        require(b[i] == 0);
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(text, sizeof text, forms[i], b[0], b[1], b[2], b[3]);
#pragma GCC diagnostic pop
        expect_same(a, text);
    }
}

static void check_ipv6(const struct address *a)
{
    const uint8_t *b = a->bytes;
    char text[ADDRESS_TEXT_MAX];
    snprintf(text, sizeof text, "[%x:%X:%04x:%x:DEAD:beef:0:1%%eth0]:443", b[0] << 8 | b[1],
             b[2] << 8 | b[3], b[4] << 8 | b[5], b[6] << 8 | b[7]);
    expect_same(a, text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct address a, before;
    memset(&a, 0x5A, sizeof a);
    before = a;
    if (!address_parse((const char *)data, size, &a)) {
        require(memcmp(&a, &before, sizeof a) == 0);
        return 0;
    }
    require(size <= ADDRESS_TEXT_MAX && (a.family == 4 || a.family == 6));
    require(address_equal(&a, &a));
    if (a.family == 4)
        check_ipv4(&a);
    else
        check_ipv6(&a);
    return 0;
}
