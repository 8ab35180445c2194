/* Any data of an event in OpenAI's dialect. */
#include "gateway/openai.h"
#include "tests/fuzz/part_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct part p;
    memset(&p, 0x5A, sizeof p);
    if (openai_provider.event("message", (const char *)data, size, &p)) {
        part_check(&p, size);
        require(!p.done || size == 6);
        part_free(&p);
    }
    return 0;
}
