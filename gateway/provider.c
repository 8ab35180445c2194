/* Which provider speaks which dialect, and what all dialects share. */
#include "gateway/provider.h"

#include <stdlib.h>
#include <string.h>

#include "gateway/openai.h"

static const struct provider *const providers[] = {
    [PROVIDER_OPENAI] = &openai_provider,
};

const struct provider *provider_of(enum provider_kind kind)
{
    return providers[kind];
}

void part_free(struct part *p)
{
    free(p->text);
    memset(p, 0, sizeof *p);
}
