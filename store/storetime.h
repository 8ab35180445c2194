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
    int64_t hold_until_ms; /* until this store time little is erased; 0: no hold */
    int64_t before_ms;     /* store time before the step; what had ended by then still can be */
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
 * Whether timed work should write the time although nothing else is written: of another boot, or a
 * step, so that its hold begins; or it has gone on by so much ahead of the clock. It is boot time
 * alone that says so then, which is lost with the boot, and the windows of a machine that is never
 * on for long would not end.
 */
#define STORETIME_NOTE_MS (5LL * 60 * 1000)
bool storetime_must_note(const struct storetime *s, const struct clock_now *now);

/* Store time becomes t_ms, if that is later, and is known from elsewhere; as after a step, if it is
 * one. */
void storetime_raise(struct storetime *s, int64_t t_ms);

/* Writes now into s; begins a hold after a step of more than STORETIME_STEP_MS. */
void storetime_advance(struct storetime *s, const struct clock_now *now);

/*
 * Rows and keys may be erased at the store time if they have ended by this one, which is no later.
 * A step can be wrong, and is taken back by `clock reset`: what it has ended is kept through the
 * hold. What had ended before goes: a machine that is on for an hour each week takes a step at each
 * boot, and would keep everything for ever.
 */
int64_t storetime_erase_ms(const struct storetime *s, int64_t store_ms);

/*
 * Real milliseconds from now until store time will be until_ms (0 if it is), given that the
 * clock does not step: twice the distance while the store is ahead. Never early.
 */
int64_t storetime_wait_ms(const struct storetime *s, const struct clock_now *now,
                          int64_t until_ms);

#endif
