/* Any whole answer: what is understood is whole, bounded and safe to be sent on. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/openai.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

static void check(const struct part *p, size_t size)
{
    require((p->text == NULL) == (p->bytes == 0) && p->bytes <= size);
    require(p->finish <= FINISH_OTHER);
    require(p->error || !p->refused);
    require(!p->done);
    if (p->text != NULL) {
        json_t *text = json_stringn(p->text, p->bytes); /* NULL unless it is UTF-8 */
        require(text != NULL && strlen(p->text) == p->bytes);
        json_decref(text);
    }
    if (p->usage.known)
        require(usage_believable(&p->usage, PRICE_TOKENS_MAX, PRICE_TOKENS_MAX) &&
                p->usage.input + p->usage.output > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct part p;
    memset(&p, 0x5A, sizeof p);
    if (openai_provider.whole((const char *)data, size, &p)) {
        check(&p, size);
        part_free(&p);
    }
    return 0;
}
