/*
 * The table of options. What is not in it does not exist: an unknown key is an error in the
 * file and in the environment.
 */
#include "gateway/config_options.h"

#include <string.h>
#include <sys/un.h>

#include "gateway/config.h"
#include "gateway/upstream.h"

#define PATH_TEXT_MAX   1024 /* longer paths are mistakes; PATH_MAX is 4096 */
#define URL_TEXT_MAX    512  /* an API's base has some 40 characters */
#define NAME_TEXT_MAX   128  /* longest model name known: 70 */
#define MOUNT_TEXT_MAX  128
#define OVERHEAD_MAX    65536 /* tokens a provider may add to a call unasked */
#define THINKING_MAX    1048576
#define HEADER_NAME_MAX 64
#define HISTORY_MAX     1024 /* REQUEST_MESSAGES_MAX: more never passes the parser */
#define BODY_MAX        1048576
#define LIMIT_VALUE_MAX 1000000000000000ULL /* 10^15 calls or tokens, or $1,000,000 in nano */
#define SECOND          ((uint64_t)1000)
#define DAY             (86400 * SECOND)
#define KIB             ((uint64_t)1024)
#define MIB             (1024 * KIB)

/* On 32 bits the address space is scarce; 16 MiB hold some 80,000 callers. */
#if UINTPTR_MAX > 0xffffffffU
#define STORE_SIZE "32M"
#else
#define STORE_SIZE "16M"
#endif

const char *const config_section_names[SECTIONS] = {
    "site",   "model",       "request",   "limit",  "bypass",
    "alerts", "transcripts", "dashboard", "server", "log"};

static const char *const timezones[] = {"utc", "local", NULL};
static const char *const ceilings[] = {"required", "none", NULL};
static const char *const durabilities[] = {"commit", "lease", NULL};
static const char *const providers[] = {"openai", "anthropic", NULL};
static const char *const output_fields[] = {"max_completion_tokens", "max_tokens", NULL};
static const char *const efforts[] = {"as-is", "none", "low", "medium", "high", NULL};
static const char *const subjects[] = {"address",   "visitor",  "account", "key",
                                       "anonymous", "everyone", NULL};
static const char *const units[] = {"calls", "tokens", "cost", "concurrent", NULL};
static const char *const sums[] = {"calls", "tokens", "cost", NULL};
static const char *const answers[] = {"no", "yes", NULL};
static const char *const requires[] = {"none", "key", "account", NULL};
static const char *const proxy_headers[] = {"x-forwarded-for", "forwarded", NULL};
static const char *const names[] = {"hash", "address", NULL};
static const char *const profiles[] = {
    [PROFILE_ROUTER] = "router", [PROFILE_BOARD] = "board", [PROFILE_VPS] = "vps", NULL};
static const char *const targets[] = {"stderr", "syslog", NULL};
static const char *const formats[] = {"logfmt", "json", NULL};
static const char *const levels[] = {"error", "warning", "info", NULL};

#define IN(type, member) offsetof(struct type, member), sizeof(((struct type *)0)->member)
#define TEXT(max)        1, (max)
#define SOCKET_PATH_MAX  (sizeof(((struct sockaddr_un *)0)->sun_path) - 1)

