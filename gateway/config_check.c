/*
 * What a configuration must be beyond its syntax before it may spend money, and what it can
 * spend at most. Pure but for looking whether certificates are there.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/config.h"
#include "gateway/config_list.h"
#include "gateway/config_options.h"
#include "gateway/config_value.h"
#include "gateway/provider.h"

#define LINE_MAX_BYTES 320 /* longest: a path of 100 bytes, or two names, and some advice */
#define DAY_SECONDS    86400U
#define BUDGET_LEAST   10 /* of the largest requests: what a budget should hold */

/* Below $0.001 per million somebody has written the price of one token. The cheapest known
 * model costs ten times that. */
#define PRICE_MIN_NANO 1000000U

#define PLAIN "http://"
#define LOCAL "localhost"

struct findings {
    void (*tell)(void *arg, const char *line);
    void *arg;
    unsigned n;
};

static void find(struct findings *f, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void find(struct findings *f, const char *format, ...)
{
    char line[LINE_MAX_BYTES];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    f->n++;
    f->tell(f->arg, line);
}

/* ---- sizes of requests ---- */

static void worst(const struct config_model *m, uint64_t bytes, unsigned messages,
                  struct amounts *out)
{
    size_t prompt = m->system_prompt != NULL ? strlen(m->system_prompt) : 0;
    struct price_request r = {.bytes = (size_t)bytes + prompt,
                              .messages = messages + (prompt > 0)};
    uint64_t in, generated;

    price_worst(&m->price, &r, out, &in, &generated);
}

/* A code point has at most four bytes, and JSON never makes text shorter than it is. */
static uint64_t largest_bytes(const struct config *c)
{
    uint64_t bytes = (uint64_t)c->max_input_chars * 4;

    return bytes < c->max_body_bytes ? bytes : c->max_body_bytes;
}

void config_smallest(const struct config_model *m, struct amounts *out)
{
    worst(m, 1, 1, out);
}

void config_largest(const struct config *c, const struct config_model *m, struct amounts *out)
{
    worst(m, largest_bytes(c), c->max_history, out);
}

/* ---- the most that a day can cost ---- */

static uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t v;

    return __builtin_mul_overflow(a, b, &v) || v > AMOUNT_MAX ? AMOUNT_MAX : v;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t dearest_token_nano(const struct price *p)
{
    return larger(larger(p->input_nano, p->output_nano),
                  larger(p->cached_input_nano, p->cache_write_nano));
}

/* What `tokens` can cost at one model: at its dearest price, in as many calls as they allow. */
static uint64_t tokens_nano(const struct config_model *m, uint64_t tokens)
{
    struct amounts least;
    uint64_t calls;

    config_smallest(m, &least);
    calls = tokens / larger(least.of[UNIT_TOKENS], 1);
    return amount_add(times(tokens / 1000000 + 1, dearest_token_nano(&m->price)),
                      times(calls, m->price.per_call_nano + 1));
}

/* What one window of a limit can cost. */
static uint64_t window_nano(const struct config *c, const struct limit *l)
{
    uint64_t most = 0;

    if (l->unit == UNIT_COST)
        return l->max;
    for (unsigned i = 0; i < c->n_models; i++) {
        struct amounts largest;

        config_largest(c, &c->models[i], &largest);
        most = larger(most, l->unit == UNIT_CALLS ? times(l->max, largest.of[UNIT_COST])
                                                  : tokens_nano(&c->models[i], l->max));
    }
    return most;
}

static bool enforces(const struct limit *l)
{
    return l->max != LIMIT_UNLIMITED && !l->dry_run;
}

/* Whether it bounds what all callers together can spend. */
static bool bounds_site(const struct limit *l)
{
    return l->subject == SUBJECT_EVERYONE && l->unit != UNIT_CONCURRENT && enforces(l);
}

/* What a day can cost by one limit; AMOUNT_MAX or more: it does not bound it. */
static uint64_t limit_day_nano(const struct config *c, const struct limit *l)
{
    uint64_t seconds = window_seconds(l->window);

    return times(window_nano(c, l), (DAY_SECONDS + seconds - 1) / seconds);
}

static bool is_priced(const struct config *c)
{
    for (unsigned i = 0; i < c->n_models; i++) {
        if (!c->models[i].price.known)
            return false;
    }
    return true;
}

uint64_t config_bypass_day_nano(const struct config *c)
{
    uint64_t nano;

    if (c->bypass_secret == NULL || c->bypass.max == 0)
        return 0;
    if (!is_priced(c) || !enforces(&c->bypass))
        return UINT64_MAX;
    nano = limit_day_nano(c, &c->bypass);
    return nano < AMOUNT_MAX ? nano : UINT64_MAX;
}

uint64_t config_day_nano(const struct config *c)
{
    uint64_t least = UINT64_MAX;

    if (!is_priced(c))
        return UINT64_MAX;
    for (unsigned i = 0; i < c->n_limits; i++) {
        uint64_t nano =
            bounds_site(&c->limits[i]) ? limit_day_nano(c, &c->limits[i]) : UINT64_MAX;

        if (nano < AMOUNT_MAX && nano < least)
            least = nano;
    }
    return least;
}

/* ---- faults ---- */

static void check_ceiling(const struct config *c, struct findings *f)
{
    const struct limit *dry = NULL, *brief = NULL;

    if (c->site_ceiling_none)
        return;
    for (unsigned i = 0; i < c->n_limits; i++) {
        struct limit l = c->limits[i];
        bool only_dry = l.dry_run;

        l.dry_run = false;
        if (!bounds_site(&l))
            continue;
        if (window_seconds(l.window) < DAY_SECONDS)
            brief = only_dry ? brief : &c->limits[i];
        else if (!only_dry)
            return;
        else
            dry = &c->limits[i];
    }
    if (dry == NULL && brief != NULL)
        find(f,
             "limit %s for everyone is over less than a day, and there is no other: write one "
             "over a day or more, or site-ceiling = none",
             brief->name);
    else if (dry != NULL)
        find(f,
             "limit %s for everyone is a dry-run and refuses nothing, and there is no other: "
             "write one, or site-ceiling = none",
             dry->name);
    else
        find(f, "no limit for everyone over a day or more: write one, or site-ceiling = none");
}

static bool has_cost_limit(const struct config *c)
{
    for (unsigned i = 0; i < c->n_limits; i++) {
        if (c->limits[i].unit == UNIT_COST)
            return true;
    }
    return false;
}

/* The day's cost would leave out what goes there. */
static void check_fallback(const struct config *c, const struct config_model *m,
                           struct findings *f)
{
    const struct config_model *other = config_fallback(c, m);

    if (other != NULL && m->price.known && !other->price.known)
        find(f, "model %s has prices, and its fallback %s has none: write 0 if it is free",
             m->alias, other->alias);
}

static void check_prices(const struct config *c, const struct config_model *m,
                         struct findings *f)
{
    const struct price *p = &m->price;
    const struct {
        const char *key;
        uint64_t nano;
    } prices[] = {{"price-input", p->input_nano},
                  {"price-cached-input", p->cached_input_nano},
                  {"price-cache-write", p->cache_write_nano},
                  {"price-output", p->output_nano}};

    if (!p->known && has_cost_limit(c))
        find(f,
             "model %s: a limit counts cost, but price-input or price-output is missing "
             "(0 if it is free)",
             m->alias);
    else if (!p->known && (p->input_nano > 0 || p->output_nano > 0))
        find(f, "model %s: one of price-input and price-output is missing", m->alias);
    for (unsigned i = 0; i < sizeof prices / sizeof prices[0]; i++) {
        char text[PRICE_TEXT_MAX];

        if (prices[i].nano > 0 && prices[i].nano < PRICE_MIN_NANO) {
            find(f, "model %s: %s is %s per million tokens: was it meant per token?", m->alias,
                 prices[i].key, price_format(prices[i].nano, text));
            break;
        }
    }
}

/* A limit of 0 says that nothing is admitted; for tokens and cost below the smallest request
 * it is a mistake, since every caller would hear that even one letter is too long. */
static void check_fit(const struct config *c, const struct config_model *m, struct findings *f)
{
    struct amounts least;

    config_smallest(m, &least);
    for (unsigned i = 0; i < c->n_limits; i++) {
        const struct limit *l = &c->limits[i];
        char needs[CONFIG_VALUE_MAX], max[CONFIG_VALUE_MAX];

        if ((l->unit != UNIT_TOKENS && l->unit != UNIT_COST) || l->dry_run ||
            least.of[l->unit] <= l->max)
            continue;
        find(f, "limit %s: the smallest request to model %s reserves %s, the max is %s",
             l->name, m->alias, config_value_amount(l->unit, least.of[l->unit], needs),
             config_value_amount(l->unit, l->max, max));
    }
}

static void check_largest(const struct config *c, const struct config_model *m,
                          struct findings *f)
{
    const struct price *p = &m->price;
    size_t prompt = m->system_prompt != NULL ? strlen(m->system_prompt) : 0;
    uint64_t tokens = ((largest_bytes(c) + prompt) * p->input_factor_milli + 999) / 1000 +
                      p->overhead_per_call +
                      (uint64_t)p->overhead_per_message * (c->max_history + 1);

    if (tokens > PRICE_TOKENS_MAX)
        find(f,
             "model %s: the largest request could have %" PRIu64 " tokens, at most %llu are "
             "allowed for: lower request { max-input-chars }",
             m->alias, tokens, PRICE_TOKENS_MAX);
}

static bool is_readable_file(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, R_OK) == 0;
}

