/*
 * keys: tokens that the owner issues to callers, with limits of their own where given. A token
 * is shown once, when it is made: the store has its keyed hash alone.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/caller.h"
#include "gateway/cli.h"
#include "gateway/config_value.h"
#include "gateway/report.h"
#include "gateway/token.h"
#include "platform/mac.h"
#include "store/period.h"

#define LIMIT_TEXT_MAX 96 /* the longest honest one has 40 */
#define TOKEN_RANDOM   20 /* bytes: 160 bits */
#define TOKEN_SIZE     (sizeof CALLER_KEY_PREFIX + TOKEN_LETTERS(TOKEN_RANDOM))

/* ---- limits on the command line: UNIT/WINDOW=MAX, concurrent=MAX ---- */

static const struct option *limit_option(const char *key)
{
    return config_option(SECTION_LIMIT, key);
}

static int not_a_limit(const char *text, const char *why)
{
    cli_fail("--limit '%.*s': %s (such as calls/day=100, 'cost/30d=$5' or concurrent=2)",
             LIMIT_TEXT_MAX, text, why);
    return CLI_USAGE;
}

static int read_limit(const char *text, struct limit *out)
{
    char copy[LIMIT_TEXT_MAX], why[CONFIG_WHY_MAX];
    char *max, *window;

    if (strlen(text) >= sizeof copy)
        return not_a_limit(text, "is too long");
    snprintf(copy, sizeof copy, "%s", text);
    max = strchr(copy, '=');
    if (max == NULL)
        return not_a_limit(text, "has no '='");
    *max++ = '\0';
    window = strchr(copy, '/');
    if (window != NULL)
        *window++ = '\0';
    memset(out, 0, sizeof *out);
    out->subject = SUBJECT_KEY;
    if (!config_value_set(limit_option("unit"), copy, out, why))
        return not_a_limit(text, why);
    if ((window == NULL) != (out->unit == UNIT_CONCURRENT))
        return not_a_limit(text, window == NULL ? "has no window behind its unit"
                                                : "concurrent takes no window");
    if ((window != NULL && !config_value_set(limit_option("window"), window, out, why)) ||
        !config_value_set(limit_option("max"), max, out, why))
        return not_a_limit(text, why);
    return CLI_OK;
}

static int read_limits(const struct cli *cli, struct ledger_key *k)
{
    while (k->n_limits < KEY_LIMITS_MAX && cli->limits[k->n_limits] != NULL) {
        const char *text = cli->limits[k->n_limits];
        struct limit *l = &k->limits[k->n_limits];
        int status = read_limit(text, l);

        if (status != CLI_OK)
            return status;
        for (unsigned i = 0; i < k->n_limits; i++)
            if (k->limits[i].unit == l->unit && window_equal(k->limits[i].window, l->window))
                return not_a_limit(text, "there is one of this unit and window already");
        k->n_limits++;
    }
    return CLI_OK;
}

/* ---- add ---- */

static enum error make_token(char out[TOKEN_SIZE])
{
    memcpy(out, CALLER_KEY_PREFIX, sizeof CALLER_KEY_PREFIX);
    return token_make(TOKEN_RANDOM, out + sizeof CALLER_KEY_PREFIX - 1);
}

/* A limit that could not be counted, or that not even one letter would fit into. */
static int check_limits(const struct config *c, const struct ledger_key *k)
{
    for (unsigned i = 0; i < k->n_limits * c->n_models; i++) {
        const struct limit *l = &k->limits[i / c->n_models];
        const struct config_model *m = &c->models[i % c->n_models];
        char needs[CONFIG_VALUE_MAX];
        struct amounts least;

        if (l->unit != UNIT_COST && l->unit != UNIT_TOKENS)
            continue;
        if (l->unit == UNIT_COST && !m->price.known)
            return cli_fail("model %s has no price, so a limit of cost cannot be counted",
                            m->alias);
        config_smallest(m, &least);
        if (l->max > 0 && least.of[l->unit] > l->max)
            return cli_fail("the smallest request to model %s reserves %s: with less than "
                            "that the key could never be used",
                            m->alias, config_value_amount(l->unit, least.of[l->unit], needs));
    }
    return CLI_OK;
}

static enum error issue(struct ledger *l, const struct policy *p, const char *token,
                        const struct ledger_key *k)
{
    uint8_t mac[MAC_SIZE];

    ledger_mac(l, "key", token, strlen(token), mac);
    return ledger_key_add(l, p, mac, k); /* which takes KEY_HASH of them */
}

