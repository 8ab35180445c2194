/* Rules of local time: what is a rule, which date it is, when the next one begins. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "store/zone.h"

#define N(a) (sizeof(a) / sizeof((a)[0]))

#define HOUR_MS 3600000LL
#define DAY_MS  86400000LL
#define BERLIN  "CET-1CEST,M3.5.0,M10.5.0/3"
#define DUBLIN  "IST-1GMT0,M10.5.0,M3.5.0/1"

/* An instant by its UTC date and time; the days are counted by the other test of this file. */
static int64_t utc(int year, int month, int mday, int hour, int minute, int second)
{
    int64_t day = zone_month_first_day(((int64_t)year - 1970) * 12 + month - 1) + mday - 1;
    return day * DAY_MS + hour * HOUR_MS + minute * 60000LL + second * 1000LL;
}

static struct zone parsed(const char *rule)
{
    struct zone z;
    if (!zone_parse(rule, &z))
        fail_msg("%s does not parse", rule);
    return z;
}

static const struct {
    const char *why, *text;
    int32_t standard_s, summer_s;
    bool has_summer;
} rules[] = {
    {"UTC", "UTC0", 0, 0, false},
    {"west is positive", "EST5", -5 * 3600, 0, false},
    {"a plus sign changes nothing", "EST+5", -5 * 3600, 0, false},
    {"minutes", "IST-5:30", 19800, 0, false},
    {"seconds", "LMT-0:19:32", 1172, 0, false},
    {"a quoted name with a sign", "<-03>3", -3 * 3600, 0, false},
    {"summer time is an hour ahead by default", BERLIN, 3600, 7200, true},
    {"summer time of half an hour", "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", 37800, 39600, true},
    {"the winter is the exception", DUBLIN, 3600, 0, true},
    {"times below zero and above a day", "<-02>2<-01>,M3.5.0/-1,M10.5.0/167:59:59", -7200,
     -3600, true},
    {"days counted without 29 February", "AAA0BBB,J1,J365/23", 0, 3600, true},
    {"days counted with it", "AAA0BBB,0,365", 0, 3600, true},
    {"furthest west", "AAA12", -12 * 3600, 0, false},
    {"furthest east", "AAA-15", 15 * 3600, 0, false},
    {"furthest east in summer", "AAA-14BBB,0,1", 14 * 3600, 15 * 3600, true},
    {"63 characters", "<12345678901234567890123456>0<1234567890123456789012345>0,J1,J2", 0, 0,
     true},
};

static void test_a_rule_parses(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(rules); i++) {
        struct zone z;
        print_message("    %s\n", rules[i].why);
        assert_true(zone_parse(rules[i].text, &z));
        assert_int_equal(z.standard_s, rules[i].standard_s);
        assert_int_equal(z.summer_s, rules[i].summer_s);
        assert_int_equal(z.has_summer, rules[i].has_summer);
    }
}

static const struct {
    const char *why, *text;
} no_rules[] = {
    {"nothing", ""},
    {"no offset", "UTC"},
    {"no name", "5"},
    {"a name of two letters", "UT0"},
    {"a quoted name of two characters", "<+1>0"},
    {"an open quote", "<+03-3"},
    {"a name with a space", "A B0"},
    {"a digit in an unquoted name", "AB10CD,J1,J2"},
    {"a file name", "Europe/Berlin"},
    {"a file name behind a colon", ":CET-1"},
    {"something after the rule", "UTC0 "},
    {"a line break after the rule", "UTC0\n"},
    {"summer time without its dates", "EST5EDT"},
    {"summer time without its end", "EST5EDT,M3.2.0"},
    {"a third date", "EST5EDT,M3.2.0,M11.1.0,M12.1.0"},
    {"further west than any zone", "AAA12:00:01"},
    {"further east than any zone", "AAA-15:00:01"},
    {"summer further east than any zone", "AAA-14:00:01BBB,0,1"},
    {"summer further west than any zone", "AAA12BBB12:00:01,0,1"},
    {"25 hours", "AAA25"},
    {"four digits of hours", "AAA0001"},
    {"60 minutes", "AAA1:60"},
    {"60 seconds", "AAA1:00:60"},
    {"minutes left out", "AAA1:"},
    {"seconds left out", "AAA1:00:"},
    {"two signs", "AAA--1"},
    {"month 0", "AAA0BBB,M0.1.0,M3.1.0"},
    {"month 13", "AAA0BBB,M13.1.0,M3.1.0"},
    {"week 0", "AAA0BBB,M1.0.0,M3.1.0"},
    {"week 6", "AAA0BBB,M1.6.0,M3.1.0"},
    {"weekday 7", "AAA0BBB,M1.1.7,M3.1.0"},
    {"a month without a week", "AAA0BBB,M1,M3.1.0"},
    {"J0", "AAA0BBB,J0,J5"},
    {"J366", "AAA0BBB,J366,J5"},
    {"day 366", "AAA0BBB,366,5"},
    {"a negative day", "AAA0BBB,-1,5"},
    {"a change 168 hours late", "AAA0BBB,1/168,5"},
    {"a change 168 hours early", "AAA0BBB,1/-168,5"},
    {"a change at no time", "AAA0BBB,1/,5"},
    {"a number that would wrap", "AAA0BBB,4294967297,5"},
    {"64 characters", "<123456789012345678901234567>0<1234567890123456789012345>0,J1,J2"},
};

