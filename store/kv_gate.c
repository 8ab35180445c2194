/* The gate of transactions: a counting mutex with a bounded wait for zero. */
#include "store/kv_gate.h"

#include <errno.h>

#include "platform/clock.h"

enum error kv_gate_init(struct kv_gate *g)
{
    pthread_condattr_t attr;
    if (pthread_condattr_init(&attr))
        return ERROR_MEMORY;
    /* The wall clock can jump, and with it the end of the wait. */
    int rc = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    if (!rc)
        rc = pthread_cond_init(&g->empty, &attr);
    pthread_condattr_destroy(&attr);
    if (rc)
        return ERROR_MEMORY;
    if (pthread_mutex_init(&g->mutex, NULL)) {
        pthread_cond_destroy(&g->empty);
        return ERROR_MEMORY;
    }
    g->inside = 0;
    return ERROR_NONE;
}

void kv_gate_destroy(struct kv_gate *g)
{
    pthread_cond_destroy(&g->empty);
    pthread_mutex_destroy(&g->mutex);
}

void kv_gate_enter(struct kv_gate *g)
{
    pthread_mutex_lock(&g->mutex);
    g->inside++;
    pthread_mutex_unlock(&g->mutex);
}

void kv_gate_leave(struct kv_gate *g)
{
    pthread_mutex_lock(&g->mutex);
    if (--g->inside == 0)
        pthread_cond_broadcast(&g->empty);
    pthread_mutex_unlock(&g->mutex);
}

enum error kv_gate_alone(struct kv_gate *g, int64_t wait_ms)
{
    struct timespec end = clock_timespec(clock_monotonic_ms() + wait_ms);

    pthread_mutex_lock(&g->mutex);
    while (g->inside > 0) {
        if (pthread_cond_timedwait(&g->empty, &g->mutex, &end) == ETIMEDOUT && g->inside > 0) {
            pthread_mutex_unlock(&g->mutex);
            return ERROR_BUSY;
        }
    }
    return ERROR_NONE;
}

void kv_gate_reopen(struct kv_gate *g)
{
    pthread_mutex_unlock(&g->mutex);
}
