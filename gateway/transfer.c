/*
 * Security: the upstream is hostile. Nothing from the environment is used (proxies), no
 * redirect is followed (the key must reach the configured host only), nothing but http and
 * https is spoken, and what arrives is bounded.
 *
 * A request is never sent twice, since it may be billed twice (F13): libcurl repeats one by
 * itself when a reused connection dies before the first byte of its answer, which says nothing
 * about whether the other side has worked on it. It can do so only by reading the body again,
 * so the body is given through a callback that cannot be rewound, and on_send refuses a second
 * attempt once a byte of the body was given. Before that the other side has no request that it
 * could bill.
 */
#include "gateway/transfer.h"

#include <string.h>
#include <strings.h>

#include "platform/clock.h"
#include "platform/mac.h"

#define RECEIVE_BYTES   2048L  /* libcurl's buffer a stream; an event has some 200 bytes */
#define SEND_BYTES      16384L /* the least it accepts */
#define IDLE_CONNECTION 55L  /* seconds; many servers and routers close at 60 without a word */
#define NAME_CACHE      300L /* seconds: a libcurl without resolver threads asks, and all wait */

/* ---- headers of the request ---- */

bool transfer_add_header(struct curl_slist **headers, const char *line)
{
    struct curl_slist *more = libcurl.slist_append(*headers, line);

    if (more != NULL)
        *headers = more;
    return more != NULL;
}

/* "Expect:" keeps libcurl from asking first whether it may send a longer body. */
bool transfer_headers(struct call *c, const struct call_request *r)
{
    bool ok = transfer_add_header(&c->headers, "Expect:");

    for (unsigned i = 0; ok && i < r->n_headers; i++)
        ok = transfer_add_header(&c->headers, r->headers[i]);
    return ok;
}

void transfer_wipe_headers(struct curl_slist **headers)
{
    for (struct curl_slist *h = *headers; h != NULL; h = h->next)
        mac_wipe(h->data, strlen(h->data));
    libcurl.slist_free_all(*headers);
    *headers = NULL;
}

void transfer_wipe(struct call *c)
{
    transfer_wipe_headers(&c->headers);
}

/* ---- what libcurl calls ---- */

static size_t on_header(char *line, size_t size, size_t n, void *arg)
{
    struct call *c = arg;
    long status = 0, version = 0;

    libcurl.easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
    libcurl.easy_getinfo(c->easy, CURLINFO_HTTP_VERSION, &version);
    if (version > CURL_HTTP_VERSION_1_1)
        call_shares_connection(c);
    return call_header(c, line, size * n, (int)status) ? size * n : 0;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *arg)
{
    return call_body(arg, bytes, size * n, clock_monotonic_ms()) ? size * n
                                                                 : CURL_WRITEFUNC_PAUSE;
}

/* Connected, and about to send the request. */
static int on_send(void *arg, char *address, char *own, int port, int own_port)
{
    struct call *c = arg;

    (void)address;
    (void)own;
    (void)port;
    (void)own_port;
    if (c->given > 0)
        return CURL_PREREQFUNC_ABORT; /* a second attempt, see the top */
    c->sent = true;
    return CURL_PREREQFUNC_OK;
}

static size_t on_read(char *out, size_t size, size_t n, void *arg)
{
    struct call *c = arg;
    size_t left = c->request.n_body - c->given;

    if (left > size * n)
        left = size * n;
    memcpy(out, c->request.body + c->given, left);
    c->given += left;
    return left;
}

/* ---- options ---- */

static const struct {
    CURLoption option;
    long value;
} FIXED[] = {
    {CURLOPT_NOSIGNAL, 1},
    {CURLOPT_POST, 1},
    {CURLOPT_FOLLOWLOCATION, 0},
    {CURLOPT_QUICK_EXIT, 1}, /* removing a handle must not wait for its resolver thread */
    {CURLOPT_BUFFERSIZE, RECEIVE_BYTES},
    {CURLOPT_UPLOAD_BUFFERSIZE, SEND_BYTES},
    {CURLOPT_MAXAGE_CONN, IDLE_CONNECTION},
    {CURLOPT_DNS_CACHE_TIMEOUT, NAME_CACHE},
    {CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2},
};

#define SET(option, value) (libcurl.easy_setopt(easy, option, value) == CURLE_OK)

bool transfer_fix(CURL *easy)
{
    for (size_t i = 0; i < sizeof FIXED / sizeof *FIXED; i++) {
        if (!SET(FIXED[i].option, FIXED[i].value))
            return false;
    }
    /* An empty proxy is none; without it libcurl takes the environment's. */
    return SET(CURLOPT_PROXY, "") && SET(CURLOPT_PROTOCOLS_STR, "http,https") &&
           SET(CURLOPT_USERAGENT, "pennygate");
}

static bool set_callbacks(CURL *easy, struct call *c)
{
    return SET(CURLOPT_PRIVATE, c) && SET(CURLOPT_HEADERFUNCTION, on_header) &&
           SET(CURLOPT_HEADERDATA, c) && SET(CURLOPT_WRITEFUNCTION, on_body) &&
           SET(CURLOPT_WRITEDATA, c) && SET(CURLOPT_READFUNCTION, on_read) &&
           SET(CURLOPT_READDATA, c) && SET(CURLOPT_PREREQFUNCTION, on_send) &&
           SET(CURLOPT_PREREQDATA, c);
}

/* A directory of the system's that libcurl was built with would be trusted beside the file; and
 * with one libcurl reads the file anew for each connection, and keeps it with each. */
bool transfer_trust(CURL *easy, const char *ca_file)
{
    return ca_file == NULL ||
           (SET(CURLOPT_CAINFO, ca_file) && SET(CURLOPT_CAPATH, (char *)NULL));
}

static bool set_request(CURL *easy, const struct call *c, CURLSH *sessions)
{
    const struct call_request *r = &c->request;
    bool https = strncasecmp(r->url, "https:", 6) == 0;
    /* Over TLS a call waits for a connection that is being made, to share it with HTTP/2. Over
     * plain HTTP/1.1 it would wait for another call's whole answer. */
    long version = https ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1;

    return SET(CURLOPT_URL, r->url) && SET(CURLOPT_HTTPHEADER, c->headers) &&
           SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->n_body) &&
           SET(CURLOPT_HTTP_VERSION, version) && SET(CURLOPT_PIPEWAIT, (long)https) &&
           SET(CURLOPT_CONNECTTIMEOUT_MS, (long)r->connect_timeout_ms) &&
           SET(CURLOPT_SHARE, sessions) && transfer_trust(easy, r->ca_file);
}

bool transfer_set(struct call *c, CURLSH *sessions)
{
    return transfer_fix(c->easy) && set_callbacks(c->easy, c) &&
           set_request(c->easy, c, sessions);
}
