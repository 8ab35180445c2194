/*
 * Commands and flags as tables, and what commands share. Arguments are exact: no abbreviations,
 * nothing is guessed. Flags stand before or behind the command.
 */
#include "gateway/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gateway/lines.h"
#include "gateway/progress.h"
#include "platform/mac.h"

#ifndef PENNYGATE_VERSION /* the Makefile's */
#define PENNYGATE_VERSION "0"
#endif

/* ---- tables ---- */

enum {
    FLAG_CONFIG = 1,
    FLAG_OWNER = 2,
    FLAG_SOCKET = 4,
    FLAG_DAYS = 8,
    FLAG_JSON = 16,
    FLAG_CSV = 32,
    FLAG_STOP = 64,
    FLAG_SUBJECT = 128,
    FLAG_BEFORE = 256,
    FLAG_ALL = 512,
    FLAG_LIMIT = 1024,
    FLAG_THROUGH = 2048,
    FLAG_SILENCE = 4096,
};
#define FLAGS_LISTED FLAG_LIMIT /* may be given several times */

#define NOT_SMALL "not in this program, which was made small"

static const struct flag {
    const char *name;
    const char *value; /* what it takes, or NULL: nothing */
    unsigned bit;
    size_t offset; /* in struct cli: const char * if it takes a value, else bool; of what may
                    * be given several times the first of KEY_LIMITS_MAX */
    const char *help;
} flags[] = {
    {"-c", "FILE", FLAG_CONFIG, offsetof(struct cli, config), "the configuration"},
    {"--owner", "USER[:GROUP]", FLAG_OWNER, offsetof(struct cli, owner),
     "whose the store will be"},
    {"--socket", "PATH", FLAG_SOCKET, offsetof(struct cli, socket), "the socket to listen on"},
    {"--days", "N", FLAG_DAYS, offsetof(struct cli, days), "how many days, 1 to 400"},
    {"--json", NULL, FLAG_JSON, offsetof(struct cli, json), "as JSON"},
    {"--csv", NULL, FLAG_CSV, offsetof(struct cli, csv), "as CSV"},
    {"--stop", NULL, FLAG_STOP, offsetof(struct cli, stop), "the machine is going down"},
    {"--through", "URL", FLAG_THROUGH, offsetof(struct cli, through),
     SMALL ? NOT_SMALL : "ask by way of the web server at this URL"},
    {"--silence", "SECONDS", FLAG_SILENCE, offsetof(struct cli, silence),
     SMALL ? NOT_SMALL : "that --through tries, 0 to 25"},
    {"--limit", "LIMIT", FLAG_LIMIT, offsetof(struct cli, limits), "as calls/day=100"},
    {"--subject", "NAME", FLAG_SUBJECT, offsetof(struct cli, subject),
     "all of this caller, as list shows it"},
    {"--before", "DATE", FLAG_BEFORE, offsetof(struct cli, before),
     "all from before this day, YYYY-MM-DD"},
    {"--all", NULL, FLAG_ALL, offsetof(struct cli, all), "all of them"},
};

static int cli_version(struct cli *cli);
static int cli_help(struct cli *cli);
static int cli_no_pages(struct cli *cli);
static int cli_no_transcripts(struct cli *cli);

