/*
 * Loads a configuration: file, environment, table of options, the files it names; then shares
 * it by reference count. Immutable once loaded. Fails closed: whatever is not understood is an
 * error with file and line, never a default. A message never holds the content of a file that
 * the configuration names.
 */
#include "gateway/config.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/config_options.h"
#include "gateway/config_parse.h"
#include "gateway/config_source.h"
#include "gateway/config_value.h"
#include "platform/mac.h"
#include "store/period.h"

/* ---- ownership ---- */

static void wipe_string(char *text)
{
    if (text != NULL)
        mac_wipe(text, strlen(text));
    free(text);
}

static void free_config(struct config *c)
{
    for (enum config_section s = 0; s < SECTIONS; s++) {
        if (!config_section_titled(s))
            config_value_free(s, c);
    }
    for (unsigned i = 0; i < c->n_models; i++) {
        config_value_free(SECTION_MODEL, &c->models[i]);
        wipe_string(c->models[i].key);
        free(c->models[i].system_prompt);
    }
    wipe_string(c->alert_token);
    for (unsigned i = 0; i < c->n_watched; i++)
        free(c->watched[i].path);
    free(c);
}

struct config *config_hold(struct config *c)
{
    __atomic_add_fetch(&c->references, 1, __ATOMIC_RELAXED);
    return c;
}

void config_drop(struct config *c)
{
    if (c != NULL && __atomic_sub_fetch(&c->references, 1, __ATOMIC_ACQ_REL) == 0)
        free_config(c);
}

/* ---- the files that belong to it ---- */

struct loading {
    struct config_source *source;
    struct config *config;
    enum error error; /* what config_load returns if it is more than ERROR_SYNTAX */
};

static const char *reason(enum error e)
{
    return e == ERROR_SYSTEM ? strerror(errno) : error_text(e);
}

static bool fail(struct loading *l, enum error e)
{
    l->error = e;
    return config_source_fail(l->source, 0, "%s", reason(e));
}

/* Stamped before it is read, so that a change in between is seen later. */
static bool watch(struct loading *l, const char *path)
{
    struct config *c = l->config;
    char *copy = strdup(path);

    if (copy == NULL)
        return fail(l, ERROR_MEMORY);
    c->watched[c->n_watched].path = copy;
    c->watched[c->n_watched].stamp = file_stamp(path);
    c->n_watched++;
    return true;
}

/* What is wrong with a text, or NULL. */
typedef const char *judge_fn(const char *text);

