/*
 * transcripts: what was asked and answered, for the owner. Security: the texts are strangers';
 * whatever in them a terminal could obey, or a reader could be led astray by, is shown as an
 * escape, and JSON is valid whatever they hold.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/cli.h"
#include "gateway/lines.h"
#include "gateway/progress.h"
#include "gateway/report.h"
#include "platform/clock.h"
#include "store/archive.h"

#define WAIT_MS    10000 /* for the gateways, which hold it for milliseconds */
#define LINE_WIDTH 80
#define MS_OF_DAY  ((int64_t)86400000)

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- texts ---- */

/* The next character of text[0..n), n > 0: how many bytes it has, and the code point or -1 for
 * a byte that is none of UTF-8. */
static size_t next_character(const char *text, size_t n, int32_t *point)
{
    static const int32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *p = (const unsigned char *)text;
    size_t length = p[0] < 0x80 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    int32_t c = length == 1 ? p[0] : p[0] & (0xff >> (length + 1));

    *point = -1;
    if ((p[0] >= 0x80 && p[0] < 0xc0) || p[0] > 0xf4 || length > n)
        return 1;
    for (size_t i = 1; i < length; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 1;
        c = c << 6 | (p[i] & 0x3f);
    }
    if (c < smallest[length] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return 1;
    *point = c;
    return length;
}

/* What a terminal obeys, and what turns the order of writing or breaks the line unseen. */
static const struct {
    int32_t first, last;
} obeyed[] = {{0, 0x1f},        {0x7f, 0x9f},     {0x61c, 0x61c},   {0x200b, 0x200f},
              {0x2028, 0x202e}, {0x2066, 0x2069}, {0xfeff, 0xfeff}, {0xe0000, 0xe007f}};

static bool is_obeyed(int32_t c)
{
    for (size_t i = 0; i < COUNT(obeyed); i++) {
        if (c >= obeyed[i].first && c <= obeyed[i].last)
            return true;
    }
    return false;
}

#define SHOWN_MAX 16
/* A character as a terminal may have it: itself or an escape; returns its columns at most. */
static unsigned show_character(const char *at, size_t n, int32_t c, char out[SHOWN_MAX])
{
    if (c == '\n' || c == '\t' || c == '\\')
        snprintf(out, SHOWN_MAX, "\\%c", c == '\n' ? 'n' : c == '\t' ? 't' : '\\');
    else if (c < 0 || (is_obeyed(c) && c < 0x100))
        snprintf(out, SHOWN_MAX, "\\x%02x", c < 0 ? (unsigned char)at[0] : (unsigned)c);
    else if (is_obeyed(c))
        snprintf(out, SHOWN_MAX, "\\u{%x}", (unsigned)c);
    else {
        snprintf(out, SHOWN_MAX, "%.*s", (int)n, at);
        return c >= 0x1100 ? 2 : 1; /* from there on some are two wide */
    }
    return (unsigned)strlen(out);
}

/* The text's start in so many columns, on one line. */
static void print_start(const struct transcript_text *t, unsigned columns)
{
    char shown[SHOWN_MAX];
    size_t n;
    int32_t c;

    for (size_t i = 0; i < t->n; i += n) {
        n = next_character(t->at + i, t->n - i, &c);
        unsigned wide = show_character(t->at + i, n, c, shown);

        if (wide > columns)
            break;
        columns -= wide;
        fputs(shown, stdout);
    }
    putchar('\n');
}

/* The whole text, its lines indented. */
static void print_text(const struct transcript_text *t)
{
    char shown[SHOWN_MAX];
    size_t n;
    int32_t c;

    fputs("    ", stdout);
    for (size_t i = 0; i < t->n; i += n) {
        n = next_character(t->at + i, t->n - i, &c);
        show_character(t->at + i, n, c, shown);
        fputs(c == '\n' ? "\n    " : c == '\\' ? "\\" : shown, stdout);
    }
    putchar('\n');
}

static void json_text(const struct transcript_text *t)
{
    size_t n;
    int32_t c;

    putchar('"');
    for (size_t i = 0; i < t->n; i += n) {
        n = next_character(t->at + i, t->n - i, &c);
        if (c < 0)
            fputs("\\ufffd", stdout);
        else if (c == '"' || c == '\\')
            printf("\\%c", (int)c);
        else if (is_obeyed(c) && c < 0x10000)
            printf("\\u%04x", (unsigned)c);
        else
            fwrite(t->at + i, 1, n, stdout);
    }
    putchar('"');
}

static void json_word(const char *name, const char *word)
{
    printf(", \"%s\": ", name);
    json_text(&(struct transcript_text){word, strlen(word)});
}

/* ---- times ---- */

/* The start of a day, UTC, of "YYYY-MM-DD"; by trying them all, which report_date knows. */
static bool parse_date(const char *text, int64_t *ms)
{
    char date[REPORT_DATE_MAX];

    for (int64_t day = 0; day < 100 * 366; day++) {
        if (strcmp(report_date(day, date), text) == 0) {
            *ms = day * MS_OF_DAY;
            return true;
        }
    }
    return false;
}

/* ---- outputs: each is given one transcript ---- */

static const char *const roles[TRANSCRIPT_ROLES] = {"user", "assistant"};

static const struct transcript_text *newest(const struct transcript *t)
{
    static const struct transcript_text nothing = {"", 0};

    return t->n_messages > 0 ? &t->messages[t->n_messages - 1].text : &nothing;
}

/* Two lines of 80 columns; three with a long address. */
static void list_one(const struct transcript_key *k, const struct transcript *t)
{
    char when[REPORT_TIME_MAX], head[LINE_WIDTH + 1];
    int n;

    n = snprintf(head, sizeof head, "%s  %s  %s", report_moment(k->time_ms / 1000, when), t->id,
                 t->subject);
    printf("%s  %s%s%s\n", when, t->id, n > LINE_WIDTH ? "\n    " : "  ", t->subject);
    n = snprintf(head, sizeof head, "    %s %s %" PRIu64 "+%" PRIu64 "  ", t->model, t->result,
                 t->tokens_in, t->tokens_out);
    fputs(head, stdout);
    print_start(newest(t), n < LINE_WIDTH ? LINE_WIDTH - (unsigned)n : 0);
}

static void show_one(const struct transcript_key *k, const struct transcript *t)
{
    char when[REPORT_TIME_MAX];

    printf("id       %s\ntime     %s UTC\nsubject  %s\nmodel    %s\nresult   %s\n"
           "tokens   %" PRIu64 " in, %" PRIu64 " out\n",
           t->id, report_moment(k->time_ms / 1000, when), t->subject, t->model, t->result,
           t->tokens_in, t->tokens_out);
    if (t->cut)
        printf("cut      it was longer than what is kept\n");
    for (unsigned i = 0; i < t->n_messages; i++) {
        printf("\n%s:\n", roles[t->messages[i].role]);
        print_text(&t->messages[i].text);
    }
    printf("\nanswer:\n");
    print_text(&t->answer);
}

static void json_one(const struct transcript_key *k, const struct transcript *t)
{
    char when[REPORT_TIME_MAX];

    printf("{\"time\": \"%s\", \"time_ms\": %" PRId64, report_time(k->time_ms / 1000, when),
           k->time_ms);
    json_word("id", t->id);
    json_word("subject", t->subject);
    json_word("model", t->model);
    json_word("result", t->result);
    printf(", \"tokens_in\": %" PRIu64 ", \"tokens_out\": %" PRIu64
           ", \"cut\": %s, \"messages\": [",
           t->tokens_in, t->tokens_out, t->cut ? "true" : "false");
    for (unsigned i = 0; i < t->n_messages; i++) {
        printf("%s{\"role\": \"%s\", \"content\": ", i > 0 ? ", " : "",
               roles[t->messages[i].role]);
        json_text(&t->messages[i].text);
        putchar('}');
    }
    printf("], \"answer\": ");
    json_text(&t->answer);
    printf("}\n");
}

/* ---- walking ---- */

typedef void output(const struct transcript_key *k, const struct transcript *t);

struct selection {
    const char *id;  /* or NULL: any */
    int64_t from_ms; /* not older */
};

static enum error open_archive(const struct config *c, bool trusting, struct archive **out)
{
    const struct archive_options o = {
        .store = c->store,
        .map_bytes = c->transcripts_size,
        .keep_ms = c->transcripts_keep_ms,
        .trusting = trusting,
        .clock = clock_read,
    };

    return archive_new(&o, out);
}

static int failed(const struct config *c, enum error e)
{
    const char *advice = cli_advice(e);

    if (e == ERROR_STORE_INVALID || e == ERROR_STORE_BROKEN)
        advice = "; pennygate transcripts erase --all makes it anew";
    else if (e == ERROR_BUSY)
        advice = "; another process holds it: try again";
    return cli_fail("%s/transcripts: %s%s", c->store, error_text(e), advice);
}

static enum error walk(struct archive *a, const struct selection *s, output *print, unsigned *n)
{
    struct transcript_key key = archive_first;
    enum error e;
    uint8_t *row;
    size_t size;
    uint32_t looked_at = 0;

    *n = 0;
    if (s->from_ms > 0)
        key = (struct transcript_key){s->from_ms - 1, UINT32_MAX};
    while ((e = archive_next(a, &key, &row, &size, WAIT_MS)) == ERROR_NONE) {
        struct transcript t;

        e = transcript_decode(&(struct kv_slice){row, size}, &t);
        if (e == ERROR_NONE && (s->id == NULL || strcmp(s->id, t.id) == 0)) {
            print(&key, &t);
            ++*n;
        }
        if (e == ERROR_NONE)
            transcript_free(&t);
        free(row);
        progress_count(++looked_at);
        if (e != ERROR_NONE)
            return e;
    }
    return e == ERROR_NOT_FOUND || e == ERROR_STORE_MISSING ? ERROR_NONE : e;
}

/* Hands the selected ones to `print`, the oldest first. *n: how many. On a terminal they are
 * their own progress. */
static enum error each(struct archive *a, const struct selection *s, output *print, unsigned *n)
{
    enum error e;

    if (!lines_terminal(stdout))
        progress_begin("reading transcripts");
    e = walk(a, s, print, n);
    progress_end();
    return e;
}

/* ---- the four things to do ---- */

struct task {
    const struct cli *cli;
    const struct config *config;
    struct archive *archive;
};

static int do_list(struct task *t)
{
    struct selection s = {0};
    struct clock_now now;
    int64_t days;
    unsigned n;
    enum error e;

    if (t->cli->days != NULL) {
        if (!cli_days(t->cli->days, &days)) {
            cli_fail("transcripts list takes --days 1 to %d", CLI_DAYS_MAX);
            return CLI_USAGE;
        }
        e = clock_read(&now);
        if (e != ERROR_NONE)
            return failed(t->config, e);
        s.from_ms = now.wall_ms - days * MS_OF_DAY;
    }
    e = each(t->archive, &s, t->cli->json ? json_one : list_one, &n);
    return e == ERROR_NONE ? CLI_OK : failed(t->config, e);
}

static int do_show(struct task *t)
{
    struct selection s = {.id = t->cli->words[1]};
    unsigned n;
    enum error e = each(t->archive, &s, t->cli->json ? json_one : show_one, &n);

    if (e != ERROR_NONE)
        return failed(t->config, e);
    return n > 0 ? CLI_OK : cli_fail("there is no transcript %s", s.id);
}

static int do_export(struct task *t)
{
    const struct selection all = {0};
    unsigned n;
    enum error e = each(t->archive, &all, json_one, &n);

    return e == ERROR_NONE ? CLI_OK : failed(t->config, e);
}

struct wanted {
    const char *id, *subject; /* or NULL */
    int64_t before_ms;
    uint32_t looked_at;
};

static bool is_wanted(void *arg, const struct transcript_key *k, const struct transcript *t)
{
    struct wanted *w = arg;

    progress_count(++w->looked_at);
    if (w->id != NULL)
        return strcmp(w->id, t->id) == 0;
    if (w->subject != NULL)
        return strcmp(w->subject, t->subject) == 0;
    return k->time_ms < w->before_ms;
}

static int erase_all(struct task *t)
{
    enum error e;

    progress_begin("erasing transcripts");
    e = archive_erase_all(t->archive, WAIT_MS);
    progress_end();
    if (e != ERROR_NONE && e != ERROR_STORE_MISSING)
        return failed(t->config, e);
    printf("erased all transcripts\n");
    return CLI_OK;
}

static int do_erase(struct task *t)
{
    const struct cli *cli = t->cli;
    struct wanted w = {.id = cli->words[1], .subject = cli->subject};
    unsigned n = 0;
    enum error e;

    if ((w.id != NULL) + (w.subject != NULL) + (cli->before != NULL) + cli->all != 1) {
        cli_fail("transcripts erase takes one of ID, --subject, --before and --all");
        return CLI_USAGE;
    }
    if (cli->before != NULL && !parse_date(cli->before, &w.before_ms)) {
        cli_fail("--before takes a date, YYYY-MM-DD");
        return CLI_USAGE;
    }
    if (cli->all)
        return erase_all(t);
    progress_begin("erasing transcripts");
    e = archive_erase(t->archive, is_wanted, &w, WAIT_MS, &n);
    progress_end();
    if (e != ERROR_NONE && e != ERROR_STORE_MISSING)
        return failed(t->config, e);
    if (n == 0 && w.id != NULL)
        return cli_fail("there is no transcript %s", w.id);
    printf("erased %u transcript%s\n", n, n == 1 ? "" : "s");
    return CLI_OK;
}

static const struct {
    const char *name;
    bool needs_id, may_id, may_json, may_days, may_choose;
    int (*run)(struct task *t);
} tasks[] = {
    {"list", .may_json = true, .may_days = true, .run = do_list},
    {"show", .needs_id = true, .may_id = true, .may_json = true, .run = do_show},
    {"export", .run = do_export},
    {"erase", .may_id = true, .may_choose = true, .run = do_erase},
};

static size_t find_task(const struct cli *cli)
{
    size_t i = 0;

    while (i < COUNT(tasks) && (cli->n_words == 0 || strcmp(tasks[i].name, cli->words[0]) != 0))
        i++;
    return i;
}

/* Whether the words and flags go together. */
static bool is_understood(const struct cli *cli, size_t i)
{
    bool chosen = cli->subject != NULL || cli->before != NULL || cli->all;

    return i < COUNT(tasks) && (cli->n_words == 2 || !tasks[i].needs_id) &&
           (cli->n_words == 1 || tasks[i].may_id) && (!cli->json || tasks[i].may_json) &&
           (cli->days == NULL || tasks[i].may_days) && (!chosen || tasks[i].may_choose);
}

int cli_transcripts(struct cli *cli)
{
    size_t i = find_task(cli);
    struct task t = {.cli = cli};
    struct config *c;
    enum error e;
    int status;

    if (!is_understood(cli, i)) {
        cli_fail("transcripts list [--days N] [--json], show ID [--json], export, "
                 "erase ID | --subject NAME | --before DATE | --all");
        return CLI_USAGE;
    }
    status = cli_load(cli, &c);
    if (status == CLI_OK)
        status = cli_become_owner(cli, &c);
    if (status != CLI_OK)
        return status;
    t.config = c;
    e = open_archive(c, false, &t.archive);
    return e == ERROR_NONE ? tasks[i].run(&t) : failed(c, e);
}

/* Each minute a process: not each of them walks. */
int cli_expire_transcripts(const struct config *c)
{
    struct archive *a = NULL;
    enum error e = open_archive(c, true, &a);

    if (e == ERROR_NONE)
        e = archive_expire(a, WAIT_MS);
    return e == ERROR_NONE || e == ERROR_STORE_MISSING ? CLI_OK : failed(c, e);
}
