/* F37, F39: who is counted behind proxies, and that nobody can choose it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/forwarded.h"

#define N(rows) (sizeof(rows) / sizeof((rows)[0]))

static struct address address(const char *text)
{
    struct address a;

    if (!address_parse(text, strlen(text), &a))
        fail_msg("'%s' is no address", text);
    return a;
}

static struct prefix prefix(const char *text)
{
    struct prefix p;

    if (!prefix_parse(text, &p))
        fail_msg("'%s' is no prefix", text);
    return p;
}

static const struct {
    const char *why, *text;
    struct prefix is; /* family 0: none */
} prefixes[] = {
    {"an IPv4 net", "10.0.0.0/8", {4, 8, {10}}},
    {"an IPv4 net that ends within a byte", "172.16.0.0/12", {4, 12, {172, 16}}},
    {"an IPv4 address", "192.0.2.1", {4, 32, {192, 0, 2, 1}}},
    {"the same", "192.0.2.1/32", {4, 32, {192, 0, 2, 1}}},
    {"all of IPv4", "0.0.0.0/0", {4, 0, {0}}},
    {"an IPv6 net", "2001:db8::/32", {6, 32, {0x20, 0x01, 0x0d, 0xb8}}},
    {"an IPv6 address", "::1", {6, 128, {[15] = 1}}},
    {"the same", "::1/128", {6, 128, {[15] = 1}}},
    {"all of IPv6", "::/0", {6, 0, {0}}},
    {"capitals", "2001:DB8::/32", {6, 32, {0x20, 0x01, 0x0d, 0xb8}}},
    {"F39 a mapped address", "::ffff:192.0.2.1", {4, 32, {192, 0, 2, 1}}},
    {"F39 a mapped net", "::ffff:10.0.0.0/104", {4, 8, {10}}},
    {"F39 all mapped ones", "::ffff:0:0/96", {4, 0, {0}}},

    {"nothing", "", {0}},
    {"a slash", "/", {0}},
    {"no address", "/8", {0}},
    {"no bits", "10.0.0.0/", {0}},
    {"a name", "localhost", {0}},
    {"a word", "any", {0}},
    {"bits beyond", "10.0.0.1/8", {0}},
    {"one bit beyond", "172.24.0.0/12", {0}},
    {"bits beyond in IPv6", "2001:db8::1/64", {0}},
    {"bits beyond in a mapped one", "::ffff:10.0.0.1/104", {0}},
    {"a mapped one in IPv4's bits", "::ffff:10.0.0.0/8", {0}},
    {"a mapped one with its ones beyond", "::ffff:0:0/95", {0}},
    {"too many bits", "10.0.0.0/33", {0}},
    {"too many bits in IPv6", "::/129", {0}},
    {"far too many bits", "10.0.0.0/4294967304", {0}},
    {"a leading zero", "10.0.0.0/08", {0}},
    {"a sign", "10.0.0.0/+8", {0}},
    {"a space", "10.0.0.0/8 ", {0}},
    {"a space within", "10.0.0.0 /8", {0}},
    {"two", "10.0.0.0/8,11.0.0.0/8", {0}},
    {"twice the bits", "10.0.0.0/8/8", {0}},
    {"a mask", "10.0.0.0/255.0.0.0", {0}},
    {"a short form", "10/8", {0}},
    {"a port", "192.0.2.1:80", {0}},
    {"brackets", "[::1]", {0}},
    {"brackets and bits", "[::]/0", {0}},
    {"a zone", "fe80::1%eth0", {0}},
    {"a zone and bits", "fe80::%eth0/10", {0}},
};

static void a_prefix_has_no_bits_beyond(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(prefixes); i++) {
        const struct prefix *is = &prefixes[i].is;
        struct prefix out, before;

        memset(&out, 0x5a, sizeof out);
        before = out;
        if (prefix_parse(prefixes[i].text, &out) != (is->family != 0))
            fail_msg("%s: '%s'", prefixes[i].why, prefixes[i].text);
        if (memcmp(&out, is->family ? is : &before, sizeof out) != 0)
            fail_msg("%s: '%s' is other bytes", prefixes[i].why, prefixes[i].text);
    }
}

