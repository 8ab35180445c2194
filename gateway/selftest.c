/*
 * The self-test. Security: nothing is looked at, and no worker is kept, before the token has
 * been found good; of what arrived only an allow-list of the web server's variables is shown,
 * and of the caller's headers whether they are there.
 */
#include "gateway/selftest.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/access.h"
#include "gateway/caller.h"
#include "gateway/sink.h"
#include "platform/clock.h"
#include "platform/mac.h"

#define LABEL     "self-test"
#define BEGINNING "{\"self_test\":\""
#define MAC_TEXT  32 /* hexadecimal: 128 bits */
#define TOKEN_MAX 80
#define SLICE_MS  200 /* between looks at whether the process leaves */
#define VALUE_MAX 200 /* of a variable: longer ones are cut */

static const char *const names[SELFTEST_PROBES] = {
    [SELFTEST_SEEN] = "seen", [SELFTEST_STREAM] = "stream", [SELFTEST_QUIET] = "quiet"};

/* ---- the token ---- */

static void make_token(const struct ledger *l, enum selftest_probe probe, unsigned seconds,
                       int64_t expiry_s, char out[TOKEN_MAX])
{
    uint8_t mac[MAC_SIZE];
    int n = snprintf(out, TOKEN_MAX, "%s.%u.%" PRId64, names[probe], seconds, expiry_s);

    ledger_mac(l, LABEL, out, (size_t)n, mac);
    n += snprintf(out + n, TOKEN_MAX - (size_t)n, ".");
    for (int i = 0; i < MAC_TEXT / 2; i++)
        n += snprintf(out + n, TOKEN_MAX - (size_t)n, "%02x", mac[i]);
    mac_wipe(mac, sizeof(mac));
}

void selftest_body(const struct ledger *l, enum selftest_probe probe, unsigned seconds,
                   int64_t now_s, size_t n, char *out)
{
    static const char end[] = "\"}";
    char token[TOKEN_MAX];
    size_t begun;

    make_token(l, probe, seconds, now_s + SELFTEST_TOKEN_S, token);
    begun = (size_t)snprintf(out, n, BEGINNING "%s\",\"pad\":\"", token);
    memset(out + begun, ' ', n - begun);
    memcpy(out + n - (sizeof(end) - 1), end, sizeof(end));
}

/* A number and what must follow it; false: not there, or too large. */
static bool take_number(const char **at, char follows, int64_t most, int64_t *out)
{
    int64_t value = 0;
    const char *p = *at;

    for (; *p >= '0' && *p <= '9'; p++) {
        value = value * 10 + (*p - '0');
        if (value > most)
            return false;
    }
    if (p == *at || *p != follows)
        return false;
    *at = p + 1;
    *out = value;
    return true;
}

/* What is asked for, if `body` begins with a token that is good at this time. The token is made
 * anew from what it says and compared as a whole. */
static bool read_token(const struct ledger *l, const char *body, int64_t now_s,
                       enum selftest_probe *probe, unsigned *seconds)
{
    int64_t s, expiry_s;
    char good[TOKEN_MAX];
    const char *text, *at;
    unsigned p;

    if (strncmp(body, BEGINNING, sizeof(BEGINNING) - 1) != 0)
        return false;
    text = body + sizeof(BEGINNING) - 1;
    for (p = 0; p < SELFTEST_PROBES; p++)
        if (strncmp(text, names[p], strlen(names[p])) == 0)
            break;
    if (p == SELFTEST_PROBES || text[strlen(names[p])] != '.')
        return false;
    at = text + strlen(names[p]) + 1;
    if (!take_number(&at, '.', SELFTEST_SECONDS_MAX, &s) ||
        !take_number(&at, '.', now_s + SELFTEST_TOKEN_S, &expiry_s) || expiry_s < now_s)
        return false;
    make_token(l, (enum selftest_probe)p, (unsigned)s, expiry_s, good);
    if (strnlen(text, strlen(good)) < strlen(good) || !mac_equal(text, good, strlen(good)))
        return false;
    *probe = (enum selftest_probe)p;
    *seconds = (unsigned)s;
    return true;
}

/* The body's beginning as text, the rest of it read and dropped, so that the exchange can be
 * watched. False: not whole, or too large. */
static bool read_body(struct exchange *x, size_t most, char out[SELFTEST_BODY_MIN + 1],
                      size_t *total)
{
    char rest[1024] = "";
    size_t kept = 0;
    ssize_t n;

    *total = 0;
    do {
        bool full = kept == SELFTEST_BODY_MIN;

        n = x->ops->read(x, full ? rest : out + kept,
                         full ? sizeof(rest) : SELFTEST_BODY_MIN - kept);
        kept += n > 0 && !full ? (size_t)n : 0;
        *total += n > 0 ? (size_t)n : 0;
    } while (n > 0 && *total <= most);
    out[kept] = '\0';
    return n == 0;
}

/* ---- how it arrived ---- */

struct arrived {
    const struct exchange *x;
    const struct config *config;
    size_t body;
};

