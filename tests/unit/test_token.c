/* Words of random letters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/token.h"

/* Of 64 words each place but the last has about every letter: none of the bits is lost. */
static void all_bits_are_in_it(void **state)
{
    static const struct {
        size_t bytes, letters, last; /* bits in the last letter */
    } rows[] = {{16, 26, 3}, {20, 32, 5}};

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        uint32_t seen[40] = {0};

        assert_int_equal(TOKEN_LETTERS(rows[r].bytes), rows[r].letters);
        for (int k = 0; k < 256; k++) {
            char word[40];

            assert_int_equal(token_make(rows[r].bytes, word), ERROR_NONE);
            assert_int_equal(strlen(word), rows[r].letters);
            assert_int_equal(strspn(word, "abcdefghijklmnopqrstuvwxyz234567"), rows[r].letters);
            for (size_t i = 0; i < rows[r].letters; i++)
                seen[i] |= UINT32_C(1) << (word[i] >= 'a' ? word[i] - 'a' : word[i] - '2' + 26);
        }
        for (size_t i = 0; i < rows[r].letters; i++) {
            int most = i + 1 < rows[r].letters ? 32 : 1 << rows[r].last;

            assert_in_range(__builtin_popcount(seen[i]), most / 2, most);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_bits_are_in_it)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
