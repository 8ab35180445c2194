/* Callers: who is counted as whom. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/caller.h"

/* The address subject of REMOTE_ADDR=text. */
static enum code subject_of(const char *text, struct caller *out)
{
    char entry[128];
    char *env[] = {entry, NULL};
    struct exchange x = {.env = env, .watch_fd = -1};

    snprintf(entry, sizeof(entry), "REMOTE_ADDR=%s", text);
    return caller_of(&x, out);
}

static const struct {
    const char *why, *a, *b;
    bool same;
} pairs[] = {
    {"itself", "192.0.2.1", "192.0.2.1", true},
    {"a neighbour", "192.0.2.1", "192.0.2.2", false},
    {"F39 the mapped form", "192.0.2.1", "::ffff:192.0.2.1", true},
    {"F39 hosts of one /64", "2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff", true},
    {"F39 two /64", "2001:db8::1", "2001:db8:0:1::1", false},
    {"F39 upper case and zone", "fe80::a%eth0", "FE80::B", true},
    {"an IPv4 address and an IPv6 net that begins with the same bytes", "32.1.13.184",
     "2001:db8::", false},
};

static void f39_every_spelling_of_an_address_is_one_subject(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        struct caller a, b;

        assert_int_equal(subject_of(pairs[i].a, &a), CODE_NONE);
        assert_int_equal(subject_of(pairs[i].b, &b), CODE_NONE);
        if ((memcmp(&a.id[SUBJECT_ADDRESS], &b.id[SUBJECT_ADDRESS], sizeof(a.id[0])) == 0) !=
            pairs[i].same)
            fail_msg("%s", pairs[i].why);
    }
}

static void a_caller_with_neither_account_nor_key_is_anonymous(void **state)
{
    struct caller c;

    (void)state;
    memset(&c, 0xff, sizeof(c));
    assert_int_equal(subject_of("192.0.2.1", &c), CODE_NONE);
    assert_true(c.anonymous);
    assert_true(c.id[SUBJECT_ADDRESS].n > 0);
    for (int s = 0; s < SUBJECTS; s++) {
        if (s != SUBJECT_ADDRESS)
            assert_int_equal(c.id[s].n, 0);
    }
}

static void who_cannot_be_counted_is_no_caller(void **state)
{
    static const char *const wrong[] = {"", "localhost", "unix:", "192.0.2.1, 192.0.2.2",
                                        "192.0.2.256"};
    struct caller c, before;

    (void)state;
    memset(&c, 0x5a, sizeof(c));
    before = c;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(subject_of(wrong[i], &c), CODE_NO_ADDRESS);
    assert_memory_equal(&c, &before, sizeof(c));
}

static void an_address_that_is_missing_or_there_twice_is_none(void **state)
{
    char a[] = "REMOTE_ADDR=192.0.2.1", b[] = "REMOTE_ADDR=192.0.2.2";
    char forwarded[] = "HTTP_X_FORWARDED_FOR=192.0.2.3";
    char *none[] = {forwarded, NULL}, *twice[] = {a, b, NULL};
    struct exchange x = {.env = none, .watch_fd = -1};
    struct caller c;

    (void)state;
    assert_int_equal(caller_of(&x, &c), CODE_NO_ADDRESS);
    x.env = twice;
    assert_int_equal(caller_of(&x, &c), CODE_NO_ADDRESS);
}

static void f37_headers_do_not_make_an_address(void **state)
{
    char remote[] = "REMOTE_ADDR=192.0.2.1", forwarded[] = "HTTP_X_FORWARDED_FOR=192.0.2.9";
    char real[] = "HTTP_X_REAL_IP=192.0.2.8";
    char *env[] = {forwarded, real, remote, NULL};
    struct exchange x = {.env = env, .watch_fd = -1};
    struct caller with, without;

    (void)state;
    assert_int_equal(caller_of(&x, &with), CODE_NONE);
    assert_int_equal(subject_of("192.0.2.1", &without), CODE_NONE);
    assert_memory_equal(&with.id[SUBJECT_ADDRESS], &without.id[SUBJECT_ADDRESS],
                        sizeof(with.id[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f39_every_spelling_of_an_address_is_one_subject),
        cmocka_unit_test(a_caller_with_neither_account_nor_key_is_anonymous),
        cmocka_unit_test(who_cannot_be_counted_is_no_caller),
        cmocka_unit_test(an_address_that_is_missing_or_there_twice_is_none),
        cmocka_unit_test(f37_headers_do_not_make_an_address),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
