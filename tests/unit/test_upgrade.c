/* A store as a made-up program before this one wrote it, and one of a newer program. The steps
 * of the product, of which there are none, are replaced by these. */
#include "tests/unit/ledger_fixture.h"

#include "store/export.h"
#include "store/export_line.h"
#include "store/ledger_parts.h"
#include "store/rows.h"
#include "store/upgrade.h"

static bool refuse_counters;

/* The made-up version 0 has all bytes of version 1, but for the version, and counters with a
 * byte too many at the end. */
static bool from_0(struct row_key *key, struct record *value)
{
    struct row_key schema;

    key_schema(&schema);
    if (key->n == schema.n && memcmp(key->bytes, schema.bytes, schema.n) == 0) {
        value->bytes[8] = 1;
        return true;
    }
    value->bytes[0] = 1;
    if (key->bytes[0] == TABLE_DAY || key->bytes[0] == TABLE_COUNTER)
        value->n--;
    return !refuse_counters || key->bytes[0] != TABLE_DAY;
}

upgrade_step *const upgrade_steps[RECORD_VERSION] = {from_0};

/* All rows of the store, changed by fn. */
#define ROWS_MAX 64
struct all {
    unsigned n;
    struct row_key key[ROWS_MAX];
    struct record value[ROWS_MAX];
};

static enum error collect(void *arg, struct kv_cursor *c, const struct kv_slice *key,
                          const struct kv_slice *value)
{
    struct all *a = arg;

    (void)c;
    assert_true(a->n < ROWS_MAX);
    a->key[a->n].n = (uint8_t)key->n;
    memcpy(a->key[a->n].bytes, key->data, key->n);
    a->value[a->n].n = value->n;
    memcpy(a->value[a->n++].bytes, value->data, value->n);
    return ERROR_NONE;
}

static void set_version(const struct row_key *key, struct record *value, uint8_t version)
{
    bool is_schema = key->bytes[0] == TABLE_META && key->bytes[1] == 'S';

    value->bytes[is_schema ? 8 : 0] = version;
    if (version == 0 && (key->bytes[0] == TABLE_DAY || key->bytes[0] == TABLE_COUNTER))
        value->bytes[value->n++] = 0;
}

static struct all *read_all(struct kv *kv)
{
    struct all *a = calloc(1, sizeof *a);
    struct row_key from = {0};
    struct kv_txn *t = NULL;

    assert_non_null(a);
    assert_int_equal(kv_begin_read(kv, &t), ERROR_NONE);
    assert_int_equal(rows_each(t, &from, collect, a), ERROR_NONE);
    kv_end_read(t);
    kv_free_read(t);
    return a;
}

/* Makes the rows of a closed store those of another version; but for the first `but`. */
static void rewrite(struct fixture *f, uint8_t version, unsigned but)
{
    char walked[128];
    struct kv *kv;
    struct kv_txn *t;

    assert_int_equal(kv_open(f->dir, f->options.map_bytes, &kv), ERROR_NONE);
    struct all *a = read_all(kv);
    assert_int_equal(kv_begin_write(kv, &t), ERROR_NONE);
    for (unsigned i = but; i < a->n; i++) {
        set_version(&a->key[i], &a->value[i], version);
        assert_int_equal(
            kv_put(t, a->key[i].bytes, a->key[i].n, a->value[i].bytes, a->value[i].n),
            ERROR_NONE);
    }
    assert_int_equal(kv_commit(t), ERROR_NONE);
    kv_close(kv);
    free(a);
    path_of(f, "run/walked", walked);
    assert_int_equal(unlink(walked), 0);
}

/* Three of four calls a day are used, and the store is closed. */
static void use_three(struct fixture *f)
{
    struct answer a;
    struct reservation r;

    add_limit(f, "per-day", SUBJECT_ADDRESS, UNIT_CALLS, "day", 4);
    add_limit(f, "per-hour", SUBJECT_EVERYONE, UNIT_CALLS, "1h", 100);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(ask(f, &a, &r), DECISION_ADMITTED);
        settle(f, &r, SETTLE_USAGE, 50, 500);
    }
    close_ledger(f);
}

static void an_older_store_counts_on(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    struct reservation r;

    use_three(f);
    rewrite(f, 0, 0);
    open_ledger(f);
    assert_int_equal(used(f, 1), 3);
    assert_int_equal(ask(f, &a, &r), DECISION_ADMITTED);
    assert_int_equal(ask(f, &a, &r), DECISION_REFUSED);
    reopen(f);
    assert_int_equal(ask(f, &a, &r), DECISION_REFUSED);
}

