/*
 * The gate through which every transaction of a process goes, so that the map can be replaced
 * while none is inside. Waiting to be alone is bounded: a write transaction can wait inside for
 * a stuck process as long as it likes, and must not take the readers with it.
 */
#ifndef STORE_KV_GATE_H
#define STORE_KV_GATE_H

#include <pthread.h>
#include <stdint.h>

#include "platform/error.h"

struct kv_gate {
    pthread_mutex_t mutex;
    pthread_cond_t empty;
    unsigned inside;
};

enum error kv_gate_init(struct kv_gate *g);
void kv_gate_destroy(struct kv_gate *g);

void kv_gate_enter(struct kv_gate *g);
void kv_gate_leave(struct kv_gate *g);

/* Waits until nobody is inside and keeps everybody out until kv_gate_reopen. ERROR_BUSY, and
 * nothing is kept, if that takes longer. Never from inside. */
enum error kv_gate_alone(struct kv_gate *g, int64_t wait_ms);
void kv_gate_reopen(struct kv_gate *g);

#endif
