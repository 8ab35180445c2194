/* Store time under clocks that step and machines that start again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "store/storetime.h"

#define N(a) (sizeof(a) / sizeof((a)[0]))

#define T        1700000000000LL
#define HOUR_MS  3600000LL
#define DAY_MS   86400000LL
#define YEARS_MS (3652 * DAY_MS) /* ten of them */
#define LAST_MS  253402300799999LL

static struct clock_now reading(int64_t wall_ms, int64_t boot_ms, uint8_t boot)
{
    struct clock_now now = {wall_ms, boot_ms, {boot}};
    return now;
}

/* Stored: time T at boot time 1000 of boot 1. Then a reading, and what follows. */
static const struct {
    const char *why;
    int64_t wall_ms, boot_ms;
    uint8_t boot;
    int64_t time_ms;
} readings[] = {
    {"the same instant", T, 1000, 1, T},
    {"a minute later", T + 60000, 61000, 1, T + 60000},
    {"F44 two hours back: half rate", T - 2 * HOUR_MS + 60000, 61000, 1, T + 30000},
    {"F44 back to 1970", 60000, 61000, 1, T + 30000},
    {"F44 before 1970", -1, 61000, 1, T + 30000},
    {"an odd millisecond is not yet counted", T - HOUR_MS, 1003, 1, T + 1},
    {"a little back, caught up", T + 30001, 61000, 1, T + 30001},
    {"F44 ten years ahead", T + YEARS_MS, 61000, 1, T + YEARS_MS},
    {"F44 ten years back", T - YEARS_MS, 61000, 1, T + 30000},
    {"a new boot, clock right", T + HOUR_MS, 5000, 2, T + HOUR_MS},
    {"a new boot without a clock: its uptime has passed", 0, 5000, 2, T + 2500},
    {"boot time read before the write that we find", T - HOUR_MS, 500, 1, T},
    {"boot time below zero", T - HOUR_MS, INT64_MIN, 1, T},
    {"boot time without end", T, INT64_MAX, 1, T + (LAST_MS - 1000) / 2},
    {"a clock without end", INT64_MAX, 1000, 1, LAST_MS},
    {"a clock at its other end", INT64_MIN, 1000, 1, T},
};

static void test_store_time_by_clock_and_boot_time(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(readings); i++) {
        struct storetime s = {T, 1000, 0, 0, {1}};
        struct clock_now now =
            reading(readings[i].wall_ms, readings[i].boot_ms, readings[i].boot);
        print_message("    %s\n", readings[i].why);
        assert_int_equal(storetime_now(&s, &now), readings[i].time_ms);
        storetime_advance(&s, &now);
        assert_int_equal(s.time_ms, readings[i].time_ms);
        assert_memory_equal(s.boot_id, now.boot_id, 16);
        assert_int_equal(storetime_now(&s, &now), readings[i].time_ms);
    }
}

static void test_F44_half_rate_is_exact_however_often_it_is_written(void **state)
{
    (void)state;
    static const int64_t steps[] = {1, 2, 3, 7, 1000};
    for (size_t i = 0; i < N(steps); i++) {
        struct storetime s = {T, 1000, 0, 0, {1}};
        for (int64_t e = 0; e <= 42000; e += steps[i]) {
            struct clock_now now = reading(T - HOUR_MS + e, 1000 + e, 1);
            storetime_advance(&s, &now);
            assert_int_equal(s.time_ms, T + e / 2);
        }
    }
}

static void test_it_joins_the_clock_again(void **state)
{
    (void)state;
    struct storetime s = {T, 0, 0, 0, {1}};
    struct clock_now now = reading(T - HOUR_MS, 0, 1);
    storetime_advance(&s, &now);
    now = reading(T + HOUR_MS - 1, 2 * HOUR_MS - 1, 1);
    assert_int_equal(storetime_now(&s, &now), T + HOUR_MS - 1);
    now = reading(T + HOUR_MS + 5, 2 * HOUR_MS + 5, 1);
    assert_int_equal(storetime_now(&s, &now), T + HOUR_MS + 5);
}

