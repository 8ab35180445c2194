/* Transcripts: rows, and the archive that keeps them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <signal.h>
#include <sys/file.h>

#include "store/archive.h"
#include "store/storetime.h"
#include "tests/unit/kv_scratch.h"

#define SMALL_MAP ((size_t)1 << 20)
#define DAY_MS    ((int64_t)86400000)
#define NOW_MS    ((int64_t)1800000000000)
#define LONG_MS   10000
#define TEXT(s)   ((struct transcript_text){s, sizeof s - 1})

static int64_t wall_ms = NOW_MS;

static enum error test_clock(struct clock_now *out)
{
    *out = (struct clock_now){.wall_ms = wall_ms, .boot_ms = 1000};
    return ERROR_NONE;
}

static int setup(void **state)
{
    wall_ms = NOW_MS;
    return scratch_make(state);
}

/* ---- rows ---- */

static const struct transcript_message talk[] = {
    {TRANSCRIPT_USER, TEXT("Why is the sea salt?")},
    {TRANSCRIPT_ASSISTANT, TEXT("Rivers.")},
    {TRANSCRIPT_USER, TEXT("H\xc3\xa4?\n\x1b[2J\x7f")},
};

static struct transcript sample(void)
{
    return (struct transcript){
        .id = "chatcmpl-0123456789abcdef01234567",
        .model = "demo",
        .subject = "0123456789abcdef",
        .result = "ok",
        .tokens_in = 12,
        .tokens_out = UINT64_MAX,
        .n_messages = 3,
        .messages = talk,
        .answer = TEXT("Because of rivers."),
    };
}

static bool same_text(const struct transcript_text *a, const struct transcript_text *b)
{
    return a->n == b->n && (a->n == 0 || memcmp(a->at, b->at, a->n) == 0);
}

static void assert_same(const struct transcript *a, const struct transcript *b)
{
    assert_string_equal(a->id, b->id);
    assert_string_equal(a->model, b->model);
    assert_string_equal(a->subject, b->subject);
    assert_string_equal(a->result, b->result);
    assert_true(a->tokens_in == b->tokens_in && a->tokens_out == b->tokens_out);
    assert_int_equal(a->n_messages, b->n_messages);
    for (unsigned i = 0; i < a->n_messages; i++) {
        assert_int_equal(a->messages[i].role, b->messages[i].role);
        assert_true(same_text(&a->messages[i].text, &b->messages[i].text));
    }
    assert_true(same_text(&a->answer, &b->answer));
}

static void test_what_is_written_is_read(void **state)
{
    struct transcript in = sample(), out;
    struct kv_slice row;
    uint8_t *bytes;
    size_t n;

    (void)state;
    for (unsigned messages = 0; messages <= 3; messages++) {
        in.n_messages = messages;
        assert_error(transcript_encode(&in, TRANSCRIPT_MAX, &bytes, &n), ERROR_NONE);
        row = (struct kv_slice){bytes, n};
        assert_error(transcript_decode(&row, &out), ERROR_NONE);
        assert_same(&in, &out);
        assert_false(out.cut);
        transcript_free(&out);
        free(bytes);
    }
}

static void test_any_part_of_a_row_is_none(void **state)
{
    struct transcript in = sample(), out;
    uint8_t *bytes;
    size_t n;

    (void)state;
    assert_error(transcript_encode(&in, TRANSCRIPT_MAX, &bytes, &n), ERROR_NONE);
    for (size_t i = 0; i < n; i++) {
        unsigned char *part = malloc(i + 1); /* its own, so that a sanitizer sees its end */

        memcpy(part, bytes, i);
        assert_error(transcript_decode(&(struct kv_slice){part, i}, &out), ERROR_STORE_INVALID);
        free(part);
    }
    free(bytes);
}

static void test_a_changed_byte_never_breaks_a_bound(void **state)
{
    struct transcript in = sample(), out;
    uint8_t *bytes;
    size_t n;

    (void)state;
    assert_error(transcript_encode(&in, TRANSCRIPT_MAX, &bytes, &n), ERROR_NONE);
    for (size_t i = 0; i < n; i++) {
        for (unsigned v = 0; v < 256; v++) {
            uint8_t was = bytes[i];

            bytes[i] = (uint8_t)v;
            if (transcript_decode(&(struct kv_slice){bytes, n}, &out) == ERROR_NONE)
                transcript_free(&out);
            bytes[i] = was;
        }
    }
    free(bytes);
}