static const struct command {
    const char *name;
    unsigned flags;
    const char *forms; /* the words that may follow; one in capitals stands for any; or NULL */
    int (*run)(struct cli *cli);
    const char *help;
} commands[] = {
    {"init", FLAG_CONFIG | FLAG_OWNER, NULL, cli_init, "make the store and the secret"},
    {"check", FLAG_CONFIG | FLAG_THROUGH | FLAG_SILENCE, NULL, cli_check,
     "show what the configuration says, and its faults"},
    {"stats", FLAG_CONFIG | FLAG_DAYS | FLAG_JSON | FLAG_CSV, NULL, cli_stats,
     "use and cost by day, and what is left today"},
    {"serve", FLAG_CONFIG | FLAG_SOCKET, NULL, cli_serve,
     "FastCGI on a unix socket of its own"},
    {"pause", FLAG_CONFIG, NULL, cli_pause, "admit nothing from now on"},
    {"resume", FLAG_CONFIG, NULL, cli_resume, "admit again"},
    {"adopt", FLAG_CONFIG, NULL, cli_adopt, "accept a store that was restored from a copy"},
    {"export", FLAG_CONFIG, "FILE", cli_export,
     "write the store to a new file, for any machine"},
    {"import", FLAG_CONFIG, "FILE", cli_import,
     "fill a store just made by init from that file"},
    {"keys", FLAG_CONFIG | FLAG_JSON | FLAG_LIMIT, "add NAME|list|revoke NAME", cli_keys,
     "issue a key to a caller (add), list them, or revoke one"},
    {"forgive", FLAG_CONFIG,
     "address A|account NAME|key NAME|model NAME|everyone|anonymous|bypass", cli_forgive,
     "give a caller its quota back, or a model another try"},
    {"clock", FLAG_CONFIG, "|reset", cli_clock,
     "show the store's time; reset: set it to the clock's"},
    {"maintain", FLAG_CONFIG | FLAG_STOP, NULL, cli_maintain,
     "timed work, for cron on CGI-only hosts"},
    {"transcripts", FLAG_CONFIG | FLAG_DAYS | FLAG_JSON | FLAG_SUBJECT | FLAG_BEFORE | FLAG_ALL,
     "list|show ID|export|erase|erase ID", SMALL ? cli_no_transcripts : cli_transcripts,
     SMALL ? NOT_SMALL : "list, show ID, export or erase what was asked and answered"},
    {"dashboard-password", FLAG_CONFIG, "|remove", PAGES ? cli_password : cli_no_pages,
     PAGES ? "make a new password for the owner's pages"
           : "not in this program, which was made without pages"},
    {"version", FLAG_CONFIG, NULL, cli_version, "print the version"},
    {"help", FLAG_CONFIG, "|COMMAND", cli_help, "print this, or more of a command"},
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- help and errors ---- */

static int cli_version(struct cli *cli)
{
    (void)cli;
    printf("pennygate %s\n", PENNYGATE_VERSION);
    return CLI_OK;
}

static int cli_no_pages(struct cli *cli)
{
    (void)cli;
    return cli_fail("this program was made without pages (PAGES=0)");
}

int cli_not_small(const char *what)
{
    return cli_fail("this program was made without %s (SMALL=1)", what);
}

static int cli_no_transcripts(struct cli *cli)
{
    (void)cli;
    return cli_not_small("transcripts");
}

int cli_fail(const char *format, ...)
{
    va_list args;

    fflush(stdout);
    fputs("pennygate: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return CLI_FAILED;
}

#define WRAP_MAX 512 /* longest: a path of 100 bytes and some advice */

static void wrap(unsigned indent, const char *head, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

static void wrap(unsigned indent, const char *head, const char *format, va_list args)
{
    char text[WRAP_MAX];
    struct sink s;
    const struct lines l = {&s, lines_colours(stdout)};
    enum tone tone = strcmp(head, "FAULT") == 0  ? TONE_FAULT
                     : strcmp(head, "note") == 0 ? TONE_WARNING
                                                 : TONE_PLAIN;

    vsnprintf(text, sizeof text, format, args);
    sink_to(&s, sink_file, stdout);
    lines_wrap(&l, indent, tone, head, text);
    (void)sink_end(&s); /* cli_main tells of a stream that has failed */
}

void cli_wrap(const char *head, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    wrap(CLI_INDENT, head, format, args);
    va_end(args);
}

void cli_wrap_at(unsigned indent, const char *head, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    wrap(indent, head, format, args);
    va_end(args);
}

static int usage(const char *what, const char *argument)
{
    cli_fail("%s '%s' (see pennygate help)", what, argument);
    return CLI_USAGE;
}

static bool is_help(const char *argument)
{
    return strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0;
}

static const struct command *find_command(const char *name)
{
    if (is_help(name))
        name = "help";
    if (strcmp(name, "--version") == 0)
        name = "version";
    for (size_t i = 0; i < COUNT(commands); i++) {
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    }
    return NULL;
}

/* Which commands take the flag. */
static void name_takers(const struct flag *f, char out[WRAP_MAX])
{
    size_t n = 0;

    if (f->bit == FLAG_CONFIG)
        n += (size_t)snprintf(out, WRAP_MAX, "%s", CONFIG_PATH);
    for (size_t k = 0; k < COUNT(commands) && f->bit != FLAG_CONFIG && n < WRAP_MAX; k++) {
        if ((commands[k].flags & f->bit) != 0)
            n += (size_t)snprintf(out + n, WRAP_MAX - n, "%s%s", n > 0 ? ", " : "",
                                  commands[k].name);
    }
}

#define HELP_INDENT 24

/* With who takes it, or for -c what stands in its place. */
static void show_flag(const struct flag *f, bool takers)
{
    const char *value = f->value != NULL ? f->value : "";
    char head[HELP_INDENT + 8], more[WRAP_MAX];

    snprintf(head, sizeof head, "  %s%s%s", f->name, value[0] ? " " : "", value);
    name_takers(f, more);
    if (takers || f->bit == FLAG_CONFIG)
        cli_wrap_at(HELP_INDENT, head, "%s (%s)", f->help, more);
    else
        cli_wrap_at(HELP_INDENT, head, "%s", f->help);
}

/* Of one command a line for each of its forms, what it does, and its flags. */
static int help_on(const struct command *c)
{
    const char *form = c->forms != NULL ? c->forms : "";
    const char *head = "usage:";

    for (; form != NULL; form = strchr(form, '|'), form += form != NULL) {
        int n = (int)strcspn(form, "|");

        printf("%-6s pennygate %s%s%.*s%s\n", head, c->name, n > 0 ? " " : "", n, form,
               c->flags != 0 ? " [flags]" : "");
        head = "";
    }
    printf("\n");
    cli_wrap_at(0, "", "%s", c->help);
    printf("\n");
    for (size_t i = 0; i < COUNT(flags); i++) {
        if ((c->flags & flags[i].bit) != 0)
            show_flag(&flags[i], false);
    }
    printf("\nSee pennygate(8).\n");
    return CLI_OK;
}

static int cli_help(struct cli *cli)
{
    char head[HELP_INDENT + 8];
    const struct command *c;

    if (cli->n_words > 0) {
        c = find_command(cli->words[0]);
        return c != NULL ? help_on(c) : usage("unknown command", cli->words[0]);
    }
    printf("usage: pennygate [-c FILE] COMMAND [flags]\n\n");
    for (size_t i = 0; i < COUNT(commands); i++) {
        snprintf(head, sizeof head, "  %s", commands[i].name);
        cli_wrap_at(HELP_INDENT - 2, head, "%s", commands[i].help);
    }
    printf("\n");
    for (size_t i = 0; i < COUNT(flags); i++)
        show_flag(&flags[i], true);
    printf("\nWithout a command it serves the web server that started it, by FastCGI or CGI.\n"
           "Exit status: 0 done, 1 failed or faults found, 2 not understood, 3 init: this\n"
           "file system cannot hold the store.\n"
           "See pennygate(8) and pennygate.conf(5).\n");
    return CLI_OK;
}

/* ---- arguments ---- */

static const struct flag *find_flag(const char *argument, size_t n)
{
    for (size_t i = 0; i < COUNT(flags); i++) {
        if (strlen(flags[i].name) == n && strncmp(flags[i].name, argument, n) == 0)
            return &flags[i];
    }
    return NULL;
}

/* Where a flag's value goes, or NULL: there is no room for it. */
static char *place_of(struct cli *cli, const struct flag *f, unsigned seen)
{
    char *place = (char *)cli + f->offset;
    const char *taken;

    if ((seen & f->bit) == 0)
        return place;
    for (unsigned i = 1; i < KEY_LIMITS_MAX && (f->bit & FLAGS_LISTED) != 0; i++) {
        memcpy(&taken, place + i * sizeof taken, sizeof taken);
        if (taken == NULL)
            return place + i * sizeof taken;
    }
    return NULL;
}

/* Takes the flag at argv[0] and its value, given as the next argument or behind '='. How many
 * arguments were used; 0: not understood, and told. */
static int take_flag(struct cli *cli, char **argv, unsigned *seen)
{
    const char *equals = argv[0][1] == '-' ? strchr(argv[0], '=') : NULL;
    size_t n = equals != NULL ? (size_t)(equals - argv[0]) : strlen(argv[0]);
    const struct flag *f = find_flag(argv[0], n);
    const char *value = equals != NULL ? equals + 1 : argv[1];
    char *place;

    if (f == NULL || (f->value == NULL && equals != NULL)) {
        usage("unknown flag", argv[0]);
        return 0;
    }
    place = place_of(cli, f, *seen);
    if (place == NULL) {
        usage((f->bit & FLAGS_LISTED) != 0 ? "given too often:" : "given twice:", argv[0]);
        return 0;
    }
    *seen |= f->bit;
    if (f->value == NULL) {
        bool on = true;
        memcpy(place, &on, sizeof on);
        return 1;
    }
    if (value == NULL || value[0] == '\0') {
        usage("a value is missing behind", argv[0]);
        return 0;
    }
    memcpy(place, &value, sizeof value);
    return equals != NULL ? 1 : 2;
}

/* Takes the argument that is no flag. False: not understood, and told. */
static bool take_word(struct cli *cli, const char *word, const struct command **command)
{
    if (*command == NULL) {
        *command = find_command(word);
        if (*command == NULL)
            usage("unknown command", word);
        return *command != NULL;
    }
    if ((*command)->forms == NULL || cli->n_words == CLI_WORDS_MAX) {
        usage("unexpected argument", word);
        return false;
    }
    cli->words[cli->n_words++] = word;
    return true;
}

/* Whether the words are those of the first form of `forms`; *fit: how many of them are. */
static bool fits(const char *forms, const struct cli *cli, unsigned *fit)
{
    size_t n;

    for (*fit = 0; (n = strcspn(forms, " |")) > 0; ++*fit) {
        const char *word = cli->words[*fit];
        bool any = forms[0] >= 'A' && forms[0] <= 'Z';

        if (*fit == cli->n_words ||
            (!any && (strlen(word) != n || strncmp(word, forms, n) != 0)))
            return false;
        forms += n;
        forms += *forms == ' ';
    }
    return *fit == cli->n_words;
}

/* Whether the command goes with the words that follow it; if not, it is told. */
static bool takes_words(const struct command *c, const struct cli *cli)
{
    const char *form = c->forms;
    unsigned fit, most = 0;

    while (form != NULL) {
        if (fits(form, cli, &fit))
            return true;
        most = fit > most ? fit : most;
        form = strchr(form, '|');
        form += form != NULL;
    }
    if (c->forms == NULL)
        return true;
    if (most < cli->n_words)
        usage("unexpected argument", cli->words[most]);
    else
        cli_fail("%s: an argument is missing: %s", c->name, c->forms);
    return false;
}

/* Behind a command it is asked of that, whatever else was said. */
static void ask_help(struct cli *cli, const struct command **command, unsigned *seen)
{
    cli->words[0] = (*command)->name;
    cli->n_words = 1;
    *command = find_command("help");
    *seen = 0;
}

/* Fills cli and *command (NULL: none was given). False: not understood, and told. */
static bool parse(struct cli *cli, int argc, char **argv, const struct command **command,
                  unsigned *seen)
{
    int used;

    for (int i = 1; i < argc; i += used) {
        used = 1;
        if (*command != NULL && is_help(argv[i])) {
            ask_help(cli, command, seen);
            return true;
        }
        if (argv[i][0] == '-' && find_command(argv[i]) == NULL)
            used = take_flag(cli, argv + i, seen);
        else if (!take_word(cli, argv[i], command))
            used = 0;
        if (used == 0)
            return false;
    }
    return true;
}

const char *cli_config_path(void)
{
    const char *path = getenv("PENNYGATE_CONFIG");

    return path != NULL && path[0] != '\0' ? path : CONFIG_PATH;
}

int cli_main(int argc, char **argv, char *const *env, bool listening)
{
    struct cli cli = {.env = env, .argv = argv, .listening = listening};
    const struct command *command = NULL;
    unsigned seen = 0;
    int status;

    if (!parse(&cli, argc, argv, &command, &seen))
        return CLI_USAGE;
    if (command != NULL && !takes_words(command, &cli))
        return CLI_USAGE;
    if (command != NULL && (seen & ~command->flags) != 0)
        return usage("a given flag does not go with", command->name);
    if (cli.config == NULL)
        cli.config = cli_config_path();
    if (command != NULL)
        status = command->run(&cli);
    else if (listening)
        status = cli_fastcgi(&cli);
    else
        status = cli_help(&cli);
    if (fflush(stdout) != 0 || ferror(stdout))
        status = cli_fail("standard output: %s", strerror(errno));
    return status;
}

/* ---- what commands share ---- */

static int load(const struct cli *cli, struct config **out, const char *if_denied)
{
    char message[CONFIG_ERROR_MAX];
    bool denied;

    if (config_load(cli->config, cli->env, out, message) == ERROR_NONE)
        return CLI_OK;
    denied = geteuid() != 0 && strstr(message, strerror(EACCES)) != NULL;
    cli_fail("%s%s", message, denied ? if_denied : "");
    return CLI_USAGE;
}

int cli_load(const struct cli *cli, struct config **out)
{
    return load(cli, out, " (run this as root or as the store's owner)");
}

int cli_become_owner(const struct cli *cli, struct config **config)
{
    const char *store = (*config)->store;
    char name[OWNER_NAME_MAX];
    struct owner o;
    uid_t before = geteuid();
    enum error e = owner_of(store, &o);

    if (e == ERROR_NOT_FOUND)
        return cli_fail("there is no store at %s: pennygate init makes it", store);
    if (e != ERROR_NONE)
        return cli_fail_at(store, e);
    if (owner_become(o) != ERROR_NONE)
        return cli_fail("%s belongs to %s: run this as that user or as root", store,
                        owner_name(o.uid, name));
    if (geteuid() == before)
        return CLI_OK;
    config_drop(*config);
    *config = NULL;
    if (load(cli, config, "") == CLI_OK)
        return CLI_OK;
    return cli_fail("%s, the store's owner, must be able to read these files",
                    owner_name(o.uid, name));
}

#define ANEW "; put it back from a copy, or move it away and pennygate init (all counts anew)"

static const struct {
    enum error error;
    const char *text;
} advice[] = {
    {ERROR_NOT_FOUND, "; put it back from a copy; if there is none, move the store away and "
                      "pennygate init (all counts anew; see pennygate(8))"},
    {ERROR_STORE_MISSING, "; a new site: pennygate init, an old one: put it back from a copy"},
    {ERROR_STORE_INVALID, ANEW},
    {ERROR_STORE_BROKEN, ANEW},
    {ERROR_STORE_VERSION, "; install the newer pennygate again"},
    {ERROR_STORE_SECRET, "; put the secret back that the store was made with"},
    {ERROR_STORE_ROLLED_BACK, "; if you put back a copy on purpose: stop the web server or "
                              "service, then pennygate adopt"},
    {ERROR_PERIODS, "; put the store back as a whole, this file included"},
    {ERROR_STORE_IO, "; is the disk full, or mounted read-only?"},
    {ERROR_STORE_FULL, "; raise store-size"},
    {ERROR_STORE_DURABILITY,
     "; set site { durability } back to what it was, or write it, export, "
     "move the store away, init and import (pennygate(8): DURABILITY)"},
    {ERROR_RUN_MISSING,
     "; tmpfiles.d or the init script must make it at every boot, mode 0700, "
     "owned by the store's owner"},
    {ERROR_OWNER, "; run this as their owner, or chown them and chmod 700"},
    {ERROR_CLOCK, "; set the clock"},
    {ERROR_LOOSE_MODE, "; chmod 600"},
    {ERROR_BUSY, "; another process holds the store: try again"},
    {ERROR_UNSUPPORTED,
     "; write site { durability = lease }, with run-directory on tmpfs, or put the store on "
     "ext4, f2fs, xfs, btrfs or tmpfs, not jffs2, NFS, FAT"},
};

const char *cli_advice(enum error e)
{
    for (size_t i = 0; i < COUNT(advice); i++) {
        if (advice[i].error == e)
            return advice[i].text;
    }
    return "";
}

int cli_fail_at(const char *path, enum error e)
{
    return cli_fail("%s: %s%s", path, e == ERROR_SYSTEM ? strerror(errno) : error_text(e),
                    cli_advice(e));
}

enum error cli_ledger_options(const struct config *c, struct ledger_options *o)
{
    *o = (struct ledger_options){.store = c->store,
                                 .run = c->run_directory,
                                 .map_bytes = c->store_size,
                                 .lease = c->lease,
                                 .clock = clock_read};
    return secret_read(c->secret_file, o->secret);
}

const char *cli_place(const struct config *c, enum error e)
{
    return e == ERROR_RUN_MISSING && c->run_directory != NULL ? c->run_directory : c->store;
}

int cli_store_failed(const struct config *c, enum error e)
{
    return cli_fail_at(cli_place(c, e), e);
}

int cli_keep(const struct config *c, struct ledger *l)
{
    const struct policy p = config_policy(c, false);
    enum error e = ledger_copy(l, &p);

    if (e == ERROR_NONE)
        return CLI_OK;
    return cli_fail(
        "it is done, but only holds until a power loss: the copy at %s could not be "
        "made: %s%s",
        c->store, error_text(e), cli_advice(e));
}

/* What comes of another copy in the store's place, or of a mark that is damaged. All else would
 * be as it is after adopting, too. */
static bool adoptable(enum error e)
{
    return e == ERROR_STORE_ROLLED_BACK || e == ERROR_STORE_REPLACED ||
           e == ERROR_STORE_INVALID;
}

int cli_open(const struct cli *cli, bool *adopt, struct config **config, struct ledger **ledger)
{
    struct ledger_options o;
    int status = cli_load(cli, config);
    enum error e;

    if (status == CLI_OK)
        status = cli_become_owner(cli, config);
    if (status != CLI_OK)
        return status;
    e = ledger_look((*config)->store);
    if (e != ERROR_NONE)
        return cli_store_failed(*config, e);
    e = cli_ledger_options(*config, &o);
    if (e != ERROR_NONE)
        return cli_fail("secret-file: %s: %s%s", (*config)->secret_file, error_text(e),
                        cli_advice(e));
    progress_begin("opening the store"); /* in the first of a boot all of it is looked at */
    e = ledger_open(&o, false, ledger);
    if (adopt != NULL && adoptable(e)) {
        e = ledger_open(&o, true, ledger);
        *adopt = e == ERROR_NONE;
    }
    progress_end();
    mac_wipe(o.secret, sizeof o.secret);
    return e == ERROR_NONE ? CLI_OK : cli_store_failed(*config, e);
}