/* Whoever has the site's secret can make cookies and tell who a hash is: it goes to no API, is no
 * password, and stands in no header. */
static bool is_site_secret(const struct config *c, const char *path)
{
    struct stat secret, st;

    return path != NULL && stat(c->secret_file, &secret) == 0 && stat(path, &st) == 0 &&
           st.st_dev == secret.st_dev && st.st_ino == secret.st_ino;
}

/* What would fail with each call. */
static void check_call(const struct config_model *m, struct findings *f)
{
    const char *appended = provider_of(m->provider)->path;
    size_t n = strlen(m->url), k = strlen(appended);

    if (m->key_loose)
        find(f, "model %s: others can read key-file %.100s: chmod 640 or 600", m->alias,
             m->key_file);
    if (n >= k && strcmp(m->url + n - k, appended) == 0)
        find(f, "model %s: url ends in %s, which is appended: leave it out", m->alias,
             appended);
    if (m->ca_file != NULL && !is_readable_file(m->ca_file))
        find(f, "model %s: ca-file %.100s: no file that can be read", m->alias, m->ca_file);
}

static void check_site(const struct config *c, struct findings *f)
{
    if (c->cookie_cross_site && c->n_allowed_origins == 0)
        find(f, "cookie-cross-site = yes, but allowed-origins names no page that may ask from "
                "another site");
    for (unsigned i = 0; i < c->n_limits && c->require != REQUIRE_NONE; i++)
        if (c->limits[i].subject == SUBJECT_VISITOR)
            find(f, "limit %s is per visitor, but require leaves none: bound accounts or keys",
                 c->limits[i].name);
}