static void test_words_are_words(void **state)
{
    static const char *const bad[] = {"", "a b", "a\n", "a\x1b", "\x7f", "\xc3\xa4"};
    struct transcript in;
    uint8_t *bytes;
    size_t n;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        in = sample();
        snprintf(in.subject, sizeof in.subject, "%s", bad[i]);
        assert_error(transcript_encode(&in, TRANSCRIPT_MAX, &bytes, &n), ERROR_SYNTAX);
    }
    in = sample();
    memset(in.id, 'a', sizeof in.id); /* without an end */
    assert_error(transcript_encode(&in, TRANSCRIPT_MAX, &bytes, &n), ERROR_SYNTAX);
    in = sample();
    in.n_messages = TRANSCRIPT_MESSAGES_MAX + 1;
    assert_error(transcript_encode(&in, TRANSCRIPT_MAX, &bytes, &n), ERROR_TOO_LARGE);
}

static const struct {
    const char *what;
    size_t first, newest, answer; /* bytes */
    size_t kept_first, kept_newest, kept_answer;
    bool cut;
} cuttings[] = {
    {"everything fits", 100, 100, 100, 100, 100, 100, false},
    {"a long answer leaves the messages alone", 100, 100, 20000, 100, 100, 0, true},
    {"the oldest message goes first", 20000, 100, 100, 0, 100, 100, true},
    {"the newest message leaves half to the answer", 100, 20000, 20000, 0, 0, 0, true},
};

static void test_what_is_too_long_is_cut(void **state)
{
    static char letters[20000];
    struct transcript in = sample(), out;

    (void)state;
    memset(letters, 'x', sizeof letters);
    for (size_t i = 0; i < sizeof cuttings / sizeof cuttings[0]; i++) {
        struct transcript_message two[] = {
            {TRANSCRIPT_USER, {letters, cuttings[i].first}},
            {TRANSCRIPT_USER, {letters, cuttings[i].newest}},
        };
        uint8_t *bytes;
        size_t n;

        print_message("%s\n", cuttings[i].what);
        in.messages = two;
        in.n_messages = 2;
        in.answer = (struct transcript_text){letters, cuttings[i].answer};
        assert_error(transcript_encode(&in, TRANSCRIPT_MIN, &bytes, &n), ERROR_NONE);
        assert_true(cuttings[i].cut ? n == TRANSCRIPT_MIN : n < TRANSCRIPT_MIN);
        assert_error(transcript_decode(&(struct kv_slice){bytes, n}, &out), ERROR_NONE);
        assert_int_equal(out.cut, cuttings[i].cut);
        if (cuttings[i].kept_first > 0)
            assert_int_equal(out.messages[0].text.n, cuttings[i].kept_first);
        if (cuttings[i].kept_newest > 0)
            assert_int_equal(out.messages[1].text.n, cuttings[i].kept_newest);
        if (cuttings[i].kept_answer > 0)
            assert_int_equal(out.answer.n, cuttings[i].kept_answer);
        transcript_free(&out);
        free(bytes);
    }
}

static void test_a_cut_is_between_characters(void **state)
{
    static char text[20001];
    struct transcript in = sample(), out;
    uint8_t *bytes;
    size_t n;

    (void)state;
    for (size_t i = 1; i + 1 < sizeof text; i += 2)
        memcpy(text + i, "\xc3\xa4", 2);
    for (size_t at = 0; at < 2; at++) { /* one of them would be cut in the middle */
        text[0] = 'x';
        in.n_messages = 0;
        in.answer = (struct transcript_text){text + at, sizeof text - 1 - at};
        assert_error(transcript_encode(&in, TRANSCRIPT_MIN, &bytes, &n), ERROR_NONE);
        assert_error(transcript_decode(&(struct kv_slice){bytes, n}, &out), ERROR_NONE);
        assert_true(out.cut && out.answer.n % 2 == 1 - at);
        transcript_free(&out);
        free(bytes);
    }
}

