/*
 * The ledger: what has been used, what is reserved, and whether a request may go ahead. It
 * stands on kv, records, the rule engine, period keys, the board and the live file, and is all
 * that the gateway sees of the store. Thread-safe after ledger_open.
 *
 *   ledger_check     from a read transaction: refuses, writes nothing
 *   ledger_reserve   one write transaction checks every limit, charges every counter and
 *                    writes the reservation, or changes nothing; synced before it returns
 *   ledger_replace   puts the reservation for another model in the place of one whose call came
 *                    to nothing, under the same checks
 *   ledger_settle    replaces the reserved amounts by the real ones, exactly once
 *
 * One thread of a process enters write transactions (store/writer.c): it is started by the
 * first call that needs it, never talks to a client, and commits what is waiting as one batch.
 * The others wait for it at most LEDGER_WAIT_MS, withdraw what it has not taken, and report
 * ERROR_BUSY; what it had taken stays charged, and its place is dropped.
 */
#ifndef STORE_LEDGER_H
#define STORE_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "platform/clock.h"
#include "platform/mac.h"
#include "platform/secret.h"
#include "store/kv.h"
#include "store/rule.h"

struct ledger;

#define LEDGER_WAIT_MS   2000 /* a caller rather hears `busy` than waits for a stuck writer */
#define LEDGER_MODEL_MAX 32   /* longest model alias */

struct ledger_options {
    const char *store;           /* directory */
    const char *run;             /* run directory; NULL: STORE/run */
    uint8_t secret[SECRET_SIZE]; /* copied; the caller wipes its own */
    size_t map_bytes;
    /* Durability `lease`: rows are live in `run` (on tmpfs, not NULL then), and on flash, in
     * `store`, lie the period keys, a copy and a lease (store/lease.h). */
    bool lease;
    clock_fn *clock; /* clock_read; tests pass their own */
};

/*
 * Makes a new, empty store in an existing directory (and STORE/run if `run` is NULL), bound to
 * the secret: data.mdb, lock.mdb (with a lease in RUN/store, and in STORE the first copy and an
 * empty lease), the period key file, the schema record {magic, version, random uuid,
 * HMAC(secret)}, the time, and `zone`, a rule as in store/zone.h. Only `init` calls it.
 * ERROR_EXISTS if anything of a store is there, of either durability: a store is never made over
 * another. One that a crash has left half-made (STORE/making is there) is finished, or begun anew
 * if nothing of it could be opened; ERROR_STORE_SECRET: it is of another secret. ERROR_UNSUPPORTED
 * if the file system cannot lock or map.
 */
enum error ledger_create(const struct ledger_options *o, const char *zone);

/* Whether there is a store that this user can reach, to be asked before a missing secret or run
 * directory is blamed, since both may lie in it: ERROR_STORE_MISSING, ERROR_OWNER. */
enum error ledger_look(const char *store);

/*
 * Opens what is there, or says why not: ERROR_STORE_*, ERROR_PERIODS, ERROR_RUN_MISSING,
 * ERROR_OWNER, ERROR_CLOCK, ERROR_STORE_DURABILITY. With a lease the live rows are restored if they
 * are missing or of another boot (store/restore.h), under a lock. Walks the store once per boot, in
 * a forked child: call before threads, other than one that holds no lock or memory. With `adopt` a
 * store older than the mark in the run directory, or a copy older than the last one, is accepted
 * and the mark rewritten; after the latter ledger_copy makes it last.
 */
enum error ledger_open(const struct ledger_options *o, bool adopt, struct ledger **out);

/*
 * Commits the settles that wait, stops the writer, closes. Waits at most `bound_ms` for it; if
 * it is stuck, returns false and leaves everything as it is: the process must _exit.
 */
bool ledger_close(struct ledger *l, int64_t bound_ms);

/* Whether a decision could be made now: the files, the clock and the store's time. Cheap. */
enum error ledger_verify(struct ledger *l);

#define ALERT_AT_MAX 8 /* thresholds; more than a few would be noise */

/* What the configuration says of counting. Borrowed for each call; may differ from call to
 * call, since a changed configuration is taken up while streams run. */
