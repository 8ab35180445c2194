/* Any whole answer in OpenAI's dialect, also as the body of an error. */
#include "gateway/openai.h"
#include "tests/fuzz/part_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct part p;
    memset(&p, 0x5A, sizeof p);
    if (openai_provider.whole((const char *)data, size, &p)) {
        part_check(&p, size);
        require(!p.done);
        part_free(&p);
    }
    memset(&p, 0, sizeof p);
    p.error = true;
    openai_provider.error_code((const char *)data, size, p.code);
    part_check(&p, size);
    return 0;
}
