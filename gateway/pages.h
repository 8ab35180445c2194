/*
 * What people see: the chat page, the widget, and the owner's pages, which are gathered from the
 * store at most once a second in a process, and written to one reader at a time. Not in a
 * program made with PAGES=0.
 */
#ifndef GATEWAY_PAGES_H
#define GATEWAY_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/code.h"
#include "gateway/reply.h"
#include "gateway/route.h"
#include "gateway/site.h"

struct pages; /* the last report of this process */

enum error pages_new(struct pages **out);
void pages_free(struct pages *p); /* once nobody is answered any more */

/* Answers the exchange for a route that is fixed. *gone: the caller left. */
void pages_fixed(enum route route, const struct config *c, struct reply *reply, bool *gone);

/* Answers it for one that is guarded, with a site that is in force. The code is CODE_NONE or what
 * was answered instead: CODE_BUSY while another of these pages is being written. */
enum code pages_guarded(struct pages *p, enum route route, struct site *site,
                        const struct site_use *use, struct reply *reply, bool *gone);

/* What the owner's pages say in place of a code's own sentence, which is for visitors; NULL: that.
 * It says nothing of the site, because nobody is known to be its owner then. */
const char *pages_detail(enum code code);

/* Lets the report go if nobody has asked for it for a while. In how many milliseconds it is worth
 * asking again; -1: not before somebody has been answered. */
int64_t pages_rest(struct pages *p);

#endif
