/*
 * Which pages may ask. Security: an allow-list, compared as parsed origins; what cannot be read
 * ("null", two of them) is of no page that may.
 */
#include "gateway/access.h"

#include <string.h>
#include <strings.h>

static bool is_listed(const struct config *c, const struct origin *o)
{
    for (unsigned i = 0; c != NULL && i < c->n_allowed_origins; i++)
        if (origin_equal(&c->allowed_origins[i], o))
            return true;
    return false;
}

void access_of(const struct exchange *x, const struct config *c, bool shared,
               struct access *out)
{
    const char *text = exchange_param_only(x, "HTTP_ORIGIN");
    struct origin o;

    memset(out, 0, sizeof(*out));
    out->varies = shared && c != NULL && c->n_allowed_origins > 0;
    out->credentials = shared && c != NULL && c->cookie_cross_site;
    out->present = exchange_param(x, "HTTP_ORIGIN") != NULL;
    if (!out->present)
        return;
    if (text != NULL && origin_parse(text, &o)) {
        if (shared && is_listed(c, &o))
            out->origin = text;
        else
            out->refused = !origin_is_host(&o, exchange_param_only(x, "HTTP_HOST"),
                                           exchange_param_only(x, "SERVER_PORT"));
    } else {
        out->refused = true;
    }
}

/* The bypass header is not among them: the owner's secret has no place in a page. */
static bool may_send(const char *name, size_t n)
{
    static const char *const names[] = {"accept",     "authorization",       "content-type",
                                        "user-agent", "openai-organization", "openai-project"};
    static const char stainless[] =
        "x-stainless-"; /* what OpenAI's clients say of themselves */

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strlen(names[i]) == n && strncasecmp(names[i], name, n) == 0)
            return true;
    if (n < sizeof(stainless) || strncasecmp(name, stainless, sizeof(stainless) - 1) != 0)
        return false;
    for (size_t i = 0; i < n; i++) /* it is written into a header */
        if (strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-",
                   name[i]) == NULL)
            return false;
    return true;
}

void access_headers(const char *asked, char out[ACCESS_HEADERS_MAX])
{
    static const char blank[] = ", \t"; /* empty elements are none: RFC 9110, 5.6.1 */
    const char *at = asked != NULL ? asked : "authorization, content-type";
    size_t n = 0;

    for (at += strspn(at, blank); *at != '\0'; at += strspn(at, blank)) {
        size_t length = strcspn(at, blank), comma = n > 0 ? 2 : 0;

        if (may_send(at, length) && n + comma + length < ACCESS_HEADERS_MAX) {
            memcpy(out + n, ", ", comma);
            memcpy(out + n + comma, at, length);
            n += comma + length;
        }
        at += length;
    }
    out[n] = '\0';
}
