/*
 * The owner's short commands on the store: pause, resume, adopt, clock, maintain. What they set
 * holds for all processes of the site at once.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gateway/alerter.h"
#include "gateway/cli.h"
#include "gateway/config_value.h"

typedef enum error order(struct ledger *l, const struct policy *p);

/* Opens the store, has it done and says so; `done` is NULL where nothing changes. */
static int give_order(struct cli *cli, order *what, const char *done)
{
    struct config *c;
    struct ledger *l;
    struct policy p;
    int status = cli_open(cli, NULL, &c, &l);
    enum error e;

    if (status != CLI_OK)
        return status;
    p = config_policy(c, false);
    e = what(l, &p);
    if (e != ERROR_NONE)
        return cli_store_failed(c, e);
    if (done == NULL)
        return CLI_OK;
    status = cli_keep(c, l);
    if (status == CLI_OK)
        cli_wrap_at(0, "", "%s", done);
    return status;
}

static enum error pause_all(struct ledger *l, const struct policy *p)
{
    return ledger_set_paused(l, p, true);
}

static enum error resume_all(struct ledger *l, const struct policy *p)
{
    return ledger_set_paused(l, p, false);
}

static enum error show_clock(struct ledger *l, const struct policy *p)
{
    struct ledger_state s;
    char text[CONFIG_VALUE_MAX];
    enum error e = ledger_state(l, p, &s);

    if (e != ERROR_NONE)
        return e;
    if (s.store_ms > s.clock_ms + 1000)
        cli_wrap_at(
            0, "",
            "the store's time is %s ahead of the clock; it goes on at half speed until the "
            "clock has caught up (pennygate clock reset: now)",
            config_value_span((uint64_t)(s.store_ms - s.clock_ms), text));
    else
        printf("the store's time is the clock's\n");
    return ERROR_NONE;
}

int cli_pause(struct cli *cli)
{
    return give_order(cli, pause_all, "paused: nothing is admitted until pennygate resume");
}

int cli_resume(struct cli *cli)
{
    return give_order(cli, resume_all, "resumed: requests are admitted again");
}

int cli_clock(struct cli *cli)
{
    if (cli->n_words == 0)
        return give_order(cli, show_clock, NULL);
    return give_order(cli, ledger_clock_reset,
                      "the store's time is the clock's; what callers have used counts anew, "
                      "what everyone has used was carried over");
}

/* Whether a store that does not open is ours to tell of: root does not talk to the network, and
 * another user's store is well for all we know. */
static bool is_for_us(const struct config *c)
{
    struct owner o;

    return owner_of(c->store, &o) == ERROR_NONE ? o.uid == geteuid() : geteuid() != 0;
}

/* For CGI processes, of which none stays to tell it. Standard error is not where their lines are:
 * cron makes mails of it. */
static void tell_left_out(const struct config *c, struct ledger *l)
{
    if (c->log_target != LOG_TARGET_SYSLOG)
        return;
    log_open(c->log_target, c->log_format, c->log_level);
    ledger_log_tell(l, 0);
}

int cli_maintain(struct cli *cli)
{
    struct config *c = NULL;
    struct ledger *l;
    struct policy p;
    int status = cli_open(cli, NULL, &c, &l);
    enum error e;

    if (status != CLI_OK) {
        if (c != NULL && is_for_us(c))
            alerter_meter(c);
        return status;
    }
    p = config_policy(c, false);
    e = ledger_maintain(l, &p);
    if (e == ERROR_NONE)
        e = cli->stop ? ledger_copy(l, &p) : ledger_copy_hourly(l, &p);
    if (e == ERROR_NONE) {
        status = SMALL ? CLI_OK : cli_expire_transcripts(c);
        alerter_deliver(c, l);
        tell_left_out(c, l);
        return status;
    }
    if (code_of_error(e) == CODE_METER || code_of_error(e) == CODE_CLOCK)
        alerter_meter(c);
    return cli_store_failed(c, e);
}

int cli_adopt(struct cli *cli)
{
    struct config *c;
    struct ledger *l;
    bool adopted = false;
    int status = cli_open(cli, &adopted, &c, &l);

    if (status != CLI_OK)
        return status;
    if (adopted)
        status = cli_keep(c, l);
    if (status != CLI_OK)
        return status;
    if (adopted)
        cli_wrap_at(0, "", "adopted: the store at %s counts on from what it holds", c->store);
    else
        cli_wrap_at(0, "", "nothing to adopt: the store at %s is no older than it should be",
                    c->store);
    return CLI_OK;
}
