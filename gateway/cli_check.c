/*
 * check: everything the configuration says, in words, what it can cost, what is wrong with it,
 * and how the store is. One screen of 80 columns; the exit status is for scripts. Keys, secrets
 * and prompts are named by their files and never shown, nor is the path of the alerts' url.
 */
#include <grp.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "gateway/cli.h"
#include "gateway/config_list.h"
#include "gateway/config_value.h"
#include "gateway/lines.h"
#include "gateway/progress.h"
#include "platform/mac.h"

#define INDENT       CLI_INDENT
#define PASSWORDLESS "no password is made (see pennygate dashboard-password)"
#define TEXT_MAX     512 /* longest: a path of 100 bytes and some advice */

struct check {
    const struct config *config;
    unsigned faults, refusing; /* of which so many make each request a 503 */
};

static void fault(void *arg, const char *line)
{
    struct check *k = arg;

    k->faults++;
    k->refusing++;
    cli_wrap("FAULT", "%s", line);
}

static void note(void *unused, const char *line)
{
    (void)unused;
    cli_wrap("note", "%s", line);
}

/* ---- options ---- */

/* Writes words separated by blanks, in lines that do not pass the last column. */
static void flow(size_t *column, size_t blanks, const char *key, const char *value,
                 const char *end)
{
    size_t n = strlen(key) + strlen(value) + strlen(end);

    if (*column > INDENT && *column + blanks + n > LINES_COLUMNS) {
        printf("\n%*s", INDENT, "");
        *column = INDENT;
    } else if (*column > INDENT) {
        printf("%*s", (int)blanks, "");
        *column += blanks;
    }
    printf("%s%s%s", key, value, end);
    *column += n;
}

/* A price that is not written is not 0. */
static bool is_unpriced(const struct option *o, const void *base)
{
    return o->section == SECTION_MODEL && o->kind == OPTION_MONEY && o->fallback == NULL &&
           !((const struct config_model *)base)->price.known;
}

static void show_option(const struct option *o, const void *base, size_t *column)
{
    unsigned entries = config_option_lists(o) ? config_list_entries(o, base) : 0;
    char key[64], value[CONFIG_VALUE_MAX];

    snprintf(key, sizeof key, "%s = %s", o->key, entries > 0 ? "{" : "");
    for (unsigned i = 0; i < entries; i++)
        flow(column, i == 0 ? 2 : 1, i == 0 ? key : "", config_list_entry(o, base, i, value),
             i + 1 < entries ? "," : "}");
    if (is_unpriced(o, base))
        flow(column, 2, key, "unknown", "");
    else if (entries == 0 && config_value_text(o, base, value)[0] != '\0')
        flow(column, 2, key, value, "");
}

static void show_section(enum config_section section, const char *title, const void *base)
{
    char head[LEDGER_MODEL_MAX + 16];
    size_t column = INDENT;

    snprintf(head, sizeof head, "%s%s%s", config_section_names[section], title[0] ? " " : "",
             title);
    printf("%-*s", INDENT, head);
    if (strlen(head) >= INDENT)
        printf("\n%*s", INDENT, "");
    for (unsigned i = 0; i < config_options_n; i++) {
        const struct option *o = &config_options[i];

        if (o->section == section)
            show_option(o, base, &column);
    }
    printf("\n");
}

/* What stands in place of a section's options as long as something is missing from it; NULL:
 * nothing is. */
static const char *why_off(const struct config *c, enum config_section s)
{
    if (s == SECTION_BYPASS && c->bypass_secret == NULL)
        return "off, without a secret";
    if (s == SECTION_ALERTS && c->alert_url == NULL)
        return "none is posted, without a url";
    if (s == SECTION_TRANSCRIPTS && SMALL)
        return "not in this program, which was made small (SMALL=1)";
    if (s == SECTION_TRANSCRIPTS && !c->transcripts)
        return "off, without keep = yes";
    if (s == SECTION_DASHBOARD && !PAGES)
        return "not in this program, which was made without pages (PAGES=0): nor are chat "
               "page, widget and metrics";
    if (s == SECTION_DASHBOARD && c->n_dashboard_accounts == 0)
        return "no account is listed";
    return NULL;
}

static void show_untitled(const struct config *c, enum config_section s)
{
    if (why_off(c, s) != NULL)
        cli_wrap(config_section_names[s], "%s", why_off(c, s));
    else
        show_section(s, "", c);
}

/* ---- limits in words ---- */

