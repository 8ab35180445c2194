/* Any text as what a browser sends: an origin that is understood is the same written out, and
 * its host's own; a cookie that is read is what would be written; one that is found lies in its
 * header. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/cookie.h"
#include "gateway/origin.h"

#define TODAY 20000
#define NAME  "pennygate_0123abcd"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

static void check_origin(const char *text)
{
    struct origin o, again, before;
    char written[ORIGIN_HOST_MAX + 32];

    memset(&o, 0x5a, sizeof o);
    before = o;
    if (!origin_parse(text, &o)) {
        require(memcmp(&o, &before, sizeof o) == 0);
        require(origin_parse("https://example.org", &o));
        origin_is_host(&o, text, text); /* as a host it may be anything */
        return;
    }
    require(o.port > 0 && o.host[0] && strlen(o.host) <= ORIGIN_HOST_MAX);
    require(strpbrk(o.host, " ,;/@\"'\\\r\n") == NULL);
    snprintf(written, sizeof written, "%s://%s:%u", o.https ? "https" : "http", o.host, o.port);
    require(origin_parse(written, &again) && origin_equal(&o, &again));
    require(origin_is_host(&o, strstr(written, "//") + 2, NULL));
    require(!origin_is_host(&o, text, NULL)); /* with its scheme it is no host */
}

static void check_cookie(const uint8_t key[MAC_SIZE], const uint8_t *data, size_t size)
{
    char written[COOKIE_TEXT_MAX];
    struct cookie c;

    if (!cookie_read(key, (const char *)data, size, TODAY, &c))
        return;
    require(c.day <= TODAY + 1 && c.day >= TODAY - COOKIE_DAYS);
    cookie_write(key, &c, written);
    require(size == strlen(written) && memcmp(data, written, size) == 0);
}

static void check_found(const char *text, size_t n)
{
    const char *const headers[] = {text, text};
    const char *value = NULL;
    size_t value_n = 0;
    unsigned found = cookie_find(headers, 1, NAME, &value, &value_n);

    require((found > 0) == (value != NULL));
    if (found > 0)
        require(value > text && value + value_n <= text + n && !memchr(value, ';', value_n));
    require(cookie_find(headers, 2, NAME, &value, &value_n) == 2 * found);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t key[MAC_SIZE] = "the key of the corpus' cookies ";
    char *text = malloc(size + 1);

    require(text != NULL);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    check_origin(text);
    check_cookie(key, data, size);
    check_found(text, strlen(text));
    free(text);
    return 0;
}
