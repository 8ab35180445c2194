/* Making and finding the live rows. Nothing here looks into a row. */
#include "store/liverows.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/random.h"
#include "store/mark.h"
#include "store/restore.h"

#define NEW     "new"
#define BOOT    "boot"
#define ID_SIZE 16

/* The note `boot`. */
struct note {
    uint8_t boot_id[ID_SIZE], name[LEASE_ROWS];
    struct file_id data; /* else a copy would go by the name, too */
};

/* Whether the rows at the path are those of the note. */
static bool is_their_note(const struct ledger *l, const struct note *note)
{
    char *data = file_join(l->rows, FILE_DATA);
    struct file_id id;
    bool is =
        data != NULL && file_id_path(data, &id) == ERROR_NONE && file_id_equal(id, note->data);

    free(data);
    return is;
}

static bool read_note(const struct ledger *l, struct note *out)
{
    char *path = file_join(l->rows, BOOT), *data = NULL;
    size_t n = 0;
    bool is = path != NULL && file_read(path, sizeof *out, &data, &n) == ERROR_NONE &&
              n == sizeof *out;

    if (is)
        memcpy(out, data, sizeof *out);
    free(data);
    free(path);
    return is;
}

static bool are_there(const struct ledger *l, const struct clock_now *now)
{
    struct note note;

    return read_note(l, &note) && memcmp(note.boot_id, now->boot_id, ID_SIZE) == 0 &&
           is_their_note(l, &note);
}

enum error liverows_name(struct ledger *l)
{
    struct note note;

    if (!read_note(l, &note) || !file_id_equal(note.data, kv_data_id(l->kv)))
        return ERROR_STORE_REPLACED;
    memcpy(l->rows_name, note.name, sizeof l->rows_name);
    return ERROR_NONE;
}

void liverows_forsake(struct ledger *l)
{
    char *path = file_join(l->rows, BOOT);
    struct note note;

    if (path != NULL && read_note(l, &note) &&
        memcmp(note.name, l->rows_name, sizeof note.name) == 0)
        unlink(path);
    free(path);
    ledger_break(l, ERROR_STORE_REPLACED);
}

/* It has files alone in it. */
static enum error remove_directory(const char *path)
{
    DIR *d = opendir(path);
    bool ok = true;

    if (d == NULL)
        return errno == ENOENT ? ERROR_NONE : ERROR_SYSTEM;
    // cppcheck-suppress readdirCalled ; a directory stream of its own
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            ok = unlinkat(dirfd(d), e->d_name, 0) == 0 && ok;
    closedir(d);
    return ok && rmdir(path) == 0 ? ERROR_NONE : ERROR_SYSTEM;
}

enum error liverows_lock(const struct ledger *l, int *fd)
{
    struct file_id held, there;
    int f = open(l->run, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    enum error e;

    if (f < 0)
        return ERROR_RUN_MISSING;
    e = file_lock(f, LEDGER_WAIT_MS);
    /* Somebody may have put another directory there meanwhile. */
    if (e == ERROR_NONE &&
        (file_id_fd(f, &held) != ERROR_NONE || file_id_path(l->run, &there) != ERROR_NONE ||
         !file_id_equal(held, there)))
        e = ERROR_RUN_MISSING;
    if (e != ERROR_NONE)
        close(f);
    else
        *fd = f;
    return e;
}

enum error liverows_begin(struct ledger *l)
{
    char *path = file_join(l->run, NEW);
    enum error e = path != NULL ? remove_directory(path) : ERROR_MEMORY;

    if (e == ERROR_NONE && mkdir(path, 0700) != 0)
        e = ERROR_SYSTEM;
    if (e == ERROR_NONE)
        e = random_bytes(l->rows_name, sizeof l->rows_name);
    if (e == ERROR_NONE)
        e = kv_create(path, l->options.map_bytes);
    if (e == ERROR_NONE)
        e = kv_open_unsynced(path, l->options.map_bytes, &l->kv);
    free(path);
    return e;
}

static void close_rows(struct ledger *l)
{
    if (l->kv != NULL)
        kv_close(l->kv);
    l->kv = NULL;
}

void liverows_discard(struct ledger *l)
{
    char *path = file_join(l->run, NEW);

    close_rows(l);
    if (path != NULL)
        (void)remove_directory(path);
    free(path);
}

static void note_walked(const struct ledger *l, const struct clock_now *now)
{
    char *data = file_join(l->rows, FILE_DATA);
    struct file_id id;

    if (data != NULL && file_id_path(data, &id) == ERROR_NONE)
        mark_walked_note(l->path_walked, now->boot_id, id);
    free(data);
}

enum error liverows_publish(struct ledger *l, const struct clock_now *now)
{
    char *path = file_join(l->run, NEW), *boot = path != NULL ? file_join(path, BOOT) : NULL;
    /* where the run directory is another one now, somebody else may be making theirs there */
    enum error e = boot != NULL ? kv_check_files(l->kv) : ERROR_MEMORY;
    struct note note = {.data = kv_data_id(l->kv)};

    close_rows(l);
    memcpy(note.boot_id, now->boot_id, sizeof note.boot_id);
    memcpy(note.name, l->rows_name, sizeof note.name);
    if (e == ERROR_NONE)
        e = file_create(boot, 0600, &note, sizeof note);
    if (e == ERROR_NONE)
        e = remove_directory(l->rows);
    if (e == ERROR_NONE && rename(path, l->rows) != 0)
        e = ERROR_SYSTEM;
    if (e == ERROR_NONE)
        note_walked(l, now);
    free(boot);
    free(path);
    return e;
}

static enum error restore_once(struct ledger *l, const struct clock_now *now, bool adopt)
{
    int lock;
    enum error e = liverows_lock(l, &lock);

    if (e != ERROR_NONE)
        return e;
    if (!are_there(l, now))
        e = restore_rows(l, now, adopt);
    close(lock);
    return e;
}

enum error liverows_need(struct ledger *l, const struct clock_now *now, bool adopt)
{
    return are_there(l, now) ? ERROR_NONE : restore_once(l, now, adopt);
}
