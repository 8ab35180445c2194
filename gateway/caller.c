/*
 * The subjects of an exchange. Security: no subject, no service; secrets are compared as MACs,
 * in a time that does not depend on them. Every subject that a caller has is found, also where
 * no limit names it: one may be added while the call is open. None costs more than a look,
 * since a refusal has to stay cheap: hashes are the ledger's, and only where they are needed.
 */
#include "gateway/caller.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "gateway/forwarded.h"
#include "platform/random.h"

#define ACCOUNT_WHOLE_MAX 40 /* longer names are hashed: SUBJECT_ID_MAX is 47 */
#define ACCOUNT_HASH      16
#define ACCOUNT_PART      224 /* with a MAC before it four blocks of SHA-256 */
#define BLANKS            " \t"

#define COOKIE_HEADERS 8    /* browsers send one; of more nobody knows which is meant */
#define HEADER_NAME    64   /* longest name of a variable looked for */
#define SECRET_TEXT    4096 /* longest secret looked at: web servers pass 8 KB of headers */

#define TAG_SHARED  0 /* of visitor ids: all of one address that show no cookie */
#define TAG_VISITOR 1 /* the cookie's */

/* ---- ids ---- */

void caller_address_id(const struct address *a, struct subject_id *out)
{
    unsigned n = address_subject_bytes(a);

    memset(out, 0, sizeof *out);
    out->bytes[0] = a->family;
    memcpy(out->bytes + 1, a->bytes, n);
    out->n = (uint8_t)(1 + n);
}

void caller_shared_id(const struct subject_id *address, struct subject_id *out)
{
    memset(out, 0, sizeof *out);
    out->bytes[0] = TAG_SHARED;
    memcpy(out->bytes + 1, address->bytes, address->n);
    out->n = (uint8_t)(1 + address->n);
}

/* The name without the blanks around it. */
static const char *trim(const char *name, size_t *n)
{
    name += strspn(name, BLANKS);
    *n = strlen(name);
    while (*n > 0 && strchr(BLANKS, name[*n - 1]) != NULL)
        --*n;
    return name;
}

static void fold(uint8_t *out, const char *in, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (uint8_t)(in[i] >= 'A' && in[i] <= 'Z' ? in[i] - 'A' + 'a' : in[i]);
}

/* Part by part, each with the hash of what stands before it: names have no bound of ours. */
static void hash_account(const struct ledger *l, const char *name, size_t n,
                         uint8_t out[MAC_SIZE])
{
    uint8_t text[MAC_SIZE + ACCOUNT_PART];

    memset(out, 0, MAC_SIZE);
    while (n > 0) {
        size_t part = n < ACCOUNT_PART ? n : ACCOUNT_PART;

        memcpy(text, out, MAC_SIZE);
        fold(text + MAC_SIZE, name, part);
        ledger_mac(l, "account", text, MAC_SIZE + part, out);
        name += part;
        n -= part;
    }
}

bool caller_account_id(const struct ledger *l, const char *name, struct subject_id *out)
{
    size_t n;
    uint8_t mac[MAC_SIZE];

    memset(out, 0, sizeof *out);
    name = trim(name, &n);
    if (n == 0)
        return false;
    if (n <= ACCOUNT_WHOLE_MAX) {
        fold(out->bytes + 1, name, n);
        out->n = (uint8_t)(1 + n);
        return true;
    }
    out->bytes[0] = 1; /* no name equals the hash of another */
    hash_account(l, name, n, mac);
    memcpy(out->bytes + 1, mac, ACCOUNT_HASH);
    out->n = 1 + ACCOUNT_HASH;
    return true;
}

bool caller_account_equal(const char *a, const char *b)
{
    size_t n, m;

    a = trim(a, &n);
    b = trim(b, &m);
    /* in the "C" locale, so that letters are those that fold changes */
    return n > 0 && n == m && strncasecmp(a, b, n) == 0;
}

static bool is_limited(const struct config *c, enum subject s)
{
    for (unsigned i = 0; i < c->n_limits; i++)
        if (c->limits[i].subject == s)
            return true;
    return false;
}

/* ---- the address ---- */

/*
 * A header that is there twice cannot be read: lighttpd gives X_Forwarded_For the name of
 * X-Forwarded-For, so that one that the caller made up can stand beside the proxy's.
 */
enum code caller_address(const struct exchange *x, const struct config *c, struct asker *out)
{
    static const char *const headers[] = {
        [PROXY_X_FORWARDED_FOR] = "HTTP_X_FORWARDED_FOR",
        [PROXY_FORWARDED] = "HTTP_FORWARDED",
    };
    const char *text = exchange_param_only(x, "REMOTE_ADDR");
    struct address peer;