static void check_secrets(const struct config *c, struct findings *f)
{
    for (unsigned i = 0; i < c->n_models; i++)
        if (is_site_secret(c, c->models[i].key_file))
            find(f, "model %s: key-file is the site's secret-file", c->models[i].alias);
    if (is_site_secret(c, c->bypass_secret_file))
        find(f, "bypass: secret-file is the site's");
    if (is_site_secret(c, c->alert_token_file))
        find(f, "alerts: token-file is the site's secret-file");
    if (c->bypass_loose)
        find(f, "bypass: others can read secret-file %.100s: chmod 640 or 600",
             c->bypass_secret_file);
    if (c->bypass_secret != NULL && strlen(c->bypass_secret) < CONFIG_SECRET_MIN)
        find(f,
             "bypass: the secret is shorter than %d characters: openssl rand -hex 16 makes "
             "one",
             CONFIG_SECRET_MIN);
    if (c->alert_token_loose)
        find(f, "alerts: others can read token-file %.100s: chmod 640 or 600",
             c->alert_token_file);
}

/* Who wants them kept must not learn only when he looks for them that they are not. */
static void check_transcripts(const struct config *c, struct findings *f)
{
    if (SMALL && c->transcripts)
        find(f, "transcripts: keep = yes, and this program was made without them (SMALL=1)");
}

