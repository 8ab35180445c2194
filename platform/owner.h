/*
 * Whose process this is. Commands of the owner are run by root as well; they must never leave
 * files in the store that its owner cannot open, so each becomes that owner first, for good.
 */
#ifndef PLATFORM_OWNER_H
#define PLATFORM_OWNER_H

#include <stdbool.h>
#include <sys/types.h>

#include "platform/error.h"

struct owner {
    uid_t uid;
    gid_t gid;
};

/* The owner of a directory. ERROR_NOT_FOUND, ERROR_SYSTEM (ENOTDIR if it is none). */
enum error owner_of(const char *directory, struct owner *out);

/* "USER" or "USER:GROUP", names or numbers; without a group the user's own. */
bool owner_parse(const char *text, struct owner *out);

/*
 * Becomes the owner: user, group and the user's further groups, in a way that cannot be undone
 * (verified). Nothing to do if the process is that user already. ERROR_SYSTEM with EPERM if
 * it is neither that user nor root. Before threads. Who has changed its user is dumped as the
 * system's fs.suid_dumpable says (2 where systemd-coredump is), whatever was asked for before: its
 * memory, with keys in it, is kept out of core files again.
 */
enum error owner_become(struct owner o);

/* The user's name, or its number. Returns out. */
#define OWNER_NAME_MAX 64
char *owner_name(uid_t uid, char out[OWNER_NAME_MAX]);

#endif