static void a_row_that_cannot_be_upgraded_changes_nothing(void **state)
{
    struct fixture *f = *state;
    struct kv *kv;

    use_three(f);
    rewrite(f, 0, 0);
    assert_int_equal(kv_open(f->dir, f->options.map_bytes, &kv), ERROR_NONE);
    struct all *before = read_all(kv);
    refuse_counters = true;
    assert_int_equal(upgrade_store(kv), ERROR_STORE_INVALID);
    refuse_counters = false;
    struct all *after = read_all(kv);
    assert_memory_equal(before, after, sizeof *before);
    assert_int_equal(upgrade_store(kv), ERROR_NONE);
    kv_close(kv);
    free(before);
    free(after);
}

static void a_copy_that_was_rolled_back_is_not_upgraded(void **state)
{
    struct fixture *f = *state;
    char data[128], copy[128], command[300];
    struct answer a;
    struct reservation r;

    use_three(f);
    path_of(f, "data.mdb", data);
    path_of(f, "copy", copy);
    rewrite(f, 0, 0);
    snprintf(command, sizeof command, "cp '%s' '%s'", data, copy);
    assert_int_equal(system(command), 0);
    open_ledger(f); /* one transaction, and one more below */
    assert_int_equal(ask(f, &a, &r), DECISION_ADMITTED);
    settle(f, &r, SETTLE_USAGE, 1, 1);
    close_ledger(f);
    snprintf(command, sizeof command, "cat '%s' >'%s'", copy, data);
    assert_int_equal(system(command), 0);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(ledger_open(&f->options, false, &f->ledger), ERROR_STORE_ROLLED_BACK);
    assert_int_equal(ledger_open(&f->options, true, &f->ledger), ERROR_NONE);
    assert_int_equal(used(f, 1), 3);
}

static void a_newer_store_is_named_and_left_alone(void **state)
{
    struct fixture *f = *state;

    use_three(f);
    rewrite(f, 2, 0);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(ledger_open(&f->options, false, &f->ledger), ERROR_STORE_VERSION);
    rewrite(f, 1, 0);
    open_ledger(f);
    assert_int_equal(used(f, 1), 3);
}

/* Rows of two versions are of no program: in the middle of them somebody has written. */
static void a_mixed_store_is_broken(void **state)
{
    struct fixture *f = *state;

    use_three(f);
    rewrite(f, 0, 2);
    assert_int_equal(ledger_open(&f->options, false, &f->ledger), ERROR_STORE_BROKEN);
}

static void only_its_own_secret_upgrades_a_store(void **state)
{
    struct fixture *f = *state;

    use_three(f);
    rewrite(f, 0, 0);
    f->options.secret[0] ^= 1;
    assert_int_equal(ledger_open(&f->options, false, &f->ledger), ERROR_STORE_SECRET);
    f->options.secret[0] ^= 1;
    open_ledger(f);
}

/* What the made-up program, or a newer one, would have exported of the store. */
static void export_as(struct fixture *f, uint8_t version, FILE *out)
{
    static struct export_line l;
    static char text[EXPORT_LINE_MAX];
    struct export_mac mac;
    uint64_t rows;
    FILE *now = tmpfile();

    assert_non_null(now);
    assert_int_equal(ledger_export(f->ledger, now, &rows), ERROR_NONE);
    rewind(now);
    export_mac_begin(&mac, f->options.secret);
    while (fgets(text, sizeof text, now)) {
        assert_int_equal(export_line_read(text, strlen(text), &l), ERROR_NONE);
        if (l.kind == EXPORT_ROW)
            set_version(&l.key, &l.value, version);
        memcpy(l.mac, mac.running, sizeof l.mac);
        size_t n = export_line_write(&l, text);
        export_mac_add(&mac, text, n);
        assert_int_equal(fwrite(text, 1, n, out), n);
    }
    fclose(now);
    rewind(out);
}

static void an_export_of_an_older_program_counts_on(void **state)
{
    struct fixture *f = *state;
    struct import_report report;
    struct answer a;
    struct reservation r;
    char command[200];
    FILE *older = tmpfile(), *newer = tmpfile();

    assert_true(older && newer);
    use_three(f);
    open_ledger(f);
    export_as(f, 0, older);
    export_as(f, 2, newer);
    close_ledger(f);
    snprintf(command, sizeof command, "rm -r '%s'/*", f->dir);
    assert_int_equal(system(command), 0);
    assert_int_equal(ledger_create(&f->options, "UTC0"), ERROR_NONE);
    assert_int_equal(ledger_import(&f->options, newer, &report), ERROR_STORE_VERSION);
    assert_int_equal(ledger_import(&f->options, older, &report), ERROR_NONE);
    fclose(older);
    fclose(newer);
    open_ledger(f);
    assert_int_equal(used(f, 1), 3);
    assert_int_equal(ask(f, &a, &r), DECISION_ADMITTED);
    assert_int_equal(ask(f, &a, &r), DECISION_REFUSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_older_store_counts_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_row_that_cannot_be_upgraded_changes_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_copy_that_was_rolled_back_is_not_upgraded, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_newer_store_is_named_and_left_alone, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_mixed_store_is_broken, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_export_of_an_older_program_counts_on, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(only_its_own_secret_upgrades_a_store, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
