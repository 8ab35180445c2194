/* Callers: who is counted as whom. The ledger's MAC has a stand-in with one key per site. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/caller.h"

#define N(a)   (sizeof(a) / sizeof((a)[0]))
#define TODAY  20787 /* 2026-11-30 */
#define KEY    "pg_0123456789abcdefghijklmnopqrstuvwxyzABC-_xyz"
#define SECRET "the owner's own secret"

static uint8_t here[MAC_SIZE] = {1}, elsewhere[MAC_SIZE] = {2};
#define HERE ((const struct ledger *)(const void *)here)

static unsigned macs; /* how many were computed */

void ledger_mac(const struct ledger *l, const char *label, const void *data, size_t n,
                uint8_t out[MAC_SIZE])
{
    macs++;
    mac_compute((const uint8_t *)(const void *)l, label, data, n, out);
}

/* ---- exchanges ---- */

#define VARIABLES_MAX 12

/* caller_of for the variables, and for REMOTE_ADDR=192.0.2.1 if none is among them. */
static enum code ask(const struct config *c, const char *const *variables, struct asker *out)
{
    static char text[VARIABLES_MAX][512];
    static char *env[VARIABLES_MAX + 2];
    static char remote[] = "REMOTE_ADDR=192.0.2.1";
    struct exchange x = {.env = env, .watch_fd = -1};
    unsigned n = 0;

    for (; variables != NULL && n < VARIABLES_MAX && variables[n] != NULL; n++) {
        assert_true(strlen(variables[n]) < sizeof text[n]);
        memcpy(text[n], variables[n], strlen(variables[n]) + 1);
        env[n] = text[n];
    }
    env[n] = NULL;
    if (exchange_param(&x, "REMOTE_ADDR") == NULL)
        env[n++] = remote;
    env[n] = NULL;
    memset(out, 0xff, sizeof(*out));
    return caller_of(&x, c, HERE, TODAY, out);
}

static bool same(const struct asker *a, const struct asker *b, enum subject s)
{
    const struct subject_id *i = &a->caller.id[s], *j = &b->caller.id[s];

    return i->n == j->n && memcmp(i->bytes, j->bytes, i->n) == 0;
}

static struct config plain;

/* ---- the address ---- */

static const struct {
    const char *why, *a, *b;
    bool same;
} pairs[] = {
    {"itself", "192.0.2.1", "192.0.2.1", true},
    {"a neighbour", "192.0.2.1", "192.0.2.2", false},
    {"F39 the mapped form", "192.0.2.1", "::ffff:192.0.2.1", true},
    {"F39 hosts of one /64", "2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff", true},
    {"F39 two /64", "2001:db8::1", "2001:db8:0:1::1", false},
    {"F39 upper case and zone", "fe80::a%eth0", "FE80::B", true},
    {"an IPv4 address and an IPv6 net that begins with the same bytes", "32.1.13.184",
     "2001:db8::", false},
};

static void f39_every_spelling_of_an_address_is_one_subject(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(pairs); i++) {
        char first[80], second[80];
        const char *x[] = {first, NULL}, *y[] = {second, NULL};
        struct asker a, b;

        snprintf(first, sizeof first, "REMOTE_ADDR=%s", pairs[i].a);
        snprintf(second, sizeof second, "REMOTE_ADDR=%s", pairs[i].b);
        assert_int_equal(ask(&plain, x, &a), CODE_NONE);
        assert_int_equal(ask(&plain, y, &b), CODE_NONE);
        if (same(&a, &b, SUBJECT_ADDRESS) != pairs[i].same)
            fail_msg("%s", pairs[i].why);
    }
}

static void who_cannot_be_counted_is_no_caller(void **state)
{
    static const char *const wrong[][3] = {
        {"REMOTE_ADDR="},
        {"REMOTE_ADDR=localhost"},
        {"REMOTE_ADDR=unix:"},
        {"REMOTE_ADDR=192.0.2.1, 192.0.2.2"},
        {"REMOTE_ADDR=192.0.2.256"},
        {"REMOTE_ADDR=192.0.2.1", "REMOTE_ADDR=192.0.2.2"},
    };
    struct asker a, before;

    (void)state;
    memset(&before, 0xff, sizeof before);
    for (size_t i = 0; i < N(wrong); i++) {
        assert_int_equal(ask(&plain, wrong[i], &a), CODE_NO_ADDRESS);
        assert_memory_equal(&a, &before, sizeof a);
    }
}

