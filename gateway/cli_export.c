/*
 * export and import: the store as a file that any machine can read, and back. Both open the
 * file before they become the store's owner, who need not be able to: the file is of whoever
 * asks. It is as secret as the store, and so made for its owner alone, and never over another.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/cli.h"
#include "platform/mac.h"
#include "store/export.h"

/* ---- export ---- */

/* NULL: it was told why not. */
static FILE *make_file(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;

    if (f != NULL)
        return f;
    if (fd < 0 && errno == EEXIST)
        cli_fail("%s: there is one already; export never writes over a file", path);
    else
        cli_fail_at(path, ERROR_SYSTEM);
    if (fd >= 0) {
        close(fd);
        unlink(path);
    }
    return NULL;
}

/* Half an export would be refused, but it is as secret as a whole one. It may be in a directory
 * in which the store's owner can remove nothing. */
static void discard(const char *path, FILE *f)
{
    bool emptied = ftruncate(fileno(f), 0) == 0;

    if (unlink(path) != 0)
        cli_fail("%s is %s: remove it", path, emptied ? "empty" : "incomplete");
}

static int write_file(const struct config *c, struct ledger *l, const char *path, FILE *f)
{
    const struct policy p = config_policy(c, false);
    uint64_t rows;
    enum error e;

    /* So that refusals are in it which are in no row yet. A store on a disk that is full can be
     * exported all the same. */
    (void)ledger_maintain(l, &p);
    e = ledger_export(l, f, &rows);
    if (e == ERROR_NONE && (fflush(f) != 0 || fsync(fileno(f)) != 0))
        e = ERROR_SYSTEM;
    if (e != ERROR_NONE) {
        int status = e == ERROR_SYSTEM ? cli_fail_at(path, e) : cli_store_failed(c, e);

        discard(path, f);
        return status;
    }
    cli_wrap_at(0, "", "exported: %" PRIu64 " rows to %s, which is as secret as the store",
                rows, path);
    return CLI_OK;
}

int cli_export(struct cli *cli)
{
    const char *path = cli->words[0];
    struct config *c;
    struct ledger *l;
    FILE *f = make_file(path);
    int status;

    if (f == NULL)
        return CLI_FAILED;
    status = cli_open(cli, NULL, &c, &l);
    if (status == CLI_OK)
        status = write_file(c, l, path, f);
    else
        discard(path, f);
    fclose(f);
    return status;
}

/* ---- import ---- */

/* It must be one that its owner alone can have written and read. */
static enum error judge_file(int fd)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return ERROR_SYSTEM;
    if (!S_ISREG(st.st_mode))
        return ERROR_NOT_REGULAR;
    return (st.st_mode & 077) == 0 ? ERROR_NONE : ERROR_LOOSE_MODE;
}

/* NULL: it was told why not. */
static FILE *open_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    FILE *f = NULL;
    enum error e;

    if (fd < 0) {
        cli_fail_at(path, ERROR_SYSTEM);
        return NULL;
    }
    e = judge_file(fd);
    if (e == ERROR_NONE && (f = fdopen(fd, "r")) == NULL)
        e = ERROR_MEMORY;
    if (e != ERROR_NONE) {
        cli_fail_at(path, e);
        close(fd);
    }
    return f;
}

static int import_failed(const struct config *c, const char *path, enum error e,
                         unsigned long line)
{
    switch (e) {
    case ERROR_EXISTS:
        return cli_fail("%s: this store has counted already, and an import would undo that; "
                        "it goes into one\nthat init has just made (pennygate(8): BACKUP)",
                        c->store);
    case ERROR_SYNTAX:
        return cli_fail("%s: line %lu: no export, or not all of one, or one that was changed; "
                        "nothing was imported",
                        path, line);
    case ERROR_STORE_SECRET:
    case ERROR_STORE_VERSION: /* without a line it is about the store */
        return cli_fail_at(line > 0 ? path : c->store, e);
    case ERROR_SYSTEM:
        return cli_fail_at(path, e);
    default:
        return cli_store_failed(c, e);
    }
}

static void tell(const char *path, const struct import_report *r)
{
    cli_wrap_at(0, "", "imported: %" PRIu64 " rows from %s", r->rows, path);
    if (r->under_way > 0)
        cli_wrap_at(0, "", "%u calls that were under way stay charged in full", r->under_way);
    if (r->ahead)
        cli_wrap_at(0, "", "the store's time is ahead of the clock (pennygate clock)");
    if (r->paused)
        cli_wrap_at(0, "", "the site is paused: pennygate resume");
}

static int read_file(const struct config *c, const char *path, FILE *f)
{
    struct import_report r = {0};
    struct ledger_options o;
    enum error e = cli_ledger_options(c, &o);

    if (e != ERROR_NONE)
        return cli_fail("secret-file: %s: %s%s", c->secret_file, error_text(e), cli_advice(e));
    e = ledger_import(&o, f, &r);
    mac_wipe(o.secret, sizeof o.secret);
    if (e != ERROR_NONE)
        return import_failed(c, path, e, r.line);
    tell(path, &r);
    return CLI_OK;
}

int cli_import(struct cli *cli)
{
    const char *path = cli->words[0];
    struct config *c;
    FILE *f = open_file(path);
    int status;

    if (f == NULL)
        return CLI_FAILED;
    status = cli_load(cli, &c);
    if (status == CLI_OK)
        status = cli_become_owner(cli, &c);
    if (status == CLI_OK)
        status = read_file(c, path, f);
    fclose(f);
    return status;
}
