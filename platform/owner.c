/*
 * Becoming the store's owner. The order matters: groups while still root, the user last, and
 * then a proof that there is no way back.
 */
#include "platform/owner.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum error owner_of(const char *directory, struct owner *out)
{
    struct stat st;

    if (stat(directory, &st) != 0)
        return errno == ENOENT ? ERROR_NOT_FOUND : ERROR_SYSTEM;
    if (!S_ISDIR(st.st_mode)) {
        errno = ENOTDIR;
        return ERROR_SYSTEM;
    }
    *out = (struct owner){st.st_uid, st.st_gid};
    return ERROR_NONE;
}

/* A number of an account; the highest is reserved, chown takes it for "unchanged". */
static bool parse_id(const char *text, unsigned *out)
{
    char *end;
    unsigned long v;

    if (text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    v = strtoul(text, &end, 10);
    if (errno != 0 || *end != '\0' || v >= 0xffffffffUL)
        return false;
    *out = (unsigned)v;
    return true;
}

static bool parse_group(const char *text, gid_t *out)
{
    // cppcheck-suppress getgrnamCalled ; before threads, as all here
    const struct group *g = getgrnam(text);
    unsigned id;

    if (g == NULL && !parse_id(text, &id))
        return false;
    *out = g != NULL ? g->gr_gid : (gid_t)id;
    return true;
}

bool owner_parse(const char *text, struct owner *out)
{
    const char *colon = strchr(text, ':');
    size_t n = colon != NULL ? (size_t)(colon - text) : strlen(text);
    char name[OWNER_NAME_MAX];
    const struct passwd *p;
    struct owner o;
    unsigned id = 0;

    if (n == 0 || n >= sizeof name)
        return false;
    memcpy(name, text, n);
    name[n] = '\0';
    // cppcheck-suppress getpwnamCalled
    p = getpwnam(name);
    if (p == NULL && parse_id(name, &id))
        // cppcheck-suppress getpwuidCalled
        p = getpwuid((uid_t)id);
    else if (p == NULL)
        return false;
    o.uid = p != NULL ? p->pw_uid : (uid_t)id;
    o.gid = p != NULL ? p->pw_gid : (gid_t)id;
    if (colon != NULL && !parse_group(colon + 1, &o.gid))
        return false;
    *out = o;
    return true;
}

static bool set_groups(struct owner o)
{
    // cppcheck-suppress getpwuidCalled
    const struct passwd *p = getpwuid(o.uid);

    if (p != NULL)
        return initgroups(p->pw_name, o.gid) == 0;
    return setgroups(1, &o.gid) == 0;
}

enum error owner_become(struct owner o)
{
    if (geteuid() == o.uid && getuid() == o.uid)
        return ERROR_NONE;
    if (geteuid() != 0) {
        errno = EPERM;
        return ERROR_SYSTEM;
    }
    if (!set_groups(o) || setgid(o.gid) != 0 || setuid(o.uid) != 0)
        return ERROR_SYSTEM;
    if (getuid() != o.uid || geteuid() != o.uid || getegid() != o.gid || setuid(0) == 0) {
        errno = EPERM;
        return ERROR_SYSTEM;
    }
    return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0 ? ERROR_NONE : ERROR_SYSTEM;
}

char *owner_name(uid_t uid, char out[OWNER_NAME_MAX])
{
    // cppcheck-suppress getpwuidCalled
    const struct passwd *p = getpwuid(uid);

    if (p != NULL)
        snprintf(out, OWNER_NAME_MAX, "%s", p->pw_name);
    else
        snprintf(out, OWNER_NAME_MAX, "%lu", (unsigned long)uid);
    return out;
}
