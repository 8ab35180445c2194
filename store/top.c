/*
 * The callers of today that have used the most. A row of the calendar day has calls, tokens and
 * cost together, whatever its limits count, and is the one row of its caller that day; its hash
 * is the one that names the caller in the log.
 */
#include <string.h>

#include "store/ledger_parts.h"
#include "store/rows.h"

/* Rows looked at of each kind of subject: a site whose budget admits more callers a day than
 * this is none of a hobby's, and the look has to end. Hashes are random, so that what is seen
 * of more is a fair part of them. */
#define ROWS_EACH 4096

struct ranked {
    enum subject subject;
    uint8_t hash[SUBJECT_HASH];
    struct amounts used;
};

struct ranking {
    const struct policy *policy;
    enum subject subject;
    struct row_key from;
    unsigned left; /* rows that may still be looked at */
    unsigned n;
    struct ranked best[TOP_MAX];
    bool whole;
};

static bool is_more(const struct amounts *a, const struct amounts *b)
{
    if (a->of[UNIT_CALLS] != b->of[UNIT_CALLS])
        return a->of[UNIT_CALLS] > b->of[UNIT_CALLS];
    return a->of[UNIT_TOKENS] > b->of[UNIT_TOKENS];
}

/* Of equals the one that was seen first. */
static void rank(struct ranking *w, const struct ranked *r)
{
    unsigned i = w->n < TOP_MAX ? w->n : TOP_MAX - 1;

    if (w->n == TOP_MAX && !is_more(&r->used, &w->best[i].used))
        return;
    w->n += w->n < TOP_MAX;
    for (; i > 0 && is_more(&r->used, &w->best[i - 1].used); i--)
        w->best[i] = w->best[i - 1];
    w->best[i] = *r;
}

static enum error see_row(void *arg, struct kv_cursor *c, const struct kv_slice *key,
                          const struct kv_slice *value)
{
    struct ranking *w = arg;
    struct ranked r = {.subject = w->subject};
    const size_t head = w->from.n - SUBJECT_HASH;

    (void)c;
    if (key->n != w->from.n || memcmp(key->data, w->from.bytes, head) != 0)
        return ERROR_NOT_FOUND;
    if (w->left == 0) {
        w->whole = false;
        return ERROR_NOT_FOUND;
    }
    w->left--;
    if (!record_amounts_read(value, &r.used))
        return ERROR_STORE_INVALID;
    memcpy(r.hash, (const uint8_t *)key->data + head, SUBJECT_HASH);
    if (r.used.of[UNIT_CALLS] > 0) /* else everything has been given back */
        rank(w, &r);
    return ERROR_NONE;
}

static enum error rank_all(void *arg, const struct view_context *c)
{
    static const enum subject callers[] = {SUBJECT_ADDRESS, SUBJECT_VISITOR, SUBJECT_ACCOUNT,
                                           SUBJECT_KEY};
    static const struct window day = {WINDOW_DAY, 0};
    static const uint8_t first[SUBJECT_HASH];
    struct ranking *w = arg;
    struct slot today[WINDOW_SLOTS_MAX];
    enum error e = ERROR_NONE;

    w->n = 0;
    w->whole = true;
    (void)window_slots(day, view_zone(c->ledger, w->policy),
                       storetime_now(&c->state->time, c->now), today);
    for (unsigned i = 0; i < sizeof callers / sizeof *callers && e == ERROR_NONE; i++) {
        w->subject = callers[i];
        w->left = ROWS_EACH;
        key_counter(day, &today[0], w->subject, first, &w->from);
        e = rows_each(c->txn, &w->from, see_row, w);
    }
    return e;
}

enum error ledger_top(struct ledger *l, const struct policy *p,
                      struct ledger_caller out[TOP_MAX], unsigned *n, bool *whole)
{
    struct ranking w = {.policy = p};
    enum error e = ledger_reading(l, rank_all, &w);

    if (e != ERROR_NONE)
        return e;
    *n = w.n;
    *whole = w.whole;
    for (unsigned i = 0; i < w.n; i++) {
        out[i].subject = w.best[i].subject;
        out[i].used = w.best[i].used;
        ledger_name(l, w.best[i].hash, out[i].name);
    }
    return ERROR_NONE;
}