static const struct {
    const char *why;
    enum proxy_header header;
    const char *variables[5];
    const char *address;
    bool proxied;
} proxies[] = {
    {"F37 from anybody it is not believed",
     PROXY_X_FORWARDED_FOR,
     {"REMOTE_ADDR=192.0.2.1", "HTTP_X_FORWARDED_FOR=192.0.2.9", "HTTP_X_REAL_IP=192.0.2.8"},
     "192.0.2.1",
     false},
    {"from the proxy it is",
     PROXY_X_FORWARDED_FOR,
     {"REMOTE_ADDR=10.0.0.1", "HTTP_X_FORWARDED_FOR=192.0.2.9"},
     "192.0.2.9",
     false},
    {"F37 not its leftmost entry",
     PROXY_X_FORWARDED_FOR,
     {"REMOTE_ADDR=10.0.0.1", "HTTP_X_FORWARDED_FOR=192.0.2.66, 192.0.2.9, 10.0.0.2"},
     "192.0.2.9",
     false},
    {"F37 what cannot be read ends the walk",
     PROXY_X_FORWARDED_FOR,
     {"REMOTE_ADDR=10.0.0.1", "HTTP_X_FORWARDED_FOR=192.0.2.9, nonsense"},
     "10.0.0.1",
     false},
    {"F37 lighttpd passes X_Forwarded_For by the same name",
     PROXY_X_FORWARDED_FOR,
     {"REMOTE_ADDR=10.0.0.1", "HTTP_X_FORWARDED_FOR=192.0.2.66",
      "HTTP_X_FORWARDED_FOR=192.0.2.9"},
     "10.0.0.1",
     false},
    {"the other header is not looked at",
     PROXY_X_FORWARDED_FOR,
     {"REMOTE_ADDR=10.0.0.1", "HTTP_FORWARDED=for=192.0.2.66"},
     "10.0.0.1",
     false},
    {"nor the first where it is the second",
     PROXY_FORWARDED,
     {"REMOTE_ADDR=10.0.0.1", "HTTP_X_FORWARDED_FOR=192.0.2.66",
      "HTTP_FORWARDED=for=192.0.2.9;proto=https"},
     "192.0.2.9",
     false},
    {"F38 a private peer that is not trusted",
     PROXY_X_FORWARDED_FOR,
     {"REMOTE_ADDR=172.16.0.1", "HTTP_X_FORWARDED_FOR=192.0.2.9"},
     "172.16.0.1",
     true},
    {"F38 by the other header",
     PROXY_X_FORWARDED_FOR,
     {"REMOTE_ADDR=::1", "HTTP_FORWARDED=for=192.0.2.9"},
     "::1",
     true},
    {"F39 a mapped peer",
     PROXY_X_FORWARDED_FOR,
     {"REMOTE_ADDR=::ffff:10.0.0.1", "HTTP_X_FORWARDED_FOR=::ffff:192.0.2.9"},
     "192.0.2.9",
     false},
};

static void f37_forwarding_headers_count_from_trusted_proxies(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(proxies); i++) {
        struct config c = {.proxy_header = proxies[i].header, .n_trusted_proxies = 1};
        char direct[80];
        const char *alone[] = {direct, NULL};
        struct asker a, b;

        assert_true(prefix_parse("10.0.0.0/8", &c.trusted_proxies[0]));
        snprintf(direct, sizeof direct, "REMOTE_ADDR=%s", proxies[i].address);
        assert_int_equal(ask(&c, proxies[i].variables, &a), CODE_NONE);
        assert_int_equal(ask(&plain, alone, &b), CODE_NONE);
        if (!same(&a, &b, SUBJECT_ADDRESS) || a.proxied != proxies[i].proxied)
            fail_msg("%s", proxies[i].why);
    }
}

/* ---- account and key ---- */

