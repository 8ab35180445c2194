/*
 * The ledger's inside, shared by its files and by nobody else:
 *   ledger.c  opening, closing, checking the files, asking from a read transaction
 *   view.c    one request against the rows: what is counted, where, and the verdict
 *   batch.c   one write transaction over the operations that wait; with it (store/batch.h)
 *             charge.c (reserve, settle), upkeep.c (history, board, ended rows, period keys),
 *             reset.c (clock reset), keys.c (keys that the owner issued), forgive.c (a
 *             subject's quota given back), breaker.c (models that fail), alert.c (what the
 *             owner is told), told.c (what of it was last) and password.c (of the owner's pages)
 *   writer.c  the one thread that writes, and its queue
 *   export.c  all of it as text; import.c makes a store of that
 *   report.c  figures for the owner; dry.c those of dry runs; totals.c of all days; top.c the
 *             callers of today; use.c how a shared limit stands
 *   lease.c   how far everyone and anonymous may be charged: the file on flash; lease_rows.c the
 *             same in transactions; copy.c all rows on flash, copying.c when and by whom they
 *             are written there; liverows.c and restore.c how live rows are made of both
 *   livecount.c  counters on the board that are never rows; logline.c bounds the log by one
 */
#ifndef STORE_LEDGER_PARTS_H
#define STORE_LEDGER_PARTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "platform/board.h"
#include "platform/live.h"
#include "store/lease.h"
#include "store/ledger.h"
#include "store/period.h"
#include "store/record.h"

/* One request against the rows of one transaction. 16 KB: never on a worker's stack, where
 * every stream would go on holding it. */
struct view {
    const struct limit *limits; /* that hold for it: the policy's, or `own` */
    unsigned n_limits;
    bool no_key;                       /* the key that was shown is none of the site's */
    struct limit own[VIEW_LIMITS_MAX]; /* the policy's with those of the caller's key */
    struct counter counter[VIEW_LIMITS_MAX];
    struct row_key row[VIEW_LIMITS_MAX]; /* of each counter's newest slot */
    unsigned n;
    uint32_t present;
    int64_t store_ms;
};

/* Who was asked about last, and that caller's hashes: who is refused mostly comes again at once.
 * They are worth no more than the keys in the cache beside them, and of no use once the file of
 * the period keys has changed. */
struct asked {
    struct file_stamp periods;
    struct caller caller;
    struct hashes hashes;
};

/* A read transaction, the keys derived in it and its view, kept for reuse. */
struct reader {
    struct reader *next;
    struct kv_txn *txn;
    struct view view;
    struct asked asked;
    struct period_cache cache[PERIOD_WINDOWS];
};

enum op_kind {
    OP_RESERVE,
    OP_SETTLE,
    OP_REPLACE,
    OP_PAUSE, /* order: bool */
    OP_MAINTAIN,
    OP_CLOCK_RESET,
    OP_KEY_ADD,       /* order: struct key_order */
    OP_KEY_REVOKE,    /* order: char name[LIMIT_NAME_MAX] */
    OP_FORGIVE,       /* order: struct forgive_order */
    OP_FORGIVE_MODEL, /* order: char alias[LEDGER_MODEL_MAX] */
    OP_ALERT_TAKE,    /* order: struct alert_order */
    OP_ALERT_DONE,    /* order: struct alert_order */
    OP_PASSWORD,      /* order: struct password_order */
    OP_LEASE_CLOSE,
    OP_LEASE_PRUNE /* order: uint64_t, the first serial that the copy does not contain */
};

/*
 * One thing to be done by the writer. Lives on the heap: a waiter that has given up leaves it
 * to the writer. Nothing in it is borrowed.
 */
struct op {
    struct op *next;
    enum op_kind kind;
    atomic_int holders; /* who may still touch it: the writer, and who waits */
    bool taken;         /* the writer has it */
    bool abandoned;     /* nobody waits for it any more */
    bool done;
    bool charged;   /* OP_RESERVE: a reservation was written and a place is held */
    bool waited;    /* somebody waits; otherwise the writer frees it */
    int64_t due_ms; /* monotonic: not before this (settles ride on others' commits) */
    pthread_cond_t finished;
    enum error error;

    struct limit limits[LIMITS_MAX];
    struct policy policy;
    struct demand demand;
    struct answer answer;
    struct reservation reservation;
    struct reservation replacement; /* OP_REPLACE: what has come of `reservation` */
    struct settlement settlement;
    void *order; /* what an order of the owner is about, by its kind; freed with the op */
};

