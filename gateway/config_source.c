/*
 * Sections and values as written, the named default limits, and overrides from the environment.
 * The environment is the process's own; what a web server passes for a request never comes
 * here.
 */
#include "gateway/config_source.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VARIABLE_PREFIX "PENNYGATE_"
#define VARIABLE_MAX    128 /* longest name an option can have: 86 */

/* Protection that nobody has to ask for. A section of the same name replaces one, others add.
 */
static const struct {
    const char *name, *per, *unit, *window, *max;
} default_limits[] = {
    {"visitor-day", "address", "calls", "day", "40"},
    {"visitor-burst", "address", "calls", "10s", "10"},
    {"visitor-at-once", "address", "concurrent", NULL, "2"},
    {"site-day", "everyone", "calls", "day", "600"},
};

/* Names that are easier to remember for what is set most. */
static const struct {
    const char *variable, *limit;
} short_names[] = {
    {"PENNYGATE_VISITOR_LIMIT", "visitor-day"},
    {"PENNYGATE_SITE_LIMIT", "site-day"},
};

static struct config_written *value_of(struct config_block *b, const struct option *o)
{
    return &b->value[o - config_options];
}

const struct config_written *config_source_value(const struct config_block *b,
                                                 const struct option *o)
{
    return &b->value[o - config_options];
}

bool config_source_fail(struct config_source *s, unsigned line, const char *format, ...)
{
    va_list args;
    int n;

    if (s->message[0] != '\0')
        return false;
    if (line > 0)
        n = snprintf(s->message, CONFIG_ERROR_MAX, "%s:%u: ", s->path, line);
    else
        n = snprintf(s->message, CONFIG_ERROR_MAX, "%s: ", s->path);
    if (n < 0 || n >= CONFIG_ERROR_MAX)
        return false;
    va_start(args, format);
    vsnprintf(s->message + n, CONFIG_ERROR_MAX - (size_t)n, format, args);
    va_end(args);
    return false;
}

bool config_source_fail_value(struct config_source *s, const struct config_block *b,
                              const struct option *o, const char *why)
{
    const struct config_written *v = config_source_value(b, o);
    const char *space = b->title[0] != '\0' ? " " : "";

    if (v->variable == NULL)
        return config_source_fail(s, v->text != NULL ? v->line : b->line, "%s%s%s: %s %s",
                                  config_section_names[b->section], space, b->title, o->key,
                                  why);
    if (s->message[0] == '\0')
        snprintf(s->message, CONFIG_ERROR_MAX, "%s: %s %s", v->variable, o->key, why);
    return false;
}

static bool put(struct config_source *s, struct config_written *v, const char *text,
                unsigned line, const char *variable)
{
    char *copy = strdup(text), *name = variable != NULL ? strdup(variable) : NULL;

    if (copy == NULL || (variable != NULL && name == NULL)) {
        free(copy);
        free(name);
        return config_source_fail(s, line, "out of memory");
    }
    free(v->text);
    free(v->variable);
    *v = (struct config_written){.text = copy, .line = line, .variable = name};
    return true;
}

static struct config_block *append(struct config_source *s, enum config_section section,
                                   const char *title)
{
    struct config_block *b = &s->block[s->n++];

    b->section = section;
    snprintf(b->title, sizeof b->title, "%s", title);
    return b;
}

static bool add_default_limit(struct config_source *s, unsigned i)
{
    struct config_block *b = append(s, SECTION_LIMIT, default_limits[i].name);
    const char *const pairs[][2] = {{"per", default_limits[i].per},
                                    {"unit", default_limits[i].unit},
                                    {"window", default_limits[i].window},
                                    {"max", default_limits[i].max}};

    for (unsigned k = 0; k < 4; k++) {
        const struct option *o = config_option(SECTION_LIMIT, pairs[k][0]);

        if (pairs[k][1] != NULL && !put(s, value_of(b, o), pairs[k][1], 0, NULL))
            return false;
    }
    return true;
}

struct config_source *config_source_new(const char *path, char message[CONFIG_ERROR_MAX])
{
    struct config_source *s = calloc(1, sizeof *s);

    if (s == NULL) {
        snprintf(message, CONFIG_ERROR_MAX, "%s: out of memory", path);
        return NULL;
    }
    s->path = path;
    s->message = message;
    message[0] = '\0';
    for (enum config_section i = 0; i < SECTIONS; i++) {
        if (!config_section_titled(i))
            append(s, i, "");
    }
    for (unsigned i = 0; i < sizeof default_limits / sizeof default_limits[0]; i++) {
        if (!add_default_limit(s, i)) {
            config_source_free(s);
            return NULL;
        }
    }
    return s;
}

static void empty(struct config_block *b)
{
    for (unsigned i = 0; i < CONFIG_OPTIONS_MAX; i++) {
        free(b->value[i].text);
        free(b->value[i].variable);
        b->value[i] = (struct config_written){0};
    }
}

void config_source_free(struct config_source *s)
{
    if (s == NULL)
        return;
    for (unsigned i = 0; i < s->n; i++)
        empty(&s->block[i]);
    free(s);
}

struct config_block *config_source_find(struct config_source *s, enum config_section section,
                                        const char *title)
{
    for (unsigned i = 0; i < s->n; i++) {
        if (s->block[i].section == section && strcmp(s->block[i].title, title) == 0)
            return &s->block[i];
    }
    return NULL;
}

