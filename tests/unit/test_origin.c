/* Origins: which pages may ask, and which is the host's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/origin.h"

#define N(rows) (sizeof(rows) / sizeof((rows)[0]))

#define LABEL_63 "abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabc"

static const struct {
    const char *why, *text;
    bool https;
    uint16_t port;
    const char *host; /* NULL: none */
} rows[] = {
    {"https", "https://example.org", true, 443, "example.org"},
    {"http", "http://example.org", false, 80, "example.org"},
    {"a port", "https://example.org:8443", true, 8443, "example.org"},
    {"its own port, written", "https://example.org:443", true, 443, "example.org"},
    {"the other scheme's port", "http://example.org:443", false, 443, "example.org"},
    {"the highest port", "http://example.org:65535", false, 65535, "example.org"},
    {"the lowest port", "http://example.org:1", false, 1, "example.org"},
    {"capitals", "HTTPS://Example.ORG:8080", true, 8080, "example.org"},
    {"one label", "http://localhost:3000", false, 3000, "localhost"},
    {"a name with digits", "http://1and1.example", false, 80, "1and1.example"},
    {"a name with an underscore", "http://my_router.lan", false, 80, "my_router.lan"},
    {"Punycode", "https://xn--bcher-kva.example", true, 443, "xn--bcher-kva.example"},
    {"the longest label", "http://" LABEL_63 ".org", false, 80, LABEL_63 ".org"},
    {"IPv4", "http://192.168.1.1", false, 80, "192.168.1.1"},
    {"IPv4 and port", "http://192.168.1.1:8080", false, 8080, "192.168.1.1"},
    {"IPv6", "http://[2001:db8::1]", false, 80, "[2001:db8::1]"},
    {"IPv6 and port", "https://[::1]:8443", true, 8443, "[::1]"},
    {"IPv6 otherwise spelt", "http://[2001:DB8:0:0::0001]", false, 80, "[2001:db8::1]"},

    {"what sandboxed pages send", "null", false, 0, NULL},
    {"anybody", "*", false, 0, NULL},
    {"nothing", "", false, 0, NULL},
    {"no scheme", "example.org", false, 0, NULL},
    {"half a scheme", "//example.org", false, 0, NULL},
    {"another scheme", "ftp://example.org", false, 0, NULL},
    {"an extension's", "chrome-extension://abcdef", false, 0, NULL},
    {"a file's", "file://", false, 0, NULL},
    {"no host", "https://", false, 0, NULL},
    {"a port alone", "https://:443", false, 0, NULL},
    {"one slash", "https:/example.org", false, 0, NULL},
    {"a trailing slash", "https://example.org/", false, 0, NULL},
    {"a path", "https://example.org/x", false, 0, NULL},
    {"a query", "https://example.org?x", false, 0, NULL},
    {"a fragment", "https://example.org#x", false, 0, NULL},
    {"a user", "https://me@example.org", false, 0, NULL},
    {"a user and a password", "https://me:1@example.org", false, 0, NULL},
    {"a space before", " https://example.org", false, 0, NULL},
    {"a space behind", "https://example.org ", false, 0, NULL},
    {"two", "https://example.org https://example.com", false, 0, NULL},
    {"two with a comma", "https://example.org,https://example.com", false, 0, NULL},
    {"a star in the name", "https://*.example.org", false, 0, NULL},
    {"a percent sign", "https://example%2eorg", false, 0, NULL},
    {"a backslash", "https://example.org\\x", false, 0, NULL},
    {"a line's end", "https://example.org\n", false, 0, NULL},
    {"not ASCII",
     "https://b\xc3\xbc"
     "cher.example",
     false, 0, NULL},
    {"a dot before", "https://.example.org", false, 0, NULL},
    {"a dot behind", "https://example.org.", false, 0, NULL},
    {"two dots", "https://example..org", false, 0, NULL},
    {"a label too long", "https://" LABEL_63 "d.org", false, 0, NULL},
    {"port 0", "https://example.org:0", false, 0, NULL},
    {"a port too high", "https://example.org:65536", false, 0, NULL},
    {"a port far too high", "https://example.org:4294967739", false, 0, NULL},
    {"a leading zero", "https://example.org:0443", false, 0, NULL},
    {"no digits", "https://example.org:", false, 0, NULL},
    {"a sign", "https://example.org:+443", false, 0, NULL},
    {"a service's name", "https://example.org:https", false, 0, NULL},
    {"two ports", "https://example.org:443:443", false, 0, NULL},
    {"short IPv4, that browsers rewrite", "http://127.1", false, 0, NULL},
    {"a number, too", "http://2130706433", false, 0, NULL},
    {"octal IPv4", "http://192.168.01.1", false, 0, NULL},
    {"a name that ends in a number", "http://example.1", false, 0, NULL},
    {"IPv6 without brackets", "http://2001:db8::1", false, 0, NULL},
    {"IPv6 without its end", "http://[2001:db8::1", false, 0, NULL},
    {"IPv6 with a zone", "http://[fe80::1%eth0]", false, 0, NULL},
    {"IPv6 with a port in it", "http://[::1]:80]:80", false, 0, NULL},
    {"IPv6 and no colon", "http://[::1]80", false, 0, NULL},
    {"IPv6 and a name", "http://[::1].example.org", false, 0, NULL},
    {"IPv4 in brackets", "http://[192.0.2.1]", false, 0, NULL},
    {"mapped IPv4", "http://[::ffff:192.0.2.1]", false, 0, NULL},
    {"nothing in brackets", "http://[]", false, 0, NULL},
};

