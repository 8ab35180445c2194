/*
 * The site in force: its configuration and its ledger, both taken up anew when they have
 * changed or have been mended, while requests run. Fails closed: as long as the one does not
 * parse or the other does not open, a request gets the code that says so and nothing to count
 * with.
 */
#ifndef GATEWAY_SITE_H
#define GATEWAY_SITE_H

#include <stdbool.h>

#include "gateway/code.h"
#include "gateway/config.h"
#include "platform/error.h"
#include "store/ledger.h"

struct site;

/*
 * `path` is copied, `env` borrowed for as long as the site lives. What cannot be loaded or
 * opened is logged and tried again by site_enter. ERROR_MEMORY only. Before threads.
 */
enum error site_new(const char *path, char *const *env, struct site **out);
/* With durability `lease` a last copy is made. False if the ledger's writer did not stop in time:
 * the process must _exit. */
bool site_free(struct site *s, int64_t bound_ms);

/* The configuration in force, held; NULL if there has been none yet. */
struct config *site_config(struct site *s);

/* What one request works with; it stays the same until site_leave, whatever changes
 * meanwhile. */
struct site_use {
    struct config *config; /* NULL: none */
    struct ledger *ledger; /* NULL: none */
    enum code code;        /* CODE_NONE: both are there and in force; else why not */
};
void site_enter(struct site *s, struct site_use *out);
void site_leave(struct site *s, struct site_use *use);

/*
 * A call with use->ledger has failed: logs it, and lets the ledger be opened anew where that
 * can mend it (once no request uses it). Returns the code for the caller.
 */
enum code site_fault(struct site *s, const struct site_use *use, enum error e);

/* For a process that serves one request, once that is over: whether the store is to be copied to
 * flash (durability `lease`), and doing it, which can take seconds. */
bool site_copy_is_due(struct site *s);
void site_copy(struct site *s);

/* Whether what changed can only be taken up by starting the process anew. */
bool site_wants_restart(const struct site *s);

#endif