struct policy {
    const struct limit *limits;
    unsigned n_limits;
    bool local_time;       /* days and months by the store's zone, else UTC */
    int64_t retention_ms;  /* how long ended day counters are kept */
    unsigned site_streams; /* 0, or: `busy` if the site has so many live reservations */
    /* Percent of the limits for everyone and anonymous at which an alert is queued, when a call is
     * settled and on what is settled, by the policy of the last ledger_reserve; ascending;
     * none: no alert of any kind is queued. */
    unsigned n_alert_at;
    uint8_t alert_at[ALERT_AT_MAX];
    bool alert_deliver; /* somebody is there to deliver them; else they are only shown */
};

#define KEY_HASH 16 /* first bytes of ledger_mac("key", token) */

/* What makes a caller one subject. n = 0: the caller lacks it. */
#define SUBJECT_ID_MAX 47
struct subject_id {
    uint8_t n;
    uint8_t bytes[SUBJECT_ID_MAX];
};

/* `everyone` is always present and needs no id; `anonymous` is present if `anonymous`
 * is set. Of a `bypass` caller nothing else counts, a key that was shown neither. */
struct caller {
    struct subject_id id[SUBJECTS];
    bool anonymous;
    /* A key was shown; the store finds it by the hash and fills id[SUBJECT_KEY] and the key's own
     * limits, or answers DECISION_NO_KEY. */
    bool has_key;
    uint8_t key_hash[KEY_HASH];
    bool bypass; /* the owner's own: only SUBJECT_BYPASS is present, and counted */
};

/*
 * The caller's hashes that have been computed for this request, so that the writer need not
 * compute again what the check has. The ledger's own: zero at first.
 */
/* Address, visitor, account and key in three windows each; more, as in the minutes after
 * midnight, are computed again. */
#define HASHES_KEPT 12
struct hashes {
    unsigned n;
    uint32_t live_known; /* bit 1 << subject: live[subject] is */
    struct {
        uint32_t code;
        uint8_t subject;
        uint64_t generation;
        int64_t period;
        uint8_t hash[16];
    } kept[HASHES_KEPT];
    uint8_t live[SUBJECTS][16];
};

/* One request as the ledger sees it. */
struct demand {
    struct caller caller;
    struct amounts weights; /* worst case; of[UNIT_CALLS] is 1 */
    uint64_t tokens_in;     /* the parts of weights.of[UNIT_TOKENS], for the sanity bound */
    uint64_t tokens_out;
    bool unpriced;   /* the model has no price: ERROR_PRICE if a limit counts cost */
    int64_t hold_ms; /* at the latest then the reservation ends by itself, unsettled */
    char model[LEDGER_MODEL_MAX];
    struct hashes hashes;
};

/* What the ledger answers. `wait_ms` is real time, for Retry-After. */
enum decision {
    DECISION_ADMITTED,
    DECISION_REFUSED,  /* verdict.refusal says by what */
    DECISION_TOO_LONG, /* could never fit */
    DECISION_PAUSED,
    DECISION_BUSY,   /* site_streams live reservations already */
    DECISION_NO_KEY, /* the key that was shown is not (or no longer) one of the site's */
    DECISION_BREAKER /* the model's breaker is open: wait_ms */
};

struct answer {
    enum decision decision;
    struct verdict verdict;
    int64_t wait_ms;                         /* if refused, or the breaker is open */
    int64_t standing_wait_ms[STANDINGS_MAX]; /* more_ms of each standing as real time */
    char limit[LIMIT_NAME_MAX]; /* if refused or too long: the limit that named it; else "" */
};

/* The right to one upstream call. Plain data; settle it exactly once. */
struct reservation {
    uint64_t id;
    int64_t deadline_boot_ms;
    struct amounts reserved;
    uint64_t tokens_in, tokens_out;
    int64_t day; /* the history's day that it was charged to */
    bool probe;  /* the one call that tries whether the model's breaker can close */
    /* Of the lease: the segment in which it was charged, 0: durability commit, or none is; and the
     * civil date, that of its counters. */
    uint64_t segment;
    int64_t segment_day;
    char model[LEDGER_MODEL_MAX];
};

/* What the call came to. */
enum settle_kind {
    SETTLE_USAGE,   /* real usage is known */
    SETTLE_UNKNOWN, /* no usage, caller gone, not believable: stays charged in full */
    SETTLE_NOTHING  /* nothing can have been billed: everything is given back, the call too */
};

