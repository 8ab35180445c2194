/*
 * Period keys: the ratchets and their file. Security stance: the file is believed only as a
 * whole, under a MAC of the site's secret that covers every byte of it and the store's uuid. A
 * key that has been left behind is overwritten wherever it was kept, derived ones included.
 */
#include "store/period.h"

#include <stdlib.h>
#include <string.h>

#include "platform/file.h"
#include "platform/random.h"

/* The file, all integers big-endian:
 *   magic[8] version[1] count[1] uuid[16] { code[4] generation[8] period[8] key[32] }* mac[32]
 */
#define MAGIC      "PGPERIOD"
#define MAGIC_SIZE 8
#define VERSION    1
#define UUID_SIZE  16
#define HEAD_SIZE  (MAGIC_SIZE + 1 + 1 + UUID_SIZE)
#define ENTRY_SIZE (4 + 8 + 8 + MAC_SIZE)
#define FILE_MAX   (HEAD_SIZE + PERIOD_WINDOWS * ENTRY_SIZE + MAC_SIZE)

#define ID_MAX UINT8_MAX

/* ---- the file ---- */

static uint8_t *put_u64(uint8_t *p, uint64_t v, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        p[i] = (uint8_t)(v >> 8 * (bytes - 1 - i));
    return p + bytes;
}

static uint64_t get_u64(const uint8_t *p, unsigned bytes)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < bytes; i++)
        v = v << 8 | p[i];
    return v;
}

static uint8_t *put_bytes(uint8_t *p, const void *data, size_t n)
{
    memcpy(p, data, n);
    return p + n;
}

static size_t encode(const struct periods *p, const uint8_t secret[MAC_SIZE],
                     const uint8_t uuid[16], uint8_t out[FILE_MAX])
{
    uint8_t *at = put_bytes(out, MAGIC, MAGIC_SIZE);
    *at++ = VERSION;
    *at++ = (uint8_t)p->n;
    at = put_bytes(at, uuid, UUID_SIZE);
    for (unsigned i = 0; i < p->n; i++) {
        const struct period_entry *e = &p->entry[i];
        at = put_u64(at, e->code, 4);
        at = put_u64(at, e->generation, 8);
        at = put_u64(at, (uint64_t)e->period, 8);
        at = put_bytes(at, e->key, MAC_SIZE);
    }
    size_t n = (size_t)(at - out);
    mac_compute(secret, "period-file", out, n, at);
    return n + MAC_SIZE;
}

/* True if it is a file of this store and secret, unchanged. */
static bool verify(const uint8_t *data, size_t n, const uint8_t secret[MAC_SIZE],
                   const uint8_t uuid[16])
{
    uint8_t mac[MAC_SIZE];
    if (n < HEAD_SIZE + MAC_SIZE || memcmp(data, MAGIC, MAGIC_SIZE) != 0)
        return false;
    /* n is at most FILE_MAX, and so the count at most PERIOD_WINDOWS */
    size_t body = HEAD_SIZE + (size_t)data[MAGIC_SIZE + 1] * ENTRY_SIZE;
    if (data[MAGIC_SIZE] != VERSION || n != body + MAC_SIZE ||
        memcmp(data + MAGIC_SIZE + 2, uuid, UUID_SIZE) != 0)
        return false;
    mac_compute(secret, "period-file", data, body, mac);
    return mac_equal(mac, data + body, MAC_SIZE);
}

static void decode(const uint8_t *data, struct periods *out)
{
    *out = (struct periods){.n = data[MAGIC_SIZE + 1]};
    const uint8_t *at = data + HEAD_SIZE;
    for (unsigned i = 0; i < out->n; i++, at += ENTRY_SIZE) {
        struct period_entry *e = &out->entry[i];
        e->code = (uint32_t)get_u64(at, 4);
        e->generation = get_u64(at + 4, 8);
        e->period = (int64_t)get_u64(at + 12, 8);
        memcpy(e->key, at + 20, MAC_SIZE);
    }
}

enum error periods_read(const char *path, const uint8_t secret[MAC_SIZE],
                        const uint8_t uuid[16], struct periods *out)
{
    char *text;
    size_t n;
    enum error e = file_read_secret(path, FILE_MAX, false, &text, &n);
    if (e == ERROR_NOT_FOUND || e == ERROR_NOT_REGULAR || e == ERROR_TOO_LARGE)
        return ERROR_PERIODS;
    if (e)
        return e;
    uint8_t data[FILE_MAX];
    memcpy(data, text, n);
    mac_wipe(text, n);
    free(text);
    bool ok = verify(data, n, secret, uuid);
    if (ok)
        decode(data, out);
    mac_wipe(data, sizeof data);
    return ok ? ERROR_NONE : ERROR_PERIODS;
}

enum error periods_write(const char *path, const uint8_t secret[MAC_SIZE],
                         const uint8_t uuid[16], const struct periods *p)
{
    uint8_t data[FILE_MAX];
    size_t n = encode(p, secret, uuid, data);
    enum error e = file_replace(path, 0600, data, n);
    mac_wipe(data, sizeof data);
    return e;
}

