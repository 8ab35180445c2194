/*
 * init: the only command that makes a store. Never over another one, never as a user who would
 * lock the gateway out of it, and each step is told.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/cli.h"
#include "platform/mac.h"

#define LOCALTIME     "/etc/localtime"
#define LOCALTIME_MAX 65536 /* the largest zone file has 4 KB */

static void made(const char *what, const char *path)
{
    printf("%-14s %s\n", what, path);
}

/* ---- whose it will be ---- */

static bool is_empty_directory(const char *path)
{
    DIR *d = opendir(path);
    bool empty = d != NULL;

    // cppcheck-suppress readdirCalled ; no threads here
    for (struct dirent *e = empty ? readdir(d) : NULL; e != NULL; e = readdir(d))
        empty = empty && (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0);
    if (d != NULL)
        closedir(d);
    return empty;
}

/* Root must say whose the store is to be, unless the directory does. */
static int choose_owner(const struct cli *cli, const char *store, struct owner *out)
{
    struct owner there = {0, 0};
    enum error e = owner_of(store, &there);
    char name[OWNER_NAME_MAX];
    bool exists = e == ERROR_NONE;

    if (e != ERROR_NONE && e != ERROR_NOT_FOUND)
        return cli_fail_at(store, e);
    *out = exists ? there : (struct owner){geteuid(), getegid()};
    if (cli->owner == NULL) {
        if (geteuid() != 0 || out->uid != 0)
            return CLI_OK;
        return cli_fail("as root say whose the store will be: --owner USER, the user that the "
                        "web server\nor pennygate serve runs as (www-data, for example), or "
                        "--owner root");
    }
    if (!owner_parse(cli->owner, out)) {
        cli_fail("there is no such user or group: %s", cli->owner);
        return CLI_USAGE;
    }
    if (exists && there.uid != out->uid && !(there.uid == 0 && is_empty_directory(store)))
        return cli_fail("%s belongs to %s: leave --owner out, or chown it", store,
                        owner_name(there.uid, name));
    return CLI_OK;
}

/* Of a store that was moved away while its rows lived on. */
static int refuse_live_rows(const struct config *c)
{
    struct stat st;
    char *path;
    int status = CLI_OK;

    if (!c->lease)
        return CLI_OK;
    if (asprintf(&path, "%s/store", c->run_directory) < 0)
        return cli_fail_at(c->run_directory, ERROR_MEMORY);
    if (lstat(path, &st) == 0)
        status =
            cli_fail("%s: the rows of a store are live there, but not at %s: put the store "
                     "back, or remove\nthese (all counts anew)",
                     path, c->store);
    free(path);
    return status;
}

static bool is_at(const char *directory, const char *name)
{
    struct stat st;
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/%s", directory, name);
    return lstat(path, &st) == 0;
}

/* Looked for before anything is made: beside a store a new secret would only hide that its own
 * is missing. Anything of a store is one, as it is for ledger_create, which ends what was begun. */
static int refuse_second(const struct config *c, bool has_secret)
{
    static const char *const names[] = {"data.mdb", "lock.mdb", "periods", "copy", "lease"};
    bool there = false;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        there = there || is_at(c->store, names[i]);
    if (!there)
        return refuse_live_rows(c);
    if (!has_secret)
        return cli_fail("%s: there is a store already, but its secret, %s, is missing; put it "
                        "back from a copy\n(pennygate(8): A lost secret)",
                        c->store, c->secret_file);
    if (!is_at(c->store, "making"))
        return cli_fail("%s: there is a store already; init never makes one over another",
                        c->store);
    return is_at(c->store, "lease") ? CLI_OK : refuse_live_rows(c);
}

/* ---- what is made ---- */

static int make_directory(const char *path, struct owner o)
{
    struct stat st;
    bool is_new = mkdir(path, 0700) == 0;

    if (!is_new && errno == ENOENT)
        return cli_fail("%s: the directory above it is missing: mkdir -p %.*s", path,
                        (int)(strrchr(path, '/') - path), path);
    if ((!is_new && errno != EEXIST) ||
        (geteuid() == 0 && (is_new || o.uid != 0) && chown(path, o.uid, o.gid) != 0))
        return cli_fail_at(path, ERROR_SYSTEM);
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
        return cli_fail("%s: not a directory", path);
    if ((st.st_mode & 022) != 0)
        return cli_fail("%s: others can write there: chmod 700", path);
    if (is_new)
        made("directory", path);
    return CLI_OK;
}

/* Whether the file's directory is root's alone, so that nobody can put another file in place of
 * the one that root makes there. */
static bool in_roots_directory(const char *path)
{
    struct stat st;
    char *directory = strdup(path), *slash = directory != NULL ? strrchr(directory, '/') : NULL;
    bool is;

    if (slash != NULL)
        slash[slash == directory] = '\0';
    is =
        slash != NULL && stat(directory, &st) == 0 && st.st_uid == 0 && (st.st_mode & 022) == 0;
    free(directory);
    return is;
}

/* One that only root can read is of no use to the owner: a copy that was put back, or all that an
 * init before this one came to. */