static const struct {
    const char *why;
    enum require require;
    const char *variables[4];
    enum code code;
    bool anonymous, key;
} rows[] = {
    {"nothing", REQUIRE_NONE, {NULL}, CODE_NONE, true, false},
    {"an account", REQUIRE_NONE, {"REMOTE_USER=ann"}, CODE_NONE, false, false},
    {"an empty one is none: nginx", REQUIRE_NONE, {"REMOTE_USER="}, CODE_NONE, true, false},
    {"one of blanks is none", REQUIRE_NONE, {"REMOTE_USER= \t "}, CODE_NONE, true, false},
    {"two are none",
     REQUIRE_NONE,
     {"REMOTE_USER=ann", "REMOTE_USER=bob"},
     CODE_NONE,
     true,
     false},
    {"a client's header is none",
     REQUIRE_NONE,
     {"HTTP_REMOTE_USER=ann", "HTTP_AUTH_USER=ann", "HTTP_X_REMOTE_USER=ann"},
     CODE_NONE,
     true,
     false},
    {"a key", REQUIRE_NONE, {"HTTP_AUTHORIZATION=Bearer " KEY}, CODE_NONE, false, true},
    {"a scheme in any case, more blanks",
     REQUIRE_NONE,
     {"HTTP_AUTHORIZATION=bEARER  " KEY " "},
     CODE_NONE,
     false,
     true},
    {"an SDK's key is ignored",
     REQUIRE_NONE,
     {"HTTP_AUTHORIZATION=Bearer sk-1"},
     CODE_NONE,
     true,
     false},
    {"so are other schemes",
     REQUIRE_NONE,
     {"HTTP_AUTHORIZATION=Basic " KEY},
     CODE_NONE,
     true,
     false},
    {"an empty header", REQUIRE_NONE, {"HTTP_AUTHORIZATION="}, CODE_NONE, true, false},
    {"a scheme without a token",
     REQUIRE_NONE,
     {"HTTP_AUTHORIZATION=Bearer "},
     CODE_NONE,
     true,
     false},
    {"a scheme without a blank",
     REQUIRE_NONE,
     {"HTTP_AUTHORIZATION=Bearer" KEY},
     CODE_NONE,
     true,
     false},
    {"a key with odd characters",
     REQUIRE_NONE,
     {"HTTP_AUTHORIZATION=Bearer pg_a.b"},
     CODE_UNAUTHORIZED,
     false,
     false},
    {"two in one header: lighttpd, Apache",
     REQUIRE_NONE,
     {"HTTP_AUTHORIZATION=Bearer " KEY ", Bearer sk-1"},
     CODE_UNAUTHORIZED,
     false,
     false},
    {"a key beside another token",
     REQUIRE_NONE,
     {"HTTP_AUTHORIZATION=Bearer " KEY, "HTTP_AUTHORIZATION=Bearer sk-1"},
     CODE_UNAUTHORIZED,
     false,
     false},
    {"the other way round",
     REQUIRE_NONE,
     {"HTTP_AUTHORIZATION=Bearer sk-1", "HTTP_AUTHORIZATION=Bearer " KEY},
     CODE_UNAUTHORIZED,
     false,
     false},
    {"two that are no keys",
     REQUIRE_NONE,
     {"HTTP_AUTHORIZATION=Bearer sk-1", "HTTP_AUTHORIZATION=Bearer sk-2"},
     CODE_NONE,
     true,
     false},
    {"a key is required and shown",
     REQUIRE_KEY,
     {"HTTP_AUTHORIZATION=Bearer " KEY},
     CODE_NONE,
     false,
     true},
    {"and not shown", REQUIRE_KEY, {NULL}, CODE_UNAUTHORIZED, false, false},
    {"another token is none",
     REQUIRE_KEY,
     {"HTTP_AUTHORIZATION=Bearer sk-1"},
     CODE_UNAUTHORIZED,
     false,
     false},
    {"an account is no key", REQUIRE_KEY, {"REMOTE_USER=ann"}, CODE_UNAUTHORIZED, false, false},
    {"an account is required and there",
     REQUIRE_ACCOUNT,
     {"REMOTE_USER=ann"},
     CODE_NONE,
     false,
     false},
    {"and not there", REQUIRE_ACCOUNT, {NULL}, CODE_UNAUTHORIZED, false, false},
    {"and empty", REQUIRE_ACCOUNT, {"REMOTE_USER="}, CODE_UNAUTHORIZED, false, false},
    {"and blank", REQUIRE_ACCOUNT, {"REMOTE_USER= "}, CODE_UNAUTHORIZED, false, false},
    {"a key is no account",
     REQUIRE_ACCOUNT,
     {"HTTP_AUTHORIZATION=Bearer " KEY},
     CODE_UNAUTHORIZED,
     false,
     false},
};