static void an_origin_has_one_form(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(rows); i++) {
        struct origin out, before;

        memset(&out, 0x5a, sizeof out);
        before = out;
        if (origin_parse(rows[i].text, &out) != (rows[i].host != NULL))
            fail_msg("%s: '%s'", rows[i].why, rows[i].text);
        if (!rows[i].host) {
            assert_memory_equal(&out, &before, sizeof out);
            continue;
        }
        if (out.https != rows[i].https || out.port != rows[i].port ||
            strcmp(out.host, rows[i].host) != 0)
            fail_msg("%s: '%s' is %d %s %u", rows[i].why, rows[i].text, out.https, out.host,
                     out.port);
    }
}

static void the_longest_name(void **state)
{
    static const char tail[] = ":65535";
    char text[600] = "https://";
    struct origin out;

    (void)state;
    for (size_t n = 250; n <= 256; n++) {
        char *host = text + 8;

        for (size_t i = 0; i < n; i++)
            host[i] = i % 50 == 49 && i + 1 < n ? '.' : 'a';
        memcpy(host + n, tail, sizeof tail);
        assert_int_equal(origin_parse(text, &out), n <= ORIGIN_HOST_MAX);
        if (n <= ORIGIN_HOST_MAX)
            assert_int_equal(strlen(out.host), n);
        assert_int_equal(origin_parse(text, &out) && origin_is_host(&out, host, NULL),
                         n <= ORIGIN_HOST_MAX);
    }
}

static struct origin parsed(const char *text)
{
    struct origin o;

    if (!origin_parse(text, &o))
        fail_msg("'%s'", text);
    return o;
}

static const struct {
    const char *why, *a, *b;
    bool same;
} pairs[] = {
    {"itself", "https://example.org", "https://example.org", true},
    {"the port written", "https://example.org", "https://example.org:443", true},
    {"capitals", "https://example.org", "https://EXAMPLE.org", true},
    {"IPv6 otherwise spelt", "http://[::1]", "http://[0:0:0:0:0:0:0:1]:80", true},
    {"another scheme", "https://example.org", "http://example.org", false},
    {"another scheme, the same port", "https://example.org:80", "http://example.org", false},
    {"another port", "https://example.org", "https://example.org:8443", false},
    {"a subdomain", "https://example.org", "https://a.example.org", false},
    {"a name that begins alike", "https://example.org", "https://example.org.evil.example",
     false},
    {"IPv6 of one /64", "http://[2001:db8::1]", "http://[2001:db8::2]", false},
};

static void origins_are_equal_as_a_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(pairs); i++) {
        struct origin a = parsed(pairs[i].a), b = parsed(pairs[i].b);

        if (origin_equal(&a, &b) != pairs[i].same || origin_equal(&b, &a) != pairs[i].same)
            fail_msg("%s", pairs[i].why);
    }
}

