/*
 * Stream places: at most `streams` requests of a process are with the upstream, so that a pool
 * of streams + 2 workers always has somebody to say no. A place also is where a stop finds the
 * calls that still run.
 */
#ifndef GATEWAY_PLACE_H
#define GATEWAY_PLACE_H

#include <pthread.h>
#include <stdbool.h>

#include "gateway/upstream.h"

struct place {
    struct call *call; /* NULL: none runs */
    struct place *next;
};

struct places {
    pthread_mutex_t lock;
    struct place *first;
    unsigned taken;
    bool cut;
};

void places_init(struct places *p);
void places_destroy(struct places *p);

/* False: all `streams` are taken. A place, the caller's own storage, is given back by
 * place_leave. */
bool place_take(struct places *p, unsigned streams, struct place *place);
void place_leave(struct places *p, struct place *place);
/* Whether one would have been taken at this moment. */
bool places_free(struct places *p, unsigned streams);

/* The call that runs at the place; NULL before it is freed. After a cut it is aborted
 * at once. */
void place_set_call(struct places *p, struct place *place, struct call *call);

/* Aborts all calls, those to come as well. */
void places_cut(struct places *p);
bool places_are_cut(struct places *p);

#endif