static void test_boot_time_never_goes_back_within_a_boot(void **state)
{
    (void)state;
    /* Two processes write in turn, the second with a reading 5 ms older each time. */
    struct storetime s = {T, 1000, 0, 0, {1}};
    for (int64_t e = 10; e <= 1000; e += 10) {
        struct clock_now now = reading(0, 1000 + e, 1);
        storetime_advance(&s, &now);
        now.boot_ms -= 5;
        storetime_advance(&s, &now);
    }
    assert_int_equal(s.time_ms, T + 500);
}

static const struct {
    const char *why;
    int64_t wall_ms, boot_ms;
    uint8_t boot;
    int64_t hold_ms;
} steps[] = {
    {"a step of a day", T + DAY_MS, 1000, 1, 0},
    {"a step of more than a day", T + DAY_MS + 1, 1000, 1, T + DAY_MS + 1 + STORETIME_HOLD_MS},
    {"a quiet week", T + 7 * DAY_MS, 1000 + 7 * DAY_MS, 1, 0},
    {"a quiet week and a step", T + 8 * DAY_MS + 1, 1000 + 7 * DAY_MS, 1,
     T + 8 * DAY_MS + 1 + STORETIME_HOLD_MS},
    {"a new boot a day later", T + DAY_MS + 500, 500, 2, 0},
    {"a new boot more than a day later", T + DAY_MS + 501, 500, 2,
     T + DAY_MS + 501 + STORETIME_HOLD_MS},
    {"F44 ten years back erases nothing early either", T - YEARS_MS, 1000, 1, 0},
};

static void test_nothing_that_it_ended_is_erased_for_a_day_after_a_step(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(steps); i++) {
        struct storetime s = {T, 1000, 0, 0, {1}};
        struct clock_now now = reading(steps[i].wall_ms, steps[i].boot_ms, steps[i].boot);
        print_message("    %s\n", steps[i].why);
        assert_int_equal(storetime_erase_ms(&s, T), T);
        storetime_advance(&s, &now);
        assert_int_equal(s.hold_until_ms, steps[i].hold_ms);
        int64_t over_ms = s.time_ms + STORETIME_HOLD_MS;
        assert_int_equal(storetime_erase_ms(&s, s.time_ms),
                         steps[i].hold_ms == 0 ? s.time_ms : T);
        assert_int_equal(storetime_erase_ms(&s, over_ms), over_ms);
        if (steps[i].hold_ms != 0) /* what had ended before it goes, what it ended does not */
            assert_int_equal(storetime_erase_ms(&s, over_ms - 1), T);
    }
}

static void test_what_timed_work_notes_although_nothing_else_is_written(void **state)
{
    static const struct {
        const char *why;
        int64_t wall_ms, boot_ms;
        uint8_t boot;
        bool is;
    } rows[] = {
        {"a quiet day with a right clock", T + DAY_MS, 1000 + DAY_MS, 1, false},
        {"a step of a day", T + DAY_MS, 1000, 1, false},
        {"a longer one: its hold is to begin", T + DAY_MS + 1, 1000, 1, true},
        {"another boot", T + 1, 1, 2, true},
        {"ahead of the clock, not gone on for long", T - HOUR_MS, 999 + 2 * STORETIME_NOTE_MS,
         1, false},
        {"and for so long", T - HOUR_MS, 1000 + 2 * STORETIME_NOTE_MS, 1, true},
    };

    (void)state;
    for (size_t i = 0; i < N(rows); i++) {
        struct storetime s = {T, 1000, 0, 0, {1}};
        struct clock_now now = reading(rows[i].wall_ms, rows[i].boot_ms, rows[i].boot);
        print_message("    %s\n", rows[i].why);
        assert_int_equal(storetime_must_note(&s, &now), rows[i].is);
    }
}

