/*
 * The site in force. Security: nothing is decided by what is no longer in force. A changed
 * configuration is seen before each decision (a few stat calls), and until it has been parsed
 * nobody goes on with the old one.
 */
#include "gateway/site.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/clock.h"
#include "platform/log.h"
#include "platform/mac.h"
#include "platform/secret.h"

#define RETRY_MS 1000 /* between tries to load or open what failed: a flood must not parse */

struct site {
    char *path;
    char *const *env;
    bool running; /* set once site_new is through */
    atomic_bool restart;

    pthread_mutex_t reload;  /* one thread parses; taken before `lock` */
    int64_t load_again_ms;   /* its, as the next */
    struct file_stamp tried; /* the file that last failed to load: a newer one need not wait */

    pthread_mutex_t lock; /* the rest; never held during a system call that can wait */
    struct config *config;
    bool faulty; /* the file as it is now does not parse or has faults */
    struct ledger *ledger;
    unsigned users;   /* requests that hold the ledger */
    bool opening;     /* one of them is closing and opening it */
    bool dead;        /* its files are not the store any more: no further users */
    bool in_doubt;    /* it failed: to be opened anew at the next moment without users */
    enum error error; /* why there is no ledger */
    int64_t open_again_ms;
};

/* ---- the configuration ---- */

/* What is wrong, in one line. */
struct trouble {
    unsigned n;
    char text[CONFIG_ERROR_MAX];
};

static void tell_fault(void *arg, const char *line)
{
    struct trouble *t = arg;

    if (t->n++ == 0)
        snprintf(t->text, sizeof(t->text), "%s", line);
}

/* A secret that cannot be read is the owner's to mend, like a fault. Where the store itself has
 * gone it may have lain in it, and then opening the store says so. */
static bool has_secret(const struct config *c, struct trouble *t)
{
    uint8_t secret[SECRET_SIZE];
    enum error e = secret_read(c->secret_file, secret);
    const char *why = e == ERROR_SYSTEM ? strerror(errno) : error_text(e);

    mac_wipe(secret, sizeof(secret));
    if (e == ERROR_NONE || ledger_look(c->store) != ERROR_NONE)
        return true;
    snprintf(t->text, sizeof(t->text), "secret-file: %s: %s", c->secret_file, why);
    return false;
}

/* The new configuration, or NULL after saying why there is none. */
static struct config *load(const struct site *s)
{
    static struct log_once once;
    struct trouble t = {0};
    struct config *fresh = NULL;

    if (config_load(s->path, s->env, &fresh, t.text) == ERROR_NONE &&
        config_faults(fresh, tell_fault, &t) == 0 && has_secret(fresh, &t))
        return fresh;
    config_drop(fresh);
    log_line_once(&once, log_key(t.text), LOG_LEVEL_ERROR, "configuration: %s%s", t.text,
                  t.n > 1 ? " (and more: see `pennygate check`)" : "");
    return NULL;
}

/* Whether the loaded configuration still is what the files say. */
static bool up_to_date(struct site *s)
{
    bool current;
    struct config *c = NULL;

    pthread_mutex_lock(&s->lock);
    if (s->config != NULL && !s->faulty)
        c = config_hold(s->config);
    pthread_mutex_unlock(&s->lock);
    current = c != NULL && !config_changed(c);
    config_drop(c);
    return current;
}

/* A process that began without a configuration has threads and sockets by the defaults only. */
static void take_up(struct site *s, struct config *fresh)
{
    struct config *before = NULL;

    pthread_mutex_lock(&s->lock);
    s->faulty = fresh == NULL;
    if (fresh != NULL && s->running &&
        (s->config == NULL || !config_swappable(s->config, fresh))) {
        atomic_store(&s->restart, true);
        before = fresh;
    } else if (fresh != NULL) {
        before = s->config;
        s->config = fresh;
    }
    pthread_mutex_unlock(&s->lock);
    config_drop(before);
}

/* Parses what has changed, unless another thread just has. */
static void refresh(struct site *s)
{
    int64_t now = clock_monotonic_ms();
    struct file_stamp stamp;

    pthread_mutex_lock(&s->reload);
    stamp = file_stamp(s->path); /* before it is read */
    if ((now >= s->load_again_ms || !file_stamp_equal(&stamp, &s->tried)) && !up_to_date(s)) {
        struct config *fresh = load(s);

        take_up(s, fresh);
        s->load_again_ms = fresh == NULL ? clock_monotonic_ms() + RETRY_MS : 0;
        s->tried = stamp;
    }
    pthread_mutex_unlock(&s->reload);
}

struct config *site_config(struct site *s)
{
    struct config *c;

    pthread_mutex_lock(&s->lock);
    c = s->config != NULL ? config_hold(s->config) : NULL;
    pthread_mutex_unlock(&s->lock);
    return c;
}

/* ---- the ledger ---- */

static enum error open_ledger(const struct config *c, struct ledger **out)
{
    static struct log_once once;
    struct ledger_options o = {
        .store = c->store,
        .run = c->run_directory,
        .map_bytes = c->store_size,
        .lease = c->lease,
        .clock = clock_read,
    };
    const char *what = "store cannot be opened", *path = c->store;
    enum error e = ledger_look(c->store);

    if (e == ERROR_NONE && (e = secret_read(c->secret_file, o.secret)) != ERROR_NONE) {
        what = "secret cannot be read";
        path = c->secret_file;
    }
    if (e == ERROR_NONE)
        e = ledger_open(&o, false, out);
    mac_wipe(&o.secret, sizeof(o.secret));
    if (e != ERROR_NONE)
        log_line_once(&once, (int)e, LOG_LEVEL_ERROR, "the %s: %s: %s", what, path,
                      error_text(e));
    return e;
}

