/* The table of routes. Security: an allow-list, compared byte by byte. */
#include "gateway/route.h"

#include <stddef.h>
#include <string.h>

/* Who may ask for it: from this alone follow guarded, fixed, shared and what Allow says. */
enum kind {
    KIND_INTERFACE, /* pages of other origins too, so that it answers preflights */
    KIND_FILE,      /* anybody, but no page of another origin by script */
    KIND_OWNER,     /* who shows that he is the owner */
    KIND_SELF_TEST  /* the owner, and nobody else learns that it is there */
};

/* With a word for the log: nothing of what a stranger has written. */
static const struct {
    const char *word;
    enum kind kind;
} about[] = {
    [ROUTE_NOT_FOUND] = {"-", KIND_INTERFACE},
    [ROUTE_METHOD] = {"-", KIND_INTERFACE}, /* or as the path's: route_shared */
    [ROUTE_OPTIONS] = {"options", KIND_INTERFACE},
    [ROUTE_CHAT] = {"chat", KIND_INTERFACE},
    [ROUTE_MODELS] = {"models", KIND_INTERFACE},
    [ROUTE_STATUS] = {"status", KIND_INTERFACE},
    [ROUTE_SELF_TEST] = {"self-test", KIND_SELF_TEST},
    [ROUTE_PAGE] = {"page", KIND_FILE},
    [ROUTE_PAGE_BELOW] = {"page", KIND_FILE},
    [ROUTE_WIDGET] = {"widget", KIND_FILE},
    [ROUTE_DASHBOARD] = {"owner", KIND_OWNER},
    [ROUTE_DASHBOARD_JSON] = {"owner", KIND_OWNER},
    [ROUTE_DASHBOARD_STYLE] = {"owner", KIND_FILE},
    [ROUTE_METRICS] = {"owner", KIND_OWNER},
};

enum verb { READ, POST, VERBS };

#define VERB_METHODS 2
static const char *const methods[VERBS][VERB_METHODS] = {
    [READ] = {"GET", "HEAD"},
    [POST] = {"POST", NULL},
};

/* What Allow says; NULL: there is nothing here for any other method. */
static const char *const allowed[][VERBS] = {
    [KIND_INTERFACE] = {[READ] = "GET, HEAD, OPTIONS", [POST] = "POST, OPTIONS"},
    [KIND_FILE] = {[READ] = "GET, HEAD"},
    [KIND_OWNER] = {[READ] = "GET, HEAD"},
    [KIND_SELF_TEST] = {NULL},
};

static const struct {
    const char *path;
    enum verb verb;
    enum route route;
} routes[] = {
    {"/v1/chat/completions", POST, ROUTE_CHAT},
    {"/v1/models", READ, ROUTE_MODELS},
    {"/status", READ, ROUTE_STATUS},
#if !SMALL
    {"/v1/self-test", POST, ROUTE_SELF_TEST},
#endif
#if PAGES
    {"/", READ, ROUTE_PAGE},
    {"/widget.js", READ, ROUTE_WIDGET},
    {"/dashboard", READ, ROUTE_DASHBOARD},
    {"/dashboard.json", READ, ROUTE_DASHBOARD_JSON},
    {"/dashboard.css", READ, ROUTE_DASHBOARD_STYLE},
    {"/metrics", READ, ROUTE_METRICS},
#endif
};

static enum kind kind_of(enum route r)
{
    return (size_t)r < sizeof(about) / sizeof(about[0]) ? about[r].kind : KIND_OWNER;
}

/* Whether first and second, one after the other, are `whole`. */
static bool joined_equal(const char *first, const char *second, const char *whole)
{
    size_t n = strlen(first);

    return strncmp(first, whole, n) == 0 && strcmp(second, whole + n) == 0;
}

/* The path asked for without the configured mount, in two parts; false if it is elsewhere. */
static bool below_mount(const char *mount, const char **script, const char **info)
{
    size_t n = strlen(mount), m = strlen(*script);

    if (m >= n) {
        if (strncmp(*script, mount, n) != 0)
            return false;
        *script += n;
        return true;
    }
    if (strncmp(*script, mount, m) != 0 || strncmp(*info, mount + m, n - m) != 0)
        return false;
    *script = "";
    *info += n - m;
    return true;
}

/* Only the interface's Allow has it. */
static bool has_options(const char *allow)
{
    return strstr(allow, "OPTIONS") != NULL;
}

static enum route check_method(size_t i, const char *method, const char **allow)
{
    const enum verb verb = routes[i].verb;
    const char *others = allowed[kind_of(routes[i].route)][verb];

    for (unsigned m = 0; m < VERB_METHODS && methods[verb][m] != NULL; m++) {
        if (strcmp(method, methods[verb][m]) == 0)
            return routes[i].route;
    }
    if (others == NULL)
        return ROUTE_NOT_FOUND;
    *allow = others;
    return strcmp(method, "OPTIONS") == 0 && has_options(others) ? ROUTE_OPTIONS : ROUTE_METHOD;
}

/* What is at the mount itself, without the slash behind it, which a page's links need. */
static enum route at_mount(const char *method, bool page)
{
    bool reads = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;

    return PAGES && page && reads ? ROUTE_PAGE_BELOW : ROUTE_NOT_FOUND;
}

enum route route_find(const char *method, const char *script_name, const char *path_info,
                      const char *mount, bool page, const char **allow)
{
    const char *script = script_name != NULL ? script_name : "";
    const char *info = path_info != NULL ? path_info : "";

    if (method == NULL)
        method = "";
    if (mount != NULL && strcmp(mount, "/") == 0)
        mount = "";
    if (mount != NULL && !below_mount(mount, &script, &info))
        return ROUTE_NOT_FOUND;
    if (mount != NULL && mount[0] != '\0' && joined_equal(script, info, ""))
        return at_mount(method, page);
    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
        if (!page && routes[i].route == ROUTE_PAGE)
            continue;
        if (joined_equal(script, info, routes[i].path) ||
            (mount == NULL && strcmp(info, routes[i].path) == 0))
            return check_method(i, method, allow);
    }
    return ROUTE_NOT_FOUND;
}

const char *route_name(enum route r)
{
    return (size_t)r < sizeof(about) / sizeof(about[0]) ? about[r].word : "-";
}

bool route_guarded(enum route r)
{
    return kind_of(r) == KIND_OWNER;
}

bool route_fixed(enum route r)
{
    return kind_of(r) == KIND_FILE;
}

bool route_shared(enum route r, const char *allow)
{
    return r == ROUTE_METHOD ? has_options(allow) : !route_guarded(r) && !route_fixed(r);
}