static void test_keys_are_in_the_order_of_time(void **state)
{
    static const struct transcript_key keys[] = {
        {0, 0}, {0, 1}, {255, 0}, {256, 0}, {256, UINT32_MAX}, {INSTANT_MAX_MS, 0}};
    uint8_t bytes[2][TRANSCRIPT_KEY_BYTES];
    struct transcript_key k;

    (void)state;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        transcript_key_write(&keys[i], bytes[i % 2]);
        assert_true(transcript_key_read(&(struct kv_slice){bytes[i % 2], 12}, &k));
        assert_true(k.time_ms == keys[i].time_ms && k.sequence == keys[i].sequence);
        assert_true(i == 0 || memcmp(bytes[i % 2], bytes[1 - i % 2], 12) > 0);
    }
    memset(bytes, 0xff, sizeof bytes);
    assert_false(transcript_key_read(&(struct kv_slice){bytes, 12}, &k)); /* before 1970 */
    assert_false(transcript_key_read(&(struct kv_slice){bytes, 11}, &k));
}

/* ---- the archive ---- */

static struct archive *new_archive(size_t map, bool trusting)
{
    const struct archive_options o = {.store = scratch_directory,
                                      .map_bytes = map,
                                      .keep_ms = 30 * DAY_MS,
                                      .trusting = trusting,
                                      .clock = test_clock};
    struct archive *a = NULL;

    assert_error(archive_new(&o, &a), ERROR_NONE);
    return a;
}

/* A transcript with this text n times over in its answer. */
static enum error try_add(struct archive *a, int64_t time_ms, const char *subject,
                          const char *text, size_t times)
{
    struct transcript t = sample();
    size_t n_text = strlen(text), n;
    char *answer = malloc(n_text * times + 1);
    uint8_t *bytes;

    for (size_t i = 0; i < times; i++)
        memcpy(answer + i * n_text, text, n_text);
    t.answer = (struct transcript_text){answer, n_text * times};
    snprintf(t.subject, sizeof t.subject, "%s", subject);
    assert_error(transcript_encode(&t, TRANSCRIPT_MAX, &bytes, &n), ERROR_NONE);
    struct archive_item item = {time_ms, {bytes, n}};
    enum error e = archive_add(a, &item, 1, LONG_MS);
    free(bytes);
    free(answer);
    return e;
}

static void add(struct archive *a, int64_t time_ms, const char *subject, const char *text,
                size_t times)
{
    assert_error(try_add(a, time_ms, subject, text, times), ERROR_NONE);
}

struct seen {
    unsigned n;
    int64_t first_ms, last_ms;
};

static enum error look(struct archive *a, struct seen *out)
{
    struct transcript_key key = archive_first;
    enum error e;
    uint8_t *row;
    size_t n;

    *out = (struct seen){0};
    while ((e = archive_next(a, &key, &row, &n, LONG_MS)) == ERROR_NONE) {
        struct transcript t;

        assert_error(transcript_decode(&(struct kv_slice){row, n}, &t), ERROR_NONE);
        transcript_free(&t);
        free(row);
        assert_true(key.time_ms >= out->last_ms);
        out->first_ms = out->n++ == 0 ? key.time_ms : out->first_ms;
        out->last_ms = key.time_ms;
    }
    return e;
}

static unsigned count(struct archive *a)
{
    struct seen s;

    assert_error(look(a, &s), ERROR_NOT_FOUND);
    return s.n;
}

static const char *data_path(void)
{
    return scratch_path("transcripts/data.mdb");
}

/* Whether the bytes are in the file of an open descriptor or at a path. */
static bool has_bytes(const char *path, const char *text)
{
    size_t n;
    unsigned char *data = read_file(path, &n);
    bool found = memmem(data, n, text, strlen(text)) != NULL;

    free(data);
    return found;
}

