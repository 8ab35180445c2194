/*
 * The store's cost against floors and peers (tests/bench/peers.h), in interleaved rounds:
 *
 *   bench_store [-e DECISIONS] [-r ROUNDS] [-R REDIS-SOCKET] DIRECTORY
 *   bench_store -c CASE [-e DECISIONS] DIRECTORY     only that, once: for callgrind
 *
 * A decision is one reservation of the default limits and its settle, which rides on the next
 * transaction. `one` is one caller, who waits for each before the next; `all` are CALLERS at
 * once. Prints lines "case nanoseconds CPU-nanoseconds", medians of the rounds, per decision.
 * The stores stay in DIRECTORY, and a later run goes on with them.
 *
 * The ledger's clock goes on a millisecond with each decision, so that slots end and are erased
 * at the rate at which others are made, however fast or slow the machine is.
 */
#include <fcntl.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "store/ledger.h"
#include "tests/bench/peers.h"

#define CALLERS    32
#define ROUNDS_MAX 101
#define NO_LIMIT   100000000
#define DAY_MS     86400000

static uint64_t now_ns(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

/* ---- the ledger ---- */

static struct ledger *ledger;
static _Atomic uint64_t ledger_serial; /* decisions so far, a millisecond each */
static int64_t began_ms;               /* the wall clock of the first one */

static enum error bench_clock(struct clock_now *out)
{
    enum error e = clock_read(out);
    int64_t ms = (int64_t)atomic_load(&ledger_serial);

    if (began_ms == 0) /* an hour of tomorrow, so that no midnight comes between */
        began_ms = (out->wall_ms / DAY_MS + 1) * DAY_MS + DAY_MS / 24;
    out->wall_ms = began_ms + ms;
    out->boot_ms = 1000000 + ms;
    return e;
}

static struct limit limit(const char *name, enum subject s, enum unit u, const char *window,
                          uint64_t max)
{
    struct limit l = {.subject = s, .unit = u, .max = max};

    snprintf(l.name, sizeof l.name, "%s", name);
    if (window && !window_parse(window, &l.window))
        die("window");
    return l;
}

#define LIMITS 4
static struct limit wide[LIMITS], narrow[LIMITS];
static const struct policy admits = {
    .limits = wide, .n_limits = LIMITS, .retention_ms = DAY_MS};
static const struct policy refuses = {
    .limits = narrow, .n_limits = LIMITS, .retention_ms = DAY_MS};

static void set_limits(void)
{
    wide[0] = limit("visitor-day", SUBJECT_ADDRESS, UNIT_CALLS, "day", NO_LIMIT);
    wide[1] = limit("visitor-burst", SUBJECT_ADDRESS, UNIT_CALLS, "10s", NO_LIMIT);
    wide[2] = limit("visitor-at-once", SUBJECT_ADDRESS, UNIT_CONCURRENT, NULL, NO_LIMIT);
    wide[3] = limit("site-day", SUBJECT_EVERYONE, UNIT_CALLS, "day", NO_LIMIT);
    memcpy(narrow, wide, sizeof narrow);
    narrow[3].max = 1; /* used up long before */
}

static void ledger_begin(const char *directory)
{
    struct ledger_options o = {.map_bytes = MAP_BYTES, .clock = bench_clock};
    char path[PEER_PATH];

    set_limits();
    snprintf(path, sizeof path, "%s/ledger", directory);
    o.store = path;
    if (mkdir(path, 0700) == 0 && ledger_create(&o, "UTC0") != ERROR_NONE)
        die("ledger create");
    if (ledger_open(&o, false, &ledger) != ERROR_NONE)
        die("ledger open");
}

static struct demand demand_of(unsigned visitor)
{
    struct demand d = {.weights = {{1, 1000, 1000}},
                       .tokens_in = 700,
                       .tokens_out = 300,
                       .hold_ms = 60000,
                       .model = "demo"};

    d.caller.anonymous = true;
    d.caller.id[SUBJECT_ADDRESS].n = 5;
    memcpy(d.caller.id[SUBJECT_ADDRESS].bytes, &visitor, sizeof visitor);
    d.caller.id[SUBJECT_ADDRESS].bytes[4] = 4;
    return d;
}

static void decide(void)
{
    static const struct settlement unknown = {.kind = SETTLE_UNKNOWN};
    struct demand d = demand_of(visitor_of(atomic_fetch_add(&ledger_serial, 1) + 1));
    struct reservation r;
    struct answer a;

    if (ledger_reserve(ledger, &admits, &d, &a, &r) != ERROR_NONE ||
        a.decision != DECISION_ADMITTED)
        die("reserve");
    if (ledger_settle(ledger, &r, &unknown, false) != ERROR_NONE)
        die("settle");
}

static void refuse(void)
{
    static _Atomic uint64_t serial;
    struct demand d = demand_of(visitor_of(atomic_fetch_add(&serial, 1)));
    struct answer a;

    if (ledger_check(ledger, &refuses, &d, &a) != ERROR_NONE || a.decision != DECISION_REFUSED)
        die("check");
}

/* ---- cases: what one caller does `n` times ---- */

static const char *directory;

static void run_decision(unsigned n)
{
    while (n-- > 0)
        decide();
}

static void run_check(unsigned n)
{
    while (n-- > 0)
        refuse();
}

static void run_lmdb(unsigned n)
{
    uint64_t hold = 0;

    while (n-- > 0)
        lmdb_decide(&hold, 1);
}

/* The floor of all floors: nobody waits for anybody. */
static void run_lmdb_batch(unsigned n)
{
    uint64_t holds[CALLERS] = {0};

    for (unsigned i = 0; i < n / CALLERS; i++)
        lmdb_decide(holds, CALLERS);
}

static void run_sqlite(unsigned n)
{
    static _Atomic uint64_t serial;
    struct sqlite s;

    sqlite_open(&s, directory);
    while (n-- > 0)
        sqlite_decide(&s, visitor_of(atomic_fetch_add(&serial, 1)));
    sqlite_close(&s);
}

static void run_redis(unsigned n)
{
    static _Atomic uint64_t serial;
    redisContext *r = redis_open();

    while (n-- > 0)
        redis_decide(r, visitor_of(atomic_fetch_add(&serial, 1)));
    redisFree(r);
}

static const struct bench_case {
    const char *name;
    void (*run)(unsigned n);
    unsigned callers;
    unsigned share; /* of the decisions asked for one in so many, where one takes long */
} cases[] = {
    {"decision_one", run_decision, 1, 1},       {"lmdb_one", run_lmdb, 1, 1},
    {"sqlite_one", run_sqlite, 1, 2},           {"redis_one", run_redis, 1, 2},
    {"decision_all", run_decision, CALLERS, 1}, {"lmdb_all", run_lmdb, CALLERS, 1},
    {"sqlite_all", run_sqlite, CALLERS, 4},     {"redis_all", run_redis, CALLERS, 1},
    {"lmdb_batch", run_lmdb_batch, 1, 1},       {"check_one", run_check, 1, 1},
    {"check_all", run_check, CALLERS, 1},
};
#define CASES (sizeof cases / sizeof *cases)

/* ---- rounds ---- */

struct crew {
    const struct bench_case *which;
    unsigned each;
    pthread_barrier_t ready;
    uint64_t began[CALLERS], ended[CALLERS]; /* by themselves: whoever waits wakes up late */
    atomic_uint next;
};

static void *work(void *arg)
{
    struct crew *c = arg;
    unsigned me = atomic_fetch_add(&c->next, 1);

    pthread_barrier_wait(&c->ready);
    c->began[me] = now_ns(CLOCK_MONOTONIC);
    c->which->run(c->each);
    c->ended[me] = now_ns(CLOCK_MONOTONIC);
    return NULL;
}

/* Nanoseconds per decision. */
struct took {
    uint64_t time; /* from the first caller's begin to the last one's end */
    uint64_t cpu;  /* of all threads, and of the Redis server */
};

static uint64_t cpu_ns(void)
{
    return now_ns(CLOCK_PROCESS_CPUTIME_ID) + (redis_pid > 0 ? redis_cpu_ns() : 0);
}

static struct took run_case(const struct bench_case *which, unsigned decisions)
{
    pthread_t thread[CALLERS];
    struct crew c = {.which = which, .each = decisions / which->share / which->callers};
    uint64_t began = UINT64_MAX, ended = 0, cpu = cpu_ns();
    unsigned made = c.each * which->callers;

    pthread_barrier_init(&c.ready, NULL, which->callers);
    for (unsigned i = 0; i < which->callers; i++)
        if (pthread_create(&thread[i], NULL, work, &c))
            die("thread");
    for (unsigned i = 0; i < which->callers; i++)
        pthread_join(thread[i], NULL);
    for (unsigned i = 0; i < which->callers; i++) {
        began = c.began[i] < began ? c.began[i] : began;
        ended = c.ended[i] > ended ? c.ended[i] : ended;
    }
    pthread_barrier_destroy(&c.ready);
    return (struct took){(ended - began) / made, (cpu_ns() - cpu) / made};
}

static void fill(void)
{
    static const struct bench_case ledger_fill = {"", run_decision, CALLERS, 1};
    struct sqlite s;

    run_case(&ledger_fill, FILL);
    run_lmdb_batch(FILL);
    sqlite_open(&s, directory);
    sqlite_fill(&s);
    sqlite_close(&s);
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static unsigned long long median(uint64_t *of, unsigned n)
{
    qsort(of, n, sizeof *of, compare);
    return of[n / 2];
}

static void run_rounds(unsigned rounds, unsigned decisions)
{
    static uint64_t time[CASES][ROUNDS_MAX], cpu[CASES][ROUNDS_MAX];

    for (unsigned round = 0; round < rounds; round++)
        for (unsigned c = 0; c < CASES; c++)
            if (redis_socket || cases[c].run != run_redis) {
                struct took t = run_case(&cases[c], decisions);

                time[c][round] = t.time;
                cpu[c][round] = t.cpu;
            }
    for (unsigned c = 0; c < CASES; c++)
        if (time[c][0] > 0)
            printf("%s %llu %llu\n", cases[c].name, median(time[c], rounds),
                   median(cpu[c], rounds));
}

static void run_named(const char *name, unsigned decisions)
{
    for (unsigned c = 0; c < CASES; c++)
        if (strcmp(cases[c].name, name) == 0) {
            run_case(&cases[c], decisions * cases[c].share);
            return;
        }
    die("no such case");
}

/* How far the stores are, for a later run. False: there are none. */
static bool resume(void)
{
    uint64_t at[3];
    int fd = open("position", O_RDONLY);
    bool there = fd >= 0 && read(fd, at, sizeof at) == (ssize_t)sizeof at;

    if (fd >= 0)
        close(fd);
    if (!there)
        return false;
    atomic_store(&ledger_serial, at[0]);
    atomic_store(&lmdb_serial, at[1]);
    began_ms = (int64_t)at[2];
    return true;
}

static void note(void)
{
    const uint64_t at[3] = {atomic_load(&ledger_serial), atomic_load(&lmdb_serial),
                            (uint64_t)began_ms};
    int fd = open("position", O_WRONLY | O_CREAT | O_TRUNC, 0600);

    if (fd < 0 || write(fd, at, sizeof at) != (ssize_t)sizeof at || close(fd))
        die("position");
}

int main(int argc, char **argv)
{
    unsigned decisions = 640, rounds = 15;
    const char *only = NULL;
    int option;

    while ((option = getopt(argc, argv, "c:e:r:R:")) != -1) {
        if (option == 'c')
            only = optarg;
        else if (option == 'e')
            decisions = (unsigned)strtoul(optarg, NULL, 10);
        else if (option == 'r')
            rounds = (unsigned)strtoul(optarg, NULL, 10);
        else if (option == 'R')
            redis_socket = optarg;
        else
            return 2;
    }
    if (optind + 1 != argc || chdir(argv[optind]) || rounds > ROUNDS_MAX)
        die("usage: bench_store [-c CASE] [-e DECISIONS] [-r ROUNDS] [-R SOCKET] DIRECTORY");
    directory = ".";
    bool filled = resume();
    ledger_begin(directory);
    lmdb_open(directory);
    if (!filled)
        fill();
    if (redis_socket) {
        redisContext *r = redis_open();

        redis_fill(r);
        redisFree(r);
    }
    if (only)
        run_named(only, decisions);
    else
        run_rounds(rounds, decisions);
    if (!ledger_close(ledger, 5000))
        die("close");
    note();
    return 0;
}
