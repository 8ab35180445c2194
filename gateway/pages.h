/*
 * What people see: the chat page, the widget, and the owner's pages, which are gathered from the
 * store at most once a second in a process. Not in a program made with PAGES=0.
 */
#ifndef GATEWAY_PAGES_H
#define GATEWAY_PAGES_H

#include <stdbool.h>

#include "gateway/code.h"
#include "gateway/reply.h"
#include "gateway/route.h"
#include "gateway/site.h"

struct pages; /* the last report of this process */

enum error pages_new(struct pages **out);
void pages_free(struct pages *p);

/* Answers the exchange for a route of its own. The code is CODE_NONE or what was answered
 * instead; *gone: the caller left. */
enum code pages_handle(struct pages *p, enum route route, struct site *site,
                       const struct site_use *use, struct reply *reply, bool *gone);

#endif
