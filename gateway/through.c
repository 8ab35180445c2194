/*
 * The report. Security: everything seen is somebody else's word; through_parse lets nothing but
 * printable ASCII in, because it is shown on a terminal.
 */
#include "gateway/through.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "gateway/forwarded.h"
#include "gateway/jsontext.h"
#include "gateway/selftest.h"
#include "platform/address.h"

#define JSON_DEPTH 4

/* ---- what came ---- */

static char printable(char c)
{
    if (c < ' ' || c > '~')
        return '?';
    return c;
}

static void take_text(const json_t *root, const char *key, char out[THROUGH_WORD_MAX])
{
    const char *value = json_string_value(json_object_get(root, key));
    size_t n = value != NULL ? strnlen(value, THROUGH_WORD_MAX - 1) : 0;

    for (size_t i = 0; i < n; i++)
        out[i] = printable(value[i]);
    out[n] = '\0';
}

bool through_parse(const char *text, size_t n, struct through_seen *out)
{
    const struct {
        const char *key;
        char *value;
    } texts[] = {{"software", out->software},   {"peer", out->peer},
                 {"peer_port", out->peer_port}, {"script", out->script},
                 {"info", out->info},           {"host", out->host},
                 {"address", out->address}};
    const struct {
        const char *key;
        bool *value;
    } flags[] = {{"authorization", &out->authorization},
                 {"custom", &out->custom},
                 {"cookie", &out->cookie},
                 {"proxy", &out->proxy},
                 {"forwarded", &out->forwarded},
                 {"forwarded_for", &out->forwarded_for},
                 {"trusted", &out->trusted},
                 {"fastcgi", &out->fastcgi},
                 {"https", &out->https},
                 {"page", &out->page}};
    json_t *root = n <= THROUGH_JSON_MAX ? jsontext_load(text, n, JSON_DEPTH) : NULL;
    bool ok = json_is_integer(json_object_get(root, "body"));

    memset(out, 0, sizeof(*out));
    out->body = json_integer_value(json_object_get(root, "body"));
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        take_text(root, texts[i].key, texts[i].value);
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        const json_t *value = json_object_get(root, flags[i].key);

        ok = ok && json_is_boolean(value);
        *flags[i].value = json_is_true(value);
    }
    json_decref(root);
    return ok;
}

/* ---- what to write where ---- */

enum fix {
    FIX_STREAM,        /* it buffers */
    FIX_COMPRESSION,   /* it compresses */
    FIX_QUIET,         /* it cuts a silence; ^: seconds */
    FIX_BODY,          /* it takes smaller bodies; ^: KiB */
    FIX_AUTHORIZATION, /* it hides headers */
    FIX_COOKIE,
    FIX_CUSTOM,
    FIX_HTTP_PROXY, /* it makes HTTP_PROXY of a header */
    FIX_HTTPS,
    FIX_HOST,      /* HTTP_HOST is not the host asked for */
    FIX_FORWARDED, /* it does not say for whom it asks */
    FIXES
};

/*
 * A server as the one that runs the gateway (by FastCGI, by CGI) or as a proxy before that one.
 * In a line '^' stands for the figure, '#' for 1024 times that, '~' for the path at which the
 * gateway is mounted.
 */
enum stance { AS_FASTCGI, AS_CGI, AS_PROXY, AS_ALL };

/* Lines in several pieces are in brackets, so that no comma between them can be missing. */
#define APACHE_AUTHORIZATION                                                                   \
    ("CGIPassAuth On    (in <Location \"~/\">; before 2.4.13: SetEnvIf Authorization "         \
     "\"(.+)\" "                                                                               \
     "HTTP_AUTHORIZATION=$1)")
#define BUSY_STATUS       503 /* of the gateway: one self-test at a time */
#define CADDY_COMPRESSION "@pages not path ~/*    (and: encode @pages gzip)"

