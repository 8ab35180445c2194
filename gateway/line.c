/* A request's line of log. Security: it names nobody, and a flood of requests that are turned
 * away can neither fill a disk nor be made dearer by it. */
#include "gateway/line.h"

#include <pthread.h>
#include <stdio.h>

#include "gateway/chat.h"
#include "platform/clock.h"
#include "platform/log.h"

/* This process's own lines: the bound while there is no ledger, by which all processes share
 * theirs. Counted all the time, so that a second in which the store goes has no more. */
static struct {
    pthread_mutex_t lock;
    int64_t second;
    unsigned n;
    uint32_t left_out;
} own = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Called with the lock held. Seconds are counted by a clock that nobody sets: by the wall clock
 * processes that disagree about it would begin each other's seconds again and again. */
static int64_t this_second(void)
{
    int64_t now_s = clock_monotonic_ms() / 1000;

    if (own.second != now_s) {
        own.second = now_s;
        own.n = 0;
    }
    return now_s;
}

static uint32_t take_own(void)
{
    uint32_t n;

    pthread_mutex_lock(&own.lock);
    n = own.left_out;
    own.left_out = 0;
    pthread_mutex_unlock(&own.lock);
    return n;
}

static bool has_room(const struct site_use *use, uint32_t *left_out)
{
    const unsigned rate = use->config->log_rate;
    int64_t now_s;
    bool room;

    pthread_mutex_lock(&own.lock);
    now_s = this_second();
    room = own.n < rate;
    if (use->ledger != NULL)
        room = ledger_log_line(use->ledger, (uint32_t)now_s, room ? rate : 0, left_out);
    else
        own.left_out += !room;
    own.n += room;
    pthread_mutex_unlock(&own.lock);
    return room;
}

static bool decide(struct line *l, const struct site_use *use, bool admitted)
{
    if (use->config == NULL || !log_writes(LOG_LEVEL_INFO))
        return false;
    l->time_s = clock_wall_s();
    if (admitted)
        l->left_out = ledger_log_left_out(use->ledger);
    else if (!has_room(use, &l->left_out))
        return false;
    l->left_out += take_own();
    return true;
}

bool line_wanted(struct line *l, const struct site_use *use, bool admitted)
{
    if (!l->asked)
        l->wanted = decide(l, use, admitted);
    l->asked = true;
    return l->wanted;
}

static const char *verdict(const struct chat_log *log)
{
    if (log->admitted)
        return "admitted";
    if (log->gone || log->code == CODE_NONE)
        return "-";
    return code_entry(log->code)->status == 429 ? "refused" : "failed";
}

/* If no line follows, timed work tells of the one that was left out. In a flood it is nearly always
 * begun: then this costs a look. */
static void have_it_told(const struct site_use *use)
{
    struct policy p;

    if (use->ledger == NULL || ledger_is_timed(use->ledger))
        return;
    p = config_policy(use->config, false);
    ledger_begin_timed(use->ledger, &p);
}

void line_write(const struct site_use *use, const struct reply *r, struct chat_log *log,
                int64_t ms)
{
    char left_out[24] = "";

    if (use->ledger == NULL && r->x->single)
        return; /* the line that says why there is none has to do: nothing bounds them */
    if (!line_wanted(&log->line, use, log->admitted)) {
        if (log->line.time_s != 0 && !r->x->single)
            have_it_told(use);
        return;
    }
    if (log->line.left_out > 0)
        snprintf(left_out, sizeof(left_out), " left_out=%lu",
                 (unsigned long)log->line.left_out);
    log_line_at(
        log->line.time_s, LOG_LEVEL_INFO,
        "id=%s what=%s verdict=%s subject=%s code=%s model=%s limit=%s usage=%s in=%llu "
        "out=%llu decision_us=%lld ms=%lld first_ms=%lld calls=%u%s",
        r->id, log->what, verdict(log), log->subject, chat_result(log), log->model,
        log->limit[0] != '\0' ? log->limit : "-", log->usage,
        (unsigned long long)log->tokens_in, (unsigned long long)log->tokens_out,
        (long long)log->decision_us, (long long)ms, (long long)log->first_ms, log->calls,
        left_out);
}

void line_end(void)
{
    ledger_log_tell(NULL, take_own());
}