static const struct {
    const char *why, *prefix, *address;
    bool has;
} members[] = {
    {"the first", "10.0.0.0/8", "10.0.0.0", true},
    {"the last", "10.0.0.0/8", "10.255.255.255", true},
    {"the one before", "10.0.0.0/8", "9.255.255.255", false},
    {"the one after", "10.0.0.0/8", "11.0.0.0", false},
    {"the last, within a byte", "172.16.0.0/12", "172.31.255.255", true},
    {"the one after, within a byte", "172.16.0.0/12", "172.32.0.0", false},
    {"itself", "192.0.2.1", "192.0.2.1", true},
    {"its neighbour", "192.0.2.1", "192.0.2.0", false},
    {"any", "0.0.0.0/0", "255.255.255.255", true},
    {"IPv4 is not of IPv6", "::/0", "192.0.2.1", false},
    {"IPv6 is not of IPv4", "0.0.0.0/0", "2001:db8::1", false},
    {"an IPv4 net that begins as the address", "32.1.13.184", "2001:db8::", false},
    {"the first of IPv6", "2001:db8::/33", "2001:db8::", true},
    {"the last of IPv6", "2001:db8::/33", "2001:db8:7fff:ffff:ffff:ffff:ffff:ffff", true},
    {"the one after of IPv6", "2001:db8::/33", "2001:db8:8000::", false},
    {"a proxy is one host of its /64", "2001:db8::1", "2001:db8::2", false},
    {"itself in IPv6", "2001:db8::1", "2001:db8:0::0001", true},
    {"F39 a mapped address", "10.0.0.0/8", "::ffff:10.1.2.3", true},
    {"F39 a mapped net", "::ffff:10.0.0.0/104", "10.1.2.3", true},
    {"F39 both mapped", "::ffff:10.0.0.0/104", "::ffff:11.1.2.3", false},
    {"F39 a zone", "fe80::/10", "fe80::1%eth0", true},
};

static void whom_a_prefix_has(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(members); i++) {
        struct prefix p = prefix(members[i].prefix);
        struct address a = address(members[i].address);

        if (prefix_has(&p, &a) != members[i].has)
            fail_msg("%s", members[i].why);
    }
}

/* Who is found behind 10.0.0.1, if 10.0.0.0/8, 2001:db8:1::/48 and fe80::/10 are trusted. */
static struct address found(const char *peer, const char *value, enum forwarded_form form)
{
    struct prefix trusted[] = {prefix("10.0.0.0/8"), prefix("2001:db8:1::/48"),
                               prefix("fe80::/10")};
    struct address from = address(peer), out;
    char *exact = value ? strdup(value) : NULL; /* so that a sanitizer sees a read beyond it */

    memset(&out, 0x5a, sizeof out);
    forwarded_find(&from, exact, form, trusted, N(trusted), &out);
    free(exact);
    return out;
}

static void expect(const char *why, const char *peer, const char *value,
                   enum forwarded_form form, const char *caller)
{
    struct address expected = address(caller), out = found(peer, value, form);

    if (memcmp(&out, &expected, sizeof out) != 0)
        fail_msg("%s: '%s' from %s is not %s", why, value ? value : "(none)", peer, caller);
}

#define PEER "10.0.0.1"