static void accounts_are_the_servers_and_keys_the_owners(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(rows); i++) {
        struct config c = {.require = rows[i].require};
        struct asker a;
        enum code code = ask(&c, rows[i].variables, &a);

        if (code != rows[i].code ||
            (code == CODE_NONE &&
             (a.caller.anonymous != rows[i].anonymous || a.caller.has_key != rows[i].key)))
            fail_msg("%s: %d", rows[i].why, (int)code);
    }
}

static void a_key_is_looked_for_by_its_hash(void **state)
{
    static const char *const shown[] = {"HTTP_AUTHORIZATION=Bearer " KEY, NULL};
    uint8_t mac[MAC_SIZE];
    struct asker a;

    (void)state;
    ledger_mac(HERE, "key", KEY, strlen(KEY), mac);
    assert_int_equal(ask(&plain, shown, &a), CODE_NONE);
    assert_memory_equal(a.caller.key_hash, mac, KEY_HASH);
}

static void a_keys_length_is_bounded(void **state)
{
    char text[256] = "HTTP_AUTHORIZATION=Bearer pg_";
    const char *shown[] = {text, NULL};
    size_t before = strlen(text) - strlen(CALLER_KEY_PREFIX);
    struct asker a;

    (void)state;
    memset(text + strlen(text), 'a', CALLER_KEY_MAX - strlen(CALLER_KEY_PREFIX));
    assert_int_equal(strlen(text + before), CALLER_KEY_MAX);
    assert_int_equal(ask(&plain, shown, &a), CODE_NONE);
    text[before + CALLER_KEY_MAX] = 'a';
    assert_int_equal(ask(&plain, shown, &a), CODE_UNAUTHORIZED);
}

/* Also where no limit is per account: one may be added while the call is open. */
static void an_account_is_a_subject_of_every_call(void **state)
{
    static const char *const ann[] = {"REMOTE_USER=ann", NULL}, *const bob[] = {
                                                                    "REMOTE_USER=bob", NULL};
    struct config c = {.n_limits = 1, .limits = {{.subject = SUBJECT_ACCOUNT}}};
    struct asker a, b;

    (void)state;
    macs = 0;
    assert_int_equal(ask(&plain, ann, &a), CODE_NONE);
    assert_int_equal(macs, 0); /* and it costs a refusal nothing */
    assert_true(a.caller.id[SUBJECT_ACCOUNT].n > 0);
    assert_int_equal(ask(&c, bob, &b), CODE_NONE);
    assert_false(same(&a, &b, SUBJECT_ACCOUNT));
    assert_int_equal(ask(&c, ann, &b), CODE_NONE);
    assert_true(same(&a, &b, SUBJECT_ACCOUNT));
}

/* To LDAP and many others these are one; who counts them apart gives each a budget. */
static void an_account_has_one_quota_however_it_is_spelt(void **state)
{
    static const struct {
        const char *why, *name;
        bool same;
    } rows_of[] = {
        {"itself", "ann", true},
        {"capitals", "ANN", true},
        {"some of them", "aNn", true},
        {"a blank behind", "ann ", true},
        {"blanks around", " \tann\t ", true},
        {"a blank within", "an n", false},
        {"another name", "anna", false},
        {"a sign that a wrong fold would take for a letter", "\x01nn", false},
        {"letters beyond ASCII are as they are", "\xc3\x84nn", false},
    };
    static const char *const ann[] = {"REMOTE_USER=ann", NULL};
    struct asker a, b;

    (void)state;
    assert_int_equal(ask(&plain, ann, &a), CODE_NONE);
    for (size_t i = 0; i < N(rows_of); i++) {
        char text[64];
        const char *variables[] = {text, NULL};

        snprintf(text, sizeof text, "REMOTE_USER=%s", rows_of[i].name);
        assert_int_equal(ask(&plain, variables, &b), CODE_NONE);
        if (same(&a, &b, SUBJECT_ACCOUNT) != rows_of[i].same)
            fail_msg("%s", rows_of[i].why);
    }
}

/* ---- bypass ---- */

static char secret[] = SECRET, header[] = "X-Pennygate-Bypass", nothing[] = "";

