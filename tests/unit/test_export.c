/* A store as text and back: the same decisions, and nothing taken that is not the whole of what
 * was written by the same site. */
#include "tests/unit/ledger_fixture.h"

#include <sys/stat.h>
#include <sys/wait.h>

#include "store/export.h"
#include "store/export_line.h"
#include "store/ledger_parts.h"

#define TEXT_MAX (256 << 10)

/* A second store, made by init for the same site. */
static struct fixture *second(const struct fixture *f)
{
    struct fixture *g = calloc(1, sizeof *g);

    assert_non_null(g);
    *g = *f;
    g->ledger = NULL;
    g->policy.limits = g->limits;
    snprintf(g->dir, sizeof g->dir, "%s-2", f->dir);
    g->options.store = g->dir;
    assert_int_equal(mkdir(g->dir, 0700), 0);
    assert_int_equal(ledger_create(&g->options, "UTC0"), ERROR_NONE);
    return g;
}

static void end_second(struct fixture *g)
{
    close_ledger(g);
    remove_store(g);
    free(g);
}

static void same_limits(const struct fixture *f, struct fixture *g)
{
    memcpy(g->limits, f->limits, sizeof g->limits);
    g->policy.n_limits = f->policy.n_limits;
}

static char *export_text(struct fixture *f)
{
    char *text = NULL;
    size_t n;
    uint64_t rows;
    FILE *out = open_memstream(&text, &n);

    assert_non_null(out);
    assert_int_equal(ledger_export(f->ledger, out, &rows), ERROR_NONE);
    fclose(out);
    assert_true(n < TEXT_MAX && rows >= 2);
    return text;
}

static enum error import_bytes(struct fixture *g, const char *text, size_t n,
                               struct import_report *r)
{
    FILE *in = tmpfile();

    assert_non_null(in);
    assert_int_equal(fwrite(text, 1, n, in), n);
    rewind(in);
    enum error e = ledger_import(&g->options, in, r);
    fclose(in);
    return e;
}

static enum error import_text(struct fixture *g, const char *text, struct import_report *r)
{
    return import_bytes(g, text, strlen(text), r);
}

static void add_limits(struct fixture *f)
{
    add_limit(f, "per-day", SUBJECT_ADDRESS, UNIT_CALLS, "day", 4);
    add_limit(f, "burst", SUBJECT_ADDRESS, UNIT_CALLS, "10m", 100);
    add_limit(f, "spend", SUBJECT_EVERYONE, UNIT_COST, "month", 1000000);
    add_limit(f, "at-once", SUBJECT_ADDRESS, UNIT_CONCURRENT, NULL, 8);
}

/* Of each kind of row one at least. */
static void fill(struct fixture *f)
{
    struct answer a;
    struct reservation r;
    uint8_t hash[KEY_HASH] = {1, 2, 3};

    add_limits(f);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(ask(f, &a, &r), DECISION_ADMITTED);
        settle(f, &r, i < 3 ? SETTLE_USAGE : SETTLE_UNKNOWN, 50, 500 + i);
    }
    assert_int_equal(ask(f, &a, &r), DECISION_REFUSED);
    assert_int_equal(ledger_set_password(f->ledger, &f->policy, hash), ERROR_NONE);
}

static void day_of(void *arg, const struct history_day *d)
{
    *(struct history_day *)arg = *d;
}

