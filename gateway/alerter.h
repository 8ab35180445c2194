/*
 * Who delivers alerts. In a process that serves many requests a thread of its own, started once
 * the configuration has a webhook; on hosts that only run CGI `pennygate maintain`. It looks
 * for what is due every few seconds and when this process has queued something, from a read
 * transaction, and never holds the site's ledger while it posts: neither an answer nor a changed
 * configuration waits for a webhook. An alert is posted until that worked, so it may come twice.
 *
 * That the meter is unavailable cannot be queued in the store: it is told once an hour over all
 * processes by a file in the run directory, or once an hour and process where even that cannot
 * be written, and is retried from memory.
 */
#ifndef GATEWAY_ALERTER_H
#define GATEWAY_ALERTER_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/code.h"
#include "gateway/config.h"
#include "gateway/site.h"
#include "store/ledger.h"

struct alerter;

/* `site` is borrowed. Before there are workers, and after the site's store was opened. */
enum error alerter_new(struct site *site, struct alerter **out);

/* After each request: what became of it. Cheap, and waits for nothing. `a` may be NULL. */
void alerter_note(struct alerter *a, const struct site_use *use, enum code code);

/* Leaves a post at once and ends the thread. False if it did not end in time (a name is being
 * looked up by a libcurl that cannot be interrupted): the process must _exit. */
bool alerter_free(struct alerter *a, int64_t bound_ms);

/* For maintain: posts what is due, at most a few and for some seconds. */
void alerter_deliver(const struct config *c, struct ledger *l);
/* For maintain: it has found the meter unavailable. */
void alerter_meter(const struct config *c);

#endif
