/* Windows: their names and codes, the slots that count at an instant, ends, periods. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "store/window.h"

#define N(a) (sizeof(a) / sizeof((a)[0]))

#define HOUR_MS 3600000LL
#define DAY_MS  86400000LL
#define DAY     19000LL /* some date: 2022-01-08 */
#define T       (DAY * DAY_MS)

static const struct zone utc;

static struct window sliding(uint32_t seconds)
{
    return (struct window){WINDOW_SLIDING, seconds};
}

static const struct {
    const char *text;
    struct window window;
    uint32_t code, seconds;
} names[] = {
    {"hour", {WINDOW_HOUR, 0}, 2147483649U, 3600},
    {"day", {WINDOW_DAY, 0}, 2147483650U, 86400},
    {"month", {WINDOW_MONTH, 0}, 2147483651U, 2678400},
    {"1s", {WINDOW_SLIDING, 1}, 1, 1},
    {"10s", {WINDOW_SLIDING, 10}, 10, 10},
    {"2m", {WINDOW_SLIDING, 120}, 120, 120},
    {"1h", {WINDOW_SLIDING, 3600}, 3600, 3600},
    {"30d", {WINDOW_SLIDING, 2592000}, 2592000, 2592000},
    {"366d", {WINDOW_SLIDING, WINDOW_SECONDS_MAX}, WINDOW_SECONDS_MAX, WINDOW_SECONDS_MAX},
    {"31622400s", {WINDOW_SLIDING, WINDOW_SECONDS_MAX}, WINDOW_SECONDS_MAX, WINDOW_SECONDS_MAX},
};

static void test_names_and_codes(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(names); i++) {
        struct window w, back;
        print_message("    %s\n", names[i].text);
        assert_true(window_parse(names[i].text, &w));
        assert_true(window_equal(w, names[i].window));
        assert_int_equal(window_code(w), names[i].code);
        assert_true(window_from_code(names[i].code, &back));
        assert_true(window_equal(w, back));
        assert_int_equal(window_seconds(w), names[i].seconds);
    }
    assert_false(window_equal(sliding(1), sliding(2)));
    assert_false(window_equal((struct window){WINDOW_HOUR, 0}, sliding(3600)));
}

static const struct {
    const char *why, *text;
} no_names[] = {
    {"nothing", ""},
    {"no number", "s"},
    {"no unit", "10"},
    {"an unknown unit", "10w"},
    {"two units", "10ms"},
    {"a space", "10 s"},
    {"a negative length", "-1s"},
    {"a sign", "+1s"},
    {"no time at all", "0s"},
    {"an octal number", "010s"},
    {"a fraction", "1.5h"},
    {"something after it", "10s "},
    {"one second over a year", "31622401s"},
    {"a day over a year", "367d"},
    {"a number that would wrap to 1", "4294967297s"},
    {"a number that would wrap in 64 bits", "18446744073709551617s"},
    {"a product that would wrap", "213503982334602d"},
    {"another case", "Day"},
    {"a calendar window that is not ours", "week"},
    {"more than a name", "days"},
};

static void test_what_is_no_window_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(no_names); i++) {
        struct window w = sliding(77);
        print_message("    %s\n", no_names[i].why);
        assert_false(window_parse(no_names[i].text, &w));
        assert_true(window_equal(w, sliding(77)));
    }
}

static void test_codes_that_are_none(void **state)
{
    (void)state;
    static const uint32_t codes[] = {0, WINDOW_SECONDS_MAX + 1, 2147483648U, 2147483652U,
                                     UINT32_MAX};
    for (size_t i = 0; i < N(codes); i++) {
        struct window w = sliding(77);
        assert_false(window_from_code(codes[i], &w));
        assert_true(window_equal(w, sliding(77)));
    }
}

