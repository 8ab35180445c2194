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

#define DEFAULT_TEXTS 4 /* per, unit, window, max; what follows them has defaults of its own */

/* Protection that nobody has to ask for. A section of the same name replaces one,
 * others add. */
static const struct {
    const char *name, *text[DEFAULT_TEXTS]; /* as the table has them */
} default_limits[] = {
    {"visitor-day", {"address", "calls", "day", "40"}},
    {"visitor-burst", {"address", "calls", "10s", "10"}},
    {"visitor-at-once", {"address", "concurrent", NULL, "2"}},
    {"site-day", {"everyone", "calls", "day", "600"}},
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
    return &b->value[o - b->option];
}

const struct config_written *config_source_value(const struct config_block *b,
                                                 const struct option *o)
{
    return &b->value[o - b->option];
}

/* Of NAME=text. */
static int name_length(const char *variable)
{
    return (int)strcspn(variable, "=");
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
        snprintf(s->message, CONFIG_ERROR_MAX, "%.*s: %s %s", name_length(v->variable),
                 v->variable, o->key, why);
    return false;
}

static struct config_block *append(struct config_source *s, enum config_section section,
                                   const char *title)
{
    unsigned n;
    const struct option *o = config_section_options(section, &n);
    struct config_block *b = calloc(1, sizeof *b + n * sizeof b->value[0]);

    if (b == NULL) {
        config_source_fail(s, 0, "out of memory");
        return NULL;
    }
    b->section = section;
    b->option = o;
    b->n = n;
    snprintf(b->title, sizeof b->title, "%s", title);
    s->block[s->n++] = b;
    return b;
}

static bool add_default_limit(struct config_source *s, unsigned i)
{
    struct config_block *b = append(s, SECTION_LIMIT, default_limits[i].name);

    for (unsigned k = 0; b != NULL && k < DEFAULT_TEXTS; k++)
        b->value[k].text = default_limits[i].text[k];
    return b != NULL;
}

struct config_source *config_source_new(const char *path, char message[CONFIG_ERROR_MAX])
{
    struct config_source *s = calloc(1, sizeof *s);
    bool ok = s != NULL;

    message[0] = '\0';
    if (ok) {
        s->path = path;
        s->message = message;
    }
    for (enum config_section i = 0; ok && i < SECTIONS; i++)
        ok = config_section_titled(i) || append(s, i, "") != NULL;
    for (unsigned i = 0; ok && i < sizeof default_limits / sizeof default_limits[0]; i++)
        ok = add_default_limit(s, i);
    if (ok)
        return s;
    config_source_free(s);
    return NULL;
}

void config_source_free(struct config_source *s)
{
    if (s == NULL)
        return;
    for (unsigned i = 0; i < s->n; i++)
        free(s->block[i]);
    free(s);
}

struct config_block *config_source_find(struct config_source *s, enum config_section section,
                                        const char *title)
{
    for (unsigned i = 0; i < s->n; i++) {
        if (s->block[i]->section == section && strcmp(s->block[i]->title, title) == 0)
            return s->block[i];
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
        n += s->block[i]->section == section;
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
        if (b == NULL)
            return NULL;
    }
    /* a section replaces the default of its name wholly */
    memset(b->value, 0, b->n * sizeof b->value[0]);
    b->line = line;
    return b;
}

bool config_source_set(struct config_source *s, struct config_block *b, const char *key,
                       const char *text, unsigned line)
{
    const struct option *o = config_option(b->section, key);
    struct config_written *v;
    size_t n = strlen(text) + 1;

    if (o == NULL)
        return config_source_fail(s, line, "no option '%s' here", key);
    v = value_of(b, o);
    if (v->text != NULL)
        return config_source_fail(s, line, "%s is given twice, first in line %u", key, v->line);
    /* Never so: with its key and `=` each value is longer in the file than here. */
    if (n > s->room)
        return config_source_fail(s, line, "more values than text");
    *v = (struct config_written){.text = memcpy(s->text, text, n), .line = line};
    s->text += n;
    s->room -= n;
    return true;
}

bool config_source_append(struct config_source *s, const char *text, unsigned line)
{
    size_t n = strlen(text) + 1;

    if (n > s->room)
        return config_source_fail(s, line, "more values than text");
    s->text[-1] = ','; /* nothing was set in between: a list stands in one piece */
    memcpy(s->text, text, n);
    s->text += n;
    s->room -= n;
    return true;
}

/* ---- the environment ---- */

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

static bool override(struct config_source *s, const char *name, const char *variable)
{
    struct config_written *found = NULL;

    for (unsigned i = 0; i < s->n; i++) {
        struct config_block *b = s->block[i];

        for (unsigned k = 0; k < b->n; k++) {
            if (!names_value(name, b, &b->option[k]))
                continue;
            if (found != NULL)
                return config_source_fail(s, 0, "%s: could mean two options", name);
            found = &b->value[k];
        }
    }
    if (found == NULL)
        return config_source_fail(s, 0, "%s: no option is called so", name);
    if (found->variable != NULL)
        return config_source_fail(s, 0, "%s: the option is also set by %.*s", name,
                                  name_length(found->variable), found->variable);
    *found = (struct config_written){.text = variable + strlen(name) + 1, .variable = variable};
    return true;
}

bool config_source_environment(struct config_source *s, char *const *env)
{
    char name[VARIABLE_MAX];

    for (; env != NULL && *env != NULL; env++) {
        int n = name_length(*env);

        if (strncmp(*env, VARIABLE_PREFIX, strlen(VARIABLE_PREFIX)) != 0 || (*env)[n] == '\0')
            continue;
        snprintf(name, sizeof name, "%.*s", n, *env);
        if ((size_t)n >= sizeof name)
            return config_source_fail(s, 0, "%s...: no option is called so", name);
        if (strcmp(name, "PENNYGATE_CONFIG") != 0 && !override(s, name, *env))
            return false;
    }
    return true;
}

/* ---- the profile ---- */

void config_source_profile(struct config_source *s, enum profile p)
{
    for (unsigned i = 0; i < config_profiles_n; i++) {
        const struct option_profile *row = &config_profiles[i];
        enum config_section section = (enum config_section)row->section;
        struct config_block *b = config_source_find(s, section, "");
        struct config_written *v = value_of(b, config_option(section, row->key));

        if (v->text == NULL)
            v->text = row->fallback[p];
    }
}
