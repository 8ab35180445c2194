/* The owner's guard: who gets in, and what is no password. The store has stand-ins. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/guard.h"
#include "platform/mac.h"

#define N(a) (sizeof(a) / sizeof((a)[0]))

static uint8_t secret[MAC_SIZE] = {1};
#define LEDGER ((struct ledger *)(void *)secret)

void ledger_mac(const struct ledger *l, const char *label, const void *data, size_t n,
                uint8_t out[MAC_SIZE])
{
    mac_compute((const uint8_t *)(const void *)l, label, data, n, out);
}

static enum error stored_error;
static uint8_t stored[KEY_HASH];

enum error ledger_password(struct ledger *l, uint8_t hash[KEY_HASH])
{
    (void)l;
    if (stored_error == ERROR_NONE)
        memcpy(hash, stored, KEY_HASH);
    return stored_error;
}

/* The store's password; NULL: there is none. */
static void set_password(const char *password)
{
    stored_error = password == NULL ? ERROR_NOT_FOUND : ERROR_NONE;
    if (password != NULL)
        guard_hash(LEDGER, password, strlen(password), stored);
}

/* ---- a header ---- */

static const struct {
    const char *why, *header;
    const char *password; /* NULL: it is none */
} headers[] = {
    {"a name and a password", "Basic YW5uOnNlY3JldA==", "secret"},
    {"the scheme in any case", "bASIC YW5uOnNlY3JldA==", "secret"},
    {"more than one blank", "Basic   YW5uOnNlY3JldA==", "secret"},
    {"no name", "Basic OnNlY3JldA==", "secret"},
    {"a colon in the password", "Basic YTpiOmM=", "b:c"},
    {"no password", "Basic YW5uOg==", ""},
    {"without padding at all", "Basic YW5uOmFi", "ab"},
    {"letters beyond the alphabet", "Basic Onx+fz8/", "|~\x7f??"},
    {"no colon", "Basic c2VjcmV0", NULL},
    {"nothing", "Basic ", NULL},
    {"the scheme alone", "Basic", NULL},
    {"another scheme", "Bearer YW5uOnNlY3JldA==", NULL},
    {"a scheme that begins so", "Basics YW5uOnNlY3JldA==", NULL},
    {"padding left out", "Basic YW5uOnNlY3JldA", NULL},
    {"too much padding", "Basic YW5uOnNlY3JldA====", NULL},
    {"three signs of padding", "Basic YW5uOnNlY3JldAA=Y===", NULL},
    {"padding alone", "Basic ====", NULL},
    {"padding within", "Basic YQ==OnNlY3JldA==", NULL},
    {"bits that no byte has", "Basic YW5uOnNlY3JldB==", NULL},
    {"bits that no byte has, before one sign", "Basic YTpiOmN=", NULL},
    {"the other alphabet", "Basic Onx-fz8_", NULL},
    {"a blank within", "Basic YW5u OnNlY3JldA==", NULL},
    {"a blank at the end", "Basic YW5uOnNlY3JldA== ", NULL},
    {"a second value", "Basic YW5uOnNlY3JldA==, Basic YW5uOnNlY3JldA==", NULL},
    {"a line's end", "Basic YW5uOnNlY3JldA==\n", NULL},
};

static void a_password_is_decoded_strictly(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(headers); i++) {
        uint8_t text[GUARD_TEXT_MAX];
        const uint8_t *p;
        size_t n = 0;

        p = guard_password(headers[i].header, text, &n);
        if ((p == NULL) != (headers[i].password == NULL))
            fail_msg("%s", headers[i].why);
        if (p != NULL &&
            (n != strlen(headers[i].password) || memcmp(p, headers[i].password, n) != 0))
            fail_msg("%s: %.*s", headers[i].why, (int)n, (const char *)p);
    }
}

/* ":" and then as many bytes of zero as there is room for, or one too many. */
static void a_password_is_bounded(void **state)
{
    uint8_t text[GUARD_TEXT_MAX];
    char header[GUARD_TEXT_MAX * 4];
    size_t n, most = GUARD_TEXT_MAX / 3 * 4;

    (void)state;
    for (size_t letters = 4; letters <= 2 * most; letters += 4) {
        memset(header, 'A', sizeof(header));
        memcpy(header, "Basic OgAA", 10);
        header[6 + letters] = '\0';
        if (letters > most) {
            assert_null(guard_password(header, text, &n));
        } else {
            assert_ptr_equal(guard_password(header, text, &n), text + 1);
            assert_int_equal(n, letters / 4 * 3 - 1);
        }
    }
}

/* ---- an exchange ---- */

#define RIGHT "HTTP_AUTHORIZATION=Basic YW55Om9wZW4=" /* any:open */
#define WRONG "HTTP_AUTHORIZATION=Basic YW55Om9wZW8="

