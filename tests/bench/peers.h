/*
 * What the store is measured against: the same rows in bare LMDB, as many upserts in SQLite,
 * and a sliding-window script per limit in Redis. Each is filled with the same number of
 * visitors, so that their rows lie on as many pages. One handle a thread; all of them die on
 * any error.
 *
 * In bare LMDB one decision does the row work that the ledger does once it has run for a while,
 * and nothing else: of the visitor's day row, its row in the newest slot of a 10 s window, and
 * the site's day row, read, add, write; insert a reservation, delete the one that is settled;
 * delete the slot row that has ended meanwhile; and once a transaction rewrite history and
 * state. Keys and values have the sizes of the ledger's, and keys sort alike.
 */
#ifndef TESTS_BENCH_PEERS_H
#define TESTS_BENCH_PEERS_H

#include <hiredis/hiredis.h>
#include <lmdb.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define VISITORS    10000
#define FILL        30000 /* decisions before the first round: slot rows have begun to end */
#define MAP_BYTES   ((size_t)64 << 20)
#define UPSERTS     6 /* three counters, reservation, history, state */
#define SLOT_MS     1250
#define SLOT_LIVES  11250 /* a slot of a 10 s window counts so long after its begin */
#define PEER_PATH   512
#define HASH_BYTES  16
#define ROW_DAY     26 /* bytes of key */
#define ROW_SLOT    30
#define ROW_HOLD    17
#define ROW_HISTORY 9
#define ROW_STATE   2

static void die(const char *what)
{
    fprintf(stderr, "bench_store: %s\n", what);
    exit(1);
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9U;
    x = (x ^ x >> 27) * 0x94d049bb133111ebU;
    return x ^ x >> 31;
}

/* The visitor of the nth decision: the same for all, and in no order that a page cache likes.
 */
static unsigned visitor_of(uint64_t n)
{
    return (unsigned)(mix(n + 1) % VISITORS);
}

static void put_be(uint8_t *at, uint64_t v)
{
    for (unsigned i = 0; i < 8; i++)
        at[i] = (uint8_t)(v >> (56 - 8 * i));
}

/* ---- bare LMDB ---- */

static MDB_env *lmdb;
static MDB_dbi lmdb_rows;
static _Atomic uint64_t lmdb_serial; /* decisions so far, a millisecond each */

static void lmdb_open(const char *directory)
{
    MDB_txn *t;
    char path[PEER_PATH];

    snprintf(path, sizeof path, "%s/lmdb", directory);
    mkdir(path, 0700);
    if (mdb_env_create(&lmdb) || mdb_env_set_mapsize(lmdb, MAP_BYTES) ||
        mdb_env_open(lmdb, path, MDB_NOTLS, 0600) || mdb_txn_begin(lmdb, NULL, 0, &t) ||
        mdb_dbi_open(t, NULL, 0, &lmdb_rows) || mdb_txn_commit(t))
        die("lmdb");
}

/* table, an instant, then the visitor where the ledger has window, subject and hash. */
static MDB_val lmdb_key(uint8_t *bytes, size_t n, uint8_t table, uint64_t at, uint64_t who)
{
    memset(bytes, 0, n);
    bytes[0] = table;
    if (n > 9)
        put_be(bytes + 1, at);
    if (who > 0 && n >= ROW_DAY) {
        put_be(bytes + n - HASH_BYTES, mix(who));
        put_be(bytes + n - 8, who);
    }
    return (MDB_val){n, bytes};
}

static void lmdb_change(MDB_txn *t, MDB_val key, size_t n_value)
{
    uint8_t value[256] = {0};
    MDB_val v;

    if (mdb_get(t, lmdb_rows, &key, &v) == 0)
        memcpy(value, v.mv_data, v.mv_size);
    value[0]++;
    v = (MDB_val){n_value, value};
    if (mdb_put(t, lmdb_rows, &key, &v, 0))
        die("lmdb put");
}

