/* The callers of today: who they are, in which order, and where the look ends. */
#include "tests/unit/ledger_fixture.h"

#include "store/kv.h"
#include "store/record.h"

#define ROWS_EACH 4096 /* as store/top.c says */

static void spend(struct fixture *f, uint64_t tokens)
{
    struct reservation r = must_admit(f);

    settle(f, &r, SETTLE_USAGE, tokens, tokens * 10);
}

static void spend_times(struct fixture *f, uint8_t address, unsigned n)
{
    set_address(&f->demand, address);
    for (unsigned i = 0; i < n; i++)
        spend(f, 10);
}

static struct ledger_caller top[TOP_MAX];
static bool whole;

static unsigned look(struct fixture *f)
{
    unsigned n;

    memset(top, 0x5a, sizeof top);
    assert_int_equal(ledger_top(f->ledger, &f->policy, top, &n, &whole), ERROR_NONE);
    assert_true(n <= TOP_MAX);
    return n;
}

/* The name in the log of the fixture's caller. */
static const char *name_of(struct fixture *f, enum subject s)
{
    static char name[17];

    assert_int_equal(ledger_display(f->ledger, &f->policy, &f->demand, s, name), ERROR_NONE);
    return name;
}

static const char *address(struct fixture *f, uint8_t last)
{
    set_address(&f->demand, last);
    return name_of(f, SUBJECT_ADDRESS);
}

static void nobody_at_first(void **state)
{
    struct fixture *f = *state;

    add_limit(f, "visitor", SUBJECT_ADDRESS, UNIT_CALLS, "day", 100);
    assert_int_equal(look(f), 0);
    assert_true(whole);
}

static void most_calls_first_then_most_tokens(void **state)
{
    struct fixture *f = *state;

    add_limit(f, "visitor", SUBJECT_ADDRESS, UNIT_CALLS, "day", 100);
    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_CALLS, "day", 1000);
    add_limit(f, "nobody", SUBJECT_ANONYMOUS, UNIT_CALLS, "day", 1000);
    spend_times(f, 1, 2);
    spend_times(f, 2, 3);
    spend_times(f, 3, 1);
    set_address(&f->demand, 4);
    spend(f, 10);
    spend(f, 11);
    assert_int_equal(look(f), 4);
    assert_string_equal(top[0].name, address(f, 2));
    assert_string_equal(top[1].name, address(f, 4));
    assert_string_equal(top[2].name, address(f, 1));
    assert_string_equal(top[3].name, address(f, 3));
    assert_int_equal(top[1].subject, SUBJECT_ADDRESS);
    assert_int_equal(top[1].used.of[UNIT_CALLS], 2);
    assert_int_equal(top[1].used.of[UNIT_TOKENS], 21);
    assert_int_equal(top[1].used.of[UNIT_COST], 210);
}

static void ten_of_many(void **state)
{
    struct fixture *f = *state;

    add_limit(f, "visitor", SUBJECT_ADDRESS, UNIT_CALLS, "day", 100);
    for (uint8_t i = 1; i <= TOP_MAX + 5; i++)
        spend_times(f, i, i % 2 ? 1 : i);
    assert_int_equal(look(f), TOP_MAX);
    assert_true(whole);
    for (unsigned i = 0; i < 7; i++)
        assert_string_equal(top[i].name, address(f, (uint8_t)(14 - 2 * i)));
    assert_int_equal(top[7].used.of[UNIT_CALLS], 1);
}

static void give_a_key(struct fixture *f, uint8_t filled, bool own_limit)
{
    struct ledger_key k = {.name = "ann"};

    if (own_limit) {
        k.n_limits = 1;
        k.limits[0].subject = SUBJECT_KEY;
        k.limits[0].unit = UNIT_TOKENS;
        k.limits[0].max = 100000;
        assert_true(window_parse("day", &k.limits[0].window));
    }
    f->demand.caller.has_key = true;
    memset(f->demand.caller.key_hash, filled, KEY_HASH);
    assert_int_equal(ledger_key_add(f->ledger, &f->policy, f->demand.caller.key_hash, &k),
                     ERROR_NONE);
}

static void give_id(struct fixture *f, enum subject s, const char *text)
{
    struct subject_id *id = &f->demand.caller.id[s];

    id->n = (uint8_t)strlen(text);
    memcpy(id->bytes, text, id->n);
}

/* A limit of tokens alone counts calls, too: a row has all of them. */
static void each_kind_of_caller_has_the_name_of_the_log(void **state)
{
    static const enum subject kinds[] = {SUBJECT_ADDRESS, SUBJECT_VISITOR, SUBJECT_ACCOUNT,
                                         SUBJECT_KEY};
    struct fixture *f = *state;

    add_limit(f, "a", SUBJECT_ADDRESS, UNIT_CALLS, "day", 100);
    add_limit(f, "v", SUBJECT_VISITOR, UNIT_TOKENS, "day", 100000);
    add_limit(f, "u", SUBJECT_ACCOUNT, UNIT_COST, "day", 100000);
    give_id(f, SUBJECT_VISITOR, "a visitor");
    give_id(f, SUBJECT_ACCOUNT, "ann");
    give_a_key(f, 7, true);
    spend(f, 10);
    spend(f, 10);
    assert_int_equal(look(f), 4);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(top[i].subject, kinds[i]);
        assert_string_equal(top[i].name, name_of(f, kinds[i]));
        assert_int_equal(top[i].used.of[UNIT_CALLS], 2);
        assert_int_equal(top[i].used.of[UNIT_TOKENS], 20);
    }
}

