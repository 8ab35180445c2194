/* Which provider speaks which dialect, and what all dialects share. */
#include "gateway/provider.h"

#include <stdlib.h>
#include <string.h>

#include "gateway/anthropic.h"
#include "gateway/openai.h"

static const struct provider *const providers[] = {
    [PROVIDER_OPENAI] = &openai_provider,
    [PROVIDER_ANTHROPIC] = &anthropic_provider,
};

const struct provider *provider_of(enum provider_kind kind)
{
    return providers[kind];
}

bool provider_code(const char *word, char out[PROVIDER_CODE_MAX + 1])
{
    static const char small[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
    static const char big[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    size_t n = strlen(word);

    if (n == 0 || n > PROVIDER_CODE_MAX)
        return false;
    for (size_t i = 0; i < n; i++)
        if (strchr(small, word[i]) == NULL && strchr(big, word[i]) == NULL)
            return false;
    for (size_t i = 0; i < n; i++) {
        const char *at = strchr(big, word[i]);

        out[i] = word[i];
        if (at != NULL)
            out[i] = small[at - big];
    }
    out[n] = '\0';
    return true;
}

void part_free(struct part *p)
{
    free(p->text);
    memset(p, 0, sizeof *p);
}
