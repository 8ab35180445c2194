/*
 * Windows and their slots (pure).
 *
 * A calendar window has one slot. A sliding window of length L is counted in slots of L/8
 * (whole milliseconds for every whole second): at an instant the slot that holds it and the
 * eight before it count, the oldest in full. Two admissions at most L apart are therefore
 * always counted together, so no interval of length L, wherever it lies, admits more than the
 * limit's max. The price: use is remembered for up to 9/8 L.
 *
 * A slot's `end_ms` is the instant at which the last window that can count it has ended. It is
 * computed from slot and window alone, never from configured values, and rows are kept in its
 * order, so that they expire from the front. A calendar day or month is named by its civil
 * date and ends at 12:00 UTC of the first date after it (the latest any zone can reach).
 */
#ifndef STORE_WINDOW_H
#define STORE_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "store/zone.h"

enum window_kind { WINDOW_SLIDING, WINDOW_HOUR, WINDOW_DAY, WINDOW_MONTH };

struct window {
    enum window_kind kind;
    uint32_t seconds; /* WINDOW_SLIDING: 1 to WINDOW_SECONDS_MAX; otherwise 0 */
};

#define WINDOW_PARTS     8
#define WINDOW_SLOTS_MAX (WINDOW_PARTS + 1)
#define WINDOW_SECONDS_MAX                                                                     \
    (366U * 86400U) /* a year: longer would make callers linkable longer */

struct slot {
    int64_t number; /* hour: hours since 1970; day, month: civil; sliding: start / (L/8) */
    int64_t end_ms; /* see above */
    int64_t period; /* which period key hashes its subject: see window_period */
};

/* "hour", "day", "month", or digits and one of s, m, h, d. False, out untouched, otherwise. */
bool window_parse(const char *text, struct window *out);
bool window_equal(struct window a, struct window b);

/* A stable code for keys and files: sliding: its seconds; hour, day, month: 2^31 + 1, 2, 3. */
uint32_t window_code(struct window w);
bool window_from_code(uint32_t code, struct window *out);

/* Its nominal length in seconds (hour 3600, day 86400, month 31 d), for RateLimit-Policy. */
uint32_t window_seconds(struct window w);

/*
 * The slots that count at the instant, newest first (out[0] is the one that is charged);
 * returns how many: 1 or WINDOW_SLOTS_MAX.
 */
unsigned window_slots(struct window w, const struct zone *z, int64_t t_ms,
                      struct slot out[WINDOW_SLOTS_MAX]);

/*
 * The first instant after t_ms at which out[i] of window_slots(w, z, t_ms) no longer counts:
 * the slot's end for a sliding window, the next hour, later civil day or month for a calendar
 * one (zone.h tells of clocks put back over midnight).
 */
int64_t window_frees_ms(struct window w, const struct zone *z, int64_t t_ms,
                        const struct slot *s);

/*
 * The first instant of the calendar window that counts at t_ms; t_ms itself for a sliding one.
 * The same all through a date or month, also where clocks are put back over midnight and it is
 * reached twice.
 */
int64_t window_begins_ms(struct window w, const struct zone *z, int64_t t_ms);

/*
 * The period of a slot: the UTC day in which it starts; its own number where a slot is longer
 * than a day (sliding windows over 8 d, months) or is a civil day. Never decreases with time.
 */
int64_t window_period(struct window w, int64_t slot_number);

/*
 * The oldest period of a slot whose end_ms is after t_ms: keys before it can go. The zone does
 * not matter, so that after a change of it the same rows are found.
 */
int64_t window_oldest_period(struct window w, const struct zone *z, int64_t t_ms);

/* The first instant at which this is the window's oldest period. */
int64_t window_period_begins_ms(struct window w, int64_t period);

#endif