static void the_other_store_decides_the_same(void **state)
{
    struct fixture *f = *state, *g = second(f);
    struct history_day was = {0}, is = {0};
    struct import_report report;
    uint8_t hash[KEY_HASH];
    struct answer a;
    struct reservation r;

    fill(f);
    char *text = export_text(f);
    assert_int_equal(import_text(g, text, &report), ERROR_NONE);
    assert_int_equal(report.under_way, 0);
    assert_false(report.paused || report.ahead);
    same_limits(f, g);
    open_ledger(g);
    assert_int_equal(used(g, 2), used(f, 2));
    assert_int_equal(ask(g, &a, &r), DECISION_REFUSED);
    assert_string_equal(a.limit, "per-day");
    set_address(&g->demand, 2);
    assert_int_equal(ask(g, &a, &r), DECISION_ADMITTED);
    assert_int_equal(ledger_password(g->ledger, hash), ERROR_NONE);
    assert_int_equal(hash[2], 3);
    assert_int_equal(ledger_history(f->ledger, &f->policy, 0, day_of, &was), ERROR_NONE);
    assert_int_equal(ledger_history(g->ledger, &g->policy, 0, day_of, &is), ERROR_NONE);
    assert_int_equal(is.admitted, was.admitted + 1);
    assert_int_equal(is.cost_nano, was.cost_nano);
    free(text);
    end_second(g);
}

/* The next line, its newline included. */
static size_t line_length(const char *text)
{
    return strcspn(text, "\n") + 1;
}

static void exported_again_it_is_the_same_but_for_the_time(void **state)
{
    struct fixture *f = *state, *g = second(f);
    struct import_report report;
    unsigned differ = 0;

    fill(f);
    char *text = export_text(f);
    assert_int_equal(import_text(g, text, &report), ERROR_NONE);
    open_ledger(g);
    char *again = export_text(g);
    assert_int_equal(strlen(again), strlen(text));
    for (const char *a = text, *b = again; *a != '\0';
         a += line_length(a), b += line_length(b)) {
        assert_int_equal(line_length(a), line_length(b));
        differ += memcmp(a, b, line_length(a)) != 0;
    }
    assert_true(differ <= 2); /* the state's row, and so the MAC */
    free(text);
    free(again);
    end_second(g);
}

static void it_goes_on_across_days_as_the_first_one(void **state)
{
    struct fixture *f = *state, *g = second(f);
    struct import_report report;
    struct answer a, b;
    struct reservation r;

    fill(f);
    char *text = export_text(f);
    assert_int_equal(import_text(g, text, &report), ERROR_NONE);
    same_limits(f, g);
    open_ledger(g);
    for (unsigned i = 0; i < 12; i++) {
        pass(7 * HOUR_MS);
        set_address(&f->demand, (uint8_t)(1 + i % 2));
        set_address(&g->demand, (uint8_t)(1 + i % 2));
        assert_int_equal(ask(f, &a, &r), ask(g, &b, &r));
        assert_int_equal(used(f, 2), used(g, 2));
    }
    free(text);
    end_second(g);
}

static void a_call_under_way_stays_charged(void **state)
{
    struct fixture *f = *state, *g = second(f);
    struct history_day day = {0};
    struct import_report report;
    struct answer a;
    struct reservation r;

    add_limits(f);
    same_limits(f, g);
    assert_int_equal(ask(f, &a, &r), DECISION_ADMITTED);
    char *text = export_text(f);
    assert_int_equal(import_text(g, text, &report), ERROR_NONE);
    assert_int_equal(report.under_way, 1);
    open_ledger(g);
    assert_int_equal(used(g, 2), 1000);
    settle(g, &r, SETTLE_NOTHING, 0, 0); /* by whoever held it: there is nothing to settle */
    assert_int_equal(used(g, 2), 1000);
    assert_int_equal(ledger_history(g->ledger, &g->policy, 0, day_of, &day), ERROR_NONE);
    assert_int_equal(day.admitted, 1);
    assert_int_equal(day.unknown, 1);
    assert_int_equal(day.given_back, 0);
    free(text);
    end_second(g);
}

static void pause_is_carried_and_kept(void **state)
{
    struct fixture *f = *state;
    struct import_report report;

    for (unsigned i = 0; i < 4; i++) {
        struct fixture *g = second(f);
        bool there = (i & 1) != 0, here = (i & 2) != 0;

        assert_int_equal(ledger_set_paused(f->ledger, &f->policy, there), ERROR_NONE);
        open_ledger(g);
        if (here)
            assert_int_equal(ledger_set_paused(g->ledger, &g->policy, true), ERROR_NONE);
        close_ledger(g);
        char *text = export_text(f);
        assert_int_equal(import_text(g, text, &report), ERROR_NONE);
        assert_int_equal(report.paused, there || here);
        free(text);
        end_second(g);
    }
}