/* What the call says of the API's health, for the model's breaker (store/breaker.c). */
enum health {
    HEALTH_UNKNOWN, /* says nothing: the caller left, or the request itself was at fault */
    HEALTH_GOOD,    /* answered: the breaker closes */
    HEALTH_FAILED,  /* did not answer properly: open after so many in a row */
    HEALTH_DENIED,  /* our key, or what a filter stopped: the owner is told, no more */
    HEALTH_REFUSED  /* it refuses us (key, credit, rate): open at once */
};
struct settlement {
    enum settle_kind kind;
    struct amounts real;            /* SETTLE_USAGE: calls 1, tokens, cost */
    uint64_t tokens_in, tokens_out; /* SETTLE_USAGE: for history and sanity */
    uint64_t input_over;            /* SETTLE_USAGE: input tokens above the priced worst case */
    uint64_t overhead_max;          /* bound of the model's extra overhead that this may set */
    bool upstream_error;            /* counted in the history */
    enum health health;
    unsigned breaker_after;   /* HEALTH_FAILED so many times in a row opens the breaker; >= 1 */
    int64_t breaker_pause_ms; /* for so long; each probe that fails doubles it, up to x 16 */
    int64_t retry_after_ms;   /* HEALTH_REFUSED: what the API asked for; 0: it did not */
};
/* An API that asks to be left alone for longer is tried after an hour. */
#define LEDGER_RETRY_MAX_MS (3600LL * 1000)

/*
 * ERROR_NONE with *out filled, or an error: then nothing is admitted. A DECISION_ADMITTED from
 * ledger_check only means that ledger_reserve is worth asking.
 */
enum error ledger_check(struct ledger *l, const struct policy *p, struct demand *d,
                        struct answer *out);
enum error ledger_reserve(struct ledger *l, const struct policy *p, const struct demand *d,
                          struct answer *out, struct reservation *r);

/*
 * The call came to nothing and another model is to be asked instead: in one write transaction
 * what was charged is given back, what `first` says of its model's health is noted, and every
 * limit and the other model's breaker are asked for `d`. If they admit it, *r is the reservation
 * for that, of the same id, place, deadline and day, charged in full before this returns.
 * Otherwise *r is as it was, and there is nothing left to settle. After an error, too, *r is as
 * it was and must be settled, with SETTLE_NOTHING: that is right whether or not the transaction
 * has happened. ERROR_NOT_FOUND: it has been settled or has ended. `first->kind` is unused.
 */
enum error ledger_replace(struct ledger *l, const struct policy *p, const struct demand *d,
                          const struct settlement *first, struct answer *out,
                          struct reservation *r);

/* Frees the concurrency place: the stream has ended. Before or after the settle. Idempotent. A
 * probe's place goes with its settle, or another would be let through before it is known what
 * came of this one. */
void ledger_release(struct ledger *l, const struct reservation *r);

/*
 * Queues the settle; it rides on the next commit, or is committed alone after 1 s, at once if
 * `now` (CGI: before the last byte is sent; waits at most LEDGER_WAIT_MS, ERROR_BUSY after it).
 * Also releases the place. Settling twice, or past the deadline, changes nothing. The history's
 * record of the day is settled with it. A settle that cannot be committed is tried again until
 * the deadline.
 */
enum error ledger_settle(struct ledger *l, const struct reservation *r,
                         const struct settlement *s, bool now);

/*
 * The subject as log and dashboard show it: 16 hex digits of HMAC(display key, the subject's
 * hash of the civil day), so that it changes daily. "-" if the caller lacks it.
 */
enum error ledger_display(struct ledger *l, const struct policy *p, struct demand *d,
                          enum subject s, char out[17]);

/*
 * Live figures (platform/board.h counter numbers). Folded into the day's history record by the
 * next write transaction.
 */
enum figure {
    FIGURE_REFUSED, /* + enum refusal: REFUSALS of them */
    FIGURE_TOO_LONG = FIGURE_REFUSED + REFUSALS,
    FIGURE_PAUSED,
    FIGURE_BUSY,
    FIGURE_METER,    /* 503 because the meter was unavailable */
    FIGURE_INVALID,  /* 4xx: malformed or incomplete requests */
    FIGURE_UPSTREAM, /* upstream errors */
    FIGURE_DENIED,   /* 401, 403: no key, wrong origin */
    FIGURE_BREAKER,  /* 503 because a breaker was open */
    FIGURE_PROXIED,  /* with a forwarding header from a private address that is not trusted */
    FIGURES
};
void ledger_figure(struct ledger *l, enum figure f);