/* ---- the ratchets ---- */

const struct period_entry *periods_find(const struct periods *p, uint32_t code)
{
    for (unsigned i = 0; i < p->n; i++)
        if (p->entry[i].code == code)
            return &p->entry[i];
    return NULL;
}

enum error periods_add(struct periods *p, uint32_t code, int64_t period)
{
    if (periods_find(p, code))
        return ERROR_EXISTS;
    if (p->n == PERIOD_WINDOWS)
        return ERROR_TOO_MANY_WINDOWS;
    struct period_entry e = {.code = code, .period = period};
    enum error failed = random_bytes(e.key, sizeof e.key);
    if (!failed)
        failed = random_bytes(&e.generation, sizeof e.generation);
    if (!failed)
        p->entry[p->n++] = e;
    mac_wipe(&e, sizeof e);
    return failed;
}

/* How many steps lead from one period to a later one (an earlier one is, unsigned, far beyond
 * the bound); false if they may not be taken. */
static bool steps_between(int64_t from, int64_t to, unsigned *steps)
{
    uint64_t n = (uint64_t)to - (uint64_t)from;
    if (n > PERIOD_STEP_MAX)
        return false;
    *steps = (unsigned)n;
    return true;
}

/* In place, so that no key on the way is kept. */
static void turn(uint8_t key[MAC_SIZE], unsigned steps)
{
    for (unsigned i = 0; i < steps; i++)
        mac_compute(key, "next", "", 0, key);
}

bool periods_advance(struct periods *p, const struct zone *z, int64_t store_ms)
{
    bool moved = false;
    for (unsigned i = 0; i < p->n; i++) {
        struct period_entry *e = &p->entry[i];
        struct window w;
        unsigned steps;
        if (!window_from_code(e->code, &w))
            continue;
        int64_t oldest = window_oldest_period(w, z, store_ms);
        if (!steps_between(e->period, oldest, &steps) || steps == 0)
            continue;
        turn(e->key, steps);
        e->period = oldest;
        moved = true;
    }
    return moved;
}

int64_t periods_begin_ms(const struct periods *p)
{
    int64_t latest = 0;
    for (unsigned i = 0; i < p->n; i++) {
        struct window w;
        if (!window_from_code(p->entry[i].code, &w))
            continue;
        int64_t begins = window_period_begins_ms(w, p->entry[i].period);
        latest = begins > latest ? begins : latest;
    }
    return latest;
}

/* ---- hashing ---- */

/* Wipes what the entry has left behind: keys of periods before it, and of another
 * generation. */
static void forget(struct period_cache *cache, const struct period_entry *e)
{
    for (unsigned i = 0; i < PERIOD_CACHED; i++) {
        struct period_cached *c = &cache->last[i];
        if (c->used && c->code == e->code &&
            (c->generation != e->generation || c->period < e->period))
            mac_wipe(c, sizeof *c);
    }
}

/* The place of the key if it is there (forget has left those of the entry's own generation),
 * otherwise a free one or that of the oldest period. */
static struct period_cached *place_of(struct period_cache *cache, const struct period_entry *e,
                                      int64_t period)
{
    struct period_cached *place = &cache->last[0];
    for (unsigned i = 0; i < PERIOD_CACHED; i++) {
        struct period_cached *c = &cache->last[i];
        if (c->used && c->code == e->code && c->period == period)
            return c;
        if (place->used && (!c->used || c->period < place->period))
            place = c;
    }
    place->used = false;
    return place;
}

static void derive(const struct period_entry *e, const uint8_t secret[MAC_SIZE], int64_t period,
                   unsigned steps, struct period_cached *out)
{
    uint8_t key[MAC_SIZE];

    *out = (struct period_cached){
        .used = true, .code = e->code, .generation = e->generation, .period = period};
    memcpy(key, e->key, MAC_SIZE);
    turn(key, steps);
    mac_compute(secret, "period", key, MAC_SIZE, key);
    mac_prepare(key, &out->key);
    mac_wipe(key, sizeof key);
}

bool periods_hash(const struct period_entry *e, struct period_cache *cache,
                  const uint8_t secret[MAC_SIZE], int64_t period, uint8_t kind, const void *id,
                  uint8_t n, uint8_t out[16])
{
    unsigned steps;
    forget(cache, e);
    if (!steps_between(e->period, period, &steps))
        return false;
    struct period_cached *c = place_of(cache, e, period);
    if (!c->used)
        derive(e, secret, period, steps, c);

    uint8_t text[1 + ID_MAX], mac[MAC_SIZE];
    text[0] = kind;
    memcpy(text + 1, id, n);
    mac_with(&c->key, "subject", text, 1U + n, mac);
    memcpy(out, mac, 16);
    mac_wipe(text, sizeof text);
    mac_wipe(mac, sizeof mac);
    return true;
}