static void lmdb_erase_front(MDB_txn *t, uint64_t now)
{
    uint8_t bytes[ROW_SLOT], limit[9] = {4};
    MDB_val key = lmdb_key(bytes, 9, 4, 0, 0), value;
    MDB_cursor *c;

    put_be(limit + 1, now);
    if (mdb_cursor_open(t, lmdb_rows, &c))
        die("lmdb cursor");
    if (mdb_cursor_get(c, &key, &value, MDB_SET_RANGE) == 0 &&
        memcmp(key.mv_data, limit, sizeof limit) <= 0 && mdb_cursor_del(c, 0))
        die("lmdb erase");
    mdb_cursor_close(c);
}

/* *hold: the reservation to settle (0: none), then the one made. */
static void lmdb_rows_of(MDB_txn *t, uint64_t *hold)
{
    uint64_t n = atomic_fetch_add(&lmdb_serial, 1) + 1, who = visitor_of(n) + 1U;
    uint8_t key[ROW_SLOT], reservation[205] = {0};
    MDB_val k, v = {sizeof reservation, reservation};

    lmdb_change(t, lmdb_key(key, ROW_DAY, 3, 1, who), 25);
    lmdb_change(t, lmdb_key(key, ROW_SLOT, 4, n / SLOT_MS * SLOT_MS + SLOT_LIVES, who), 25);
    lmdb_change(t, lmdb_key(key, ROW_DAY, 3, 1, 0), 25);
    k = lmdb_key(key, ROW_HOLD, 5, *hold, 0);
    if (*hold > 0 && mdb_del(t, lmdb_rows, &k, NULL))
        die("lmdb del");
    *hold = n;
    k = lmdb_key(key, ROW_HOLD, 5, n, 0);
    if (mdb_put(t, lmdb_rows, &k, &v, 0))
        die("lmdb put");
    lmdb_erase_front(t, n);
}

/* One transaction for `decisions` of them. */
static __attribute__((noinline)) void lmdb_decide(uint64_t *holds, unsigned decisions)
{
    uint8_t key[ROW_HISTORY];
    MDB_txn *t;

    if (mdb_txn_begin(lmdb, NULL, 0, &t))
        die("lmdb begin");
    for (unsigned i = 0; i < decisions; i++)
        lmdb_rows_of(t, &holds[i]);
    lmdb_change(t, lmdb_key(key, ROW_HISTORY, 2, 0, 0), 178);
    lmdb_change(t, lmdb_key(key, ROW_STATE, 1, 0, 0), 144);
    if (mdb_txn_commit(t))
        die("lmdb commit");
}

/* ---- SQLite ---- */

struct sqlite {
    sqlite3 *db;
    sqlite3_stmt *begin, *upsert, *commit;
};

static void sqlite_open(struct sqlite *s, const char *directory)
{
    static const char setup[] =
        "PRAGMA busy_timeout=60000; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
        "CREATE TABLE IF NOT EXISTS c(k BLOB PRIMARY KEY, n INTEGER) WITHOUT ROWID";
    static const char upsert[] =
        "INSERT INTO c VALUES(?,1) ON CONFLICT(k) DO UPDATE SET n=n+1 RETURNING n";
    char path[PEER_PATH];

    snprintf(path, sizeof path, "%s/sqlite", directory);
    if (sqlite3_open(path, &s->db) || sqlite3_exec(s->db, setup, NULL, NULL, NULL) ||
        sqlite3_prepare_v2(s->db, "BEGIN IMMEDIATE", -1, &s->begin, NULL) ||
        sqlite3_prepare_v2(s->db, upsert, -1, &s->upsert, NULL) ||
        sqlite3_prepare_v2(s->db, "COMMIT", -1, &s->commit, NULL))
        die("sqlite");
}

static void sqlite_close(struct sqlite *s)
{
    sqlite3_finalize(s->begin);
    sqlite3_finalize(s->upsert);
    sqlite3_finalize(s->commit);
    sqlite3_close(s->db);
}

static void sqlite_step(sqlite3_stmt *statement)
{
    int rc;

    while ((rc = sqlite3_step(statement)) == SQLITE_ROW)
        ;
    if (rc != SQLITE_DONE)
        die("sqlite step");
    sqlite3_reset(statement);
}

static void sqlite_upserts(struct sqlite *s, unsigned visitor)
{
    for (unsigned row = 0; row < UPSERTS; row++) {
        uint8_t key[ROW_SLOT];

        lmdb_key(key, sizeof key, (uint8_t)(row + 1), 1, row < 2 ? visitor + 1U : 0);
        sqlite3_bind_blob(s->upsert, 1, key, sizeof key, SQLITE_STATIC);
        sqlite_step(s->upsert);
    }
}

