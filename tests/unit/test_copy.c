/* The copy on flash: it is believed whole or not at all, and what it replaces stays until it is
 * whole. */
#include "tests/unit/ledger_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "platform/file.h"
#include "store/copy.h"
#include "store/ledger_parts.h"
#include "store/rows.h"

#define HEAD 57 /* magic, version, uuid, check */

struct rows {
    unsigned n;
    size_t bytes;
    uint8_t sum[MAC_SIZE];
};

static void add_up(struct rows *r, const void *key, size_t nkey, const void *value, size_t n)
{
    uint8_t text[MAC_SIZE + KV_KEY_MAX + RECORD_MAX];

    memcpy(text, r->sum, MAC_SIZE);
    memcpy(text + MAC_SIZE, key, nkey);
    memcpy(text + MAC_SIZE + nkey, value, n);
    mac_compute(r->sum, "sum", text, MAC_SIZE + nkey + n, r->sum);
    r->n++;
    r->bytes += nkey + n + 3;
}

static enum error from_copy(void *arg, struct row_key *key, struct record *value)
{
    add_up(arg, key->bytes, key->n, value->bytes, value->n);
    return ERROR_NONE;
}

static enum error from_store(void *arg, struct kv_cursor *c, const struct kv_slice *key,
                             const struct kv_slice *value)
{
    (void)c;
    add_up(arg, key->data, key->n, value->data, value->n);
    return ERROR_NONE;
}

static enum error write_copy(struct fixture *f, const char *path)
{
    struct kv_txn *t = NULL;

    assert_int_equal(kv_begin_read(f->ledger->kv, &t), ERROR_NONE);
    enum error e = copy_write(path, f->options.secret, f->ledger->schema.uuid, t);
    kv_free_read(t);
    return e;
}

static void store_rows(struct fixture *f, struct rows *out)
{
    const struct row_key from = {0};
    struct kv_txn *t = NULL;

    memset(out, 0, sizeof *out);
    assert_int_equal(kv_begin_read(f->ledger->kv, &t), ERROR_NONE);
    assert_int_equal(rows_each(t, &from, from_store, out), ERROR_NONE);
    kv_free_read(t);
}

static enum error read_copy(struct fixture *f, const char *path, struct rows *out)
{
    uint8_t uuid[16];

    memset(out, 0, sizeof *out);
    enum error e = copy_read(path, f->options.secret, uuid, from_copy, out);
    if (e == ERROR_NONE)
        assert_memory_equal(uuid, f->ledger->schema.uuid, 16);
    return e;
}

/* So many callers, each with a row of his own. */
static void use(struct fixture *f, unsigned callers)
{
    struct answer a;
    struct reservation r;

    for (unsigned i = 0; i < callers; i++) {
        set_address(&f->demand, (uint8_t)i);
        f->demand.caller.id[SUBJECT_ADDRESS].bytes[3] = (uint8_t)(i >> 8);
        assert_int_equal(ask(f, &a, &r), DECISION_ADMITTED);
    }
}

static char *slurp(const char *path, size_t *n)
{
    char *data;

    assert_int_equal(file_read(path, 1 << 22, &data, n), ERROR_NONE);
    return data;
}

static void put_file(const char *path, const void *data, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, n), (ssize_t)n);
    close(fd);
}

static int set_up_used(void **state)
{
    assert_int_equal(set_up(state), 0);
    add_limit(*state, "address", SUBJECT_ADDRESS, UNIT_CALLS, "day", 100);
    add_limit(*state, "site", SUBJECT_EVERYONE, UNIT_CALLS, "day", 100000);
    return 0;
}

static void it_holds_all_rows_over_many_blocks(void **state)
{
    struct fixture *f = *state;
    struct rows in, out;
    struct stat st;
    char path[128];

    path_of(f, "copied", path);
    for (unsigned callers = 0; callers <= 300; callers += 100) {
        use(f, callers);
        store_rows(f, &in);
        assert_int_equal(write_copy(f, path), ERROR_NONE);
        assert_int_equal(read_copy(f, path, &out), ERROR_NONE);
        assert_int_equal(in.n, out.n);
        assert_memory_equal(in.sum, out.sum, MAC_SIZE);
    }
    assert_true(in.bytes > 8 * COPY_BLOCK);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(st.st_size, HEAD + (off_t)in.bytes + 1 + 8 + MAC_SIZE);
}