unsigned config_faults(const struct config *c, void (*tell)(void *arg, const char *line),
                       void *arg)
{
    struct findings f = {.tell = tell, .arg = arg};

    if (c->n_models == 0)
        find(&f, "no model: write a section model NAME { url = ... model = ... }");
    check_ceiling(c, &f);
    check_site(c, &f);
    check_secrets(c, &f);
    check_transcripts(c, &f);
    for (unsigned i = 0; i < c->n_models; i++) {
        const struct config_model *m = &c->models[i];

        check_prices(c, m, &f);
        check_fallback(c, m, &f);
        check_fit(c, m, &f);
        check_largest(c, m, &f);
        check_call(m, &f);
    }
    return f.n;
}

/* ---- warnings ---- */

static void warn_limits(const struct config *c, struct findings *f)
{
    struct amounts least;

    for (unsigned i = 0; i < c->n_limits; i++) {
        const struct limit *l = &c->limits[i];

        if (l->max == 0 && !l->dry_run)
            find(f, "limit %s admits nothing", l->name);
        if (l->max == 0 || !l->dry_run || (l->unit != UNIT_TOKENS && l->unit != UNIT_COST))
            continue;
        for (unsigned k = 0; k < c->n_models; k++) {
            config_smallest(&c->models[k], &least);
            if (least.of[l->unit] > l->max)
                find(f, "limit %s would refuse every request to model %s", l->name,
                     c->models[k].alias);
        }
    }
}

/* The subjects that all who are admitted have, each their own. Not a visitor: who drops the
 * cookie is another one. */
static uint32_t own_subjects(const struct config *c)
{
    static const uint32_t shown[] = {[REQUIRE_NONE] = 0,
                                     [REQUIRE_KEY] = 1U << SUBJECT_KEY,
                                     [REQUIRE_ACCOUNT] = 1U << SUBJECT_ACCOUNT};

    return 1U << SUBJECT_ADDRESS | shown[c->require];
}

static void warn_no_own_limit(const struct config *c, struct findings *f)
{
    for (unsigned i = 0; i < c->n_limits; i++) {
        const struct limit *l = &c->limits[i];

        if (enforces(l) && l->unit != UNIT_CONCURRENT &&
            (own_subjects(c) >> l->subject & 1) != 0)
            return;
    }
    find(f, "no limit per address: one caller alone can spend what is for everyone");
}

/* Whether what one address has from collecting cookies is bounded over the limit's window. */
static bool address_bounds(const struct config *c, const struct limit *visitors)
{
    for (unsigned i = 0; i < c->n_limits; i++) {
        const struct limit *l = &c->limits[i];

        if (l->subject == SUBJECT_ADDRESS && enforces(l) && l->unit != UNIT_CONCURRENT &&
            window_seconds(l->window) >= window_seconds(visitors->window))
            return true;
    }
    return false;
}

static void warn_visitors(const struct config *c, struct findings *f)
{
    bool any = false;

    for (unsigned i = 0; i < c->n_limits; i++) {
        const struct limit *l = &c->limits[i];

        if (l->subject != SUBJECT_VISITOR)
            continue;
        any = true;
        if (enforces(l) && l->unit != UNIT_CONCURRENT && !address_bounds(c, l))
            find(f,
                 "limit %s per visitor: each answer to a request without a cookie brings a "
                 "cookie with a quota of its own; only a limit per address over as long bounds "
                 "what one address can collect",
                 l->name);
    }
    if (c->cookie_cross_site && !any)
        find(f, "cookie-cross-site = yes, but no limit is per visitor, so there is no cookie");
}

