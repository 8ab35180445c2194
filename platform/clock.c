/*
 * The machine's clocks. A clock that cannot be read, or that is plainly wrong, is an error and
 * never a guess: a window opened at a guessed time would admit what an open one refuses.
 */
#include "platform/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "platform/file.h"

/* The Makefile passes the time of the build; 2026-01-01 is before the first release. */
#ifndef BUILD_TIME
#define BUILD_TIME 1767225600
#endif

#define BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"
#define BOOT_ID_TEXT 36 /* 32 hexadecimal digits and 4 hyphens; then a newline */

static pthread_mutex_t boot_id_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool boot_id_known; /* set after boot_id, which nobody writes any more then */
static uint8_t boot_id[16];

static bool read_ms(clockid_t clock, int64_t *ms)
{
    struct timespec t;

    if (clock_gettime(clock, &t) != 0)
        return false;
    *ms = (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
    return true;
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

/* The kernel writes it in one way only; anything else is not its file. */
static bool parse_boot_id(const char *text, size_t n, uint8_t out[16])
{
    unsigned digits = 0;

    if (n != BOOT_ID_TEXT + 1 || text[BOOT_ID_TEXT] != '\n')
        return false;
    for (size_t i = 0; i < BOOT_ID_TEXT; i++) {
        if (i == 8 || i == 13 || i == 18 || i == 23) {
            if (text[i] != '-')
                return false;
            continue;
        }
        int value = digit_value(text[i]);
        if (value < 0)
            return false;
        out[digits / 2] = (uint8_t)(out[digits / 2] << 4 | value);
        digits++;
    }
    return true;
}

static void read_boot_id(void)
{
    char *text;
    size_t n;

    if (file_read(BOOT_ID_FILE, BOOT_ID_TEXT + 1, &text, &n) != ERROR_NONE)
        return;
    atomic_store(&boot_id_known, parse_boot_id(text, n, boot_id));
    free(text);
}

/* Tried again until it could be read: nobody should have to restart what was started before
 * /proc was there. */
static bool know_boot_id(void)
{
    if (atomic_load(&boot_id_known))
        return true;
    pthread_mutex_lock(&boot_id_lock);
    if (!atomic_load(&boot_id_known))
        read_boot_id();
    pthread_mutex_unlock(&boot_id_lock);
    return atomic_load(&boot_id_known);
}

enum error clock_read(struct clock_now *out)
{
    struct clock_now now;

    if (!know_boot_id())
        return ERROR_CLOCK;
    if (!read_ms(CLOCK_REALTIME, &now.wall_ms) || !read_ms(CLOCK_BOOTTIME, &now.boot_ms))
        return ERROR_CLOCK;
    if (now.wall_ms < (int64_t)BUILD_TIME * 1000)
        return ERROR_CLOCK;
    for (unsigned i = 0; i < sizeof now.boot_id; i++)
        now.boot_id[i] = boot_id[i];
    *out = now;
    return ERROR_NONE;
}

int64_t clock_monotonic_ms(void)
{
    int64_t ms = 0;

    /* cannot fail: POSIX and Linux always have this clock */
    (void)read_ms(CLOCK_MONOTONIC, &ms);
    return ms;
}

int64_t clock_wall_s(void)
{
    int64_t ms = 0;

    (void)read_ms(CLOCK_REALTIME, &ms);
    return ms / 1000;
}

int64_t clock_monotonic_us(void)
{
    struct timespec t = {0};

    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* as above */
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

struct timespec clock_timespec(int64_t ms)
{
    return (struct timespec){.tv_sec = (time_t)(ms / 1000),
                             .tv_nsec = (long)(ms % 1000) * 1000000};
}
