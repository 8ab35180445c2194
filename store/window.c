/*
 * Windows and their slots: from a window, a zone and an instant come the slots that count, by
 * number, end and period. Pure. No configured value but the window itself enters a number or an
 * end, so that no change of the configuration moves a row or forgets one.
 */
#include "store/window.h"

#include <string.h>

#define HOUR_MS 3600000
#define DAY_MS  86400000
#define LATE_MS (12 * HOUR_MS) /* the zone furthest west ends a date so long after UTC */

#define CODE_HOUR  ((1U << 31) + 1)
#define CODE_DAY   ((1U << 31) + 2)
#define CODE_MONTH ((1U << 31) + 3)

static const struct calendar {
    const char *name;
    enum window_kind kind;
    uint32_t code, seconds;
} calendar[] = {
    {"hour", WINDOW_HOUR, CODE_HOUR, 3600},
    {"day", WINDOW_DAY, CODE_DAY, 86400},
    {"month", WINDOW_MONTH, CODE_MONTH, 31 * 86400},
};
#define CALENDARS (sizeof calendar / sizeof calendar[0])

static const struct calendar *find_calendar(enum window_kind kind)
{
    const struct calendar *c = calendar;
    while (c < calendar + CALENDARS - 1 && c->kind != kind)
        c++;
    return c;
}

static uint32_t unit_seconds(char unit)
{
    switch (unit) {
    case 's':
        return 1;
    case 'm':
        return 60;
    case 'h':
        return 3600;
    case 'd':
        return 86400;
    default:
        return 0;
    }
}

static bool parse_sliding(const char *text, struct window *out)
{
    uint64_t n = 0;
    if (*text == '0') /* neither no time nor an octal number */
        return false;
    for (; *text >= '0' && *text <= '9'; text++) {
        n = n * 10 + (uint64_t)(*text - '0');
        if (n > WINDOW_SECONDS_MAX)
            return false;
    }
    n *= unit_seconds(*text);
    if (n == 0 || n > WINDOW_SECONDS_MAX || text[1] != '\0')
        return false;
    *out = (struct window){WINDOW_SLIDING, (uint32_t)n};
    return true;
}

bool window_parse(const char *text, struct window *out)
{
    for (size_t i = 0; i < CALENDARS; i++) {
        if (strcmp(text, calendar[i].name) == 0) {
            *out = (struct window){calendar[i].kind, 0};
            return true;
        }
    }
    return parse_sliding(text, out);
}

bool window_equal(struct window a, struct window b)
{
    return a.kind == b.kind && a.seconds == b.seconds;
}

uint32_t window_code(struct window w)
{
    return w.kind == WINDOW_SLIDING ? w.seconds : find_calendar(w.kind)->code;
}

bool window_from_code(uint32_t code, struct window *out)
{
    if (code >= 1 && code <= WINDOW_SECONDS_MAX) {
        *out = (struct window){WINDOW_SLIDING, code};
        return true;
    }
    for (size_t i = 0; i < CALENDARS; i++) {
        if (code == calendar[i].code) {
            *out = (struct window){calendar[i].kind, 0};
            return true;
        }
    }
    return false;
}

uint32_t window_seconds(struct window w)
{
    return w.kind == WINDOW_SLIDING ? w.seconds : find_calendar(w.kind)->seconds;
}

static int64_t length_ms(struct window w)
{
    return (int64_t)w.seconds * 1000;
}

static int64_t part_ms(struct window w)
{
    return length_ms(w) / WINDOW_PARTS;
}

static int64_t number_at(struct window w, const struct zone *z, int64_t t_ms)
{
    switch (w.kind) {
    case WINDOW_HOUR:
        return zone_floor(t_ms, HOUR_MS);
    case WINDOW_DAY:
        return zone_day(z, t_ms);
    case WINDOW_MONTH:
        return zone_month(z, t_ms);
    case WINDOW_SLIDING:
        break;
    }
    return zone_floor(t_ms, part_ms(w));
}

