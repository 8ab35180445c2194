/*
 * The breaker of each model: who asks an API that fails, or that refuses us, would only wait for
 * nothing, and each such call is given back, so that no limit ends the attempts. It opens after
 * so many failures in a row, or at one refusal. When its time is over exactly one reservation of
 * all processes is let through to try; what comes of that one closes it or opens it for twice as
 * long. A model that is well has no row, and costs a decision one look.
 *
 * While it is open nothing counts but the probe: calls that were under way when it opened must
 * not lengthen it, and that a long stream ends well says nothing of the next call.
 */
#include <inttypes.h>
#include <string.h>

#include "platform/log.h"
#include "store/batch.h"

#define PAUSES_MAX    16 /* it opens at most so many times as long as at first */
#define PAUSE_MAX_MS  (BREAKER_PAUSE_MAX_MS / PAUSES_MAX) /* a day; options allow less */
#define PROBE_WAIT_MS 2000 /* nobody can know when the probe has its answer */

/* Reads the row; all zero if there is none or it is of another boot. */
static enum error read_breaker(struct kv_txn *t, const char *model, const struct clock_now *now,
                               struct breaker *out)
{
    struct row_key key;
    struct kv_slice value;

    memset(out, 0, sizeof *out);
    key_breaker(model, &key);
    enum error e = kv_get(t, key.bytes, key.n, &value);
    if (e != ERROR_NONE)
        return e == ERROR_NOT_FOUND ? ERROR_NONE : e;
    if (!record_breaker_read(&value, out))
        return ERROR_STORE_INVALID;
    if (memcmp(out->boot_id, now->boot_id, sizeof now->boot_id) != 0)
        memset(out, 0, sizeof *out);
    return ERROR_NONE;
}

/* A probe whose holder was killed is over, too. */
static bool is_probed(const struct breaker *k, const struct clock_now *now, struct live *live)
{
    return k->probing_until_ms > now->boot_ms && live_is_held(live, k->probe_id);
}

static bool is_half_open(const struct breaker *k, const struct clock_now *now)
{
    return k->open_until_ms > 0 && k->open_until_ms <= now->boot_ms;
}

enum error breaker_wait(const struct view_context *c, const char *model, int64_t *wait_ms,
                        unsigned *failures)
{
    struct breaker k;
    enum error e = read_breaker(c->txn, model, c->now, &k);

    if (e != ERROR_NONE)
        return e;
    *failures = k.failures;
    *wait_ms = 0;
    if (k.open_until_ms > c->now->boot_ms)
        *wait_ms = k.open_until_ms - c->now->boot_ms;
    else if (is_half_open(&k, c->now) && is_probed(&k, c->now, c->ledger->live))
        *wait_ms = PROBE_WAIT_MS;
    return ERROR_NONE;
}

enum error breaker_decide(const struct view_context *c, const char *model, struct answer *out)
{
    unsigned failures;

    if (out->decision != DECISION_ADMITTED || model[0] == '\0')
        return ERROR_NONE;
    enum error e = breaker_wait(c, model, &out->wait_ms, &failures);
    if (e == ERROR_NONE && out->wait_ms > 0)
        out->decision = DECISION_BREAKER;
    return e;
}

static enum error put_breaker(struct batch *b, const char *model, struct breaker *k)
{
    struct row_key key;
    struct record r;

    memcpy(k->boot_id, b->now.boot_id, sizeof k->boot_id);
    key_breaker(model, &key);
    record_breaker(k, &r);
    return batch_put(b, &key, &r);
}

static enum error remove_row(struct batch *b, const struct row_key *key)
{
    enum error e = kv_delete(b->txn, key->bytes, key->n);

    b->changed = b->changed || e == ERROR_NONE;
    return e == ERROR_NOT_FOUND ? ERROR_NONE : e;
}

static enum error remove_breaker(struct batch *b, const char *model)
{
    struct row_key key;

    key_breaker(model, &key);
    return remove_row(b, &key);
}