static void test_what_is_no_rule_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(no_rules); i++) {
        struct zone z, before;
        memset(&z, 0x5a, sizeof z);
        before = z;
        print_message("    %s\n", no_rules[i].why);
        assert_false(zone_parse(no_rules[i].text, &z));
        assert_memory_equal(&z, &before, sizeof z);
    }
}

static void test_dates_of_eight_centuries(void **state)
{
    (void)state;
    static const int lengths[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int64_t day = zone_month_first_day((1600 - 1970) * 12);
    for (int y = 1600; y < 2400; y++) {
        int leap = y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
        for (int m = 1; m <= 12; m++) {
            assert_int_equal(zone_month_first_day((y - 1970) * 12 + m - 1), day);
            for (int d = 1; d <= lengths[m - 1] + (m == 2 && leap); d++, day++) {
                int year, month, mday;
                zone_civil(day, &year, &month, &mday);
                assert_true(year == y && month == m && mday == d);
            }
        }
    }
    assert_int_equal(zone_month_first_day(0), 0);
    assert_int_equal(zone_month_first_day((2400 - 1970) * 12), day);
}

static const struct {
    const char *why, *rule;
    int year, month, mday, hour, minute, second; /* UTC */
    int32_t offset_s;
} offsets[] = {
    {"a second before summer time", BERLIN, 2024, 3, 31, 0, 59, 59, 3600},
    {"summer time begins", BERLIN, 2024, 3, 31, 1, 0, 0, 7200},
    {"a second before its end", BERLIN, 2024, 10, 27, 0, 59, 59, 7200},
    {"summer time ends", BERLIN, 2024, 10, 27, 1, 0, 0, 3600},
    {"a last Sunday that is the 25th", BERLIN, 2026, 10, 25, 1, 0, 0, 3600},
    {"the year's first second", BERLIN, 2024, 1, 1, 0, 0, 0, 3600},
    {"before 1970", BERLIN, 1969, 7, 1, 0, 0, 0, 7200},
    {"the second Sunday", "EST5EDT,M3.2.0,M11.1.0", 2024, 3, 10, 6, 59, 59, -18000},
    {"the second Sunday", "EST5EDT,M3.2.0,M11.1.0", 2024, 3, 10, 7, 0, 0, -14400},
    {"summer over new year", "NZST-12NZDT,M9.5.0,M4.1.0/3", 2024, 1, 1, 0, 0, 0, 46800},
    {"summer over new year ends", "NZST-12NZDT,M9.5.0,M4.1.0/3", 2024, 4, 6, 14, 0, 0, 43200},
    {"Dublin's winter is the exception", DUBLIN, 2024, 1, 1, 0, 0, 0, 0},
    {"Dublin's summer is standard", DUBLIN, 2024, 7, 1, 0, 0, 0, 3600},
    {"J60 is 1 March in a leap year", "AAA0BBB,J60/0,J100", 2024, 2, 29, 23, 59, 59, 0},
    {"J60 is 1 March in a leap year", "AAA0BBB,J60/0,J100", 2024, 3, 1, 0, 0, 0, 3600},
    {"J59 is 28 February in a leap year", "AAA0BBB,J59/0,J100", 2024, 2, 28, 0, 0, 0, 3600},
    {"60 is 1 March in a common year", "AAA0BBB,59/0,100", 2023, 3, 1, 0, 0, 0, 3600},
    {"59 is 29 February in a leap year", "AAA0BBB,59/0,100", 2024, 2, 29, 0, 0, 0, 3600},
    {"the evening before, told as -1 h", "<-02>2<-01>,M3.5.0/-1,M10.5.0/0", 2024, 3, 31, 0, 59,
     59, -7200},
    {"the evening before, told as -1 h", "<-02>2<-01>,M3.5.0/-1,M10.5.0/0", 2024, 3, 31, 1, 0,
     0, -3600},
    {"two days later, told as 50 h", "IST-2IDT,M3.4.4/50,M10.5.0", 2024, 3, 30, 0, 0, 0, 10800},
    {"summer all the year, at its seam", "EST5EDT,0/0,J365/25", 2024, 1, 1, 4, 59, 59, -14400},
    {"summer all the year, at its seam", "EST5EDT,0/0,J365/25", 2024, 1, 1, 5, 0, 0, -14400},
    {"a summer that ends as it starts", "AAA0BBB,J100/0,J100/1", 2024, 4, 9, 0, 0, 0, 0},
    {"both changes a week into the next year", "AAA0BBB,J364/167,J365/167", 2024, 1, 5, 0, 0, 0,
     0},
    {"both changes a week into the next year", "AAA0BBB,J364/167,J365/167", 2024, 1, 6, 0, 0, 0,
     3600},
};

static void test_offsets_around_changes(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(offsets); i++) {
        struct zone z = parsed(offsets[i].rule);
        int64_t t = utc(offsets[i].year, offsets[i].month, offsets[i].mday, offsets[i].hour,
                        offsets[i].minute, offsets[i].second);
        print_message("    %s\n", offsets[i].why);
        assert_int_equal(zone_offset_s(&z, t), offsets[i].offset_s);
        assert_int_equal(zone_offset_s(&z, t + 999), offsets[i].offset_s);
    }
}

