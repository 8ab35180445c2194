/*
 * check --through URL: asks the running gateway by way of its web server and says how that
 * treats what passes. Spends nothing: it asks for the self-test (gateway/selftest.h) alone.
 * Security: the other side is whoever answers at that URL: what is read of it is bounded in size
 * and time, nothing of it is shown but printable words of its self-test and the Server header, and
 * it learns nothing but a token of a minute's life that opens nothing else. No redirect is
 * followed.
 */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "gateway/cli.h"
#include "gateway/jsontext.h"
#include "gateway/progress.h"
#include "gateway/selftest.h"
#include "gateway/through.h"
#include "gateway/transfer.h"
#include "platform/clock.h"

#define URL_MAX      512
#define SILENCE_S    20 /* tried if nothing else is asked for: twice what most proxies allow */
#define CONNECT_MS   10000L
#define PLAIN_MS     15000 /* for an answer that is made at once */
#define STATUS_OK    200
#define STATUS_MOVED 300
#define STATUS_ERROR 400
#define NOT_FOUND    404

/* One request and what came of it. */
struct ask {
    char url[URL_MAX + 32]; /* and a path of ours */
    const char *body;       /* NULL: GET */
    bool stream;            /* it may come compressed */
    size_t n_body;
    int64_t bound_ms;
    /* filled */
    int status;                                    /* 0: none came */
    const char *trouble;                           /* of the transfer, or NULL; static text */
    int64_t begun_ms, first_ms, last_ms, ended_ms; /* first_ms -1: no byte came */
    char server[THROUGH_WORD_MAX], encoding[32];
    char own_address[64], own_port[8];
    char text[THROUGH_JSON_MAX + 1]; /* of the answer its first bytes */
    size_t n_text;
};

/* ---- what libcurl calls ---- */

/* The header's value, printable, if the line is of that name. */
static void take_header(const char *line, size_t n, const char *name, char *out, size_t room)
{
    size_t at = strlen(name), length = 0;

    if (n <= at || strncasecmp(line, name, at) != 0 || line[at] != ':')
        return;
    for (at++; at < n && line[at] == ' '; at++)
        ;
    for (; at < n && line[at] >= ' ' && line[at] <= '~' && length < room - 1; at++)
        out[length++] = line[at];
    out[length] = '\0';
}

static size_t on_header(char *line, size_t size, size_t n, void *arg)
{
    struct ask *a = arg;

    take_header(line, size * n, "Server", a->server, sizeof(a->server));
    take_header(line, size * n, "Content-Encoding", a->encoding, sizeof(a->encoding));
    return size * n;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *arg)
{
    struct ask *a = arg;
    size_t room = THROUGH_JSON_MAX - a->n_text, taken = size * n < room ? size * n : room;

    a->last_ms = clock_monotonic_ms() - a->begun_ms;
    if (a->first_ms < 0)
        a->first_ms = a->last_ms;
    memcpy(a->text + a->n_text, bytes, taken);
    a->n_text += taken;
    a->text[a->n_text] = '\0';
    return taken; /* nothing of ours is longer */
}

/* ---- asking ---- */

#define SET(option, value) (libcurl.easy_setopt(easy, option, value) == CURLE_OK)

static bool add_headers(struct curl_slist **headers, const char *origin, bool stream)
{
    static const char *const lines[] = {"Content-Type: application/json",
                                        "Expect:",
                                        "Authorization: Bearer self-test",
                                        "Cookie: " SELFTEST_COOKIE "=1",
                                        SELFTEST_HEADER ": 1",
                                        "Proxy: http://127.0.0.1:9"};
    bool ok = transfer_add_header(headers, origin) &&
              (!stream || transfer_add_header(headers, "Accept-Encoding: gzip, deflate"));

    for (size_t i = 0; ok && i < sizeof(lines) / sizeof(lines[0]); i++)
        ok = transfer_add_header(headers, lines[i]);
    return ok;
}

static bool set(CURL *easy, struct ask *a, struct curl_slist *headers)
{
    bool method = a->body == NULL ? SET(CURLOPT_HTTPGET, 1L)
                                  : SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)a->n_body) &&
                                        SET(CURLOPT_POSTFIELDS, a->body);

    return method && SET(CURLOPT_URL, a->url) && SET(CURLOPT_HTTPHEADER, headers) &&
           SET(CURLOPT_HEADERFUNCTION, on_header) && SET(CURLOPT_HEADERDATA, a) &&
           SET(CURLOPT_WRITEFUNCTION, on_body) && SET(CURLOPT_WRITEDATA, a) &&
           SET(CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS) &&
           SET(CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
}