static const struct {
    const char *why;
    char *secret;
    const char *variables[3];
    bool bypass;
} bypasses[] = {
    {"the header", secret, {"HTTP_X_PENNYGATE_BYPASS=" SECRET}, true},
    {"a bearer token, for uhttpd", secret, {"HTTP_AUTHORIZATION=Bearer " SECRET}, true},
    {"nothing", secret, {NULL}, false},
    {"another", secret, {"HTTP_X_PENNYGATE_BYPASS=the owner's own secreT"}, false},
    {"its beginning", secret, {"HTTP_X_PENNYGATE_BYPASS=the owner's own secre"}, false},
    {"more than it", secret, {"HTTP_X_PENNYGATE_BYPASS=the owner's own secret!"}, false},
    {"an empty header", secret, {"HTTP_X_PENNYGATE_BYPASS="}, false},
    {"twice",
     secret,
     {"HTTP_X_PENNYGATE_BYPASS=" SECRET, "HTTP_X_PENNYGATE_BYPASS=" SECRET},
     false},
    {"another header", secret, {"HTTP_X_BYPASS=" SECRET}, false},
    {"not a header", secret, {"X_PENNYGATE_BYPASS=" SECRET}, false},
    {"there is none", NULL, {"HTTP_X_PENNYGATE_BYPASS=" SECRET}, false},
    {"an empty one is none", nothing, {"HTTP_X_PENNYGATE_BYPASS="}, false},
};

static void only_the_secret_bypasses(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(bypasses); i++) {
        struct config c = {.bypass_secret = bypasses[i].secret, .bypass_header = header};
        struct asker a;

        if (ask(&c, bypasses[i].variables, &a) != CODE_NONE ||
            a.caller.bypass != bypasses[i].bypass)
            fail_msg("%s", bypasses[i].why);
        assert_true(a.caller.anonymous != a.caller.bypass);
    }
}

static void the_owner_needs_neither_key_nor_account(void **state)
{
    static const char *const shown[] = {"HTTP_X_PENNYGATE_BYPASS=" SECRET, NULL};
    struct config c = {.bypass_secret = secret, .bypass_header = header};
    struct asker a;

    (void)state;
    for (c.require = REQUIRE_NONE; c.require <= REQUIRE_ACCOUNT; c.require++)
        assert_int_equal(ask(&c, shown, &a), CODE_NONE);
}

/* ---- the visitor ---- */

static const struct config visited = {.n_limits = 1, .limits = {{.subject = SUBJECT_VISITOR}}};

/* "HTTP_COOKIE=name=value" of a site's cookie of that day. */
static char *cookie_of(const uint8_t *site, uint8_t id, int64_t day, char out[256])
{
    struct cookie c = {.id = {id}, .day = day};
    char name[COOKIE_NAME_MAX], value[COOKIE_TEXT_MAX];
    uint8_t key[MAC_SIZE];

    ledger_mac((const struct ledger *)(const void *)site, "cookie", "", 0, key);
    cookie_name(key, name);
    cookie_write(key, &c, value);
    snprintf(out, 256, "HTTP_COOKIE=%s=%s", name, value);
    return out;
}

static void f40_who_shows_no_cookie_shares_one_subject_with_the_address(void **state)
{
    char first[256], second[256];
    const char *x[] = {cookie_of(here, 1, TODAY, first), NULL};
    const char *y[] = {cookie_of(here, 2, TODAY, second), NULL};
    const char *far[] = {"REMOTE_ADDR=192.0.2.7", NULL};
    struct asker none, again, a, b;

    (void)state;
    assert_int_equal(ask(&visited, NULL, &none), CODE_NONE);
    assert_int_equal(ask(&visited, NULL, &again), CODE_NONE);
    assert_int_equal(ask(&visited, x, &a), CODE_NONE);
    assert_int_equal(ask(&visited, y, &b), CODE_NONE);
    assert_true(none.caller.id[SUBJECT_VISITOR].n > 0);
    assert_true(same(&none, &again, SUBJECT_VISITOR));
    assert_false(same(&none, &a, SUBJECT_VISITOR));
    assert_false(same(&a, &b, SUBJECT_VISITOR));
    assert_true(same(&a, &b, SUBJECT_ADDRESS));
    assert_int_equal(ask(&visited, far, &again), CODE_NONE);
    assert_false(same(&none, &again, SUBJECT_VISITOR));
}