static const struct {
    const char *why;
    struct window window;
    int64_t t_ms;
    unsigned n;
    int64_t newest, end_ms, frees_ms;
} slots[] = {
    {"an hour's first instant", {WINDOW_HOUR, 0}, T, 1, DAY * 24, T + HOUR_MS, T + HOUR_MS},
    {"an hour's last instant", {WINDOW_HOUR, 0}, T - 1, 1, DAY * 24 - 1, T, T},
    {"a day's row outlives it in every zone",
     {WINDOW_DAY, 0},
     T,
     1,
     DAY,
     T + DAY_MS + 12 * HOUR_MS,
     T + DAY_MS},
    {"a day's last instant",
     {WINDOW_DAY, 0},
     T + DAY_MS - 1,
     1,
     DAY,
     T + DAY_MS + 12 * HOUR_MS,
     T + DAY_MS},
    {"a month",
     {WINDOW_MONTH, 0},
     T,
     1,
     52 * 12,
     T + 24 * DAY_MS + 12 * HOUR_MS,
     T + 24 * DAY_MS},
    {"a sliding slot's first instant", {WINDOW_SLIDING, 8}, T, 9, T / 1000, T + 9000, T + 9000},
    {"its last instant", {WINDOW_SLIDING, 8}, T + 999, 9, T / 1000, T + 9000, T + 9000},
    {"the next slot", {WINDOW_SLIDING, 8}, T + 1000, 9, T / 1000 + 1, T + 10000, T + 10000},
    {"the shortest window", {WINDOW_SLIDING, 1}, T + 124, 9, T / 125, T + 1125, T + 1125},
    {"the longest window",
     {WINDOW_SLIDING, WINDOW_SECONDS_MAX},
     T,
     9,
     415,
     416 * 3952800000LL + 31622400000LL,
     416 * 3952800000LL + 31622400000LL},
};

static void test_slots_at_their_edges(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(slots); i++) {
        struct slot s[WINDOW_SLOTS_MAX];
        struct window w = slots[i].window;
        print_message("    %s\n", slots[i].why);
        unsigned n = window_slots(w, &utc, slots[i].t_ms, s);
        assert_int_equal(n, slots[i].n);
        assert_int_equal(s[0].number, slots[i].newest);
        assert_int_equal(s[0].end_ms, slots[i].end_ms);
        assert_int_equal(window_frees_ms(w, &utc, slots[i].t_ms, &s[0]), slots[i].frees_ms);
        for (unsigned j = 0; j < n; j++) {
            assert_int_equal(s[j].number, slots[i].newest - j);
            assert_int_equal(s[j].period, window_period(w, s[j].number));
            assert_true(window_frees_ms(w, &utc, slots[i].t_ms, &s[j]) > slots[i].t_ms);
            assert_true(s[j].end_ms >= window_frees_ms(w, &utc, slots[i].t_ms, &s[j]));
        }
    }
}

static bool counts(struct window w, int64_t number, int64_t t_ms)
{
    struct slot s[WINDOW_SLOTS_MAX];
    unsigned n = window_slots(w, &utc, t_ms, s);
    for (unsigned i = 0; i < n; i++) {
        if (s[i].number == number)
            return true;
    }
    return false;
}

static void test_a_sliding_slot_counts_for_the_whole_length(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {1, 10, 60, 3600, 86400, 30 * 86400, WINDOW_SECONDS_MAX};
    for (size_t i = 0; i < N(lengths); i++) {
        struct window w = sliding(lengths[i]);
        struct slot s[WINDOW_SLOTS_MAX];
        (void)window_slots(w, &utc, T, s);
        int64_t part = (int64_t)lengths[i] * 125, last = (s[0].number + 1) * part - 1;
        assert_true(counts(w, s[0].number, last + (int64_t)lengths[i] * 1000));
        assert_true(counts(w, s[0].number, s[0].end_ms - 1));
        assert_false(counts(w, s[0].number, s[0].end_ms));
    }
}

static void test_F49_a_window_across_midnight_still_counts(void **state)
{
    (void)state;
    struct window w = sliding(10);
    struct slot before[WINDOW_SLOTS_MAX], after[WINDOW_SLOTS_MAX];
    (void)window_slots(w, &utc, T - 2000, before);
    (void)window_slots(w, &utc, T + 2000, after);
    assert_true(counts(w, before[0].number, T + 2000));
    assert_int_equal(before[0].period, DAY - 1);
    assert_int_equal(after[0].period, DAY);
    /* Its oldest slot began yesterday, so that day's key is still needed; soon it is not. */
    assert_int_equal(after[WINDOW_SLOTS_MAX - 1].period, DAY - 1);
    assert_int_equal(window_oldest_period(w, &utc, T + 2000), DAY - 1);
    assert_int_equal(window_oldest_period(w, &utc, T + 9999), DAY - 1);
    assert_int_equal(window_oldest_period(w, &utc, T + 10000), DAY);
}