/* Called without the lock, by the one who has set `opening`: nobody else uses the ledger. */
static void reopen(struct site *s, const struct config *c)
{
    struct ledger *fresh = NULL;
    enum error e = ERROR_STOPPING;

    if (!ledger_close(s->ledger, LEDGER_WAIT_MS))
        atomic_store(&s->restart,
                     true); /* its writer is stuck: only a new process is rid of it */
    else
        e = open_ledger(c, &fresh);
    pthread_mutex_lock(&s->lock);
    if (e != ERROR_STOPPING)
        s->ledger = fresh;
    s->error = e;
    s->dead = e != ERROR_NONE;
    s->in_doubt = false;
    s->opening = false;
    s->open_again_ms = clock_monotonic_ms() + RETRY_MS;
    pthread_mutex_unlock(&s->lock);
}

/* Whether this thread is to open the ledger; it has set `opening` then. */
static bool must_open(struct site *s)
{
    bool must;

    pthread_mutex_lock(&s->lock);
    must = (s->ledger == NULL || s->dead || s->in_doubt) && s->users == 0 && !s->opening &&
           clock_monotonic_ms() >= s->open_again_ms;
    s->opening = s->opening || must;
    pthread_mutex_unlock(&s->lock);
    return must;
}

static enum code enter_ledger(struct site *s, struct site_use *use)
{
    enum code code = CODE_NONE;

    if (must_open(s))
        reopen(s, use->config);
    pthread_mutex_lock(&s->lock);
    if (s->ledger == NULL || s->dead || s->opening) {
        code = code_of_error(s->error);
    } else {
        s->users++;
        use->ledger = s->ledger;
    }
    pthread_mutex_unlock(&s->lock);
    return code;
}

/* ---- a request's use of both ---- */

void site_enter(struct site *s, struct site_use *out)
{
    bool faulty;

    memset(out, 0, sizeof(*out));
    if (!atomic_load(&s->restart) && !up_to_date(s))
        refresh(s);
    pthread_mutex_lock(&s->lock);
    faulty = s->faulty;
    out->config = s->config != NULL ? config_hold(s->config) : NULL;
    pthread_mutex_unlock(&s->lock);
    if (atomic_load(&s->restart))
        out->code = CODE_STOPPING;
    else if (faulty || out->config == NULL)
        out->code = CODE_CONFIGURATION;
    else
        out->code = enter_ledger(s, out);
}

void site_leave(struct site *s, struct site_use *use)
{
    if (use->ledger != NULL) {
        pthread_mutex_lock(&s->lock);
        s->users--;
        pthread_mutex_unlock(&s->lock);
    }
    config_drop(use->config);
    memset(use, 0, sizeof(*use));
}

/* Errors that pass by themselves, or that a fresh look at the same files would not change. */
static bool passes(enum error e)
{
    static const enum error passing[] = {
        ERROR_MEMORY,           ERROR_CLOCK,      ERROR_BUSY,
        ERROR_STOPPING,         ERROR_STORE_FULL, ERROR_TOO_LARGE,
        ERROR_TOO_MANY_WINDOWS, ERROR_PRICE};

    for (size_t i = 0; i < sizeof(passing) / sizeof(passing[0]); i++) {
        if (e == passing[i])
            return true;
    }
    return false;
}

enum code site_fault(struct site *s, const struct site_use *use, enum error e)
{
    static struct log_once once;
    bool dead = !passes(e) && ledger_verify(use->ledger) != ERROR_NONE;

    log_line_once(&once, (int)e, LOG_LEVEL_ERROR, "the meter is unavailable: %s",
                  error_text(e));
    if (!passes(e)) {
        pthread_mutex_lock(&s->lock);
        s->in_doubt = true;
        s->dead = s->dead || dead;
        s->error = e;
        pthread_mutex_unlock(&s->lock);
    }
    return code_of_error(e);
}

bool site_copy_is_due(struct site *s)
{
    return s->ledger != NULL && ledger_copy_is_due(s->ledger);
}

void site_copy(struct site *s)
{
    static struct log_once once;
    enum error e = ledger_copy_hourly(s->ledger, NULL);

    if (e != ERROR_NONE)
        log_line_once(&once, (int)e, LOG_LEVEL_ERROR, "event=not_copied: %s", error_text(e));
}

bool site_wants_restart(const struct site *s)
{
    return atomic_load(&s->restart);
}

enum error site_new(const char *path, char *const *env, struct site **out)
{
    struct site *s = calloc(1, sizeof(*s));

    if (s == NULL || (s->path = strdup(path)) == NULL) {
        free(s);
        return ERROR_MEMORY;
    }
    s->env = env;
    s->error = ERROR_STORE_MISSING;
    pthread_mutex_init(&s->reload, NULL);
    pthread_mutex_init(&s->lock, NULL);
    refresh(s);
    if (s->config != NULL) {
        log_open(s->config->log_target, s->config->log_format, s->config->log_level);
        s->opening = true;
        reopen(s, s->config);
    }
    s->running = true;
    *out = s;
    return ERROR_NONE;
}

bool site_free(struct site *s, int64_t bound_ms)
{
    int64_t until = clock_monotonic_ms() + bound_ms, now;

    if (s == NULL)
        return true;
    if (s->ledger != NULL)
        ledger_copy_last(s->ledger, bound_ms / 2);
    now = clock_monotonic_ms();
    if (!ledger_close(s->ledger, now < until ? until - now : 0))
        return false;
    config_drop(s->config);
    pthread_mutex_destroy(&s->reload);
    pthread_mutex_destroy(&s->lock);
    free(s->path);
    free(s);
    return true;
}
