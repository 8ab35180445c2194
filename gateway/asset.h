/*
 * The files that are part of the program: the chat page, the widget, the dashboard's style. They
 * stand as they are in gateway/web/ and are put in by the Makefile, without comments and
 * indentation. Not in a program made with PAGES=0.
 */
#ifndef GATEWAY_ASSET_H
#define GATEWAY_ASSET_H

#include <stddef.h>

enum asset_name { ASSET_PAGE, ASSET_WIDGET, ASSET_DASHBOARD_STYLE, ASSETS };

struct asset {
    const char *type; /* "text/javascript; charset=utf-8" */
    const char *at;
    size_t n;
    const char *tag; /* for ETag, with its quotes: changes with the content */
};
const struct asset *asset(enum asset_name name);

#endif
