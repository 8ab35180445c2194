/* Any bytes as a row of the archive: whatever is taken for a transcript keeps its bounds and is
 * written again as it was read. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "store/transcript.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

static size_t sum(struct transcript_text t)
{
    size_t n = 0;

    for (size_t i = 0; i < t.n; i++)
        n += (unsigned char)t.at[i];
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kv_slice row = {data, size};
    struct transcript_key key;
    struct transcript t;
    uint8_t *again;
    size_t n = 0;

    if (transcript_key_read(&row, &key)) {
        uint8_t written[TRANSCRIPT_KEY_BYTES];

        transcript_key_write(&key, written);
        require(memcmp(written, data, size) == 0);
    }
    (void)transcript_row_ok(NULL, data, size, data, size);
    if (transcript_decode(&row, &t) != ERROR_NONE)
        return 0;
    require(t.n_messages <= TRANSCRIPT_MESSAGES_MAX);
    n = sum(t.answer);
    for (unsigned i = 0; i < t.n_messages; i++) {
        require(t.messages[i].role < TRANSCRIPT_ROLES);
        n += sum(t.messages[i].text);
    }
    (void)n;
    require(transcript_encode(&t, TRANSCRIPT_MAX, &again, &n) == ERROR_NONE);
    require(n == size && memcmp(again, data, n) == 0);
    free(again);
    transcript_free(&t);
    return 0;
}
