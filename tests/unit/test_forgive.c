/* A subject gets its quota back, while calls are under way, in every window that counts. */
#include "tests/unit/ledger_fixture.h"

static void refused(struct fixture *f, enum refusal by)
{
    struct reservation r;
    struct answer a;

    memset(&f->demand.hashes, 0, sizeof f->demand.hashes);
    assert_int_equal(ask(f, &a, &r), DECISION_REFUSED);
    assert_int_equal(a.verdict.refusal, by);
}

/* A call that is over, with all of its worst case. */
static void call(struct fixture *f)
{
    struct reservation r = must_admit(f);

    settle(f, &r, SETTLE_UNKNOWN, 0, 0);
}

static unsigned forgive(struct fixture *f, enum subject s)
{
    unsigned rows;

    assert_int_equal(ledger_forgive(f->ledger, &f->policy, s, &f->demand.caller.id[s], &rows),
                     ERROR_NONE);
    return rows;
}

/* Calls left to the caller by its own limit, without asking for one. */
static uint64_t left(struct fixture *f)
{
    struct answer a;

    memset(&f->demand.hashes, 0, sizeof f->demand.hashes);
    assert_int_equal(ledger_check(f->ledger, &f->policy, &f->demand, &a), ERROR_NONE);
    assert_int_equal(a.verdict.n_standings, 1);
    return a.verdict.standings[0].remaining + (a.decision == DECISION_ADMITTED);
}

static void set_subject(struct fixture *f, enum subject s)
{
    struct caller *c = &f->demand.caller;
    static const uint8_t hash[KEY_HASH] = {1};

    memset(c, 0, sizeof *c);
    c->bypass = s == SUBJECT_BYPASS;
    c->anonymous = s == SUBJECT_ANONYMOUS;
    if (s == SUBJECT_KEY) {
        c->has_key = true;
        memcpy(c->key_hash, hash, sizeof hash);
    } else if (s < SUBJECT_KEY) {
        c->id[s].n = 4;
        memcpy(c->id[s].bytes, "name", 4);
    }
}

static void note_key(void *arg, const struct ledger_key *k)
{
    struct subject_id *id = arg;

    id->n = sizeof k->id;
    memcpy(id->bytes, k->id, sizeof k->id);
}

static void every_subject_in_every_window(void **state)
{
    static const struct {
        enum subject subject;
        enum refusal refusal;
    } subjects[] = {
        {SUBJECT_ADDRESS, REFUSAL_ADDRESS},     {SUBJECT_VISITOR, REFUSAL_VISITOR},
        {SUBJECT_ACCOUNT, REFUSAL_ACCOUNT},     {SUBJECT_KEY, REFUSAL_KEY},
        {SUBJECT_ANONYMOUS, REFUSAL_ANONYMOUS}, {SUBJECT_EVERYONE, REFUSAL_SITE},
        {SUBJECT_BYPASS, REFUSAL_BYPASS},
    };
    static const char *const windows[] = {"hour", "day", "month", "1h", "30d"};
    static const uint8_t hash[KEY_HASH] = {1};
    struct fixture *f = *state;
    struct ledger_key k = {.name = "k"};

    assert_int_equal(ledger_key_add(f->ledger, &f->policy, hash, &k), ERROR_NONE);
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++)
        for (size_t w = 0; w < sizeof windows / sizeof *windows; w++) {
            enum subject s = subjects[i].subject;

            set_subject(f, s);
            if (s == SUBJECT_KEY)
                assert_int_equal(
                    ledger_keys(f->ledger, note_key, &f->demand.caller.id[SUBJECT_KEY]),
                    ERROR_NONE);
            f->policy.n_limits = 0;
            add_limit(f, "calls", s, UNIT_CALLS, windows[w], 2);
            forgive(f, s); /* what the windows before had in common with this one */
            assert_int_equal(forgive(f, s), 0);
            call(f);
            pass(1000);
            call(f);
            refused(f, subjects[i].refusal);
            assert_int_equal(forgive(f, s), 1);
            call(f);
            call(f);
            refused(f, subjects[i].refusal);
        }
}