/* A row that is longer by each byte of its name; what the copy's body comes to. */
static size_t put_named(struct fixture *f, unsigned number, int length)
{
    const struct overhead o = {.tokens = 1};
    char name[LEDGER_MODEL_MAX];
    struct kv_txn *t = NULL;
    struct row_key key;
    struct record value;
    struct rows there;

    snprintf(name, sizeof name, "%0*u", length, number);
    key_overhead(name, &key);
    record_overhead(&o, &value);
    assert_int_equal(kv_begin_write(f->ledger->kv, &t), ERROR_NONE);
    assert_int_equal(kv_put(t, key.bytes, key.n, value.bytes, value.n), ERROR_NONE);
    assert_int_equal(kv_commit(t), ERROR_NONE);
    store_rows(f, &there);
    return HEAD + there.bytes + 1 + 8;
}

/* Also nothing at all can be left over for a last block. */
static void its_end_can_be_that_of_a_block(void **state)
{
    struct fixture *f = *state;
    const int shortest = 3, longest = LEDGER_MODEL_MAX - 1;
    size_t body = put_named(f, 1, shortest), one = put_named(f, 2, shortest) - body, left;
    struct rows in, out;
    unsigned n = 3;
    char path[128];

    path_of(f, "copied", path);
    do {
        left = COPY_BLOCK - put_named(f, n++, shortest) % COPY_BLOCK;
    } while (left > one + (size_t)(longest - shortest));
    assert_true(left >= one);
    body = put_named(f, n, shortest + (int)(left - one));
    assert_int_equal(body % COPY_BLOCK, 0);
    store_rows(f, &in);
    assert_int_equal(write_copy(f, path), ERROR_NONE);
    assert_int_equal(read_copy(f, path, &out), ERROR_NONE);
    assert_int_equal(in.n, out.n);
}

static void no_damage_is_believed(void **state)
{
    struct fixture *f = *state;
    struct rows out;
    char path[128], *data;
    size_t n;

    path_of(f, "copied", path);
    use(f, 3);
    assert_int_equal(write_copy(f, path), ERROR_NONE);
    data = slurp(path, &n);
    for (size_t i = 0; i <= n; i++) { /* cut at every byte */
        put_file(path, data, i);
        assert_int_equal(read_copy(f, path, &out), i < n ? ERROR_STORE_INVALID : ERROR_NONE);
        assert_true(i == n || out.n == 0);
    }
    for (size_t i = 0; i < 8 * n; i++) { /* one bit anywhere */
        data[i / 8] = (char)(data[i / 8] ^ 1 << i % 8);
        put_file(path, data, n);
        enum error e = read_copy(f, path, &out);
        assert_true(e == ERROR_STORE_INVALID ||
                    (i < 8 * HEAD && (e == ERROR_STORE_SECRET || e == ERROR_STORE_VERSION)));
        assert_int_equal(out.n, 0);
        data[i / 8] = (char)(data[i / 8] ^ 1 << i % 8);
    }
    free(data);
}

static void it_is_of_one_secret(void **state)
{
    struct fixture *f = *state;
    struct rows out;
    char path[128];

    path_of(f, "copied", path);
    assert_int_equal(read_copy(f, path, &out), ERROR_STORE_MISSING);
    assert_int_equal(write_copy(f, path), ERROR_NONE);
    f->options.secret[0] ^= 1;
    assert_int_equal(read_copy(f, path, &out), ERROR_STORE_SECRET);
}

/* As copy.c writes it. */
static void put_mac(const struct fixture *f, const char *path, uint8_t *data, size_t n)
{
    uint8_t link[MAC_SIZE + COPY_BLOCK] = {0};

    for (size_t at = 0; at < n; at += COPY_BLOCK) {
        size_t part = n - at < COPY_BLOCK ? n - at : COPY_BLOCK;

        memcpy(link + MAC_SIZE, data + at, part);
        mac_compute(f->options.secret, "copy", link, MAC_SIZE + part, link);
    }
    memcpy(data + n, link, MAC_SIZE);
    put_file(path, data, n + MAC_SIZE);
}

