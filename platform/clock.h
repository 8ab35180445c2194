/*
 * The machine's clocks, as values: everything above takes a `struct clock_now` or a
 * `clock_fn`, so that tests can play any time through.
 */
#ifndef PLATFORM_CLOCK_H
#define PLATFORM_CLOCK_H

#include <stdint.h>
#include <time.h>

#include "platform/error.h"

struct clock_now {
    int64_t wall_ms;     /* CLOCK_REALTIME, since 1970 */
    int64_t boot_ms;     /* CLOCK_BOOTTIME: counts through suspend, starts anew at boot */
    uint8_t boot_id[16]; /* the kernel's random id of this boot */
};

typedef enum error clock_fn(struct clock_now *out);

/*
 * Reads both clocks and the boot id (kept once it could be read). ERROR_CLOCK if one cannot
 * be read or the wall clock is before the build date (BUILD_TIME, seconds, from the Makefile):
 * a machine without a clock battery must not open a window in 1970.
 */
enum error clock_read(struct clock_now *out);

/* CLOCK_MONOTONIC in milliseconds, which nobody sets: for timeouts, and for what the processes of
 * a boot count together by the second. Nothing that is kept longer. */
int64_t clock_monotonic_ms(void);

/* The same in microseconds, for measuring what takes less than a millisecond. */
int64_t clock_monotonic_us(void);

/* CLOCK_REALTIME in seconds since 1970, believed or not: for time stamps that people read. */
int64_t clock_wall_s(void);

/* For waits that end at an instant of it, not before 0. */
struct timespec clock_timespec(int64_t ms);

#endif
