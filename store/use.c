/*
 * How a shared subject's limit stands: what has been charged to the rows that count now, and
 * how much of it calls under way may still give back. For the owner's figures and for alerts.
 */
#include <string.h>

#include "store/ledger_parts.h"
#include "store/rows.h"

static const uint8_t none[SUBJECT_HASH]; /* shared subjects are not hashed */

enum error use_charged(const struct view_context *c, const struct policy *p,
                       const struct limit *l, struct use *out)
{
    const struct zone *z = view_zone(c->ledger, p);
    struct slot slot[WINDOW_SLOTS_MAX];
    int64_t t = storetime_now(&c->state->time, c->now);

    memset(out, 0, sizeof *out);
    out->limit = l;
    out->frees_ms = t;
    out->released = l->max;
    out->n = l->unit == UNIT_CONCURRENT ? 0 : window_slots(l->window, z, t, slot);
    for (unsigned i = 0; i < out->n; i++) {
        struct amounts a;
        int64_t frees = window_frees_ms(l->window, z, t, &slot[i]);

        key_counter(l->window, &slot[i], l->subject, none, &out->row[i]);
        enum error e = rows_amounts(c->txn, &out->row[i], &a);
        if (e != ERROR_NONE)
            return e;
        out->charged = amount_add(out->charged, a.of[l->unit]);
        if (a.of[l->unit] > 0) /* newest first: the last one seen frees first */
            out->frees_ms = frees;
        if (i > 0)
            continue;
        out->ends_ms = frees;
        out->released = rule_released(l, window_begins_ms(l->window, z, t), frees, t);
    }
    return ERROR_NONE;
}

struct adding {
    struct live *live;
    struct use *use;
};

static enum error add_hold(void *arg, uint64_t id, const struct hold_places *p,
                           const struct kv_slice *value)
{
    const struct adding *w = arg;
    struct use *u = w->use;
    struct hold h;

    if (u->limit->unit == UNIT_CONCURRENT) {
        if (places_have(p, u->limit->subject, none) && live_is_held(w->live, id))
            u->charged = ++u->reserved;
        return ERROR_NONE;
    }
    if (!record_hold_read(value, &h))
        return ERROR_STORE_INVALID;
    for (unsigned i = 0; i < u->n;
         i++) /* until it is settled, whether or not its holder lives */
        if (hold_has_row(&h, &u->row[i]))
            u->reserved = amount_add(u->reserved, h.reserved.of[u->limit->unit]);
    return ERROR_NONE;
}

enum error use_reserved(const struct view_context *c, struct use *u)
{
    struct adding w = {c->ledger->live, u};

    return view_holds(c, add_hold, &w);
}
