/*
 * Who is alive: a place is held by an open-file-description lock on the byte at offset `id`
 * of a file in the run directory, so that it is free as soon as its holder is gone, also by
 * SIGKILL. One description per process; a process cannot see its own locks, so it keeps a
 * table of its own ids. A forked child shares the description, and keeps its parent's places
 * until it ends or closes the descriptor. Thread-safe.
 */
#ifndef PLATFORM_LIVE_H
#define PLATFORM_LIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "platform/error.h"

struct live;

/* Opens the file at `path`, creating it (0600) in its existing directory. ERROR_RUN_MISSING if
 * the directory is not there, ERROR_UNSUPPORTED if its file system has no OFD locks. */
enum error live_open(const char *path, struct live **out);
void live_close(struct live *l);

/* Takes the place `id` (63 random bits; the top bit must be clear). ERROR_BUSY if taken,
 * ERROR_MEMORY if the own table (LIVE_OWN_MAX) is full. */
#define LIVE_OWN_MAX 4096 /* far above the streams of a process; bounds the table */
enum error live_hold(struct live *l, uint64_t id);
void live_drop(struct live *l, uint64_t id);

/* Whether some process holds `id`. If it cannot be told, true: a place in doubt is taken. */
bool live_is_held(struct live *l, uint64_t id);

/* The descriptor's file, to be compared with what stands at the path. */
int live_fd(const struct live *l);

#endif
