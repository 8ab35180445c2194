/*
 * Stores of an older program: what is done at opening so that this one can go on counting in
 * them. A table has one step for each version, from it to the next; all rows are taken through
 * the steps in one write transaction, so that a store is of one version or of the other and
 * never of both. A store of a newer program is left alone: ERROR_STORE_VERSION.
 *
 * At opening, and not by an export of the old program and an import by the new one: a package
 * manager has replaced the old program before anybody could ask it for an export. Processes of
 * the old program that still run find rows of a version that they do not know, and refuse
 * everything until they are replaced too. An export (store/export.h) of an older program goes
 * through the same steps.
 */
#ifndef STORE_UPGRADE_H
#define STORE_UPGRADE_H

#include "store/kv.h"
#include "store/record.h"

/*
 * Takes a row from one version to the next: key and value as that one writes them, its version
 * byte included. False for a row that it cannot make sense of: then nothing is upgraded.
 */
typedef bool upgrade_step(struct row_key *key, struct record *value);

/* [n]: from version n to n + 1; NULL: there was no version n (store/upgrade_steps.c). */
extern upgrade_step *const upgrade_steps[RECORD_VERSION];

/* The version byte of a row; 0 (no program wrote that) if it has none. */
unsigned upgrade_version(const struct kv_slice *key, const struct kv_slice *value);

/* Takes a row of any version to ours. ERROR_STORE_VERSION: of a newer one, untouched.
 * ERROR_STORE_INVALID: there is no way from it, or a step refused it. */
enum error upgrade_row(struct row_key *key, struct record *value);

/* What has been seen of a store's rows; begins as {0}. */
struct upgrade_look {
    bool begun;
    unsigned version; /* of the first row */
};

/*
 * Whether the rows that it is called with, one after the other and with the same struct
 * upgrade_look, are those of one store: all of one version, and what this program may have
 * written once they are taken to ours. Of a newer version all that can be said is that it is
 * the same in all. For the walk at opening.
 */
bool upgrade_row_ok(void *look, const void *key, size_t nkey, const void *value, size_t nvalue);

/* Takes all rows to our version and commits; does nothing if another process has done it
 * meanwhile. ERROR_STORE_FULL: every page is written anew, which needs as much room again;
 * otherwise as upgrade_row and kv_*. */
enum error upgrade_store(struct kv *kv);

#endif
