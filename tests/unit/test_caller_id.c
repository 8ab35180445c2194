/* What makes a caller one subject, for whoever counts and for whoever forgives. */
#include "tests/unit/ledger_fixture.h"

#include "gateway/caller.h"

/* Names are of any bytes: the web server's user database says which. */
static void accounts_are_told_apart_by_the_whole_name(void **state)
{
    struct fixture *f = *state;
    struct subject_id a, b;
    char name[64], other[64];

    for (size_t n = 1; n < sizeof name; n++) {
        memset(name, 'a', n);
        name[n] = '\0';
        memcpy(other, name, n + 1);
        other[n - 1] = 'b';
        caller_account_id(f->ledger, name, &a);
        caller_account_id(f->ledger, other, &b);
        assert_true(a.n > 1 && a.n <= SUBJECT_ID_MAX);
        assert_memory_not_equal(&a, &b, sizeof a);
        caller_account_id(f->ledger, name, &b);
        assert_memory_equal(&a, &b, sizeof a);
        /* the bytes by which a long name is counted are no short name's */
        snprintf(other, sizeof other, "%.*s", a.n - 1, (const char *)a.bytes + 1);
        caller_account_id(f->ledger, other, &b);
        assert_int_equal(memcmp(&a, &b, sizeof a) == 0, n <= 40);
    }
}

/* However long it is, and wherever its parts lie. */
static void a_long_name_is_one_in_any_case(void **state)
{
    struct fixture *f = *state;
    char name[2048], other[2048];
    struct subject_id a, b;

    for (size_t n = 1; n < sizeof name; n += 61) {
        memset(name, 'a', n);
        name[n] = '\0';
        memset(other, 'A', n);
        other[n] = '\0';
        assert_true(caller_account_id(f->ledger, name, &a));
        assert_true(caller_account_id(f->ledger, other, &b));
        assert_memory_equal(&a, &b, sizeof a);
        other[n / 2] = 'B';
        assert_true(caller_account_id(f->ledger, other, &b));
        assert_memory_not_equal(&a, &b, sizeof a);
        other[n / 2] = 'A';
        other[n - 1] = 'B';
        assert_true(caller_account_id(f->ledger, other, &b));
        assert_memory_not_equal(&a, &b, sizeof a);
    }
    assert_false(caller_account_id(f->ledger, "", &a));
    assert_false(caller_account_id(f->ledger, " \t", &a));
}

static void an_address_is_its_family_and_the_part_that_counts(void **state)
{
    static const struct {
        const char *text;
        uint8_t n, bytes[9];
    } rows[] = {
        {"192.0.2.1", 5, {4, 192, 0, 2, 1}},
        {"2001:db8:1:2:3:4:5:6", 9, {6, 0x20, 1, 0x0d, 0xb8, 0, 1, 0, 2}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct address a;
        struct subject_id id;

        assert_true(address_parse(rows[i].text, strlen(rows[i].text), &a));
        caller_address_id(&a, &id);
        assert_int_equal(id.n, rows[i].n);
        assert_memory_equal(id.bytes, rows[i].bytes, id.n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(accounts_are_told_apart_by_the_whole_name, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_long_name_is_one_in_any_case, set_up, tear_down),
        cmocka_unit_test(an_address_is_its_family_and_the_part_that_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