/* Runs until the transfer's end or its bound; the reason if that was not a good one. */
static const char *drive(CURLM *multi, int64_t until_ms)
{
    const CURLMsg *m;
    int running = 1, left_messages;
    int64_t left;

    for (;;) {
        if (libcurl.multi_perform(multi, &running) != CURLM_OK)
            return "libcurl failed";
        if (running == 0)
            break;
        left = until_ms - clock_monotonic_ms();
        if (left <= 0)
            return "it does not end";
        if (libcurl.multi_poll(multi, NULL, 0, left < INT_MAX ? (int)left : INT_MAX, NULL) !=
            CURLM_OK)
            return "libcurl failed";
    }
    m = libcurl.multi_info_read(multi, &left_messages);
    if (m == NULL || m->msg != CURLMSG_DONE)
        return "libcurl failed";
    return m->data.result == CURLE_OK ? NULL : libcurl.easy_strerror(m->data.result);
}

static void take_connection(CURL *easy, struct ask *a)
{
    char *address = NULL;
    long port = 0, status = 0;

    if (libcurl.easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status) == CURLE_OK)
        a->status = (int)status;
    if (libcurl.easy_getinfo(easy, CURLINFO_LOCAL_IP, &address) == CURLE_OK && address != NULL)
        snprintf(a->own_address, sizeof(a->own_address), "%s", address);
    if (libcurl.easy_getinfo(easy, CURLINFO_LOCAL_PORT, &port) == CURLE_OK)
        snprintf(a->own_port, sizeof(a->own_port), "%ld", port);
}

/* On a connection of its own: what stands between may treat the first request otherwise. */
static void run(struct ask *a, const char *origin)
{
    struct curl_slist *headers = NULL;
    CURL *easy = libcurl.easy_init();
    CURLM *multi = libcurl.multi_init();

    a->begun_ms = clock_monotonic_ms();
    a->first_ms = -1;
    a->trouble = "libcurl did not take the request";
    if (easy != NULL && multi != NULL && add_headers(&headers, origin, a->stream) &&
        transfer_fix(easy) && set(easy, a, headers) &&
        libcurl.multi_add_handle(multi, easy) == CURLM_OK) {
        a->trouble = drive(multi, a->begun_ms + a->bound_ms);
        a->ended_ms = clock_monotonic_ms() - a->begun_ms;
        take_connection(easy, a);
        libcurl.multi_remove_handle(multi, easy);
    }
    if (easy != NULL)
        libcurl.easy_cleanup(easy);
    if (multi != NULL)
        libcurl.multi_cleanup(multi);
    libcurl.slist_free_all(headers);
}

/* ---- the URL ---- */

struct target {
    char base[URL_MAX];        /* without a slash at its end */
    char origin[URL_MAX + 16]; /* the header, as a page of that host sends it */
    const char *path;          /* within base */
    struct ledger *ledger;
};

/* scheme://host[:port][/path], and nothing that would end up in the wrong place. */
static bool read_url(const char *url, struct target *t)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789-._~:/[]%";
    size_t scheme = strncmp(url, "http://", 7) == 0    ? 7
                    : strncmp(url, "https://", 8) == 0 ? 8
                                                       : 0;
    size_t n = strlen(url), host;

    while (n > scheme && url[n - 1] == '/')
        n--;
    host = scheme == 0 ? 0 : strcspn(url + scheme, "/");
    if (host == 0 || n <= scheme || n >= URL_MAX / 2 || strspn(url, plain) != strlen(url))
        return false;
    host = host < n - scheme ? host : n - scheme;
    snprintf(t->base, sizeof(t->base), "%.*s", (int)n, url);
    snprintf(t->origin, sizeof(t->origin), "Origin: %.*s", (int)(scheme + host), url);
    t->path = t->base + scheme + host;
    return true;
}

/* ---- the probes ---- */

/* Asks for a self-test with a body of n bytes. NULL: out of memory. */
static struct ask *probe(const struct target *t, enum selftest_probe what, unsigned seconds,
                         size_t n)
{
    struct ask *a = calloc(1, sizeof(*a));
    char *body = malloc(n + 1);

    if (a != NULL && body != NULL) {
        selftest_body(t->ledger, what, seconds, (int64_t)time(NULL), n, body);
        snprintf(a->url, sizeof(a->url), "%s" SELFTEST_PATH, t->base);
        a->body = body;
        a->n_body = n;
        a->stream = what != SELFTEST_SEEN;
        a->bound_ms = PLAIN_MS + (int64_t)seconds * 1000;
        run(a, t->origin);
        a->body = NULL;
    } else {
        free(a);
        a = NULL;
    }
    free(body);
    return a;
}