static int64_t slot_end_ms(struct window w, int64_t number)
{
    switch (w.kind) {
    case WINDOW_HOUR:
        return (number + 1) * HOUR_MS;
    case WINDOW_DAY:
        return (number + 1) * DAY_MS + LATE_MS;
    case WINDOW_MONTH:
        return zone_month_first_day(number + 1) * DAY_MS + LATE_MS;
    case WINDOW_SLIDING:
        break;
    }
    return (number + 1) * part_ms(w) + length_ms(w);
}

unsigned window_slots(struct window w, const struct zone *z, int64_t t_ms,
                      struct slot out[WINDOW_SLOTS_MAX])
{
    int64_t newest = number_at(w, z, t_ms);
    unsigned n = w.kind == WINDOW_SLIDING ? WINDOW_SLOTS_MAX : 1;
    for (unsigned i = 0; i < n; i++) {
        int64_t number = newest - i;
        out[i] = (struct slot){number, slot_end_ms(w, number), window_period(w, number)};
    }
    return n;
}

int64_t window_frees_ms(struct window w, const struct zone *z, int64_t t_ms,
                        const struct slot *s)
{
    switch (w.kind) {
    case WINDOW_DAY:
        return zone_next_day_ms(z, t_ms);
    case WINDOW_MONTH:
        return zone_next_month_ms(z, t_ms);
    case WINDOW_HOUR:
    case WINDOW_SLIDING:
        break;
    }
    return s->end_ms;
}

int64_t window_begins_ms(struct window w, const struct zone *z, int64_t t_ms)
{
    int64_t number = number_at(w, z, t_ms);
    switch (w.kind) {
    case WINDOW_HOUR:
        return number * HOUR_MS;
    case WINDOW_DAY:
        return zone_day_begins_ms(z, number);
    case WINDOW_MONTH:
        return zone_day_begins_ms(z, zone_month_first_day(number));
    case WINDOW_SLIDING:
        break;
    }
    return t_ms;
}

int64_t window_period(struct window w, int64_t slot_number)
{
    switch (w.kind) {
    case WINDOW_HOUR:
        return zone_floor(slot_number, DAY_MS / HOUR_MS);
    case WINDOW_DAY:
    case WINDOW_MONTH:
        return slot_number;
    case WINDOW_SLIDING:
        break;
    }
    if (part_ms(w) >= DAY_MS)
        return slot_number;
    return zone_floor(slot_number * part_ms(w), DAY_MS);
}

int64_t window_oldest_period(struct window w, const struct zone *z, int64_t t_ms)
{
    static const struct zone utc;
    (void)
        z; /* must not matter: a changed zone has to find the keys of the dates it returns to */
    switch (w.kind) {
    case WINDOW_HOUR:
        break;
    case WINDOW_DAY:
    case WINDOW_MONTH: /* the oldest date or month whose end_ms is yet to come */
        return window_period(w, number_at(w, &utc, t_ms - LATE_MS));
    case WINDOW_SLIDING:
        return window_period(w, number_at(w, &utc, t_ms) - WINDOW_PARTS);
    }
    return window_period(w, number_at(w, &utc, t_ms));
}

int64_t window_period_begins_ms(struct window w, int64_t period)
{
    int64_t number = period;
    switch (w.kind) {
    case WINDOW_HOUR:
        return period * DAY_MS;
    case WINDOW_DAY:
        return period * DAY_MS + LATE_MS;
    case WINDOW_MONTH:
        return zone_month_first_day(period) * DAY_MS + LATE_MS;
    case WINDOW_SLIDING:
        break;
    }
    if (part_ms(w) < DAY_MS) /* the first slot that begins in the day */
        number = zone_floor(period * DAY_MS + part_ms(w) - 1, part_ms(w));
    return (number + WINDOW_PARTS) * part_ms(w);
}