/* While calls run they hold their worst cases. */
static void warn_budgets(const struct config *c, struct findings *f)
{
    for (unsigned i = 0; i < c->n_limits; i++) {
        const struct limit *l = &c->limits[i];

        if ((l->subject != SUBJECT_EVERYONE && l->subject != SUBJECT_ANONYMOUS) ||
            (l->unit != UNIT_TOKENS && l->unit != UNIT_COST) || !enforces(l) || l->max == 0)
            continue;
        for (unsigned k = 0; k < c->n_models; k++) {
            struct amounts most;

            config_largest(c, &c->models[k], &most);
            if (times(most.of[l->unit], BUDGET_LEAST) > l->max)
                find(f,
                     "limit %s holds fewer than ten of the largest requests to model %s: "
                     "visitors will refuse each other while their calls run",
                     l->name, c->models[k].alias);
        }
    }
}

/* A prefix that holds more than a provider's own network. The largest private one of IPv4 is a
 * /8; of IPv6 fc00::/7. */
static bool is_too_wide(const struct prefix *p)
{
    struct address a = {.family = p->family};

    memcpy(a.bytes, p->bytes, sizeof a.bytes);
    if (p->family == 4)
        return p->bits < 8;
    return p->bits < 16 && !(p->bits >= 7 && forwarded_is_private(&a));
}

static void warn_proxies(const struct config *c, struct findings *f)
{
    const struct option *o = config_option(SECTION_SITE, "trusted-proxies");
    char text[CONFIG_VALUE_MAX];

    for (unsigned i = 0; i < c->n_trusted_proxies; i++) {
        if (is_too_wide(&c->trusted_proxies[i]))
            find(f,
                 "trusted-proxies has %.60s: anybody there can choose the address by which "
                 "they are counted",
                 config_list_entry(o, c, i, text));
    }
    if (c->n_trusted_proxies == 0 && c->proxy_header != PROXY_X_FORWARDED_FOR)
        find(f, "proxy-header is read from trusted-proxies alone, and there are none");
}

static bool is_loopback(const struct address *a)
{
    static const struct address six = {.family = 6, .bytes = {[15] = 1}};

    return a->family == 4 ? a->bytes[0] == 127
                          : memcmp(a->bytes, six.bytes, sizeof six.bytes) == 0;
}

/* Whether it leaves this machine unencrypted. A host that libcurl would decode is none of ours. */
static bool is_plain(const char *url)
{
    const char *host = url + strlen(PLAIN);
    struct address a;
    size_t n;

    if (strncmp(url, PLAIN, strlen(PLAIN)) != 0)
        return false;
    n = strcspn(host, "/?");
    if (memchr(host, '%', n) != NULL)
        return true;
    if (address_parse(host, n, &a))
        return !is_loopback(&a);
    n = strcspn(host, ":/?");
    return n != strlen(LOCAL) || strncasecmp(host, LOCAL, n) != 0;
}

static void warn_alerts(const struct config *c, struct findings *f)
{
    if (c->alert_url == NULL) {
        if (c->alert_token_file != NULL || c->alert_ca_file != NULL)
            find(f, "alerts: without a url none is posted");
        return;
    }
    if (is_plain(c->alert_url))
        find(f, "alerts: what is posted, and the url's own secrets, go over plain http");
    if (c->alert_ca_file != NULL && !is_readable_file(c->alert_ca_file))
        find(f, "alerts: ca-file %.100s: no file that can be read: none will arrive",
             c->alert_ca_file);
}

unsigned config_warnings(const struct config *c, void (*tell)(void *arg, const char *line),
                         void *arg)
{
    struct findings f = {.tell = tell, .arg = arg};

    warn_limits(c, &f);
    warn_no_own_limit(c, &f);
    warn_visitors(c, &f);
    warn_budgets(c, &f);
    warn_proxies(c, &f);
    for (unsigned i = 0; i < c->n_models; i++) {
        if (c->models[i].key_file != NULL && is_plain(c->models[i].url))
            find(&f, "model %s: its key is sent over plain http", c->models[i].alias);
    }
    if (c->max_message_chars > c->max_input_chars)
        find(&f, "max-message-chars is above max-input-chars, which also holds for the newest "
                 "message");
    warn_alerts(c, &f);
    return f.n;
}