/* clang-format off */
const struct option config_options[] = {
    {SECTION_SITE, OPTION_PATH, "store", NULL, OPTION_REQUIRED | OPTION_FIXED, TEXT(PATH_TEXT_MAX), IN(config, store), NULL,
     "directory of the store, made by init"},
    {SECTION_SITE, OPTION_PATH, "run-directory", NULL, OPTION_FIXED, TEXT(PATH_TEXT_MAX), IN(config, run_directory), NULL,
     "directory for what ends with a boot; without it STORE/run"},
    {SECTION_SITE, OPTION_PATH, "secret-file", NULL, OPTION_FIXED, TEXT(PATH_TEXT_MAX), IN(config, secret_file), NULL,
     "the site's secret, made by init; without it STORE/secret"},
    {SECTION_SITE, OPTION_WORD, "timezone", "utc", 0, 0, 0, IN(config, local_time), timezones,
     "where days and months begin"},
    {SECTION_SITE, OPTION_DURATION, "retention", "7d", 0, DAY, 400 * DAY, IN(config, retention_ms), NULL,
     "how long the counters of ended days are kept"},
    {SECTION_SITE, OPTION_MOUNT, "mount", NULL, 0, TEXT(MOUNT_TEXT_MAX), IN(config, mount), NULL,
     "path below which the web server mounts pennygate"},
    {SECTION_SITE, OPTION_WORD, "site-ceiling", "required", 0, 0, 0, IN(config, site_ceiling_none), ceilings,
     "whether there must be a limit for everyone"},
    {SECTION_SITE, OPTION_SIZE, "store-size", STORE_SIZE, OPTION_FIXED, MIB, 1024 * MIB, IN(config, store_size), NULL,
     "size that the store can grow to"},
    {SECTION_SITE, OPTION_ORIGINS, "allowed-origins", NULL, 0, 0, CONFIG_LIST_MAX, IN(config, allowed_origins), NULL,
     "web pages on other hosts that may ask"},
    {SECTION_SITE, OPTION_PREFIXES, "trusted-proxies", NULL, 0, 0, CONFIG_LIST_MAX, IN(config, trusted_proxies), NULL,
     "proxies that are believed when they say for whom they ask"},
    {SECTION_SITE, OPTION_WORD, "proxy-header", "x-forwarded-for", 0, 0, 0, IN(config, proxy_header), proxy_headers,
     "the header in which they say it"},
    {SECTION_SITE, OPTION_WORD, "require", "none", 0, 0, 0, IN(config, require), requires,
     "what a caller must show"},
    {SECTION_SITE, OPTION_WORD, "cookie-cross-site", "no", 0, 0, 0, IN(config, cookie_cross_site), answers,
     "whether browsers send the visitor's cookie from pages on other sites"},
    {SECTION_SITE, OPTION_WORD, "page", "yes", 0, 0, 0, IN(config, page), answers,
     "whether there is a chat page"},
    {SECTION_SITE, OPTION_WORD, "durability", "commit", OPTION_FIXED, 0, 0, IN(config, lease), durabilities,
     "where the store is live, and so what a power loss takes"},

    {SECTION_MODEL, OPTION_WORD, "provider", "openai", 0, 0, 0, IN(config_model, provider), providers,
     "dialect of the model API"},
    {SECTION_MODEL, OPTION_URL, "url", NULL, OPTION_REQUIRED, TEXT(URL_TEXT_MAX), IN(config_model, url), NULL,
     "base of the model API"},
    {SECTION_MODEL, OPTION_TEXT, "model", NULL, OPTION_REQUIRED, TEXT(NAME_TEXT_MAX), IN(config_model, name), NULL,
     "the model's name there; callers never see it"},
    {SECTION_MODEL, OPTION_PATH, "key-file", NULL, 0, TEXT(PATH_TEXT_MAX), IN(config_model, key_file), NULL,
     "file that holds the API key"},
    {SECTION_MODEL, OPTION_COUNT, "max-output-tokens", "300", 0, 1, 65536, IN(config_model, price.max_output_tokens), NULL,
     "longest answer"},
    {SECTION_MODEL, OPTION_CHOICE, "output-field", "max_completion_tokens", 0, 0, 0, IN(config_model, output_field), output_fields,
     "how this API calls the cap on the answer"},
    {SECTION_MODEL, OPTION_WORD, "stream-usage", "yes", 0, 0, 0, IN(config_model, stream_usage), answers,
     "whether the use of a stream is asked for"},
    {SECTION_MODEL, OPTION_WORD, "reasoning", "as-is", 0, 0, 0, IN(config_model, reasoning), efforts,
     "how hard the model is told to think before it answers"},
    {SECTION_MODEL, OPTION_MONEY, "price-input", NULL, 0, 0, PRICE_MAX_NANO, IN(config_model, price.input_nano), NULL,
     "dollars per million input tokens"},
    {SECTION_MODEL, OPTION_MONEY, "price-cached-input", NULL, 0, 0, PRICE_MAX_NANO, IN(config_model, price.cached_input_nano), NULL,
     "the same for tokens read from the provider's cache; without it price-input"},
    {SECTION_MODEL, OPTION_MONEY, "price-cache-write", NULL, 0, 0, PRICE_MAX_NANO, IN(config_model, price.cache_write_nano), NULL,
     "the same for tokens written to it; without it price-input"},
    {SECTION_MODEL, OPTION_MONEY, "price-output", NULL, 0, 0, PRICE_MAX_NANO, IN(config_model, price.output_nano), NULL,
     "dollars per million output tokens"},
    {SECTION_MODEL, OPTION_MONEY, "price-per-call", "0", 0, 0, PRICE_MAX_NANO, IN(config_model, price.per_call_nano), NULL,
     "dollars per call"},
    {SECTION_MODEL, OPTION_COUNT, "overhead-per-call", "64", 0, 0, OVERHEAD_MAX, IN(config_model, price.overhead_per_call), NULL,
     "input tokens that the provider adds to a call"},
    {SECTION_MODEL, OPTION_COUNT, "overhead-per-message", "16", 0, 0, 4096, IN(config_model, price.overhead_per_message), NULL,
     "input tokens that it adds to a message"},
    {SECTION_MODEL, OPTION_FACTOR, "input-factor", "1", 0, 1000, 4000, IN(config_model, price.input_factor_milli), NULL,
     "most input tokens that a byte of text can become"},
    {SECTION_MODEL, OPTION_COUNT, "thinking-tokens", "0", 0, 0, THINKING_MAX, IN(config_model, price.thinking_tokens), NULL,
     "output tokens billed beyond max-output-tokens"},
    {SECTION_MODEL, OPTION_PATH, "system-prompt-file", NULL, 0, TEXT(PATH_TEXT_MAX), IN(config_model, system_prompt_file), NULL,
     "text sent before each conversation"},
    {SECTION_MODEL, OPTION_PATH, "ca-file", NULL, 0, TEXT(PATH_TEXT_MAX), IN(config_model, ca_file), NULL,
     "certificates to trust instead of the system's"},
    {SECTION_MODEL, OPTION_DURATION, "connect-timeout", "10s", 0, SECOND, 60 * SECOND, IN(config_model, connect_timeout_ms), NULL,
     "longest wait for a connection"},
    {SECTION_MODEL, OPTION_DURATION, "first-byte-timeout", "60s", 0, SECOND, 900 * SECOND, IN(config_model, first_byte_timeout_ms), NULL,
     "longest wait for the answer to begin"},
    {SECTION_MODEL, OPTION_DURATION, "idle-timeout", "60s", 0, SECOND, 900 * SECOND, IN(config_model, idle_timeout_ms), NULL,
     "longest silence within an answer"},
    {SECTION_MODEL, OPTION_DURATION, "total-timeout", "120s", 0, SECOND, 900 * SECOND, IN(config_model, total_timeout_ms), NULL,
     "longest call"},
    {SECTION_MODEL, OPTION_COUNT, "breaker-after", "5", 0, 1, 100, IN(config_model, breaker_after), NULL,
     "failures in a row after which the API is left alone"},
    {SECTION_MODEL, OPTION_DURATION, "breaker-pause", "30s", 0, SECOND, 3600 * SECOND, IN(config_model, breaker_pause_ms), NULL,
     "for how long at first"},
    {SECTION_MODEL, OPTION_TEXT, "fallback", NULL, 0, TEXT(LEDGER_MODEL_MAX - 1), IN(config_model, fallback), NULL,
     "the model that is asked instead while this one does not work"},

    {SECTION_REQUEST, OPTION_COUNT, "max-message-chars", "2000", 0, 1, BODY_MAX, IN(config, max_message_chars), NULL,
     "characters of the newest message"},
    {SECTION_REQUEST, OPTION_COUNT, "max-input-chars", "8000", 0, 1, BODY_MAX, IN(config, max_input_chars), NULL,
     "characters of all messages sent on"},
    {SECTION_REQUEST, OPTION_COUNT, "max-history", "10", 0, 1, HISTORY_MAX, IN(config, max_history), NULL,
     "messages sent on, the newest ones"},
    {SECTION_REQUEST, OPTION_SIZE, "max-body-bytes", "64K", 0, KIB, BODY_MAX, IN(config, max_body_bytes), NULL,
     "size of a request's body"},

    {SECTION_LIMIT, OPTION_WORD, "per", NULL, OPTION_REQUIRED, 0, 0, IN(limit, subject), subjects,
     "whose use is counted together"},
    {SECTION_LIMIT, OPTION_WORD, "unit", NULL, OPTION_REQUIRED, 0, 0, IN(limit, unit), units,
     "what is counted"},
    {SECTION_LIMIT, OPTION_WINDOW, "window", NULL, 0, 0, 0, IN(limit, window), NULL,
     "the time in which it is counted"},
    {SECTION_LIMIT, OPTION_MAX, "max", NULL, OPTION_REQUIRED, 0, LIMIT_VALUE_MAX, IN(limit, max), NULL,
     "how much is admitted; 0 is nothing"},
    {SECTION_LIMIT, OPTION_WORD, "dry-run", "no", 0, 0, 0, IN(limit, dry_run), answers,
     "whether it only counts what it would have refused"},
    {SECTION_LIMIT, OPTION_WORD, "pace", "no", 0, 0, 0, IN(limit, pace), answers,
     "whether max is released evenly over the window"},

    {SECTION_BYPASS, OPTION_PATH, "secret-file", NULL, 0, TEXT(PATH_TEXT_MAX), IN(config, bypass_secret_file), NULL,
     "file that holds the owner's secret"},
    {SECTION_BYPASS, OPTION_SECRET, "secret", NULL, OPTION_ENVIRONMENT, TEXT(CONFIG_SECRET_MAX), IN(config, bypass_secret), NULL,
     "the secret itself"},
    {SECTION_BYPASS, OPTION_HEADER, "header", "X-Pennygate-Bypass", 0, TEXT(HEADER_NAME_MAX), IN(config, bypass_header), NULL,
     "the header that carries it"},
    {SECTION_BYPASS, OPTION_WORD, "unit", "calls", 0, 0, 0, IN(config, bypass.unit), sums,
     "what of the owner's own calls is counted"},
    {SECTION_BYPASS, OPTION_WINDOW, "window", "day", 0, 0, 0, IN(config, bypass.window), NULL,
     "the time in which it is counted"},
    {SECTION_BYPASS, OPTION_MAX, "max", "100", 0, 0, LIMIT_VALUE_MAX, IN(config, bypass.max), NULL,
     "how much is admitted"},

    {SECTION_ALERTS, OPTION_HOOK, "url", NULL, 0, TEXT(URL_TEXT_MAX), IN(config, alert_url), NULL,
     "where alerts are posted"},
    {SECTION_ALERTS, OPTION_PERCENTS, "at", "80, 100", 0, 1, ALERT_AT_MAX, IN(config, alert_at), NULL,
     "percent of a limit for everyone or anonymous at which there is one"},
    {SECTION_ALERTS, OPTION_DURATION, "timeout", "10s", 0, SECOND, 60 * SECOND, IN(config, alert_timeout_ms), NULL,
     "longest delivery"},
    {SECTION_ALERTS, OPTION_PATH, "token-file", NULL, 0, TEXT(PATH_TEXT_MAX), IN(config, alert_token_file), NULL,
     "file that holds a bearer token for the url"},
    {SECTION_ALERTS, OPTION_PATH, "ca-file", NULL, 0, TEXT(PATH_TEXT_MAX), IN(config, alert_ca_file), NULL,
     "certificates to trust instead of the system's"},

    {SECTION_TRANSCRIPTS, OPTION_WORD, "keep", "no", OPTION_FIXED, 0, 0, IN(config, transcripts), answers,
     "whether conversations are kept"},
    {SECTION_TRANSCRIPTS, OPTION_DURATION, "keep-for", "30d", 0, DAY, 400 * DAY, IN(config, transcripts_keep_ms), NULL,
     "for how long"},
    {SECTION_TRANSCRIPTS, OPTION_WORD, "subject", "hash", 0, 0, 0, IN(config, transcripts_address), names,
     "under what name of the caller"},
    {SECTION_TRANSCRIPTS, OPTION_SIZE, "size", "16M", OPTION_FIXED, MIB, 1024 * MIB, IN(config, transcripts_size), NULL,
     "size that they can grow to; the oldest go first"},

    {SECTION_DASHBOARD, OPTION_NAMES, "accounts", NULL, 0, 0, CONFIG_LIST_MAX, IN(config, dashboard_accounts), NULL,
     "accounts of the web server that may see the owner's pages"},

    {SECTION_SERVER, OPTION_WORD, "profile", "board", OPTION_FIXED, 0, 0, IN(config, profile), profiles,
     "what kind of machine it is, from which other defaults follow"},
    {SECTION_SERVER, OPTION_COUNT, "streams", "8", OPTION_FIXED, 1, 128, IN(config, streams), NULL,
     "requests at the model API at the same time, per process"},
    {SECTION_SERVER, OPTION_SIZE, "stack", "128K", OPTION_FIXED, 64 * KIB, MIB, IN(config, stack_bytes), NULL,
     "stack of a worker thread"},
    {SECTION_SERVER, OPTION_SIZE, "buffer", "256K", OPTION_FIXED, UPSTREAM_BUFFER, 4 * MIB, IN(config, buffer_bytes), NULL,
     "of an answer that its caller has not read, on a connection that calls share"},
    {SECTION_SERVER, OPTION_PATH, "socket", NULL, OPTION_FIXED, TEXT(SOCKET_PATH_MAX), IN(config, socket), NULL,
     "unix socket of serve"},
    {SECTION_SERVER, OPTION_MODE, "socket-mode", "0660", OPTION_FIXED, 0, 0777, IN(config, socket_mode), NULL,
     "its mode"},
    {SECTION_SERVER, OPTION_TEXT, "socket-group", NULL, OPTION_FIXED, TEXT(32), IN(config, socket_group), NULL,
     "its group"},
    {SECTION_SERVER, OPTION_DURATION, "heartbeat", "5s", 0, SECOND, 30 * SECOND, IN(config, heartbeat_ms), NULL,
     "a stream is never silent for longer"},
    {SECTION_SERVER, OPTION_DURATION, "write-timeout", "30s", OPTION_FIXED, SECOND, 300 * SECOND, IN(config, write_timeout_ms), NULL,
     "longest wait for a client that does not read"},
    {SECTION_SERVER, OPTION_DURATION, "stop-timeout", "20s", OPTION_FIXED, SECOND, 600 * SECOND, IN(config, stop_ms), NULL,
     "what still runs after it is cut at a stop"},

    {SECTION_LOG, OPTION_WORD, "target", "stderr", OPTION_FIXED, 0, 0, IN(config, log_target), targets,
     "where lines go"},
    {SECTION_LOG, OPTION_WORD, "level", "info", OPTION_FIXED, 0, 0, IN(config, log_level), levels,
     "info writes a line for each request"},
    {SECTION_LOG, OPTION_WORD, "format", "logfmt", OPTION_FIXED, 0, 0, IN(config, log_format), formats,
     "how lines look"},
    {SECTION_LOG, OPTION_COUNT, "rate", "20", 0, 1, 1000, IN(config, log_rate), NULL,
     "most lines a second of requests that are not admitted"},
};
/* clang-format on */