static __attribute__((noinline)) void sqlite_decide(struct sqlite *s, unsigned visitor)
{
    sqlite_step(s->begin);
    sqlite_upserts(s, visitor);
    sqlite_step(s->commit);
}

static void sqlite_fill(struct sqlite *s)
{
    sqlite_step(s->begin);
    for (unsigned i = 0; i < VISITORS; i++)
        sqlite_upserts(s, i);
    sqlite_step(s->commit);
}

/* ---- Redis ---- */

static const char *redis_socket; /* NULL: not measured */
static char redis_script[64];    /* its name there */

static int redis_pid;

static redisContext *redis_open(void)
{
    redisContext *r = redisConnectUnix(redis_socket);
    struct ucred peer;
    socklen_t n = sizeof peer;

    if (!r || r->err || getsockopt(r->fd, SOL_SOCKET, SO_PEERCRED, &peer, &n))
        die("redis");
    redis_pid = peer.pid;
    return r;
}

/* CPU time of the server's one thread that works. */
static uint64_t redis_cpu_ns(void)
{
    char path[64], text[64] = "";
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/schedstat", redis_pid);
    f = fopen(path, "r");
    if (!f || !fgets(text, sizeof text, f))
        die("schedstat");
    fclose(f);
    return strtoull(text, NULL, 10);
}

static void redis_load(redisContext *r)
{
    static const char source[] =
        "local now=tonumber(ARGV[1]) "
        "redis.call('ZREMRANGEBYSCORE',KEYS[1],0,now-tonumber(ARGV[2])) "
        "if redis.call('ZCARD',KEYS[1])<tonumber(ARGV[3]) then "
        "redis.call('ZADD',KEYS[1],now,ARGV[4]) redis.call('PEXPIRE',KEYS[1],ARGV[2]) "
        "return 1 end return 0";
    redisReply *reply = redisCommand(r, "SCRIPT LOAD %s", source);

    if (!reply || reply->type != REDIS_REPLY_STRING)
        die("redis script");
    snprintf(redis_script, sizeof redis_script, "%s", reply->str);
    freeReplyObject(reply);
}

#define REDIS_LIMITS 3 /* those with a window: visitor by day, visitor by 10 s, site by day */
#define REDIS_AHEAD                                                                            \
    600 /* commands under way while it is filled; a divisor of all there are                   \
         */

static void redis_ask(redisContext *r, unsigned visitor, unsigned limit)
{
    static const char *const lengths[REDIS_LIMITS] = {"86400000", "10000", "86400000"};
    static _Atomic uint64_t serial;
    unsigned long long n = atomic_fetch_add(&serial, 1);

    if (redisAppendCommand(r, "EVALSHA %s 1 %u:%u %llu %s 100000000 %llu", redis_script, limit,
                           limit == 2 ? 0 : visitor, 1000000 + n / REDIS_LIMITS, lengths[limit],
                           n) != REDIS_OK)
        die("redis command");
}

static void redis_answer(redisContext *r)
{
    void *answer = NULL;

    if (redisGetReply(r, &answer) != REDIS_OK || !answer)
        die("redis");
    redisReply *reply = answer;
    if (reply->type != REDIS_REPLY_INTEGER || reply->integer != 1)
        die("redis decision");
    freeReplyObject(reply);
}

/* One limit after the other: whether the next is to be charged depends on the one before. */
static void redis_decide(redisContext *r, unsigned visitor)
{
    for (unsigned i = 0; i < REDIS_LIMITS; i++) {
        redis_ask(r, visitor, i);
        redis_answer(r);
    }
}

static void redis_fill(redisContext *r)
{
    redis_load(r);
    for (unsigned i = 0; i < VISITORS * REDIS_LIMITS; i += REDIS_AHEAD) {
        for (unsigned k = i; k < i + REDIS_AHEAD; k++)
            redis_ask(r, k / REDIS_LIMITS, k % REDIS_LIMITS);
        for (unsigned k = 0; k < REDIS_AHEAD; k++)
            redis_answer(r);
    }
}

#endif