static bool title_ok(const char *title)
{
    const char *plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    size_t n = strlen(title);

    return n > 0 && n < LIMIT_NAME_MAX && title[strspn(title, plain)] == '\0';
}

/* Aliases also hold dots, as the names of models do. */
static bool alias_ok(const char *title)
{
    char copy[LEDGER_MODEL_MAX];

    if (strlen(title) >= sizeof copy || title[0] == '.')
        return false;
    snprintf(copy, sizeof copy, "%s", title);
    for (char *p = copy; *p != '\0'; p++) {
        if (*p == '.')
            *p = '-';
    }
    return title_ok(copy);
}

static unsigned count(const struct config_source *s, enum config_section section)
{
    unsigned n = 0;

    for (unsigned i = 0; i < s->n; i++)
        n += s->block[i].section == section;
    return n;
}

struct config_block *config_source_begin(struct config_source *s, enum config_section section,
                                         const char *title, unsigned line)
{
    struct config_block *b = config_source_find(s, section, title);
    unsigned most = section == SECTION_MODEL ? CONFIG_MODELS_MAX : LIMITS_MAX;

    if (b == NULL) {
        if (section == SECTION_MODEL ? !alias_ok(title) : !title_ok(title)) {
            config_source_fail(s, line, "a %s is named in 1 to %d letters, digits, - and _%s",
                               config_section_names[section], LIMIT_NAME_MAX - 1,
                               section == SECTION_MODEL ? " (and dots)" : "");
            return NULL;
        }
        if (count(s, section) >= most) {
            config_source_fail(s, line, "more than %u sections %s%s", most,
                               config_section_names[section],
                               section == SECTION_LIMIT ? ", the default limits included" : "");
            return NULL;
        }
        b = append(s, section, title);
    }
    empty(b); /* a section replaces the default of its name wholly */
    b->line = line;
    return b;
}

bool config_source_set(struct config_source *s, struct config_block *b, const char *key,
                       const char *text, unsigned line)
{
    const struct option *o = config_option(b->section, key);

    if (o == NULL)
        return config_source_fail(s, line, "no option '%s' here", key);
    if (config_source_value(b, o)->text != NULL)
        return config_source_fail(s, line, "%s is given twice, first in line %u", key,
                                  config_source_value(b, o)->line);
    return put(s, value_of(b, o), text, line, NULL);
}

/* ---- the environment ----------------------------------------------------------------------
 */

/* Appends a word in upper case with '_' for all that is no letter or digit. */
static void append_upper(char out[VARIABLE_MAX], const char *word)
{
    size_t n = strlen(out);

    for (; *word != '\0' && n + 1 < VARIABLE_MAX; word++) {
        char c = *word;

        if (c >= 'a' && c <= 'z')
            c = (char)(c - 'a' + 'A');
        else if (!(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9'))
            c = '_';
        out[n++] = c;
    }
    out[n] = '\0';
}

static void variable_name(const struct config_block *b, const struct option *o,
                          char out[VARIABLE_MAX])
{
    snprintf(out, VARIABLE_MAX, "%s", VARIABLE_PREFIX);
    append_upper(out, config_section_names[b->section]);
    append_upper(out, "_");
    if (b->title[0] != '\0') {
        append_upper(out, b->title);
        append_upper(out, "_");
    }
    append_upper(out, o->key);
}

static bool names_value(const char *name, const struct config_block *b, const struct option *o)
{
    char full[VARIABLE_MAX];

    if (o->section != b->section)
        return false;
    variable_name(b, o, full);
    if (strcmp(full, name) == 0)
        return true;
    for (unsigned i = 0; i < sizeof short_names / sizeof short_names[0]; i++) {
        if (strcmp(short_names[i].variable, name) == 0)
            return b->section == SECTION_LIMIT && strcmp(b->title, short_names[i].limit) == 0 &&
                   strcmp(o->key, "max") == 0;
    }
    return false;
}

static bool override(struct config_source *s, const char *name, const char *text)
{
    struct config_written *found = NULL;

    for (unsigned i = 0; i < s->n; i++) {
        for (unsigned k = 0; k < config_options_n; k++) {
            if (!names_value(name, &s->block[i], &config_options[k]))
                continue;
            if (found != NULL)
                return config_source_fail(s, 0, "%s: could mean two options", name);
            found = &s->block[i].value[k];
        }
    }
    if (found == NULL)
        return config_source_fail(s, 0, "%s: no option is called so", name);
    if (found->variable != NULL)
        return config_source_fail(s, 0, "%s: the option is also set by %s", name,
                                  found->variable);
    return put(s, found, text, 0, name);
}

bool config_source_environment(struct config_source *s, char *const *env)
{
    char name[VARIABLE_MAX];

    for (; env != NULL && *env != NULL; env++) {
        const char *equals = strchr(*env, '=');

        if (strncmp(*env, VARIABLE_PREFIX, strlen(VARIABLE_PREFIX)) != 0 || equals == NULL)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(equals - *env), *env);
        if ((size_t)(equals - *env) >= sizeof name)
            return config_source_fail(s, 0, "%s...: no option is called so", name);
        if (strcmp(name, "PENNYGATE_CONFIG") == 0)
            continue;
        if (!override(s, name, equals + 1))
            return false;
    }
    return true;
}