static int add_failed(const struct config *c, const char *name, enum error e)
{
    switch (e) {
    case ERROR_SYNTAX:
        cli_fail("a key's name has 1 to %d letters, digits, '_' or '-', and no '-' first",
                 LIMIT_NAME_MAX - 1);
        return CLI_USAGE;
    case ERROR_EXISTS:
        return cli_fail("there is a key %s already; pennygate keys revoke %s ends it", name,
                        name);
    case ERROR_TOO_LARGE:
        return cli_fail("there are %d keys already: revoke those that nobody uses", KEYS_MAX);
    case ERROR_TOO_MANY_WINDOWS:
        return cli_fail("with these limits there would be more than %d different windows in "
                        "all: use one that another limit has",
                        PERIOD_WINDOWS);
    default:
        return cli_store_failed(c, e);
    }
}

/* A token that nobody has seen is of no use to anybody. */
static int show_token(struct ledger *l, const struct policy *p, const char *name,
                      const char *token)
{
    if (puts(token) >= 0 && fflush(stdout) == 0) {
        fprintf(stderr,
                "This is the only time that the token of %s is shown: the store does not have "
                "it.\n",
                name);
        return CLI_OK;
    }
    (void)ledger_key_revoke(l, p, name);
    (void)ledger_copy(l, p);
    return cli_fail("the token could not be written out: there is no key %s", name);
}

static int add(struct cli *cli)
{
    const char *name = cli->words[1];
    struct ledger_key k = {.n_limits = 0};
    char token[TOKEN_SIZE];
    struct config *c;
    struct ledger *l;
    struct policy p;
    int status = read_limits(cli, &k);
    enum error e = strlen(name) < sizeof k.name ? ERROR_NONE : ERROR_SYNTAX;

    if (status != CLI_OK)
        return status;
    if (e != ERROR_NONE)
        return add_failed(NULL, name, e);
    memcpy(k.name, name, strlen(name) + 1);
    status = cli_open(cli, NULL, &c, &l);
    if (status != CLI_OK)
        return status;
    status = check_limits(c, &k);
    if (status != CLI_OK)
        return status;
    p = config_policy(c, false);
    e = make_token(token);
    if (e == ERROR_NONE)
        e = issue(l, &p, token, &k);
    if (e == ERROR_NONE) {
        int kept = cli_keep(c, l); /* without a copy the token is good for now */

        status = show_token(l, &p, name, token);
        status = status == CLI_OK ? kept : status;
    } else {
        status = add_failed(c, name, e);
    }
    mac_wipe(token, sizeof token);
    return status;
}

/* ---- list ---- */

#define LEFT_INDENT  33 /* behind the longest name */
#define LIMIT_INDENT 45 /* behind name and date */

struct list {
    unsigned n;
    struct ledger_key key[KEYS_MAX];
};

static void collect(void *arg, const struct ledger_key *k)
{
    struct list *l = arg;

    if (l->n < KEYS_MAX)
        l->key[l->n++] = *k;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct ledger_key *)a)->name, ((const struct ledger_key *)b)->name);
}

static const char *unit_of(const struct limit *l)
{
    return limit_option("unit")->words[l->unit];
}

/* As --limit takes it, with a blank behind it: how long it is, whatever the room. */
static size_t limit_text(const struct limit *l, char *out, size_t room)
{
    char window[CONFIG_VALUE_MAX], max[CONFIG_VALUE_MAX];

    config_value_text(limit_option("window"), l, window);
    return (size_t)snprintf(out, room, "%s%s%s=%s ", unit_of(l), window[0] != '\0' ? "/" : "",
                            window, config_value_amount(l->unit, l->max, max));
}

/* What its limits of calls, its own or the configuration's, leave it now. */
static void print_left(struct ledger *l, const struct policy *p, const struct ledger_key *k)
{
    struct demand d = {.caller.has_key = true};
    struct answer a;

    memcpy(d.caller.key_hash, k->hash, sizeof k->hash);
    if (ledger_check(l, p, &d, &a) != ERROR_NONE)
        return;
    for (unsigned i = 0; i < a.verdict.n_standings; i++) {
        const struct standing *s = &a.verdict.standings[i];
        char window[CONFIG_VALUE_MAX], max[CONFIG_VALUE_MAX];

        if (s->limit.subject == SUBJECT_KEY)
            cli_wrap_at(LEFT_INDENT, "", "%" PRIu64 " of %s calls left, per %s", s->remaining,
                        config_value_amount(UNIT_CALLS, s->limit.max, max),
                        config_value_text(limit_option("window"), &s->limit, window));
    }
}

