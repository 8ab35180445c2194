/*
 * What was written, before it is understood: each section of the file (and each that exists
 * without being written) with the texts of its options and where they stand. Filled from the
 * file by config_parse.c, overridden from the environment, read by config.c.
 */
#ifndef GATEWAY_CONFIG_SOURCE_H
#define GATEWAY_CONFIG_SOURCE_H

#include <stdbool.h>
#include <stddef.h>

#include "gateway/config.h"
#include "gateway/config_options.h"

/* All borrowed: from the file's text, the environment or the table of defaults. */
struct config_written {
    const char *text;     /* NULL: not written */
    const char *variable; /* NAME=text of the environment, or NULL: of the file, */
    unsigned line;        /* in this line */
};

struct config_block {
    enum config_section section;
    char title[LIMIT_NAME_MAX];    /* "" for sections without */
    unsigned line;                 /* where it begins; 0: not in the file */
    bool ended;                    /* its closing brace has been seen */
    const struct option *option;   /* the section's rows of the table, */
    unsigned n;                    /* so many, */
    struct config_written value[]; /* and one of these for each */
};

/* The sections without a title, and all that can be titled. */
#define CONFIG_BLOCKS_MAX (SECTIONS - 2 + CONFIG_MODELS_MAX + LIMITS_MAX)

struct config_source {
    const char *path; /* borrowed */
    char *message;    /* borrowed; CONFIG_ERROR_MAX; the first fault, "" if none */
    char *text;       /* borrowed: where config_parse puts values; NULL before it, */
    size_t room;      /* so many bytes are left there */
    unsigned n;
    struct config_block *block[CONFIG_BLOCKS_MAX];
};

/* The untitled sections and the named default limits. NULL: out of memory. */
struct config_source *config_source_new(const char *path, char message[CONFIG_ERROR_MAX]);
void config_source_free(struct config_source *s);

/* Keeps the first fault with file and line (line 0: with the file alone); returns false. */
bool config_source_fail(struct config_source *s, unsigned line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for a value: says whether file and line or which variable it came from, and of what
 * option it is. */
bool config_source_fail_value(struct config_source *s, const struct config_block *b,
                              const struct option *o, const char *why);

struct config_block *config_source_find(struct config_source *s, enum config_section section,
                                        const char *title);

/* The block for a section that begins in the file: a new one, or that of a default, emptied.
 * NULL if there are too many of its kind or its title is not allowed. */
struct config_block *config_source_begin(struct config_source *s, enum config_section section,
                                         const char *title, unsigned line);

/* Takes a value from the file; fails if the option has one already. */
bool config_source_set(struct config_source *s, struct config_block *b, const char *key,
                       const char *text, unsigned line);

/* Takes a further entry of the list that was set last: its text becomes "a,b". */
bool config_source_append(struct config_source *s, const char *text, unsigned line);

/* The block's value of an option of its section; its text is NULL if it is not written. */
const struct config_written *config_source_value(const struct config_block *b,
                                                 const struct option *o);

/* Once all is taken: writes what the profile says of options that nobody has written. */
void config_source_profile(struct config_source *s, enum profile p);

/* Takes PENNYGATE_SECTION[_TITLE]_KEY; fails for a PENNYGATE_* that is no option. `env` is
 * borrowed for as long as the source lives. */
bool config_source_environment(struct config_source *s, char *const *env);

#endif