static void a_store_that_has_counted_is_left_alone(void **state)
{
    struct fixture *f = *state, *g = second(f);
    struct import_report report;
    struct answer a;
    struct reservation r;

    char *empty = export_text(f);
    fill(f);
    char *text = export_text(f);
    assert_int_equal(import_text(f, empty, &report), ERROR_EXISTS);
    assert_int_equal(import_text(f, text, &report), ERROR_EXISTS);
    add_limits(g);
    open_ledger(g);
    assert_int_equal(ask(g, &a, &r), DECISION_ADMITTED);
    settle(g, &r, SETTLE_NOTHING, 0, 0); /* all given back: it has counted nevertheless */
    close_ledger(g);
    assert_int_equal(import_text(g, text, &report), ERROR_EXISTS);
    open_ledger(g);
    free(text);
    free(empty);
    end_second(g);
}

static void refusals_alone_make_a_store_one_that_has_counted(void **state)
{
    struct fixture *f = *state, *g = second(f);
    struct import_report report;

    char *text = export_text(f);
    open_ledger(g);
    ledger_figure(g->ledger, FIGURE_REFUSED);
    assert_int_equal(ledger_maintain(g->ledger, &g->policy), ERROR_NONE);
    close_ledger(g);
    assert_int_equal(import_text(g, text, &report), ERROR_EXISTS);
    free(text);
    end_second(g);
}

static void another_secret_is_named(void **state)
{
    struct fixture *f = *state, *g = second(f);
    struct import_report report;

    fill(f);
    char *text = export_text(f);
    g->options.secret[0] ^= 1; /* not the one of the store that is filled */
    assert_int_equal(import_text(g, text, &report), ERROR_STORE_SECRET);
    assert_int_equal(report.line, 0);
    remove_store(g);
    assert_int_equal(mkdir(g->dir, 0700), 0);
    assert_int_equal(ledger_create(&g->options, "UTC0"), ERROR_NONE);
    assert_int_equal(import_text(g, text, &report), ERROR_STORE_SECRET); /* nor of the text */
    assert_true(report.line > 1);
    free(text);
    end_second(g);
}

/* It opens, and has counted nothing: an import still goes into it. */
static void assert_untouched(struct fixture *g, const char *good)
{
    struct import_report report;

    open_ledger(g);
    char *text = export_text(g);
    assert_int_equal(strstr(text, "\"row\":\"history\"") == NULL, 1);
    free(text);
    close_ledger(g);
    assert_int_equal(import_text(g, good, &report), ERROR_NONE);
}

static void no_byte_can_be_changed(void **state)
{
    struct fixture *f = *state, *g = second(f);
    struct import_report report;

    fill(f);
    char *text = export_text(f);
    size_t n = strlen(text);
    for (size_t i = 0; i < n; i += 1 + i % 5) {
        char was = text[i];

        text[i] = (char)(i % 3 == 0 ? '0' : i % 3 == 1 ? was ^ 1 : 0);
        if (text[i] != was)
            assert_int_not_equal(import_bytes(g, text, n, &report), ERROR_NONE);
        text[i] = was;
    }
    assert_untouched(g, text);
    free(text);
    end_second(g);
}

static void nothing_can_be_left_out_added_or_moved(void **state)
{
    struct fixture *f = *state, *g = second(f);
    struct import_report report;
    static char other[TEXT_MAX];

    fill(f);
    char *text = export_text(f);
    size_t n = strlen(text);
    for (size_t i = 0; i < n; i += 1 + i % 7) /* cut */
        assert_int_equal(import_bytes(g, text, i, &report), ERROR_SYNTAX);
    for (const char *line = text; *line != '\0'; line += line_length(line)) {
        size_t before = (size_t)(line - text), length = line_length(line);

        snprintf(other, sizeof other, "%.*s%s", (int)before, text, line + length);
        assert_int_equal(import_text(g, other, &report), ERROR_SYNTAX); /* left out */
        snprintf(other, sizeof other, "%.*s%s", (int)(before + length), text, line);
        assert_int_equal(import_text(g, other, &report), ERROR_SYNTAX); /* twice */
    }
    snprintf(other, sizeof other, "%s\n", text);
    assert_int_equal(import_text(g, other, &report), ERROR_SYNTAX);
    snprintf(other, sizeof other, "\n%s", text);
    assert_int_equal(import_text(g, other, &report), ERROR_SYNTAX);
    assert_untouched(g, text);
    free(text);
    end_second(g);
}