static const struct server {
    const char *name; /* what SERVER_SOFTWARE and Server begin with */
    unsigned quiet_s; /* the silence after which it cuts by itself; 0: none, or not known */
    const char *fixes[AS_ALL][FIXES];
} servers[] = {
    {"lighttpd",
     0,
     {[AS_FASTCGI] = {[FIX_STREAM] = "server.stream-response-body = 2",
                      [FIX_COMPRESSION] = "deflate.mimetypes = ()",
                      [FIX_QUIET] = "\"read-timeout\" => ^,    (within fastcgi.server)",
                      [FIX_BODY] = "server.max-request-size = ^"},
      [AS_CGI] = {[FIX_STREAM] = "server.stream-response-body = 2",
                  [FIX_COMPRESSION] = "deflate.mimetypes = ()",
                  [FIX_QUIET] = ("cgi.limits = ( \"read-timeout\" => ^, "
                                 "\"tcp-fin-propagate\" => \"SIGTERM\" )"),
                  [FIX_BODY] = "server.max-request-size = ^"},
      [AS_PROXY] = {[FIX_STREAM] = "server.stream-response-body = 2",
                    [FIX_COMPRESSION] = "deflate.mimetypes = ()",
                    [FIX_QUIET] = "\"read-timeout\" => ^,    (within proxy.server)",
                    [FIX_BODY] = "server.max-request-size = ^",
                    [FIX_FORWARDED] =
                        ("proxy.forwarded = ( \"for\" => 1, \"proto\" => 1 )    (and in "
                         "pennygate's: site { proxy-header = forwarded })")}}},
    {"Apache",
     60,
     {[AS_FASTCGI] = {[FIX_STREAM] =
                          ("ProxyPass \"unix:...|fcgi://...\" flushpackets=on    (with "
                           "mod_fcgid: FcgidOutputBufferSize 0)"),
                      [FIX_COMPRESSION] = "SetEnv no-gzip 1    (in <Location \"~/\">)",
                      [FIX_QUIET] = ("ProxyPass \"unix:...|fcgi://...\" timeout=^    (with "
                                     "mod_fcgid: FcgidIOTimeout ^)"),
                      [FIX_BODY] = ("LimitRequestBody #    (with mod_fcgid: "
                                    "FcgidMaxRequestLen #)"),
                      [FIX_AUTHORIZATION] = APACHE_AUTHORIZATION,
                      [FIX_HTTP_PROXY] = "RequestHeader unset Proxy early"},
      [AS_CGI] = {[FIX_STREAM] = "SetEnv no-gzip 1    (in <Location \"~/\">)",
                  [FIX_COMPRESSION] = "SetEnv no-gzip 1    (in <Location \"~/\">)",
                  [FIX_QUIET] = "CGIDScriptTimeout ^s    (with mod_cgi: Timeout ^)",
                  [FIX_BODY] = "LimitRequestBody #",
                  [FIX_AUTHORIZATION] = APACHE_AUTHORIZATION,
                  [FIX_HTTP_PROXY] = "RequestHeader unset Proxy early"},
      [AS_PROXY] = {[FIX_STREAM] = "ProxyPass ... flushpackets=on",
                    [FIX_COMPRESSION] = "SetEnv no-gzip 1    (in <Location \"~/\">)",
                    [FIX_QUIET] = "ProxyPass ... timeout=^",
                    [FIX_BODY] = "LimitRequestBody #",
                    [FIX_HTTPS] = "RequestHeader set X-Forwarded-Proto expr=%{REQUEST_SCHEME}",
                    [FIX_HOST] = "ProxyPreserveHost On",
                    [FIX_FORWARDED] = "ProxyAddHeaders On"}}},
    {"nginx",
     60,
     {[AS_FASTCGI] = {[FIX_STREAM] = "fastcgi_buffering off;",
                      [FIX_COMPRESSION] = "gzip off;",
                      [FIX_QUIET] = "fastcgi_read_timeout ^s;",
                      [FIX_BODY] = "client_max_body_size ^k;",
                      [FIX_AUTHORIZATION] =
                          "fastcgi_param HTTP_AUTHORIZATION $http_authorization;",
                      [FIX_COOKIE] = "fastcgi_param HTTP_COOKIE $http_cookie;",
                      [FIX_CUSTOM] = "fastcgi_pass_request_headers on;",
                      [FIX_HTTP_PROXY] = "fastcgi_param HTTP_PROXY \"\" if_not_empty;",
                      [FIX_HTTPS] = "fastcgi_param HTTPS $https if_not_empty;",
                      [FIX_HOST] = "fastcgi_param HTTP_HOST $http_host;"},
      [AS_PROXY] = {[FIX_STREAM] = "proxy_buffering off;",
                    [FIX_COMPRESSION] = "gzip off;",
                    [FIX_QUIET] = "proxy_read_timeout ^s;",
                    [FIX_BODY] = "client_max_body_size ^k;",
                    [FIX_AUTHORIZATION] = "proxy_set_header Authorization $http_authorization;",
                    [FIX_COOKIE] = "proxy_set_header Cookie $http_cookie;",
                    [FIX_CUSTOM] = "proxy_pass_request_headers on;",
                    [FIX_HTTP_PROXY] = "proxy_set_header Proxy \"\";",
                    [FIX_HTTPS] = "proxy_set_header X-Forwarded-Proto $scheme;",
                    [FIX_HOST] = "proxy_set_header Host $http_host;",
                    [FIX_FORWARDED] = ("proxy_set_header X-Forwarded-For "
                                       "$proxy_add_x_forwarded_for;")}}},
    /* It sends pieces of a text/event-stream as they come: what holds them back is not its own. */
    {"Caddy",
     0,
     {[AS_FASTCGI] = {[FIX_COMPRESSION] = CADDY_COMPRESSION,
                      [FIX_QUIET] = "read_timeout ^s    (within transport fastcgi)",
                      [FIX_BODY] = "request_body { max_size ^KiB }",
                      [FIX_HTTP_PROXY] = "header_up -Proxy    (within reverse_proxy)"},
      [AS_PROXY] = {[FIX_COMPRESSION] = CADDY_COMPRESSION,
                    [FIX_QUIET] = "response_header_timeout ^s    (within transport http)",
                    [FIX_BODY] = "request_body { max_size ^KiB }",
                    [FIX_HTTP_PROXY] = "header_up -Proxy    (within reverse_proxy)",
                    [FIX_HOST] = "header_up Host {host}"}}},
    {"uhttpd",
     60,
     {[AS_CGI] = {[FIX_QUIET] = "option script_timeout '^'    (in /etc/config/uhttpd)"}}},
};

