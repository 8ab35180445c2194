/* The site's secret. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "platform/secret.h"
#include "tests/unit/scratch.h"

#define DIGITS "0123456789abcdefABCDEF000102030405060708090a0b0c0d0e0f1011121314"

static void test_one_is_made_once(void **state)
{
    const char *path = scratch_path("secret");
    uint8_t secret[SECRET_SIZE], other[SECRET_SIZE], zeros[SECRET_SIZE] = {0};
    struct stat st;

    (void)state;
    mode_t mask = umask(0);
    assert_int_equal(secret_create(path), ERROR_NONE);
    umask(mask);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(st.st_size, 2 * SECRET_SIZE + 1);
    assert_int_equal(secret_read(path, secret), ERROR_NONE);
    assert_memory_not_equal(secret, zeros, SECRET_SIZE);

    assert_int_equal(secret_create(path), ERROR_EXISTS);
    assert_int_equal(secret_read(path, other), ERROR_NONE);
    assert_memory_equal(secret, other, SECRET_SIZE);

    assert_int_equal(secret_create(scratch_path("other")), ERROR_NONE);
    assert_int_equal(secret_read(scratch_path("other"), other), ERROR_NONE);
    assert_memory_not_equal(secret, other, SECRET_SIZE);
    assert_int_equal(secret_create(scratch_path("no/secret")), ERROR_NOT_FOUND);
}

static void test_contents(void **state)
{
    static const uint8_t value[SECRET_SIZE] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
                                               0xab, 0xcd, 0xef, 0x00, 0x01, 0x02, 0x03, 0x04,
                                               0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c,
                                               0x0d, 0x0e, 0x0f, 0x10, 0x11, 0x12, 0x13, 0x14};
    static const struct {
        const char *says;
        mode_t mode;
        const char *text;
        size_t n;
        enum error expected;
    } rows[] = {
        {"64 digits and a newline", 0600, DIGITS "\n", 65, ERROR_NONE},
        {"64 digits", 0600, DIGITS, 64, ERROR_NONE},
        {"read-only", 0400, DIGITS "\n", 65, ERROR_NONE},
        {"empty", 0600, "", 0, ERROR_SYNTAX},
        {"a newline alone", 0600, "\n", 1, ERROR_SYNTAX},
        {"63 digits", 0600, DIGITS, 63, ERROR_SYNTAX},
        {"63 digits and a newline", 0600, &(DIGITS "\n")[1], 64, ERROR_SYNTAX},
        {"65 digits", 0600, DIGITS "0", 65, ERROR_SYNTAX},
        {"two newlines", 0600, DIGITS "\n\n", 66, ERROR_SYNTAX},
        {"a carriage return", 0600, DIGITS "\r\n", 66, ERROR_SYNTAX},
        {"a blank before", 0600, " " DIGITS, 65, ERROR_SYNTAX},
        {"a blank behind", 0600, DIGITS " ", 65, ERROR_SYNTAX},
        {"another secret behind", 0600, DIGITS "\n" DIGITS "\n", 130, ERROR_SYNTAX},
        {"a letter that is no digit, first", 0600, "g" DIGITS, 64, ERROR_SYNTAX},
        {"a NUL for a digit, last", 0600, &(DIGITS "\0")[1], 64, ERROR_SYNTAX},
        {"others may read it", 0644, DIGITS "\n", 65, ERROR_LOOSE_MODE},
        {"the group may read it", 0640, DIGITS "\n", 65, ERROR_LOOSE_MODE},
        {"others may write it", 0602, DIGITS "\n", 65, ERROR_LOOSE_MODE},
    };
    const char *path = scratch_path("secret");

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint8_t out[SECRET_SIZE], untouched[SECRET_SIZE];

        memset(out, 0xa5, sizeof out);
        memset(untouched, 0xa5, sizeof untouched);
        scratch_write(path, rows[i].mode, rows[i].text, rows[i].n);
        enum error e = secret_read(path, out);
        if (e != rows[i].expected)
            fail_msg("%s: %d", rows[i].says, e);
        assert_memory_equal(out, e == ERROR_NONE ? value : untouched, SECRET_SIZE);
        assert_int_equal(unlink(path), 0);
    }
    uint8_t out[SECRET_SIZE];
    assert_int_equal(secret_read(path, out), ERROR_NOT_FOUND);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(secret_read(path, out), ERROR_NOT_REGULAR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_is_made_once, scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(test_contents, scratch_make, scratch_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
