/*
 * Rows as bytes. A cursor writes or reads fixed-width big-endian fields; reading past the end
 * marks the cursor bad instead of failing each call, and one check at the end decides. What a
 * value holds is a table of fields, from which it is both written and read.
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
#define TAG_LEASE    'G' /* granted */

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

void key_lease(struct row_key *out)
{
    key_meta(TAG_LEASE, "", out);
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

/* What is not written by us is refused: it could wrap a sum, or be shown as it is. */
enum bound {
    ANY,
    TRUTH, /* 0, or anything else for true */
    AMOUNT,
    INSTANT, /* ms */
    SECONDS,
    DAY,
    PAUSE, /* ms, of a breaker */
    KIND,  /* of an alert */
    PERCENT,
    SUMMED, /* a unit that is summed up */
    TOLD,
    NAME /* bytes: is_shown_name */
};

static const uint64_t most[] = {[ANY] = UINT64_MAX,
                                [TRUTH] = UINT64_MAX,
                                [AMOUNT] = AMOUNT_MAX,
                                [INSTANT] = INSTANT_MAX_MS,
                                [SECONDS] = INSTANT_MAX_MS / 1000,
                                [DAY] = DAY_MAX,
                                [PAUSE] = BREAKER_PAUSE_MAX_MS,
                                [KIND] = ALERT_KINDS - 1,
                                [PERCENT] = 100,
                                [SUMMED] = UNITS_SUMMED - 1,
                                [TOLD] = TOLD_GIVEN_UP};

/* A member of a struct in a value. */
struct field {
    uint16_t offset;
    uint8_t size;  /* of the member; 0: the table ends */
    uint8_t width; /* of the integer in the value; 0: bytes, as many as the member has */
    uint8_t bound;
};

#define SIZE(type, member)              sizeof(((struct type *)0)->member)
#define AT(type, member)                offsetof(struct type, member), SIZE(type, member)
#define BYTES(type, member)             AT(type, member), 0, ANY
#define INT(type, member, width, bound) AT(type, member), width, bound

/* A limit's name or a model's alias: it goes into the log and into a JSON text as it is. */
static bool is_shown_name(const char name[LIMIT_NAME_MAX])
{
    size_t n = strnlen(name, LIMIT_NAME_MAX);

    for (size_t i = 0; i < n; i++)
        if (!in_a_name((uint8_t)name[i]) && name[i] != '.')
            return false;
    return n > 0 && n < LIMIT_NAME_MAX;
}

/* An integer member of 1, 4 or 8 bytes. */
static uint64_t member(const void *at, size_t size)
{
    uint64_t wide;
    uint32_t word;

    if (size == 1)
        return *(const uint8_t *)at;
    memcpy(size == sizeof word ? (void *)&word : &wide, at, size);
    return size == sizeof word ? word : wide;
}

static void set_member(void *at, size_t size, uint64_t v)
{
    uint32_t word = (uint32_t)v;

    if (size == 1)
        *(uint8_t *)at = (uint8_t)v;
    else
        memcpy(at, size == sizeof word ? (void *)&word : &v, size);
}

static void put_fields(struct put *p, const struct field *f, const void *from)
{
    for (; f->size > 0; f++) {
        const uint8_t *at = (const uint8_t *)from + f->offset;

        if (f->width == 0)
            put_bytes(p, at, f->size);
        else
            put_int(p, member(at, f->size), f->width);
    }
}

/* `to` NULL: only looks at them. */
static void get_fields(struct get *g, const struct field *f, void *to)
{
    uint8_t unused[UINT8_MAX] = {0}; /* no member that a table can name is longer */

    for (; f->size > 0; f++) {
        uint8_t *at = to != NULL ? (uint8_t *)to + f->offset : unused;

        if (f->width == 0) {
            get_bytes(g, at, f->size);
            g->bad = g->bad || (f->bound == NAME && !is_shown_name((const char *)at));
            continue;
        }
        uint64_t v = get_int(g, f->width);
        g->bad = g->bad || v > most[f->bound];
        set_member(at, f->size, f->bound == TRUTH ? v != 0 : v);
    }
}

static void write_fields(const struct field *f, const void *from, struct record *out)
{
    struct put p = record_start(out);

    put_fields(&p, f, from);
    record_end(out, &p);
}

/* False, `to` untouched: they are not all of the value. */
static bool read_fields(const struct field *f, const struct kv_slice *v, void *to)
{
    struct get g = value_start(v), again = g;

    get_fields(&g, f, NULL);
    if (!get_done(&g))
        return false;
    if (to != NULL)
        get_fields(&again, f, to);
    return true;
}

_Static_assert(UNITS_SUMMED == 3, "the fields of struct amounts");
static const struct field amounts_fields[] = {{INT(amounts, of[0], 8, AMOUNT)},
                                              {INT(amounts, of[1], 8, AMOUNT)},
                                              {INT(amounts, of[2], 8, AMOUNT)},
                                              {0}};

void record_amounts(const struct amounts *a, struct record *out)
{
    write_fields(amounts_fields, a, out);
}

bool record_amounts_read(const struct kv_slice *v, struct amounts *out)
{
    return read_fields(amounts_fields, v, out);
}

static const struct field schema_fields[] = {
    {BYTES(schema, uuid)}, {BYTES(schema, check)}, {BYTES(schema, zone)}, {0}};

void record_schema(const struct schema *s, struct record *out)
{
    struct put p = {out->bytes, out->bytes + sizeof out->bytes};

    put_bytes(&p, magic, sizeof magic);
    put_int(&p, s->version, 1);
    put_fields(&p, schema_fields, s);
    record_end(out, &p);
}

enum error record_schema_read(const struct kv_slice *v, struct schema *out)
{
    struct get g = {v->data, (const uint8_t *)v->data + v->n, false};
    struct schema s = {0};
    uint8_t m[sizeof magic];

    get_bytes(&g, m, sizeof m);
    s.version = (uint8_t)get_int(&g, 1);
    if (g.bad || memcmp(m, magic, sizeof magic) != 0)
        return ERROR_STORE_INVALID;
    if (s.version > RECORD_VERSION)
        return ERROR_STORE_VERSION;
    get_fields(&g, schema_fields, &s);
    if (!get_done(&g) || s.version != RECORD_VERSION || s.zone[ZONE_TEXT_MAX - 1] != '\0')
        return ERROR_STORE_INVALID;
    *out = s;
    return ERROR_NONE;
}

static const struct field state_fields[] = {
    {INT(state, time.time_ms, 8, INSTANT)},
    {INT(state, time.boot_ms, 8, INSTANT)},
    {INT(state, time.hold_until_ms, 8, INSTANT)},
    {BYTES(state, time.boot_id)},
    {INT(state, paused, 1, TRUTH)},
    {BYTES(state, board_id)},
    {0},
};

static const struct field step_fields[] = {{INT(state, time.before_ms, 8, INSTANT)}, {0}};

/* FIGURES members of `size` bytes each, in `width` bytes each. */
static void put_figures(struct put *p, unsigned width, size_t size, const void *from)
{
    put_int(p, FIGURES, 1);
    for (unsigned i = 0; i < FIGURES; i++)
        put_int(p, member((const uint8_t *)from + i * size, size), width);
}

/* The first FIGURES of them; a later program may keep more. */
static void get_figures(struct get *g, unsigned width, size_t size, void *to)
{
    unsigned n = (unsigned)get_int(g, 1);

    for (unsigned i = 0; i < n; i++) {
        uint64_t v = get_int(g, width);
        if (i < FIGURES)
            set_member((uint8_t *)to + i * size, size, v);
    }
}

void record_state(const struct state *s, struct record *out)
{
    struct put p = record_start(out);

    put_fields(&p, state_fields, s);
    put_figures(&p, 4, sizeof *s->folded, s->folded);
    put_int(&p, s->n_windows, 1);
    for (unsigned i = 0; i < s->n_windows; i++) {
        put_int(&p, s->window[i].code, 4);
        put_int(&p, s->window[i].generation, 8);
    }
    if (s->time.before_ms != 0) /* there has been no step yet, or none since it was kept */
        put_fields(&p, step_fields, s);
    record_end(out, &p);
}

bool record_state_read(const struct kv_slice *v, struct state *out)
{
    struct get g = value_start(v);
    struct state s;

    memset(&s, 0, sizeof s);
    get_fields(&g, state_fields, &s);
    get_figures(&g, 4, sizeof *s.folded, s.folded);
    s.n_windows = (unsigned)get_int(&g, 1);
    if (s.n_windows > PERIOD_WINDOWS)
        return false;
    for (unsigned i = 0; i < s.n_windows; i++) {
        s.window[i].code = (uint32_t)get_int(&g, 4);
        s.window[i].generation = get_int(&g, 8);
    }
    bool stepped = g.at < g.end;
    if (stepped)
        get_fields(&g, step_fields, &s);
    if (!get_done(&g) || stepped != (s.time.before_ms != 0))
        return false;
    *out = s;
    return true;
}

static const struct field count_fields[] = {{0, sizeof(uint64_t), 8, ANY}, {0}};

void record_count(uint64_t n, struct record *out)
{
    write_fields(count_fields, &n, out);
}

bool record_count_read(const struct kv_slice *v, uint64_t *out)
{
    return read_fields(count_fields, v, out);
}

static const struct field history_fields[] = {
    {INT(history_day, admitted, 8, ANY)},
    {INT(history_day, settled, 8, ANY)},
    {INT(history_day, unknown, 8, ANY)},
    {INT(history_day, given_back, 8, ANY)},
    {INT(history_day, tokens_in, 8, ANY)},
    {INT(history_day, tokens_out, 8, ANY)},
    {INT(history_day, cost_nano, 8, ANY)},
    {INT(history_day, bypassed, 8, ANY)},
    {0},
};

void record_history(const struct history_day *h, struct record *out)
{
    struct put p = record_start(out);

    put_fields(&p, history_fields, h);
    put_figures(&p, 8, sizeof *h->figures, h->figures);
    record_end(out, &p);
}

bool record_history_read(const struct kv_slice *v, struct history_day *out)
{
    struct get g = value_start(v);
    struct history_day h;

    memset(&h, 0, sizeof h);
    get_fields(&g, history_fields, &h);
    get_figures(&g, 8, sizeof *h.figures, h.figures);
    if (!get_done(&g))
        return false;
    h.day = out->day;
    *out = h;
    return true;
}

static const struct field overhead_fields[] = {
    {INT(overhead, tokens, 8, AMOUNT)}, {INT(overhead, day, 8, DAY)}, {0}};

void record_overhead(const struct overhead *o, struct record *out)
{
    write_fields(overhead_fields, o, out);
}

bool record_overhead_read(const struct kv_slice *v, struct overhead *out)
{
    return read_fields(overhead_fields, v, out);
}

static const struct field breaker_fields[] = {
    {BYTES(breaker, boot_id)},
    {INT(breaker, failures, 4, ANY)},
    {INT(breaker, open_until_ms, 8, INSTANT)},
    {INT(breaker, pause_ms, 8, PAUSE)},
    {INT(breaker, probe_id, 8, ANY)},
    {INT(breaker, probing_until_ms, 8, INSTANT)},
    {0},
};

void record_breaker(const struct breaker *b, struct record *out)
{
    write_fields(breaker_fields, b, out);
}

bool record_breaker_read(const struct kv_slice *v, struct breaker *out)
{
    return read_fields(breaker_fields, v, out);
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

static const struct field issued_fields[] = {
    {INT(ledger_key, created_s, 8, SECONDS)}, {BYTES(ledger_key, id)}, {0}};

void record_issued(const struct ledger_key *k, struct record *out)
{
    struct put p = record_start(out);
    size_t n = strnlen(k->name, sizeof k->name);

    put_int(&p, n, 1);
    put_bytes(&p, k->name, n);
    put_fields(&p, issued_fields, k);
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
    get_fields(&g, issued_fields, &k);
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

static const struct field hold_fields[] = {
    {BYTES(hold, boot_id)},
    {INT(hold, day, 8, DAY)},
    {INT(hold, reserved.of[0], 8, AMOUNT)},
    {INT(hold, reserved.of[1], 8, AMOUNT)},
    {INT(hold, reserved.of[2], 8, AMOUNT)},
    {INT(hold, tokens_in, 8, AMOUNT)},
    {INT(hold, tokens_out, 8, AMOUNT)},
    {0},
};

void record_hold(const struct hold *h, struct record *out)
{
    struct put p = record_start(out);

    put_fields(&p, hold_fields, h);
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

    get_fields(&g, hold_fields, out);
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

static const struct field flag_fields[] = {
    {INT(alert_flag, until_ms, 8, INSTANT)},
    {INT(alert_flag, window, 4, ANY)},
    {INT(alert_flag, unit, 1, SUMMED)},
    {INT(alert_flag, max, 8, ANY)},
    {0},
};

void record_alert_flag(const struct alert_flag *f, struct record *out)
{
    write_fields(flag_fields, f, out);
}

bool record_alert_flag_read(const struct kv_slice *v, struct alert_flag *out)
{
    return read_fields(flag_fields, v, out);
}

static const struct field alert_fields[] = {
    {INT(alert_row, reason.kind, 1, KIND)},
    {INT(alert_row, reason.percent, 1, PERCENT)},
    {AT(alert_row, reason.name), 0, NAME},
    {INT(alert_row, attempts, 4, ANY)},
    {INT(alert_row, time_s, 8, SECONDS)},
    {INT(alert_row, queued_ms, 8, INSTANT)},
    {0},
};

void record_alert(const struct alert_row *a, struct record *out)
{
    write_fields(alert_fields, a, out);
}

bool record_alert_read(const struct kv_slice *v, struct alert_row *out)
{
    return read_fields(alert_fields, v, out);
}

static const struct field told_fields[] = {
    {INT(told_row, id, 8, ANY)},
    {INT(told_row, reason.kind, 1, KIND)},
    {INT(told_row, reason.percent, 1, PERCENT)},
    {AT(told_row, reason.name), 0, NAME},
    {INT(told_row, time_s, 8, SECONDS)},
    {INT(told_row, told, 1, TOLD)},
    {0},
};

void record_told(const struct told_list *l, struct record *out)
{
    struct put p = record_start(out);

    put_int(&p, l->n, 1);
    for (unsigned i = 0; i < l->n; i++)
        put_fields(&p, told_fields, &l->row[i]);
    record_end(out, &p);
}

bool record_told_read(const struct kv_slice *v, struct told_list *out)
{
    struct get g = value_start(v);
    struct told_list l = {.n = (unsigned)get_int(&g, 1)};

    if (l.n > TOLD_MAX)
        return false;
    for (unsigned i = 0; i < l.n; i++)
        get_fields(&g, told_fields, &l.row[i]);
    if (!get_done(&g))
        return false;
    *out = l;
    return true;
}

static const struct field password_fields[] = {{0, KEY_HASH, 0, ANY}, {0}};

void record_password(const uint8_t hash[KEY_HASH], struct record *out)
{
    write_fields(password_fields, hash, out);
}

bool record_password_read(const struct kv_slice *v, uint8_t hash[KEY_HASH])
{
    return read_fields(password_fields, v, hash);
}

/* Nothing is ever charged beyond what is granted. */
#define LEASED(subject, unit)                                                                  \
    {INT(lease_row, segment.granted[subject].of[unit], 8, AMOUNT)},                            \
    {                                                                                          \
        INT(lease_row, charged[subject].of[unit], 8, AMOUNT)                                   \
    }
_Static_assert(LEASE_SUBJECTS == 2, "the fields of struct lease_row");
static const struct field lease_fields[] = {
    {INT(lease_row, segment.serial, 8, ANY)},
    {INT(lease_row, segment.from_ms, 8, INSTANT)},
    {INT(lease_row, segment.until_ms, 8, INSTANT)},
    {INT(lease_row, segment.day, 8, DAY)},
    LEASED(0, 0),
    LEASED(0, 1),
    LEASED(0, 2),
    LEASED(1, 0),
    LEASED(1, 1),
    LEASED(1, 2),
    {INT(lease_row, closed, 1, TRUTH)},
    {0},
};

void record_lease(const struct lease_row *r, struct record *out)
{
    write_fields(lease_fields, r, out);
}

static bool is_within(const struct lease_row *r)
{
    for (unsigned i = 0; i < LEASE_SUBJECTS; i++)
        for (unsigned u = 0; u < UNITS_SUMMED; u++)
            if (r->charged[i].of[u] > r->segment.granted[i].of[u])
                return false;
    return true;
}

bool record_lease_read(const struct kv_slice *v, struct lease_row *out)
{
    struct lease_row r = {0};

    if (!read_fields(lease_fields, v, &r) || !is_within(&r) ||
        r.segment.from_ms > r.segment.until_ms)
        return false;
    *out = r;
    return true;
}

/* The walk */

static bool meta_ok(const struct kv_slice *key, const struct kv_slice *v)
{
    struct schema schema;
    struct state state;
    struct alert_reason reason;
    struct ledger_key issued;
    struct told_list told;
    struct history_day erased = {0};
    struct lease_row lease;

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
        return read_fields(overhead_fields, v, NULL);
    case TAG_ALERT:
        return key_alert_reason(key, &reason) && read_fields(flag_fields, v, NULL);
    case TAG_BREAKER:
        return key->n > 2 && key->n < 2 + LEDGER_MODEL_MAX &&
               read_fields(breaker_fields, v, NULL);
    case TAG_ISSUED:
        return key_is_issued(key) && record_issued_read(v, &issued);
    case TAG_TOLD:
        return key->n == 2 && record_told_read(v, &told);
    case TAG_ERASED:
        return key->n == 2 && record_history_read(v, &erased);
    case TAG_PASSWORD:
        return key->n == 2 && read_fields(password_fields, v, NULL);
    case TAG_LEASE:
        return key->n == 2 && record_lease_read(v, &lease);
    default:
        return false;
    }
}

bool record_row_ok(const void *key, size_t nkey, const void *value, size_t nvalue)
{
    const struct kv_slice k = {key, nkey}, v = {value, nvalue};
    struct history_day day = {0};
    struct hold hold;
    char limit[LIMIT_NAME_MAX];
    int64_t at;

    if (nkey < 1)
        return false;
    switch (((const uint8_t *)key)[0]) {
    case TABLE_META:
        return meta_ok(&k, &v);
    case TABLE_HISTORY:
        return key_history_day(&k, &at) && record_history_read(&v, &day);
    case TABLE_DAY:
    case TABLE_COUNTER:
        return is_counter(key, nkey) && read_fields(amounts_fields, &v, NULL);
    case TABLE_DRY:
        return key_dry_read(&k, &at, limit) && read_fields(count_fields, &v, NULL);
    case TABLE_RESERVATION:
        return nkey == 9 + 8 && key_instant(TABLE_RESERVATION, &k, &at) &&
               record_hold_read(&v, &hold);
    case TABLE_ALERT:
        return nkey == 9 + 8 && key_instant(TABLE_ALERT, &k, &at) &&
               read_fields(alert_fields, &v, NULL);
    default:
        return false;
    }
}