static enum guard ask(const struct config *c, const char *const variables[], enum error *e)
{
    static char text[4][128];
    char *env[5] = {NULL};
    const struct exchange x = {.env = env, .watch_fd = -1};

    for (size_t i = 0; i < 4 && variables[i] != NULL; i++) {
        snprintf(text[i], sizeof(text[i]), "%s", variables[i]);
        env[i] = text[i];
    }
    return guard_check(&x, c, LEDGER, e);
}

static const struct {
    const char *why;
    const char *variables[4];
    const char *password;
    bool accounts; /* ann and Bob@Example.org are listed */
    enum guard guard;
} asked[] = {
    {"nobody has made a password", {RIGHT}, NULL, false, GUARD_CLOSED},
    {"nor is an empty one a password",
     {"HTTP_AUTHORIZATION=Basic Og=="},
     NULL,
     false,
     GUARD_CLOSED},
    {"nothing is shown", {NULL}, "open", false, GUARD_ASK},
    {"the password", {RIGHT}, "open", false, GUARD_OPEN},
    {"another", {WRONG}, "open", false, GUARD_WRONG},
    {"an empty one", {"HTTP_AUTHORIZATION=Basic Og=="}, "open", false, GUARD_WRONG},
    {"twice", {RIGHT, RIGHT}, "open", false, GUARD_WRONG},
    {"a key is none", {"HTTP_AUTHORIZATION=Bearer open"}, "open", false, GUARD_WRONG},
    {"an empty header", {"HTTP_AUTHORIZATION="}, "open", false, GUARD_WRONG},
    {"an account where none is listed", {"REMOTE_USER=ann"}, "open", false, GUARD_ASK},
    {"an empty account where none is listed", {"REMOTE_USER="}, "open", false, GUARD_ASK},
    {"a listed account", {"REMOTE_USER=ann"}, NULL, true, GUARD_OPEN},
    {"in capitals", {"REMOTE_USER= ANN "}, NULL, true, GUARD_OPEN},
    {"the list's capitals", {"REMOTE_USER=bob@example.org"}, NULL, true, GUARD_OPEN},
    {"with a wrong password beside it", {"REMOTE_USER=ann", WRONG}, "open", true, GUARD_OPEN},
    {"another account", {"REMOTE_USER=anne"}, NULL, true, GUARD_CLOSED},
    {"the beginning of one", {"REMOTE_USER=an"}, NULL, true, GUARD_CLOSED},
    {"an empty account", {"REMOTE_USER="}, NULL, true, GUARD_CLOSED},
    {"one of blanks", {"REMOTE_USER=  "}, NULL, true, GUARD_CLOSED},
    {"two accounts", {"REMOTE_USER=ann", "REMOTE_USER=ann"}, NULL, true, GUARD_CLOSED},
    {"a header of the caller's", {"HTTP_REMOTE_USER=ann"}, NULL, true, GUARD_CLOSED},
    {"another account, with the password",
     {"REMOTE_USER=eve", RIGHT},
     "open",
     true,
     GUARD_OPEN},
    {"another account, without it", {"REMOTE_USER=eve"}, "open", true, GUARD_ASK},
};

static void who_gets_in(void **state)
{
    static struct config none,
        listed = {.dashboard_accounts = {"ann", "Bob@Example.org"}, .n_dashboard_accounts = 2};

    (void)state;
    for (size_t i = 0; i < N(asked); i++) {
        const struct config *c = asked[i].accounts ? &listed : &none;
        enum error e;

        set_password(asked[i].password);
        if (ask(c, asked[i].variables, &e) != asked[i].guard)
            fail_msg("%s", asked[i].why);
    }
}

static void all_of_its_hash_counts(void **state)
{
    static const struct config none;
    const char *const right[] = {RIGHT, NULL};
    enum error e;

    (void)state;
    for (size_t bit = 0; bit < 8 * KEY_HASH; bit++) {
        set_password("open");
        stored[bit / 8] ^= (uint8_t)(1U << bit % 8);
        assert_int_equal(ask(&none, right, &e), GUARD_WRONG);
    }
}

static void a_store_that_cannot_be_asked_lets_nobody_in(void **state)
{
    static const struct config none;
    const char *const right[] = {RIGHT, NULL};
    enum error e;

    (void)state;
    set_password("open");
    stored_error = ERROR_STORE_IO;
    assert_int_equal(ask(&none, right, &e), GUARD_ERROR);
    assert_int_equal(e, ERROR_STORE_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_password_is_decoded_strictly),
        cmocka_unit_test(a_password_is_bounded),
        cmocka_unit_test(who_gets_in),
        cmocka_unit_test(all_of_its_hash_counts),
        cmocka_unit_test(a_store_that_cannot_be_asked_lets_nobody_in),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
