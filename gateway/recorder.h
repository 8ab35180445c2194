/*
 * The recorder: takes transcripts and lets one thread of its own write them into the archive
 * (store/archive.h), started by the first. Whoever answers a caller only leaves a copy in a
 * bounded queue: a slow or broken archive delays nobody and changes nothing. What cannot be
 * kept is told in the log.
 *
 * A process that serves one request has no such thread: it writes, by recorder_run, once the
 * answer has been sent.
 */
#ifndef GATEWAY_RECORDER_H
#define GATEWAY_RECORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/config.h"
#include "store/transcript.h"

struct recorder;

/* ERROR_MEMORY only. */
enum error recorder_new(bool single, struct recorder **out);

/* Queues a copy of it, as of now, by c's transcripts section. When the queue is full it is
 * dropped. Thread-safe. */
void recorder_put(struct recorder *r, const struct config *c, const struct transcript *t);

/* Single: whether there is something to write, and writing it; bounded. */
bool recorder_waits(const struct recorder *r);
void recorder_run(struct recorder *r);

/* Nothing more is taken; what is queued is still written. Does not wait. */
void recorder_stop(struct recorder *r);
/* Waits for that, at most bound_ms. False: it is stuck, and all that it has is left to it
 * until the process ends. */
bool recorder_free(struct recorder *r, int64_t bound_ms);

#endif
