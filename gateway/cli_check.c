/*
 * check: everything the configuration says, in words, what it can cost, what is wrong with it,
 * and how the store is. One screen of 80 columns; the exit status is for scripts. Keys, secrets
 * and prompts are named by their files and never shown.
 */
#include <grp.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "gateway/cli.h"
#include "gateway/config_value.h"
#include "platform/mac.h"

#define COLUMNS  80
#define INDENT   11
#define TEXT_MAX 512 /* longest: a path of 100 bytes and some advice */

struct check {
    const struct config *config;
    unsigned faults, refusing; /* of which so many make each request a 503 */
};

/* Writes words in lines that do not pass the last column, indented behind a head. */
static void wrapped(const char *head, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void wrapped(const char *head, const char *format, ...)
{
    char line[TEXT_MAX];
    const char *text = line;
    size_t column = INDENT;
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    printf("%-*s", INDENT, head);
    while (*text != '\0') {
        size_t n = strcspn(text, " ");

        if (column > INDENT && column + 1 + n > COLUMNS) {
            printf("\n%*s", INDENT, "");
            column = INDENT;
        }
        printf("%s%.*s", column > INDENT ? " " : "", (int)n, text);
        column += n + (column > INDENT);
        text += n + (text[n] == ' ');
    }
    printf("\n");
}

static void fault(void *arg, const char *line)
{
    struct check *k = arg;

    k->faults++;
    k->refusing++;
    wrapped("FAULT", "%s", line);
}

/* ---- options ---- */

/* Writes words separated by two blanks, in lines that do not pass the last column. */
static void flow(size_t *column, const char *key, const char *value)
{
    size_t n = strlen(key) + strlen(value) + 3;

    if (*column > INDENT && *column + 2 + n > COLUMNS) {
        printf("\n%*s", INDENT, "");
        *column = INDENT;
    } else if (*column > INDENT) {
        printf("  ");
        *column += 2;
    }
    printf("%s = %s", key, value);
    *column += n;
}

static void show_section(enum config_section section, const char *title, const void *base)
{
    char head[LEDGER_MODEL_MAX + 16], value[CONFIG_VALUE_MAX];
    size_t column = INDENT;

    snprintf(head, sizeof head, "%s%s%s", config_section_names[section], title[0] ? " " : "",
             title);
    printf("%-*s", INDENT, head);
    if (strlen(head) >= INDENT)
        printf("\n%*s", INDENT, "");
    for (unsigned i = 0; i < config_options_n; i++) {
        const struct option *o = &config_options[i];

        if (o->section == section && config_value_text(o, base, value)[0] != '\0')
            flow(&column, o->key, value);
    }
    printf("\n");
}

/* ---- limits in words ---- */

static const char *const whose[SUBJECTS] = {
    [SUBJECT_ADDRESS] = "each address",         [SUBJECT_VISITOR] = "each visitor",
    [SUBJECT_ACCOUNT] = "each account",         [SUBJECT_KEY] = "each key",
    [SUBJECT_ANONYMOUS] = "anonymous together", [SUBJECT_EVERYONE] = "everyone together"};

static void how_much(const struct limit *l, char out[64])
{
    static const char *const things[] = {[UNIT_CALLS] = " calls",
                                         [UNIT_TOKENS] = " tokens",
                                         [UNIT_COST] = "",
                                         [UNIT_CONCURRENT] = " at once"};
    char value[CONFIG_VALUE_MAX];

    config_value_text(config_option(SECTION_LIMIT, "max"), l, value);
    snprintf(out, 64, "%.40s%s", value,
             l->max == 1 && l->unit == UNIT_CALLS ? " call" : things[l->unit]);
}

static void how_long(const struct config *c, const struct limit *l, char out[64])
{
    char value[CONFIG_VALUE_MAX];

    config_value_text(config_option(SECTION_LIMIT, "window"), l, value);
    if (l->unit == UNIT_CONCURRENT)
        out[0] = '\0';
    else if (l->window.kind == WINDOW_SLIDING)
        snprintf(out, 64, "in any %.40s", value);
    else
        snprintf(out, 64, "in a %s%.40s",
                 c->local_time && l->window.kind != WINDOW_HOUR ? "local " : "UTC ", value);
}

static void show_limits(const struct config *c)
{
    for (unsigned i = 0; i < c->n_limits; i++) {
        const struct limit *l = &c->limits[i];
        char much[64], when[64];

        how_much(l, much);
        how_long(c, l, when);
        printf("%-*s%-17s %-16s %-15s %s\n", INDENT, i == 0 ? "limits" : "", l->name, much,
               when, whose[l->subject]);
    }
}

/* ---- what it can cost ---- */

static void show_costs(const struct config *c)
{
    uint64_t day = config_day_nano(c);
    char text[PRICE_TEXT_MAX], less[PRICE_TEXT_MAX], cost[2 * PRICE_TEXT_MAX + 8];

    for (unsigned i = 0; i < c->n_models; i++) {
        const struct config_model *m = &c->models[i];
        struct amounts least, most;

        config_smallest(m, &least);
        config_largest(c, m, &most);
        snprintf(cost, sizeof cost, ", %s to %s", price_format(least.of[UNIT_COST], less),
                 price_format(most.of[UNIT_COST], text));
        wrapped(i == 0 ? "costs" : "",
                "a request to %s reserves %" PRIu64 " to %" PRIu64 " tokens%s", m->alias,
                least.of[UNIT_TOKENS], most.of[UNIT_TOKENS],
                m->price.known ? cost : "; its price is not known");
    }
    if (day != UINT64_MAX)
        wrapped("", "at most %s a day can be spent, by the limits for everyone",
                price_format(day, text));
    else
        wrapped("", "no limit tells what a day can cost");
}

/* ---- notes: right, but perhaps not meant ---- */

static bool is_local(const char *url)
{
    return strncmp(url, "http://127.", 11) == 0 || strncmp(url, "http://[::1]", 12) == 0 ||
           strncmp(url, "http://localhost", 16) == 0;
}

static void show_notes(const struct config *c)
{
    for (unsigned i = 0; i < c->n_limits; i++) {
        if (c->limits[i].max == 0)
            wrapped("note", "limit %s admits nothing", c->limits[i].name);
    }
    for (unsigned i = 0; i < c->n_models; i++) {
        const struct config_model *m = &c->models[i];

        if (m->key_file != NULL && strncmp(m->url, "http://", 7) == 0 && !is_local(m->url))
            wrapped("note", "model %s: its key is sent over plain http", m->alias);
    }
    if (c->max_message_chars > c->max_input_chars)
        wrapped("note", "max-message-chars is above max-input-chars, which also holds for the "
                        "newest message");
}

/* ---- the store ---- */

static void show_overheads(const struct config *c, struct ledger *l)
{
    for (unsigned i = 0; i < c->n_models; i++) {
        struct ledger_model m;

        if (ledger_model(l, c->models[i].alias, &m) == ERROR_NONE && m.overhead > 0)
            printf("%*smodel %s: %" PRIu64 " further input tokens a call were learnt\n", INDENT,
                   "", c->models[i].alias, m.overhead);
    }
}

static enum error show_state(const struct config *c, struct ledger *l)
{
    struct policy p = config_policy(c, false);
    struct ledger_state s;
    char text[CONFIG_VALUE_MAX];
    enum error e = ledger_state(l, &p, &s);

    if (e != ERROR_NONE)
        return e;
    printf("%-*s%" PRIu64 " of %" PRIu64 " KiB in use, zone %s, %" PRIu64 " open stream%s%s\n",
           INDENT, "store", s.usage.used_bytes / 1024, s.usage.map_bytes / 1024, s.zone,
           s.open_streams, s.open_streams == 1 ? "" : "s", s.paused ? ", paused" : "");
    if (s.usage.used_bytes - s.usage.free_bytes > s.usage.map_bytes / 4 * 3)
        wrapped("note", "the store is more than three quarters full: raise store-size");
    if (s.store_ms > s.clock_ms + 1000)
        printf("%*sits time is %s ahead of the clock (see pennygate clock)\n", INDENT, "",
               config_value_duration((uint64_t)(s.store_ms - s.clock_ms) / 1000 * 1000, text));
    show_overheads(c, l);
    return ERROR_NONE;
}

static void check_store(struct check *k)
{
    const struct config *c = k->config;
    struct ledger_options o;
    struct ledger *l;
    struct owner owner;
    char line[TEXT_MAX];
    const char *where = c->secret_file;
    enum error e;

    if (owner_of(c->store, &owner) != ERROR_NONE) {
        snprintf(line, sizeof line, "there is no store at %.100s: pennygate init makes it",
                 c->store);
        fault(k, line);
        return;
    }
    e = ledger_look(c->store);
    if (e != ERROR_NONE)
        where = c->store;
    else
        e = cli_ledger_options(c, &o);
    if (e == ERROR_NONE) {
        where = c->store;
        e = ledger_open(&o, false, &l);
    }
    if (e == ERROR_NONE)
        e = show_state(c, l);
    mac_wipe(o.secret, sizeof o.secret);
    if (e == ERROR_NONE)
        return;
    snprintf(line, sizeof line, "store: %.100s: %s%s", where, error_text(e), cli_advice(e));
    fault(k, line);
}

/* Nothing but serve needs the group, and no request must wait for its look-up. */
static void check_group(struct check *k)
{
    const char *group = k->config->socket_group;

    if (group == NULL || getgrnam(group) != NULL) /* cppcheck-suppress getgrnamCalled */
        return;
    k->faults++;
    wrapped("FAULT", "socket-group %s: no such group: serve will not start", group);
}

int cli_check(struct cli *cli)
{
    struct check k = {0};
    struct config *c;
    struct owner o;
    int status = cli_load(cli, &c);

    /* Without a store there is no owner to become, and everything else can still be told. */
    if (status == CLI_OK && owner_of(c->store, &o) != ERROR_NOT_FOUND)
        status = cli_become_owner(cli, &c);
    if (status != CLI_OK)
        return status;
    k.config = c;
    printf("%s\n\n", cli->config);
    for (enum config_section s = 0; s < SECTIONS; s++) {
        if (s == SECTION_LIMIT)
            show_limits(c);
        else if (!config_section_titled(s))
            show_section(s, "", c);
        for (unsigned i = 0; s == SECTION_MODEL && i < c->n_models; i++)
            show_section(s, c->models[i].alias, &c->models[i]);
    }
    show_costs(c);
    check_store(&k);
    show_notes(c);
    config_faults(c, fault, &k);
    check_group(&k);
    printf("\n%u fault%s%s\n", k.faults, k.faults == 1 ? "" : "s",
           k.refusing > 0 ? ": every request is answered with 503" : "");
    return k.faults > 0 ? CLI_FAILED : CLI_OK;
}
