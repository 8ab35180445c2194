/* Origins: which pages may ask, and what they may send (F52). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/access.h"

#define N(a) (sizeof(a) / sizeof((a)[0]))

static const struct row {
    const char *why;
    const char *variables[5];
    bool present, refused;
    const char *origin;
} rows[] = {
    {"no page, or one that only reads", {"HTTP_HOST=here.example"}, false, false, NULL},
    {"our own",
     {"HTTP_HOST=here.example", "HTTP_ORIGIN=https://here.example"},
     true,
     false,
     NULL},
    {"our own, the port cut: nginx",
     {"HTTP_HOST=here.example", "SERVER_PORT=8080", "HTTP_ORIGIN=http://here.example:8080"},
     true,
     false,
     NULL},
    {"a listed one",
     {"HTTP_HOST=here.example", "HTTP_ORIGIN=https://page.example"},
     true,
     false,
     "https://page.example"},
    {"exactly as it came",
     {"HTTP_HOST=here.example", "HTTP_ORIGIN=https://PAGE.example:443"},
     true,
     false,
     "https://PAGE.example:443"},
    {"F52 another",
     {"HTTP_HOST=here.example", "HTTP_ORIGIN=https://evil.example"},
     true,
     true,
     NULL},
    {"F52 a listed one by another scheme",
     {"HTTP_HOST=here.example", "HTTP_ORIGIN=http://page.example"},
     true,
     true,
     NULL},
    {"F52 one that begins so",
     {"HTTP_HOST=here.example", "HTTP_ORIGIN=https://page.example.evil.example"},
     true,
     true,
     NULL},
    {"F52 a sandboxed frame", {"HTTP_HOST=here.example", "HTTP_ORIGIN=null"}, true, true, NULL},
    {"F52 nothing", {"HTTP_HOST=here.example", "HTTP_ORIGIN="}, true, true, NULL},
    {"F52 two",
     {"HTTP_HOST=here.example", "HTTP_ORIGIN=https://page.example",
      "HTTP_ORIGIN=https://page.example"},
     true,
     true,
     NULL},
    {"F52 two hosts",
     {"HTTP_HOST=here.example", "HTTP_HOST=evil.example", "HTTP_ORIGIN=https://here.example"},
     true,
     true,
     NULL},
    {"F52 no host", {"HTTP_ORIGIN=https://here.example"}, true, true, NULL},
};

static void set_variables(const struct row *r, char text[5][128], char *env[6])
{
    for (int k = 0; k < 5 && r->variables[k] != NULL; k++) {
        snprintf(text[k], sizeof text[k], "%s", r->variables[k]);
        env[k] = text[k];
    }
}

static void f52_pages_of_other_sites_are_refused(void **state)
{
    struct config c = {.n_allowed_origins = 1};

    (void)state;
    assert_true(origin_parse("https://page.example", &c.allowed_origins[0]));
    for (size_t i = 0; i < N(rows); i++) {
        char text[5][128];
        char *env[6] = {NULL};
        struct exchange x = {.env = env, .watch_fd = -1};
        struct access a;

        set_variables(&rows[i], text, env);
        access_of(&x, &c, true, &a);
        if (a.present != rows[i].present || a.refused != rows[i].refused || !a.varies ||
            a.credentials || (a.origin == NULL) != (rows[i].origin == NULL) ||
            (a.origin != NULL && strcmp(a.origin, rows[i].origin) != 0))
            fail_msg("%s", rows[i].why);
    }
}

/* A browser would send the owner's password along with the question of a page of the same site. */
static void what_is_not_shared_is_for_our_own_pages_alone(void **state)
{
    struct config c = {.n_allowed_origins = 2, .cookie_cross_site = true};

    (void)state;
    assert_true(origin_parse("https://page.example", &c.allowed_origins[0]));
    assert_true(origin_parse("https://here.example", &c.allowed_origins[1]));
    for (size_t i = 0; i < N(rows); i++) {
        char text[5][128];
        char *env[6] = {NULL};
        struct exchange x = {.env = env, .watch_fd = -1};
        struct access a;

        set_variables(&rows[i], text, env);
        access_of(&x, &c, false, &a);
        if (a.present != rows[i].present ||
            a.refused != (rows[i].refused || rows[i].origin != NULL) || a.origin != NULL ||
            a.varies || a.credentials)
            fail_msg("%s", rows[i].why);
    }
}

static void without_a_configuration_only_our_own_pages_ask(void **state)
{
    char host[] = "HTTP_HOST=here.example", own[] = "HTTP_ORIGIN=https://here.example";
    char other[] = "HTTP_ORIGIN=https://page.example";
    char *env[] = {host, own, NULL};
    struct exchange x = {.env = env, .watch_fd = -1};
    struct access a;

    (void)state;
    access_of(&x, NULL, true, &a);
    assert_false(a.refused || a.varies);
    env[1] = other;
    access_of(&x, NULL, true, &a);
    assert_true(a.refused && !a.varies);
}

static const struct {
    const char *why, *asked, *allowed;
} headers[] = {
    {"what the web server has not handed over", NULL, "authorization, content-type"},
    {"nothing", "", ""},
    {"an empty list", " ,, ", ""},
    {"what the interface knows", "content-type,authorization", "content-type, authorization"},
    {"in any case", "Content-Type", "Content-Type"},
    {"what OpenAI's client adds", "x-stainless-os, x-stainless-retry-count,user-agent",
     "x-stainless-os, x-stainless-retry-count, user-agent"},
    {"nothing else", "cookie, x-evil, authorizations, content-typ, x-stainless-", ""},
    {"never the owner's secret", "x-pennygate-bypass,content-type", "content-type"},
    {"no bytes that end a header", "x-stainless-a\r\nSet-Cookie:, x-stainless-\x80", ""},
};

static void only_known_headers_may_be_sent(void **state)
{
    char out[ACCESS_HEADERS_MAX];

    (void)state;
    for (size_t i = 0; i < N(headers); i++) {
        access_headers(headers[i].asked, out);
        if (strcmp(out, headers[i].allowed) != 0)
            fail_msg("%s: %s", headers[i].why, out);
    }
}

static void what_does_not_fit_is_left_out(void **state)
{
    static char asked[40000];
    char out[ACCESS_HEADERS_MAX];

    (void)state;
    for (int i = 0; i < 500; i++)
        snprintf(asked + strlen(asked), sizeof asked - strlen(asked), "x-stainless-%d,", i);
    access_headers(asked, out);
    assert_int_equal(strncmp(out, "x-stainless-0, x-stainless-1, ", 30), 0);
    assert_true(strlen(out) > ACCESS_HEADERS_MAX - 20);
    assert_true(out[strlen(out) - 1] != ',' && out[strlen(out) - 1] != ' ');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f52_pages_of_other_sites_are_refused),
        cmocka_unit_test(what_is_not_shared_is_for_our_own_pages_alone),
        cmocka_unit_test(without_a_configuration_only_our_own_pages_ask),
        cmocka_unit_test(only_known_headers_may_be_sent),
        cmocka_unit_test(what_does_not_fit_is_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
