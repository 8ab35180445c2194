/*
 * How rows look in the store (pure): keys, values, and nothing else. Everything is big-endian
 * and of fixed width, so that keys sort by what they begin with, and each value begins with a
 * version byte. Decoders bound what they read and say false for anything that they did not
 * write.
 *
 * Tables are key prefixes. Rows that expire begin, after the table's byte, with the instant at
 * which they do, so that ended ones lie in front.
 *
 *   1 meta          tag, name                        state, schema, zone; models' overheads
 *                                                    and breakers; keys by their tokens' hash;
 *                                                    what alerts have been queued for and
 *                                                    the last of them; sum of erased days;
 *                                                    password of the owner's pages; the
 *                                                    lease's segment under way
 *   2 history       civil day                        one record a day
 *   3 day           end_ms, subject, hash            calendar-day counters (kept `retention`)
 *   4 counter       end_ms, window, subject, hash    all other counters
 *   5 reservation   deadline (boot time), id         what is under way
 *   6 alert         due_ms, id                       what the owner is to be told
 *   7 dry           civil day, limit name            what a dry run would have refused
 */
#ifndef STORE_RECORD_H
#define STORE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/lease.h"
#include "store/ledger.h"
#include "store/period.h"
#include "store/rule.h"
#include "store/storetime.h"

#define RECORD_VERSION 1
#define SUBJECT_HASH   16

enum table {
    TABLE_META = 1,
    TABLE_HISTORY = 2,
    TABLE_DAY = 3,
    TABLE_COUNTER = 4,
    TABLE_RESERVATION = 5,
    TABLE_ALERT = 6,
    TABLE_DRY = 7,
    TABLE_END = 8
};

struct row_key {
    uint8_t n;
    uint8_t bytes[KV_KEY_MAX];
};

/* Keys. */
void key_table(enum table t, struct row_key *out); /* sorts before every row of the table */
void key_schema(struct row_key *out);
void key_state(struct row_key *out);
void key_overhead(const char *model, struct row_key *out);
void key_breaker(const char *model, struct row_key *out);
void key_issued(const uint8_t hash[KEY_HASH], struct row_key *out);
void key_issued_all(struct row_key *out); /* sorts before every issued key */
bool key_is_issued(const struct kv_slice *key);
void key_told(struct row_key *out);
void key_erased(struct row_key *out); /* its value is that of a history row */
void key_password(struct row_key *out);
void key_lease(struct row_key *out);
void key_history(int64_t day, struct row_key *out);
void key_counter(struct window w, const struct slot *slot, enum subject s,
                 const uint8_t hash[SUBJECT_HASH], struct row_key *out);
void key_reservation(int64_t deadline_boot_ms, uint64_t id, struct row_key *out);
void key_alert(int64_t due_ms, uint64_t id, struct row_key *out);
/* What an alert was queued for; `name` of at most LIMIT_NAME_MAX - 1 bytes. */
void key_alert_flag(enum alert_kind kind, unsigned percent, const char *name,
                    struct row_key *out);
void key_alert_flags(struct row_key *out); /* sorts before all of them */
struct alert_reason {
    enum alert_kind kind;
    unsigned percent;
    char name[LIMIT_NAME_MAX];
};
bool key_alert_reason(const struct kv_slice *key, struct alert_reason *out);

bool key_equal(const struct kv_slice *found, const struct row_key *key);

/* The instant with which an expiring row's key begins; false for a key of another table. */
bool key_instant(enum table t, const struct kv_slice *key, int64_t *ms);
uint32_t key_window(const struct kv_slice *key); /* window_code of a TABLE_COUNTER key */
bool key_history_day(const struct kv_slice *key, int64_t *day);
void key_dry(int64_t day, const char *limit, struct row_key *out);
/* False, both untouched, for a key that is none, its name included. */
bool key_dry_read(const struct kv_slice *key, int64_t *day, char limit[LIMIT_NAME_MAX]);

/* Values. */
#define RECORD_MAX                                                                             \
    2048 /* the longest, a reservation, is below 1.4 KB: LMDB keeps < 2 KB in a page */

struct record {
    size_t n;
    uint8_t bytes[RECORD_MAX];
};

/* Copies a row out of the store. False: longer than any of ours. */
bool record_take(const struct kv_slice *key, const struct kv_slice *value, struct row_key *k,
                 struct record *v);

void record_amounts(const struct amounts *a, struct record *out);
bool record_amounts_read(const struct kv_slice *v, struct amounts *out);

/* The store's identity. */
struct schema {
    uint8_t version;
    uint8_t uuid[16];
    uint8_t check[MAC_SIZE]; /* HMAC(secret, "store" || uuid) */
    char zone[ZONE_TEXT_MAX];
};
void record_schema(const struct schema *s, struct record *out);
/* ERROR_STORE_VERSION for a newer one, ERROR_STORE_INVALID for anything else not ours. */
enum error record_schema_read(const struct kv_slice *v, struct schema *out);

/* What every decision reads, in one row: time, pause, which windows have period keys, and how
 * far the board has been folded. */
