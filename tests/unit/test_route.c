/* Routes: an exact list of methods and paths, however the web server divides the path (F10). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gateway/route.h"

#define CHAT      "/v1/chat/completions"
#define MODELS    "/v1/models"
#define STATUS    "/status"
#define SELF_TEST "/v1/self-test"

/* Of a program with pages, and of one with all that is no page. */
#define PAGE(route)  (PAGES ? (route) : ROUTE_NOT_FOUND)
#define WHOLE(route) (SMALL ? ROUTE_NOT_FOUND : (route))

static const struct {
    const char *why;
    const char *method, *script, *info, *mount;
    enum route route;
} rows[] = {
    {"nginx and Apache put the whole path into SCRIPT_NAME", "POST", CHAT, NULL, NULL,
     ROUTE_CHAT},
    {"an empty PATH_INFO is none", "POST", CHAT, "", NULL, ROUTE_CHAT},
    {"lighttpd mounted at the root", "POST", "", CHAT, NULL, ROUTE_CHAT},
    {"lighttpd mounted at /v1", "POST", "/v1", "/chat/completions", NULL, ROUTE_CHAT},
    {"divided within a name", "POST", "/v1/ch", "at/completions", NULL, ROUTE_CHAT},
    {"mounted elsewhere by the server alone", "POST", "/ai", CHAT, NULL, ROUTE_CHAT},
    {"CGI", "POST", "/cgi-bin/pennygate", CHAT, NULL, ROUTE_CHAT},
    {"models", "GET", MODELS, NULL, NULL, ROUTE_MODELS},
    {"models without a body", "HEAD", MODELS, NULL, NULL, ROUTE_MODELS},
    {"the status", "GET", STATUS, NULL, NULL, ROUTE_STATUS},
    {"the status without a body", "HEAD", STATUS, NULL, NULL, ROUTE_STATUS},
    {"the owner's self-test", "POST", SELF_TEST, NULL, NULL, WHOLE(ROUTE_SELF_TEST)},
    {"the owner's self-test below a mount", "POST", "/ai", SELF_TEST, "/ai",
     WHOLE(ROUTE_SELF_TEST)},
    {"nobody else learns that it is there", "GET", SELF_TEST, NULL, NULL, ROUTE_NOT_FOUND},
    {"nor by a preflight", "OPTIONS", SELF_TEST, NULL, NULL, ROUTE_NOT_FOUND},
    {"a preflight", "OPTIONS", CHAT, NULL, NULL, ROUTE_OPTIONS},
    {"a preflight of another path", "OPTIONS", "/v1", "/models", NULL, ROUTE_OPTIONS},
    {"the root as mount", "POST", CHAT, NULL, "/", ROUTE_CHAT},
    {"the root as mount, divided", "POST", "/v1", "/chat/completions", "/", ROUTE_CHAT},
    {"the root as mount, all in PATH_INFO", "GET", "", STATUS, "/", ROUTE_STATUS},
    {"a mount, whole path in SCRIPT_NAME", "POST", "/ai" CHAT, NULL, "/ai", ROUTE_CHAT},
    {"a mount, divided after it", "POST", "/ai", CHAT, "/ai", ROUTE_CHAT},
    {"a mount, divided before its end", "POST", "/a", "i" CHAT, "/ai", ROUTE_CHAT},
    {"a mount, divided after more than it", "POST", "/ai/v1", "/chat/completions", "/ai",
     ROUTE_CHAT},
    {"a mount, all in PATH_INFO", "POST", NULL, "/ai" CHAT, "/ai", ROUTE_CHAT},

    {"no method", NULL, CHAT, NULL, NULL, ROUTE_METHOD},
    {"F10 GET for a chat", "GET", CHAT, NULL, NULL, ROUTE_METHOD},
    {"F10 HEAD for a chat", "HEAD", CHAT, NULL, NULL, ROUTE_METHOD},
    {"F10 PUT", "PUT", CHAT, NULL, NULL, ROUTE_METHOD},
    {"F10 a method in lower case", "post", CHAT, NULL, NULL, ROUTE_METHOD},
    {"F10 a method that begins so", "POSTS", CHAT, NULL, NULL, ROUTE_METHOD},
    {"F10 POST for models", "POST", MODELS, NULL, NULL, ROUTE_METHOD},
    {"F10 POST for the status", "POST", STATUS, NULL, NULL, ROUTE_METHOD},
    {"F10 a preflight in lower case", "options", CHAT, NULL, NULL, ROUTE_METHOD},

    {"nothing", "POST", NULL, NULL, NULL, ROUTE_NOT_FOUND},
    {"the root", "GET", "/", NULL, NULL, PAGE(ROUTE_PAGE)},
    {"the root below a mount that the server alone knows", "GET", "/cgi-bin/pennygate", "/",
     NULL, PAGE(ROUTE_PAGE)},
    {"the root as mount", "HEAD", "/", NULL, "/", PAGE(ROUTE_PAGE)},
    {"the root as mount, all in PATH_INFO", "GET", "", "/", "/", PAGE(ROUTE_PAGE)},
    {"the page below a mount", "GET", "/ai/", NULL, "/ai", PAGE(ROUTE_PAGE)},
    {"the page below a mount, divided", "GET", "/ai", "/", "/ai", PAGE(ROUTE_PAGE)},
    {"posting to the page", "POST", "/ai", "/", "/ai", PAGE(ROUTE_METHOD)},
    {"two slashes", "GET", "/ai//", NULL, "/ai", ROUTE_NOT_FOUND},
    {"two slashes, divided", "GET", "/ai", "//", "/ai", ROUTE_NOT_FOUND},
    {"nothing at the root as mount", "GET", "", NULL, "/", ROUTE_NOT_FOUND},
    {"the mount alone", "GET", "/ai", NULL, "/ai", PAGE(ROUTE_PAGE_BELOW)},
    {"the mount alone, divided", "HEAD", "/a", "i", "/ai", PAGE(ROUTE_PAGE_BELOW)},
    {"a preflight of the mount alone", "OPTIONS", "/ai", NULL, "/ai", ROUTE_NOT_FOUND},
    {"a path alone where no mount is known", "GET", "/ai", NULL, NULL, ROUTE_NOT_FOUND},
    {"the widget", "GET", "/ai/widget.js", NULL, "/ai", PAGE(ROUTE_WIDGET)},
    {"the widget in upper case", "GET", "/Widget.js", NULL, NULL, ROUTE_NOT_FOUND},
    {"a preflight of the page", "OPTIONS", "/", NULL, NULL, PAGE(ROUTE_METHOD)},
    {"a preflight of the widget", "OPTIONS", "/widget.js", NULL, NULL, PAGE(ROUTE_METHOD)},
    {"a preflight of the dashboard", "OPTIONS", "/dashboard", NULL, NULL, PAGE(ROUTE_METHOD)},
    {"a preflight of its figures", "OPTIONS", "/ai", "/dashboard.json", "/ai",
     PAGE(ROUTE_METHOD)},
    {"a preflight of its style", "OPTIONS", "/dashboard.css", NULL, NULL, PAGE(ROUTE_METHOD)},
    {"a preflight of the metrics", "OPTIONS", "/metrics", NULL, NULL, PAGE(ROUTE_METHOD)},
    {"the dashboard", "GET", "/dashboard", NULL, NULL, PAGE(ROUTE_DASHBOARD)},
    {"the dashboard as a directory", "GET", "/dashboard/", NULL, NULL, ROUTE_NOT_FOUND},
    {"posting to the dashboard", "POST", "/dashboard", NULL, NULL, PAGE(ROUTE_METHOD)},
    {"its figures", "GET", "/ai", "/dashboard.json", "/ai", PAGE(ROUTE_DASHBOARD_JSON)},
    {"its style", "GET", "/dashboard.css", NULL, NULL, PAGE(ROUTE_DASHBOARD_STYLE)},
    {"the metrics", "HEAD", "/metrics", NULL, NULL, PAGE(ROUTE_METRICS)},
    {"F10 doubled slash", "POST", "/" CHAT, NULL, NULL, ROUTE_NOT_FOUND},
    {"F10 doubled slash in PATH_INFO", "POST", "/ai", "/" CHAT, NULL, ROUTE_NOT_FOUND},
    {"F10 doubled slash within", "POST", "/v1//chat/completions", NULL, NULL, ROUTE_NOT_FOUND},
    {"F10 another endpoint", "POST", "/v1/embeddings", NULL, NULL, ROUTE_NOT_FOUND},
    {"F10 trailing slash", "POST", CHAT "/", NULL, NULL, ROUTE_NOT_FOUND},
    {"F10 a trailing slash in PATH_INFO is the page's", "POST", CHAT, "/", NULL,
     PAGE(ROUTE_METHOD)},
    {"F10 trailing slash behind a mount", "POST", "/ai", CHAT "/", "/ai", ROUTE_NOT_FOUND},
    {"F10 upper case", "POST", "/V1/CHAT/COMPLETIONS", NULL, NULL, ROUTE_NOT_FOUND},
    {"F10 encoded slash", "POST", "/v1/chat%2fcompletions", NULL, NULL, ROUTE_NOT_FOUND},
    {"F10 dots", "POST", "/v1/x/../chat/completions", NULL, NULL, ROUTE_NOT_FOUND},
    {"F10 a query in the path", "POST", CHAT "?x", NULL, NULL, ROUTE_NOT_FOUND},
    {"F10 the end of a longer path in SCRIPT_NAME", "POST", "/ai" CHAT, NULL, NULL,
     ROUTE_NOT_FOUND},
    {"a preflight of nothing", "OPTIONS", "/v1", NULL, NULL, ROUTE_NOT_FOUND},
    {"F10 the status in upper case", "GET", "/STATUS", NULL, NULL, ROUTE_NOT_FOUND},
    {"F10 below the root as mount there is no other", "POST", "/ai", CHAT, "/",
     ROUTE_NOT_FOUND},
    {"F10 a doubled slash at the root", "POST", "/", CHAT, "/", ROUTE_NOT_FOUND},
    {"part of a path", "POST", "/v1/chat", NULL, NULL, ROUTE_NOT_FOUND},
    {"the mount alone", "POST", "/ai", NULL, "/ai", ROUTE_NOT_FOUND},
    {"less than the mount", "POST", "/a", NULL, "/ai", ROUTE_NOT_FOUND},
    {"beside the mount", "POST", CHAT, NULL, "/ai", ROUTE_NOT_FOUND},
    {"another mount", "POST", "/ab", CHAT, "/ai", ROUTE_NOT_FOUND},
    {"a longer mount", "POST", "/aix" CHAT, NULL, "/ai", ROUTE_NOT_FOUND},
    {"F10 doubled slash after the mount", "POST", "/ai/" CHAT, NULL, "/ai", ROUTE_NOT_FOUND},
    {"F10 PATH_INFO alone is not the path if there is a mount", "POST", "/x", CHAT, "/ai",
     ROUTE_NOT_FOUND},
};