static void test_F43_a_date_has_one_row_in_every_zone(void **state)
{
    (void)state;
    static const char *const zones[] = {"UTC0", "AAA12", "AAA-15", "CET-1CEST,M3.5.0,M10.5.0/3",
                                        "EST5EDT,M3.2.0,M11.1.0"};
    struct window w = {WINDOW_DAY, 0};
    for (size_t i = 0; i < N(zones); i++) {
        struct zone z;
        struct slot s[WINDOW_SLOTS_MAX];
        assert_true(zone_parse(zones[i], &z));
        int64_t noon = T + 12 * HOUR_MS - (int64_t)zone_offset_s(&z, T) * 1000;
        (void)window_slots(w, &z, noon, s);
        assert_int_equal(s[0].number, DAY);
        assert_int_equal(s[0].end_ms, T + DAY_MS + 12 * HOUR_MS);
        assert_int_equal(s[0].period, DAY);
        assert_true(window_frees_ms(w, &z, noon, s) <= s[0].end_ms);
        assert_true(window_oldest_period(w, &z, s[0].end_ms - 1) == DAY);
        assert_true(window_oldest_period(w, &z, s[0].end_ms) == DAY + 1);
    }
}

static const struct {
    const char *why;
    struct window window;
    int64_t number, period;
} periods[] = {
    {"an hour", {WINDOW_HOUR, 0}, 24 * DAY + 23, DAY},
    {"a day", {WINDOW_DAY, 0}, DAY, DAY},
    {"a month", {WINDOW_MONTH, 0}, 624, 624},
    {"a slot of 1.25 s, the last before midnight", {WINDOW_SLIDING, 10}, T / 1250 - 1, DAY - 1},
    {"the first after it", {WINDOW_SLIDING, 10}, T / 1250, DAY},
    {"a slot of a day", {WINDOW_SLIDING, 8 * 86400}, DAY, DAY},
    {"a slot of a day and a half", {WINDOW_SLIDING, 12 * 86400}, 1000, 1000},
    {"a slot of a second less than a day begins on the day before",
     {WINDOW_SLIDING, 8 * 86400 - 8},
     DAY,
     DAY - 1},
    {"before 1970", {WINDOW_SLIDING, 8}, -1, -1},
};

static void test_periods(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(periods); i++) {
        print_message("    %s\n", periods[i].why);
        assert_int_equal(window_period(periods[i].window, periods[i].number),
                         periods[i].period);
    }
}

static void test_keys_of_ended_slots_can_go(void **state)
{
    (void)state;
    struct window hour = {WINDOW_HOUR, 0}, month = {WINDOW_MONTH, 0};
    assert_int_equal(window_oldest_period(hour, &utc, T - 1), DAY - 1);
    assert_int_equal(window_oldest_period(hour, &utc, T), DAY);
    int64_t february = 19024 * DAY_MS; /* 2022-02-01 */
    assert_int_equal(window_oldest_period(month, &utc, february + 12 * HOUR_MS - 1), 624);
    assert_int_equal(window_oldest_period(month, &utc, february + 12 * HOUR_MS), 625);
}

static void test_a_period_is_the_oldest_from_its_begin_on(void **state)
{
    (void)state;
    static const struct window windows[] = {
        {WINDOW_HOUR, 0},         {WINDOW_DAY, 0},          {WINDOW_MONTH, 0},
        {WINDOW_SLIDING, 1},      {WINDOW_SLIDING, 10},     {WINDOW_SLIDING, 3600},
        {WINDOW_SLIDING, 86401},  {WINDOW_SLIDING, 691199}, {WINDOW_SLIDING, 8 * 86400},
        {WINDOW_SLIDING, 2592000}};

    for (size_t i = 0; i < N(windows); i++)
        for (int64_t t = T, n = 0; n < 40; n++, t += 29 * HOUR_MS + 1) {
            int64_t period = window_oldest_period(windows[i], &utc, t);
            int64_t begins = window_period_begins_ms(windows[i], period);

            assert_true(begins <= t);
            assert_int_equal(window_oldest_period(windows[i], &utc, begins), period);
            assert_true(window_oldest_period(windows[i], &utc, begins - 1) < period);
        }
}

