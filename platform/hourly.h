/*
 * What is to be done once an hour over all processes that share a file, where nothing better
 * than a file can be written. The file is made if need be; a lock on it decides who is first.
 */
#ifndef PLATFORM_HOURLY_H
#define PLATFORM_HOURLY_H

#include <stdint.h>

#define HOURLY_MS (60LL * 60 * 1000)

enum hourly {
    HOURLY_MINE,   /* the caller is to do it */
    HOURLY_DONE,   /* somebody has done it within the hour, or is about to */
    HOURLY_UNKNOWN /* the file cannot be used */
};

/* now_ms: CLOCK_MONOTONIC, which all processes of a boot share; a later time in the file is of
 * another boot. */
enum hourly hourly_claim(const char *path, int64_t now_ms);

/* It was not done after all: the next who claims it gets it. */
void hourly_release(const char *path);

#endif
