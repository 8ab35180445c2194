/* What holds of every part that a dialect has understood: whole, bounded, safe to be sent on. */
#ifndef TESTS_FUZZ_PART_CHECK_H
#define TESTS_FUZZ_PART_CHECK_H

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/provider.h"

static inline void require(bool ok)
{
    if (!ok)
        abort();
}

/* A part made from `size` bytes of data. */
static inline void part_check(const struct part *p, size_t size)
{
    const struct usage *u = &p->usage;
    require((p->text == NULL) == (p->bytes == 0) && p->bytes <= size);
    require(p->finish <= FINISH_OTHER);
    require(p->error || (!p->refused && p->code[0] == '\0'));
    require(memchr(p->code, '\0', sizeof p->code) != NULL);
    require(p->code[strspn(p->code, "abcdefghijklmnopqrstuvwxyz0123456789_")] == '\0');
    if (p->done)
        require(p->text == NULL && !u->known && !p->error);
    if (p->text != NULL) {
        json_t *text = json_stringn(p->text, p->bytes); /* NULL unless it is UTF-8 */
        require(text != NULL && strlen(p->text) == p->bytes);
        json_decref(text);
    }
    if (!u->known)
        return;
    require(u->input + u->output > 0 && u->input <= PRICE_COUNTED &&
            u->output <= PRICE_COUNTED);
    require(u->cached_input + u->cache_write <= u->input);
    require(usage_believable(u, PRICE_TOKENS_MAX, PRICE_TOKENS_MAX) ==
            (usage_whole(u) && u->input > 0));
}

#endif
