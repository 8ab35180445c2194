/* The report of check --through: what was seen, and which line is told for which server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/through.h"

#define N(a) (sizeof(a) / sizeof((a)[0]))

/* Everything is well. */
static const struct through_facts good = {
    .path = "/ai",
    .server = "lighttpd/1.4.69",
    .own_address = "192.0.2.7",
    .own_port = "40000",
    .mount = "/ai",
    .heartbeat_ms = 5000,
    .silent_ms = 120000,
    .body_bytes = 65536,
    .body_status = 200,
    .body_seen = 65536,
    .seen = {.software = "lighttpd/1.4.69",
             .peer = "192.0.2.7",
             .peer_port = "40000",
             .script = "/ai",
             .info = "/v1/self-test",
             .host = "www.example",
             .address = "192.0.2.7",
             .authorization = true,
             .custom = true,
             .cookie = true,
             .fastcgi = true,
             .page = true},
    .stream = {.tried = true, .status = 200, .whole = true, .spread_ms = 1200},
    .quiet = {.tried = true, .status = 200, .whole = true, .ended_ms = 20000},
    .quiet_ms = 20000,
};

/* ---- what is told ---- */

struct heard {
    struct through_line lines[16];
    unsigned n;
};

static void keep(void *arg, const struct through_line *line)
{
    struct heard *t = arg;

    assert_true(t->n < N(t->lines));
    assert_true(line->text[0] != '\0' && line->topic[0] != '\0');
    t->lines[t->n++] = *line;
}

/* The line of a topic that is the most serious. */
static const struct through_line *told_of(const struct heard *t, const char *topic)
{
    const struct through_line *found = NULL;

    for (unsigned i = 0; i < t->n; i++)
        if (strcmp(t->lines[i].topic, topic) == 0 &&
            (found == NULL || t->lines[i].mark > found->mark))
            found = &t->lines[i];
    return found;
}

static void all_is_well(void **state)
{
    static const char *const topics[] = {"path",    "address", "https",  "pages",
                                         "headers", "body",    "stream", "silence"};
    struct heard t = {0};

    (void)state;
    assert_int_equal(through_report(&good, keep, &t), 0);
    assert_int_equal(t.n, N(topics));
    for (unsigned i = 0; i < t.n; i++) {
        assert_string_equal(t.lines[i].topic, topics[i]);
        assert_int_equal(t.lines[i].mark, THROUGH_FINE);
        assert_int_equal(t.lines[i].n_fixes, 0);
    }
}

/* ---- what goes wrong ---- */

enum trouble {
    BUFFERED,
    COMPRESSED,
    COMPRESSED_STREAM,
    BROKEN_OFF,
    CUT,
    UNTRIED,
    BODY,
    AUTHORIZATION,
    COOKIE,
    CUSTOM,
    HTTP_PROXY,
    HTTPS,
    HOST,
    BUSY,
    BUSY_QUIET
};

static void spoil(struct through_facts *f, enum trouble trouble)
{
    switch (trouble) {
    case BUFFERED:
        f->stream.spread_ms = 3;
        break;
    case COMPRESSED:
        f->stream.spread_ms = 0;
        snprintf(f->stream.encoding, sizeof f->stream.encoding, "gzip");
        break;
    case COMPRESSED_STREAM:
        snprintf(f->stream.encoding, sizeof f->stream.encoding, "gzip");
        break;
    case BROKEN_OFF:
        f->stream.whole = false;
        break;
    case CUT:
        f->quiet.whole = false;
        f->quiet.ended_ms = 10100;
        break;
    case UNTRIED:
        break;
    case BODY:
        f->body_status = 413;
        break;
    case AUTHORIZATION:
        f->seen.authorization = false;
        break;
    case COOKIE:
        f->seen.cookie = false;
        break;
    case CUSTOM:
        f->seen.custom = false;
        break;
    case HTTP_PROXY:
        f->seen.proxy = true;
        break;
    case HTTPS:
        f->https = true;
        break;
    case HOST:
        f->seen.page = false;
        break;
    case BUSY:
        f->stream.status = 503;
        break;
    case BUSY_QUIET:
        f->quiet.status = 503;
        break;
    }
}

#define LIGHTTPD "lighttpd/1.4.69"
#define APACHE   "Apache/2.4.71 (Debian)"
#define NGINX    "nginx/1.22.1"
#define CADDY    "Caddy/v2.6.2"
#define UHTTPD   "uhttpd"

