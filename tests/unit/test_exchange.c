/* Exchanges: variables as web servers pass them, and whether the other side is still there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "gateway/exchange.h"

static struct exchange exchange_of(char *const *env)
{
    struct exchange x = {.env = env, .watch_fd = -1};

    return x;
}

static void variables_are_found_by_their_whole_name(void **state)
{
    char one[] = "HTTP_HOST=a", two[] = "HTTP_HOSTS=b", three[] = "EMPTY=", four[] = "NO_SIGN";
    char five[] = "HTTP_HOST=second", six[] = "=nameless", seven[] = "EQUAL=x=y";
    char *env[] = {six, four, two, one, three, five, seven, NULL};
    struct exchange x = exchange_of(env);

    (void)state;
    assert_string_equal(exchange_param(&x, "HTTP_HOST"), "a");
    assert_string_equal(exchange_param(&x, "HTTP_HOSTS"), "b");
    assert_string_equal(exchange_param(&x, "EMPTY"), "");
    assert_string_equal(exchange_param(&x, "EQUAL"), "x=y");
    assert_null(exchange_param(&x, "HTTP_HOS"));
    assert_null(exchange_param(&x, "NO_SIGN"));
    assert_null(exchange_param(&x, "http_host"));
}

static void repeated_variables_are_counted(void **state)
{
    char a[] = "REMOTE_ADDR=1", b[] = "REMOTE_ADDR=2", c[] = "REMOTE_ADDRESS=3";
    char *env[] = {a, c, b, NULL}, *none[] = {NULL};
    struct exchange x = exchange_of(env), empty = exchange_of(none);

    (void)state;
    assert_int_equal(exchange_param_count(&x, "REMOTE_ADDR"), 2);
    assert_int_equal(exchange_param_count(&x, "REMOTE_ADDRESS"), 1);
    assert_int_equal(exchange_param_count(&x, "REMOTE"), 0);
    assert_int_equal(exchange_param_count(&empty, "REMOTE_ADDR"), 0);
    assert_string_equal(exchange_param_at(&x, "REMOTE_ADDR", 1), "2");
    assert_null(exchange_param_at(&x, "REMOTE_ADDR", 2));
    assert_string_equal(exchange_param_only(&x, "REMOTE_ADDRESS"), "3");
    assert_null(exchange_param_only(&x, "REMOTE_ADDR"));
    assert_null(exchange_param_only(&empty, "REMOTE_ADDR"));
}

static const struct {
    char text[48];
    uint64_t length;
} lengths[] = {
    {"X=1", 0}, /* absent, empty and 0 are the same: not known */
    {"CONTENT_LENGTH=", 0},
    {"CONTENT_LENGTH=0", 0},
    {"CONTENT_LENGTH=1", 1},
    {"CONTENT_LENGTH=0042", 42},
    {"CONTENT_LENGTH=999999999999999999", 999999999999999999U},
    {"CONTENT_LENGTH=1000000000000000000", UINT64_MAX}, /* 19 digits: no length */
    {"CONTENT_LENGTH=18446744073709551617", UINT64_MAX},
    {"CONTENT_LENGTH=-1", 0}, /* Caddy, of a body in chunks */
    {"CONTENT_LENGTH=-2", UINT64_MAX},
    {"CONTENT_LENGTH=-11", UINT64_MAX},
    {"CONTENT_LENGTH=+1", UINT64_MAX},
    {"CONTENT_LENGTH= 1", UINT64_MAX},
    {"CONTENT_LENGTH=1 ", UINT64_MAX},
    {"CONTENT_LENGTH=1,1", UINT64_MAX},
    {"CONTENT_LENGTH=0x10", UINT64_MAX},
};

static void a_length_is_digits_or_endless(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        char text[sizeof(lengths[0].text)];
        char *env[] = {text, NULL};
        struct exchange x = exchange_of(env);

        for (size_t n = 0; n < sizeof(text); n++)
            text[n] = lengths[i].text[n];
        if (exchange_length(&x) != lengths[i].length)
            fail_msg("%s", lengths[i].text);
    }
}

static void nobody_to_watch_is_not_gone(void **state)
{
    (void)state;
    assert_false(exchange_gone(-1, true));
    assert_false(exchange_gone(-1, false));
}

static void f36_a_connection_is_gone_at_its_end_or_with_an_abort_record(void **state)
{
    static const unsigned char abort_record[8] = {1, 2, 0, 1, 0, 0, 0, 0};
    int s[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
    assert_false(exchange_gone(s[0], true));
    assert_int_equal(write(s[1], abort_record, sizeof(abort_record)), sizeof(abort_record));
    assert_true(exchange_gone(s[0], true));
    close(s[0]);
    close(s[1]);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
    assert_int_equal(shutdown(s[1], SHUT_WR), 0);
    assert_true(exchange_gone(s[0], true));
    close(s[1]);
    assert_true(exchange_gone(s[0], true));
    close(s[0]);
}

static void f36_an_output_is_gone_when_its_reader_is(void **state)
{
    int p[2];

    (void)state;
    assert_int_equal(pipe(p), 0);
    assert_false(exchange_gone(p[1], false));
    close(p[0]);
    assert_true(exchange_gone(p[1], false));
    close(p[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variables_are_found_by_their_whole_name),
        cmocka_unit_test(repeated_variables_are_counted),
        cmocka_unit_test(a_length_is_digits_or_endless),
        cmocka_unit_test(nobody_to_watch_is_not_gone),
        cmocka_unit_test(f36_a_connection_is_gone_at_its_end_or_with_an_abort_record),
        cmocka_unit_test(f36_an_output_is_gone_when_its_reader_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