static const struct {
    const char *why, *rule;
    int from[4], to[4]; /* month, day, hour, minute of 2024, UTC */
} next_days[] = {
    {"UTC", "UTC0", {5, 5, 0, 0}, {5, 6, 0, 0}},
    {"the last minute", "UTC0", {5, 5, 23, 59}, {5, 6, 0, 0}},
    {"a leap day", "UTC0", {2, 28, 12, 0}, {2, 29, 0, 0}},
    {"east", "IST-5:30", {5, 5, 18, 29}, {5, 5, 18, 30}},
    {"west", "EST5", {5, 5, 4, 59}, {5, 5, 5, 0}},
    {"F43 a day of 23 hours", BERLIN, {3, 30, 23, 0}, {3, 31, 22, 0}},
    {"F43 a day of 25 hours", BERLIN, {10, 26, 22, 0}, {10, 27, 23, 0}},
    {"F43 midnight is skipped", "CST5CDT,M3.2.0/0,M11.1.0/1", {3, 10, 4, 0}, {3, 10, 5, 0}},
    {"F43 the hour before midnight comes twice",
     "EET-2EEST,M3.5.0/0,M10.5.0/0",
     {10, 26, 20, 30},
     {10, 26, 22, 0}},
    {"F43 its second time", "EET-2EEST,M3.5.0/0,M10.5.0/0", {10, 26, 21, 30}, {10, 26, 22, 0}},
    {"F43 a date that comes again after midnight",
     "NST3:30NDT,M3.2.0/0:01,M11.1.0/0:01",
     {11, 3, 2, 29},
     {11, 3, 2, 30}},
    {"F43 its second time",
     "NST3:30NDT,M3.2.0/0:01,M11.1.0/0:01",
     {11, 3, 2, 31},
     {11, 3, 3, 30}},
    {"F43 the date after it waits for a later one",
     "NST3:30NDT,M3.2.0/0:01,M11.1.0/0:01",
     {11, 3, 2, 30},
     {11, 4, 3, 30}},
    {"F43 a date that is left out", "AAA12BBB-14,J100/23,J200", {4, 10, 23, 0}, {4, 11, 11, 0}},
};

static void test_the_next_day(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(next_days); i++) {
        struct zone z = parsed(next_days[i].rule);
        const int *f = next_days[i].from, *t = next_days[i].to;
        int64_t from = utc(2024, f[0], f[1], f[2], f[3], 0);
        int64_t to = utc(2024, t[0], t[1], t[2], t[3], 0);
        print_message("    %s\n", next_days[i].why);
        assert_int_equal(zone_next_day_ms(&z, from), to);
        assert_int_equal(zone_next_day_ms(&z, from + 999), to);
        assert_true(zone_day(&z, to) > zone_day(&z, from));
        assert_true(zone_day(&z, to - 1) <= zone_day(&z, from));
    }
}

