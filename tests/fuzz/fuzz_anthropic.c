/* Any bytes in Anthropic's dialect: as an event, as a whole answer, as the body of an error. */
#include "gateway/anthropic.h"
#include "tests/fuzz/part_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct part p;
    memset(&p, 0x5A, sizeof p);
    if (anthropic_provider.event("message", text, size, &p)) {
        part_check(&p, size);
        part_free(&p);
    }
    memset(&p, 0x5A, sizeof p);
    if (anthropic_provider.whole(text, size, &p)) {
        part_check(&p, size);
        require(!p.done);
        part_free(&p);
    }
    memset(&p, 0, sizeof p);
    p.error = true;
    anthropic_provider.error_code(text, size, p.code);
    part_check(&p, size);
    return 0;
}