/* What lies in the store's directory; with a lease the first two do in RUN/store. */
#define FILE_DATA    "data.mdb"
#define FILE_LOCK    "lock.mdb"
#define FILE_PERIODS "periods"
#define FILE_COPY    "copy"
#define FILE_LEASE   "lease"
#define FILE_MAKING  "making" /* as long as a store is not made to the end (create.c) */

/* The thread that copies the rows to flash: at most one at a time, and none most of it. */
struct copier {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    pthread_t thread;
    bool running, to_join;
};

/* The queue and its thread. */
struct writer {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct op *first, **last;
    pthread_t thread;
    atomic_bool started; /* never undone; set with the lock held */
    bool stopping, exited;
    int64_t asleep_until; /* monotonic: 0 while it is awake and will look at the queue itself */
    int64_t maintain_ms;  /* monotonic: when timed work is due */
    pthread_cond_t gone;
};

struct ledger {
    struct ledger_options options; /* store and run are owned copies */
    char *run;
    char *rows; /* the directory of data.mdb: STORE, with a lease RUN/store */
    char *path_periods, *path_mark, *path_live, *path_board;
    char *path_walked;
    char *path_lease, *path_copy;  /* on flash */
    char *path_copied;             /* beside the live rows: the note of the last copy */
    atomic_bool wants_copy;        /* the lease's file is full */
    uint8_t rows_name[LEASE_ROWS]; /* the live rows that kv is of */
    struct file_stamp looked_at;   /* the lease's file, when they counted on; the writer's */
    struct copier copier;
    struct mac_key live_key; /* of this boot: places do not outlive it */
    uint8_t display_key[MAC_SIZE];
    struct schema schema;
    struct zone zone;
    bool older; /* the rows are of an older program's version: only while opening */
    struct kv *kv;
    struct live *live;
    struct board *board;
    int mark_fd;
    struct file_id mark_id, live_id, board_id;

    pthread_rwlock_t periods_lock;
    struct periods periods;
    struct file_stamp periods_stamp;

    pthread_mutex_t readers_lock;
    struct reader *readers;

    struct writer writer;
    struct period_cache writer_cache[PERIOD_WINDOWS];
    struct view writer_view;
    unsigned rows_added; /* since ended rows were last looked for; the writer's */
    int64_t erase_ms;    /* monotonic: when they are looked for again at the latest */
    pthread_mutex_t timed_lock;
    struct policy timed; /* the policy last seen, for timed work and settles; its limits are */
    struct limit watched[LIMITS_MAX]; /* those that alerts are about, none if these are off */
    atomic_uint alerts;               /* queued by this process */
    atomic_int broken; /* an enum error that only closing and opening again can mend */
};

#define LIVE_HOLD_MAX_MS                                                                       \
    (60LL * 60 * 1000) /* no call lasts an hour: total-timeout ends at 15 min */
#define HISTORY_DAYS 400

/* What a view is computed in. */
struct view_context {
    struct ledger *ledger;
    struct kv_txn *txn;
    const struct state *state;
    const struct clock_now *now;
    struct period_cache *cache; /* PERIOD_WINDOWS of them */
    struct view *view;
    struct asked *asked; /* NULL: in a write transaction */
};

/* The zone by which the policy names days. */
const struct zone *view_zone(const struct ledger *l, const struct policy *p);

/* Whether alerts are about the limit: one of everyone or anonymous that sums and can refuse. */
bool alert_watches(const struct limit *l);

/* The window's key, or NULL: no row was ever written under it. ERROR_PERIODS as view_build. */
enum error view_window(const struct view_context *c, struct window w,
                       const struct period_entry **out);

/* The hash of the demand's subject in a period of the window, computed once a request. False as
 * periods_hash. */
bool view_hash(const struct view_context *c, const struct period_entry *e, int64_t period,
               enum subject s, struct demand *d, uint8_t out[SUBJECT_HASH]);

/* The hashes under which the subjects of the mask hold places, each computed once a request;
 * shared subjects are not hashed. */
void view_hash_places(const struct view_context *c, struct demand *d, uint32_t subjects);

/*
 * Finds the key that was shown, and reads every counter that the limits that hold for the
 * demand need into c->view, where the policy's limits are borrowed. ERROR_PERIODS if the key of
 * a window is missing or not the store's (the caller reads the file again and tries once more).
 */
enum error view_build(const struct view_context *c, const struct policy *p, struct demand *d);

/* The verdict over c->view (indices of limits are the view's), live reservations included, as
 * an answer with real waits. */