struct state {
    struct storetime time;
    bool paused;
    unsigned n_windows;
    struct {
        uint32_t code;
        uint64_t generation; /* the period file's entry must have the same */
    } window[PERIOD_WINDOWS];
    uint8_t board_id[16];
    uint32_t folded[FIGURES];
};
void record_state(const struct state *s, struct record *out);
bool record_state_read(const struct kv_slice *v, struct state *out);

void record_count(uint64_t n, struct record *out);
bool record_count_read(const struct kv_slice *v, uint64_t *out);

void record_history(const struct history_day *h, struct record *out);
bool record_history_read(const struct kv_slice *v, struct history_day *out); /* not `day` */

/* A model's extra per-call overhead and the day of the last event. */
struct overhead {
    uint64_t tokens;
    int64_t day;
};
void record_overhead(const struct overhead *o, struct record *out);
bool record_overhead_read(const struct kv_slice *v, struct overhead *out);

/* A model's breaker (store/breaker.c). Its instants are those of a boot: of another one it is
 * closed. */
#define BREAKER_PAUSE_MAX_MS (16LL * 24 * 3600 * 1000) /* bounds the arithmetic */
struct breaker {
    uint8_t boot_id[16];
    uint32_t failures;        /* in a row */
    int64_t open_until_ms;    /* boot time; 0: it has not opened */
    int64_t pause_ms;         /* for which it opened last */
    uint64_t probe_id;        /* the reservation that tries whether the model is well again */
    int64_t probing_until_ms; /* boot time: that one's deadline; 0: none tries */
};
void record_breaker(const struct breaker *b, struct record *out);
bool record_breaker_read(const struct kv_slice *v, struct breaker *out);

/* A key that the owner has issued. Its limits' names are made of unit and window. */
bool key_name_ok(const char *name); /* letters, digits, '-', '_'; not '-' first */
void record_issued(const struct ledger_key *k, struct record *out);
bool record_issued_read(const struct kv_slice *v, struct ledger_key *out);

/* Limits that can hold for one request, and so the counters that it can be charged to. */
#define VIEW_LIMITS_MAX (LIMITS_MAX + KEY_LIMITS_MAX)

/* One call under way: what was charged, and to which rows. */
struct hold {
    uint8_t boot_id[16];
    int64_t day; /* of the history */
    struct amounts reserved;
    uint64_t tokens_in, tokens_out;
    unsigned n_live; /* subjects that hold a place */
    struct {
        uint8_t subject;
        uint8_t hash[SUBJECT_HASH]; /* under secret and boot id */
    } live[SUBJECTS];
    unsigned n_rows;
    struct row_key row[VIEW_LIMITS_MAX];
};
void record_hold(const struct hold *h, struct record *out);
bool record_hold_read(const struct kv_slice *v, struct hold *out);
/* Whether it was charged to the row. */
bool hold_has_row(const struct hold *h, const struct row_key *row);
/* The id of a key of TABLE_RESERVATION or TABLE_ALERT. */
uint64_t hold_id(const struct kv_slice *key);

/* The places of a reservation, looked up in its bytes: every decision looks at every open
 * stream, and decoding them would be most of its work. Borrowed from the value. */
struct hold_places {
    const uint8_t *boot_id;
    const uint8_t *live; /* n of {subject, hash} */
    unsigned n;
};
bool record_hold_places(const struct kv_slice *v, struct hold_places *out);
bool places_have(const struct hold_places *p, unsigned subject,
                 const uint8_t hash[SUBJECT_HASH]);

/* An alert has been queued for this reason: until the window's end, or until the limit is
 * another one. All but until_ms is 0 where the reason is no limit. */
struct alert_flag {
    int64_t until_ms; /* store time */
    uint32_t window;  /* window_code */
    uint8_t unit;
    uint64_t max;
};
void record_alert_flag(const struct alert_flag *f, struct record *out);
bool record_alert_flag_read(const struct kv_slice *v, struct alert_flag *out);

/* An alert that waits to be delivered. */
struct alert_row {
    struct alert_reason reason;
    uint32_t attempts;
    int64_t time_s;    /* wall clock, for the owner */
    int64_t queued_ms; /* store time */
};
void record_alert(const struct alert_row *a, struct record *out);
bool record_alert_read(const struct kv_slice *v, struct alert_row *out);

/* The last alerts, newest first. */
struct told_row {
    uint64_t id; /* of the alert that waits; else of no use */
    struct alert_reason reason;
    int64_t time_s; /* wall clock */
    enum told told;
};
struct told_list {
    unsigned n;
    struct told_row row[TOLD_MAX];
};
void record_told(const struct told_list *l, struct record *out);
bool record_told_read(const struct kv_slice *v, struct told_list *out);

void record_password(const uint8_t hash[KEY_HASH], struct record *out);
bool record_password_read(const struct kv_slice *v, uint8_t hash[KEY_HASH]);

/* The lease's segment under way; closed at first. */
void record_lease(const struct lease_row *r, struct record *out);
bool record_lease_read(const struct kv_slice *v, struct lease_row *out);

/* Whether a row is one that this program may have written: for the walk at opening. */
bool record_row_ok(const void *key, size_t nkey, const void *value, size_t nvalue);

#endif
