/*
 * Rows as bytes. A cursor writes or reads fixed-width big-endian fields; reading past the end
 * marks the cursor bad instead of failing each call, and one check at the end decides.
 */
#include "store/record.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

#define TAG_SCHEMA   'S'
#define TAG_STATE    'T'
#define TAG_OVERHEAD 'O'
#define TAG_ALERT    'A'
#define TAG_BREAKER  'B'
#define TAG_ISSUED   'K'
#define TAG_TOLD     'L'
#define TAG_ERASED   'E'
#define TAG_PASSWORD 'P'

#define DAY_MAX (INSTANT_MAX_MS / (24 * 3600 * 1000))

static const uint8_t magic[8] = {'p', 'e', 'n', 'n', 'y', 'g', 'a', 't'};

struct put {
    uint8_t *at, *end;
};
struct get {
    const uint8_t *at, *end;
    bool bad;
};

static void put_bytes(struct put *p, const void *bytes, size_t n)
{
    if (n > (size_t)(p->end - p->at))
        return; /* cannot happen: RECORD_MAX and KV_KEY_MAX are above every row's longest */
    memcpy(p->at, bytes, n);
    p->at += n;
}

/* width: 1 to 8 bytes. */
static void put_int(struct put *p, uint64_t v, unsigned width)
{
    uint64_t b = htobe64(v << (64 - 8 * width));

    put_bytes(p, &b, width);
}

static void get_bytes(struct get *g, void *out, size_t n)
{
    if (n > (size_t)(g->end - g->at)) {
        g->bad = true;
        memset(out, 0, n);
        return;
    }
    memcpy(out, g->at, n);
    g->at += n;
}

static uint64_t get_int(struct get *g, unsigned width)
{
    uint64_t b = 0;

    get_bytes(g, &b, width);
    return be64toh(b) >> (64 - 8 * width);
}

static bool get_done(const struct get *g)
{
    return !g->bad && g->at == g->end;
}

bool record_take(const struct kv_slice *key, const struct kv_slice *value, struct row_key *k,
                 struct record *v)
{
    if (key->n > sizeof k->bytes || value->n > sizeof v->bytes)
        return false;
    k->n = (uint8_t)key->n;
    memcpy(k->bytes, key->data, key->n);
    v->n = value->n;
    memcpy(v->bytes, value->data, value->n);
    return true;
}

/* Keys */

bool key_equal(const struct kv_slice *found, const struct row_key *key)
{
    return found->n == key->n && memcmp(found->data, key->bytes, key->n) == 0;
}

static struct put key_start(enum table t, struct row_key *out)
{
    struct put p = {out->bytes, out->bytes + sizeof out->bytes};

    put_int(&p, (uint64_t)t, 1);
    return p;
}

static void key_end(struct row_key *out, const struct put *p)
{
    out->n = (uint8_t)(p->at - out->bytes);
}

/* Instants before 1970 sort first and are never written; they count as 1970. */
static uint64_t sortable(int64_t v)
{
    return v < 0 ? 0 : (uint64_t)v;
}

void key_table(enum table t, struct row_key *out)
{
    struct put p = key_start(t, out);

    key_end(out, &p);
}

static void key_meta(char tag, const char *name, struct row_key *out)
{
    struct put p = key_start(TABLE_META, out);

    put_bytes(&p, &tag, 1);
    put_bytes(&p, name, strnlen(name, LEDGER_MODEL_MAX));
    key_end(out, &p);
}

void key_schema(struct row_key *out)
{
    key_meta(TAG_SCHEMA, "", out);
}

void key_state(struct row_key *out)
{
    key_meta(TAG_STATE, "", out);
}

void key_overhead(const char *model, struct row_key *out)
{
    key_meta(TAG_OVERHEAD, model, out);
}

void key_breaker(const char *model, struct row_key *out)
{
    key_meta(TAG_BREAKER, model, out);
}

void key_issued_all(struct row_key *out)
{
    key_meta(TAG_ISSUED, "", out);
}

void key_issued(const uint8_t hash[KEY_HASH], struct row_key *out)
{
    struct put p;

    key_issued_all(out);
    p = (struct put){out->bytes + out->n, out->bytes + sizeof out->bytes};
    put_bytes(&p, hash, KEY_HASH);
    key_end(out, &p);
}