/* A cookie that does not count makes the caller one without. */
static void f41_cookies_that_do_not_count(void **state)
{
    char good[256], other[256], old[256], future[256], forged[256], cut[256], twice[512];
    const char *const rows_of[][4] = {
        {cookie_of(elsewhere, 1, TODAY, other)},
        {cookie_of(here, 1, TODAY - COOKIE_DAYS - 1, old)},
        {cookie_of(here, 1, TODAY + 2, future)},
        {forged},
        {cut},
        {twice},
        {good, good},
        {"HTTP_COOKIE="},
        {"HTTP_COOKIE=;;;=,"},
    };
    struct asker none, a;

    (void)state;
    cookie_of(here, 1, TODAY, good);
    snprintf(forged, sizeof forged, "%s", good);
    forged[strlen(forged) - 3] ^= 1;
    snprintf(cut, sizeof cut, "%.*s", (int)strlen(good) - 1, good);
    snprintf(twice, sizeof twice, "%s; %s", good, good + strlen("HTTP_COOKIE="));
    assert_int_equal(ask(&visited, NULL, &none), CODE_NONE);
    for (size_t i = 0; i < N(rows_of); i++) {
        assert_int_equal(ask(&visited, rows_of[i], &a), CODE_NONE);
        if (!same(&none, &a, SUBJECT_VISITOR) || !a.cookie_due || a.cookie_known)
            fail_msg("row %d", (int)i);
    }
}

static void f41_too_many_cookie_headers_are_none(void **state)
{
    char good[256];
    const char *many[VARIABLES_MAX] = {cookie_of(here, 1, TODAY, good)};
    struct asker none, a;

    (void)state;
    for (int i = 1; i < 8; i++)
        many[i] = "HTTP_COOKIE=a=b";
    assert_int_equal(ask(&visited, NULL, &none), CODE_NONE);
    assert_int_equal(ask(&visited, many, &a), CODE_NONE);
    assert_true(a.cookie_known);
    many[8] = "HTTP_COOKIE=a=b";
    assert_int_equal(ask(&visited, many, &a), CODE_NONE);
    assert_true(same(&none, &a, SUBJECT_VISITOR));
}

static void a_cookie_is_due_where_there_is_none_or_an_old_one(void **state)
{
    char text[256];
    const char *shown[] = {text, NULL};
    struct asker a;

    (void)state;
    cookie_of(here, 1, TODAY - COOKIE_RENEW + 1, text);
    assert_int_equal(ask(&visited, shown, &a), CODE_NONE);
    assert_false(a.cookie_due);
    cookie_of(here, 1, TODAY - COOKIE_RENEW, text);
    assert_int_equal(ask(&visited, shown, &a), CODE_NONE);
    assert_true(a.cookie_due && a.cookie_known);
    assert_int_equal(a.cookie.id[0], 1);                /* and remains the same visitor's */
    assert_int_equal(ask(&plain, NULL, &a), CODE_NONE); /* no limit is per visitor */
    assert_false(a.cookie_due);
    assert_int_equal(ask(&plain, shown, &a), CODE_NONE);
    assert_false(a.cookie_due);
}

/* A limit may be added while the call is open. */
static void a_visitor_is_one_also_where_no_limit_is_per_visitor(void **state)
{
    char text[256];
    const char *shown[] = {cookie_of(here, 1, TODAY, text), NULL};
    const char *others[] = {"HTTP_COOKIE=session=1; theme=dark", NULL};
    const char *signed_in[] = {"REMOTE_USER=ann", text, NULL};
    struct asker a, b;

    (void)state;
    assert_int_equal(ask(&visited, shown, &a), CODE_NONE);
    assert_int_equal(ask(&plain, shown, &b), CODE_NONE);
    assert_true(same(&a, &b, SUBJECT_VISITOR));
    macs = 0;
    assert_int_equal(ask(&plain, others, &b), CODE_NONE);
    assert_int_equal(macs, 0); /* no cookie of ours is looked for */
    assert_int_equal(ask(&visited, NULL, &a), CODE_NONE);
    assert_true(b.caller.id[SUBJECT_VISITOR].n > 0 && same(&a, &b, SUBJECT_VISITOR));
    assert_int_equal(ask(&plain, signed_in, &b), CODE_NONE);
    assert_int_equal(b.caller.id[SUBJECT_VISITOR].n, 0); /* is no visitor */
}