static void all_units_and_slots_at_once(void **state)
{
    struct fixture *f = *state;

    add_limit(f, "calls", SUBJECT_ADDRESS, UNIT_CALLS, "8h", 3);
    add_limit(f, "tokens", SUBJECT_ADDRESS, UNIT_TOKENS, "8h", 300);
    add_limit(f, "cost", SUBJECT_ADDRESS, UNIT_COST, "day", 3000);
    for (int i = 0; i < 3; i++) {
        call(f);
        pass(HOUR_MS);
    }
    refused(f, REFUSAL_ADDRESS);
    assert_int_equal(forgive(f, SUBJECT_ADDRESS), 4); /* three slots and a day */
    for (int i = 0; i < 3; i++)
        call(f);
    refused(f, REFUSAL_ADDRESS);
}

static void nobody_else_gets_anything(void **state)
{
    struct fixture *f = *state;

    add_limit(f, "visitor", SUBJECT_ADDRESS, UNIT_CALLS, "day", 1);
    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_CALLS, "day", 10);
    call(f);
    set_address(&f->demand, 2);
    call(f);
    assert_int_equal(forgive(f, SUBJECT_ADDRESS), 1);
    assert_int_equal(used(f, 1), 2);
    call(f);
    set_address(&f->demand, 1);
    refused(f, REFUSAL_ADDRESS);
    assert_int_equal(used(f, 1), 3);
    assert_int_equal(forgive(f, SUBJECT_EVERYONE), 1);
    assert_int_equal(used(f, 1), 0);
    refused(f, REFUSAL_ADDRESS);
}

/*
 * Why the row is not deleted: the settle of a call that was under way would find the row that
 * the next call made, and take its own worst case out of that one's charge.
 */
static void a_settle_after_it_leaves_later_charges_alone(void **state)
{
    static const struct {
        const char *why;
        enum settle_kind kind;
        uint64_t tokens; /* really used */
        uint64_t then;   /* of both */
    } rows[] = {
        {"real use takes the place of the worst case", SETTLE_USAGE, 30, 130},
        {"the worst case stays", SETTLE_UNKNOWN, 0, 200},
        {"nothing was used", SETTLE_NOTHING, 0, 100},
        {"more than was reserved", SETTLE_USAGE, 150, 250},
    };
    struct fixture *f = *state;

    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_TOKENS, "day", 1000);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct reservation r;

        call(f);
        r = must_admit(f);
        assert_int_equal(forgive(f, SUBJECT_EVERYONE), 1);
        assert_int_equal(used(f, 0), 100); /* what is under way */
        assert_int_equal(forgive(f, SUBJECT_EVERYONE), 0);
        call(f);
        assert_int_equal(used(f, 0), 200);
        settle(f, &r, rows[i].kind, rows[i].tokens, 0);
        if (used(f, 0) != rows[i].then)
            fail_msg("%s: %llu", rows[i].why, (unsigned long long)used(f, 0));
        assert_int_equal(forgive(f, SUBJECT_EVERYONE), 1);
        assert_int_equal(used(f, 0), 0);
    }
}

/* Never over: with two calls under way a limit of two has no room, whatever was forgiven. */
static void what_is_under_way_is_not_forgiven(void **state)
{
    struct fixture *f = *state;
    struct reservation r[2];

    add_limit(f, "visitor", SUBJECT_ADDRESS, UNIT_CALLS, "day", 3);
    call(f);
    r[0] = must_admit(f);
    r[1] = must_admit(f);
    refused(f, REFUSAL_ADDRESS);
    assert_int_equal(forgive(f, SUBJECT_ADDRESS), 1);
    assert_int_equal(left(f), 1);
    ledger_release(f->ledger, &r[0]); /* its holder is gone, its settle may come */
    assert_int_equal(forgive(f, SUBJECT_ADDRESS), 0);
    assert_int_equal(left(f), 1);
    settle(f, &r[0], SETTLE_NOTHING, 0, 0);
    assert_int_equal(left(f), 2);
    settle(f, &r[0], SETTLE_NOTHING, 0, 0);
    assert_int_equal(left(f), 2);
}