enum error batch_probe(struct batch *b, struct reservation *r)
{
    struct breaker k;
    enum error e = read_breaker(b->txn, r->model, &b->now, &k);

    if (e != ERROR_NONE || !is_half_open(&k, &b->now))
        return e;
    r->probe = true;
    k.probe_id = r->id;
    k.probing_until_ms = r->deadline_boot_ms;
    return put_breaker(b, r->model, &k);
}

static int64_t clamp(int64_t v, int64_t least, int64_t most)
{
    return v < least ? least : (v > most ? most : v);
}

/* Opens it: the first time for the pause of the settlement, after a probe for twice as long. */
static enum error open_breaker(struct batch *b, const struct op *op, struct breaker *k)
{
    const struct settlement *s = &op->settlement;
    int64_t first = clamp(s->breaker_pause_ms, 1, PAUSE_MAX_MS);
    int64_t pause =
        k->open_until_ms == 0 ? first : clamp(2 * k->pause_ms, first, PAUSES_MAX * first);
    int64_t open_ms = pause;
    bool opens = k->open_until_ms == 0;
    enum error e = ERROR_NONE;

    if (s->health == HEALTH_REFUSED)
        open_ms = clamp(clamp(s->retry_after_ms, 0, LEDGER_RETRY_MAX_MS), pause, INT64_MAX);
    k->pause_ms = pause;
    k->open_until_ms = b->now.boot_ms + open_ms;
    k->probe_id = 0;
    k->probing_until_ms = 0;
    log_line(LOG_LEVEL_WARNING, "event=breaker_open model=%s seconds=%" PRId64,
             op->reservation.model, (open_ms + 999) / 1000);
    if (s->health == HEALTH_REFUSED)
        e = alert_queue(b, ALERT_UPSTREAM_REFUSED, op->reservation.model);
    else if (opens)
        e = alert_queue(b, ALERT_BREAKER_OPEN, op->reservation.model);
    return e == ERROR_NONE ? put_breaker(b, op->reservation.model, k) : e;
}

static enum error count_failure(struct batch *b, const struct op *op, struct breaker *k)
{
    const struct settlement *s = &op->settlement;

    k->failures += k->failures < UINT32_MAX;
    if (k->open_until_ms > 0 || s->health == HEALTH_REFUSED || k->failures >= s->breaker_after)
        return open_breaker(b, op, k);
    return put_breaker(b, op->reservation.model, k);
}

/* If it was the probe, the next one may try. */
static enum error found_nothing_out(struct batch *b, const struct reservation *r,
                                    struct breaker *k)
{
    if (k->open_until_ms == 0)
        return ERROR_NONE;
    k->probing_until_ms = 0;
    return put_breaker(b, r->model, k);
}

enum error batch_health(struct batch *b, const struct op *op)
{
    const struct reservation *r = &op->reservation;
    struct breaker k;
    enum error e = read_breaker(b->txn, r->model, &b->now, &k);

    if (e != ERROR_NONE || r->model[0] == '\0' ||
        (k.open_until_ms > 0 && (k.probing_until_ms == 0 || k.probe_id != r->id)))
        return e;
    switch (op->settlement.health) {
    case HEALTH_GOOD:
        if (k.open_until_ms > 0)
            log_line(LOG_LEVEL_INFO, "event=breaker_closed model=%s", r->model);
        return remove_breaker(b, r->model);
    case HEALTH_FAILED:
    case HEALTH_REFUSED:
        return count_failure(b, op, &k);
    case HEALTH_DENIED:
        e = alert_queue(b, ALERT_UPSTREAM_REFUSED, r->model);
        return e == ERROR_NONE ? found_nothing_out(b, r, &k) : e;
    default:
        return found_nothing_out(b, r, &k);
    }
}

enum error batch_forgive_model(struct batch *b, struct op *op)
{
    const char *model = op->order;
    struct row_key overhead;

    key_overhead(model, &overhead);
    enum error e = remove_row(b, &overhead);
    return e == ERROR_NONE ? remove_breaker(b, model) : e;
}
