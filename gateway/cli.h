/*
 * The command line: a table of commands, each a function that gets the parsed flags and returns
 * the exit status. pennygate(8) describes it; output and statuses are stable.
 */
#ifndef GATEWAY_CLI_H
#define GATEWAY_CLI_H

#include <stdbool.h>

#include "gateway/config.h"
#include "platform/owner.h"
#include "store/ledger.h"

enum cli_status {
    CLI_OK = 0,
    CLI_FAILED = 1, /* it could not be done; for check: there are faults */
    CLI_USAGE = 2,  /* the command line or the configuration is not understood */
    CLI_UNABLE = 3  /* init: this file system cannot hold a store of durability `commit` */
};

#define CLI_WORDS_MAX 3 /* that follow a command */

struct cli {
    const char *config; /* path of the file */
    char *const *env;
    char **argv;                      /* as started, to start anew */
    bool listening;                   /* descriptor 0 is a listening socket */
    const char *words[CLI_WORDS_MAX]; /* what follows the command; the table has its forms */
    unsigned n_words;
    /* flags; NULL or false if not given */
    const char *owner, *socket, *days, *subject, *before, *through, *silence;
    const char *limits[KEY_LIMITS_MAX];
    bool json, csv, stop, all;
};

/* Parses and runs; the exit status. */
int cli_main(int argc, char **argv, char *const *env, bool listening);

/* The path of the configuration if no -c is given. */
const char *cli_config_path(void);

/* "pennygate: ..." to standard error; returns CLI_FAILED. */
int cli_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* "PATH: what went wrong; what to do": errno's text for ERROR_SYSTEM. Returns CLI_FAILED. */
int cli_fail_at(const char *path, enum error e);

/* Words in lines of 80 columns, indented behind a head; cut at 512 bytes. The heads "note" and
 * "FAULT" are coloured where there are colours. */
#define CLI_INDENT 12
void cli_wrap(const char *head, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same with another indent. */
void cli_wrap_at(unsigned indent, const char *head, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Loads the configuration; CLI_OK, or CLI_USAGE and the message is told. */
int cli_load(const struct cli *cli, struct config **out);

/*
 * Becomes the owner of the store's directory and, if that changed who we are, loads the
 * configuration once more: the owner, as whom the gateway runs, must be able to read it.
 */
int cli_become_owner(const struct cli *cli, struct config **config);

/*
 * All that a command needs which works on the store. The ledger is not closed again: commands
 * leave by _exit, because LMDB 0.9.26-0.9.31 lets other processes fail while an environment is
 * closed (store/kv.h). With `adopt` a copy that was put back is accepted, and *adopt set if it
 * was one: a store that is in order stays as it is, because processes may be counting in it.
 */
int cli_open(const struct cli *cli, bool *adopt, struct config **config,
             struct ledger **ledger);

/* Says that a program made with SMALL=1 has no such thing; returns CLI_FAILED. */
int cli_not_small(const char *what);

/* What to do about an error of the store: a sentence, or "". */
const char *cli_advice(enum error e);

/* The directory that an error of the store is about. */
const char *cli_place(const struct config *c, enum error e);

/* Tells an error of the store, with its advice; returns CLI_FAILED. */
int cli_store_failed(const struct config *c, enum error e);

/*
 * With durability `lease` the owner's change is copied to flash before success is told. Returns
 * CLI_OK, or CLI_FAILED and it is told that the change is only good until a power loss.
 */
int cli_keep(const struct config *c, struct ledger *l);

/* The options of a ledger, with the secret read; wipe o->secret afterwards. */
enum error cli_ledger_options(const struct config *c, struct ledger_options *o);

/* The commands. */
int cli_init(struct cli *cli);
int cli_check(struct cli *cli);
int cli_through(struct cli *cli); /* check --through URL; not with SMALL=1 */
int cli_stats(struct cli *cli);
int cli_serve(struct cli *cli);
int cli_pause(struct cli *cli);
int cli_resume(struct cli *cli);
int cli_adopt(struct cli *cli);
int cli_clock(struct cli *cli);
int cli_maintain(struct cli *cli);
int cli_export(struct cli *cli);
int cli_import(struct cli *cli);
int cli_keys(struct cli *cli);
int cli_forgive(struct cli *cli);
int cli_transcripts(struct cli *cli); /* not in a program made with SMALL=1 */
int cli_password(struct cli *cli);    /* not in a program made with PAGES=0 */

/* Removes transcripts that are too old, if there are any: timed work. Not with SMALL=1. */
int cli_expire_transcripts(const struct config *c);

/* The value of --days: 1 to CLI_DAYS_MAX. */
#define CLI_DAYS_MAX 400 /* the history keeps no more */
bool cli_days(const char *text, int64_t *days);

/* Started by a web server: on the listening socket at descriptor 0, or for one request. */
int cli_fastcgi(struct cli *cli);
int cli_cgi(char *const *env);

#endif