static int hand_over_secret(const char *path, struct owner o)
{
    struct stat st;

    if (geteuid() != 0 || o.uid == 0 || lstat(path, &st) != 0 || !S_ISREG(st.st_mode) ||
        st.st_uid != 0 || (st.st_mode & 077) != 0)
        return CLI_OK;
    return lchown(path, o.uid, o.gid) == 0 ? CLI_OK : cli_fail_at(path, ERROR_SYSTEM);
}

/* Called as root and again as the owner: whoever can make it does. */
static int make_secret(const struct config *c, struct owner o)
{
    enum error e;

    if (geteuid() == 0 && o.uid != 0 && !in_roots_directory(c->secret_file))
        return CLI_OK;
    if (access(c->secret_file, F_OK) == 0)
        return hand_over_secret(c->secret_file, o);
    e = secret_create(c->secret_file);
    if (e == ERROR_NONE && geteuid() == 0 && chown(c->secret_file, o.uid, o.gid) != 0)
        e = ERROR_SYSTEM;
    if (e != ERROR_NONE)
        return cli_fail_at(c->secret_file, e);
    made("secret", c->secret_file);
    return CLI_OK;
}

static int read_secret(const struct config *c, bool kept, uint8_t secret[SECRET_SIZE])
{
    enum error e = secret_read(c->secret_file, secret);

    if (kept)
        made("secret (kept)", c->secret_file);
    return e == ERROR_NONE ? CLI_OK : cli_fail_at(c->secret_file, e);
}

/* The rule of local time, kept in the store so that all processes agree on it. */
static bool find_zone(const struct config *c, char out[ZONE_TEXT_MAX])
{
    const char *tz = getenv("TZ");
    struct zone parsed;
    char *content;
    size_t n;
    bool ok = true;

    snprintf(out, ZONE_TEXT_MAX, "UTC0");
    if (tz != NULL && strlen(tz) < ZONE_TEXT_MAX && zone_parse(tz, &parsed)) {
        snprintf(out, ZONE_TEXT_MAX, "%s", tz);
    } else if (file_read(LOCALTIME, LOCALTIME_MAX, &content, &n) == ERROR_NONE) {
        ok = zone_from_tzfile(content, n, out);
        free(content);
    }
    return ok || !c->local_time;
}

/* A script that chooses the durability goes by the status. */
static int unsupported(const struct config *c)
{
    if (c->lease)
        return cli_fail("%s: %s: it must be on tmpfs", c->run_directory,
                        error_text(ERROR_UNSUPPORTED));
    cli_fail_at(c->store, ERROR_UNSUPPORTED);
    return CLI_UNABLE;
}

static int make_store(const struct config *c, const uint8_t secret[SECRET_SIZE])
{
    struct ledger_options o = {.store = c->store,
                               .run = c->run_directory,
                               .map_bytes = c->store_size,
                               .lease = c->lease,
                               .clock = clock_read};
    char zone[ZONE_TEXT_MAX];
    enum error e;

    if (!find_zone(c, zone))
        return cli_fail("%s: no zone that can be understood; set TZ to a rule such as "
                        "CET-1CEST,M3.5.0,M10.5.0/3",
                        LOCALTIME);
    memcpy(o.secret, secret, sizeof o.secret);
    e = ledger_create(&o, zone);
    mac_wipe(o.secret, sizeof o.secret);
    if (e == ERROR_UNSUPPORTED)
        return unsupported(c);
    if (e != ERROR_NONE)
        return cli_store_failed(c, e);
    made("store", c->store);
    if (c->local_time)
        made("zone", zone);
    return CLI_OK;
}

static void next_step(const struct cli *cli, const struct config *c)
{
    if (c->run_directory != NULL)
        cli_wrap_at(
            0, "",
            "If %s is on a tmpfs, let tmpfiles.d or the init script make it at each boot.",
            c->run_directory);
    if (strcmp(cli->config, CONFIG_PATH) == 0)
        printf("Next: pennygate check\n");
    else
        printf("Next: pennygate -c %s check\n", cli->config);
}

int cli_init(struct cli *cli)
{
    struct config *c;
    struct owner o = {0, 0};
    uint8_t secret[SECRET_SIZE];
    bool kept;
    int status = cli_load(cli, &c);

    kept = status == CLI_OK && access(c->secret_file, F_OK) == 0;
    if (status == CLI_OK)
        status = choose_owner(cli, c->store, &o);
    if (status == CLI_OK)
        status = refuse_second(c, kept);
    if (status == CLI_OK)
        status = make_directory(c->store, o);
    if (status == CLI_OK && c->run_directory != NULL)
        status = make_directory(c->run_directory, o);
    if (status == CLI_OK)
        status = make_secret(c, o);
    if (status == CLI_OK)
        status = cli_become_owner(cli, &c);
    if (status == CLI_OK)
        status = make_secret(c, o);
    if (status == CLI_OK)
        status = read_secret(c, kept, secret);
    if (status == CLI_OK)
        status = make_store(c, secret);
    mac_wipe(secret, sizeof secret);
    if (status == CLI_OK)
        next_step(cli, c);
    return status;
}
