/*
 * dashboard-password: the password of the owner's pages. It is made here and not chosen, so that
 * it cannot be guessed, and shown once: the store has its keyed hash alone.
 */
#include <stdio.h>
#include <string.h>

#include "gateway/cli.h"
#include "gateway/guard.h"
#include "gateway/token.h"
#include "platform/mac.h"

#define PASSWORD_BYTES 16 /* 128 bits */

static int make(struct ledger *l, const struct policy *p, const struct config *c)
{
    char password[TOKEN_LETTERS(PASSWORD_BYTES) + 1];
    uint8_t hash[KEY_HASH];
    bool before = ledger_password(l, hash) == ERROR_NONE;
    enum error e = token_make(PASSWORD_BYTES, password);
    int status = CLI_OK;

    guard_hash(l, password, strlen(password), hash);
    if (e == ERROR_NONE)
        e = ledger_set_password(l, p, hash);
    if (e != ERROR_NONE)
        status = cli_store_failed(c, e);
    else
        status = cli_keep(c, l);
    if (e == ERROR_NONE && puts(password) >= 0 && fflush(stdout) == 0)
        fprintf(stderr, "This is the only time that it is shown; any name goes with it.%s\n",
                before ? " The password before it is none any more." : "");
    else if (e == ERROR_NONE)
        status = cli_fail("the password could not be written out: nobody has it; make another");
    mac_wipe(password, sizeof password);
    return status;
}

static int take_away(struct ledger *l, const struct policy *p, const struct config *c)
{
    uint8_t hash[KEY_HASH];
    enum error e = ledger_password(l, hash);

    if (e == ERROR_NONE)
        e = ledger_set_password(l, p, NULL);
    if (e == ERROR_NOT_FOUND) {
        printf("there is no password\n");
        return CLI_OK;
    }
    if (e != ERROR_NONE)
        return cli_store_failed(c, e);
    int status = cli_keep(c, l);
    if (status == CLI_OK)
        printf("removed: the owner's pages take no password from now on\n");
    return status;
}

int cli_password(struct cli *cli)
{
    struct config *c;
    struct ledger *l;
    struct policy p;
    int status = cli_open(cli, NULL, &c, &l);

    if (status != CLI_OK)
        return status;
    p = config_policy(c, false);
    return cli->n_words > 0 ? take_away(l, &p, c) : make(l, &p, c);
}