/*
 * What else is on the board: live counters of all processes of the site for metrics, which are
 * not folded and begin anew with a new board (after a boot where the run directory is on tmpfs).
 * All wrap at 2^32. Numbers are never given to something else: a board outlives an upgrade, and
 * with a run directory that is kept also boots.
 */
enum live_counter {
    LIVE_SINCE = 64,        /* seconds since 1970 when the board was made; 0: not known */
    LIVE_LOG_SECOND = 65,   /* ledger_log_line's own */
    LIVE_LOG_LEFT_OUT = 66, /* lines that were not logged */
    LIVE_LOG_TOLD = 67, /* of these, how many a later line has told of; ledger_log_line's own */
    LIVE_CODES = 128,   /* + a code's live number (gateway/code.h): answers of that code */
    LIVE_DECISION = 192,   /* LIVE_BUCKETS + 1: histogram of microseconds, then their sum */
    LIVE_FIRST_BYTE = 224, /* the same of milliseconds until the model's first byte */
    LIVE_LIMITS = 256,     /* LIVE_LIMIT_SLOTS pairs: a limit name's hash, its refusals */
    LIVE_END = 384
};
#define LIVE_BUCKETS     16
#define LIVE_LIMIT_SLOTS 64 /* further names are counted together, in the last pair */
extern const uint32_t ledger_decision_bounds_us[LIVE_BUCKETS - 1]; /* the last has none */
extern const uint32_t ledger_first_byte_bounds_ms[LIVE_BUCKETS - 1];

void ledger_live_code(struct ledger *l, unsigned live); /* a code's live number */
void ledger_live_decision(struct ledger *l, int64_t us);
void ledger_live_first_byte(struct ledger *l, int64_t ms);
/* It has refused. NULL: one that is counted with the further names. A name keeps its pair as long
 * as there is the board, also if no configuration has it any more. */
void ledger_live_limit(struct ledger *l, const char *limit);

/* A copy of the board. */
struct ledger_live {
    uint32_t of[LIVE_END];
};
void ledger_live(const struct ledger *l, struct ledger_live *out);
uint32_t ledger_live_refused(const struct ledger_live *v, const char *limit);
uint32_t ledger_live_refused_others(const struct ledger_live *v);

/*
 * Whether one more line of this second may be logged, of at most `per_second` over all
 * processes; then *left_out is how many were not since the last that was. `now_s` is by the
 * machine's monotonic clock, which all processes share and nobody sets. per_second counts up to
 * LEDGER_LOG_LINES_MAX.
 */
#define LEDGER_LOG_LINES_MAX 4095
bool ledger_log_line(struct ledger *l, uint32_t now_s, unsigned per_second, uint32_t *left_out);
/* For a line that is written whatever the bound: how many were not since the last that was. */
uint32_t ledger_log_left_out(struct ledger *l);
/*
 * Tells in a line of its own what no request's line has told of yet, and of `more`. l may be
 * NULL. Timed work and ledger_close do, since after the end of a flood no request need come.
 */
void ledger_log_tell(struct ledger *l, uint32_t more);

/* For the owner. `paused` is a row that every decision reads. */
enum error ledger_set_paused(struct ledger *l, const struct policy *p, bool paused);

/*
 * Keys: tokens that the owner has issued, each a subject, with limits of its own where given;
 * they take the place of the configuration's limits per key of the same unit and window. The
 * token itself is nowhere in the store.
 */
#define KEY_LIMITS_MAX 4   /* more are a mistake; what a key costs every decision */
#define KEYS_MAX       512 /* a hobby site's; bounds what the table can grow to */
struct ledger_key {
    char name[LIMIT_NAME_MAX]; /* of letters, digits, '-', '_' */
    int64_t created_s;
    uint8_t id[16]; /* the subject: random, so that a name used again is somebody else */
    uint8_t hash[KEY_HASH]; /* what it is found by; told by ledger_keys alone */
    unsigned n_limits;
    struct limit limits[KEY_LIMITS_MAX]; /* their subject is SUBJECT_KEY */
};
/* ERROR_EXISTS: the name is taken; ERROR_TOO_LARGE: KEYS_MAX are there; ERROR_SYNTAX: no name
 * that a key may have; ERROR_TOO_MANY_WINDOWS: with those of the policy and of the other keys.
 * `id`, `created_s` and the limits' names are made here. */
