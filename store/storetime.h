/*
 * Store time (pure): the time by which windows are measured. It never goes back. While it is
 * ahead of the clock it advances at half the rate of CLOCK_BOOTTIME until the clock has caught
 * up, so that no window is shorter than it says and every window ends. A function of what is
 * stored and now alone, so that refusals compute it without writing.
 */
#ifndef STORE_STORETIME_H
#define STORE_STORETIME_H

#include <stdbool.h>
#include <stdint.h>

#include "platform/clock.h"

struct storetime {
    int64_t time_ms;       /* store time at the last write */
    int64_t boot_ms;       /* CLOCK_BOOTTIME then */
    int64_t hold_until_ms; /* nothing is erased before this store time; 0: no hold */
    uint8_t boot_id[16];
};

/* No instant in the store is later (the year 287396): sums and doubles of two cannot wrap. */
#define INSTANT_MAX_MS ((int64_t)1 << 53)

/* How far the clock may step (forward, beyond what boot time explains) before erasing waits. */
#define STORETIME_STEP_MS (24LL * 3600 * 1000)
#define STORETIME_HOLD_MS (24LL * 3600 * 1000)

/* Store time now; at least s->time_ms. */
int64_t storetime_now(const struct storetime *s, const struct clock_now *now);

/*
 * Whether store time has gone on by so much since it was written, all of it ahead of the clock,
 * that timed work should write it: it is boot time alone that says so, and with the boot it would be
 * lost. Otherwise the windows of a machine that is never on for long would not end.
 */
#define STORETIME_NOTE_MS (5LL * 60 * 1000)
bool storetime_must_note(const struct storetime *s, const struct clock_now *now);

/* Writes now into s; sets the hold after a step of more than STORETIME_STEP_MS. */
void storetime_advance(struct storetime *s, const struct clock_now *now);

/* Whether ended rows and keys may be erased at the store time. */
bool storetime_may_erase(const struct storetime *s, int64_t store_ms);

/*
 * Real milliseconds from now until store time will be until_ms (0 if it is), given that the
 * clock does not step: twice the distance while the store is ahead. Never early.
 */
int64_t storetime_wait_ms(const struct storetime *s, const struct clock_now *now,
                          int64_t until_ms);

#endif