static const struct {
    const char *why, *zone;
    struct window window;
    int64_t t_ms, begins_ms;
} begins[] = {
    {"an hour", "UTC0", {WINDOW_HOUR, 0}, 1641621599999LL, 1641618000000LL},
    {"a day", "UTC0", {WINDOW_DAY, 0}, 1641600000000LL, 1641600000000LL},
    {"its last instant", "UTC0", {WINDOW_DAY, 0}, 1641686399999LL, 1641600000000LL},
    {"a month", "UTC0", {WINDOW_MONTH, 0}, 1709251199999LL, 1706745600000LL},
    {"the furthest west", "AAA12", {WINDOW_DAY, 0}, 1641600000000LL, 1641556800000LL},
    {"the furthest east", "AAA-15", {WINDOW_DAY, 0}, 1641600000000LL, 1641546000000LL},
    {"a day of 23 hours",
     "CET-1CEST,M3.5.0,M10.5.0/3",
     {WINDOW_DAY, 0},
     1711922399999LL,
     1711839600000LL},
    {"a day of 25 hours",
     "CET-1CEST,M3.5.0,M10.5.0/3",
     {WINDOW_DAY, 0},
     1730069999999LL,
     1729980000000LL},
    {"a month that began in summer time",
     "CET-1CEST,M3.5.0,M10.5.0/3",
     {WINDOW_MONTH, 0},
     1730415599999LL,
     1727733600000LL},
    {"a day that begins at one o'clock",
     "XXX3YYY,M3.2.0/0,M11.1.0/1",
     {WINDOW_DAY, 0},
     1710039600000LL,
     1710039600000LL},
    {"a date that comes twice, at first",
     "EST5EDT,M3.2.0,M11.1.0/0:30",
     {WINDOW_DAY, 0},
     1730606399999LL,
     1730520000000LL},
    {"the date after it, for half an hour",
     "EST5EDT,M3.2.0,M11.1.0/0:30",
     {WINDOW_DAY, 0},
     1730608199999LL,
     1730606400000LL},
    {"a date that comes twice, again",
     "EST5EDT,M3.2.0,M11.1.0/0:30",
     {WINDOW_DAY, 0},
     1730608200000LL,
     1730520000000LL},
    {"the date after it, for the rest",
     "EST5EDT,M3.2.0,M11.1.0/0:30",
     {WINDOW_DAY, 0},
     1730610000000LL,
     1730606400000LL},
};

static void test_F43_a_calendar_window_begins_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(begins); i++) {
        struct zone z;
        print_message("    %s\n", begins[i].why);
        assert_true(zone_parse(begins[i].zone, &z));
        assert_int_equal(window_begins_ms(begins[i].window, &z, begins[i].t_ms),
                         begins[i].begins_ms);
    }
    assert_int_equal(window_begins_ms(sliding(10), &utc, T + 7), T + 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_and_codes),
        cmocka_unit_test(test_what_is_no_window_is_refused),
        cmocka_unit_test(test_codes_that_are_none),
        cmocka_unit_test(test_slots_at_their_edges),
        cmocka_unit_test(test_a_sliding_slot_counts_for_the_whole_length),
        cmocka_unit_test(test_F49_a_window_across_midnight_still_counts),
        cmocka_unit_test(test_F43_a_date_has_one_row_in_every_zone),
        cmocka_unit_test(test_F43_a_calendar_window_begins_once),
        cmocka_unit_test(test_periods),
        cmocka_unit_test(test_a_period_is_the_oldest_from_its_begin_on),
        cmocka_unit_test(test_keys_of_ended_slots_can_go),
    };
    return cmocka_run_group_tests_name("window", tests, NULL, NULL);
}