enum error ledger_key_add(struct ledger *l, const struct policy *p,
                          const uint8_t hash[KEY_HASH], const struct ledger_key *k);
/* ERROR_NOT_FOUND. What it has used stays counted for the shared subjects. */
enum error ledger_key_revoke(struct ledger *l, const struct policy *p, const char *name);
/* Visits all of them, in no order. */
enum error ledger_keys(struct ledger *l, void (*visit)(void *arg, const struct ledger_key *k),
                       void *arg);

/*
 * Gives a subject its quota back: every row of it in a window of the policy (or of a key's own
 * limits) that still counts becomes what its open reservations have charged. Not for
 * `everyone`'s history. `id` is unused for shared subjects. *rows: how many had anything in
 * them.
 */
enum error ledger_forgive(struct ledger *l, const struct policy *p, enum subject s,
                          const struct subject_id *id, unsigned *rows);
/* Forgets the extra overhead that was learnt of a model, and closes its breaker. */
enum error ledger_forgive_model(struct ledger *l, const struct policy *p, const char *model);

/* out = HMAC(secret, label || 0 || the store's uuid || data): for what must be this site's
 * alone (cookies, key tokens, passwords). Labels: "key", "cookie", "account", "bypass",
 * "self-test". */
void ledger_mac(const struct ledger *l, const char *label, const void *data, size_t n,
                uint8_t out[MAC_SIZE]);

/* What is known of a model: its extra overhead, and for how long its breaker refuses (0: it does
 * not). From one read transaction. */
struct ledger_model {
    uint64_t overhead;
    int64_t breaker_wait_ms;
    unsigned failures; /* in a row */
};
enum error ledger_model(struct ledger *l, const char *model, struct ledger_model *out);

/* What each dry-run limit would have refused among what was admitted, by day from `first` on. */
enum error ledger_dry(struct ledger *l, int64_t first,
                      void (*visit)(void *arg, int64_t day, const char *limit, uint64_t n),
                      void *arg);

/*
 * Alerts: queued by the transaction that has the reason for them, so that one is queued once
 * over all processes, and delivered by whoever takes it.
 */
enum alert_kind {
    ALERT_THRESHOLD,        /* name: limit; percent */
    ALERT_UPSTREAM_REFUSED, /* name: model */
    ALERT_BREAKER_OPEN,     /* name: model */
    ALERT_BOUND_EXCEEDED,   /* name: model */
    ALERT_METER,            /* never queued: the store cannot be written then */
    ALERT_KINDS
};
/* "threshold", "upstream_refused", "breaker_open", "bound_exceeded", "meter_unavailable". */
const char *alert_kind_name(enum alert_kind k);
struct ledger_alert {
    uint64_t id;
    enum alert_kind kind;
    char name[LIMIT_NAME_MAX];
    unsigned percent;
    int64_t time_s;    /* wall clock */
    unsigned attempts; /* made so far, this one included */
};
/* Takes the first alert that is due; nobody else gets it for lease_ms. ERROR_NOT_FOUND: none.
 * Looks from a read transaction first: asking again and again writes nothing. */
enum error ledger_alert_take(struct ledger *l, const struct policy *p, int64_t lease_ms,
                             struct ledger_alert *out);
/* Delivered: it goes; otherwise it is due again after retry_ms, or is given up after three days.
 * Of an alert that somebody else has taken since, only a delivery counts. */
enum error ledger_alert_done(struct ledger *l, const struct policy *p,
                             const struct ledger_alert *a, bool delivered, int64_t retry_ms);
/* How many this process has queued: when it changes, one may be due. */
unsigned ledger_alerts_queued(const struct ledger *l);

/* The last alerts, newest first, whether or not anybody delivers them. */
#define TOLD_MAX 16
enum told { TOLD_HERE, TOLD_WAITS, TOLD_DELIVERED, TOLD_GIVEN_UP };
struct ledger_told {
    enum alert_kind kind;
    char name[LIMIT_NAME_MAX];
    unsigned percent;
    int64_t time_s; /* wall clock */
    /* TOLD_HERE: nobody was there to deliver it; TOLD_GIVEN_UP: not taken for three days, or too
     * many waited already */
    enum told told;
};
enum error ledger_told(struct ledger *l, struct ledger_told out[TOLD_MAX], unsigned *n);

