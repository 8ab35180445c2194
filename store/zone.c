/*
 * Civil time: parses POSIX TZ rules and answers from them what date it is and when the next
 * one begins. Pure: reads no file and no environment, keeps no state. Every text is taken for
 * hostile: it is bounded, must be a rule from end to end, and a rule whose summer time says no
 * dates is refused, because what it means then is each system's own guess.
 */
#include "store/zone.h"

#include <string.h>

#define DAY_S          86400
#define OFFSET_MIN_S   (-12 * 3600)
#define OFFSET_MAX_S   (15 * 3600)
#define OFFSET_HOURS   24  /* POSIX: the hours of an offset; the bounds above are tighter */
#define CHANGE_HOURS   167 /* RFC 8536: a change may be told from a week before or after */
#define CHANGE_DEFAULT (2 * 3600)
#define TZIF_HEADERS   88 /* a file that has a rule begins with two headers of 44 bytes */

static const int16_t month_starts[2][13] = {
    {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365},
    {0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335, 366},
};

int64_t zone_floor(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* Dates of the Gregorian calendar, which the store uses for all times. */

static unsigned is_leap(int year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static int64_t year_first_day(int year)
{
    int last = year - 1;
    int64_t leaps = zone_floor(last, 4) - zone_floor(last, 100) + zone_floor(last, 400);
    return 365 * ((int64_t)year - 1970) + leaps - 477; /* of which 477 before 1970 */
}

static int year_of(int64_t day)
{
    /* By the mean length of a year, 146097 / 400 days, which is never off by more than one. */
    int year = (int)(1970 + zone_floor(day * 400, 146097));
    if (year_first_day(year) > day)
        return year - 1;
    return year_first_day(year + 1) <= day ? year + 1 : year;
}

void zone_civil(int64_t day, int *year, int *month, int *mday)
{
    *year = year_of(day);
    int in_year = (int)(day - year_first_day(*year));
    const int16_t *starts = month_starts[is_leap(*year)];
    *month = in_year / 31 + 1; /* never too late, at most one too early */
    if (in_year >= starts[*month])
        ++*month;
    *mday = in_year - starts[*month - 1] + 1;
}

int64_t zone_month_first_day(int64_t month)
{
    int year = (int)(1970 + zone_floor(month, 12));
    int in_year = (int)(month - 12 * zone_floor(month, 12));
    return year_first_day(year) + month_starts[is_leap(year)][in_year];
}

/* When the clocks change. */

static int64_t week_day_of_month(const struct zone_change *c, int year)
{
    const int16_t *starts = month_starts[is_leap(year)];
    int64_t first = year_first_day(year) + starts[c->month - 1];
    int length = starts[c->month] - starts[c->month - 1];
    int first_weekday = (int)(first + 4 - 7 * zone_floor(first + 4, 7)); /* 1970-01-01: 4 */
    int day = (c->day - first_weekday + 7) % 7 + 7 * (c->week - 1);
    return first + (day < length ? day : day - 7); /* week 5 is the last one */
}

static int64_t change_day(const struct zone_change *c, int year)
{
    switch (c->kind) {
    case ZONE_JULIAN: /* counts from 1 and never counts 29 February, so that 60 is 1 March */
        return year_first_day(year) + c->day - 1 + (c->day >= 60 && is_leap(year));
    case ZONE_DAY_OF_YEAR:
        return year_first_day(year) + c->day;
    case ZONE_MONTH_WEEK_DAY:
        break;
    }
    return week_day_of_month(c, year);
}

/* A change of a year, told in the local time that held before it, as an instant. */
static int64_t change_s(const struct zone_change *c, int32_t before_s, int year)
{
    return change_day(c, year) * DAY_S + c->second - before_s;
}

/* The last such change up to the instant. A change can lie some days outside its year. */
static int64_t last_change_s(const struct zone_change *c, int32_t before_s, int64_t t_s,
                             int *year)
{
    *year = year_of(zone_floor(t_s, DAY_S)) + 1;
    int64_t at_s = change_s(c, before_s, *year);
    while (at_s > t_s)
        at_s = change_s(c, before_s, --*year);
    return at_s;
}

static int64_t next_change_s(const struct zone_change *c, int32_t before_s, int64_t t_s)
{
    int year = year_of(zone_floor(t_s, DAY_S)) - 1;
    int64_t at_s = change_s(c, before_s, year);
    while (at_s <= t_s)
        at_s = change_s(c, before_s, ++year);
    return at_s;
}

/*
 * The later of the two last changes holds. At one instant the end of an older summer gives way
 * to a start (summer all the year), but a summer that ends as it starts never was.
 */
static bool is_summer(const struct zone *z, int64_t t_s)
{
    int start_year, end_year;
    int64_t start_s = last_change_s(&z->starts, z->standard_s, t_s, &start_year);
    int64_t end_s = last_change_s(&z->ends, z->summer_s, t_s, &end_year);
    return start_s > end_s || (start_s == end_s && start_year > end_year);
}

static int32_t offset_s(const struct zone *z, int64_t t_s)
{
    return z->has_summer && is_summer(z, t_s) ? z->summer_s : z->standard_s;
}

/* Answers. */

int32_t zone_offset_s(const struct zone *z, int64_t t_ms)
{
    return offset_s(z, zone_floor(t_ms, 1000));
}

int64_t zone_day(const struct zone *z, int64_t t_ms)
{
    int64_t t_s = zone_floor(t_ms, 1000);
    return zone_floor(t_s + offset_s(z, t_s), DAY_S);
}

int64_t zone_month(const struct zone *z, int64_t t_ms)
{
    int year, month, mday;
    zone_civil(zone_day(z, t_ms), &year, &month, &mday);
    return ((int64_t)year - 1970) * 12 + month - 1;
}

/* The first instant after t_ms at which the civil date, earlier at t_ms, is `day` or later. */
static int64_t first_instant_ms(const struct zone *z, int64_t t_ms, int64_t day)
{
    int64_t t_s = zone_floor(t_ms, 1000);
    do {
        int64_t midnight_s = day * DAY_S - offset_s(z, t_s);
        if (!z->has_summer)
            return midnight_s * 1000;
        int64_t start_s = next_change_s(&z->starts, z->standard_s, t_s);
        int64_t end_s = next_change_s(&z->ends, z->summer_s, t_s);
        t_s = start_s < end_s ? start_s : end_s;
        if (midnight_s < t_s)
            return midnight_s * 1000;
    } while (t_s + offset_s(z, t_s) < day * DAY_S);
    return t_s * 1000; /* the clocks were put forward over midnight */
}

int64_t zone_next_day_ms(const struct zone *z, int64_t t_ms)
{
    return first_instant_ms(z, t_ms, zone_day(z, t_ms) + 1);
}

int64_t zone_next_month_ms(const struct zone *z, int64_t t_ms)
{
    return first_instant_ms(z, t_ms, zone_month_first_day(zone_month(z, t_ms) + 1));
}

int64_t zone_day_begins_ms(const struct zone *z, int64_t day)
{
    /* Before it the date is an earlier one in every zone. */
    int64_t before_s = day * DAY_S - OFFSET_MAX_S - 1;
    return first_instant_ms(z, before_s * 1000, day);
}

/* The grammar. Each take_ function moves *p behind what it took, or says false. */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool take_char(const char **p, char c)
{
    if (**p != c)
        return false;
    ++*p;
    return true;
}

static bool take_number(const char **p, int max_digits, int min, int max, int *out)
{
    int value = 0, digits = 0;
    for (; is_digit(**p) && digits < max_digits; digits++)
        value = value * 10 + *(*p)++ - '0';
    if (digits == 0 || value < min || value > max)
        return false;
    *out = value;
    return true;
}

static bool take_name(const char **p)
{
    bool quoted = take_char(p, '<');
    int length = 0;
    while (is_letter(**p) || (quoted && (is_digit(**p) || **p == '+' || **p == '-'))) {
        ++*p;
        length++;
    }
    return length >= 3 && (!quoted || take_char(p, '>'));
}

/* [+|-]hh[:mm[:ss]] */
static bool take_time(const char **p, int max_hours, int32_t *out)
{
    bool negative = take_char(p, '-');
    if (!negative)
        (void)take_char(p, '+');
    int hours, minutes = 0, seconds = 0;
    if (!take_number(p, 3, 0, max_hours, &hours))
        return false;
    bool more = take_char(p, ':');
    if (more && !take_number(p, 2, 0, 59, &minutes))
        return false;
    if (more && take_char(p, ':') && !take_number(p, 2, 0, 59, &seconds))
        return false;
    int32_t total = hours * 3600 + minutes * 60 + seconds;
    *out = negative ? -total : total;
    return true;
}

/* ,Mm.w.d[/time] or ,Jn[/time] or ,n[/time] */
static bool take_change(const char **p, struct zone_change *out)
{
    if (!take_char(p, ','))
        return false;
    bool ok;
    if (take_char(p, 'M')) {
        out->kind = ZONE_MONTH_WEEK_DAY;
        ok = take_number(p, 2, 1, 12, &out->month) && take_char(p, '.') &&
             take_number(p, 1, 1, 5, &out->week) && take_char(p, '.') &&
             take_number(p, 1, 0, 6, &out->day);
    } else if (take_char(p, 'J')) {
        out->kind = ZONE_JULIAN;
        ok = take_number(p, 3, 1, 365, &out->day);
    } else {
        out->kind = ZONE_DAY_OF_YEAR;
        ok = take_number(p, 3, 0, 365, &out->day);
    }
    out->second = CHANGE_DEFAULT;
    return ok && (!take_char(p, '/') || take_time(p, CHANGE_HOURS, &out->second));
}

/* Rules tell offsets west of Greenwich. */
static bool take_offset(const char **p, int32_t *east_s)
{
    int32_t west_s;
    if (!take_time(p, OFFSET_HOURS, &west_s))
        return false;
    *east_s = -west_s;
    return *east_s >= OFFSET_MIN_S && *east_s <= OFFSET_MAX_S;
}

static bool take_summer(const char **p, struct zone *z)
{
    if (!take_name(p))
        return false;
    z->has_summer = true;
    z->summer_s = z->standard_s + 3600;
    if (**p != ',' && !take_offset(p, &z->summer_s))
        return false;
    return z->summer_s <= OFFSET_MAX_S && take_change(p, &z->starts) &&
           take_change(p, &z->ends);
}

bool zone_parse(const char *text, struct zone *out)
{
    struct zone z = {0};
    const char *p = text;
    if (strnlen(text, ZONE_TEXT_MAX) == ZONE_TEXT_MAX)
        return false;
    if (!take_name(&p) || !take_offset(&p, &z.standard_s))
        return false;
    if (*p != '\0' && !take_summer(&p, &z))
        return false;
    if (*p != '\0')
        return false;
    *out = z;
    return true;
}

bool zone_from_tzfile(const void *content, uint64_t n, char out[ZONE_TEXT_MAX])
{
    const char *bytes = content;
    char rule[ZONE_TEXT_MAX] = "UTC0";
    if (n > 0) {
        if (n < TZIF_HEADERS || memcmp(bytes, "TZif", 4) != 0 || bytes[4] < '2')
            return false;
        if (bytes[n - 1] != '\n')
            return false;
        size_t length = 0;
        while (length < ZONE_TEXT_MAX && bytes[n - 2 - length] != '\n')
            length++;
        if (length == ZONE_TEXT_MAX)
            return false;
        memcpy(rule, bytes + n - 1 - length, length);
        rule[length] = '\0';
        if (strlen(rule) != length)
            return false;
    }
    struct zone z;
    if (!zone_parse(rule, &z))
        return false;
    memcpy(out, rule, ZONE_TEXT_MAX);
    return true;
}