    if (text == NULL || !address_parse(text, strlen(text), &peer))
        return CODE_NO_ADDRESS;
    out->trusted = prefix_any_has(c->trusted_proxies, c->n_trusted_proxies, &peer);
    out->proxied = !out->trusted && forwarded_is_private(&peer) &&
                   (exchange_param(x, "HTTP_X_FORWARDED_FOR") != NULL ||
                    exchange_param(x, "HTTP_FORWARDED") != NULL);
    forwarded_find(&peer, exchange_param_only(x, headers[c->proxy_header]),
                   c->proxy_header == PROXY_FORWARDED ? FORWARDED_RFC7239 : FORWARDED_LIST,
                   c->trusted_proxies, c->n_trusted_proxies, &out->address);
    caller_address_id(&out->address, &out->caller.id[SUBJECT_ADDRESS]);
    return CODE_NONE;
}

/* ---- bearer tokens ---- */

/* The token of "Bearer token", without the blanks around it; NULL: another scheme, or none. */
static const char *bearer_token(const char *text, size_t *n)
{
    static const char scheme[] = "bearer";
    const char *at;

    if (text == NULL || strncasecmp(text, scheme, sizeof(scheme) - 1) != 0)
        return NULL;
    at = text + sizeof(scheme) - 1;
    if (*at != ' ' && *at != '\t')
        return NULL;
    at = trim(at, n);
    return *n > 0 ? at : NULL;
}

static bool is_key(const char *token)
{
    return token != NULL &&
           strncmp(token, CALLER_KEY_PREFIX, sizeof(CALLER_KEY_PREFIX) - 1) == 0;
}