static const struct {
    const char *why, *peer, *value, *caller;
} lists[] = {
    {"no header", PEER, NULL, PEER},
    {"an empty header", PEER, "", PEER},
    {"spaces", PEER, " \t ", PEER},
    {"one hop", PEER, "192.0.2.1", "192.0.2.1"},
    {"F37 anybody writes a header", "192.0.2.9", "192.0.2.1", "192.0.2.9"},
    {"F37 anybody writes a trusted address", "192.0.2.9", "10.0.0.1", "192.0.2.9"},
    {"F37 the leftmost is the caller's own invention", PEER, "1.2.3.4, 192.0.2.1", "192.0.2.1"},
    {"two proxies", PEER, "192.0.2.1, 10.0.0.2", "192.0.2.1"},
    {"F37 two proxies and an invention", PEER, "10.0.0.9, 192.0.2.1, 10.0.0.2", "192.0.2.1"},
    {"F37 an invented proxy of IPv6", PEER, "2001:db8:1::1, 192.0.2.1", "192.0.2.1"},
    {"all trusted: the leftmost", PEER, "10.0.0.3, 10.0.0.2", "10.0.0.3"},
    {"no spaces", PEER, "1.2.3.4,192.0.2.1,10.0.0.2", "192.0.2.1"},
    {"spaces and tabs", PEER, "  1.2.3.4 ,\t192.0.2.1\t, 10.0.0.2  ", "192.0.2.1"},
    {"a port", PEER, "192.0.2.1:4711", "192.0.2.1"},
    {"IPv6", PEER, "2001:db8::7", "2001:db8::7"},
    {"IPv6 in brackets with a port", PEER, "[2001:db8::7]:4711, 10.0.0.2", "2001:db8::7"},
    {"F39 a mapped hop is an IPv4 proxy", PEER, "192.0.2.1, ::ffff:10.0.0.2", "192.0.2.1"},
    {"F39 a mapped caller", PEER, "::FFFF:192.0.2.1", "192.0.2.1"},
    {"F39 a mapped peer", "::ffff:10.0.0.1", "192.0.2.1", "192.0.2.1"},
    {"F39 a zone", "fe80::1%eth0", "192.0.2.1, fe80::2%br-lan", "192.0.2.1"},

    {"F37 the nearest cannot be read", PEER, "192.0.2.1, unknown", PEER},
    {"F37 nor can the one behind a proxy", PEER, "192.0.2.1, unknown, 10.0.0.2", PEER},
    {"F37 an invention that cannot be read is not", PEER, "\"x, 192.0.2.1, 10.0.0.2",
     "192.0.2.1"},
    {"F37 nor is an empty one", PEER, ",,, 192.0.2.1", "192.0.2.1"},
    {"an empty element", PEER, "192.0.2.1,, 10.0.0.2", PEER},
    {"a comma behind", PEER, "192.0.2.1,", PEER},
    {"a comma and spaces behind", PEER, "192.0.2.1, ", PEER},
    {"a comma before", PEER, ", 10.0.0.2", PEER},
    {"two in one element", PEER, "192.0.2.1 10.0.0.2", PEER},
    {"quotes", PEER, "\"192.0.2.1\"", PEER},
    {"octal", PEER, "192.0.02.1", PEER},
    {"a name", PEER, "localhost", PEER},
    {"a line's end within", PEER, "192.0.2.1\r\n", PEER},
    {"the other header's form", PEER, "for=192.0.2.1", PEER},
};

static void f37_a_list_is_walked_from_the_right(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(lists); i++)
        expect(lists[i].why, lists[i].peer, lists[i].value, FORWARDED_LIST, lists[i].caller);
}