static void put_value(struct sink *s, const char *key, const char *value)
{
    char text[VALUE_MAX + 1] = "";
    size_t n = value != NULL ? strnlen(value, VALUE_MAX) : 0;

    for (size_t i = 0; i < n; i++) { /* JSON has no bytes that are not UTF-8 */
        text[i] = value[i];
        if (value[i] < ' ' || value[i] > '~')
            text[i] = '?';
    }
    text[n] = '\0';
    sink_format(s, ",\"%s\":", key);
    sink_string(s, text);
}

static void put_flag(struct sink *s, const char *key, bool on)
{
    sink_format(s, ",\"%s\":%s", key, on ? "true" : "false");
}

/* Of the caller's headers whether they are there; of the server's variables what they hold. */
static void put_variables(struct sink *s, const struct exchange *x)
{
    static const struct {
        const char *key, *variable;
        bool shown;
    } variables[] = {
        {"software", "SERVER_SOFTWARE", true},
        {"peer", "REMOTE_ADDR", true},
        {"peer_port", "REMOTE_PORT", true},
        {"script", "SCRIPT_NAME", true},
        {"info", "PATH_INFO", true},
        {"host", "HTTP_HOST", true},
        {"authorization", "HTTP_AUTHORIZATION", false},
        {"custom", "HTTP_X_PENNYGATE_SELF_TEST", false},
        {"proxy", "HTTP_PROXY", false},
        {"forwarded", "HTTP_FORWARDED", false},
        {"forwarded_for", "HTTP_X_FORWARDED_FOR", false},
    };
    const char *cookie = exchange_param(x, "HTTP_COOKIE");

    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        const char *value = exchange_param(x, variables[i].variable);

        if (variables[i].shown)
            put_value(s, variables[i].key, value);
        else
            put_flag(s, variables[i].key, value != NULL && value[0] != '\0');
    }
    put_flag(s, "cookie", cookie != NULL && strstr(cookie, SELFTEST_COOKIE "=") != NULL);
}

static void seen_body(struct sink *s, const struct reply *r, const void *what)
{
    const struct arrived *a = what;
    char text[INET6_ADDRSTRLEN] = "";
    struct asker asker = {0};

    (void)r;
    if (caller_address(a->x, a->config, &asker) == CODE_NONE)
        (void)inet_ntop(asker.address.family == 4 ? AF_INET : AF_INET6, asker.address.bytes,
                        text, sizeof(text));
    sink_format(s, "{\"body\":%zu", a->body);
    put_variables(s, a->x);
    put_value(s, "address", text);
    put_flag(s, "trusted", asker.trusted);
    put_flag(s, "fastcgi", !a->x->single);
    put_flag(s, "https", caller_https(a->x, &asker));
    put_flag(s, "page", r->access != NULL && r->access->present && !r->access->refused);
    sink_text(s, "}\n");
}

/* ---- streams ---- */

/* False if the caller has left or the process is leaving. */
static bool wait_ms(const struct selftest_job *job, int64_t ms)
{
    const struct exchange *x = job->reply->x;
    int64_t until = clock_monotonic_ms() + ms, left = ms;

    while (left > 0) {
        struct pollfd p = {.fd = x->watch_fd,
                           .events = (short)(x->watch_readable ? POLLIN | POLLRDHUP : 0)};

        (void)poll(&p, 1, (int)(left < SLICE_MS ? left : SLICE_MS));
        if (exchange_gone(x->watch_fd, x->watch_readable) || atomic_load(job->stopping))
            return false;
        left = until - clock_monotonic_ms();
    }
    return true;
}

static bool send_stream(const struct selftest_job *job, unsigned chunks, int64_t gap_ms)
{
    struct reply *r = job->reply;
    bool ok = reply_stream_start(r, NULL);

    for (unsigned i = 0; ok && i < chunks; i++)
        ok = reply_stream_filler(r) && wait_ms(job, gap_ms);
    return ok && reply_stream_done(r);
}

/* One at a time in this process, so that its other workers are there for callers. */
static enum code stream_once(const struct selftest_job *job, enum selftest_probe probe,
                             unsigned seconds, bool *gone)
{
    if (atomic_flag_test_and_set(job->running))
        return CODE_BUSY;
    if (probe == SELFTEST_STREAM)
        *gone = !send_stream(job, SELFTEST_CHUNKS, SELFTEST_GAP_MS);
    else
        *gone = !send_stream(job, 1, (int64_t)seconds * 1000);
    atomic_flag_clear(job->running);
    return CODE_NONE;
}

/* ---- all of it ---- */

enum code selftest_handle(const struct selftest_job *job, bool *gone)
{
    struct exchange *x = job->reply->x;
    char body[SELFTEST_BODY_MIN + 1];
    struct arrived a = {.x = x, .config = job->use->config};
    enum selftest_probe probe;
    unsigned seconds;

    if (job->use->code != CODE_NONE || atomic_load(job->stopping) ||
        !read_body(x, a.config->max_body_bytes, body, &a.body) ||
        !read_token(job->use->ledger, body, job->reply->created_s, &probe, &seconds))
        return CODE_NOT_FOUND;
    if (!x->ops->admitted(x, SELFTEST_ANSWER_MS))
        return CODE_TIMEOUT_REQUEST;
    if (probe != SELFTEST_SEEN)
        return stream_once(job, probe, seconds, gone);
    *gone = !reply_json(job->reply, seen_body, &a);
    return CODE_NONE;
}