static void f10_routes_are_exact(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *allow = NULL;
        enum route r = route_find(rows[i].method, rows[i].script, rows[i].info, rows[i].mount,
                                  true, &allow);

        if (r != rows[i].route || (allow != NULL) != (r == ROUTE_METHOD || r == ROUTE_OPTIONS))
            fail_msg("%s: %d", rows[i].why, (int)r);
    }
}

static void without_its_page_a_site_has_nothing_at_its_root(void **state)
{
    static const char *const methods[] = {"GET", "POST", "OPTIONS", NULL};
    const char *allow = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        assert_int_equal(route_find(methods[i], "/", NULL, NULL, false, &allow),
                         ROUTE_NOT_FOUND);
        assert_int_equal(route_find(methods[i], "/ai", "/", "/ai", false, &allow),
                         ROUTE_NOT_FOUND);
        assert_int_equal(route_find(methods[i], "/ai", NULL, "/ai", false, &allow),
                         ROUTE_NOT_FOUND);
        assert_null(allow);
    }
    assert_int_equal(route_find("GET", "/widget.js", NULL, NULL, false, &allow),
                     PAGE(ROUTE_WIDGET));
}

static void what_is_asked_has_a_word(void **state)
{
    static const struct {
        enum route route;
        const char *name;
    } words[] = {
        {ROUTE_NOT_FOUND, "-"},         {ROUTE_METHOD, "-"},
        {ROUTE_OPTIONS, "options"},     {ROUTE_CHAT, "chat"},
        {ROUTE_MODELS, "models"},       {ROUTE_STATUS, "status"},
        {ROUTE_SELF_TEST, "self-test"}, {ROUTE_PAGE, "page"},
        {ROUTE_PAGE_BELOW, "page"},     {ROUTE_WIDGET, "widget"},
        {ROUTE_DASHBOARD, "owner"},     {ROUTE_DASHBOARD_JSON, "owner"},
        {ROUTE_METRICS, "owner"},       {ROUTE_DASHBOARD_STYLE, "owner"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        assert_string_equal(route_name(words[i].route), words[i].name);
}

static void each_page_is_the_owners_or_everybodys(void **state)
{
    (void)state;
    for (int r = ROUTE_NOT_FOUND; r <= ROUTE_METRICS; r++) {
        assert_int_equal(route_guarded((enum route)r) + route_fixed((enum route)r),
                         r >= ROUTE_PAGE);
    }
}

/* For the rest a page of another origin has no use, and some of it is the owner's. */
static void pages_of_other_origins_may_ask_for_the_model_alone(void **state)
{
    static const char *const wrong[] = {"POST", "PUT", "OPTIONS", "get", ""};
    static const char *const paths[] = {
        "/", "/widget.js", "/dashboard", "/dashboard.json", "/dashboard.css", "/metrics"};
    const char *allow = NULL;

    (void)state;
    for (int r = ROUTE_NOT_FOUND; r <= ROUTE_METRICS; r++)
        if (r != ROUTE_METHOD)
            assert_int_equal(route_shared((enum route)r, NULL), r < ROUTE_PAGE);
    assert_int_equal(route_find("PUT", CHAT, NULL, NULL, true, &allow), ROUTE_METHOD);
    assert_true(route_shared(ROUTE_METHOD, allow));
    for (size_t p = 0; PAGES && p < sizeof(paths) / sizeof(paths[0]); p++) {
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
            enum route r = route_find(wrong[i], paths[p], NULL, NULL, true, &allow);

            assert_int_equal(r, ROUTE_METHOD);
            assert_string_equal(allow, "GET, HEAD");
            assert_false(route_shared(r, allow));
        }
    }
}

static void a_wrong_method_is_told_the_right_ones(void **state)
{
    const char *allow = NULL;

    (void)state;
    assert_int_equal(route_find("PUT", CHAT, NULL, NULL, true, &allow), ROUTE_METHOD);
    assert_string_equal(allow, "POST, OPTIONS");
    assert_int_equal(route_find("PUT", MODELS, NULL, NULL, true, &allow), ROUTE_METHOD);
    assert_string_equal(allow, "GET, HEAD, OPTIONS");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f10_routes_are_exact),
        cmocka_unit_test(without_its_page_a_site_has_nothing_at_its_root),
        cmocka_unit_test(what_is_asked_has_a_word),
        cmocka_unit_test(each_page_is_the_owners_or_everybodys),
        cmocka_unit_test(pages_of_other_origins_may_ask_for_the_model_alone),
        cmocka_unit_test(a_wrong_method_is_told_the_right_ones),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
