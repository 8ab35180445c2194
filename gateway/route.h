/*
 * Which request is for what (pure): an exact list of methods and paths. Nothing is normalised:
 * a path that is written in another way than in the list (doubled slashes, another case, a
 * trailing slash, an encoded byte) is not found, so that no second spelling of a route can be
 * treated otherwise than the first.
 */
#ifndef GATEWAY_ROUTE_H
#define GATEWAY_ROUTE_H

#include <stdbool.h>

enum route {
    ROUTE_NOT_FOUND,
    ROUTE_METHOD,    /* the path is there, the method is not: *allow says which are */
    ROUTE_OPTIONS,   /* OPTIONS of a path that is route_shared: *allow too */
    ROUTE_CHAT,      /* POST /v1/chat/completions */
    ROUTE_MODELS,    /* GET, HEAD /v1/models */
    ROUTE_STATUS,    /* GET, HEAD /status */
    ROUTE_SELF_TEST, /* POST /v1/self-test; with any other method it is not found */
    /* the pages; not found in a program made with PAGES=0 */
    ROUTE_PAGE,            /* GET, HEAD / */
    ROUTE_PAGE_BELOW,      /* GET, HEAD of the mount without its last slash: go to it */
    ROUTE_WIDGET,          /* GET, HEAD /widget.js */
    ROUTE_DASHBOARD,       /* GET, HEAD /dashboard */
    ROUTE_DASHBOARD_JSON,  /* GET, HEAD /dashboard.json */
    ROUTE_DASHBOARD_STYLE, /* GET, HEAD /dashboard.css */
    ROUTE_METRICS          /* GET, HEAD /metrics */
};

/*
 * The path asked for is script_name followed by path_info: servers divide it differently, but
 * the whole is the same. With `mount` it must be the mount followed by a listed path; the mount
 * "/" is the root: a listed path and nothing before it. Without, the whole is a listed path, or
 * path_info is one (then script_name is where the web server has mounted us). All but `allow`
 * may be NULL. Without `page` there is no chat page. *allow, set for ROUTE_METHOD and
 * ROUTE_OPTIONS alone, is the value of the Allow header, static storage.
 */
enum route route_find(const char *method, const char *script_name, const char *path_info,
                      const char *mount, bool page, const char **allow);

/* What is asked, in a word for the log: chat, models, status, page, widget, owner, options,
 * self-test; "-" for ROUTE_NOT_FOUND and ROUTE_METHOD. Static storage. */
const char *route_name(enum route r);
/* Whether it is for the owner, who has to show who he is. */
bool route_guarded(enum route r);
/* Whether it is of a file that is part of the program, or leads to one: answered in any state. */
bool route_fixed(enum route r);
/*
 * Whether pages of other origins that may ask may ask for this: with `allow` as route_find left it.
 * False for what a browser loads without such a question, and for all that is for the owner, whose
 * password his browser would send along with another page's question. What is not found is shared,
 * or its answer would tell it from the self-test.
 */
bool route_shared(enum route r, const char *allow);

#endif