bool key_is_issued(const struct kv_slice *key)
{
    const uint8_t *bytes = key->data;

    return key->n == 2 + KEY_HASH && bytes[0] == TABLE_META && bytes[1] == TAG_ISSUED;
}

void key_told(struct row_key *out)
{
    key_meta(TAG_TOLD, "", out);
}

void key_erased(struct row_key *out)
{
    key_meta(TAG_ERASED, "", out);
}

void key_password(struct row_key *out)
{
    key_meta(TAG_PASSWORD, "", out);
}

void key_history(int64_t day, struct row_key *out)
{
    struct put p = key_start(TABLE_HISTORY, out);

    put_int(&p, sortable(day), 8);
    key_end(out, &p);
}

void key_counter(struct window w, const struct slot *slot, enum subject s,
                 const uint8_t hash[SUBJECT_HASH], struct row_key *out)
{
    bool day = w.kind == WINDOW_DAY;
    struct put p = key_start(day ? TABLE_DAY : TABLE_COUNTER, out);

    put_int(&p, sortable(slot->end_ms), 8);
    if (!day)
        put_int(&p, window_code(w), 4);
    put_int(&p, (uint64_t)s, 1);
    put_bytes(&p, hash, SUBJECT_HASH);
    key_end(out, &p);
}

void key_reservation(int64_t deadline_boot_ms, uint64_t id, struct row_key *out)
{
    struct put p = key_start(TABLE_RESERVATION, out);

    put_int(&p, sortable(deadline_boot_ms), 8);
    put_int(&p, id, 8);
    key_end(out, &p);
}

void key_alert(int64_t due_ms, uint64_t id, struct row_key *out)
{
    struct put p = key_start(TABLE_ALERT, out);

    put_int(&p, sortable(due_ms), 8);
    put_int(&p, id, 8);
    key_end(out, &p);
}

void key_alert_flags(struct row_key *out)
{
    key_meta(TAG_ALERT, "", out);
}

void key_alert_flag(enum alert_kind kind, unsigned percent, const char *name,
                    struct row_key *out)
{
    struct put p = key_start(TABLE_META, out);

    put_int(&p, TAG_ALERT, 1);
    put_int(&p, (uint64_t)kind, 1);
    put_int(&p, percent, 1);
    put_bytes(&p, name, strnlen(name, LIMIT_NAME_MAX - 1));
    key_end(out, &p);
}

bool key_alert_reason(const struct kv_slice *key, struct alert_reason *out)
{
    struct get g = {key->data, (const uint8_t *)key->data + key->n, false};
    struct alert_reason r;

    memset(&r, 0, sizeof r);
    if (get_int(&g, 1) != TABLE_META || get_int(&g, 1) != TAG_ALERT)
        return false;
    r.kind = (enum alert_kind)get_int(&g, 1);
    r.percent = (unsigned)get_int(&g, 1);
    size_t n = (size_t)(g.end - g.at);
    if (n < sizeof r.name)
        get_bytes(&g, r.name, n);
    if (!get_done(&g) || r.kind >= ALERT_KINDS || memchr(r.name, '\0', n) != NULL)
        return false;
    *out = r;
    return true;
}

bool key_instant(enum table t, const struct kv_slice *key, int64_t *ms)
{
    struct get g = {key->data, (const uint8_t *)key->data + key->n, false};
    uint64_t table = get_int(&g, 1), at = get_int(&g, 8);

    if (g.bad || table != (uint64_t)t || at > INSTANT_MAX_MS)
        return false;
    *ms = (int64_t)at;
    return true;
}

bool key_history_day(const struct kv_slice *key, int64_t *day)
{
    return key->n == 9 && key_instant(TABLE_HISTORY, key, day);
}

/* What follows the table's byte and the instant. */
static uint64_t key_rest(const struct kv_slice *key, unsigned width)
{
    struct get g = {key->data, (const uint8_t *)key->data + key->n, false};

    (void)get_int(&g, 1);
    (void)get_int(&g, 8);
    return get_int(&g, width);
}

void key_dry(int64_t day, const char *limit, struct row_key *out)
{
    struct put p = key_start(TABLE_DRY, out);

    put_int(&p, sortable(day), 8);
    put_bytes(&p, limit, strnlen(limit, LIMIT_NAME_MAX - 1));
    key_end(out, &p);
}

