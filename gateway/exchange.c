/*
 * What FastCGI and CGI have in common. Security: every value is the web server's or the
 * caller's, so nothing is taken for granted of its length or form, and a variable that is
 * there twice is told from one that is there once.
 */
#include "gateway/exchange.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#define LENGTH_DIGITS 18 /* more would pass 63 bits */

/* The value if `entry` is the variable `name`, else NULL. Most are told apart by the first letter;
 * a request asks for some twenty out of thirty. */
static const char *value_of(const char *entry, const char *name, size_t n)
{
    if (entry[0] != name[0] || strncmp(entry, name, n) != 0)
        return NULL;
    return entry[n] == '=' ? entry + n + 1 : NULL;
}

const char *exchange_param_at(const struct exchange *x, const char *name, unsigned i)
{
    size_t n = strlen(name);
    const char *value;

    for (char *const *e = x->env; *e != NULL; e++) {
        value = value_of(*e, name, n);
        if (value != NULL && i-- == 0)
            return value;
    }
    return NULL;
}

const char *exchange_param(const struct exchange *x, const char *name)
{
    return exchange_param_at(x, name, 0);
}

const char *exchange_param_only(const struct exchange *x, const char *name)
{
    size_t n = strlen(name);
    const char *only = NULL;

    for (char *const *e = x->env; *e != NULL; e++) {
        const char *value = value_of(*e, name, n);

        if (value != NULL && only != NULL)
            return NULL;
        only = value != NULL ? value : only;
    }
    return only;
}

unsigned exchange_param_count(const struct exchange *x, const char *name)
{
    size_t n = strlen(name);
    unsigned count = 0;

    for (char *const *e = x->env; *e != NULL; e++)
        count += value_of(*e, name, n) != NULL;
    return count;
}

uint64_t exchange_length(const struct exchange *x)
{
    const char *text = exchange_param(x, "CONTENT_LENGTH");
    uint64_t length = 0;
    size_t n = 0;

    if (text == NULL || strcmp(text, "-1") == 0)
        return 0;
    for (; text[n] >= '0' && text[n] <= '9' && n < LENGTH_DIGITS; n++)
        length = length * 10 + (uint64_t)(text[n] - '0');
    return text[n] == '\0' ? length : UINT64_MAX;
}

bool exchange_leaves(int watch_fd, bool watch_readable, int wait_ms)
{
    struct pollfd p = {.fd = watch_fd,
                       .events = (short)(watch_readable ? POLLIN | POLLRDHUP : 0)};
    int n;

    do {
        n = poll(&p, 1, wait_ms); /* a descriptor below 0 is not looked at */
    } while (n < 0 && errno == EINTR);
    return n > 0;
}

bool exchange_gone(int watch_fd, bool watch_readable)
{
    return exchange_leaves(watch_fd, watch_readable, 0);
}