/* A reservation past its deadline is under way no more, though its row may still be there. */
static void what_ran_out_is_forgiven(void **state)
{
    struct fixture *f = *state;
    struct reservation r;

    add_limit(f, "visitor", SUBJECT_ADDRESS, UNIT_CALLS, "day", 3);
    r = must_admit(f);
    pass(f->demand.hold_ms + 1);
    assert_int_equal(forgive(f, SUBJECT_ADDRESS), 1);
    assert_int_equal(left(f), 3);
    settle(f, &r, SETTLE_USAGE, 50, 0);
    assert_int_equal(left(f), 3);
}

/* The slot that a call under way was charged to, and not the newest one. */
static void each_slot_keeps_its_own_reservations(void **state)
{
    struct fixture *f = *state;
    struct reservation r;

    f->demand.hold_ms = HOUR_MS;
    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_TOKENS, "80s", 1000);
    r = must_admit(f);
    pass(20000);
    call(f);
    assert_int_equal(used(f, 0), 200);
    assert_int_equal(forgive(f, SUBJECT_EVERYONE), 1);
    assert_int_equal(used(f, 0), 100);
    pass(75000); /* the older slot is over, and the reservation with it */
    assert_int_equal(used(f, 0), 0);
    settle(f, &r, SETTLE_NOTHING, 0, 0);
    assert_int_equal(used(f, 0), 0);
}

static void a_keys_own_windows_are_forgiven(void **state)
{
    static const uint8_t hash[KEY_HASH] = {1};
    struct fixture *f = *state;
    struct ledger_key k = {.name = "k", .n_limits = 1};

    add_limit(f, "site", SUBJECT_EVERYONE, UNIT_CALLS, "day", 100);
    k.limits[0] = (struct limit){.subject = SUBJECT_KEY, .unit = UNIT_CALLS, .max = 1};
    assert_true(window_parse("7d", &k.limits[0].window));
    assert_int_equal(ledger_key_add(f->ledger, &f->policy, hash, &k), ERROR_NONE);
    set_subject(f, SUBJECT_KEY);
    call(f);
    refused(f, REFUSAL_KEY);
    assert_int_equal(ledger_keys(f->ledger, note_key, &f->demand.caller.id[SUBJECT_KEY]),
                     ERROR_NONE);
    assert_int_equal(forgive(f, SUBJECT_KEY), 1);
    call(f);
    refused(f, REFUSAL_KEY);
}

/* Another process, whose keys of the periods are read anew, and after midnight. */
static void across_midnight_and_processes(void **state)
{
    struct fixture *f = *state;

    add_limit(f, "visitor", SUBJECT_ADDRESS, UNIT_CALLS, "2h", 2);
    pass(17 * HOUR_MS - 2000); /* 23:59:58 */
    call(f);
    pass(4000);
    call(f);
    refused(f, REFUSAL_ADDRESS);
    reopen(f);
    assert_in_range(forgive(f, SUBJECT_ADDRESS), 1, 2);
    assert_int_equal(left(f), 2);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(every_subject_in_every_window),
        T(all_units_and_slots_at_once),
        T(nobody_else_gets_anything),
        T(a_settle_after_it_leaves_later_charges_alone),
        T(what_is_under_way_is_not_forgiven),
        T(what_ran_out_is_forgiven),
        T(each_slot_keeps_its_own_reservations),
        T(a_keys_own_windows_are_forgiven),
        T(across_midnight_and_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