static bool in_a_name(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '-' || c == '_';
}

bool key_dry_read(const struct kv_slice *key, int64_t *day, char limit[LIMIT_NAME_MAX])
{
    const size_t head = 1 + 8;
    const uint8_t *bytes = key->data;
    int64_t at;

    if (!key_instant(TABLE_DRY, key, &at) || key->n == head || key->n >= head + LIMIT_NAME_MAX)
        return false;
    for (size_t i = head; i < key->n; i++)
        if (!in_a_name(bytes[i]))
            return false;
    *day = at;
    memcpy(limit, bytes + head, key->n - head);
    limit[key->n - head] = '\0';
    return true;
}

uint32_t key_window(const struct kv_slice *key)
{
    return (uint32_t)key_rest(key, 4);
}

uint64_t hold_id(const struct kv_slice *key)
{
    return key_rest(key, 8);
}

/* Values */

static struct put record_start(struct record *out)
{
    struct put p = {out->bytes, out->bytes + sizeof out->bytes};

    put_int(&p, RECORD_VERSION, 1);
    return p;
}

static void record_end(struct record *out, const struct put *p)
{
    out->n = (size_t)(p->at - out->bytes);
}

static struct get value_start(const struct kv_slice *v)
{
    struct get g = {v->data, (const uint8_t *)v->data + v->n, false};

    if (get_int(&g, 1) != RECORD_VERSION)
        g.bad = true;
    return g;
}

static void put_amounts(struct put *p, const struct amounts *a)
{
    for (unsigned u = 0; u < UNITS_SUMMED; u++)
        put_int(p, a->of[u], 8);
}

/* An amount above AMOUNT_MAX was not written by us: it could wrap a sum, so it is refused. */
static uint64_t get_amount(struct get *g)
{
    uint64_t v = get_int(g, 8);

    g->bad = g->bad || v > AMOUNT_MAX;
    return v;
}

static void get_amounts(struct get *g, struct amounts *a)
{
    for (unsigned u = 0; u < UNITS_SUMMED; u++)
        a->of[u] = get_amount(g);
}

/* A number from 0 to `max`: an instant, a day, a length of time. */
static int64_t get_up_to(struct get *g, int64_t max)
{
    uint64_t v = get_int(g, 8);

    g->bad = g->bad || v > (uint64_t)max;
    return (int64_t)v;
}

void record_amounts(const struct amounts *a, struct record *out)
{
    struct put p = record_start(out);

    put_amounts(&p, a);
    record_end(out, &p);
}

bool record_amounts_read(const struct kv_slice *v, struct amounts *out)
{
    struct get g = value_start(v);
    struct amounts a;

    get_amounts(&g, &a);
    if (!get_done(&g))
        return false;
    *out = a;
    return true;
}

void record_schema(const struct schema *s, struct record *out)
{
    struct put p = {out->bytes, out->bytes + sizeof out->bytes};

    put_bytes(&p, magic, sizeof magic);
    put_int(&p, s->version, 1);
    put_bytes(&p, s->uuid, sizeof s->uuid);
    put_bytes(&p, s->check, sizeof s->check);
    put_bytes(&p, s->zone, sizeof s->zone);
    record_end(out, &p);
}

enum error record_schema_read(const struct kv_slice *v, struct schema *out)
{
    struct get g = {v->data, (const uint8_t *)v->data + v->n, false};
    struct schema s;
    uint8_t m[sizeof magic];

    get_bytes(&g, m, sizeof m);
    s.version = (uint8_t)get_int(&g, 1);
    if (g.bad || memcmp(m, magic, sizeof magic) != 0)
        return ERROR_STORE_INVALID;
    if (s.version > RECORD_VERSION)
        return ERROR_STORE_VERSION;
    get_bytes(&g, s.uuid, sizeof s.uuid);
    get_bytes(&g, s.check, sizeof s.check);
    get_bytes(&g, s.zone, sizeof s.zone);
    if (!get_done(&g) || s.version != RECORD_VERSION || s.zone[ZONE_TEXT_MAX - 1] != '\0')
        return ERROR_STORE_INVALID;
    *out = s;
    return ERROR_NONE;
}