static const struct {
    const char *why;
    bool cross, trusted;
    const char *variables[2];
    const char *end;
} issued[] = {
    {"http", false, false, {NULL}, "; HttpOnly; SameSite=Lax"},
    {"https", false, false, {"HTTPS=on"}, "; HttpOnly; SameSite=Lax; Secure"},
    {"https as 1", false, false, {"HTTPS=1"}, "; HttpOnly; SameSite=Lax; Secure"},
    {"https off: IIS and nginx", false, false, {"HTTPS=off"}, "; HttpOnly; SameSite=Lax"},
    {"by the scheme",
     false,
     false,
     {"REQUEST_SCHEME=https"},
     "; HttpOnly; SameSite=Lax; Secure"},
    {"a trusted proxy says so",
     false,
     true,
     {"HTTP_X_FORWARDED_PROTO=https"},
     "; HttpOnly; SameSite=Lax; Secure"},
    {"anybody says so",
     false,
     false,
     {"HTTP_X_FORWARDED_PROTO=https"},
     "; HttpOnly; SameSite=Lax"},
    {"a widget on another origin",
     true,
     false,
     {NULL},
     "; HttpOnly; SameSite=None; Secure; Partitioned"},
};

static void cookies_are_issued_for_the_way_they_came(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(issued); i++) {
        struct config c = {.cookie_cross_site = issued[i].cross};
        struct asker a = {.cookie_due = true, .trusted = issued[i].trusted};
        char entry[64], text[CALLER_COOKIE_MAX], again[CALLER_COOKIE_MAX];
        char *env[] = {issued[i].variables[0] != NULL ? entry : NULL, NULL};
        struct exchange x = {.env = env, .watch_fd = -1};
        const char *end;

        snprintf(entry, sizeof entry, "%s",
                 issued[i].variables[0] != NULL ? issued[i].variables[0] : "");
        caller_cookie(&x, &c, HERE, TODAY, &a, text);
        caller_cookie(&x, &c, HERE, TODAY, &a, again);
        end = strstr(text, "; HttpOnly");
        if (end == NULL || strcmp(end, issued[i].end) != 0)
            fail_msg("%s: %s", issued[i].why, text);
        assert_non_null(strstr(text, "; Path=/; Max-Age=2592000; "));
        assert_string_not_equal(text, again); /* random */
    }
}

/* What is issued is what is then believed; renewed, it is the same visitor's. */
static void an_issued_cookie_is_known_again(void **state)
{
    char *env[] = {NULL}, text[CALLER_COOKIE_MAX], shown[320], renewed[320];
    struct exchange x = {.env = env, .watch_fd = -1};
    const char *variables[] = {shown, NULL}, *later[] = {renewed, NULL};
    struct asker none, a, b;

    (void)state;
    assert_int_equal(ask(&visited, NULL, &none), CODE_NONE);
    caller_cookie(&x, &visited, HERE, TODAY - 8, &none, text);
    snprintf(shown, sizeof shown, "HTTP_COOKIE=%.*s", (int)strcspn(text, ";"), text);
    assert_int_equal(ask(&visited, variables, &a), CODE_NONE);
    assert_true(a.cookie_known && a.cookie_due);
    caller_cookie(&x, &visited, HERE, TODAY, &a, text);
    snprintf(renewed, sizeof renewed, "HTTP_COOKIE=%.*s", (int)strcspn(text, ";"), text);
    assert_string_not_equal(shown, renewed);
    assert_int_equal(ask(&visited, later, &b), CODE_NONE);
    assert_true(same(&a, &b, SUBJECT_VISITOR) && !b.cookie_due);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f39_every_spelling_of_an_address_is_one_subject),
        cmocka_unit_test(who_cannot_be_counted_is_no_caller),
        cmocka_unit_test(f37_forwarding_headers_count_from_trusted_proxies),
        cmocka_unit_test(accounts_are_the_servers_and_keys_the_owners),
        cmocka_unit_test(a_key_is_looked_for_by_its_hash),
        cmocka_unit_test(a_keys_length_is_bounded),
        cmocka_unit_test(an_account_is_a_subject_of_every_call),
        cmocka_unit_test(an_account_has_one_quota_however_it_is_spelt),
        cmocka_unit_test(a_visitor_is_one_also_where_no_limit_is_per_visitor),
        cmocka_unit_test(only_the_secret_bypasses),
        cmocka_unit_test(the_owner_needs_neither_key_nor_account),
        cmocka_unit_test(f40_who_shows_no_cookie_shares_one_subject_with_the_address),
        cmocka_unit_test(f41_cookies_that_do_not_count),
        cmocka_unit_test(f41_too_many_cookie_headers_are_none),
        cmocka_unit_test(a_cookie_is_due_where_there_is_none_or_an_old_one),
        cmocka_unit_test(cookies_are_issued_for_the_way_they_came),
        cmocka_unit_test(an_issued_cookie_is_known_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