static const struct {
    const char *why, *origin, *host, *port;
    bool own;
} hosts[] = {
    {"plain", "https://example.org", "example.org", "443", true},
    {"capitals", "https://example.org", "EXAMPLE.org", "443", true},
    {"the port written", "https://example.org", "example.org:443", "443", true},
    {"another port", "http://example.org:8080", "example.org:8080", "8080", true},
    {"the server sees another port than the browser", "http://example.org:8080",
     "example.org:8080", "80", true},
    {"nginx: the port was cut off", "http://example.org:8080", "example.org", "8080", true},
    {"a proxy in front ends TLS", "https://example.org", "example.org", "80", true},
    {"a proxy in front, the server elsewhere", "https://example.org", "example.org", "8080",
     true},
    {"no SERVER_PORT", "https://example.org", "example.org", NULL, true},
    {"IPv6", "http://[2001:db8::1]", "[2001:db8::1]", "80", true},
    {"IPv6 and port", "http://[2001:db8::1]:81", "[2001:DB8:0::1]:81", NULL, true},
    {"IPv4", "http://192.168.1.1", "192.168.1.1", "80", true},

    {"no host", "https://example.org", NULL, "443", false},
    {"an empty host", "https://example.org", "", "443", false},
    {"another host", "https://evil.example", "example.org", "443", false},
    {"a name that ends alike", "https://evilexample.org", "example.org", "443", false},
    {"a subdomain", "https://a.example.org", "example.org", "443", false},
    {"another port than the host's", "https://example.org:8443", "example.org:443", "8443",
     false},
    {"the scheme's own port, the host's another", "https://example.org", "example.org:8443",
     "443", false},
    {"the host's port is the other scheme's", "https://example.org", "example.org:80", "80",
     false},
    {"the port cut off, and another", "http://example.org:8080", "example.org", "8081", false},
    {"the port cut off, and unknown", "http://example.org:8080", "example.org", NULL, false},
    {"the port cut off, and empty", "http://example.org:8080", "example.org", "", false},
    {"the port cut off, and nonsense", "http://example.org:8080", "example.org", "08080",
     false},
    {"the port cut off, and longer", "http://example.org:8080", "example.org", "80801", false},
    {"IPv6, another of its /64", "http://[2001:db8::1]", "[2001:db8::2]", "80", false},
    {"a space before", "https://example.org", " example.org", "443", false},
    {"a space behind", "https://example.org", "example.org ", "443", false},
    {"two hosts", "https://example.org", "example.org,evil.example", "443", false},
    {"the same twice", "https://example.org", "example.org, example.org", "443", false},
    {"a user", "https://example.org", "me@example.org", "443", false},
    {"a path", "https://example.org", "example.org/", "443", false},
    {"an empty port", "https://example.org", "example.org:", "443", false},
    {"port 0", "https://example.org", "example.org:0", "443", false},
    {"a port with a zero", "https://example.org", "example.org:0443", "443", false},
    {"a dot behind", "https://example.org", "example.org.", "443", false},
    {"a whole origin", "https://example.org", "https://example.org", "443", false},
};

static void the_hosts_own_pages(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(hosts); i++) {
        struct origin o = parsed(hosts[i].origin);

        if (origin_is_host(&o, hosts[i].host, hosts[i].port) != hosts[i].own)
            fail_msg("%s", hosts[i].why);
    }
}

static void a_host_of_100_kilobytes_is_none(void **state)
{
    static char host[100 * 1024];
    struct origin o = parsed("https://example.org");

    (void)state;
    memset(host, 'a', sizeof host - 1);
    assert_false(origin_is_host(&o, host, "443"));
    memcpy(host, "example.org:443", 15);
    assert_false(origin_is_host(&o, host, "443"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_origin_has_one_form),
        cmocka_unit_test(the_longest_name),
        cmocka_unit_test(origins_are_equal_as_a_whole),
        cmocka_unit_test(the_hosts_own_pages),
        cmocka_unit_test(a_host_of_100_kilobytes_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