static const struct {
    const char *why;
    const char *software, *server;
    bool cgi;
    enum trouble trouble;
    enum through_mark mark;
    const char *topic;
    const char *fixes[3]; /* how each line begins, in order */
} rows[] = {
    {"F33 lighttpd",
     LIGHTTPD,
     LIGHTTPD,
     false,
     BUFFERED,
     THROUGH_FAULT,
     "stream",
     {"server.stream-response-body = 2"}},
    {"F33 lighttpd, CGI",
     LIGHTTPD,
     LIGHTTPD,
     true,
     BUFFERED,
     THROUGH_FAULT,
     "stream",
     {"server.stream-response-body = 2"}},
    {"F33 Apache",
     APACHE,
     "Apache",
     false,
     BUFFERED,
     THROUGH_FAULT,
     "stream",
     {"ProxyPass \"unix:...|fcgi://...\" flushpackets=on"}},
    {"F33 nginx",
     NGINX,
     NGINX,
     false,
     BUFFERED,
     THROUGH_FAULT,
     "stream",
     {"fastcgi_buffering off;"}},
    {"F33 Caddy", CADDY, "Caddy", false, BUFFERED, THROUGH_FAULT, "stream", {NULL}},
    {"F33 nobody knows which", "thttpd", "", false, BUFFERED, THROUGH_FAULT, "stream", {NULL}},
    {"F33 a proxy before it",
     LIGHTTPD,
     "nginx",
     false,
     BUFFERED,
     THROUGH_FAULT,
     "stream",
     {"server.stream-response-body = 2", "proxy_buffering off;"}},
    {"F33 a proxy before one that nobody knows",
     "thttpd",
     APACHE,
     false,
     BUFFERED,
     THROUGH_FAULT,
     "stream",
     {"ProxyPass ... flushpackets=on"}},
    {"F34 lighttpd",
     LIGHTTPD,
     LIGHTTPD,
     false,
     COMPRESSED,
     THROUGH_FAULT,
     "stream",
     {"deflate.mimetypes = ()"}},
    {"F34 Apache's CGI",
     APACHE,
     APACHE,
     true,
     COMPRESSED,
     THROUGH_FAULT,
     "stream",
     {"SetEnv no-gzip 1    (in <Location \"/ai/\">)"}},
    {"F34 a compressed stream that passes",
     NGINX,
     NGINX,
     false,
     COMPRESSED_STREAM,
     THROUGH_NOTE,
     "stream",
     {"gzip off;"}},
    {"F34 Caddy",
     CADDY,
     "Caddy",
     false,
     COMPRESSED,
     THROUGH_FAULT,
     "stream",
     {"@pages not path /ai/*    (and: encode @pages gzip)"}},
    {"another check is asking", NGINX, NGINX, false, BUSY, THROUGH_FAULT, "stream", {NULL}},
    {"and no server is to blame",
     NGINX,
     NGINX,
     false,
     BUSY_QUIET,
     THROUGH_FAULT,
     "silence",
     {NULL}},
    {"a stream that breaks off",
     NGINX,
     NGINX,
     false,
     BROKEN_OFF,
     THROUGH_FAULT,
     "stream",
     {NULL}},
    {"F35 lighttpd",
     LIGHTTPD,
     LIGHTTPD,
     false,
     CUT,
     THROUGH_FAULT,
     "silence",
     {"\"read-timeout\" => 125,"}},
    {"F35 Apache",
     APACHE,
     APACHE,
     false,
     CUT,
     THROUGH_FAULT,
     "silence",
     {"ProxyPass \"unix:...|fcgi://...\" timeout=125    (with mod_fcgid: FcgidIOTimeout 125)"}},
    {"F35 Apache, CGI",
     APACHE,
     APACHE,
     true,
     CUT,
     THROUGH_FAULT,
     "silence",
     {"CGIDScriptTimeout 125s"}},
    {"F35 nginx",
     NGINX,
     NGINX,
     false,
     CUT,
     THROUGH_FAULT,
     "silence",
     {"fastcgi_read_timeout 125s;"}},
    {"F35 uhttpd",
     UHTTPD,
     "",
     true,
     CUT,
     THROUGH_FAULT,
     "silence",
     {"option script_timeout '125'"}},
    {"F35 nginx would later",
     NGINX,
     NGINX,
     false,
     UNTRIED,
     THROUGH_NOTE,
     "silence",
     {"fastcgi_read_timeout 125s;"}},
    {"F35 a proxy would later",
     LIGHTTPD,
     NGINX,
     false,
     UNTRIED,
     THROUGH_NOTE,
     "silence",
     {"\"read-timeout\" => 125,", "proxy_read_timeout 125s;"}},
    {"F35 lighttpd would not",
     LIGHTTPD,
     LIGHTTPD,
     false,
     UNTRIED,
     THROUGH_FINE,
     "silence",
     {NULL}},
    {"smaller bodies, lighttpd counts KiB",
     LIGHTTPD,
     LIGHTTPD,
     false,
     BODY,
     THROUGH_FAULT,
     "body",
     {"server.max-request-size = 64"}},
    {"smaller bodies, Apache counts bytes",
     APACHE,
     APACHE,
     false,
     BODY,
     THROUGH_FAULT,
     "body",
     {"LimitRequestBody 65536    (with mod_fcgid: FcgidMaxRequestLen 65536)"}},
    {"smaller bodies, nginx",
     NGINX,
     NGINX,
     false,
     BODY,
     THROUGH_FAULT,
     "body",
     {"client_max_body_size 64k;"}},
    {"Apache hides Authorization",
     APACHE,
     APACHE,
     false,
     AUTHORIZATION,
     THROUGH_NOTE,
     "headers",
     {"CGIPassAuth On    (in <Location \"/ai/\">;"}},
    {"Apache hides Authorization from CGI",
     APACHE,
     APACHE,
     true,
     AUTHORIZATION,
     THROUGH_NOTE,
     "headers",
     {"CGIPassAuth On"}},
    {"no cookies",
     NGINX,
     NGINX,
     false,
     COOKIE,
     THROUGH_NOTE,
     "headers",
     {"fastcgi_param HTTP_COOKIE $http_cookie;"}},
    {"uhttpd passes no header of one's own",
     UHTTPD,
     "",
     true,
     CUSTOM,
     THROUGH_NOTE,
     "headers",
     {NULL}},
    {"F48 nginx passes Proxy",
     NGINX,
     NGINX,
     false,
     HTTP_PROXY,
     THROUGH_NOTE,
     "headers",
     {"fastcgi_param HTTP_PROXY \"\" if_not_empty;"}},
    {"https ends in nginx",
     NGINX,
     NGINX,
     false,
     HTTPS,
     THROUGH_NOTE,
     "https",
     {"fastcgi_param HTTPS $https if_not_empty;"}},
    {"https ends in a proxy",
     LIGHTTPD,
     NGINX,
     false,
     HTTPS,
     THROUGH_NOTE,
     "https",
     {"proxy_set_header X-Forwarded-Proto $scheme;"}},
    {"the host of a proxy's backend",
     LIGHTTPD,
     APACHE,
     false,
     HOST,
     THROUGH_FAULT,
     "pages",
     {"ProxyPreserveHost On"}},
};