static void test_an_archive_is_made_by_the_first_to_come(void **state)
{
    struct archive *a = new_archive(SMALL_MAP, false);
    struct seen s;
    struct stat st;

    (void)state;
    assert_error(look(a, &s), ERROR_STORE_MISSING);
    assert_error(archive_expire(a, 0), ERROR_STORE_MISSING);
    assert_int_equal(scratch_count(), 0);
    add(a, NOW_MS, "s", "x", 1);
    assert_int_equal(stat(scratch_path("transcripts"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(stat(data_path(), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(size_of(scratch_path("transcripts/new")), -1);
    assert_int_equal(count(a), 1);
    archive_free(a);
    archive_free(NULL);
}

static void test_those_of_one_millisecond_are_all_kept(void **state)
{
    struct archive *a = new_archive(SMALL_MAP, false);
    struct seen s;

    (void)state;
    for (int i = 0; i < 20; i++)
        add(a, NOW_MS - i / 10, "s", "x", 1);
    assert_error(look(a, &s), ERROR_NOT_FOUND);
    assert_int_equal(s.n, 20);
    assert_true(s.first_ms == NOW_MS - 1 && s.last_ms == NOW_MS);
    archive_free(a);
}

static void test_the_oldest_go_first(void **state)
{
    struct archive *a = new_archive(SMALL_MAP, false);
    size_t most = archive_row_max(SMALL_MAP), random = 12345;
    struct seen s;

    (void)state;
    for (int i = 0; i < 2000; i++) {
        random = random * 1103515245 + 12345;
        add(a, NOW_MS + i, "s", "x", random / 65536 % (most - 1000));
        if (i % 100 != 99)
            continue;
        assert_error(look(a, &s), ERROR_NOT_FOUND);
        assert_true(s.last_ms == NOW_MS + i && s.n > 5); /* the newest is always there */
        assert_true(s.first_ms == NOW_MS + i - s.n + 1); /* and there is no gap */
    }
    assert_true((size_t)size_of(data_path()) <= SMALL_MAP);
    archive_free(a);
}

static void test_many_small_ones_turn_over(void **state)
{
    enum { AT_ONCE = 500 };
    struct archive *a = new_archive(SMALL_MAP, false);
    struct archive_item items[AT_ONCE];
    struct transcript t = sample();
    uint8_t *bytes;
    struct seen s;
    size_t n;

    (void)state;
    assert_error(transcript_encode(&t, TRANSCRIPT_MAX, &bytes, &n), ERROR_NONE);
    for (int round = 0; round < 40; round++) {
        for (int i = 0; i < AT_ONCE; i++)
            items[i] = (struct archive_item){NOW_MS + round * AT_ONCE + i, {bytes, n}};
        assert_error(archive_add(a, items, AT_ONCE, LONG_MS), ERROR_NONE);
    }
    free(bytes);
    assert_error(look(a, &s), ERROR_NOT_FOUND);
    assert_true(s.last_ms == NOW_MS + 40 * AT_ONCE - 1 && s.n > 1000);
    assert_true(s.first_ms == s.last_ms - s.n + 1);
    archive_free(a);
}

static void test_those_too_old_go(void **state)
{
    struct archive *a = new_archive(SMALL_MAP, false);
    struct seen s;

    (void)state;
    add(a, NOW_MS - 29 * DAY_MS, "s", "x", 1);
    add(a, NOW_MS, "s", "x", 1);
    wall_ms = NOW_MS + DAY_MS;
    assert_error(archive_expire(a, LONG_MS), ERROR_NONE); /* one of exactly 30 days stays */
    assert_int_equal(count(a), 2);
    wall_ms++;
    assert_error(archive_expire(a, LONG_MS), ERROR_NONE);
    assert_int_equal(count(a), 1);
    wall_ms += 60 * DAY_MS;
    add(a, wall_ms, "s", "x", 1); /* every write removes them too */
    assert_error(look(a, &s), ERROR_NOT_FOUND);
    assert_true(s.n == 1 && s.first_ms == wall_ms);
    archive_free(a);
}

static void test_nothing_to_remove_writes_nothing(void **state)
{
    struct archive *a = new_archive(SMALL_MAP, false);
    struct stat before, after;

    (void)state;
    add(a, NOW_MS, "s", "x", 1);
    assert_int_equal(stat(data_path(), &before), 0);
    assert_error(archive_expire(a, LONG_MS), ERROR_NONE);
    assert_int_equal(stat(data_path(), &after), 0);
    assert_memory_equal(&before.st_mtim, &after.st_mtim, sizeof before.st_mtim);
    archive_free(a);
}

/* ---- erasing ---- */

static bool is_subject(void *arg, const struct transcript_key *key, const struct transcript *t)
{
    (void)key;
    return strcmp(t->subject, arg) == 0;
}

static unsigned erase(struct archive *a, const char *subject)
{
    char wanted[TRANSCRIPT_WORD_MAX];
    unsigned n = 0;

    snprintf(wanted, sizeof wanted, "%s", subject);
    assert_error(archive_erase(a, is_subject, wanted, LONG_MS, &n), ERROR_NONE);
    return n;
}

/* What another process still holds: a file that is unlinked is read by its descriptor. */
static bool fd_has_bytes(int fd, const char *text)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return has_bytes(path, text);
}

static void test_what_is_erased_is_in_no_file_any_more(void **state)
{
    struct archive *a = new_archive(SMALL_MAP, false), *other = new_archive(SMALL_MAP, false);
    int old;

    (void)state;
    for (int i = 0; i < 40; i++) {
        add(i % 2 ? a : other, NOW_MS + i, "mallory", "SECRETWORD", (size_t)1 << i % 12);
        add(i % 2 ? a : other, NOW_MS + i, "alice", "stays", 20);
    }
    old = open(data_path(), O_RDONLY | O_CLOEXEC);
    assert_true(old >= 0 && has_bytes(data_path(), "SECRETWORD"));
    assert_int_equal(erase(a, "nobody"), 0);
    assert_int_equal(erase(a, "mallory"), 40);
    assert_false(has_bytes(data_path(), "SECRETWORD"));
    assert_false(fd_has_bytes(old, "SECRETWORD"));
    close(old);
    assert_true(has_bytes(data_path(), "stays"));
    assert_int_equal(size_of(scratch_path("transcripts/old.mdb")), -1);
    assert_int_equal(size_of(scratch_path("transcripts/new")), -1);
    assert_int_equal(count(other), 40); /* which has the old files open */
    add(other, NOW_MS + 100, "bob", "more", 1);
    assert_int_equal(count(a), 41);
    archive_free(a);
    archive_free(other);
}

static void test_erasing_takes_what_had_only_been_removed(void **state)
{
    struct archive *a = new_archive(SMALL_MAP, false);

    (void)state;
    add(a, NOW_MS, "s", "SECRETWORD", 500);
    wall_ms += 31 * DAY_MS;
    add(a, wall_ms, "s", "later", 1);
    assert_int_equal(count(a), 1);
    assert_true(has_bytes(data_path(), "SECRETWORD")); /* this is why erasing is more */
    assert_int_equal(erase(a, "nobody"), 0);
    assert_false(has_bytes(data_path(), "SECRETWORD"));
    archive_free(a);
}

static void test_all_can_be_erased(void **state)
{
    struct archive *a = new_archive(SMALL_MAP, false);
    struct seen s;
    int old;

    (void)state;
    add(a, NOW_MS, "s", "SECRETWORD", 500);
    old = open(data_path(), O_RDONLY | O_CLOEXEC);
    assert_error(archive_erase_all(a, LONG_MS), ERROR_NONE);
    assert_false(fd_has_bytes(old, "SECRETWORD"));
    close(old);
    assert_error(look(a, &s), ERROR_STORE_MISSING);
    assert_error(archive_erase_all(a, LONG_MS), ERROR_NONE);
    add(a, NOW_MS, "s", "x", 1);
    assert_int_equal(count(a), 1);
    archive_free(a);
}

/* What a process leaves that is killed at each step of erasing. */
static const struct {
    const char *what;
    bool linked;   /* old.mdb is a second name of data.mdb */
    bool replaced; /* old.mdb is a file of its own */
    bool new_dir, new_data;
} leftovers[] = {
    {"while it copied", false, false, true, true},
    {"before it replaced the files", true, false, true, true},
    {"between the two files", true, false, true, false},
    {"before it wiped the old one", false, true, false, false},
};

static void test_a_killed_eraser_is_finished_by_the_next(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof leftovers / sizeof leftovers[0]; i++) {
        struct archive *a = new_archive(SMALL_MAP, false);
        const char *old = scratch_path("transcripts/old.mdb");

        print_message("killed %s\n", leftovers[i].what);
        add(a, NOW_MS, "s", "stays", 1);
        unsigned before = count(a);
        archive_free(a);
        if (leftovers[i].linked)
            assert_int_equal(link(data_path(), old), 0);
        if (leftovers[i].replaced)
            scratch_write(old, 0600, "SECRETWORD", 10);
        int fd = open(old, O_RDONLY | O_CLOEXEC);
        if (leftovers[i].new_dir)
            assert_int_equal(mkdir(scratch_path("transcripts/new"), 0700), 0);
        if (leftovers[i].new_data)
            scratch_write(scratch_path("transcripts/new/data.mdb"), 0600, "x", 1);
        a = new_archive(SMALL_MAP, false);
        assert_int_equal(count(a), before);
        assert_int_equal(size_of(old), -1);
        assert_int_equal(size_of(scratch_path("transcripts/new")), -1);
        if (leftovers[i].replaced)
            assert_false(fd_has_bytes(fd, "SECRETWORD"));
        close(fd);
        archive_free(a);
    }
}

/* ---- another size ---- */

static void test_a_smaller_size_is_taken_up(void **state)
{
    struct archive *a = new_archive(MAP, false);
    struct seen s;

    (void)state;
    for (int i = 0; i < 40; i++)
        add(a, NOW_MS + i, i % 2 ? "odd" : "even", "salt", 12000);
    assert_true((size_t)size_of(data_path()) > SMALL_MAP);
    archive_free(a);
    a = new_archive(SMALL_MAP, false);
    assert_int_equal(erase(a, "nobody"), 0); /* which does not yet lose any */
    assert_int_equal(count(a), 40);
    add(a, NOW_MS + 100, "new", "salt", 1000);
    assert_error(look(a, &s), ERROR_NOT_FOUND);
    assert_true(s.n > 5 && s.n * 48000 < SMALL_MAP && s.last_ms == NOW_MS + 100);
    assert_true(erase(a, "odd") > 0);
    assert_true((size_t)size_of(data_path()) < SMALL_MAP);
    archive_free(a);
}

/* ---- several processes ---- */

#define ADDERS 2
#define EACH   60

static void test_processes_add_while_another_erases(void **state)
{
    pid_t children[ADDERS];
    struct archive *a;
    unsigned erased = 0;

    (void)state;
    for (int c = 0; c < ADDERS; c++) {
        children[c] = fork();
        if (children[c] == 0) {
            const struct archive_options o = {.store = scratch_directory,
                                              .map_bytes = MAP,
                                              .keep_ms = DAY_MS,
                                              .clock = test_clock};
            alarm(SCRATCH_SECONDS);
            if (archive_new(&o, &a) != ERROR_NONE)
                _exit(1);
            for (int i = 0; i < EACH; i++) {
                if (try_add(a, NOW_MS + i, i % 2 ? "odd" : "even", "SECRETWORD", 300))
                    _exit(2);
            }
            archive_free(a);
            _exit(0);
        }
    }
    a = new_archive(MAP, false);
    while (size_of(data_path()) < 0)
        poll(NULL, 0, 1);
    for (int i = 0; i < 10; i++)
        erased += erase(a, "odd");
    for (int c = 0; c < ADDERS; c++)
        assert_int_equal(scratch_wait(children[c]), 0);
    erased += erase(a, "odd");
    assert_int_equal(erased, ADDERS * EACH / 2); /* none was lost, none came twice */
    assert_int_equal(count(a), ADDERS * EACH / 2);
    archive_free(a);
}

static void test_a_death_while_erasing_loses_nothing(void **state)
{
    enum { ROUNDS = 20 };
    struct archive *a = new_archive(MAP, false);
    unsigned kept;

    (void)state;
    for (int i = 0; i < 50; i++)
        add(a, NOW_MS + i, "stays", "salt", 2000);
    for (unsigned i = 0; i < ROUNDS; i++) {
        int ends[2];
        char c;

        add(a, NOW_MS + 100 + i, "goes", "SECRETWORD", 1000);
        assert_int_equal(pipe(ends), 0);
        pid_t child = fork();
        if (child == 0) {
            struct archive *mine;
            const struct archive_options o = {.store = scratch_directory,
                                              .map_bytes = MAP,
                                              .keep_ms = DAY_MS,
                                              .clock = test_clock};
            char subject[] = "goes";
            alarm(SCRATCH_SECONDS);
            if (archive_new(&o, &mine) != ERROR_NONE || write(ends[1], "x", 1) != 1)
                _exit(1);
            for (unsigned n;
                 archive_erase(mine, is_subject, subject, LONG_MS, &n) == ERROR_NONE;)
                ;
            _exit(2);
        }
        assert_int_equal(read(ends[0], &c, 1), 1);
        poll(NULL, 0, (int)(i % 20)); /* an erasing takes some milliseconds */
        kill(child, SIGKILL);
        assert_int_equal(scratch_wait(child), 1000 + SIGKILL);
        close(ends[0]);
        close(ends[1]);
        kept = count(a) - 50;
        assert_int_equal(erase(a, "stay"), 0);
        assert_int_equal(erase(a, "goes"), kept);
        assert_int_equal(count(a), 50);
        assert_false(has_bytes(data_path(), "SECRETWORD"));
        assert_int_equal(size_of(scratch_path("transcripts/old.mdb")), -1);
    }
    archive_free(a);
}

static void test_who_holds_the_archive_keeps_nobody_for_long(void **state)
{
    struct archive *a = new_archive(SMALL_MAP, false);
    struct seen s;
    int fd;

    (void)state;
    add(a, NOW_MS, "s", "x", 1);
    fd = open(scratch_path("transcripts"), O_RDONLY | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    struct transcript_key key = archive_first;
    uint8_t *row;
    size_t n;
    assert_error(archive_next(a, &key, &row, &n, 20), ERROR_BUSY);
    assert_error(archive_expire(a, 0), ERROR_BUSY);
    close(fd);
    assert_error(look(a, &s), ERROR_NOT_FOUND);
    assert_int_equal(s.n, 1);
    archive_free(a);
}

/* ---- faults ---- */

static void test_a_damaged_file_ends_nobody(void **state)
{
    struct archive *a = new_archive(SMALL_MAP, false);
    unsigned char *sound, *broken;
    unsigned told = 0;
    size_t n;

    (void)state;
    for (int i = 0; i < 50; i++)
        add(a, NOW_MS + i, "s", "salt", 1000);
    archive_free(a);
    sound = read_file(data_path(), &n);
    broken = malloc(n);
    for (size_t page = 0; page < n / 4096; page += 7) {
        memcpy(broken, sound, n);
        for (size_t i = 0; i < 4096; i++)
            broken[page * 4096 + i] = (unsigned char)(i * 131 + page);
        scratch_write(data_path(), 0600, broken, n);
        a = new_archive(SMALL_MAP, false);
        enum error e = try_add(a, NOW_MS, "s", "x", 1);
        told += e != ERROR_NONE;
        archive_free(a);
    }
    assert_true(told > 5); /* of a free page nothing can be told, and nothing comes of it */
    for (int i = 0; i < 3; i++) { /* cut, emptied, and no LMDB file at all */
        scratch_write(data_path(), 0600, i == 2 ? (const void *)"no" : sound,
                      i == 0 ? n / 2 : (i == 1 ? 0 : 2));
        a = new_archive(SMALL_MAP, false);
        assert_int_not_equal(try_add(a, NOW_MS, "s", "x", 1), ERROR_NONE);
        archive_free(a);
    }
    a = new_archive(SMALL_MAP, false);
    assert_error(archive_erase_all(a, LONG_MS), ERROR_NONE);
    add(a, NOW_MS, "s", "x", 1);
    assert_int_equal(count(a), 1);
    archive_free(a);
    free(sound);
    free(broken);
}

static void test_an_archive_that_goes_away_is_made_anew(void **state)
{
    struct archive *a = new_archive(SMALL_MAP, false);

    (void)state;
    add(a, NOW_MS, "s", "x", 1);
    assert_int_equal(rename(scratch_path("transcripts"), scratch_path("gone")), 0);
    add(a, NOW_MS, "s", "x", 1);
    assert_int_equal(count(a), 1);
    assert_int_equal(unlink(data_path()), 0);
    add(a, NOW_MS, "s", "x", 1);
    assert_int_equal(count(a), 1);
    archive_free(a);
}

static void make_open_to_others(void)
{
    assert_int_equal(mkdir(scratch_path("transcripts"), 0700), 0);
    assert_int_equal(chmod(scratch_path("transcripts"), 0750), 0);
}

static void make_link(void)
{
    assert_int_equal(mkdir(scratch_path("elsewhere"), 0700), 0);
    assert_int_equal(symlink("elsewhere", scratch_path("transcripts")), 0);
}

static void make_file(void)
{
    scratch_write(scratch_path("transcripts"), 0600, "x", 1);
}

static void make_fifo_of_data(void)
{
    assert_int_equal(mkdir(scratch_path("transcripts"), 0700), 0);
    assert_int_equal(mkfifo(data_path(), 0600), 0);
}

static const struct {
    const char *what;
    void (*make)(void);
    enum error wanted;
} places[] = {
    {"a directory that others can read", make_open_to_others, ERROR_OWNER},
    {"a link", make_link, ERROR_OWNER},
    {"a file", make_file, ERROR_OWNER},
    {"a data file that is a pipe", make_fifo_of_data, ERROR_STORE_INVALID},
};

static void test_a_place_that_is_not_ours_is_left_alone(void **state)
{
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct archive *a = new_archive(SMALL_MAP, false);

        print_message("%s\n", places[i].what);
        places[i].make();
        assert_error(try_add(a, NOW_MS, "s", "x", 1), places[i].wanted);
        archive_free(a);
        scratch_remove(state);
        assert_int_equal(scratch_make(state), 0);
    }
}

static void test_without_a_store_there_is_no_archive(void **state)
{
    struct archive_options o = {.store = scratch_path("none"),
                                .map_bytes = SMALL_MAP,
                                .keep_ms = DAY_MS,
                                .clock = test_clock};
    struct archive *a;

    (void)state;
    assert_error(archive_new(&o, &a), ERROR_NONE);
    assert_error(try_add(a, NOW_MS, "s", "x", 1), ERROR_STORE_MISSING);
    archive_free(a);
}

static void test_one_walk_a_boot_is_enough_for_the_trusting(void **state)
{
    struct archive *a = new_archive(SMALL_MAP, false), *trusting = new_archive(SMALL_MAP, true);

    (void)state;
    add(a, NOW_MS, "s", "x", 1);
    assert_true(size_of(scratch_path("transcripts/walked")) > 0);
    add(trusting, NOW_MS, "s", "x", 1);
    assert_int_equal(count(a), 2);
    archive_free(a);
    archive_free(trusting);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, scratch_remove)

static void test_an_instant_in_a_key_is_bounded(void **state)
{
    struct transcript_key t = {.time_ms = INSTANT_MAX_MS}, read;
    uint8_t bytes[TRANSCRIPT_KEY_BYTES];

    (void)state;
    transcript_key_write(&t, bytes);
    assert_true(transcript_key_read(&(struct kv_slice){bytes, sizeof bytes}, &read));
    t.time_ms++;
    transcript_key_write(&t, bytes);
    assert_false(transcript_key_read(&(struct kv_slice){bytes, sizeof bytes}, &read));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_instant_in_a_key_is_bounded),
        cmocka_unit_test(test_what_is_written_is_read),
        cmocka_unit_test(test_any_part_of_a_row_is_none),
        cmocka_unit_test(test_a_changed_byte_never_breaks_a_bound),
        cmocka_unit_test(test_words_are_words),
        cmocka_unit_test(test_what_is_too_long_is_cut),
        cmocka_unit_test(test_a_cut_is_between_characters),
        cmocka_unit_test(test_keys_are_in_the_order_of_time),
        T(test_an_archive_is_made_by_the_first_to_come),
        T(test_those_of_one_millisecond_are_all_kept),
        T(test_the_oldest_go_first),
        T(test_many_small_ones_turn_over),
        T(test_those_too_old_go),
        T(test_nothing_to_remove_writes_nothing),
        T(test_what_is_erased_is_in_no_file_any_more),
        T(test_erasing_takes_what_had_only_been_removed),
        T(test_all_can_be_erased),
        T(test_a_killed_eraser_is_finished_by_the_next),
        T(test_a_smaller_size_is_taken_up),
        T(test_processes_add_while_another_erases),
        T(test_a_death_while_erasing_loses_nothing),
        T(test_who_holds_the_archive_keeps_nobody_for_long),
        T(test_a_damaged_file_ends_nobody),
        T(test_an_archive_that_goes_away_is_made_anew),
        T(test_a_place_that_is_not_ours_is_left_alone),
        T(test_without_a_store_there_is_no_archive),
        T(test_one_walk_a_boot_is_enough_for_the_trusting),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