void record_state(const struct state *s, struct record *out)
{
    struct put p = record_start(out);

    put_int(&p, (uint64_t)s->time.time_ms, 8);
    put_int(&p, (uint64_t)s->time.boot_ms, 8);
    put_int(&p, (uint64_t)s->time.hold_until_ms, 8);
    put_bytes(&p, s->time.boot_id, sizeof s->time.boot_id);
    put_int(&p, s->paused, 1);
    put_bytes(&p, s->board_id, sizeof s->board_id);
    put_int(&p, FIGURES, 1);
    for (unsigned i = 0; i < FIGURES; i++)
        put_int(&p, s->folded[i], 4);
    put_int(&p, s->n_windows, 1);
    for (unsigned i = 0; i < s->n_windows; i++) {
        put_int(&p, s->window[i].code, 4);
        put_int(&p, s->window[i].generation, 8);
    }
    if (s->time.before_ms != 0) /* there has been no step yet, or none since it was kept */
        put_int(&p, (uint64_t)s->time.before_ms, 8);
    record_end(out, &p);
}

/* Reads n values of `width` bytes into the first `most` of out; a later program may
 * keep more. */
static void get_figures(struct get *g, unsigned width, void (*set)(void *, unsigned, uint64_t),
                        void *out)
{
    unsigned n = (unsigned)get_int(g, 1);

    for (unsigned i = 0; i < n; i++) {
        uint64_t v = get_int(g, width);
        if (i < FIGURES)
            set(out, i, v);
    }
}

static void set_folded(void *out, unsigned i, uint64_t v)
{
    ((uint32_t *)out)[i] = (uint32_t)v;
}

static void set_figure(void *out, unsigned i, uint64_t v)
{
    ((uint64_t *)out)[i] = v;
}

bool record_state_read(const struct kv_slice *v, struct state *out)
{
    struct get g = value_start(v);
    struct state s;

    memset(&s, 0, sizeof s);
    s.time.time_ms = get_up_to(&g, INSTANT_MAX_MS);
    s.time.boot_ms = get_up_to(&g, INSTANT_MAX_MS);
    s.time.hold_until_ms = get_up_to(&g, INSTANT_MAX_MS);
    get_bytes(&g, s.time.boot_id, sizeof s.time.boot_id);
    s.paused = get_int(&g, 1) != 0;
    get_bytes(&g, s.board_id, sizeof s.board_id);
    get_figures(&g, 4, set_folded, s.folded);
    s.n_windows = (unsigned)get_int(&g, 1);
    if (s.n_windows > PERIOD_WINDOWS)
        return false;
    for (unsigned i = 0; i < s.n_windows; i++) {
        s.window[i].code = (uint32_t)get_int(&g, 4);
        s.window[i].generation = get_int(&g, 8);
    }
    if (g.at < g.end && (s.time.before_ms = get_up_to(&g, INSTANT_MAX_MS)) == 0)
        return false;
    if (!get_done(&g))
        return false;
    *out = s;
    return true;
}

void record_count(uint64_t n, struct record *out)
{
    struct put p = record_start(out);

    put_int(&p, n, 8);
    record_end(out, &p);
}

bool record_count_read(const struct kv_slice *v, uint64_t *out)
{
    struct get g = value_start(v);
    uint64_t n = get_int(&g, 8);

    if (!get_done(&g))
        return false;
    *out = n;
    return true;
}

void record_history(const struct history_day *h, struct record *out)
{
    const uint64_t fields[] = {h->admitted,  h->settled,    h->unknown,   h->given_back,
                               h->tokens_in, h->tokens_out, h->cost_nano, h->bypassed};
    struct put p = record_start(out);

    for (unsigned i = 0; i < sizeof fields / sizeof *fields; i++)
        put_int(&p, fields[i], 8);
    put_int(&p, FIGURES, 1);
    for (unsigned i = 0; i < FIGURES; i++)
        put_int(&p, h->figures[i], 8);
    record_end(out, &p);
}

bool record_history_read(const struct kv_slice *v, struct history_day *out)
{
    struct get g = value_start(v);
    struct history_day h;
    uint64_t *const fields[] = {&h.admitted,  &h.settled,    &h.unknown,   &h.given_back,
                                &h.tokens_in, &h.tokens_out, &h.cost_nano, &h.bypassed};

    memset(&h, 0, sizeof h);
    for (unsigned i = 0; i < sizeof fields / sizeof *fields; i++)
        *fields[i] = get_int(&g, 8);
    get_figures(&g, 8, set_figure, h.figures);
    if (!get_done(&g))
        return false;
    h.day = out->day;
    *out = h;
    return true;
}