static void each_trouble_has_a_line_for_its_server(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(rows); i++) {
        struct through_facts f = good;
        struct heard t = {0};
        const struct through_line *l;
        unsigned n = 0;

        snprintf(f.seen.software, sizeof f.seen.software, "%s", rows[i].software);
        snprintf(f.server, sizeof f.server, "%s", rows[i].server);
        f.seen.fastcgi = !rows[i].cgi;
        spoil(&f, rows[i].trouble);
        if (through_report(&f, keep, &t) != (rows[i].mark == THROUGH_FAULT))
            fail_msg("%s: other faults", rows[i].why);
        l = told_of(&t, rows[i].topic);
        if (l == NULL || l->mark != rows[i].mark)
            fail_msg("%s: %s", rows[i].why, l != NULL ? l->text : "not told");
        for (; n < N(rows[i].fixes) && rows[i].fixes[n] != NULL; n++)
            if (n >= l->n_fixes ||
                strncmp(l->fixes[n].line, rows[i].fixes[n], strlen(rows[i].fixes[n])) != 0)
                fail_msg("%s: not %s", rows[i].why, rows[i].fixes[n]);
        if (l->n_fixes != n)
            fail_msg("%s: also %s", rows[i].why, l->fixes[n].line);
    }
}

static void what_the_site_needs_is_a_fault(void **state)
{
    struct through_facts f = good;
    struct heard t = {0};

    (void)state;
    f.seen.authorization = f.seen.cookie = f.seen.custom = false;
    assert_int_equal(through_report(&f, keep, &t), 0);
    t.n = 0;
    f.needs_authorization = f.needs_cookie = f.needs_custom = true;
    assert_int_equal(through_report(&f, keep, &t), 3);
}

/* ---- whose address ---- */