/* A clock that was put back, as on a board without a battery: store time does not follow it. */
static void store_time_does_not_go_back(void **state)
{
    struct fixture *f = *state;
    struct import_report report;
    struct ledger_state s;
    struct answer a;
    struct reservation r;

    fill(f);
    char *text = export_text(f);
    fake_now.wall_ms -= 3 * DAY_MS;
    memset(fake_now.boot_id, 8, sizeof fake_now.boot_id);
    fake_now.boot_ms = 5000;
    struct fixture *g = second(f); /* with f's limits */
    assert_int_equal(import_text(g, text, &report), ERROR_NONE);
    assert_true(report.ahead);
    open_ledger(g);
    assert_int_equal(ledger_state(g->ledger, &g->policy, &s), ERROR_NONE);
    assert_true(s.store_ms >= START_MS);
    assert_int_equal(ask(g, &a, &r), DECISION_REFUSED);
    free(text);
    end_second(g);
}

/* One that is far ahead at the import, and is set right afterwards. */
static void a_clock_far_ahead_erases_nothing(void **state)
{
    struct fixture *f = *state;
    struct import_report report;

    fill(f);
    char *text = export_text(f);
    fake_now.wall_ms += 400 * DAY_MS;
    struct fixture *g = second(f);
    assert_int_equal(import_text(g, text, &report), ERROR_NONE);
    open_ledger(g);
    assert_int_equal(ledger_maintain(g->ledger, &g->policy), ERROR_NONE);
    char *again = export_text(g);
    assert_non_null(strstr(again, "\"row\":\"day\""));
    assert_non_null(strstr(again, "\"row\":\"counter\""));
    free(again);
    free(text);
    end_second(g);
}

static void a_store_too_small_for_it_stays_empty(void **state)
{
    struct fixture *f = *state;
    struct import_report report;
    struct answer a;
    struct reservation r;

    add_limits(f);
    for (unsigned i = 0; i < 300; i++) {
        set_address(&f->demand, (uint8_t)i);
        assert_int_equal(ask(f, &a, &r), DECISION_ADMITTED);
        ledger_release(f->ledger, &r);
    }
    char *text = NULL;
    size_t n;
    uint64_t rows;
    FILE *out = open_memstream(&text, &n);
    assert_int_equal(ledger_export(f->ledger, out, &rows), ERROR_NONE);
    fclose(out);
    size_t large = f->options.map_bytes;
    f->options.map_bytes = 64 << 10;
    struct fixture *g = second(f);
    assert_int_equal(import_text(g, text, &report), ERROR_STORE_FULL);
    g->options.map_bytes = large;
    assert_int_equal(import_text(g, text, &report), ERROR_NONE);
    assert_int_equal(report.under_way, 300);
    f->options.map_bytes = large;
    free(text);
    end_second(g);
}

static void copy_file(const struct fixture *from, const char *name, const struct fixture *to,
                      const char *as)
{
    char a[128], b[128], command[300];

    path_of(from, name, a);
    path_of(to, as, b);
    snprintf(command, sizeof command, "cp -p '%s' '%s'", a, b);
    assert_int_equal(system(command), 0);
}

