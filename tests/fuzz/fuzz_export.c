/* Any bytes as a line of an export: what is taken for one keeps its bounds and is written again
 * to the byte. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "store/export_line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct export_line l;
    static char again[EXPORT_LINE_MAX];

    if (export_line_read((const char *)data, size, &l) != ERROR_NONE)
        return 0;
    require(l.kind <= EXPORT_END);
    if (l.kind == EXPORT_ROW) {
        require(l.key.n > 0 && l.key.n <= KV_KEY_MAX && l.value.n <= RECORD_MAX);
        (void)record_row_ok(l.key.bytes, l.key.n, l.value.bytes, l.value.n);
    }
    require(export_line_write(&l, again) == size && memcmp(again, data, size) == 0);
    return 0;
}