static const struct {
    const char *why;
    const char *own, *peer, *port, *counted;
    bool forwarded, forwarded_for, trusted;
    enum through_mark mark;
    const char *fixes[3];
} addresses[] = {
    {"nothing in between",
     "192.0.2.7",
     "192.0.2.7",
     "40000",
     "192.0.2.7",
     false,
     false,
     false,
     THROUGH_FINE,
     {NULL}},
    {"nothing in between, IPv6 in two spellings",
     "2001:db8::1",
     "2001:DB8:0::1",
     "40000",
     "2001:db8::1",
     false,
     false,
     false,
     THROUGH_FINE,
     {NULL}},
    {"nothing in between, and an own proxy is trusted",
     "127.0.0.1",
     "127.0.0.1",
     "40000",
     "127.0.0.1",
     false,
     false,
     true,
     THROUGH_FINE,
     {NULL}},
    {"the web server reads its proxy's header",
     "192.0.2.7",
     "192.0.2.7",
     "0",
     "192.0.2.7",
     false,
     true,
     false,
     THROUGH_FINE,
     {NULL}},
    {"the web server tells no port",
     "192.0.2.7",
     "192.0.2.7",
     "",
     "192.0.2.7",
     false,
     false,
     false,
     THROUGH_FINE,
     {NULL}},
    {"a trusted proxy",
     "192.0.2.7",
     "10.0.0.1",
     "50000",
     "192.0.2.7",
     false,
     true,
     true,
     THROUGH_FINE,
     {NULL}},
    {"a trusted proxy that sees another address",
     "192.168.1.5",
     "10.0.0.1",
     "50000",
     "198.51.100.9",
     false,
     true,
     true,
     THROUGH_NOTE,
     {NULL}},
    {"F38 a proxy that is not trusted",
     "192.0.2.7",
     "10.0.0.1",
     "50000",
     "10.0.0.1",
     false,
     true,
     false,
     THROUGH_FAULT,
     {"site { trusted-proxies = { '10.0.0.1' } }"}},
    {"F38 a proxy on this machine that is not trusted",
     "127.0.0.1",
     "127.0.0.1",
     "50000",
     "127.0.0.1",
     false,
     true,
     false,
     THROUGH_FAULT,
     {"site { trusted-proxies = { '127.0.0.1' } }"}},
    {"F38 a proxy on this machine, and the web server tells no port",
     "127.0.0.1",
     "127.0.0.1",
     "",
     "127.0.0.1",
     false,
     true,
     false,
     THROUGH_FAULT,
     {"site { trusted-proxies = { '127.0.0.1' } }"}},
    {"the web server reads its proxy's header, and tells no port",
     "192.0.2.7",
     "192.0.2.7",
     "",
     "192.0.2.7",
     false,
     true,
     false,
     THROUGH_FINE,
     {NULL}},
    {"F38 a trusted proxy whose header is not the one looked at",
     "192.0.2.7",
     "10.0.0.1",
     "50000",
     "10.0.0.1",
     true,
     false,
     true,
     THROUGH_FAULT,
     {"site { proxy-header = forwarded }"}},
    {"F38 a proxy on this machine that tells nothing",
     "127.0.0.1",
     "127.0.0.1",
     "50000",
     "127.0.0.1",
     false,
     false,
     false,
     THROUGH_FAULT,
     {"proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;",
      "site { trusted-proxies = { '127.0.0.1' } }"}},
    {"F38 a proxy that tells nothing, or a router",
     "192.168.1.5",
     "198.51.100.9",
     "50000",
     "198.51.100.9",
     false,
     false,
     false,
     THROUGH_NOTE,
     {"proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;",
      "site { trusted-proxies = { '198.51.100.9' } }"}},
};

static void f38_whose_address_is_counted(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(addresses); i++) {
        struct through_facts f = good;
        struct heard t = {0};
        const struct through_line *l;
        unsigned n = 0;

        snprintf(f.server, sizeof f.server, NGINX);
        snprintf(f.own_address, sizeof f.own_address, "%s", addresses[i].own);
        snprintf(f.seen.peer, sizeof f.seen.peer, "%s", addresses[i].peer);
        snprintf(f.seen.peer_port, sizeof f.seen.peer_port, "%s", addresses[i].port);
        snprintf(f.seen.address, sizeof f.seen.address, "%s", addresses[i].counted);
        f.seen.forwarded = addresses[i].forwarded;
        f.seen.forwarded_for = addresses[i].forwarded_for;
        f.seen.trusted = addresses[i].trusted;
        through_report(&f, keep, &t);
        l = told_of(&t, "address");
        if (l == NULL || l->mark != addresses[i].mark)
            fail_msg("%s: %s", addresses[i].why, l != NULL ? l->text : "not told");
        for (; n < N(addresses[i].fixes) && addresses[i].fixes[n] != NULL; n++)
            if (n >= l->n_fixes || strcmp(l->fixes[n].line, addresses[i].fixes[n]) != 0)
                fail_msg("%s: not %s", addresses[i].why, addresses[i].fixes[n]);
        if (l->n_fixes != n)
            fail_msg("%s: also %s", addresses[i].why, l->fixes[n].line);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_is_well),
        cmocka_unit_test(each_trouble_has_a_line_for_its_server),
        cmocka_unit_test(what_the_site_needs_is_a_fault),
        cmocka_unit_test(f38_whose_address_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
