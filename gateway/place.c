/* Stream places. Security: the count is the bound on memory and on money at risk at once. */
#include "gateway/place.h"

void places_init(struct places *p)
{
    pthread_mutex_init(&p->lock, NULL);
    p->first = NULL;
    p->taken = 0;
    p->cut = false;
}

void places_destroy(struct places *p)
{
    pthread_mutex_destroy(&p->lock);
}

bool place_take(struct places *p, unsigned streams, struct place *place)
{
    bool free_one;

    pthread_mutex_lock(&p->lock);
    free_one = p->taken < streams;
    if (free_one) {
        p->taken++;
        place->call = NULL;
        place->next = p->first;
        p->first = place;
    }
    pthread_mutex_unlock(&p->lock);
    return free_one;
}

void place_leave(struct places *p, struct place *place)
{
    struct place **at = &p->first;

    pthread_mutex_lock(&p->lock);
    while (*at != place)
        at = &(*at)->next;
    *at = place->next;
    p->taken--;
    pthread_mutex_unlock(&p->lock);
}

bool places_free(struct places *p, unsigned streams)
{
    bool free_one;

    pthread_mutex_lock(&p->lock);
    free_one = p->taken < streams;
    pthread_mutex_unlock(&p->lock);
    return free_one;
}

void place_set_call(struct places *p, struct place *place, struct call *call)
{
    pthread_mutex_lock(&p->lock);
    place->call = call;
    if (call != NULL && p->cut)
        call_abort(call);
    pthread_mutex_unlock(&p->lock);
}

void places_cut(struct places *p)
{
    pthread_mutex_lock(&p->lock);
    p->cut = true;
    for (struct place *place = p->first; place != NULL; place = place->next) {
        if (place->call != NULL)
            call_abort(place->call);
    }
    pthread_mutex_unlock(&p->lock);
}

bool places_are_cut(struct places *p)
{
    bool cut;

    pthread_mutex_lock(&p->lock);
    cut = p->cut;
    pthread_mutex_unlock(&p->lock);
    return cut;
}