static bool is_well_formed(const char *token, size_t n)
{
    static const char digits[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";

    return n <= CALLER_KEY_MAX && strspn(token, digits) >= n;
}

/* Of several tokens nobody knows which is meant: none counts, and a key among them is wrong. */
static enum code find_key(const struct exchange *x, const struct ledger *l, struct caller *out)
{
    const char *text, *token = NULL;
    uint8_t mac[MAC_SIZE];
    unsigned i, keys = 0;
    size_t n = 0;

    for (i = 0; (text = exchange_param_at(x, "HTTP_AUTHORIZATION", i)) != NULL; i++) {
        token = bearer_token(text, &n);
        keys += is_key(token);
    }
    if (keys == 0)
        return CODE_NONE;
    if (i > 1 || !is_well_formed(token, n))
        return CODE_UNAUTHORIZED;
    ledger_mac(l, "key", token, n, mac);
    memcpy(out->key_hash, mac, KEY_HASH);
    out->has_key = true;
    return CODE_NONE;
}

/* ---- the owner's bypass ---- */

/* As MACs, so that the time tells nothing of the secret, not even its length. */
static bool is_secret(const struct ledger *l, const char *secret, const char *text, size_t n)
{
    uint8_t a[MAC_SIZE], b[MAC_SIZE];
    bool equal;

    if (text == NULL || n == 0 || n > SECRET_TEXT)
        return false;
    ledger_mac(l, "bypass", secret, strlen(secret), a);
    ledger_mac(l, "bypass", text, n, b);
    equal = mac_equal(a, b, sizeof(a));
    mac_wipe(a, sizeof(a));
    return equal;
}

/* "X-Name" as web servers pass it: HTTP_X_NAME. False: too long. */
static bool variable_of(const char *header, char out[HEADER_NAME])
{
    int n = snprintf(out, HEADER_NAME, "HTTP_%s", header);

    for (char *at = out; *at != '\0'; at++) {
        if (*at == '-')
            *at = '_';
        else if (*at >= 'a' && *at <= 'z')
            *at = (char)(*at - 'a' + 'A');
    }
    return n > 0 && n < HEADER_NAME;
}

/* A wrong secret is simply none, so that nobody learns whether there is one. */
static bool is_bypass(const struct exchange *x, const struct config *c, const struct ledger *l)
{
    char name[HEADER_NAME];
    const char *text, *token;
    size_t n = 0;

    if (c->bypass_secret == NULL || c->bypass_secret[0] == '\0')
        return false;
    text = variable_of(c->bypass_header, name) ? exchange_param_only(x, name) : NULL;
    if (text != NULL && is_secret(l, c->bypass_secret, text, strlen(text)))
        return true;
    token = bearer_token(exchange_param_only(x, "HTTP_AUTHORIZATION"), &n);
    return is_secret(l, c->bypass_secret, token, n);
}

/* ---- the visitor ---- */

/* Looks for the name's beginning first: the name itself costs two MACs, and most callers of a
 * site without visitors come with other cookies or with none. */
static bool read_cookie(const struct exchange *x, const struct ledger *l, int64_t today,
                        struct cookie *out)
{
    const char *headers[COOKIE_HEADERS], *value;
    unsigned n = exchange_param_count(x, "HTTP_COOKIE");
    char name[COOKIE_NAME_MAX];
    uint8_t key[MAC_SIZE];
    bool ours = false;
    size_t n_value;

    if (n > COOKIE_HEADERS)
        return false;
    for (unsigned i = 0; i < n; i++) {
        headers[i] = exchange_param_at(x, "HTTP_COOKIE", i);
        ours = ours || strstr(headers[i], COOKIE_PREFIX) != NULL;
    }
    if (!ours)
        return false;
    ledger_mac(l, "cookie", "", 0, key);
    cookie_name(key, name);
    ours = cookie_find(headers, n, name, &value, &n_value) == 1 &&
           cookie_read(key, value, n_value, today, out);
    mac_wipe(key, sizeof(key));
    return ours;
}

static void find_visitor(const struct exchange *x, const struct config *c,
                         const struct ledger *l, int64_t today, struct asker *out)
{
    struct subject_id *id = &out->caller.id[SUBJECT_VISITOR];

    out->cookie_known = read_cookie(x, l, today, &out->cookie);
    out->cookie_due = is_limited(c, SUBJECT_VISITOR) &&
                      (!out->cookie_known || today - out->cookie.day >= COOKIE_RENEW);
    if (!out->cookie_known) {
        caller_shared_id(&out->caller.id[SUBJECT_ADDRESS], id);
        return;
    }
    id->bytes[0] = TAG_VISITOR;
    memcpy(id->bytes + 1, out->cookie.id, COOKIE_ID);
    id->n = 1 + COOKIE_ID;
}

bool caller_https(const struct exchange *x, const struct asker *a)
{
    const char *https = exchange_param(x, "HTTPS"),
               *scheme = exchange_param(x, "REQUEST_SCHEME");
    const char *proxy = a->trusted ? exchange_param_only(x, "HTTP_X_FORWARDED_PROTO") : NULL;

    return (https != NULL && (strcasecmp(https, "on") == 0 || strcmp(https, "1") == 0)) ||
           (scheme != NULL && strcasecmp(scheme, "https") == 0) ||
           (proxy != NULL && strcasecmp(proxy, "https") == 0);
}

void caller_cookie(const struct exchange *x, const struct config *c, const struct ledger *l,
                   int64_t today, const struct asker *a, char out[CALLER_COOKIE_MAX])
{
    char name[COOKIE_NAME_MAX], value[COOKIE_TEXT_MAX];
    const char *site = "SameSite=Lax", *secure = caller_https(x, a) ? "; Secure" : "";
    struct cookie cookie = a->cookie;
    uint8_t key[MAC_SIZE];

    out[0] = '\0';
    if (!a->cookie_known && random_bytes(cookie.id, sizeof(cookie.id)) != ERROR_NONE)
        return;
    cookie.day = today;
    ledger_mac(l, "cookie", "", 0, key);
    cookie_name(key, name);
    cookie_write(key, &cookie, value);
    mac_wipe(key, sizeof(key));
    if (c->cookie_cross_site) { /* browsers take None with Secure alone */
        site = "SameSite=None";
        secure = "; Secure; Partitioned";
    }
    snprintf(out, CALLER_COOKIE_MAX, "%s=%s; Path=/; Max-Age=%d; HttpOnly; %s%s", name, value,
             COOKIE_DAYS * 86400, site, secure);
}

/* ---- all of them ---- */

static bool find_account(const struct exchange *x, const struct ledger *l, struct caller *out)
{
    const char *name = exchange_param_only(x, "REMOTE_USER");

    return name != NULL && caller_account_id(l, name, &out->id[SUBJECT_ACCOUNT]);
}

enum code caller_of(const struct exchange *x, const struct config *c, const struct ledger *l,
                    int64_t today, struct asker *out)
{
    struct asker a = {0};
    enum code code = caller_address(x, c, &a);
    bool account;

    if (code != CODE_NONE)
        return code;
    if (is_bypass(x, c, l)) {
        a.caller.bypass = true;
        *out = a;
        return CODE_NONE;
    }
    account = find_account(x, l, &a.caller);
    code = find_key(x, l, &a.caller);
    if (code != CODE_NONE)
        return code;
    if ((c->require == REQUIRE_KEY && !a.caller.has_key) ||
        (c->require == REQUIRE_ACCOUNT && !account))
        return CODE_UNAUTHORIZED;
    a.caller.anonymous = !account && !a.caller.has_key;
    if (a.caller.anonymous)
        find_visitor(x, c, l, today, &a);
    *out = a;
    return CODE_NONE;
}
