/*
 * The service: one configuration in force, one ledger, one upstream, and what is done with each
 * exchange, in this order:
 *
 *   route -> configuration (changed? reload) -> request -> caller -> ledger_check -> libcurl
 *   -> stream place -> ledger_reserve -> upstream -> ledger_settle -> one log line
 *
 * service_handle is called by many threads at once and always answers.
 */
#ifndef GATEWAY_SERVICE_H
#define GATEWAY_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/config.h"
#include "gateway/exchange.h"

struct service;

/*
 * Loads the configuration at `path` and opens the store. Never fails for their sake: what
 * cannot be opened is logged, answered with 503, and tried again when it may have been mended
 * (at most once a second). ERROR_MEMORY only. Before threads. `single`: this process serves one
 * request.
 */
enum error service_new(const char *path, char *const *env, bool single, struct service **out);

/* The configuration in force, held; NULL if there is none. Drop it with config_drop. */
struct config *service_config(struct service *s);

void service_handle(struct service *s, struct exchange *x);

/* For a process that stays: gives back memory that nobody has had a use for in a while. In how many
 * milliseconds there may be more; -1: not before another exchange. */
int64_t service_rest(struct service *s);

/* For a process that serves one request: whether something is left to be done that nobody waits
 * for, once the answer is out and standard output is let go; and doing it, within a second
 * where nothing is sick, but for a copy of the store to flash. */
bool service_has_more(const struct service *s);
void service_do_more(struct service *s);

/* No further request is admitted (503 stopping); streams that run go on. */
void service_stop(struct service *s);
/* Cuts what still runs: their callers get an error event, their settles are queued. */
void service_cut(struct service *s);

/* Whether what changed can only be taken up by starting the process anew. */
bool service_wants_restart(struct service *s);

/* Commits the settles that wait, closes everything. False if the writer is stuck: _exit. */
bool service_free(struct service *s, int64_t bound_ms);

#endif
