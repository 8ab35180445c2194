/*
 * Scans JSON for its depth and number of values, then lets jansson parse it. Security: the scan
 * agrees with jansson about what is a string for as long as jansson reads on.
 */
#include "gateway/jsontext.h"

#include <stdbool.h>

/* The index after the string that begins at text[i], or n. */
static size_t skip_string(const char *text, size_t n, size_t i)
{
    for (i++; i < n && text[i] != '"'; i++)
        if (text[i] == '\\')
            i++;
    return i < n ? i + 1 : n;
}

static bool bounded(const char *text, size_t n, unsigned depth_max)
{
    unsigned depth = 0, containers = 0, values = 1;
    size_t i = 0;
    while (i < n) {
        if (text[i] == '"') {
            i = skip_string(text, n, i);
            continue;
        }
        if (text[i] == '[' || text[i] == '{') {
            if (++depth > depth_max || ++containers > JSONTEXT_CONTAINERS_MAX)
                return false;
            values++;
        } else if (text[i] == ']' || text[i] == '}') {
            depth -= depth > 0; /* one too many is for jansson to find */
        } else if (text[i] == ',') {
            values++;
        }
        if (values > JSONTEXT_VALUES_MAX)
            return false;
        i++;
    }
    return true;
}

json_t *jsontext_load(const char *text, size_t n, unsigned depth_max)
{
    return bounded(text, n, depth_max) ? json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL)
                                       : NULL;
}