enum error view_decide(const struct view_context *c, const struct policy *p,
                       const struct demand *d, struct answer *out);

/* Visits the reservations that have not passed their deadline, of this boot. */
typedef enum error hold_visit(void *arg, uint64_t id, const struct hold_places *p,
                              const struct kv_slice *value);
enum error view_holds(const struct view_context *c, hold_visit *visit, void *arg);

/* How a limit of a shared subject stands, in its windows of now (use.c). */
struct use {
    const struct limit *limit;  /* borrowed */
    uint64_t charged, reserved; /* charged includes reserved */
    uint64_t released;          /* of the max, now: all of it unless it is paced */
    int64_t frees_ms; /* store time: when some of it comes back; now: nothing is used */
    int64_t ends_ms;  /* store time: when what is charged now counts no more */
    unsigned n;
    struct row_key row[WINDOW_SLOTS_MAX];
};
/* All but `reserved`, and nothing for concurrent. */
enum error use_charged(const struct view_context *c, const struct policy *p,
                       const struct limit *l, struct use *out);
/* What open reservations have charged of it; for concurrent both figures. Looks at each. */
enum error use_reserved(const struct view_context *c, struct use *u);

/* ledger.c: a ledger with its options and paths, of which nothing is open yet. ledger_free does
 * not end threads. */
enum error ledger_new(const struct ledger_options *o, struct ledger **out);
void ledger_free(struct ledger *l); /* takes NULL */
/* ERROR_STORE_DURABILITY: what lies in the store's directory is of the other durability. */
enum error ledger_check_kind(const struct ledger *l);
/* That it is there and ours alone; `make`: makes one that is missing. ERROR_RUN_MISSING,
 * ERROR_OWNER, ERROR_SYSTEM. */
enum error ledger_run_directory(const char *run, bool make);
/* Opens l->kv. As kv_open. */
enum error ledger_open_rows(struct ledger *l);

/* create.c: one that can be opened; takes the note away that it is being made. */
void ledger_is_made(const struct ledger *l);

/* What a store's schema and its secret have in common. */
void ledger_secret_check(const uint8_t secret[SECRET_SIZE], const uint8_t uuid[16],
                         uint8_t out[MAC_SIZE]);

/* A schema's value of our version, made with this secret. ERROR_STORE_SECRET; otherwise as
 * record_schema_read. */
enum error ledger_schema(const struct kv_slice *value, const uint8_t secret[SECRET_SIZE],
                         struct schema *out);

/* A call whose outcome was not told: it stays charged, and goes into its day as unknown. */
void history_unknown(struct history_day *day, const struct hold *h);

/* The state row. ERROR_STORE_INVALID if it is missing or not ours. */
enum error ledger_read_state(struct kv_txn *txn, struct state *out);

/* The key with that hash, in any transaction. ERROR_NOT_FOUND, out untouched: there is none. */
enum error key_find(struct kv_txn *t, const uint8_t hash[KEY_HASH], struct ledger_key *out);

/* alert.c: how many alerts wait to be delivered */
enum error alert_count(struct kv_txn *t, unsigned *n);

/* For how long the model's breaker refuses (0: it does not), and its failures in a row. */
enum error breaker_wait(const struct view_context *c, const char *model, int64_t *wait_ms,
                        unsigned *failures);
/* An admission becomes DECISION_BREAKER if the model's breaker refuses it; without a model
 * there is none. */
enum error breaker_decide(const struct view_context *c, const char *model, struct answer *out);

/* Visits the issued keys; the cursor stands on the row (rows.h says what visit returns). */
struct kv_cursor;
typedef enum error key_visit(void *arg, struct kv_cursor *c, const struct ledger_key *k);
enum error keys_each(struct kv_txn *t, key_visit *visit, void *arg);

/*
 * upkeep.c: how far a figure of the board has come since `folded` of it was; 0 if by more than
 * FOLD_MOST. Somebody has written over the board then, or it is a damaged one: history is for good,
 * and what is no figure must not get into it. A CGI site that refuses 200 requests a second and
 * admits none, so that nothing is folded, comes so far in two weeks without `maintain`.
 */
#define FOLD_MOST (1U << 28)
uint32_t figure_since(uint32_t now, uint32_t folded);

/* report.c: what is on the board and not in the rows of this transaction. */
void ledger_unfolded(const struct view_context *c, uint32_t out[FIGURES]);
/* report.c: whoever has this hash of the calendar day, as log and dashboard show it. */
void ledger_name(const struct ledger *l, const uint8_t hash[SUBJECT_HASH], char out[17]);