static const struct {
    const char *why, *peer, *value, *caller;
} elements[] = {
    {"no header", PEER, NULL, PEER},
    {"an empty header", PEER, "", PEER},
    {"one hop", PEER, "for=192.0.2.1", "192.0.2.1"},
    {"in any case", PEER, "FoR=192.0.2.1", "192.0.2.1"},
    {"F37 anybody writes a header", "192.0.2.9", "for=192.0.2.1", "192.0.2.9"},
    {"F37 the leftmost is the caller's own invention", PEER, "for=1.2.3.4, for=192.0.2.1",
     "192.0.2.1"},
    {"two proxies", PEER, "for=192.0.2.1,for=10.0.0.2", "192.0.2.1"},
    {"all trusted: the leftmost", PEER, "for=10.0.0.3, for=10.0.0.2", "10.0.0.3"},
    {"RFC 7239, 4: an example", PEER, "for=192.0.2.60;proto=http;by=203.0.113.43",
     "192.0.2.60"},
    {"RFC 7239, 4: another", PEER, "For=\"[2001:db8:cafe::17]:4711\"", "2001:db8:cafe::17"},
    {"for in the middle", PEER, "by=203.0.113.43;for=192.0.2.1;proto=https", "192.0.2.1"},
    {"for at the end", PEER, "proto=https;host=example.org;for=192.0.2.1", "192.0.2.1"},
    {"spaces around a semicolon", PEER, "for=192.0.2.1 ; proto=https", "192.0.2.1"},
    {"empty parameters", PEER, ";for=192.0.2.1;;", "192.0.2.1"},
    {"parameters nobody knows", PEER, "x-y.z=\"a b\";for=192.0.2.1", "192.0.2.1"},
    {"quotes", PEER, "for=\"192.0.2.1\"", "192.0.2.1"},
    {"quotes and a port", PEER, "for=\"192.0.2.1:80\"", "192.0.2.1"},
    {"an escaped character", PEER, "for=\"192.0.2\\.1\"", "192.0.2.1"},
    {"IPv6 in brackets", PEER, "for=\"[2001:db8::7]\"", "2001:db8::7"},
    {"a comma in a string", PEER, "for=192.0.2.1;host=\"a,for=1.2.3.4\"", "192.0.2.1"},
    {"a semicolon in a string", PEER, "for=192.0.2.1;host=\"a;for=1.2.3.4\"", "192.0.2.1"},
    {"a quote in a string", PEER, "host=\"a\\\", for=1.2.3.4;x=\\\"\";for=192.0.2.1",
     "192.0.2.1"},
    {"a string that ends in a backslash", PEER, "for=192.0.2.1;host=\"a\\\\\", for=10.0.0.2",
     "192.0.2.1"},
    {"a string of backslashes and a quote", PEER,
     "for=192.0.2.1;host=\"\\\\\\\"\", for=10.0.0.2", "192.0.2.1"},
    {"an empty string", PEER, "for=192.0.2.1;host=\"\", for=10.0.0.2", "192.0.2.1"},

    {"F37 an unpaired quote of the caller's", PEER, "for=\"1.2.3.4, for=192.0.2.1",
     "192.0.2.1"},
    {"F37 the same, and strings of the proxy's", PEER,
     "for=\", for=\"192.0.2.1\";host=\"x\", for=10.0.0.2", "192.0.2.1"},
    {"F37 an unpaired quote, and a host that would be an element", PEER,
     "for=\", for=192.0.2.1;host=\", for=1.2.3.4;x=\"", "192.0.2.1"},
    {"F37 the caller ends in a backslash", PEER, "for=\"\\, for=192.0.2.1;host=\"x\"",
     "192.0.2.1"},
    {"F37 an invention that cannot be read", PEER, ";;=;\"\\, for=192.0.2.1", "192.0.2.1"},

    {"F37 a hidden hop", PEER, "for=192.0.2.1, for=_hidden", PEER},
    {"F37 a hidden hop with a port", PEER, "for=192.0.2.1, for=\"_hidden:80\"", PEER},
    {"F37 an unknown hop", PEER, "for=192.0.2.1, for=unknown, for=10.0.0.2", PEER},
    {"F37 an element without for", PEER, "for=192.0.2.1, by=10.0.0.2", PEER},
    {"for twice", PEER, "for=1.2.3.4;for=192.0.2.1", PEER},
    {"the same twice", PEER, "for=192.0.2.1;for=192.0.2.1", PEER},
    {"a name that ends in for", PEER, "xfor=192.0.2.1", PEER},
    {"a name that begins with for", PEER, "forx=192.0.2.1", PEER},
    {"an empty element", PEER, "for=192.0.2.1,, for=10.0.0.2", PEER},
    {"a comma behind", PEER, "for=192.0.2.1,", PEER},
    {"no value", PEER, "for=", PEER},
    {"an empty value", PEER, "for=\"\"", PEER},
    {"no name", PEER, "=192.0.2.1", PEER},
    {"no equals sign", PEER, "for", PEER},
    {"a broken parameter behind", PEER, "for=192.0.2.1;proto", PEER},
    {"spaces around the equals sign", PEER, "for = 192.0.2.1", PEER},
    {"two without a semicolon", PEER, "for=192.0.2.1 proto=https", PEER},
    {"something behind a string", PEER, "for=\"192.0.2.1\"x", PEER},
    {"a port without quotes", PEER, "for=192.0.2.1:80", PEER},
    {"brackets without quotes", PEER, "for=[2001:db8::7]", PEER},
    {"a string without end", PEER, "for=\"192.0.2.1", PEER},
    {"a string without beginning", PEER, "for=192.0.2.1\"", PEER},
    {"a string that is a quote", PEER, "\"", PEER},
    {"a string whose end is escaped", PEER, "for=\"192.0.2.1\\\"", PEER},
    {"a later string whose end is escaped", PEER, "for=192.0.2.1;host=\"x\\\"", PEER},
    {"a later string that ends in an escape", PEER, "for=192.0.2.1;host=\"x\\", PEER},
    {"a delete character in a string", PEER, "for=192.0.2.1;host=\"\x7f\"", PEER},
    {"a control character in a string", PEER, "for=192.0.2.1;host=\"\x01\"", PEER},
    {"the other header's form", PEER, "192.0.2.1", PEER},
};

