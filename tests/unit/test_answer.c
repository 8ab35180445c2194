/* The limit that an answer names: the one that refused, be it a key's own. */
#include "tests/unit/ledger_fixture.h"

static struct answer answer;

static const char *ask_for(struct fixture *f, enum decision want)
{
    memset(&answer, 0x5a, sizeof answer);
    assert_int_equal(ledger_check(f->ledger, &f->policy, &f->demand, &answer), ERROR_NONE);
    assert_int_equal(answer.decision, want);
    return answer.limit;
}

static void admit(struct fixture *f)
{
    struct reservation r;

    assert_int_equal(ask(f, &answer, &r), DECISION_ADMITTED);
    assert_string_equal(answer.limit, "");
}

static void who_is_admitted_is_told_of_none(void **state)
{
    struct fixture *f = *state;

    add_limit(f, "visitor", SUBJECT_ADDRESS, UNIT_CALLS, "day", 1);
    assert_string_equal(ask_for(f, DECISION_ADMITTED), "");
    admit(f);
}

static void the_first_of_those_that_refuse(void **state)
{
    struct fixture *f = *state;

    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_CALLS, "day", 1);
    add_limit(f, "visitor", SUBJECT_ADDRESS, UNIT_CALLS, "day", 1);
    add_limit(f, "visitor-tokens", SUBJECT_ADDRESS, UNIT_TOKENS, "day", 100);
    admit(f);
    assert_string_equal(ask_for(f, DECISION_REFUSED), "visitor");
    set_address(&f->demand, 2);
    assert_string_equal(ask_for(f, DECISION_REFUSED), "site");
}

static void the_writer_names_it_too(void **state)
{
    struct fixture *f = *state;
    struct reservation r;

    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_CALLS, "day", 1);
    admit(f);
    assert_int_equal(ledger_reserve(f->ledger, &f->policy, &f->demand, &answer, &r),
                     ERROR_NONE);
    assert_int_equal(answer.decision, DECISION_REFUSED);
    assert_string_equal(answer.limit, "site");
}

static void what_is_too_long_for_it(void **state)
{
    struct fixture *f = *state;

    add_limit(f, "calls", SUBJECT_ADDRESS, UNIT_CALLS, "day", 5);
    add_limit(f, "tokens", SUBJECT_EVERYONE, UNIT_TOKENS, "day", 99);
    assert_string_equal(ask_for(f, DECISION_TOO_LONG), "tokens");
}

static void too_many_at_once(void **state)
{
    struct fixture *f = *state;

    add_limit(f, "calls", SUBJECT_ADDRESS, UNIT_CALLS, "day", 5);
    add_limit(f, "at-once", SUBJECT_ADDRESS, UNIT_CONCURRENT, NULL, 1);
    admit(f);
    assert_string_equal(ask_for(f, DECISION_REFUSED), "at-once");
}

static void a_keys_own(void **state)
{
    struct fixture *f = *state;
    struct ledger_key k = {.name = "ann", .n_limits = 1};

    add_limit(f, "of-keys", SUBJECT_KEY, UNIT_CALLS, "day", 100);
    k.limits[0] = f->limits[0];
    k.limits[0].max = 1;
    f->demand.caller.has_key = true;
    memset(f->demand.caller.key_hash, 7, KEY_HASH);
    assert_int_equal(ledger_key_add(f->ledger, &f->policy, f->demand.caller.key_hash, &k),
                     ERROR_NONE);
    admit(f);
    assert_string_equal(ask_for(f, DECISION_REFUSED), "key-calls-day");
}

static void no_limit_has_to_do_with_it(void **state)
{
    struct fixture *f = *state;

    add_limit(f, "visitor", SUBJECT_ADDRESS, UNIT_CALLS, "day", 1);
    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_CALLS, "day", 5);
    f->limits[0].dry_run = true;
    admit(f);
    admit(f); /* the dry run would have refused */
    f->policy.site_streams = 1;
    assert_string_equal(ask_for(f, DECISION_BUSY), "");
    assert_int_equal(ledger_set_paused(f->ledger, &f->policy, true), ERROR_NONE);
    assert_string_equal(ask_for(f, DECISION_PAUSED), "");
    f->demand.caller.has_key = true;
    assert_string_equal(ask_for(f, DECISION_NO_KEY), "");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(who_is_admitted_is_told_of_none),
        T(the_first_of_those_that_refuse),
        T(the_writer_names_it_too),
        T(what_is_too_long_for_it),
        T(too_many_at_once),
        T(a_keys_own),
        T(no_limit_has_to_do_with_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
