/* Keys that the owner issues: their rows, and the orders that make and end them. */
#include "tests/unit/ledger_fixture.h"

#include "platform/mac.h"
#include "store/ledger_parts.h"

static struct ledger_key key_of(const char *name)
{
    struct ledger_key k;

    memset(&k, 0, sizeof k);
    snprintf(k.name, sizeof k.name, "%s", name);
    return k;
}

static void add_own(struct ledger_key *k, enum unit u, const char *window, uint64_t max)
{
    struct limit *l = &k->limits[k->n_limits++];

    l->subject = SUBJECT_KEY;
    l->unit = u;
    l->max = max;
    if (window)
        assert_true(window_parse(window, &l->window));
}

static enum error add(struct fixture *f, uint8_t hash, const struct ledger_key *k)
{
    uint8_t h[KEY_HASH];

    memset(h, hash, sizeof h);
    return ledger_key_add(f->ledger, &f->policy, h, k);
}

struct listed {
    unsigned n;
    struct ledger_key key[8];
};

static void note(void *arg, const struct ledger_key *k)
{
    struct listed *l = arg;

    if (l->n < 8)
        l->key[l->n] = *k;
    l->n++;
}

static unsigned list(struct fixture *f, struct listed *l)
{
    memset(l, 0, sizeof *l);
    assert_int_equal(ledger_keys(f->ledger, note, l), ERROR_NONE);
    return l->n;
}

struct wanted {
    uint8_t hash[KEY_HASH];
    struct ledger_key key;
};

static enum error look_up(void *arg, const struct view_context *c)
{
    struct wanted *w = arg;

    return key_find(c->txn, w->hash, &w->key);
}

static enum error find(struct fixture *f, uint8_t hash, struct ledger_key *out)
{
    struct wanted w;

    memset(w.hash, hash, sizeof w.hash);
    enum error e = ledger_reading(f->ledger, look_up, &w);
    if (e == ERROR_NONE)
        *out = w.key;
    return e;
}

static void an_issued_key_is_found_by_its_hash_alone(void **state)
{
    struct fixture *f = *state;
    struct ledger_key k = key_of("ann"), found;

    add_own(&k, UNIT_CALLS, "day", 100);
    add_own(&k, UNIT_COST, "30d", 5000000000);
    add_own(&k, UNIT_CONCURRENT, NULL, 2);
    add_own(&k, UNIT_TOKENS, "month", LIMIT_UNLIMITED);
    k.limits[0].dry_run = k.limits[0].pace = true; /* a key's limit always refuses */
    assert_int_equal(find(f, 1, &found), ERROR_NOT_FOUND);
    assert_int_equal(add(f, 1, &k), ERROR_NONE);
    reopen(f); /* another process, and the walk of all rows */
    assert_int_equal(find(f, 2, &found), ERROR_NOT_FOUND);
    assert_int_equal(find(f, 1, &found), ERROR_NONE);
    assert_string_equal(found.name, "ann");
    assert_int_equal(found.created_s, START_MS / 1000);
    assert_int_equal(found.n_limits, 4);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(found.limits[i].subject, SUBJECT_KEY);
        assert_int_equal(found.limits[i].unit, k.limits[i].unit);
        assert_true(window_equal(found.limits[i].window, k.limits[i].window));
        assert_true(found.limits[i].max == k.limits[i].max);
        assert_false(found.limits[i].dry_run || found.limits[i].pace);
    }
    assert_string_equal(found.limits[0].name, "key-calls-day");
    assert_string_equal(found.limits[1].name, "key-cost-2592000s");
    assert_string_equal(found.limits[2].name, "key-concurrent");
    assert_string_equal(found.limits[3].name, "key-tokens-month");
}

/* Else the use of the first would be held against the second. */
static void a_name_used_again_is_somebody_else(void **state)
{
    struct fixture *f = *state;
    struct ledger_key k = key_of("ann"), first, second;
    struct listed l;

    assert_int_equal(add(f, 1, &k), ERROR_NONE);
    assert_int_equal(find(f, 1, &first), ERROR_NONE);
    assert_int_equal(add(f, 2, &k), ERROR_EXISTS);
    assert_int_equal(ledger_key_revoke(f->ledger, &f->policy, "ann"), ERROR_NONE);
    assert_int_equal(find(f, 1, &first), ERROR_NOT_FOUND);
    assert_int_equal(ledger_key_revoke(f->ledger, &f->policy, "ann"), ERROR_NOT_FOUND);
    assert_int_equal(list(f, &l), 0);
    assert_int_equal(add(f, 2, &k), ERROR_NONE);
    assert_int_equal(find(f, 2, &second), ERROR_NONE);
    assert_memory_not_equal(first.id, second.id, sizeof first.id);
}

static void revoking_one_leaves_the_others(void **state)
{
    struct fixture *f = *state;
    static const char *const names[] = {"a", "b", "c", "B"};
    struct ledger_key k;
    struct listed l;

    for (unsigned i = 0; i < 4; i++) {
        k = key_of(names[i]);
        assert_int_equal(add(f, (uint8_t)(1 + i), &k), ERROR_NONE);
    }
    assert_int_equal(ledger_key_revoke(f->ledger, &f->policy, "b"), ERROR_NONE);
    assert_int_equal(list(f, &l), 3);
    for (unsigned i = 0; i < 3; i++)
        assert_string_not_equal(l.key[i].name, "b");
    assert_int_equal(find(f, 2, &k), ERROR_NOT_FOUND);
    assert_int_equal(find(f, 4, &k), ERROR_NONE);
}