const unsigned config_options_n = sizeof config_options / sizeof config_options[0];
_Static_assert(sizeof config_options / sizeof config_options[0] <= CONFIG_OPTIONS_MAX,
               "CONFIG_OPTIONS_MAX has no room for the table");

/*
 * A router has 16 MB of flash and 128 MB of memory, most of which its system has taken, and 32
 * bits; a board a gigabyte and an SD card; a vps as much, a disk, and more visitors.
 *
 * streams     A stream costs a worker and what its answer takes (measured in README). The pool
 *             has streams + 2 workers in any case, so that somebody is left to say no.
 * stack       Workers touch 20 KiB of theirs at most, measured on 64 bits with glibc and its own
 *             data in them (tests/e2e/test_profile.py holds it to 32). On 32 bits pointers are
 *             smaller, and the buffers, most of it, are the same; printf of musl can take 8 KiB
 *             more. 64K is twice that. Memory takes only what is touched: the rest counts
 *             where a kernel promises no more than it has, and in a small address space.
 * buffer      Of each open answer, if its caller does not read. In all streams x buffer: 256K,
 *             2M, 16M. A token is an event of some 200 bytes, so 64K hold the 300 tokens of
 *             max-output-tokens' default, and nobody waits for the one who does not read.
 * store-size  The most of flash or, with the store on tmpfs, of memory. A caller's rows take
 *             200 bytes with the default limits and 500 with four more. The default 600 calls a
 *             day, each by another caller, kept for seven days and today, are 2.4 MB: below the
 *             three quarters of 4M at which the owner is told. 64M hold 40,000 callers a day.
 * size        Transcripts, where they are kept, fill theirs. An ordinary one has 2 KB.
 */
