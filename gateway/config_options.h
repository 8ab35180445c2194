/*
 * The table of all options (pure): what each is called, what it takes, its bounds and where its
 * value goes. Parsing, overrides from the environment, `check` and pennygate.conf(5) (held to
 * it by a test) all stand on it. Values are text until they come here, because libConfuse takes
 * octal, hexadecimal, negative and overflowing integers in silence.
 */
#ifndef GATEWAY_CONFIG_OPTIONS_H
#define GATEWAY_CONFIG_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/config.h"

enum config_section {
    SECTION_SITE,
    SECTION_MODEL, /* titled, any number */
    SECTION_REQUEST,
    SECTION_LIMIT, /* titled, any number */
    SECTION_BYPASS,
    SECTION_ALERTS,
    SECTION_TRANSCRIPTS,
    SECTION_DASHBOARD,
    SECTION_SERVER, /* config_server_defaults takes this and the next */
    SECTION_LOG,
    SECTIONS
};

enum option_kind {
    OPTION_TEXT,     /* printable text; kept as a string */
    OPTION_PATH,     /* an absolute path; string */
    OPTION_URL,      /* http(s)://host[/path], no user, query or fragment; string */
    OPTION_HOOK,     /* such a URL that may have a query and is a secret; string */
    OPTION_MOUNT,    /* /a/b; string */
    OPTION_HEADER,   /* the name of a request's header; string */
    OPTION_SECRET,   /* one printable word; string */
    OPTION_CHOICE,   /* one of `words`; string */
    OPTION_WORD,     /* one of `words`; its index */
    OPTION_COUNT,    /* a decimal integer */
    OPTION_SIZE,     /* bytes, or with K, M, G */
    OPTION_DURATION, /* digits and one of s, m, h, d; milliseconds */
    OPTION_MONEY,    /* dollars; nano-dollars */
    OPTION_FACTOR,   /* at most three decimals; thousandths */
    OPTION_MODE,     /* four octal digits */
    OPTION_WINDOW,   /* store/window.h */
    OPTION_MAX,      /* by the limit's unit: an integer or money; or `unlimited` */
    OPTION_ORIGINS,  /* a list: gateway/origin.h */
    OPTION_PREFIXES, /* a list: gateway/forwarded.h */
    OPTION_PERCENTS, /* a list: 1 to 100, ascending */
    OPTION_NAMES,    /* a list: accounts of the web server */
    OPTION_KINDS
};

enum {
    OPTION_REQUIRED = 1,
    OPTION_FIXED = 2,      /* what a process began with: a change means to start anew */
    OPTION_ENVIRONMENT = 4 /* not in the file, which others may be able to read */
};

struct option {
    uint8_t section, kind;
    const char *key;
    const char *fallback; /* as it would be written; NULL: none */
    uint8_t flags;
    uint32_t min; /* of the integer, of the text's length, or of a list's entries */
    uint64_t max;
    uint16_t offset, width;   /* of the target in the section's struct; width 0: not kept.
                               * Of WINDOW and MAX: in a struct limit */
    const char *const *words; /* NULL-terminated */
    const char *help;
};

/* The rows of a section stand together, the sections in their order; within `limit` and
 * `bypass`, `unit` comes before `max`, which depends on it. */
extern const struct option config_options[];
extern const unsigned config_options_n;
#define CONFIG_OPTIONS_MAX 96 /* room for the table, where something is kept per option */

/* Written as {a, b}; in the environment, and as a text, as a,b. */
bool config_option_lists(const struct option *o);

/* The first row of a section and how many there are. */
const struct option *config_section_options(enum config_section s, unsigned *n);

/* What a profile has in place of an option's own fallback; what is written wins over both. */
struct option_profile {
    uint8_t section;
    const char *key;
    const char *fallback[PROFILES]; /* NULL: the row's own */
};

extern const struct option_profile config_profiles[];
extern const unsigned config_profiles_n;

extern const char *const config_section_names[SECTIONS];
bool config_section_titled(enum config_section s);

/* The row of a key, or NULL. */
const struct option *config_option(enum config_section s, const char *key);

#endif
