/*
 * Random bytes by getrandom alone. It never falls back to /dev/urandom, which early in a boot
 * answers before the kernel's pool is seeded.
 */
#include "platform/random.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <sys/random.h>

#include "platform/clock.h"

#define WAIT_MS 2000 /* as the header promises */
#define POLL_MS 20   /* short beside WAIT_MS, long beside a system call */

enum error random_bytes(void *out, size_t n)
{
    if (n > RANDOM_MAX)
        return ERROR_TOO_LARGE;

    int64_t give_up_ms = clock_monotonic_ms() + WAIT_MS;

    /* up to RANDOM_MAX bytes the kernel gives all or none, so out needs no copy */
    while (getrandom(out, n, GRND_NONBLOCK) != (ssize_t)n) {
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN || clock_monotonic_ms() >= give_up_ms)
            return ERROR_SYSTEM;
        poll(NULL, 0, POLL_MS);
    }
    return ERROR_NONE;
}