/* What a machine that fails leaves: the period keys go before the rows, the mark behind them. */
static void half_an_import_is_refused_and_can_be_done_again(void **state)
{
    struct fixture *f = *state, *g = second(f);
    struct import_report report;
    struct ledger *l;

    fill(f);
    char *text = export_text(f);
    copy_file(f, "periods", g, "periods");
    assert_int_equal(ledger_open(&g->options, false, &l), ERROR_PERIODS);
    copy_file(g, "run/mark", g, "mark-before");
    assert_int_equal(import_text(g, text, &report), ERROR_NONE);
    copy_file(g, "mark-before", g, "run/mark");
    assert_int_equal(ledger_open(&g->options, false, &l), ERROR_STORE_REPLACED);
    assert_int_equal(ledger_open(&g->options, true, &g->ledger), ERROR_NONE);
    same_limits(f, g);
    assert_int_equal(used(g, 2), used(f, 2));
    free(text);
    end_second(g);
}

/* One that has the fresh store open all the while, and does not know of the import. */
static void who_holds_the_fresh_store_is_refused(void **state)
{
    struct fixture *f = *state, *g = second(f);
    struct import_report report;
    struct answer a;

    fill(f);
    char *text = export_text(f);
    close_ledger(f); /* and with it its thread, before the fork */
    same_limits(f, g);
    FILE *in = tmpfile();
    assert_true(in && fputs(text, in) >= 0);
    rewind(in);
    open_ledger(g);
    pid_t child = fork();
    if (child == 0) /* another process */
        _exit(ledger_import(&g->options, in, &report) == ERROR_NONE ? 0 : 1);
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_not_equal(ledger_check(g->ledger, &g->policy, &g->demand, &a), ERROR_NONE);
    pass(3 * DAY_MS); /* keys are to be advanced, but not by who has the wrong ones */
    assert_int_not_equal(ledger_maintain(g->ledger, &g->policy), ERROR_NONE);
    pass(-3 * DAY_MS);
    reopen(g);
    assert_int_equal(ledger_check(g->ledger, &g->policy, &g->demand, &a), ERROR_NONE);
    assert_int_equal(a.decision, DECISION_REFUSED);
    fclose(in);
    free(text);
    end_second(g);
}

/* Lines */

static void lines_that_are_none_of_ours(void **state)
{
    static const char *const lines[] = {
        "",
        "\n",
        "{}\n",
        "[]\n",
        "null\n",
        "{\"pennygate\":\"store\",\"format\":1}",
        "{\"pennygate\":\"store\",\"format\":1} \n",
        "{\"pennygate\":\"store\",\"format\":1}\r\n",
        "{\"format\":1,\"pennygate\":\"store\"}\n",
        "{\"pennygate\":\"store\"}\n",
        "{\"pennygate\":\"stare\",\"format\":1}\n",
        "{\"pennygate\":\"store\",\"format\":1.0}\n",
        "{\"pennygate\":\"store\",\"format\":\"1\"}\n",
        "{\"pennygate\":\"store\",\"format\":1,\"format\":1}\n",
        "{\"pennygate\":\"store\",\"format\":1,\"more\":1}\n",
        "{\"pennygate\":{\"pennygate\":\"store\"},\"format\":1}\n",
        "{\"rows\":-1,\"mac\":"
        "\"0000000000000000000000000000000000000000000000000000000000000000"
        "\"}\n",
        "{\"rows\":01,\"mac\":"
        "\"0000000000000000000000000000000000000000000000000000000000000000"
        "\"}\n",
        "{\"rows\":99999999999999999999,\"mac\":\"000000000000000000000000000000000000000000000"
        "0000000000000000000\"}\n",
        "{\"rows\":1,\"mac\":\"00\"}\n",
        "{\"row\":\"meta\",\"key\":\"\",\"value\":\"01\"}\n",
        "{\"row\":\"meta\",\"key\":\"01\",\"value\":\"0\"}\n",
        "{\"row\":\"meta\",\"key\":\"01\",\"value\":\"0G\"}\n",
        "{\"row\":\"meta\",\"key\":\"01\",\"value\":\"0A\"}\n",
        "{\"row\":\"meta\",\"key\":\"02\",\"value\":\"01\"}\n",
        "{\"row\":\"none\",\"key\":\"00\",\"value\":\"01\"}\n",
        "{\"row\":\"none\",\"key\":\"08\",\"value\":\"01\"}\n",
        "{\"row\":\"none\",\"key\":\"ff\",\"value\":\"01\"}\n",
        "{\"row\":\"meta\",\"key\":\"01\",\"value\":[\"01\"]}\n",
        "{\"window\":10,\"generation\":\"18446744073709551616\",\"period\":1,\"key\":"
        "\"0000000000000000000000000000000000000000000000000000000000000000\"}\n",
        "{\"window\":10,\"generation\":\"-1\",\"period\":1,\"key\":"
        "\"0000000000000000000000000000000000000000000000000000000000000000\"}\n",
        "{\"window\":0,\"generation\":\"1\",\"period\":1,\"key\":"
        "\"0000000000000000000000000000000000000000000000000000000000000000\"}\n",
        "{\"window\":4294967306,\"generation\":\"1\",\"period\":1,\"key\":"
        "\"0000000000000000000000000000000000000000000000000000000000000000\"}\n",
    };
    static const char newer[] = "{\"pennygate\":\"store\",\"format\":2}\n";
    struct export_line l;

    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (export_line_read(lines[i], strlen(lines[i]), &l) != ERROR_SYNTAX)
            fail_msg("taken: %s", lines[i]);
    assert_int_equal(export_line_read(newer, strlen(newer), &l), ERROR_STORE_VERSION);
}