static const char *const whose[SUBJECTS] = {
    [SUBJECT_ADDRESS] = "each address",    [SUBJECT_VISITOR] = "each visitor",
    [SUBJECT_ACCOUNT] = "each account",    [SUBJECT_KEY] = "each key",
    [SUBJECT_ANONYMOUS] = "all anonymous", [SUBJECT_EVERYONE] = "everyone together",
    [SUBJECT_BYPASS] = "with the secret"};

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
        const char *head = i == 0 ? "limits" : "";
        char much[64], when[64], window[CONFIG_VALUE_MAX], row[TEXT_MAX];

        how_much(l, much);
        how_long(c, l, when);
        if (snprintf(row, sizeof row, "%-*s%-17s %-16s %-15s %s", INDENT, head, l->name, much,
                     when, whose[l->subject]) <= LINES_COLUMNS)
            printf("%s\n", row);
        else
            cli_wrap(head, "%s: %s%s%s, %s", l->name, much, when[0] != '\0' ? " " : "", when,
                     whose[l->subject]);
        if (l->pace)
            printf("%*s%-17s released evenly over the %s\n", INDENT, "", "",
                   config_value_text(config_option(SECTION_LIMIT, "window"), l, window));
        if (l->dry_run)
            printf("%*s%-17s dry-run: only counts what it would refuse\n", INDENT, "", "");
    }
}

/* ---- what it can cost ---- */

static void show_costs(const struct config *c)
{
    uint64_t day = config_day_nano(c), bypass = config_bypass_day_nano(c);
    char text[PRICE_TEXT_MAX], less[PRICE_TEXT_MAX], cost[2 * PRICE_TEXT_MAX + 8];

    for (unsigned i = 0; i < c->n_models; i++) {
        const struct config_model *m = &c->models[i];
        struct amounts least, most;

        config_smallest(m, &least);
        config_largest(c, m, &most);
        snprintf(cost, sizeof cost, ", %s to %s", price_format(least.of[UNIT_COST], less),
                 price_format(most.of[UNIT_COST], text));
        cli_wrap(i == 0 ? "costs" : "",
                 "a request to %s reserves %" PRIu64 " to %" PRIu64 " tokens%s", m->alias,
                 least.of[UNIT_TOKENS], most.of[UNIT_TOKENS],
                 m->price.known ? cost : "; its price is not known");
    }
    if (day != UINT64_MAX)
        cli_wrap("", "at most %s a day can be spent, by the limits for everyone",
                 price_format(day, text));
    else
        cli_wrap("", "no limit tells what a day can cost");
    if (bypass == UINT64_MAX)
        cli_wrap("", "no limit tells what calls with the bypass secret can cost");
    else if (bypass > 0)
        cli_wrap("", "at most %s more a day by calls with the bypass secret",
                 price_format(bypass, text));
}

/* ---- the store ---- */

static void show_learnt(const struct config *c, struct ledger *l)
{
    char wait[CONFIG_VALUE_MAX];

    for (unsigned i = 0; i < c->n_models; i++) {
        const char *alias = c->models[i].alias;
        struct ledger_model m;

        if (ledger_model(l, alias, &m) != ERROR_NONE)
            continue;
        if (m.overhead > 0)
            cli_wrap("", "model %s: %" PRIu64 " further input tokens a call were learnt", alias,
                     m.overhead);
        if (m.breaker_wait_ms > 0)
            cli_wrap(
                "",
                "model %s: its API fails or refuses us; it is left alone for %s more (see "
                "pennygate forgive)",
                alias,
                config_value_duration((uint64_t)(m.breaker_wait_ms + 999) / 1000 * 1000, wait));
        else if (m.failures > 0)
            cli_wrap("", "model %s: its API failed %u time%s in a row; at %u it is left alone",
                     alias, m.failures, m.failures == 1 ? "" : "s", c->models[i].breaker_after);
    }
}

static void sum_proxied(void *arg, const struct history_day *d)
{
    uint64_t *sum = arg;

    *sum += d->figures[FIGURE_PROXIED];
}

/* Behind a proxy that is not trusted all visitors share its address, and so one's quota. */
static void show_proxied(const struct config *c, const struct policy *p, struct ledger *l,
                         int64_t today)
{
    uint64_t n = 0;

    if (ledger_history(l, p, today, sum_proxied, &n) != ERROR_NONE || n == 0)
        return;
    cli_wrap(
        "note",
        "%" PRIu64 " request%s today came from a private address, which is not in "
        "trusted-proxies, for another one: if that is a proxy of yours, all visitors share "
        "its address and one quota; write it (the web server's log has it) into site { "
        "trusted-proxies = { ... } }%s",
        n, n == 1 ? "" : "s", c->n_trusted_proxies > 0 ? ", unless that was done since" : "");
}

