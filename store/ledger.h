/*
 * The ledger: what has been used, what is reserved, and whether a request may go ahead. It
 * stands on kv, records, the rule engine, period keys, the board and the live file, and is all
 * that the gateway sees of the store. Thread-safe after ledger_open.
 *
 *   ledger_check     from a read transaction: refuses, writes nothing
 *   ledger_reserve   one write transaction checks every limit, charges every counter and
 *                    writes the reservation, or changes nothing; synced before it returns
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
    clock_fn *clock; /* clock_read; tests pass their own */
};

/*
 * Makes a new, empty store in an existing directory (and STORE/run if `run` is NULL), bound to
 * the secret: data.mdb, lock.mdb, the period key file, the schema record {magic, version,
 * random uuid, HMAC(secret)}, the time, and `zone`, a rule as in store/zone.h. Only `init`
 * calls it. ERROR_EXISTS if anything of a store is there: a store is never made over another.
 */
enum error ledger_create(const struct ledger_options *o, const char *zone);

/* Whether there is a store that this user can reach, to be asked before a missing secret or run
 * directory is blamed, since both may lie in it: ERROR_STORE_MISSING, ERROR_OWNER. */
enum error ledger_look(const char *store);

/*
 * Opens what is there, or says why not: ERROR_STORE_*, ERROR_PERIODS, ERROR_RUN_MISSING,
 * ERROR_OWNER, ERROR_CLOCK. Walks the store once per boot, in a forked child: call before
 * threads. With `adopt` a store older than the mark in the run directory is accepted and the
 * mark rewritten.
 */
enum error ledger_open(const struct ledger_options *o, bool adopt, struct ledger **out);

/*
 * Commits the settles that wait, stops the writer, closes. Waits at most `bound_ms` for it; if
 * it is stuck, returns false and leaves everything as it is: the process must _exit.
 */
bool ledger_close(struct ledger *l, int64_t bound_ms);

/* Whether a decision could be made now: the files, the clock and the store's time. Cheap. */
enum error ledger_verify(struct ledger *l);

/* What the configuration says of counting. Borrowed for each call; may differ from call to
 * call, since a changed configuration is taken up while streams run. */
struct policy {
    const struct limit *limits;
    unsigned n_limits;
    bool local_time;       /* days and months by the store's zone, else UTC */
    int64_t retention_ms;  /* how long ended day counters are kept */
    unsigned site_streams; /* 0, or: `busy` if the site has so many live reservations */
};

/* What makes a caller one subject. n = 0: the caller lacks it. */
#define SUBJECT_ID_MAX 47
struct subject_id {
    uint8_t n;
    uint8_t bytes[SUBJECT_ID_MAX];
};

/* `everyone` is always present and needs no id; `anonymous` is present if `anonymous`
 * is set. */
struct caller {
    struct subject_id id[SUBJECTS];
    bool anonymous;
};

/*
 * The caller's hashes that have been computed for this request, so that the writer need not
 * compute again what the check has. The ledger's own: zero at first.
 */
#define HASHES_KEPT 12 /* three windows of an address, two periods each, is the usual most */
struct hashes {
    unsigned n;
    bool live_known;
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
    DECISION_BUSY /* site_streams live reservations already */
};

struct answer {
    enum decision decision;
    struct verdict verdict;
    int64_t wait_ms;                         /* if refused */
    int64_t standing_wait_ms[STANDINGS_MAX]; /* more_ms of each standing as real time */
};

/* The right to one upstream call. Plain data; settle it exactly once. */
struct reservation {
    uint64_t id;
    int64_t deadline_boot_ms;
    struct amounts reserved;
    uint64_t tokens_in, tokens_out;
    int64_t day; /* the history's day that it was charged to */
    char model[LEDGER_MODEL_MAX];
};

/* What the call came to. */
enum settle_kind {
    SETTLE_USAGE,   /* real usage is known */
    SETTLE_UNKNOWN, /* no usage, caller gone, not believable: stays charged in full */
    SETTLE_NOTHING, /* the API was not asked: everything is given back, the call too */
    SETTLE_CALL     /* it was, but nothing can have been billed: only the call stays charged, or
                       a caller could ask an API that refuses us without end */
};
struct settlement {
    enum settle_kind kind;
    struct amounts real;            /* SETTLE_USAGE: calls 1, tokens, cost */
    uint64_t tokens_in, tokens_out; /* SETTLE_USAGE: for history and sanity */
    uint64_t input_over;            /* SETTLE_USAGE: input tokens above the priced worst case */
    uint64_t overhead_max;          /* bound of the model's extra overhead that this may set */
    bool upstream_error;            /* counted in the history */
};

/*
 * ERROR_NONE with *out filled, or an error: then nothing is admitted. A DECISION_ADMITTED from
 * ledger_check only means that ledger_reserve is worth asking.
 */
enum error ledger_check(struct ledger *l, const struct policy *p, struct demand *d,
                        struct answer *out);
enum error ledger_reserve(struct ledger *l, const struct policy *p, const struct demand *d,
                          struct answer *out, struct reservation *r);

/* Frees the concurrency place: the stream has ended. Before or after the settle. Idempotent. */
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

/* The model's extra per-call overhead in input tokens, learnt from `input_over`; 0 if none. */
enum error ledger_overhead(struct ledger *l, const char *model, uint64_t *tokens);

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
    FIGURE_INVALID,  /* 4xx: malformed requests */
    FIGURE_UPSTREAM, /* upstream errors */
    FIGURES
};
void ledger_figure(struct ledger *l, enum figure f);

/* For the owner. `paused` is a row that every decision reads. */
enum error ledger_set_paused(struct ledger *l, const struct policy *p, bool paused);

/* Timed work: folds the board, erases what has ended, advances the period keys. */
enum error ledger_maintain(struct ledger *l, const struct policy *p);

/*
 * Sets store time to the clock's on purpose (it may go back), starts fresh period keys, and
 * carries what `everyone` and `anonymous` have used into the windows that are open then.
 */
enum error ledger_clock_reset(struct ledger *l, const struct policy *p);

/* One day of the site. */
struct history_day {
    int64_t day; /* civil, days since 1970 */
    uint64_t admitted, settled, unknown, given_back;
    uint64_t tokens_in, tokens_out, cost_nano; /* settled, or reserved where usage is unknown */
    uint64_t figures[FIGURES];
};

/* Calls visit for each day from `first` on, oldest first, today's board included. */
enum error ledger_history(struct ledger *l, const struct policy *p, int64_t first,
                          void (*visit)(void *arg, const struct history_day *d), void *arg);

/* How a limit of a shared subject (everyone, anonymous) stands: `used` includes `reserved`. */
struct limit_use {
    uint64_t used, reserved;
    int64_t frees_ms; /* real milliseconds until some of it comes back; 0 if nothing is used */
};
enum error ledger_limit_use(struct ledger *l, const struct policy *p, unsigned limit,
                            struct limit_use *out);

struct ledger_state {
    bool paused;
    int64_t store_ms, clock_ms; /* store time ahead of the clock if larger */
    int64_t today;              /* civil day by the policy's zone */
    uint64_t open_streams;      /* live reservations */
    struct kv_usage usage;
    char zone[ZONE_TEXT_MAX];
    uint8_t uuid[16];
};
enum error ledger_state(struct ledger *l, const struct policy *p, struct ledger_state *out);

#endif