/* The code of an error in pennygate's shape, "" if it is none. */
static void error_code(const struct ask *a, char out[32])
{
    json_t *root = jsontext_load(a->text, a->n_text, 4);
    const char *code =
        json_string_value(json_object_get(json_object_get(root, "error"), "code"));

    snprintf(out, 32, "%s", code != NULL ? code : "");
    json_decref(root);
}

/* It is there, but did not know us: why? */
static void tell_unknown(const struct target *t)
{
    struct ask *a = calloc(1, sizeof(*a));

    if (a == NULL)
        return;
    snprintf(a->url, sizeof(a->url), "%s/status", t->base);
    a->bound_ms = PLAIN_MS;
    run(a, t->origin);
    if (a->status == STATUS_OK && strstr(a->text, "\"available\"") != NULL) {
        cli_wrap("FAULT",
                 "a gateway answers there, but not to this site's owner: it has another "
                 "configuration, secret or store, or is of another version, or cannot "
                 "count at the moment (see pennygate check)");
    } else {
        cli_wrap("FAULT", "pennygate answers there, but does not know the path: the web server "
                          "does not say where it is mounted; in pennygate.conf:");
        printf("%*ssite { mount = '%s' }\n", CLI_INDENT + 4, "", t->path[0] ? t->path : "/");
    }
    free(a);
}

/* Why there is no self-test. */
static void tell_failure(const struct target *t, const struct ask *a)
{
    char code[32];

    error_code(a, code);
    if (a->status == 0)
        cli_wrap("FAULT", "no answer from there: %s", a->trouble);
    else if (strcmp(code, "not_found") == 0)
        tell_unknown(t);
    else if (strcmp(code, "busy") == 0)
        cli_wrap("FAULT", "busy: another check is asking, or the gateway is; try again");
    else if (a->status >= STATUS_MOVED && a->status < STATUS_ERROR)
        cli_wrap("FAULT",
                 "HTTP status %d: it sends callers elsewhere, and clients do not go "
                 "there with a POST; ask at that URL",
                 a->status);
    else
        cli_wrap(
            "FAULT",
            "HTTP status %d%s%s, not from pennygate: it is not mounted at this URL, or the "
            "web server does not reach it (is it running, and may the web server open its "
            "socket?)",
            a->status, a->server[0] ? " from " : "", a->server);
}

static void take_stream(const struct ask *a, struct through_stream *out)
{
    bool compressed = a->encoding[0] != '\0';

    out->tried = true;
    out->status = a->status;
    out->whole =
        a->trouble == NULL && (compressed || strstr(a->text, "data: [DONE]\n\n") != NULL);
    out->spread_ms = a->last_ms - a->first_ms;
    out->ended_ms = a->ended_ms;
    snprintf(out->encoding, sizeof(out->encoding), "%s", a->encoding);
}

/* The other probes; false: out of memory. */
static bool try_all(const struct target *t, unsigned silence_s, struct through_facts *f)
{
    struct through_seen seen;
    struct ask *a = probe(t, SELFTEST_SEEN, 0, (size_t)f->body_bytes);

    if (a == NULL)
        return false;
    f->body_status = a->status;
    if (through_parse(a->text, a->n_text, &seen))
        f->body_seen = seen.body;
    free(a);
    a = probe(t, SELFTEST_STREAM, 0, SELFTEST_BODY_MIN);
    if (a == NULL)
        return false;
    take_stream(a, &f->stream);
    free(a);
    if (silence_s == 0)
        return true;
    a = probe(t, SELFTEST_QUIET, silence_s, SELFTEST_BODY_MIN);
    if (a == NULL)
        return false;
    f->quiet_ms = (int64_t)silence_s * 1000;
    take_stream(a, &f->quiet);
    free(a);
    return true;
}

/* ---- the configuration's part ---- */

static void count_key(void *arg, const struct ledger_key *k)
{
    (void)k;
    *(bool *)arg = true;
}

