/* The table of routes. Security: an allow-list, compared byte by byte. */
#include "gateway/route.h"

#include <stddef.h>
#include <string.h>

#define ROUTE_METHODS 2
#define READ          {"GET", "HEAD"}, "GET, HEAD, OPTIONS"
#define READ_HERE     {"GET", "HEAD"}, "GET, HEAD" /* by no page of another origin */

static const struct {
    const char *path;
    const char *methods[ROUTE_METHODS];
    const char *allow;
    enum route route;
} routes[] = {
    {"/v1/chat/completions", {"POST", NULL}, "POST, OPTIONS", ROUTE_CHAT},
    {"/v1/models", READ, ROUTE_MODELS},
    {"/status", READ, ROUTE_STATUS},
    {"/v1/self-test",
     {"POST", NULL},
     NULL,
     ROUTE_SELF_TEST}, /* no method shows that it is there */
#if PAGES
    {"/", READ_HERE, ROUTE_PAGE},
    {"/widget.js", READ_HERE, ROUTE_WIDGET},
    {"/dashboard", READ_HERE, ROUTE_DASHBOARD},
    {"/dashboard.json", READ_HERE, ROUTE_DASHBOARD_JSON},
    {"/dashboard.css", READ_HERE, ROUTE_DASHBOARD_STYLE},
    {"/metrics", READ_HERE, ROUTE_METRICS},
#endif
};

/* Words for the log; nothing of what a stranger has written. */
static const char *const names[] = {
    [ROUTE_OPTIONS] = "options",       [ROUTE_CHAT] = "chat",
    [ROUTE_MODELS] = "models",         [ROUTE_STATUS] = "status",
    [ROUTE_SELF_TEST] = "self-test",   [ROUTE_PAGE] = "page",
    [ROUTE_PAGE_BELOW] = "page",       [ROUTE_WIDGET] = "widget",
    [ROUTE_DASHBOARD] = "owner",       [ROUTE_DASHBOARD_JSON] = "owner",
    [ROUTE_DASHBOARD_STYLE] = "owner", [ROUTE_METRICS] = "owner",
};

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

static bool has_options(const char *allow)
{
    return strstr(allow, "OPTIONS") != NULL;
}

static enum route check_method(size_t i, const char *method, const char **allow)
{
    for (unsigned m = 0; m < ROUTE_METHODS && routes[i].methods[m] != NULL; m++) {
        if (strcmp(method, routes[i].methods[m]) == 0)
            return routes[i].route;
    }
    if (routes[i].allow == NULL)
        return ROUTE_NOT_FOUND;
    *allow = routes[i].allow;
    return strcmp(method, "OPTIONS") == 0 && has_options(*allow) ? ROUTE_OPTIONS : ROUTE_METHOD;
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
    const char *name = (size_t)r < sizeof(names) / sizeof(names[0]) ? names[r] : NULL;

    return name != NULL ? name : "-";
}

bool route_guarded(enum route r)
{
    return r == ROUTE_DASHBOARD || r == ROUTE_DASHBOARD_JSON || r == ROUTE_METRICS;
}

bool route_fixed(enum route r)
{
    return r == ROUTE_PAGE || r == ROUTE_PAGE_BELOW || r == ROUTE_WIDGET ||
           r == ROUTE_DASHBOARD_STYLE;
}

bool route_shared(enum route r, const char *allow)
{
    return r == ROUTE_METHOD ? has_options(allow) : !route_guarded(r) && !route_fixed(r);
}
