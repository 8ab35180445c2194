/*
 * forgive: gives a caller its quota back in all windows, or a model another try. Callers are
 * named by the identities that gateway/caller.c makes, so that who was counted is forgiven.
 */
#include <stdio.h>
#include <string.h>

#include "gateway/caller.h"
#include "gateway/cli.h"

struct favour {
    const char *name; /* as the owner wrote it, or NULL */
    struct config *config;
    struct ledger *ledger;
    struct policy policy;
};

static int find_address(const struct favour *f, struct subject_id *id)
{
    struct address a;

    if (!address_parse(f->name, strlen(f->name), &a)) {
        cli_fail("'%s' is no address", f->name);
        return CLI_USAGE;
    }
    caller_address_id(&a, id);
    return CLI_OK;
}

static int find_account(const struct favour *f, struct subject_id *id)
{
    if (caller_account_id(f->ledger, f->name, id))
        return CLI_OK;
    cli_fail("an account has a name");
    return CLI_USAGE;
}

struct search {
    const char *name;
    struct subject_id *id;
};

static void see_key(void *arg, const struct ledger_key *k)
{
    struct search *s = arg;

    if (strcmp(k->name, s->name) != 0)
        return;
    s->id->n = sizeof k->id;
    memcpy(s->id->bytes, k->id, sizeof k->id);
}

static int find_key(const struct favour *f, struct subject_id *id)
{
    struct search s = {f->name, id};
    enum error e = ledger_keys(f->ledger, see_key, &s);

    if (e != ERROR_NONE)
        return cli_store_failed(f->config, e);
    return id->n > 0 ? CLI_OK : cli_fail("there is no key %s", f->name);
}

static int find_nobody(const struct favour *f, struct subject_id *id)
{
    (void)f;
    (void)id; /* all callers share it */
    return CLI_OK;
}

static const struct kind {
    const char *name;
    enum subject subject;
    int (*find)(const struct favour *f, struct subject_id *id);
} kinds[] = {
    {"address", SUBJECT_ADDRESS, find_address},
    {"account", SUBJECT_ACCOUNT, find_account},
    {"key", SUBJECT_KEY, find_key},
    {"everyone", SUBJECT_EVERYONE, find_nobody},
    {"anonymous", SUBJECT_ANONYMOUS, find_nobody},
    {"bypass", SUBJECT_BYPASS, find_nobody},
};

/* Who shows no cookie is known by the address alone. */
static enum error forgive_shared_visitor(const struct favour *f,
                                         const struct subject_id *address, unsigned *rows)
{
    struct subject_id id;
    unsigned more = 0;
    enum error e;

    caller_shared_id(address, &id);
    e = ledger_forgive(f->ledger, &f->policy, SUBJECT_VISITOR, &id, &more);
    *rows += more;
    return e;
}

static int forgive_subject(const struct favour *f, const struct kind *k)
{
    struct subject_id id = {.n = 0};
    unsigned rows;
    int status = k->find(f, &id);
    enum error e;

    if (status != CLI_OK)
        return status;
    e = ledger_forgive(f->ledger, &f->policy, k->subject, &id, &rows);
    if (e == ERROR_NONE && k->subject == SUBJECT_ADDRESS)
        e = forgive_shared_visitor(f, &id, &rows);
    if (e != ERROR_NONE)
        return cli_store_failed(f->config, e);
    if ((status = cli_keep(f->config, f->ledger)) != CLI_OK)
        return status;
    printf("%s%s%s%s\n", rows > 0 ? "forgiven: " : "nothing to forgive: ", k->name,
           f->name != NULL ? " " : "", f->name != NULL ? f->name : "");
    return CLI_OK;
}

/* The name is compared, since another one's row would be looked for in vain. */
static int forgive_model(const struct favour *f)
{
    const struct config_model *m = config_model(f->config, f->name);
    int status;
    enum error e;

    if (m == NULL || strcmp(m->alias, f->name) != 0)
        return cli_fail("there is no model %s in the configuration", f->name);
    e = ledger_forgive_model(f->ledger, &f->policy, m->alias);
    if (e != ERROR_NONE)
        return cli_store_failed(f->config, e);
    status = cli_keep(f->config, f->ledger);
    if (status == CLI_OK)
        cli_wrap_at(0, "", "forgiven: model %s is tried again, with its overhead as configured",
                    f->name);
    return status;
}

int cli_forgive(struct cli *cli)
{
    struct favour f = {.name = cli->n_words > 1 ? cli->words[1] : NULL};
    int status = cli_open(cli, NULL, &f.config, &f.ledger);

    if (status != CLI_OK)
        return status;
    f.policy = config_policy(f.config, false);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(cli->words[0], kinds[i].name) == 0)
            return forgive_subject(&f, &kinds[i]);
    return forgive_model(&f); /* what else the table of commands has */
}