/* One word that can stand in a header, and no line of a file of another kind. */
static const char *judge_key(const char *key)
{
    static const char name[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    const char *behind = key + strspn(key, name);

    for (const char *p = key; *p != '\0'; p++) {
        if (*p <= 0x20 || *p >= 0x7f)
            return "names a file that is not one line with a key";
    }
    if (key[0] == '\'' || key[0] == '"' ||
        (*behind == '=' && strspn(behind, "=") < strlen(behind)))
        return "names a file that must hold the key alone, without NAME= and quotes";
    return NULL;
}

static const char *judge_prompt(const char *text)
{
    json_t *s = json_string(text);

    json_decref(s);
    return s == NULL ? "names a file that is not UTF-8" : NULL;
}

/* The text of the file at `path` (NULL: none) that the option names, watched; blanks at its end
 * are dropped. With `loose` it is a secret: what a file that others can read holds is not taken,
 * and *loose says so. */
static bool read_named(struct loading *l, const struct config_block *b, const char *key,
                       const char *path, size_t max, bool *loose, char **out)
{
    const struct option *o = config_option(b->section, key);
    judge_fn *judge = loose != NULL ? judge_key : judge_prompt;
    const char *wrong = NULL;
    char why[CONFIG_WHY_MAX];
    size_t n = 0;
    enum error e;

    if (path == NULL)
        return true;
    if (!watch(l, path))
        return false;
    e = loose != NULL ? file_read_secret(path, max, true, out, &n)
                      : file_read(path, max, out, &n);
    if (loose != NULL && e == ERROR_LOOSE_MODE) {
        *loose = true;
        return true;
    }
    if (e != ERROR_NONE) {
        snprintf(why, sizeof why, "'%.100s': %s", path, reason(e));
        return config_source_fail_value(l->source, b, o, why);
    }
    while (n > 0 && strchr(" \t\r\n", (*out)[n - 1]) != NULL)
        n--;
    (*out)[n] = '\0';
    wrong = strlen(*out) != n || n == 0 ? "names a file without text" : judge(*out);
    if (wrong == NULL)
        return true;
    mac_wipe(*out, n);
    return config_source_fail_value(l->source, b, o, wrong);
}

/* ---- from texts to values ---- */

static bool is_written(const struct config_block *b, const char *key)
{
    return config_source_value(b, config_option(b->section, key))->text != NULL;
}

static bool set_options(struct config_source *s, const struct config_block *b, void *base)
{
    char why[CONFIG_WHY_MAX];

    for (unsigned i = 0; i < b->n; i++) {
        const struct option *o = &b->option[i];
        const char *text = b->value[i].text;

        if (text != NULL && (o->flags & OPTION_ENVIRONMENT) != 0 &&
            b->value[i].variable == NULL)
            return config_source_fail_value(
                s, b, o, "is not for the file, which others may be able to read");
        if (text == NULL)
            text = o->fallback;
        if (text == NULL && (o->flags & OPTION_REQUIRED) != 0) {
            snprintf(why, sizeof why, "is missing: %s", o->help);
            return config_source_fail_value(s, b, o, why);
        }
        if (text != NULL && !config_value_set(o, text, base, why))
            return config_source_fail_value(s, b, o, why);
    }
    return true;
}

/* Before all other options, since their defaults depend on it. */
static bool choose_profile(struct loading *l)
{
    const struct option *o = config_option(SECTION_SERVER, "profile");
    const struct config_block *b = config_source_find(l->source, SECTION_SERVER, "");
    const char *text = config_source_value(b, o)->text;
    char why[CONFIG_WHY_MAX];

    if (!config_value_set(o, text != NULL ? text : o->fallback, l->config, why))
        return config_source_fail_value(l->source, b, o, why);
    config_source_profile(l->source, l->config->profile);
    return true;
}

static bool finish_site(struct loading *l)
{
    struct config *c = l->config;

    if (c->secret_file == NULL && asprintf(&c->secret_file, "%s/secret", c->store) < 0) {
        c->secret_file = NULL;
        return fail(l, ERROR_MEMORY);
    }
    return watch(l, c->secret_file);
}

static bool add_model(struct loading *l, const struct config_block *b)
{
    struct config_model *m = &l->config->models[l->config->n_models++];
    struct price *p = &m->price;

    snprintf(m->alias, sizeof m->alias, "%s", b->title);
    if (!set_options(l->source, b, m))
        return false;
    p->known = is_written(b, "price-input") && is_written(b, "price-output");
    if (!is_written(b, "price-cached-input"))
        p->cached_input_nano = p->input_nano;
    if (!is_written(b, "price-cache-write"))
        p->cache_write_nano = p->input_nano;
    return read_named(l, b, "key-file", m->key_file, CONFIG_KEY_MAX, &m->key_loose, &m->key) &&
           read_named(l, b, "system-prompt-file", m->system_prompt_file, CONFIG_PROMPT_MAX,
                      NULL, &m->system_prompt);
}

/* Why a limit cannot be released evenly over its window, or NULL. */
static const char *unpaceable(const struct limit *l)
{
    if (l->unit == UNIT_CONCURRENT)
        return "does not go with unit concurrent, which has no window";
    if (l->window.kind == WINDOW_SLIDING)
        return "needs window = hour, day or month: any other has no beginning";
    if (l->max == LIMIT_UNLIMITED)
        return "does not go with max = unlimited";
    if (l->subject != SUBJECT_EVERYONE && l->subject != SUBJECT_ANONYMOUS)
        return "is for per = everyone and anonymous: to a caller a share of his own that grows "
               "by the hour would look broken";
    return NULL;
}

#define BYPASS_NAME "bypass"

static bool add_limit(struct loading *l, const struct config_block *b)
{
    struct limit *limit = &l->config->limits[l->config->n_limits++];
    const struct option *window = config_option(SECTION_LIMIT, "window");

    snprintf(limit->name, sizeof limit->name, "%s", b->title);
    if (strcmp(b->title, BYPASS_NAME) == 0)
        return config_source_fail(l->source, b->line,
                                  "limit %s: that is the name of what section bypass counts",
                                  BYPASS_NAME);
    if (!set_options(l->source, b, limit))
        return false;
    if (limit->unit == UNIT_CONCURRENT && is_written(b, "window"))
        return config_source_fail_value(l->source, b, window,
                                        "does not go with unit concurrent");
    if (limit->unit != UNIT_CONCURRENT && !is_written(b, "window"))
        return config_source_fail_value(l->source, b, window, "is missing");
    if (limit->pace && unpaceable(limit) != NULL)
        return config_source_fail_value(l->source, b, config_option(SECTION_LIMIT, "pace"),
                                        unpaceable(limit));
    return true;
}

static bool finish_bypass(struct loading *l, const struct config_block *b)
{
    struct config *c = l->config;
    const struct option *secret = config_option(SECTION_BYPASS, "secret");

    c->bypass.subject = SUBJECT_BYPASS;
    snprintf(c->bypass.name, sizeof c->bypass.name, BYPASS_NAME);
    if (c->bypass_secret != NULL && c->bypass_secret_file != NULL)
        return config_source_fail_value(l->source, b, secret,
                                        "is given, and so is secret-file: one is enough");
    return read_named(l, b, "secret-file", c->bypass_secret_file, CONFIG_SECRET_MAX,
                      &c->bypass_loose, &c->bypass_secret);
}

static bool finish_alerts(struct loading *l, const struct config_block *b)
{
    struct config *c = l->config;

    return read_named(l, b, "token-file", c->alert_token_file, CONFIG_KEY_MAX,
                      &c->alert_token_loose, &c->alert_token);
}

/* The bypass has a counter like any other, so it is the last of the limits. */
static bool add_bypass(struct loading *l)
{
    struct config *c = l->config;

    if (c->bypass_secret == NULL)
        return true;
    if (c->n_limits == LIMITS_MAX)
        return config_source_fail(l->source, 0,
                                  "more than %d limits, that of bypass and the default ones "
                                  "included",
                                  LIMITS_MAX);
    c->limits[c->n_limits++] = c->bypass;
    return true;
}

static bool add_block(struct loading *l, const struct config_block *b)
{
    if (b->section == SECTION_MODEL)
        return add_model(l, b);
    if (b->section == SECTION_LIMIT)
        return add_limit(l, b);
    if (!set_options(l->source, b, l->config))
        return false;
    if (b->section == SECTION_SITE)
        return finish_site(l);
    if (b->section == SECTION_BYPASS)
        return finish_bypass(l, b);
    return b->section != SECTION_ALERTS || finish_alerts(l, b);
}

/* Each window has a period key of its own, and the store has room for PERIOD_WINDOWS. The
 * calendar day is always among them: it names subjects in the log. */
static bool windows_fit(struct loading *l)
{
    struct window seen[LIMITS_MAX + 1] = {{.kind = WINDOW_DAY}};
    unsigned n = rule_windows(l->config->limits, l->config->n_limits, seen, 1, LIMITS_MAX + 1);

    return n <= PERIOD_WINDOWS ||
           config_source_fail(l->source, 0,
                              "%u different windows, the day included; at most %d", n,
                              PERIOD_WINDOWS);
}

/* Why this one cannot stand in for another model, or NULL. A chain could go round, and each
 * further model would be a further wait for the caller. */
static const char *unfit_fallback(const struct config *c, const struct config_model *m)
{
    const struct config_model *other = config_fallback(c, m);

    if (strcmp(other->alias, m->fallback) != 0)
        return "is no model of this file";
    if (other == m)
        return "is the model itself";
    return other->fallback != NULL ? "is a model that has a fallback of its own" : NULL;
}

/* Once all models are known. */
static bool fallbacks_fit(struct loading *l)
{
    const struct config *c = l->config;
    const struct option *o = config_option(SECTION_MODEL, "fallback");

    for (unsigned i = 0; i < c->n_models; i++) {
        const struct config_model *m = &c->models[i];
        const char *wrong = m->fallback != NULL ? unfit_fallback(c, m) : NULL;
        char why[CONFIG_WHY_MAX];

        if (wrong == NULL)
            continue;
        snprintf(why, sizeof why, "'%s' %s", m->fallback, wrong);
        return config_source_fail_value(
            l->source, config_source_find(l->source, SECTION_MODEL, m->alias), o, why);
    }
    return true;
}

/* Why the site cannot have a lease, and of which option, or NULL. */
static const char *unfit_lease(const struct config *c, const char **key)
{
    size_t n = strlen(c->store);

    *key = "run-directory";
    if (c->run_directory == NULL)
        return "is missing: durability = lease needs one, on tmpfs";
    if (strncmp(c->run_directory, c->store, n) == 0 &&
        (c->run_directory[n] == '\0' || c->run_directory[n] == '/'))
        return "is inside of store: durability = lease needs it on tmpfs, and store on flash";
    *key = "durability";
    return c->transcripts
               ? "lease does not go with transcripts { keep = yes }, which need a file "
                 "system that LMDB can use"
               : NULL;
}

/* Once all sections are known. */
static bool durability_fits(struct loading *l)
{
    const char *key, *wrong = l->config->lease ? unfit_lease(l->config, &key) : NULL;

    return wrong == NULL ||
           config_source_fail_value(l->source, config_source_find(l->source, SECTION_SITE, ""),
                                    config_option(SECTION_SITE, key), wrong);
}

static bool load(struct loading *l, char *const *env)
{
    struct config_source *s = l->source;
    char *text;
    size_t n;
    enum error e;
    bool ok;

    if (!watch(l, s->path))
        return false;
    e = file_read(s->path, CONFIG_FILE_MAX, &text, &n);
    if (e != ERROR_NONE)
        return fail(l, e);
    ok = config_parse(s, text, n) && config_source_environment(s, env) && choose_profile(l);
    for (unsigned i = 0; ok && i < s->n; i++)
        ok = add_block(l, s->block[i]);
    ok = ok && fallbacks_fit(l) && durability_fits(l);
    free(text); /* the values were in it */
    return ok && add_bypass(l) && windows_fit(l);
}

enum error config_load(const char *path, char *const *env, struct config **out,
                       char message[CONFIG_ERROR_MAX])
{
    struct loading l = {.source = config_source_new(path, message), .error = ERROR_SYNTAX};
    bool ok = false;

    l.config = calloc(1, sizeof *l.config);
    if (l.source == NULL || l.config == NULL) {
        snprintf(message, CONFIG_ERROR_MAX, "%s: %s", path, error_text(ERROR_MEMORY));
        l.error = ERROR_MEMORY;
    } else {
        ok = load(&l, env);
    }
    config_source_free(l.source);
    if (!ok) {
        if (l.config != NULL)
            free_config(l.config);
        return l.error;
    }
    l.config->references = 1;
    *out = l.config;
    return ERROR_NONE;
}

void config_server_defaults(struct config *c)
{
    char why[CONFIG_WHY_MAX];

    memset(c, 0, sizeof *c);
    for (enum config_section s = SECTION_SERVER; s <= SECTION_LOG; s++) {
        unsigned n;
        const struct option *o = config_section_options(s, &n);

        for (; n > 0; o++, n--) {
            if (o->fallback != NULL)
                config_value_set(o, o->fallback, c, why);
        }
    }
}

bool config_server(const struct config *c, struct config_server *out)
{
    struct config *defaults = NULL;

    if (c == NULL) {
        if ((defaults = malloc(sizeof *defaults)) == NULL)
            return false;
        config_server_defaults(defaults);
        c = defaults;
    }
    *out = (struct config_server){
        .streams = c->streams,
        .stack_bytes = c->stack_bytes,
        .write_timeout_ms = c->write_timeout_ms,
        .stop_ms = c->stop_ms,
    };
    free(defaults);
    return true;
}

/* ---- in use ---- */

bool config_changed(const struct config *c)
{
    for (unsigned i = 0; i < c->n_watched; i++) {
        struct file_stamp now = file_stamp(c->watched[i].path);

        if (!file_stamp_equal(&now, &c->watched[i].stamp))
            return true;
    }
    return false;
}

/* The stamp under which a configuration saw its secret. */
static const struct file_stamp *secret_stamp(const struct config *c)
{
    for (unsigned i = 0; i < c->n_watched; i++) {
        if (strcmp(c->watched[i].path, c->secret_file) == 0)
            return &c->watched[i].stamp;
    }
    return NULL;
}

bool config_swappable(const struct config *running, const struct config *fresh)
{
    const struct file_stamp *a = secret_stamp(running), *b = secret_stamp(fresh);

    for (unsigned i = 0; i < config_options_n; i++) {
        const struct option *o = &config_options[i];

        if ((o->flags & OPTION_FIXED) != 0 && !config_value_same(o, running, fresh))
            return false;
    }
    return a != NULL && b != NULL && file_stamp_equal(a, b);
}

struct policy config_policy(const struct config *c, bool single)
{
    struct policy p = {.limits = c->limits,
                       .n_limits = c->n_limits,
                       .local_time = c->local_time,
                       .retention_ms = c->retention_ms,
                       .site_streams = single ? c->streams : 0,
                       .n_alert_at = c->n_alert_at,
                       .alert_deliver = c->alert_url != NULL};

    memcpy(p.alert_at, c->alert_at, sizeof p.alert_at);
    return p;
}

const struct config_model *config_model(const struct config *c, const char *alias)
{
    if (c->n_models == 0)
        return NULL;
    for (unsigned i = 0; alias != NULL && i < c->n_models; i++) {
        if (strcmp(c->models[i].alias, alias) == 0)
            return &c->models[i];
    }
    return &c->models[0];
}

const struct config_model *config_fallback(const struct config *c, const struct config_model *m)
{
    return m->fallback != NULL ? config_model(c, m->fallback) : NULL;
}
