/*
 * The configuration: one file in libConfuse's syntax, checked strictly, with scalars
 * overridable by PENNYGATE_SECTION_KEY in the process's environment. Immutable and
 * reference-counted once loaded. gateway/config_options.c is the table of all options;
 * pennygate.conf(5) describes it, and a test holds the two together.
 */
#ifndef GATEWAY_CONFIG_H
#define GATEWAY_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "gateway/forwarded.h"
#include "gateway/origin.h"
#include "gateway/price.h"
#include "platform/error.h"
#include "platform/file.h"
#include "platform/log.h"
#include "store/ledger.h"
#include "store/rule.h"

#ifndef CONFIG_PATH /* the Makefile's sysconfdir overrides */
#define CONFIG_PATH "/etc/pennygate/pennygate.conf"
#endif
#define CONFIG_FILE_MAX   65536 /* a long file has 4 KB; bounds what a mistake makes us read */
#define CONFIG_MODELS_MAX 16
#define CONFIG_KEY_MAX    4096  /* longest API key: some are signed tokens */
#define CONFIG_SECRET_MAX 256   /* longest bypass secret; a key of 256 bits has 64 hex digits */
#define CONFIG_SECRET_MIN 16    /* shorter ones can be guessed */
#define CONFIG_PROMPT_MAX 32768 /* longest system prompt: it is paid for with every call */
#define CONFIG_ERROR_MAX  512
#define CONFIG_LIST_MAX   32 /* entries of allowed-origins, trusted-proxies and accounts each */
#define CONFIG_ACCOUNT_MAX                                                                     \
    72 /* an owner's account: user@host as mail has it, shorter than its 254 */

enum require { REQUIRE_NONE, REQUIRE_KEY, REQUIRE_ACCOUNT };
enum proxy_header { PROXY_X_FORWARDED_FOR, PROXY_FORWARDED };

/* What kind of machine it is: another set of defaults, gateway/config_options.c. */
enum profile { PROFILE_ROUTER, PROFILE_BOARD, PROFILE_VPS, PROFILES };

enum provider_kind { PROVIDER_OPENAI, PROVIDER_ANTHROPIC };

/* How hard a model is told to think before it answers; AS_IS: it is not told. */
enum reasoning {
    REASONING_AS_IS,
    REASONING_NONE,
    REASONING_LOW,
    REASONING_MEDIUM,
    REASONING_HIGH
};

struct config_model {
    char alias[LEDGER_MODEL_MAX]; /* the section's title: what callers see */
    enum provider_kind provider;
    char *url;  /* the API's base: "https://api.openai.com/v1"; the provider appends a path */
    char *name; /* the upstream's model name; never shown */
    char *key_file;     /* or NULL: a local model needs none */
    char *key;          /* its content, or NULL */
    bool key_loose;     /* others can read the file: no key was taken from it */
    char *output_field; /* openai: "max_completion_tokens" or "max_tokens" */
    bool stream_usage;  /* openai: streams are asked for their usage */
    enum reasoning reasoning;
    char *system_prompt_file; /* or NULL */
    char *system_prompt;      /* its content, or NULL */
    char *ca_file;            /* or NULL: the library's own */
    struct price price;       /* prices, overheads, caps: gateway/price.h */
    unsigned breaker_after;   /* failures in a row that open its breaker */
    int64_t breaker_pause_ms; /* for so long at first */
    char *fallback;           /* alias of the model asked instead, which has none; or NULL */
    int64_t connect_timeout_ms, first_byte_timeout_ms, idle_timeout_ms, total_timeout_ms;
};