static void count_key(void *arg, const struct ledger_key *k)
{
    unsigned *n = arg;

    (void)k;
    ++*n;
}

static void show_keys(const struct config *c, struct ledger *l)
{
    unsigned n = 0;

    if (c->require == REQUIRE_KEY && ledger_keys(l, count_key, &n) == ERROR_NONE && n == 0)
        cli_wrap("note",
                 "require = key, and no key is issued: nobody is admitted (see pennygate "
                 "keys)");
}

/* Closed pages are all right: a note would be for ever. */
static void show_pages(const struct config *c, struct ledger *l)
{
    uint8_t hash[KEY_HASH];
    bool made = ledger_password(l, hash) == ERROR_NONE;
    unsigned n = c->n_dashboard_accounts;

    if (n > 0)
        cli_wrap("", "owner's pages: %s%u account%s listed: %s",
                 made ? "a password is made, and " : PASSWORDLESS ", but ", n,
                 n == 1 ? " is" : "s are",
                 made ? "either opens the pages" : "that opens the pages");
    else
        cli_wrap("", "owner's pages: %s, no account is listed: %s",
                 made ? "a password is made" : PASSWORDLESS,
                 made ? "the password alone opens the pages" : "the pages are closed");
}

static void show_lease(const struct config *c, const struct ledger_state *s)
{
    int64_t ago_ms = s->clock_ms - s->copied_ms;
    char ago[CONFIG_VALUE_MAX];

    if (!c->lease)
        return;
    cli_wrap("", "live in %s/store, copied to flash %s ago", c->run_directory,
             config_value_duration(ago_ms > 0 ? (uint64_t)ago_ms / 1000 * 1000 : 0, ago));
    if (!file_is_volatile(c->run_directory))
        cli_wrap("note",
                 "run-directory is not on tmpfs: with durability = lease what is written there "
                 "all the time wears what it is on");
}

static enum error show_state(const struct config *c, struct ledger *l)
{
    struct policy p = config_policy(c, false);
    struct ledger_state s;
    char text[CONFIG_VALUE_MAX];
    enum error e = ledger_state(l, &p, &s);

    if (e != ERROR_NONE)
        return e;
    cli_wrap("store",
             "%" PRIu64 " of %" PRIu64 " KiB in use, zone %s, %" PRIu64 " open stream%s%s",
             kv_used_bytes(&s.usage) / 1024, s.usage.map_bytes / 1024, s.zone, s.open_streams,
             s.open_streams == 1 ? "" : "s", s.paused ? ", paused" : "");
    show_lease(c, &s);
    if (kv_is_filling(&s.usage))
        cli_wrap("note", "the store is more than three quarters full: raise store-size");
    if (s.paused)
        cli_wrap("note", "the site is paused: nobody is admitted until pennygate resume");
    if (s.store_ms > s.clock_ms + 1000)
        cli_wrap("note", "its time is %s ahead of the clock (see pennygate clock)",
                 config_value_span((uint64_t)(s.store_ms - s.clock_ms), text));
    if (s.alerts > 0)
        cli_wrap("note", "%u alert%s to be delivered: if that stays so, the log says why",
                 s.alerts, s.alerts == 1 ? " waits" : "s wait");
    if (PAGES)
        show_pages(c, l);
    show_learnt(c, l);
    show_keys(c, l);
    show_proxied(c, &p, l, s.today);
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
        progress_begin("opening the store");
        e = ledger_open(&o, false, &l);
        progress_end();
        where = cli_place(c, e);
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
    cli_wrap("FAULT", "socket-group %s: no such group: serve will not start", group);
}

int cli_check(struct cli *cli)
{
    struct check k = {0};
    struct config *c;
    struct owner o;
    int status;

    if (cli->through != NULL || cli->silence != NULL)
        return SMALL ? cli_not_small("check --through") : cli_through(cli);
    status = cli_load(cli, &c);
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
            show_untitled(c, s);
        for (unsigned i = 0; s == SECTION_MODEL && i < c->n_models; i++)
            show_section(s, c->models[i].alias, &c->models[i]);
    }
    show_costs(c);
    check_store(&k);
    config_warnings(c, note, NULL);
    config_faults(c, fault, &k);
    check_group(&k);
    printf("\n%u fault%s%s\n", k.faults, k.faults == 1 ? "" : "s",
           k.refusing > 0 ? ": every request is answered with 503" : "");
    return k.faults > 0 ? CLI_FAILED : CLI_OK;
}