const struct option_profile config_profiles[] = {
    {SECTION_SERVER, "streams", {"4", NULL, "32"}},
    {SECTION_SERVER, "stack", {"64K", NULL, NULL}},
    {SECTION_SERVER, "buffer", {"64K", NULL, "512K"}},
    {SECTION_SITE, "store-size", {"4M", NULL, "64M"}},
    {SECTION_TRANSCRIPTS, "size", {"4M", NULL, "64M"}},
};
const unsigned config_profiles_n = sizeof config_profiles / sizeof config_profiles[0];

bool config_section_titled(enum config_section s)
{
    return s == SECTION_MODEL || s == SECTION_LIMIT;
}

bool config_option_lists(const struct option *o)
{
    return o->kind >= OPTION_ORIGINS;
}

const struct option *config_section_options(enum config_section s, unsigned *n)
{
    unsigned first = 0, end;

    while (first < config_options_n && config_options[first].section != s)
        first++;
    for (end = first; end < config_options_n && config_options[end].section == s;)
        end++;
    *n = end - first;
    return &config_options[first];
}

const struct option *config_option(enum config_section s, const char *key)
{
    unsigned n;
    const struct option *o = config_section_options(s, &n);

    for (; n > 0; o++, n--) {
        if (strcmp(o->key, key) == 0)
            return o;
    }
    return NULL;
}