static const struct server *find_server(const char *name)
{
    for (size_t i = 0; i < sizeof(servers) / sizeof(servers[0]); i++)
        if (strncasecmp(name, servers[i].name, strlen(servers[i].name)) == 0)
            return &servers[i];
    return NULL;
}

/* ---- the report ---- */

#define STREAMED_MS                                                                            \
    (SELFTEST_CHUNKS * SELFTEST_GAP_MS / 2) /* a buffered one comes within some */
#define SPARE_S 5 /* a limit must not be just as long as what it may cut */
#define OURS    "pennygate.conf"

struct report {
    const struct through_facts *f;
    void (*tell)(void *arg, const struct through_line *line);
    void *arg;
    unsigned faults;
};

static void say(struct through_line *l, enum through_mark mark, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void say(struct through_line *l, enum through_mark mark, const char *format, ...)
{
    va_list args;

    l->mark = mark;
    va_start(args, format);
    vsnprintf(l->text, sizeof(l->text), format, args);
    va_end(args);
}

/* A line of the table with what stands for something filled in. */
static void fill(const char *line, int64_t figure, const char *path, char out[THROUGH_FIX_MAX])
{
    size_t n = 0;

    out[0] = '\0';
    for (; *line != '\0' && n < THROUGH_FIX_MAX - 1; line++) {
        size_t room = THROUGH_FIX_MAX - n;
        int more;

        if (*line == '^' || *line == '#')
            more = snprintf(out + n, room, "%" PRId64, *line == '#' ? figure * 1024 : figure);
        else if (*line == '~')
            more = snprintf(out + n, room, "%s", path);
        else
            more = snprintf(out + n, room, "%c", *line);
        n += more > 0 && (size_t)more < room ? (size_t)more : room - 1;
    }
}

static void add(struct through_line *l, const char *where, const char *line, int64_t figure,
                const char *path)
{
    l->fixes[l->n_fixes].where = where;
    fill(line, figure, path, l->fixes[l->n_fixes++].line);
}

static const struct server *gateways(const struct through_facts *f)
{
    return find_server(f->seen.software);
}

/* The proxy before the gateway's server, if it can be told from that. */
static const struct server *before(const struct through_facts *f)
{
    const struct server *s = find_server(f->server);

    return s != gateways(f) ? s : NULL;
}

static void mend(const struct through_facts *f, struct through_line *l, enum fix fix,
                 int64_t figure)
{
    const struct server *own = gateways(f), *proxy = before(f);
    enum stance stance = f->seen.fastcgi ? AS_FASTCGI : AS_CGI;

    if (own != NULL && own->fixes[stance][fix] != NULL)
        add(l, own->name, own->fixes[stance][fix], figure, f->path);
    if (proxy != NULL && proxy->fixes[AS_PROXY][fix] != NULL)
        add(l, proxy->name, proxy->fixes[AS_PROXY][fix], figure, f->path);
}

static void trust(const struct through_facts *f, struct through_line *l)
{
    struct prefix alone;

    /* What is pasted into a configuration must be an address and nothing else. */
    if (strchr(f->seen.peer, '/') == NULL && prefix_parse(f->seen.peer, &alone))
        add(l, OURS, "site { trusted-proxies = { '~' } }", 0, f->seen.peer);
}

static void path(const struct through_facts *f, struct through_line *l)
{
    say(l, THROUGH_FINE, "SCRIPT_NAME '%s', PATH_INFO '%s'%s%s%s", f->seen.script, f->seen.info,
        f->mount != NULL ? "; mount = '" : "", f->mount != NULL ? f->mount : "",
        f->mount != NULL ? "'" : "");
}

static bool same(const char *a, const char *b)
{
    struct address x, y;

    return address_parse(a, strlen(a), &x) && address_parse(b, strlen(b), &y) &&
           address_equal(&x, &y);
}

/* Behind a proxy that has told for whom it asks, although the probe has not. */
static void proxied(const struct through_facts *f, struct through_line *l)
{
    const struct through_seen *s = &f->seen;

    if (s->trusted && same(s->address, f->own_address)) {
        say(l, THROUGH_FINE, "%s, the visitor's own, as the proxy %s tells it", s->address,
            s->peer);
    } else if (s->trusted && same(s->address, s->peer)) {
        say(l, THROUGH_FAULT,
            "all visitors share %s: that proxy is trusted, but it tells the visitor in another "
            "header than proxy-header",
            s->peer);
        add(l, OURS,
            s->forwarded_for ? "site { proxy-header = x-forwarded-for }"
                             : "site { proxy-header = forwarded }",
            0, "");
    } else if (s->trusted) {
        say(l, THROUGH_NOTE,
            "asked from %s and counted as %s: right if that is this machine's address as the "
            "proxy %s sees it",
            f->own_address, s->address, s->peer);
    } else {
        say(l, THROUGH_FAULT,
            "all visitors share %s and one quota: that is a proxy, which tells for whom it "
            "asks, but is not trusted",
            s->peer);
        trust(f, l);
    }
}

static bool is_loopback(const char *text)
{
    return strncmp(text, "127.", 4) == 0 || strcmp(text, "::1") == 0;
}

/*
 * Where the peer's port is ours too, nobody stands between. A server that has put the visitor's
 * address in a proxy's place has no port for it, but some servers never tell one: of a proxy on
 * this machine the address alone tells nothing then.
 */
static void address(const struct through_facts *f, struct through_line *l)
{
    const struct through_seen *s = &f->seen;
    bool own = same(s->peer, f->own_address);
    bool told = s->forwarded || s->forwarded_for;
    bool rewritten = s->peer_port[0] == '\0' ? !told || !is_loopback(s->peer)
                                             : strcmp(s->peer_port, "0") == 0;

    if (own && strcmp(s->peer_port, f->own_port) == 0) {
        say(l, THROUGH_FINE, "%s, the visitor's own; no proxy stands before the web server",
            s->address);
    } else if (own && rewritten) {
        say(l, THROUGH_FINE, "%s, the visitor's own, as the web server tells it", s->address);
    } else if (told) {
        proxied(f, l);
    } else if (own) {
        say(l, THROUGH_FAULT,
            "all visitors share %s and one quota: a proxy on this machine asks, and does not "
            "tell for whom",
            s->peer);
        mend(f, l, FIX_FORWARDED, 0);
        trust(f, l);
    } else {
        say(l, THROUGH_NOTE,
            "asked from %s and counted as %s: right if that is this machine's address as the "
            "web server sees it; if it is a proxy's, all visitors share it and one quota",
            f->own_address, s->address);
        mend(f, l, FIX_FORWARDED, 0);
        trust(f, l);
    }
}

static void https(const struct through_facts *f, struct through_line *l)
{
    if (!f->https) {
        say(l, f->seen.https ? THROUGH_NOTE : THROUGH_FINE, "not asked for%s",
            f->seen.https ? ", but the gateway believes that it was" : "");
    } else if (f->seen.https) {
        say(l, THROUGH_FINE, "the gateway sees it");
    } else {
        say(l, THROUGH_NOTE,
            "the gateway does not see it: the visitor's cookie is sent without Secure");
        mend(f, l, FIX_HTTPS, 0);
    }
}

static void page(const struct through_facts *f, struct through_line *l)
{
    if (f->seen.page) {
        say(l, THROUGH_FINE, "those of this host may ask");
        return;
    }
    say(l, THROUGH_FAULT,
        "those of this host are refused (forbidden_origin), because the gateway is told that "
        "it is '%s'",
        f->seen.host);
    mend(f, l, FIX_HOST, 0);
}

static void missing(struct report *r, bool arrives, bool needed, enum fix fix, const char *what)
{
    struct through_line l = {.topic = "headers"};

    if (arrives)
        return;
    say(&l, needed ? THROUGH_FAULT : THROUGH_NOTE, "%s", what);
    mend(r->f, &l, fix, 0);
    r->faults += needed;
    r->tell(r->arg, &l);
}

static void headers(struct report *r)
{
    const struct through_facts *f = r->f;
    const struct through_seen *s = &f->seen;
    struct through_line l = {.topic = "headers"};

    missing(r, s->authorization, f->needs_authorization, FIX_AUTHORIZATION,
            "Authorization does not arrive: no caller can show a key");
    missing(r, s->cookie, f->needs_cookie, FIX_COOKIE,
            "cookies do not arrive: all visitors of one address are one");
    missing(r, s->custom, f->needs_custom, FIX_CUSTOM,
            "headers of one's own do not arrive: the bypass secret must be sent as a bearer "
            "token");
    if (s->proxy) {
        say(&l, THROUGH_NOTE,
            "a caller's Proxy header becomes HTTP_PROXY: pennygate does not use it, but other "
            "programs behind this server might");
        mend(f, &l, FIX_HTTP_PROXY, 0);
        r->tell(r->arg, &l);
    } else if (s->authorization && s->cookie && s->custom) {
        say(&l, THROUGH_FINE, "Authorization, cookies and headers of one's own arrive%s",
            s->fastcgi ? "; Proxy does not" : "");
        r->tell(r->arg, &l);
    }
}

static void body(const struct through_facts *f, struct through_line *l)
{
    if (f->body_status == 200 && f->body_seen == f->body_bytes) {
        say(l, THROUGH_FINE, "requests of max-body-bytes, %" PRId64 ", arrive", f->body_bytes);
        return;
    }
    say(l, THROUGH_FAULT,
        "a request of max-body-bytes, %" PRId64 ", does not arrive: HTTP status %d",
        f->body_bytes, f->body_status);
    mend(f, l, FIX_BODY, (f->body_bytes + 1023) / 1024);
}

static void stream(const struct through_facts *f, struct through_line *l)
{
    const struct through_stream *s = &f->stream;
    bool streamed = s->spread_ms >= STREAMED_MS, compressed = s->encoding[0] != '\0';

    if (s->status == BUSY_STATUS) {
        say(l, THROUGH_FAULT, "it was not tried: another check is asking; try again");
    } else if (s->status != 200) {
        say(l, THROUGH_FAULT, "it is answered with HTTP status %d", s->status);
    } else if (!s->whole) {
        say(l, THROUGH_FAULT, "it breaks off after %" PRId64 " ms", s->ended_ms);
    } else if (!streamed) {
        say(l, THROUGH_FAULT, "it is %s and arrives all at once, at its end",
            compressed ? "compressed" : "buffered");
        if (compressed)
            mend(f, l, FIX_COMPRESSION, 0);
        else
            mend(f, l, FIX_STREAM, 0);
    } else if (compressed) {
        say(l, THROUGH_NOTE, "it arrives piece by piece, but compressed (%s)", s->encoding);
        mend(f, l, FIX_COMPRESSION, 0);
    } else {
        say(l, THROUGH_FINE, "it arrives piece by piece, not compressed");
    }
}

static void quiet(const struct through_facts *f, struct through_line *l)
{
    const struct through_stream *s = &f->quiet;
    int64_t cut_ms = s->ended_ms < f->quiet_ms ? s->ended_ms : f->quiet_ms;
    int64_t silent_s = (f->silent_ms + 999) / 1000, tried_s = f->quiet_ms / 1000;
    const struct server *server = before(f) != NULL ? before(f) : gateways(f);
    bool longer = server != NULL && server->quiet_s > tried_s && server->quiet_s <= silent_s;

    if (s->status == BUSY_STATUS) {
        say(l, THROUGH_FAULT, "it was not tried: another check is asking; try again");
        return;
    }
    if (!s->whole || s->status != 200) {
        say(l, THROUGH_FAULT,
            "an answer is cut within %" PRId64 " s of silence; a plain one can be silent for "
            "%" PRId64 " s, a stream for %" PRId64,
            cut_ms / 1000, silent_s, (f->heartbeat_ms + 999) / 1000);
    } else if (longer) {
        say(l, THROUGH_NOTE,
            "%" PRId64 " s of it cut nothing; a plain answer can be silent for %" PRId64
            " s, and %s by itself cuts after %u s",
            tried_s, silent_s, server->name, server->quiet_s);
    } else {
        say(l, THROUGH_FINE, "%" PRId64 " s of it cut nothing", tried_s);
        return;
    }
    mend(f, l, FIX_QUIET, silent_s + SPARE_S);
}

unsigned through_report(const struct through_facts *f,
                        void (*tell)(void *arg, const struct through_line *line), void *arg)
{
    static const struct {
        const char *topic;
        void (*look)(const struct through_facts *f, struct through_line *l);
    } topics[] = {{"path", path}, {"address", address}, {"https", https},  {"pages", page},
                  {"body", body}, {"stream", stream},   {"silence", quiet}};
    struct report r = {f, tell, arg, 0};

    for (size_t i = 0; i < sizeof(topics) / sizeof(topics[0]); i++) {
        struct through_line l = {.topic = topics[i].topic};

        if (topics[i].look == body)
            headers(&r);
        if (topics[i].look == quiet && !f->quiet.tried)
            continue;
        topics[i].look(f, &l);
        r.faults += l.mark == THROUGH_FAULT;
        tell(arg, &l);
    }
    return r.faults;
}