static void names_are_plain(void **state)
{
    static const struct {
        const char *why, *name;
        bool ok;
    } rows[] = {
        {"letters, digits, dashes", "Ann_2-b", true},
        {"one letter", "a", true},
        {"31 characters", "abcdefghijklmnopqrstuvwxyz01234", true},
        {"none", "", false},
        {"a dash first would be a flag", "-a", false},
        {"a space", "a b", false},
        {"a line's end", "a\n", false},
        {"a quote", "a\"", false},
        {"not ASCII", "\xc3\xa9", false},
        {"a dot", "a.b", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (key_name_ok(rows[i].name) != rows[i].ok)
            fail_msg("%s", rows[i].why);
    assert_false(key_name_ok("abcdefghijklmnopqrstuvwxyz012345")); /* 32 */
}

static void no_more_than_keys_max(void **state)
{
    struct fixture *f = *state;
    uint8_t hash[KEY_HASH] = {0};
    struct listed l;

    for (unsigned i = 0; i <= KEYS_MAX; i++) {
        struct ledger_key k = key_of("");

        snprintf(k.name, sizeof k.name, "k%u", i);
        hash[0] = (uint8_t)(i >> 8);
        hash[1] = (uint8_t)i;
        assert_int_equal(ledger_key_add(f->ledger, &f->policy, hash, &k),
                         i < KEYS_MAX ? ERROR_NONE : ERROR_TOO_LARGE);
    }
    assert_int_equal(list(f, &l), KEYS_MAX);
}

/* A window more than there are keys for would make the key's calls fail. */
static void windows_that_do_not_fit_are_refused_when_the_key_is_made(void **state)
{
    struct fixture *f = *state;
    struct ledger_key fits = key_of("fits"), not = key_of("not");
    char window[8];

    for (unsigned i = 1; i < PERIOD_WINDOWS - 1; i++) { /* with the civil day one is left */
        snprintf(window, sizeof window, "%us", i);
        add_limit(f, "w", SUBJECT_ADDRESS, UNIT_CALLS, window, 5);
    }
    add_own(&fits, UNIT_CALLS, "1h", 5);
    add_own(&fits, UNIT_CALLS, "day", 5);
    add_own(&not, UNIT_CALLS, "2h", 5);
    assert_int_equal(add(f, 1, &fits), ERROR_NONE);
    assert_int_equal(add(f, 2, &not ), ERROR_TOO_MANY_WINDOWS);
    assert_int_equal(ledger_key_revoke(f->ledger, &f->policy, "fits"), ERROR_NONE);
    assert_int_equal(add(f, 2, &not ), ERROR_NONE);
}

/* Rows that were not written by us: each is one change of a good one. */
static void a_row_that_is_not_ours_is_no_key(void **state)
{
    static const struct {
        const char *why;
        size_t at;
        uint8_t byte;
    } rows[] = {
        {"another version", 0, 9},
        {"a name of no length", 1, 0},
        {"a name that is too long", 1, 32},
        {"a name of strange bytes", 2, ' '},
        {"a NUL within the name", 3, 0},
        {"made before 1970", 5, 0x80},
        {"more limits than a key has", 5 + 8 + 16, KEY_LIMITS_MAX + 1},
        {"fewer limits than there are", 5 + 8 + 16, 0},
        {"an unknown unit", 5 + 8 + 16 + 1, 4},
        {"a limit of concurrent with a window", 5 + 8 + 16 + 1, UNIT_CONCURRENT},
        {"a window of more than a year", 5 + 8 + 16 + 2, 0x70},
        {"an amount that could wrap", 5 + 8 + 16 + 6, 0x80},
    };
    struct ledger_key k = key_of("ann"), out;
    struct record good, bad;

    (void)state;
    add_own(&k, UNIT_CALLS, "day", 100);
    record_issued(&k, &good);
    struct kv_slice v = {.data = bad.bytes, .n = good.n};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bad = good;
        bad.bytes[rows[i].at] = rows[i].byte;
        if (record_issued_read(&v, &out))
            fail_msg("%s", rows[i].why);
    }
    bad = good;
    for (v.n = 0; v.n < good.n; v.n++)
        assert_false(record_issued_read(&v, &out));
    assert_true(record_issued_read(&v, &out));
}

static void a_mac_is_bound_to_label_and_store(void **state)
{
    struct fixture *f = *state;
    uint8_t a[MAC_SIZE], b[MAC_SIZE], text[16 + 5];
    struct ledger_state s;

    ledger_mac(f->ledger, "key", "token", 5, a);
    ledger_mac(f->ledger, "cookie", "token", 5, b);
    assert_memory_not_equal(a, b, sizeof a);
    assert_int_equal(ledger_state(f->ledger, &f->policy, &s), ERROR_NONE);
    memcpy(text, s.uuid, 16);
    memcpy(text + 16, "token", 5);
    mac_compute(f->options.secret, "key", text, sizeof text, b);
    assert_memory_equal(a, b, sizeof a);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(an_issued_key_is_found_by_its_hash_alone),
        T(a_name_used_again_is_somebody_else),
        T(revoking_one_leaves_the_others),
        cmocka_unit_test(names_are_plain),
        T(no_more_than_keys_max),
        T(windows_that_do_not_fit_are_refused_when_the_key_is_made),
        cmocka_unit_test(a_row_that_is_not_ours_is_no_key),
        T(a_mac_is_bound_to_label_and_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