void record_overhead(const struct overhead *o, struct record *out)
{
    struct put p = record_start(out);

    put_int(&p, o->tokens, 8);
    put_int(&p, (uint64_t)o->day, 8);
    record_end(out, &p);
}

bool record_overhead_read(const struct kv_slice *v, struct overhead *out)
{
    struct get g = value_start(v);
    struct overhead o;

    o.tokens = get_amount(&g);
    o.day = get_up_to(&g, DAY_MAX);
    if (!get_done(&g))
        return false;
    *out = o;
    return true;
}

void record_breaker(const struct breaker *b, struct record *out)
{
    struct put p = record_start(out);

    put_bytes(&p, b->boot_id, sizeof b->boot_id);
    put_int(&p, b->failures, 4);
    put_int(&p, (uint64_t)b->open_until_ms, 8);
    put_int(&p, (uint64_t)b->pause_ms, 8);
    put_int(&p, b->probe_id, 8);
    put_int(&p, (uint64_t)b->probing_until_ms, 8);
    record_end(out, &p);
}

bool record_breaker_read(const struct kv_slice *v, struct breaker *out)
{
    struct get g = value_start(v);
    struct breaker b;

    get_bytes(&g, b.boot_id, sizeof b.boot_id);
    b.failures = (uint32_t)get_int(&g, 4);
    b.open_until_ms = get_up_to(&g, INSTANT_MAX_MS);
    b.pause_ms = get_up_to(&g, BREAKER_PAUSE_MAX_MS);
    b.probe_id = get_int(&g, 8);
    b.probing_until_ms = get_up_to(&g, INSTANT_MAX_MS);
    if (!get_done(&g))
        return false;
    *out = b;
    return true;
}

bool key_name_ok(const char *name)
{
    static const char allowed[] =
        "_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-";
    size_t n = strspn(name, allowed);

    return n > 0 && n < LIMIT_NAME_MAX && name[n] == '\0' && name[0] != '-';
}

/* As headers and the log show it: "key-calls-day", "key-cost-3600s". */
static void name_limit(struct limit *l)
{
    static const char *const units[] = {"calls", "tokens", "cost", "concurrent"};
    static const char *const windows[] = {
        [WINDOW_HOUR] = "-hour", [WINDOW_DAY] = "-day", [WINDOW_MONTH] = "-month"};

    if (l->unit != UNIT_CONCURRENT && l->window.kind == WINDOW_SLIDING)
        snprintf(l->name, sizeof l->name, "key-%s-%us", units[l->unit], l->window.seconds);
    else
        snprintf(l->name, sizeof l->name, "key-%s%s", units[l->unit],
                 l->unit == UNIT_CONCURRENT ? "" : windows[l->window.kind]);
}

void record_issued(const struct ledger_key *k, struct record *out)
{
    struct put p = record_start(out);
    size_t n = strnlen(k->name, sizeof k->name);

    put_int(&p, n, 1);
    put_bytes(&p, k->name, n);
    put_int(&p, (uint64_t)k->created_s, 8);
    put_bytes(&p, k->id, sizeof k->id);
    put_int(&p, k->n_limits, 1);
    for (unsigned i = 0; i < k->n_limits; i++) {
        const struct limit *l = &k->limits[i];

        put_int(&p, (uint64_t)l->unit, 1);
        put_int(&p, l->unit == UNIT_CONCURRENT ? 0 : window_code(l->window), 4);
        put_int(&p, l->max, 8);
    }
    record_end(out, &p);
}

/* Of a limit only what a key may set is kept: it is always the key's own, and always refuses.
 * */
static bool get_limit(struct get *g, struct limit *l)
{
    uint64_t unit = get_int(g, 1), code = get_int(g, 4);

    memset(l, 0, sizeof *l);
    l->subject = SUBJECT_KEY;
    l->max = get_int(g, 8);
    if (g->bad || unit > UNIT_CONCURRENT || (l->max > AMOUNT_MAX && l->max != LIMIT_UNLIMITED))
        return false;
    l->unit = (enum unit)unit;
    if (l->unit == UNIT_CONCURRENT ? code != 0 : !window_from_code((uint32_t)code, &l->window))
        return false;
    name_limit(l);
    return true;
}