static void test_the_next_month(void **state)
{
    (void)state;
    struct zone utc0 = {0}, berlin = parsed(BERLIN);
    assert_int_equal(zone_next_month_ms(&utc0, utc(2024, 12, 1, 0, 0, 0)),
                     utc(2025, 1, 1, 0, 0, 0));
    assert_int_equal(zone_next_month_ms(&utc0, utc(2024, 12, 31, 23, 59, 59) + 999),
                     utc(2025, 1, 1, 0, 0, 0));
    /* Over both changes: October begins in summer time, November in winter. */
    assert_int_equal(zone_next_month_ms(&berlin, utc(2024, 9, 30, 22, 0, 0)),
                     utc(2024, 10, 31, 23, 0, 0));
    assert_int_equal(zone_month(&berlin, utc(2024, 9, 30, 21, 59, 59)), 54 * 12 + 8);
    assert_int_equal(zone_month(&berlin, utc(2024, 9, 30, 22, 0, 0)), 54 * 12 + 9);
    assert_int_equal(zone_month(&utc0, -1), -1);
}

/* The last line of a TZif file. */

static size_t tzfile(char *out, const char *version, const char *footer)
{
    memset(out, 0, 200);
    memcpy(out, "TZif", 4);
    out[4] = version[0];
    memcpy(out + 44, out, 44);
    return 88 + (size_t)snprintf(out + 88, 112, "%s", footer);
}

static const struct {
    const char *why, *version, *footer, *rule;
} footers[] = {
    {"version 2", "2", "\n" BERLIN "\n", BERLIN},
    {"version 3", "3", "\n<-02>2<-01>,M3.5.0/-1,M10.5.0/0\n",
     "<-02>2<-01>,M3.5.0/-1,M10.5.0/0"},
    {"data before the footer", "2", "data\n\n\nUTC0\n", "UTC0"},
    {"version 1 has no rule", "", "\nUTC0\n", NULL},
    {"a version before 2, by name", "1", "\nUTC0\n", NULL},
    {"a line longer than any rule", "2",
     "\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA0\n",
     NULL},
    {"an empty rule: nobody knows", "2", "\n\n", NULL},
    {"no line break at the end", "2", "\nUTC0", NULL},
    {"no line break before it", "2", "UTC0\n", NULL},
    {"something behind it", "2", "\nUTC0\n ", NULL},
    {"summer time without dates", "2", "\nEST5EDT\n", NULL},
    {"63 characters", "2",
     "\n<12345678901234567890123456>0<1234567890123456789012345>0,J1,J2\n",
     "<12345678901234567890123456>0<1234567890123456789012345>0,J1,J2"},
    {"64 characters", "2",
     "\n<123456789012345678901234567>0<1234567890123456789012345>0,J1,J2\n", NULL},
};

static void test_the_rule_of_a_zone_file(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(footers); i++) {
        char content[200], out[ZONE_TEXT_MAX] = "untouched";
        size_t n = tzfile(content, footers[i].version, footers[i].footer);
        print_message("    %s\n", footers[i].why);
        assert_int_equal(zone_from_tzfile(content, n, out), footers[i].rule != NULL);
        assert_string_equal(out, footers[i].rule ? footers[i].rule : "untouched");
    }
}

static void test_hostile_zone_files(void **state)
{
    (void)state;
    char content[200], out[ZONE_TEXT_MAX] = "untouched";
    size_t n = tzfile(content, "2", "\nUTC0\n");
    for (size_t cut = 1; cut < n; cut++)
        assert_false(zone_from_tzfile(content, cut, out));
    content[0] = 't';
    assert_false(zone_from_tzfile(content, n, out));

    n = tzfile(content, "2", "\nUTC0@UTC0\n");
    content[93] = '\0'; /* a NUL would hide what follows it */
    assert_false(zone_from_tzfile(content, n, out));
    assert_string_equal(out, "untouched");

    assert_true(zone_from_tzfile("", 0, out)); /* no such file */
    assert_string_equal(out, "UTC0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_rule_parses),
        cmocka_unit_test(test_what_is_no_rule_is_refused),
        cmocka_unit_test(test_dates_of_eight_centuries),
        cmocka_unit_test(test_offsets_around_changes),
        cmocka_unit_test(test_the_next_day),
        cmocka_unit_test(test_the_next_month),
        cmocka_unit_test(test_the_rule_of_a_zone_file),
        cmocka_unit_test(test_hostile_zone_files),
    };
    return cmocka_run_group_tests_name("zone", tests, NULL, NULL);
}
