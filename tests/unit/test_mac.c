/* HMAC-SHA256 with labels, constant-time comparison, wiping. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "platform/mac.h"

/* How a key or a text of a row is made; long ones need not be spelled out. */
enum fill { COUNTING, ZEROS, ONES, RFC4231, LETTER_Y, TEXT };

static void fill(uint8_t *out, size_t n, enum fill how)
{
    for (size_t i = 0; i < n; i++) {
        switch (how) {
        case COUNTING:
            out[i] = (uint8_t)i;
            break;
        case ONES:
            out[i] = 0xff;
            break;
        case RFC4231: /* the key of its first case; HMAC fills keys up with zeros */
            out[i] = i < 20 ? 0x0b : 0;
            break;
        case LETTER_Y:
            out[i] = 'y';
            break;
        default:
            out[i] = 0;
        }
    }
}

/* Made with: printf 'LABEL\0DATA' | openssl dgst -sha256 -mac HMAC -macopt hexkey:KEY */
static const struct {
    const char *says;
    enum fill key;
    const char *label;
    enum fill data;
    size_t n;
    const char *text;
    const char *mac;
} vectors[] = {
    {"a label and a text", COUNTING, "visitor", TEXT, 9, "192.0.2.1",
     "372372cd9305772d20d807e891f650e2eda04ebfe3952f344ac2c271ba5ab177"},
    {"nothing at all is still the NUL", COUNTING, "", ZEROS, 0, NULL,
     "e711546e3faad4c7c4aa756bc26cad6abea8241984a0f6b0839c70ca61c4ef88"},
    {"a label alone", COUNTING, "next", ZEROS, 0, NULL,
     "40c8a59c7c36b4826c95245cbb7431c8db80ddef913201e2ad3f383584612507"},
    {"a zero key, a zero byte", ZEROS, "check", ZEROS, 1, NULL,
     "b7507ee37de185cab1849cc546db6acc210f7670c887d8aeaf1da302f270059f"},
    {"more than one block of data", ONES, "display", COUNTING, 1000, NULL,
     "c9f30af0f27148f2c9e329b9c53709d311c3593c5bedba399aaa00b6614c94df"},
    {"an empty label before data", RFC4231, "", TEXT, 8, "Hi There",
     "5449579bd61b0913a4a649015665705561c7847723f95b17968783ce66f21d60"},
    {"the longest that is one block with its padding", COUNTING, "x", LETTER_Y, 61, NULL,
     "0d3ad1e4b3a3c75698a6e774cf44c6070e623950c98b0f0d7e212c558d41f01a"},
    {"one byte longer", COUNTING, "x", LETTER_Y, 62, NULL,
     "8692cb656441723fccbe227c202bbef1842fab88d1a3fab0dc5661ff0bc9b1c5"},
    {"label a, data bc", COUNTING, "a", TEXT, 2, "bc",
     "2f578f806406264b7b79066b520dc81e187b581ed12b0082dcd60f4e83aee598"},
    {"label ab, data c: not the same", COUNTING, "ab", TEXT, 1, "c",
     "6382fdbdc3b88f1739bd03a08868002d6357bd9781396952d40e6b7900c026ec"},
};

static void hex(const uint8_t mac[MAC_SIZE], char out[2 * MAC_SIZE + 1])
{
    for (unsigned i = 0; i < MAC_SIZE; i++)
        snprintf(out + 2 * i, 3, "%02x", mac[i]);
}

static void test_vectors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        uint8_t key[MAC_SIZE], data[1000], mac[MAC_SIZE];
        char text[2 * MAC_SIZE + 1];

        fill(key, sizeof key, vectors[i].key);
        fill(data, vectors[i].n, vectors[i].data);
        if (vectors[i].text)
            memcpy(data, vectors[i].text, vectors[i].n);
        mac_compute(key, vectors[i].label, data, vectors[i].n, mac);
        hex(mac, text);
        if (strcmp(text, vectors[i].mac) != 0)
            fail_msg("%s: %s", vectors[i].says, text);
    }
}

static void test_no_data_may_be_null(void **state)
{
    uint8_t key[MAC_SIZE] = {0}, a[MAC_SIZE], b[MAC_SIZE];

    (void)state;
    mac_compute(key, "next", NULL, 0, a);
    mac_compute(key, "next", "", 0, b);
    assert_memory_equal(a, b, MAC_SIZE);
}

/* The ratchet writes key(n+1) over key(n). */
static void test_out_may_be_the_key_or_the_data(void **state)
{
    uint8_t expected[MAC_SIZE], key[MAC_SIZE], data[MAC_SIZE];

    (void)state;
    fill(key, sizeof key, COUNTING);
    fill(data, sizeof data, ONES);
    mac_compute(key, "x", data, sizeof data, expected);

    mac_compute(key, "x", data, sizeof data, data);
    assert_memory_equal(data, expected, MAC_SIZE);
    fill(data, sizeof data, ONES);
    mac_compute(key, "x", data, sizeof data, key);
    assert_memory_equal(key, expected, MAC_SIZE);
}

static void test_every_bit_of_a_comparison_counts(void **state)
{
    uint8_t a[MAC_SIZE], b[MAC_SIZE];

    (void)state;
    fill(a, sizeof a, COUNTING);
    fill(b, sizeof b, COUNTING);
    assert_true(mac_equal(a, b, sizeof a));
    for (unsigned bit = 0; bit < 8 * MAC_SIZE; bit++) {
        b[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_false(mac_equal(a, b, sizeof a));
        assert_true(mac_equal(a, b, bit / 8));
        b[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    /* two differences must not cancel each other out */
    b[0] ^= 1;
    b[31] ^= 1;
    assert_false(mac_equal(a, b, sizeof a));
    assert_true(mac_equal(a, b, 0));
}

static void test_wipe(void **state)
{
    uint8_t bytes[MAC_SIZE], zeros[MAC_SIZE] = {0};

    (void)state;
    fill(bytes, sizeof bytes, ONES);
    mac_wipe(bytes + 1, sizeof bytes - 2);
    assert_memory_equal(bytes + 1, zeros, sizeof bytes - 2);
    assert_int_equal(bytes[0], 0xff);
    assert_int_equal(bytes[31], 0xff);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_no_data_may_be_null),
        cmocka_unit_test(test_out_may_be_the_key_or_the_data),
        cmocka_unit_test(test_every_bit_of_a_comparison_counts),
        cmocka_unit_test(test_wipe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