/*
 * The callers of today that have used the most calls, most first, of those that a limit over a
 * calendar day counts; of others the store knows no name that changes daily.
 */
#define TOP_MAX 10
struct ledger_caller {
    enum subject subject; /* address, visitor, account or key */
    char name[17];        /* as ledger_display */
    struct amounts used;
};
/* *whole is false if there were too many rows to look at all of them. */
enum error ledger_top(struct ledger *l, const struct policy *p,
                      struct ledger_caller out[TOP_MAX], unsigned *n, bool *whole);

/* The password of the owner's pages as ledger_mac("dashboard", password): its first KEY_HASH
 * bytes. NULL takes it away. ERROR_NOT_FOUND of either: there is none. */
enum error ledger_set_password(struct ledger *l, const struct policy *p, const uint8_t *hash);
enum error ledger_password(struct ledger *l, uint8_t hash[KEY_HASH]);

/* Timed work: folds the board, erases what has ended, advances the period keys. */
enum error ledger_maintain(struct ledger *l, const struct policy *p);
/* Has this process do so by itself each minute from now on, as after a ledger_reserve. */
void ledger_begin_timed(struct ledger *l, const struct policy *p);
/* Whether it does so already, so that no policy need be made to tell it; waits for nobody. */
bool ledger_is_timed(const struct ledger *l);

/*
 * Durability `lease`; with `commit` all of these do nothing. What the owner has changed is only
 * safe from a power loss once it has been copied to flash. Each copies only if something has been
 * committed since the last copy, of whichever process. `p` may be NULL: the policy last seen.
 * ERROR_STORE_IO: flash is full or cannot be written to; ERROR_BUSY; ERROR_STORE_*. What was
 * on flash before stays good then.
 */
enum error ledger_copy(struct ledger *l, const struct policy *p);
/* The same, if the last one was made an hour ago. */
enum error ledger_copy_hourly(struct ledger *l, const struct policy *p);
/* Before a clean stop; waits at most so long. A process that stays copies hourly by itself. */
void ledger_copy_last(struct ledger *l, int64_t bound_ms);
/* Whether ledger_copy_hourly would copy. */
bool ledger_copy_is_due(struct ledger *l);

/*
 * Sets store time to the clock's on purpose (it may go back), starts fresh period keys, and
 * carries what `everyone`, `anonymous` and the bypass have used into the windows that are open
 * then.
 */
enum error ledger_clock_reset(struct ledger *l, const struct policy *p);

/* One day of the site. */
struct history_day {
    int64_t day; /* civil, days since 1970 */
    uint64_t admitted, settled, unknown, given_back;
    uint64_t bypassed;                         /* of the admitted: the owner's own */
    uint64_t tokens_in, tokens_out, cost_nano; /* settled, or reserved where usage is unknown */
    uint64_t figures[FIGURES];
};

/* Calls visit for each day from `first` on, oldest first, today's board included. */
enum error ledger_history(struct ledger *l, const struct policy *p, int64_t first,
                          void (*visit)(void *arg, const struct history_day *d), void *arg);

/*
 * The sum over all days since the store was made, those that have been erased included: it never
 * decreases, but for what a board that was lost (as with a boot, where the run directory is on
 * tmpfs) had not been folded of: refusals write nothing. `day` is unused.
 */
enum error ledger_totals(struct ledger *l, struct history_day *out);

/* How a limit of a shared subject (everyone, anonymous) stands: `used` includes `reserved`. */
struct limit_use {
    uint64_t used, reserved;
    uint64_t released; /* what of the max may be used by now: less than all with a pace */
    int64_t frees_ms;  /* real milliseconds until some of it comes back; 0 if nothing is used */
};
enum error ledger_limit_use(struct ledger *l, const struct policy *p, unsigned limit,
                            struct limit_use *out);

struct ledger_state {
    bool paused;
    int64_t store_ms, clock_ms; /* store time ahead of the clock if larger */
    int64_t today;              /* civil day by the policy's zone */
    uint64_t open_streams;      /* live reservations */
    unsigned alerts;            /* that wait to be delivered */
    struct kv_usage usage;
    char zone[ZONE_TEXT_MAX];
    uint8_t uuid[16];
    int64_t copied_ms; /* by the clock, when the copy on flash was made; 0: durability commit */
};
enum error ledger_state(struct ledger *l, const struct policy *p, struct ledger_state *out);

#endif
