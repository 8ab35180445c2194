/*
 * Civil time (pure: reads no file and no environment). A zone is a POSIX TZ rule
 * ("CET-1CEST,M3.5.0,M10.5.0/3"), resolved once by `init` and kept in the store, so that every
 * process of a site agrees on what a day is, whatever TZ or zone files it finds. Source of the
 * rule's grammar: POSIX.1-2017, 8.3, with the times of change of RFC 8536, 3.3.1.
 *
 * A rule knows no exceptions by date: where a zone file lists some for years to come (Morocco's
 * Ramadan) the civil day is an hour off during them.
 *
 * Instants are those of store time or near it: within 2^55 ms of 1970 nothing here overflows.
 */
#ifndef STORE_ZONE_H
#define STORE_ZONE_H

#include <stdbool.h>
#include <stdint.h>

#define ZONE_TEXT_MAX                                                                          \
    64 /* longest rule kept; the longest in tzdata 2024a has 44 characters                     \
        */

/* When summer time starts or ends in a year: Mm.w.d, Jn or n, and the local time of day. */
struct zone_change {
    enum { ZONE_MONTH_WEEK_DAY, ZONE_JULIAN, ZONE_DAY_OF_YEAR } kind;
    int month, week, day;
    int32_t second; /* of the local day, less than 168 h either way */
};

/* All zero is UTC. */
struct zone {
    int32_t standard_s, summer_s; /* east of Greenwich, -12 h to +15 h */
    bool has_summer;
    struct zone_change starts, ends;
};

/*
 * False, and out untouched, unless the whole text is a rule within the bounds above. Summer
 * time must come with its dates, which POSIX leaves to the system otherwise.
 */
bool zone_parse(const char *text, struct zone *out);

/*
 * The rule of a TZif file (/etc/localtime), its last line; "UTC0" for n = 0, which stands for
 * no such file. False, and out untouched, if it is no TZif file of version 2 or later or its
 * rule does not parse. The caller reads the file, and does not ask where TZ is a rule itself.
 */
bool zone_from_tzfile(const void *content, uint64_t n, char out[ZONE_TEXT_MAX]);

/* Seconds east of Greenwich at the instant. */
int32_t zone_offset_s(const struct zone *z, int64_t t_ms);

/* The civil date at the instant, in days since 1970-01-01; and the months since 1970-01. */
int64_t zone_day(const struct zone *z, int64_t t_ms);
int64_t zone_month(const struct zone *z, int64_t t_ms);

/*
 * The first instant after t_ms at which the civil date (the month) is a later one. Where clocks
 * are put back over midnight an earlier date can come again before it.
 */
int64_t zone_next_day_ms(const struct zone *z, int64_t t_ms);
int64_t zone_next_month_ms(const struct zone *z, int64_t t_ms);

/* The first instant at which the civil date is `day` or a later one. */
int64_t zone_day_begins_ms(const struct zone *z, int64_t day);

/* Days since 1970 of the first day of month m, and the reverse: year, month 1..12, day
 * 1..31. */
int64_t zone_month_first_day(int64_t month);
void zone_civil(int64_t day, int *year, int *month, int *mday);

/* a / b rounded down, for instants before 1970 too; b > 0. */
int64_t zone_floor(int64_t a, int64_t b);

#endif