struct config {
    /* site */
    char *store, *run_directory /* or NULL */, *secret_file, *mount /* or NULL */;
    bool local_time;
    int64_t retention_ms;
    bool site_ceiling_none;
    size_t store_size; /* of LMDB's map */
    struct origin allowed_origins[CONFIG_LIST_MAX];
    unsigned n_allowed_origins;
    struct prefix trusted_proxies[CONFIG_LIST_MAX];
    unsigned n_trusted_proxies;
    enum proxy_header proxy_header;
    enum require require;
    bool cookie_cross_site;
    bool page;  /* a chat page at the root */
    bool lease; /* durability: live rows on tmpfs, copies on flash; run_directory is set then */
    /* models, the default one first */
    struct config_model models[CONFIG_MODELS_MAX];
    unsigned n_models;
    /* request: bounds, in code points, messages and bytes */
    uint32_t max_message_chars, max_input_chars, max_history, max_body_bytes;
    /* limits, named defaults included, in the file's order after the defaults; last, if there
     * is a secret for it, that of the bypass */
    struct limit limits[LIMITS_MAX];
    unsigned n_limits;
    /* server */
    enum profile profile;
    unsigned streams;
    size_t stack_bytes, buffer_bytes; /* of a worker; of a call on a shared connection */
    char *socket;                     /* for `serve`; or NULL */
    mode_t socket_mode;
    char *socket_group; /* or NULL */
    int64_t heartbeat_ms, write_timeout_ms, stop_ms;
    /* bypass: the owner's own calls; off without a secret */
    char *bypass_secret_file; /* or NULL */
    char *bypass_secret;      /* the file's content, or the environment's; or NULL: off */
    bool bypass_loose;        /* others can read the file: nothing was taken from it */
    char *bypass_header;      /* "X-Pennygate-Bypass" */
    struct limit bypass;      /* its own limit: subject SUBJECT_BYPASS */
    /* alerts: only shown without a url */
    char *alert_url;        /* or NULL */
    char *alert_token_file; /* or NULL */
    char *alert_token;      /* sent as a bearer token; or NULL */
    bool alert_token_loose;
    char *alert_ca_file; /* or NULL */
    int64_t alert_timeout_ms;
    unsigned n_alert_at;
    uint8_t alert_at[ALERT_AT_MAX]; /* percent, ascending */
    /* transcripts */
    bool transcripts;         /* kept at all */
    bool transcripts_address; /* with the plain address instead of a hash */
    int64_t transcripts_keep_ms;
    size_t transcripts_size; /* of their map */
    /* dashboard */
    char dashboard_accounts[CONFIG_LIST_MAX][CONFIG_ACCOUNT_MAX]; /* compared as accounts are */
    unsigned n_dashboard_accounts;
    /* log */
    enum log_target log_target;
    enum log_format log_format;
    enum log_level log_level;
    unsigned log_rate; /* lines a second, of requests that are not admitted */

    /* Files whose change means a new configuration: this one, secret, keys, prompts. */
    struct {
        char *path;
        struct file_stamp stamp;
    } watched[4 + 2 * CONFIG_MODELS_MAX];
    unsigned n_watched;
    unsigned references; /* config.c's */
};

/*
 * Loads and checks the file at `path` under the environment `env` (NAME=value..., NULL). On
 * failure *out is untouched and message[0..CONFIG_ERROR_MAX) says file, line and what is wrong.
 * A secret never appears in a message. Does not read the secret file (ledger's owner does).
 */
enum error config_load(const char *path, char *const *env, struct config **out,
                       char message[CONFIG_ERROR_MAX]);

struct config *config_hold(struct config *c);
void config_drop(struct config *c); /* frees and wipes keys with the last reference */

/* Whether a watched file is no longer what was loaded: a few stat calls. */
bool config_changed(const struct config *c);

/* Whether the change can be taken up by swapping (else: drain and start again). */
bool config_swappable(const struct config *running, const struct config *fresh);

/* The policy of this configuration; borrows its limits. */
struct policy config_policy(const struct config *c, bool single);

/* The model of an alias; the default one if alias is NULL or not offered. */
const struct config_model *config_model(const struct config *c, const char *alias);

/* The model that is asked instead of this one; NULL: none. */
const struct config_model *config_fallback(const struct config *c,
                                           const struct config_model *m);

/* What the server and log sections say when there is no configuration; the rest is zero, and
 * nothing in it needs freeing. For a process that starts before its configuration is mended. */
void config_server_defaults(struct config *c);

/* What a process is built by: of a configuration, or where there is none (NULL) the defaults.
 * False: no memory. A struct config is too large for a stack that lives as long as the
 * process. */
struct config_server {
    unsigned streams;
    size_t stack_bytes;
    int64_t write_timeout_ms, stop_ms;
};
bool config_server(const struct config *c, struct config_server *out);

/* Worst cases at a model: of one message of one byte, and of the largest request admitted. */
void config_smallest(const struct config_model *m, struct amounts *out);
void config_largest(const struct config *c, const struct config_model *m, struct amounts *out);

/* The most that a day can cost by the limits for everyone, and what the owner's own calls can
 * cost besides (0: none are possible); UINT64_MAX if nothing bounds it or a price is unknown. */
uint64_t config_day_nano(const struct config *c);
uint64_t config_bypass_day_nano(const struct config *c);

/*
 * What `check` and start-up demand beyond the syntax: an enforcing `everyone` limit over a day
 * or month (or site-ceiling = none), prices where a cost limit exists, the smallest request of
 * each model fitting every limit, secrets that nobody else can read or guess, certificates that
 * are there. The number of faults; each as a line through `tell`. A gateway with a fault answers
 * 503.
 */
unsigned config_faults(const struct config *c, void (*tell)(void *arg, const char *line),
                       void *arg);

/* What is right, but perhaps not meant. Only `check` tells it; the gateway works. */
unsigned config_warnings(const struct config *c, void (*tell)(void *arg, const char *line),
                         void *arg);

#endif