/* livecount.c: notes on a board that this process has made since when it counts. */
void livecount_begin(struct ledger *l, const struct clock_now *now);

/* What ledger_verify asks of the files, without the period keys, which a write transaction looks
 * at under its lock. */
enum error ledger_verify_files(struct ledger *l);

/* Reads the period file again if it has changed. */
enum error ledger_periods_refresh(struct ledger *l, bool force);
/* The keys as last read: other threads read the file again at any moment. */
void ledger_periods_copy(struct ledger *l, struct periods *out);

/* Runs `fn` in a read transaction with everything a view needs, the period keys locked. Tries
 * once more with the period file read again on ERROR_PERIODS. */
typedef enum error reading(void *arg, const struct view_context *c);
enum error ledger_reading(struct ledger *l, reading *fn, void *arg);

/* Has the writer carry out what order[0..n) says; it comes back as the writer leaves it. */
enum error ledger_order(struct ledger *l, const struct policy *p, enum op_kind kind,
                        void *order, size_t n);

/* A new operation under the policy last seen: zone, retention, alerts and watched limits. */
struct op *ledger_timed_op(struct ledger *l, enum op_kind kind);

/*
 * lease_rows.c: charges each segment of the file that the copy, which has this row (NULL: none),
 * does not contain as a whole to everyone and anonymous, in the windows of these codes. The rows of
 * the copy are in `t`. Its store time was copied_ms, and is store_ms from now on: not before any
 * segment's from_ms. *charged: how many segments.
 */
struct restore_time {
    const struct zone *zone; /* the store's */
    int64_t copied_ms, store_ms;
};
enum error lease_restore(struct kv_txn *t, const struct lease *l,
                         const struct lease_row *in_copy, const struct restore_time *when,
                         const uint32_t *codes, unsigned n_codes, unsigned *charged);

/*
 * lease_rows.c: whether the rows are those that were restored last, looked up again only if the
 * file is another one than the last time. ERROR_STORE_REPLACED: they are not, and are forsaken
 * (store/liverows.h); ERROR_STORE_INVALID; otherwise as lease_read.
 */
enum error lease_look(struct ledger *l, struct kv_txn *t);

/* copying.c: the first copy, of what the transaction sees, and an empty lease, for a store that is
 * just made. ERROR_STORE_IO; otherwise as copy_write and lease_write. */
enum error copy_first(const struct ledger *l, const uint8_t uuid[16], struct kv_txn *t);
/* Of the writer's thread, which cannot wait for itself. As ledger_copy. */
enum error copy_by_batch(struct ledger *l);
/* Timed work: begins a copy in a thread of its own if one is due. */
void copier_begin_due(struct ledger *l);
void copier_init(struct copier *c);
/* Waits for it until the instant by the monotonic clock; whether it has ended. */
bool copier_wait(struct ledger *l, int64_t until_ms);

/* Marks the ledger as one that must be closed and opened again. */
void ledger_break(struct ledger *l, enum error e);

/* Runs the operations of one write transaction (the writer's thread only): take() hands over
 * those that wait once the lock is held; give() gets the list back with results. */
void batch_run(struct ledger *l, struct op *(*take)(void *arg),
               void (*give)(void *arg, struct op *list), void *arg);
/* Carries out one operation that is in no queue, in a transaction of its own; its result, which
 * is also its error. */
enum error batch_one(struct ledger *l, struct op *op);
/* Whether timed work has anything to do. */
bool batch_wanted(struct ledger *l, const struct policy *p);

void writer_init(struct writer *w);
/* For waits that end at an instant of the monotonic clock. */
void writer_cond_init(pthread_cond_t *c);
/* A thread that no signal interrupts; pthread_create's result. */
int writer_thread(pthread_t *out, size_t stack, void *(*run)(void *), void *arg);
/* Queues and waits up to LEDGER_WAIT_MS; takes the op over: on ERROR_NONE its results are in it
 * and the caller frees it by op_free; otherwise it is gone. */
enum error writer_do(struct ledger *l, struct op *op);
/* Queues without waiting. */
enum error writer_post(struct ledger *l, struct op *op);
/* Starts the writer's thread, if it does not run yet, for timed work. */
void writer_begin(struct ledger *l);
bool writer_running(const struct ledger *l);
bool writer_stop(struct ledger *l, int64_t bound_ms);
struct op *op_new(enum op_kind kind, const struct policy *p);
/* Copies order[0..n) into it. False: no memory. */
bool op_order(struct op *op, const void *order, size_t n);
void op_free(struct op *op);

#endif