static void f37_forwarded_is_walked_from_the_right(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(elements); i++)
        expect(elements[i].why, elements[i].peer, elements[i].value, FORWARDED_RFC7239,
               elements[i].caller);
}

/* value = what stands before, then n times the element. */
static char *chain(const char *before, const char *element, unsigned n)
{
    size_t size = strlen(before) + n * strlen(element) + 1;
    char *value = malloc(size);

    assert_non_null(value);
    snprintf(value, size, "%s", before);
    for (unsigned i = 0; i < n; i++)
        snprintf(value + strlen(value), size - strlen(value), "%s", element);
    return value;
}

static void a_chain_of_trusted_hops_has_an_end(void **state)
{
    static const struct {
        const char *why, *before, *element;
        enum forwarded_form form;
        unsigned n;
        const char *caller;
    } chains[] = {
        {"63 proxies", "192.0.2.1", ",10.0.0.2", FORWARDED_LIST, 63, "192.0.2.1"},
        {"64 proxies", "192.0.2.1", ",10.0.0.2", FORWARDED_LIST, 64, PEER},
        {"60 far apart", "192.0.2.1", ",                      10.0.0.2", FORWARDED_LIST, 60,
         "192.0.2.1"},
        {"too far apart", "192.0.2.1",
         ",                                                                  10.0.0.2",
         FORWARDED_LIST, 60, PEER},
        {"63 proxies", "for=192.0.2.1", ",for=10.0.0.2", FORWARDED_RFC7239, 63, "192.0.2.1"},
        {"64 proxies", "for=192.0.2.1", ",for=10.0.0.2", FORWARDED_RFC7239, 64, PEER},
    };

    (void)state;
    for (size_t i = 0; i < N(chains); i++) {
        char *value = chain(chains[i].before, chains[i].element, chains[i].n);

        expect(chains[i].why, PEER, value, chains[i].form, chains[i].caller);
        free(value);
    }
}

/* What a stranger writes before the proxy's element, however long or broken. */
static void f37_nothing_that_stands_left_matters(void **state)
{
    static const char *const inventions[] = {
        "1.2.3.4,", "10.0.0.9,", "for=1.2.3.4,",         ",",    "\"", "\\", "\\\"", "for=\"",
        "x ",       "[",         "for=10.0.0.9;x=\",\"", "\xff",
    };

    (void)state;
    for (size_t i = 0; i < N(inventions); i++) {
        for (unsigned n = 1; n < 12000; n = n * 7 + 1) {
            char *left = chain("", inventions[i], n);
            char *list = chain(left, ", 192.0.2.1, 10.0.0.2", 1);
            char *rfc7239 = chain(left, ", for=192.0.2.1;host=\"a,\\\"\", for=\"10.0.0.2\"", 1);

            expect(inventions[i], PEER, list, FORWARDED_LIST, "192.0.2.1");
            expect(inventions[i], PEER, rfc7239, FORWARDED_RFC7239, "192.0.2.1");
            free(left);
            free(list);
            free(rfc7239);
        }
    }
}