static void callers_without_a_limit_of_a_day_are_not_known(void **state)
{
    struct fixture *f = *state;

    add_limit(f, "a", SUBJECT_ADDRESS, UNIT_CALLS, "1h", 100);
    add_limit(f, "m", SUBJECT_ADDRESS, UNIT_CALLS, "month", 100);
    add_limit(f, "c", SUBJECT_ADDRESS, UNIT_CONCURRENT, NULL, 100);
    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_CALLS, "day", 100);
    spend(f, 10);
    assert_int_equal(look(f), 0);
}

static void who_was_given_all_back_has_used_nothing(void **state)
{
    struct fixture *f = *state;

    add_limit(f, "visitor", SUBJECT_ADDRESS, UNIT_CALLS, "day", 100);
    struct reservation r = must_admit(f);
    assert_int_equal(look(f), 1); /* what is under way counts */
    assert_int_equal(top[0].used.of[UNIT_TOKENS], 100);
    settle(f, &r, SETTLE_NOTHING, 0, 0);
    assert_int_equal(look(f), 0);
}

/* Yesterday's rows are kept for a week, and are no longer anybody's. */
static void yesterday_is_over(void **state)
{
    struct fixture *f = *state;

    add_limit(f, "visitor", SUBJECT_ADDRESS, UNIT_CALLS, "day", 100);
    spend_times(f, 1, 5);
    pass(DAY_MS);
    assert_int_equal(look(f), 0);
    spend_times(f, 1, 1);
    spend_times(f, 2, 2);
    assert_int_equal(look(f), 2);
    assert_string_equal(top[0].name, address(f, 2));
    assert_string_equal(top[1].name, address(f, 1));
}

/* The civil day of the policy's zone: at 23:30 UTC it is tomorrow in Berlin. */
static void today_is_the_zones(void **state)
{
    struct fixture *f = *state;

    close_ledger(f);
    remove_store(f);
    assert_non_null(strcpy(strrchr(f->dir, '-') + 1, "XXXXXX"));
    assert_non_null(mkdtemp(f->dir));
    assert_int_equal(ledger_create(&f->options, "CET-1CEST,M3.5.0,M10.5.0/3"), ERROR_NONE);
    open_ledger(f);
    f->policy.local_time = true;
    add_limit(f, "visitor", SUBJECT_ADDRESS, UNIT_CALLS, "day", 100);
    spend_times(f, 1, 1);
    pass(16 * HOUR_MS + HOUR_MS / 2);
    assert_int_equal(look(f), 0);
    spend_times(f, 2, 1);
    assert_int_equal(look(f), 1);
    assert_string_equal(top[0].name, address(f, 2));
}

/* Rows of today as so many admissions have left them. */
static void put_rows(struct fixture *f, enum subject s, unsigned n, uint64_t calls)
{
    const struct window day = {WINDOW_DAY, 0};
    static const struct zone utc;
    struct slot slot[WINDOW_SLOTS_MAX];
    struct kv *kv = NULL;
    struct kv_txn *t = NULL;

    (void)window_slots(day, &utc, fake_now.wall_ms, slot);
    close_ledger(f);
    assert_int_equal(kv_open(f->dir, f->options.map_bytes, &kv), ERROR_NONE);
    assert_int_equal(kv_begin_write(kv, &t), ERROR_NONE);
    for (unsigned i = 0; i < n; i++) {
        uint8_t hash[SUBJECT_HASH] = {(uint8_t)(i >> 8), (uint8_t)i};
        const struct amounts a = {{calls, 100, 0}};
        struct row_key key;
        struct record r;

        key_counter(day, &slot[0], s, hash, &key);
        record_amounts(&a, &r);
        assert_int_equal(kv_put(t, key.bytes, key.n, r.bytes, r.n), ERROR_NONE);
    }
    assert_int_equal(kv_commit(t), ERROR_NONE);
    kv_close(kv);
    open_ledger(f);
}

static void many_addresses_hide_no_account(void **state)
{
    struct fixture *f = *state;

    put_rows(f, SUBJECT_ADDRESS, ROWS_EACH, 1);
    assert_int_equal(look(f), TOP_MAX);
    assert_true(whole);
    put_rows(f, SUBJECT_ADDRESS, ROWS_EACH + 1, 1);
    assert_int_equal(look(f), TOP_MAX);
    assert_false(whole);
    put_rows(f, SUBJECT_ACCOUNT, 1, 2);
    assert_int_equal(look(f), TOP_MAX);
    assert_int_equal(top[0].subject, SUBJECT_ACCOUNT);
    assert_false(whole);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(nobody_at_first),
        T(most_calls_first_then_most_tokens),
        T(ten_of_many),
        T(each_kind_of_caller_has_the_name_of_the_log),
        T(callers_without_a_limit_of_a_day_are_not_known),
        T(who_was_given_all_back_has_used_nothing),
        T(yesterday_is_over),
        T(today_is_the_zones),
        T(many_addresses_hide_no_account),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