static void take_config(const struct config *c, struct ledger *l, struct through_facts *f)
{
    bool keys = c->require == REQUIRE_KEY;

    (void)ledger_keys(l, count_key, &keys);
    f->mount = c->mount;
    f->heartbeat_ms = c->heartbeat_ms;
    f->body_bytes =
        c->max_body_bytes > SELFTEST_BODY_MIN ? c->max_body_bytes : SELFTEST_BODY_MIN;
    f->needs_authorization = keys;
    f->needs_custom = c->bypass_secret != NULL;
    for (unsigned i = 0; i < c->n_models; i++)
        if (c->models[i].total_timeout_ms > f->silent_ms)
            f->silent_ms = c->models[i].total_timeout_ms;
    for (unsigned i = 0; i < c->n_limits; i++)
        f->needs_cookie = f->needs_cookie || c->limits[i].subject == SUBJECT_VISITOR;
}

/* ---- the report ---- */

static void tell(void *unused, const struct through_line *l)
{
    static const char *const marks[] = {[THROUGH_NOTE] = "note", [THROUGH_FAULT] = "FAULT"};

    (void)unused;
    if (l->mark == THROUGH_FINE)
        cli_wrap(l->topic, "%s", l->text);
    else
        cli_wrap(marks[l->mark], "%s: %s%s", l->topic, l->text, l->n_fixes > 0 ? "; in" : "");
    for (unsigned i = 0; i < l->n_fixes; i++)
        printf("%*s%s%s:  %s\n", CLI_INDENT + 2, "", i > 0 ? "and " : "", l->fixes[i].where,
               l->fixes[i].line);
}

static int look(const struct config *c, const struct target *t, unsigned silence_s)
{
    struct through_facts f = {.https = t->base[4] == 's'};
    struct ask *a;
    unsigned faults = 1;

    take_config(c, t->ledger, &f);
    snprintf(f.path, sizeof(f.path), "%s", t->path);
    progress_begin("asking");
    a = probe(t, SELFTEST_SEEN, 0, SELFTEST_BODY_MIN);
    progress_end();
    if (a == NULL)
        return cli_fail("%s", error_text(ERROR_MEMORY));
    snprintf(f.server, sizeof(f.server), "%s", a->server);
    snprintf(f.own_address, sizeof(f.own_address), "%s", a->own_address);
    snprintf(f.own_port, sizeof(f.own_port), "%s", a->own_port);
    printf("%s\n\n", t->base);
    if (a->status == STATUS_OK && through_parse(a->text, a->n_text, &f.seen)) {
        bool tried;

        progress_begin("asking for streams and silence");
        tried = try_all(t, silence_s, &f);
        progress_end();
        if (!tried) {
            free(a);
            return cli_fail("%s", error_text(ERROR_MEMORY));
        }
        cli_wrap("server", "%s by %s%s%s", f.seen.software[0] ? f.seen.software : "unknown",
                 f.seen.fastcgi ? "FastCGI" : "CGI", f.server[0] ? ", answering as " : "",
                 f.server);
        faults = through_report(&f, tell, NULL);
    } else {
        tell_failure(t, a);
    }
    free(a);
    printf("\n%u fault%s\n", faults, faults == 1 ? "" : "s");
    return faults > 0 ? CLI_FAILED : CLI_OK;
}

/* A number of seconds; false: none, or too large. */
static bool read_silence(const char *text, unsigned *out)
{
    unsigned value = 0;

    if (text == NULL)
        return true;
    if (text[0] == '\0' || strspn(text, "0123456789") != strlen(text) || strlen(text) > 2)
        return false;
    for (; *text != '\0'; text++)
        value = value * 10 + (unsigned)(*text - '0');
    *out = value;
    return value <= SELFTEST_SECONDS_MAX;
}

int cli_through(struct cli *cli)
{
    struct target t = {0};
    struct config *c;
    unsigned silence_s = SILENCE_S;
    int status;

    if (cli->through == NULL || !read_url(cli->through, &t)) {
        cli_fail("--through: http://host/path or https://host/path is wanted, without a query");
        return CLI_USAGE;
    }
    if (!read_silence(cli->silence, &silence_s)) {
        cli_fail("--silence: 0 to %d seconds are wanted", SELFTEST_SECONDS_MAX);
        return CLI_USAGE;
    }
    status = cli_open(cli, NULL, &c, &t.ledger);
    if (status != CLI_OK)
        return status;
    if (!libcurl_load())
        return cli_fail("libcurl cannot be used: there is none, or none new enough");
    return look(c, &t, silence_s);
}