/* The element itself is cut at 4096 bytes from the end, wherever that falls. */
static void an_element_that_is_too_long_is_not_read(void **state)
{
    (void)state;
    for (unsigned n = 4070; n < 4110; n++) {
        char *spaces = chain("192.0.2.1", " ", n);
        char *string = chain("for=192.0.2.1;x=\"", "a", n);
        char *quoted = chain(string, "\"", 1);
        bool fits = 9 + n < 4096;

        /* exactly 4096 bytes are looked at in full */
        expect("spaces", PEER, spaces, FORWARDED_LIST,
               fits || 9 + n == 4096 ? "192.0.2.1" : PEER);
        expect("a string", PEER, quoted, FORWARDED_RFC7239,
               18 + n <= 4096 ? "192.0.2.1" : PEER);
        free(spaces);
        free(string);
        free(quoted);
    }
}

static void nobody_is_trusted(void **state)
{
    struct address peer = address(PEER), out;

    (void)state;
    forwarded_find(&peer, "192.0.2.1", FORWARDED_LIST, NULL, 0, &out);
    assert_memory_equal(&out, &peer, sizeof out);
}

static void the_peer_may_be_where_the_caller_goes(void **state)
{
    struct prefix trusted = prefix("10.0.0.0/8");
    struct address a = address(PEER), expected = address("192.0.2.1");

    (void)state;
    forwarded_find(&a, "192.0.2.1", FORWARDED_LIST, &trusted, 1, &a);
    assert_memory_equal(&a, &expected, sizeof a);
}

static const struct {
    const char *text;
    bool is_private;
} privates[] = {
    {"127.0.0.1", true},
    {"127.255.255.255", true},
    {"10.1.2.3", true},
    {"172.15.255.255", false},
    {"172.16.0.0", true},
    {"172.31.255.255", true},
    {"172.32.0.0", false},
    {"192.168.0.1", true},
    {"192.169.0.0", false},
    {"169.254.1.1", true},
    {"100.63.255.255", false},
    {"100.64.0.0", true},
    {"100.127.255.255", true},
    {"100.128.0.0", false},
    {"::ffff:192.168.0.1", true},
    {"8.8.8.8", false},
    {"0.0.0.0", false},
    {"::1", true},
    {"::2", false},
    {"::", false},
    {"fbff::1", false},
    {"fc00::1", true},
    {"fdff:ffff::1", true},
    {"fe00::1", false},
    {"fe80::1%eth0", true},
    {"febf::1", true},
    {"fec0::1", false},
    {"2001:db8::1", false},
};

static void where_a_proxy_of_ones_own_stands(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(privates); i++) {
        struct address a = address(privates[i].text);

        if (forwarded_is_private(&a) != privates[i].is_private)
            fail_msg("%s", privates[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prefix_has_no_bits_beyond),
        cmocka_unit_test(whom_a_prefix_has),
        cmocka_unit_test(f37_a_list_is_walked_from_the_right),
        cmocka_unit_test(f37_forwarded_is_walked_from_the_right),
        cmocka_unit_test(a_chain_of_trusted_hops_has_an_end),
        cmocka_unit_test(f37_nothing_that_stands_left_matters),
        cmocka_unit_test(an_element_that_is_too_long_is_not_read),
        cmocka_unit_test(nobody_is_trusted),
        cmocka_unit_test(the_peer_may_be_where_the_caller_goes),
        cmocka_unit_test(where_a_proxy_of_ones_own_stands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