static void test_a_hold_outlives_later_writes(void **state)
{
    (void)state;
    struct storetime s = {T, 1000, 0, 0, {1}};
    struct clock_now now = reading(T + YEARS_MS, 1000, 1);
    storetime_advance(&s, &now);
    int64_t hold = s.hold_until_ms;
    now = reading(T, 2000, 1); /* the clock was mended */
    storetime_advance(&s, &now);
    assert_int_equal(s.hold_until_ms, hold);
    assert_int_equal(storetime_erase_ms(&s, s.time_ms), T);
    assert_int_equal(storetime_erase_ms(&s, T - 1),
                     T - 1); /* never later than what is asked for */
}

static const struct {
    const char *why;
    int64_t wall_ms, boot_ms;
    uint8_t boot;
    int64_t until_ms, wait_ms;
} waits[] = {
    {"it is that late already", T, 1000, 1, T, 0},
    {"it was that late long ago", T, 1000, 1, 0, 0},
    {"with the clock: as long as it is", T, 1000, 1, T + 5000, 5000},
    {"far ahead of the clock: twice as long", T - HOUR_MS, 1000, 1, T + 5000, 10000},
    {"an odd millisecond has passed", T - HOUR_MS, 1001, 1, T + 5000, 9999},
    {"the clock catches up before", T - 3000, 1000, 1, T + 5000, 8000},
    {"both at once", T - 5000, 1000, 1, T + 5000, 10000},
    {"a new boot without a clock", 0, 100, 2, T + 5000, 9900},
    {"boot time read before the write that we find", 0, 900, 1, T + 5000, 10100},
};

static void test_waits_are_exact_in_real_time(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(waits); i++) {
        struct storetime s = {T, 1000, 0, 0, {1}};
        struct clock_now now = reading(waits[i].wall_ms, waits[i].boot_ms, waits[i].boot);
        print_message("    %s\n", waits[i].why);
        int64_t wait = storetime_wait_ms(&s, &now, waits[i].until_ms);
        assert_int_equal(wait, waits[i].wait_ms);
        now.wall_ms += wait;
        now.boot_ms += wait;
        assert_true(storetime_now(&s, &now) >= waits[i].until_ms);
        now.wall_ms--;
        now.boot_ms--;
        if (wait > 0)
            assert_true(storetime_now(&s, &now) < waits[i].until_ms);
    }
}

static void test_hostile_stored_values(void **state)
{
    (void)state;
    static const int64_t values[] = {INT64_MIN, -1, 0, 1, LAST_MS, LAST_MS + 1, INT64_MAX};
    for (size_t i = 0; i < N(values) * N(values) * N(values); i++) {
        int64_t a = values[i % N(values)], b = values[i / N(values) % N(values)];
        struct storetime s = {a, b, b, b, {1}};
        struct clock_now now = reading(values[i / N(values) / N(values)], b, 1);
        storetime_advance(&s, &now);
        assert_in_range(s.time_ms, 0, LAST_MS);
        assert_true(storetime_wait_ms(&s, &now, a) >= 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_store_time_by_clock_and_boot_time),
        cmocka_unit_test(test_F44_half_rate_is_exact_however_often_it_is_written),
        cmocka_unit_test(test_it_joins_the_clock_again),
        cmocka_unit_test(test_boot_time_never_goes_back_within_a_boot),
        cmocka_unit_test(test_nothing_that_it_ended_is_erased_for_a_day_after_a_step),
        cmocka_unit_test(test_what_timed_work_notes_although_nothing_else_is_written),
        cmocka_unit_test(test_a_hold_outlives_later_writes),
        cmocka_unit_test(test_waits_are_exact_in_real_time),
        cmocka_unit_test(test_hostile_stored_values),
    };
    return cmocka_run_group_tests_name("storetime", tests, NULL, NULL);
}
