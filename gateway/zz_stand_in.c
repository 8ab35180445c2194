/* Stands in for gateway/origin.c and gateway/forwarded.c until they are there: good enough for
 * well-formed configurations. To be deleted with their merge. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/forwarded.h"
#include "gateway/origin.h"

__attribute__((weak)) bool origin_parse(const char *text, struct origin *out)
{
    struct origin o = {.https = strncmp(text, "https://", 8) == 0};
    const char *host = strstr(text, "://");
    const char *colon;

    if (host == NULL || strncmp(text, "http", 4) != 0 || strpbrk(host + 3, "/@ ") != NULL)
        return false;
    colon = strrchr(host + 3, ':');
    snprintf(o.host, sizeof o.host, "%.*s",
             (int)(colon != NULL ? colon - host - 3 : (long)strlen(host + 3)), host + 3);
    o.port = (uint16_t)(colon != NULL ? atoi(colon + 1) : o.https ? 443 : 80);
    *out = o;
    return true;
}

__attribute__((weak)) bool origin_equal(const struct origin *a, const struct origin *b)
{
    return a->https == b->https && a->port == b->port && strcmp(a->host, b->host) == 0;
}

__attribute__((weak)) bool prefix_parse(const char *text, struct prefix *out)
{
    struct prefix p = {.family = strchr(text, ':') != NULL ? 6 : 4};
    char copy[64];
    char *slash;

    snprintf(copy, sizeof copy, "%s", text);
    slash = strchr(copy, '/');
    p.bits = (uint8_t)(slash != NULL ? atoi(slash + 1) : p.family == 4 ? 32 : 128);
    if (slash != NULL)
        *slash = '\0';
    if (inet_pton(p.family == 4 ? AF_INET : AF_INET6, copy, p.bytes) != 1)
        return false;
    *out = p;
    return true;
}

__attribute__((weak)) bool forwarded_is_private(const struct address *a)
{
    return a->family == 6 && (a->bytes[0] & 0xfe) == 0xfc;
}