static void print_key(const struct ledger_key *k)
{
    char head[64], date[REPORT_DATE_MAX], limits[KEY_LIMITS_MAX * LIMIT_TEXT_MAX] = "";
    size_t n = 0;

    snprintf(head, sizeof head, "%-31s  %s", k->name, report_date(k->created_s / 86400, date));
    for (unsigned i = 0; i < k->n_limits && n < sizeof limits; i++)
        n += limit_text(&k->limits[i], limits + n, sizeof limits - n);
    cli_wrap_at(LIMIT_INDENT, head, "%s", limits);
}

/* Names and windows are of characters that nothing has to be escaped for. */
static void print_json(const struct ledger_key *k, bool first)
{
    char window[CONFIG_VALUE_MAX];

    printf("%s\n    {\"name\": \"%s\", \"created_s\": %" PRId64 ", \"limits\": [",
           first ? "" : ",", k->name, k->created_s);
    for (unsigned i = 0; i < k->n_limits; i++) {
        const struct limit *l = &k->limits[i];
        char max[24] = "null";

        if (l->max != LIMIT_UNLIMITED)
            snprintf(max, sizeof max, "%" PRIu64, l->max);
        printf("%s{\"unit\": \"%s\", \"window\": \"%s\", \"max\": %s}", i > 0 ? ", " : "",
               unit_of(l), config_value_text(limit_option("window"), l, window), max);
    }
    printf("]}");
}

static void print_list(const struct list *l, bool json, struct ledger *ledger,
                       const struct policy *p)
{
    if (json)
        printf("{\n  \"keys\": [");
    else if (l->n > 0)
        printf("%-31s  %-10s  %s\n", "key", "made", "limits of its own");
    for (unsigned i = 0; i < l->n; i++) {
        if (json) {
            print_json(&l->key[i], i == 0);
        } else {
            print_key(&l->key[i]);
            print_left(ledger, p, &l->key[i]);
        }
    }
    if (json)
        printf("\n  ]\n}\n");
    else if (l->n == 0)
        printf("no keys; pennygate keys add NAME makes one\n");
}

static int list(struct cli *cli)
{
    struct config *c;
    struct ledger *l;
    struct policy p;
    struct list *all;
    int status = cli_open(cli, NULL, &c, &l);
    enum error e;

    if (status != CLI_OK)
        return status;
    all = calloc(1, sizeof *all);
    e = all != NULL ? ledger_keys(l, collect, all) : ERROR_MEMORY;
    if (e != ERROR_NONE) {
        free(all);
        return cli_store_failed(c, e);
    }
    qsort(all->key, all->n, sizeof all->key[0], by_name);
    p = config_policy(c, false);
    print_list(all, cli->json, l, &p);
    free(all);
    return CLI_OK;
}

/* ---- revoke ---- */

static int revoke(struct cli *cli)
{
    const char *name = cli->words[1];
    struct config *c;
    struct ledger *l;
    struct policy p;
    int status = cli_open(cli, NULL, &c, &l);
    enum error e;

    if (status != CLI_OK)
        return status;
    p = config_policy(c, false);
    e = ledger_key_revoke(l, &p, name);
    if (e == ERROR_NOT_FOUND)
        return cli_fail("there is no key %s", name);
    if (e != ERROR_NONE)
        return cli_store_failed(c, e);
    status = cli_keep(c, l);
    if (status == CLI_OK)
        cli_wrap_at(0, "", "revoked: the token of %s is refused from now on", name);
    return status;
}

int cli_keys(struct cli *cli)
{
    static const struct {
        const char *name;
        bool limits, json;
        int (*run)(struct cli *cli);
    } orders[] = {
        {"add", true, false, add},
        {"list", false, true, list},
        {"revoke", false, false, revoke},
    };

    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        if (strcmp(cli->words[0], orders[i].name) != 0)
            continue;
        if ((cli->limits[0] != NULL && !orders[i].limits) || (cli->json && !orders[i].json))
            break;
        return orders[i].run(cli);
    }
    cli_fail("keys: --limit goes with add, --json with list");
    return CLI_USAGE;
}
