/*
 * Store time: what time it is for windows, from what was stored and the machine's clocks now.
 * Pure. The clocks may step anywhere and the stored values may be anything: both are bounded
 * first, so that no sum overflows, and store time never goes back. Between two writes it never
 * runs faster than CLOCK_BOOTTIME unless the clock itself is ahead of it.
 */
#include "store/storetime.h"

#include <string.h>

/* The end of the year 9999. Linux's clock ends in 2262, so no honest one comes near it. */
#define TIME_MAX_MS 253402300799999

static int64_t bounded(int64_t t_ms)
{
    if (t_ms < 0)
        return 0;
    return t_ms < TIME_MAX_MS ? t_ms : TIME_MAX_MS;
}

/*
 * Boot time since the last write; at least so much real time has passed. Of another boot only
 * its own uptime is known. Negative if the write saw a later boot time than we do, which two
 * processes that read the clock and then wait for the write lock can bring about.
 */
static int64_t elapsed_ms(const struct storetime *s, const struct clock_now *now)
{
    int64_t boot_ms = bounded(now->boot_ms);
    if (memcmp(s->boot_id, now->boot_id, sizeof s->boot_id) != 0)
        return boot_ms;
    return boot_ms - bounded(s->boot_ms);
}

/* What store time is while it is ahead of the clock. */
static int64_t half_rate_ms(const struct storetime *s, int64_t elapsed)
{
    return bounded(bounded(s->time_ms) + (elapsed > 0 ? elapsed / 2 : 0));
}

int64_t storetime_now(const struct storetime *s, const struct clock_now *now)
{
    int64_t slow_ms = half_rate_ms(s, elapsed_ms(s, now));
    int64_t wall_ms = bounded(now->wall_ms);
    return wall_ms > slow_ms ? wall_ms : slow_ms;
}

static bool is_step(const struct storetime *s, const struct clock_now *now)
{
    int64_t elapsed = elapsed_ms(s, now);

    return bounded(now->wall_ms) - bounded(s->time_ms) - (elapsed > 0 ? elapsed : 0) >
           STORETIME_STEP_MS;
}

bool storetime_must_note(const struct storetime *s, const struct clock_now *now)
{
    int64_t time_ms = storetime_now(s, now);

    return is_step(s, now) || memcmp(s->boot_id, now->boot_id, sizeof s->boot_id) != 0 ||
           (time_ms > bounded(now->wall_ms) &&
            time_ms - bounded(s->time_ms) >= STORETIME_NOTE_MS);
}

static void hold(struct storetime *s, int64_t time_ms)
{
    s->before_ms = bounded(s->time_ms);
    s->hold_until_ms = time_ms + STORETIME_HOLD_MS;
}

void storetime_raise(struct storetime *s, int64_t t_ms)
{
    if (t_ms <= s->time_ms)
        return;
    if (t_ms - s->time_ms > STORETIME_STEP_MS)
        hold(s, t_ms);
    s->time_ms = t_ms;
}

void storetime_advance(struct storetime *s, const struct clock_now *now)
{
    int64_t elapsed = elapsed_ms(s, now);
    int64_t time_ms = storetime_now(s, now);
    /* An odd millisecond that was not counted yet stays to be counted; otherwise store time
     * would stand still under a write each millisecond. */
    int64_t rest_ms = time_ms == half_rate_ms(s, elapsed) && elapsed > 0 ? elapsed % 2 : 0;
    if (is_step(s, now))
        hold(s, time_ms);
    s->time_ms = time_ms;
    if (elapsed >= 0) /* never back within a boot: the time between would count twice */
        s->boot_ms = bounded(now->boot_ms) - rest_ms;
    memcpy(s->boot_id, now->boot_id, sizeof s->boot_id);
}

int64_t storetime_erase_ms(const struct storetime *s, int64_t store_ms)
{
    if (store_ms >= s->hold_until_ms)
        return store_ms;
    return s->before_ms < store_ms ? s->before_ms : store_ms;
}

int64_t storetime_wait_ms(const struct storetime *s, const struct clock_now *now,
                          int64_t until_ms)
{
    int64_t until = bounded(until_ms);
    if (until <= storetime_now(s, now))
        return 0;
    int64_t by_clock_ms = until - bounded(now->wall_ms);
    int64_t by_boot_ms = 2 * (until - bounded(s->time_ms)) - elapsed_ms(s, now);
    return by_clock_ms < by_boot_ms ? by_clock_ms : by_boot_ms;
}
