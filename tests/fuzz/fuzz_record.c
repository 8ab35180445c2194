/* Any bytes as a row of the store: whatever is taken for one of ours is written again as it was
 * read, keeps its bounds, and the two ways to look into a reservation agree. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "store/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

static struct kv_slice slice_of(const struct record *r)
{
    return (struct kv_slice){.data = r->bytes, .n = r->n};
}

/* Once written, it is read and written as the same bytes. */
#define CHECK_WRITTEN(value, type, write, read)                                                \
    do {                                                                                       \
        struct type first, second;                                                             \
        struct record once, twice;                                                             \
        struct kv_slice written;                                                               \
        memset(&first, 0, sizeof first);                                                       \
        memset(&second, 0, sizeof second);                                                     \
        if (!read((value), &first))                                                            \
            break;                                                                             \
        write(&first, &once);                                                                  \
        written = slice_of(&once);                                                             \
        require(once.n <= RECORD_MAX && read(&written, &second));                              \
        write(&second, &twice);                                                                \
        require(once.n == twice.n && memcmp(once.bytes, twice.bytes, once.n) == 0);            \
    } while (0)

static bool schema_read(const struct kv_slice *v, struct schema *out)
{
    return record_schema_read(v, out) == ERROR_NONE;
}

static void check_hold(const struct kv_slice *v)
{
    struct hold h;
    struct hold_places places;
    bool whole = record_hold_read(v, &h);

    if (!record_hold_places(v, &places)) {
        require(!whole);
        return;
    }
    if (!whole)
        return;
    require(h.n_live <= SUBJECTS && h.n_rows <= VIEW_LIMITS_MAX && places.n == h.n_live);
    require(memcmp(places.boot_id, h.boot_id, sizeof h.boot_id) == 0);
    for (unsigned i = 0; i < h.n_live; i++)
        require(places_have(&places, h.live[i].subject, h.live[i].hash));
    for (unsigned i = 0; i < h.n_rows; i++)
        require(h.row[i].n <= KV_KEY_MAX);
}

/* The pages show it as it is. */
static void check_told(const struct kv_slice *v)
{
    struct told_list l;

    if (!record_told_read(v, &l))
        return;
    require(l.n <= TOLD_MAX);
    for (unsigned i = 0; i < l.n; i++)
        require(l.row[i].reason.kind < ALERT_KINDS && l.row[i].reason.percent <= 100 &&
                memchr(l.row[i].reason.name, '\0', sizeof l.row[i].reason.name) != NULL &&
                l.row[i].told <= TOLD_GIVEN_UP && l.row[i].time_s >= 0);
}

static void check_password(const struct kv_slice *v)
{
    uint8_t hash[KEY_HASH];
    struct record again;

    if (!record_password_read(v, hash))
        return;
    record_password(hash, &again);
    require(again.n == v->n && memcmp(again.bytes, v->data, again.n) == 0);
}

static void check_issued(const struct kv_slice *v)
{
    struct ledger_key k;

    if (!record_issued_read(v, &k))
        return;
    require(key_name_ok(k.name) && k.n_limits <= KEY_LIMITS_MAX);
    for (unsigned i = 0; i < k.n_limits; i++)
        require(k.limits[i].subject == SUBJECT_KEY && k.limits[i].unit <= UNIT_CONCURRENT &&
                memchr(k.limits[i].name, '\0', sizeof k.limits[i].name) != NULL &&
                !k.limits[i].dry_run && !k.limits[i].pace);
}

static void check_key(const struct kv_slice *key)
{
    unsigned tables = 0;
    int64_t at, day;
    char limit[LIMIT_NAME_MAX];
    struct row_key again;

    for (enum table t = TABLE_META; t < TABLE_END; t++)
        tables += key_instant(t, key, &at);
    require(tables <= 1);
    if (key_is_issued(key))
        require(tables == 0 || key_instant(TABLE_META, key, &at));
    if (key_history_day(key, &day))
        require(((const uint8_t *)key->data)[0] == TABLE_HISTORY);
    if (key_instant(TABLE_COUNTER, key, &at))
        (void)key_window(key);
    if (key_dry_read(key, &day, limit)) {
        key_dry(day, limit, &again);
        require(again.n == key->n && memcmp(again.bytes, key->data, key->n) == 0);
    }
    if (key_instant(TABLE_RESERVATION, key, &at))
        (void)hold_id(key);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t n_key = size > 0 ? data[0] % (KV_KEY_MAX + 1) : 0;
    struct kv_slice key, value;

    if (size < 1 + n_key)
        return 0;
    key = (struct kv_slice){.data = data + 1, .n = n_key};
    value = (struct kv_slice){.data = data + 1 + n_key, .n = size - 1 - n_key};
    check_key(&key);
    (void)record_row_ok(key.data, key.n, value.data, value.n);
    CHECK_WRITTEN(&value, amounts, record_amounts, record_amounts_read);
    CHECK_WRITTEN(&value, schema, record_schema, schema_read);
    CHECK_WRITTEN(&value, state, record_state, record_state_read);
    CHECK_WRITTEN(&value, history_day, record_history, record_history_read);
    CHECK_WRITTEN(&value, overhead, record_overhead, record_overhead_read);
    CHECK_WRITTEN(&value, alert_flag, record_alert_flag, record_alert_flag_read);
    CHECK_WRITTEN(&value, alert_row, record_alert, record_alert_read);
    CHECK_WRITTEN(&value, breaker, record_breaker, record_breaker_read);
    CHECK_WRITTEN(&value, ledger_key, record_issued, record_issued_read);
    check_issued(&value);
    CHECK_WRITTEN(&value, told_list, record_told, record_told_read);
    check_told(&value);
    check_password(&value);
    CHECK_WRITTEN(&value, hold, record_hold, record_hold_read);
    check_hold(&value);
    return 0;
}