bool record_issued_read(const struct kv_slice *v, struct ledger_key *out)
{
    struct get g = value_start(v);
    struct ledger_key k;
    size_t n = (size_t)get_int(&g, 1);

    memset(&k, 0, sizeof k);
    if (n >= sizeof k.name)
        return false;
    get_bytes(&g, k.name, n);
    k.created_s = get_up_to(&g, INSTANT_MAX_MS / 1000);
    get_bytes(&g, k.id, sizeof k.id);
    k.n_limits = (unsigned)get_int(&g, 1);
    if (k.n_limits > KEY_LIMITS_MAX || !key_name_ok(k.name) || strlen(k.name) != n)
        return false;
    for (unsigned i = 0; i < k.n_limits; i++)
        if (!get_limit(&g, &k.limits[i]))
            return false;
    if (!get_done(&g))
        return false;
    *out = k;
    return true;
}

#define HOLD_BOOT 1                                            /* behind the version */
#define HOLD_LIVE (HOLD_BOOT + 16 + 8 + UNITS_SUMMED * 8 + 16) /* the number of places */
#define HOLD_EACH (1 + SUBJECT_HASH)

bool record_hold_places(const struct kv_slice *v, struct hold_places *out)
{
    const uint8_t *bytes = v->data;

    if (v->n <= HOLD_LIVE || bytes[0] != RECORD_VERSION || bytes[HOLD_LIVE] > SUBJECTS ||
        v->n - HOLD_LIVE - 1 < (size_t)bytes[HOLD_LIVE] * HOLD_EACH)
        return false;
    out->boot_id = bytes + HOLD_BOOT;
    out->n = bytes[HOLD_LIVE];
    out->live = bytes + HOLD_LIVE + 1;
    return true;
}

bool places_have(const struct hold_places *p, unsigned subject,
                 const uint8_t hash[SUBJECT_HASH])
{
    for (unsigned i = 0; i < p->n; i++) {
        const uint8_t *one = p->live + (size_t)i * HOLD_EACH;

        if (one[0] == subject && memcmp(one + 1, hash, SUBJECT_HASH) == 0)
            return true;
    }
    return false;
}

void record_hold(const struct hold *h, struct record *out)
{
    struct put p = record_start(out);

    put_bytes(&p, h->boot_id, sizeof h->boot_id);
    put_int(&p, (uint64_t)h->day, 8);
    put_amounts(&p, &h->reserved);
    put_int(&p, h->tokens_in, 8);
    put_int(&p, h->tokens_out, 8);
    put_int(&p, h->n_live, 1);
    for (unsigned i = 0; i < h->n_live; i++) {
        put_int(&p, h->live[i].subject, 1);
        put_bytes(&p, h->live[i].hash, SUBJECT_HASH);
    }
    put_int(&p, h->n_rows, 1);
    for (unsigned i = 0; i < h->n_rows; i++) {
        put_int(&p, h->row[i].n, 1);
        put_bytes(&p, h->row[i].bytes, h->row[i].n);
    }
    record_end(out, &p);
}

bool hold_has_row(const struct hold *h, const struct row_key *row)
{
    for (unsigned i = 0; i < h->n_rows; i++)
        if (h->row[i].n == row->n && memcmp(h->row[i].bytes, row->bytes, row->n) == 0)
            return true;
    return false;
}

static bool is_counter(const void *key, size_t n)
{
    const struct kv_slice k = {key, n};
    int64_t at;

    return (n == 9 + 1 + SUBJECT_HASH && key_instant(TABLE_DAY, &k, &at)) ||
           (n == 9 + 4 + 1 + SUBJECT_HASH && key_instant(TABLE_COUNTER, &k, &at));
}

/* Its settle writes amounts to them. */
static bool get_rows(struct get *g, struct hold *h)
{
    h->n_rows = (unsigned)get_int(g, 1);
    if (h->n_rows > VIEW_LIMITS_MAX)
        return false;
    for (unsigned i = 0; i < h->n_rows; i++) {
        h->row[i].n = (uint8_t)get_int(g, 1);
        if (h->row[i].n > KV_KEY_MAX)
            return false;
        get_bytes(g, h->row[i].bytes, h->row[i].n);
        if (!is_counter(h->row[i].bytes, h->row[i].n))
            return false;
    }
    return get_done(g);
}