/* With the right MAC, as somebody with the secret could make them: bounded all the same. */
static void hostile_lengths_are_bounded(void **state)
{
    static const struct {
        const char *what;
        uint8_t bytes[24];
        size_t n;
    } rows[] = {
        {"a key longer than any", {65, 0, 1}, 24},
        {"a key behind the end", {20, 0, 0}, 10},
        {"a value longer than any", {1, 0x08, 0x01, 'k'}, 24},
        {"a value of 64 KB", {1, 0xff, 0xff, 'k'}, 24},
        {"a value behind the end", {1, 0, 30, 'k'}, 24},
        {"lengths that are cut", {1, 0}, 2},
        {"no end", {1, 0, 1, 'k', 'v'}, 5},
        {"a count of rows that are not there", {0, 0, 0, 0, 0, 0, 0, 0, 1}, 9},
        {"something behind the end", {0, 0, 0, 0, 0, 0, 0, 0, 0, 7}, 10},
        {"a count that is cut", {0, 0, 0}, 3},
    };
    struct fixture *f = *state;
    uint8_t data[HEAD + 24 + MAC_SIZE];
    struct rows out;
    char path[128], *whole;
    size_t n;

    path_of(f, "copied", path);
    assert_int_equal(write_copy(f, path), ERROR_NONE);
    whole = slurp(path, &n);
    put_mac(f, path, (uint8_t *)whole, n - MAC_SIZE);
    assert_int_equal(read_copy(f, path, &out), ERROR_NONE); /* our MAC is the right one */
    memcpy(data, whole, HEAD);
    free(whole);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        memcpy(data + HEAD, rows[i].bytes, rows[i].n);
        put_mac(f, path, data, HEAD + rows[i].n);
        if (read_copy(f, path, &out) != ERROR_STORE_INVALID)
            fail_msg("%s", rows[i].what);
    }
}

static void what_is_no_row_of_ours_is_not_copied(void **state)
{
    struct fixture *f = *state;
    struct kv_txn *t;
    char path[128];

    path_of(f, "copied", path);
    assert_int_equal(kv_begin_write(f->ledger->kv, &t), ERROR_NONE);
    assert_int_equal(kv_put(t, "\x09strange", 8, "x", 1), ERROR_NONE);
    assert_int_equal(kv_commit(t), ERROR_NONE);
    assert_int_equal(write_copy(f, path), ERROR_STORE_INVALID);
    assert_int_not_equal(access(path, F_OK), 0);
}

/* As a file system that is full. */
static void limit_files(rlim_t bytes)
{
    struct rlimit r;

    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &r), 0);
    r.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &r), 0);
}

static void without_room_the_old_one_stays(void **state)
{
    struct fixture *f = *state;
    struct rows before, after;
    char path[128], temporary[160];

    path_of(f, "copied", path);
    snprintf(temporary, sizeof temporary, "%s.new0", path);
    use(f, 3);
    assert_int_equal(write_copy(f, path), ERROR_NONE);
    assert_int_equal(read_copy(f, path, &before), ERROR_NONE);
    use(f, 200);
    limit_files(2 * COPY_BLOCK + 1);
    enum error e = write_copy(f, path);
    limit_files(RLIM_INFINITY);
    assert_int_equal(e, ERROR_STORE_IO);
    assert_int_not_equal(access(temporary, F_OK), 0);
    assert_int_equal(read_copy(f, path, &after), ERROR_NONE);
    assert_memory_equal(before.sum, after.sum, MAC_SIZE);
}

static void a_link_is_not_followed(void **state)
{
    struct fixture *f = *state;
    struct rows out;
    struct stat st;
    char path[128], temporary[160], victim[128];

    path_of(f, "copied", path);
    path_of(f, "victim", victim);
    snprintf(temporary, sizeof temporary, "%s.new0", path);
    put_file(victim, "mine", 4);
    assert_int_equal(symlink(victim, temporary), 0);
    assert_int_equal(write_copy(f, path), ERROR_NONE);
    assert_int_equal(read_copy(f, path, &out), ERROR_NONE);
    assert_int_equal(stat(victim, &st), 0);
    assert_int_equal(st.st_size, 4);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink(victim, path), 0);
    assert_int_equal(read_copy(f, path, &out), ERROR_STORE_INVALID);
    assert_int_equal(write_copy(f, path),
                     ERROR_NONE); /* the link is replaced, not what it names */
    assert_int_equal(stat(victim, &st), 0);
    assert_int_equal(st.st_size, 4);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_used, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(it_holds_all_rows_over_many_blocks),
        TEST(its_end_can_be_that_of_a_block),
        TEST(no_damage_is_believed),
        TEST(it_is_of_one_secret),
        TEST(hostile_lengths_are_bounded),
        TEST(what_is_no_row_of_ours_is_not_copied),
        TEST(without_room_the_old_one_stays),
        TEST(a_link_is_not_followed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