static void the_largest_of_each_kind_come_back(void **state)
{
    static struct export_line l, back;
    static char text[EXPORT_LINE_MAX];
    size_t n;

    (void)state;
    l.kind = EXPORT_ROW;
    l.key.n = KV_KEY_MAX;
    memset(l.key.bytes, 0xff, sizeof l.key.bytes);
    l.key.bytes[0] = TABLE_RESERVATION;
    l.value.n = RECORD_MAX;
    memset(l.value.bytes, 0xab, sizeof l.value.bytes);
    n = export_line_write(&l, text);
    assert_true(n < EXPORT_LINE_MAX);
    assert_int_equal(export_line_read(text, n, &back), ERROR_NONE);
    assert_memory_equal(&back.value, &l.value, sizeof l.value);
    l.kind = EXPORT_WINDOW;
    l.window = (struct period_entry){.code = window_code((struct window){WINDOW_MONTH, 0}),
                                     .generation = UINT64_MAX,
                                     .period = INSTANT_MAX_MS};
    n = export_line_write(&l, text);
    assert_int_equal(export_line_read(text, n, &back), ERROR_NONE);
    assert_true(back.window.generation == UINT64_MAX && back.window.period == INSTANT_MAX_MS);
    l.kind = EXPORT_END;
    l.rows = INT64_MAX;
    n = export_line_write(&l, text);
    assert_int_equal(export_line_read(text, n, &back), ERROR_NONE);
    assert_true(back.rows == INT64_MAX);
}

#define WITH_STORE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(the_other_store_decides_the_same),
        WITH_STORE(exported_again_it_is_the_same_but_for_the_time),
        WITH_STORE(it_goes_on_across_days_as_the_first_one),
        WITH_STORE(a_call_under_way_stays_charged),
        WITH_STORE(pause_is_carried_and_kept),
        WITH_STORE(a_store_that_has_counted_is_left_alone),
        WITH_STORE(refusals_alone_make_a_store_one_that_has_counted),
        WITH_STORE(another_secret_is_named),
        WITH_STORE(no_byte_can_be_changed),
        WITH_STORE(nothing_can_be_left_out_added_or_moved),
        WITH_STORE(store_time_does_not_go_back),
        WITH_STORE(a_clock_far_ahead_erases_nothing),
        WITH_STORE(a_store_too_small_for_it_stays_empty),
        WITH_STORE(half_an_import_is_refused_and_can_be_done_again),
        WITH_STORE(who_holds_the_fresh_store_is_refused),
        cmocka_unit_test(lines_that_are_none_of_ours),
        cmocka_unit_test(the_largest_of_each_kind_come_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