bool record_hold_read(const struct kv_slice *v, struct hold *out)
{
    struct get g = value_start(v);

    get_bytes(&g, out->boot_id, sizeof out->boot_id);
    out->day = get_up_to(&g, DAY_MAX);
    get_amounts(&g, &out->reserved);
    out->tokens_in = get_amount(&g);
    out->tokens_out = get_amount(&g);
    out->n_live = (unsigned)get_int(&g, 1);
    if (out->n_live > SUBJECTS)
        return false;
    for (unsigned i = 0; i < out->n_live; i++) {
        out->live[i].subject = (uint8_t)get_int(&g, 1);
        get_bytes(&g, out->live[i].hash, SUBJECT_HASH);
        if (out->live[i].subject >= SUBJECTS)
            return false;
    }
    return get_rows(&g, out);
}

void record_alert_flag(const struct alert_flag *f, struct record *out)
{
    struct put p = record_start(out);

    put_int(&p, (uint64_t)f->until_ms, 8);
    put_int(&p, f->window, 4);
    put_int(&p, f->unit, 1);
    put_int(&p, f->max, 8);
    record_end(out, &p);
}

bool record_alert_flag_read(const struct kv_slice *v, struct alert_flag *out)
{
    struct get g = value_start(v);
    struct alert_flag f;

    f.until_ms = get_up_to(&g, INSTANT_MAX_MS);
    f.window = (uint32_t)get_int(&g, 4);
    f.unit = (uint8_t)get_int(&g, 1);
    f.max = get_int(&g, 8);
    if (!get_done(&g) || f.unit >= UNITS_SUMMED)
        return false;
    *out = f;
    return true;
}

void record_alert(const struct alert_row *a, struct record *out)
{
    struct put p = record_start(out);

    put_int(&p, (uint64_t)a->reason.kind, 1);
    put_int(&p, a->reason.percent, 1);
    put_bytes(&p, a->reason.name, sizeof a->reason.name);
    put_int(&p, a->attempts, 4);
    put_int(&p, (uint64_t)a->time_s, 8);
    put_int(&p, (uint64_t)a->queued_ms, 8);
    record_end(out, &p);
}

/* A limit's name or a model's alias: it goes into the log and into a JSON text as it is. */
static bool is_shown_name(const char name[LIMIT_NAME_MAX])
{
    size_t n = strnlen(name, LIMIT_NAME_MAX);

    for (size_t i = 0; i < n; i++)
        if (!in_a_name((uint8_t)name[i]) && name[i] != '.')
            return false;
    return n > 0 && n < LIMIT_NAME_MAX;
}

bool record_alert_read(const struct kv_slice *v, struct alert_row *out)
{
    struct get g = value_start(v);
    struct alert_row a;

    a.reason.kind = (enum alert_kind)get_int(&g, 1);
    a.reason.percent = (unsigned)get_int(&g, 1);
    get_bytes(&g, a.reason.name, sizeof a.reason.name);
    a.attempts = (uint32_t)get_int(&g, 4);
    a.time_s = get_up_to(&g, INSTANT_MAX_MS / 1000);
    a.queued_ms = get_up_to(&g, INSTANT_MAX_MS);
    if (!get_done(&g) || a.reason.kind >= ALERT_KINDS || a.reason.percent > 100 ||
        !is_shown_name(a.reason.name))
        return false;
    *out = a;
    return true;
}

void record_told(const struct told_list *l, struct record *out)
{
    struct put p = record_start(out);

    put_int(&p, l->n, 1);
    for (unsigned i = 0; i < l->n; i++) {
        const struct told_row *t = &l->row[i];

        put_int(&p, t->id, 8);
        put_int(&p, (uint64_t)t->reason.kind, 1);
        put_int(&p, t->reason.percent, 1);
        put_bytes(&p, t->reason.name, sizeof t->reason.name);
        put_int(&p, (uint64_t)t->time_s, 8);
        put_int(&p, (uint64_t)t->told, 1);
    }
    record_end(out, &p);
}

static bool get_told(struct get *g, struct told_row *t)
{
    t->id = get_int(g, 8);
    t->reason.kind = (enum alert_kind)get_int(g, 1);
    t->reason.percent = (unsigned)get_int(g, 1);
    get_bytes(g, t->reason.name, sizeof t->reason.name);
    t->time_s = get_up_to(g, INSTANT_MAX_MS / 1000);
    t->told = (enum told)get_int(g, 1);
    return !g->bad && t->reason.kind < ALERT_KINDS && t->reason.percent <= 100 &&
           is_shown_name(t->reason.name) && t->told <= TOLD_GIVEN_UP;
}

bool record_told_read(const struct kv_slice *v, struct told_list *out)
{
    struct get g = value_start(v);
    struct told_list l = {.n = (unsigned)get_int(&g, 1)};

    if (l.n > TOLD_MAX)
        return false;
    for (unsigned i = 0; i < l.n; i++)
        if (!get_told(&g, &l.row[i]))
            return false;
    if (!get_done(&g))
        return false;
    *out = l;
    return true;
}

void record_password(const uint8_t hash[KEY_HASH], struct record *out)
{
    struct put p = record_start(out);

    put_bytes(&p, hash, KEY_HASH);
    record_end(out, &p);
}

bool record_password_read(const struct kv_slice *v, uint8_t hash[KEY_HASH])
{
    struct get g = value_start(v);
    uint8_t h[KEY_HASH];

    get_bytes(&g, h, sizeof h);
    if (!get_done(&g))
        return false;
    memcpy(hash, h, sizeof h);
    return true;
}

/* The walk */

static bool meta_ok(const struct kv_slice *key, const struct kv_slice *v)
{
    struct schema schema;
    struct state state;
    struct overhead overhead;
    struct alert_reason reason;
    struct alert_flag flag;
    struct breaker breaker;
    struct ledger_key issued;
    struct told_list told;
    struct history_day erased = {0};
    uint8_t password[KEY_HASH];

    if (key->n < 2)
        return false;
    switch (((const char *)key->data)[1]) {
    case TAG_SCHEMA: {
        enum error e = record_schema_read(v, &schema);
        return e == ERROR_NONE || e == ERROR_STORE_VERSION; /* opening names the version */
    }
    case TAG_STATE:
        return record_state_read(v, &state);
    case TAG_OVERHEAD:
        return record_overhead_read(v, &overhead);
    case TAG_ALERT:
        return key_alert_reason(key, &reason) && record_alert_flag_read(v, &flag);
    case TAG_BREAKER:
        return key->n > 2 && key->n < 2 + LEDGER_MODEL_MAX && record_breaker_read(v, &breaker);
    case TAG_ISSUED:
        return key_is_issued(key) && record_issued_read(v, &issued);
    case TAG_TOLD:
        return key->n == 2 && record_told_read(v, &told);
    case TAG_ERASED:
        return key->n == 2 && record_history_read(v, &erased);
    case TAG_PASSWORD:
        return key->n == 2 && record_password_read(v, password);
    default:
        return false;
    }
}

bool record_row_ok(const void *key, size_t nkey, const void *value, size_t nvalue)
{
    const struct kv_slice k = {key, nkey}, v = {value, nvalue};
    struct history_day day = {0};
    struct amounts amounts;
    struct hold hold;
    struct alert_row alert;
    char limit[LIMIT_NAME_MAX];
    int64_t at;
    uint64_t count;

    if (nkey < 1)
        return false;
    switch (((const uint8_t *)key)[0]) {
    case TABLE_META:
        return meta_ok(&k, &v);
    case TABLE_HISTORY:
        return key_history_day(&k, &at) && record_history_read(&v, &day);
    case TABLE_DAY:
    case TABLE_COUNTER:
        return is_counter(key, nkey) && record_amounts_read(&v, &amounts);
    case TABLE_DRY:
        return key_dry_read(&k, &at, limit) && record_count_read(&v, &count);
    case TABLE_RESERVATION:
        return nkey == 9 + 8 && key_instant(TABLE_RESERVATION, &k, &at) &&
               record_hold_read(&v, &hold);
    case TABLE_ALERT:
        return nkey == 9 + 8 && key_instant(TABLE_ALERT, &k, &at) &&
               record_alert_read(&v, &alert);
    default:
        return false;
    }
}
