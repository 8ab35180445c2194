/*
 * The worker's side of a call, and all of the transfer thread's that needs no libcurl: header
 * lines, clocks, the hand-over. Security: the header comes from the upstream, so it is bounded,
 * and only two of its values are kept, checked.
 */
#include "gateway/call.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "platform/clock.h"

#define WAIT_MAX_MS       86400000 /* keeps now + wait inside 63 bits */
#define RETRY_DIGITS      9        /* 31 years: more digits change nothing and must not wrap */
#define RETRY_AFTER_MAX_S 999999999

/* ---- both ends of its life ---- */

static bool init_condition(pthread_cond_t *c)
{
    pthread_condattr_t attributes;
    bool ok;

    if (pthread_condattr_init(&attributes) != 0)
        return false;
    ok = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
         pthread_cond_init(c, &attributes) == 0;
    pthread_condattr_destroy(&attributes);
    return ok;
}

static void free_copies(struct call *c)
{
    free((void *)(uintptr_t)c->request.url);
    free((void *)(uintptr_t)c->request.ca_file);
    free(c);
}

struct call *call_new(struct call_queue *q, const struct call_request *r)
{
    struct call *c = calloc(1, sizeof *c);

    if (c == NULL)
        return NULL;
    c->queue = q;
    c->request = *r;
    c->request.headers = NULL;
    c->request.url = strdup(r->url);
    c->request.ca_file = r->ca_file == NULL ? NULL : strdup(r->ca_file);
    c->most = UPSTREAM_BUFFER;
    c->retry_after_s = -1;
    c->reason = "";
    if (c->request.url == NULL || (r->ca_file != NULL && c->request.ca_file == NULL) ||
        !init_condition(&c->changed)) {
        free_copies(c);
        return NULL;
    }
    c->start_ms = clock_monotonic_ms();
    return c;
}

void call_destroy(struct call *c)
{
    pthread_cond_destroy(&c->changed);
    callbuf_free(&c->buffer);
    free_copies(c);
}

/* ---- the queue ---- */

static struct timespec instant(int64_t wait_ms)
{
    int64_t wait = wait_ms < 0 ? 0 : wait_ms < WAIT_MAX_MS ? wait_ms : WAIT_MAX_MS;

    return clock_timespec(clock_monotonic_ms() + wait);
}

bool call_queue_init(struct call_queue *q)
{
    memset(q, 0, sizeof *q);
    q->wake_fd = -1;
    if (pthread_mutex_init(&q->lock, NULL) != 0)
        return false;
    if (init_condition(&q->gone))
        return true;
    pthread_mutex_destroy(&q->lock);
    return false;
}

void call_queue_destroy(struct call_queue *q)
{
    pthread_cond_destroy(&q->gone);
    pthread_mutex_destroy(&q->lock);
}

/* The counter of an eventfd never runs full here, so the write neither waits nor fails. */
static void wake(const struct call_queue *q)
{
    uint64_t one = 1;
    ssize_t wrote = write(q->wake_fd, &one, sizeof one);

    (void)wrote;
}

bool call_queue_stop(struct call_queue *q, int64_t bound_ms)
{
    struct timespec until = instant(bound_ms);
    bool ended;

    pthread_mutex_lock(&q->lock);
    q->stopping = true;
    wake(q);
    while (!q->ended && pthread_cond_timedwait(&q->gone, &q->lock, &until) == 0)
        ;
    ended = q->ended;
    pthread_mutex_unlock(&q->lock);
    return ended;
}

void call_queue_end(struct call_queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->ended = true;
    pthread_cond_broadcast(&q->gone);
    pthread_mutex_unlock(&q->lock);
}

/* Under the lock. A call that has ended is never queued: its worker may free it. */
static void queue_put(struct call *c)
{
    struct call **last = &c->queue->first;

    if (c->queued || c->end != CALL_RUNNING)
        return;
    /* A queue that is not empty has been announced and not been emptied since. */
    if (*last == NULL)
        wake(c->queue);
    while (*last != NULL)
        last = &(*last)->next_queued;
    *last = c;
    c->next_queued = NULL;
    c->queued = true;
}

/* Under the lock. */
static void queue_remove(struct call *c)
{
    struct call **at = &c->queue->first;

    if (!c->queued)
        return;
    while (*at != c)
        at = &(*at)->next_queued;
    *at = c->next_queued;
    c->queued = false;
}

bool call_post(struct call *c)
{
    bool ok;

    pthread_mutex_lock(&c->queue->lock);
    ok = !c->queue->stopping;
    if (ok)
        queue_put(c);
    pthread_mutex_unlock(&c->queue->lock);
    return ok;
}

struct call *call_next(struct call_queue *q, bool *abort_it, bool *stopping)
{
    struct call *c;

    pthread_mutex_lock(&q->lock);
    c = q->first;
    *stopping = q->stopping;
    if (c != NULL) {
        queue_remove(c);
        *abort_it = c->abort;
    }
    pthread_mutex_unlock(&q->lock);
    return c;
}

void call_finish(struct call *c, enum call_end end)
{
    struct call_queue *q = c->queue;

    pthread_mutex_lock(&q->lock);
    queue_remove(c);
    c->end = end;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&q->lock);
}

/* ---- what arrives ---- */

/* The value if `line` is the header `name` (lower case), without spaces around it. */
static const char *header_value(const char *line, size_t n, const char *name, size_t *length)
{
    size_t at = strlen(name);

    if (n <= at || line[at] != ':' || strncasecmp(line, name, at) != 0)
        return NULL;
    at++;
    while (at < n && (line[at] == ' ' || line[at] == '\t'))
        at++;
    while (n > at && strchr(" \t\r\n", line[n - 1]) != NULL)
        n--;
    *length = n - at;
    return line + at;
}

static void keep_type(struct call *c, const char *value, size_t n)
{
    c->type[0] = '\0';
    if (n >= CALL_TYPE_MAX)
        return;
    for (size_t i = 0; i < n; i++) {
        if (value[i] < ' ' || value[i] > '~')
            return;
    }
    memcpy(c->type, value, n);
    c->type[n] = '\0';
}

/* Seconds until a date of HTTP's preferred form (RFC 9110, 5.6.7), 0 if it has passed; -1: it is
 * none. By our own clock: a wait that is a little off does no harm. */
static int64_t seconds_until(const char *value, size_t n)
{
    char text[sizeof "Wed, 21 Oct 2026 07:28:00 GMT"];
    struct tm date = {0};
    const char *end;
    int64_t seconds;

    if (n != sizeof text - 1)
        return -1;
    memcpy(text, value, n);
    text[n] = '\0';
    end = strptime(text, "%a, %d %b %Y %H:%M:%S GMT", &date);
    if (end == NULL || *end != '\0')
        return -1;
    seconds = (int64_t)timegm(&date) - (int64_t)time(NULL);
    seconds = seconds < RETRY_AFTER_MAX_S ? seconds : RETRY_AFTER_MAX_S;
    return seconds > 0 ? seconds : 0;
}

static void keep_retry_after(struct call *c, const char *value, size_t n)
{
    int64_t seconds = 0;
    size_t digits = 0;

    while (digits < n && value[digits] >= '0' && value[digits] <= '9') {
        seconds =
            digits < RETRY_DIGITS ? seconds * 10 + (value[digits] - '0') : RETRY_AFTER_MAX_S;
        digits++;
    }
    c->retry_after_s = n > 0 && digits == n ? seconds : seconds_until(value, n);
}

static const struct {
    const char *name;
    void (*keep)(struct call *c, const char *value, size_t n);
} HEADERS[] = {
    {"content-type", keep_type},
    {"retry-after", keep_retry_after},
};

static void publish_status(struct call *c, int status)
{
    pthread_mutex_lock(&c->queue->lock);
    c->status = status;
    pthread_mutex_unlock(&c->queue->lock);
    pthread_cond_broadcast(&c->changed); /* unlocked: whom it wakes needs the lock at once */
}

bool call_header(struct call *c, const char *line, size_t n, int status)
{
    const char *value;
    size_t length;

    c->n_header += n;
    if (c->n_header > CALL_HEADER_MAX)
        return false;
    if (c->status != 0)
        return true; /* a trailer: what the worker reads is fixed */
    if (n >= 5 && memcmp(line, "HTTP/", 5) == 0) {
        c->type[0] = '\0'; /* a further response, after 100 or 103 */
        c->retry_after_s = -1;
    }
    for (size_t i = 0; i < sizeof HEADERS / sizeof *HEADERS; i++) {
        value = header_value(line, n, HEADERS[i].name, &length);
        if (value != NULL)
            HEADERS[i].keep(c, value, length);
    }
    if (n > 0 && (line[0] == '\r' || line[0] == '\n') && status >= 200)
        publish_status(c, status);
    return true;
}

void call_shares_connection(struct call *c)
{
    pthread_mutex_lock(&c->queue->lock);
    c->most = c->request.shared_bytes;
    pthread_mutex_unlock(&c->queue->lock);
}

bool call_body(struct call *c, const void *bytes, size_t n, int64_t now_ms)
{
    bool ok;

    c->byte_ms = now_ms;
    pthread_mutex_lock(&c->queue->lock);
    ok = callbuf_put(&c->buffer, bytes, n, c->most);
    c->paused = !ok;
    pthread_mutex_unlock(&c->queue->lock);
    if (ok)
        pthread_cond_broadcast(&c->changed); /* the call is not at its end, so still there */
    return ok;
}

void call_resumed(struct call *c, int64_t now_ms)
{
    c->byte_ms = now_ms; /* the idle clock stood still meanwhile */
    pthread_mutex_lock(&c->queue->lock);
    c->paused = false;
    pthread_mutex_unlock(&c->queue->lock);
}

static void sooner(int64_t *deadline_ms, const char **reason, int64_t at_ms, const char *text)
{
    if (at_ms >= *deadline_ms)
        return;
    *deadline_ms = at_ms;
    *reason = text;
}

static const char too_long[] = "the answer took too long";

int64_t call_deadline(const struct call *c, const char **reason)
{
    const struct call_request *r = &c->request;
    int64_t deadline_ms = c->start_ms + r->total_timeout_ms;

    *reason = too_long;
    if (!c->sent)
        sooner(&deadline_ms, reason, c->start_ms + r->connect_timeout_ms,
               "no connection in time");
    if (c->byte_ms == 0)
        sooner(&deadline_ms, reason, c->start_ms + r->first_byte_timeout_ms,
               "no byte of the answer in time");
    else if (!c->paused)
        sooner(&deadline_ms, reason, c->byte_ms + r->idle_timeout_ms,
               "silence within the answer");
    return deadline_ms;
}

/* ---- the worker's side ---- */

/* Under the lock: bytes are delivered before the end. */
static enum call_end visible_end(const struct call *c)
{
    return c->buffer.n > 0 ? CALL_RUNNING : c->end;
}

/* Under the lock: waits for a change. False once the time has passed. */
static bool wait_change(struct call *c, int64_t wait_ms, const struct timespec *until)
{
    return wait_ms > 0 && pthread_cond_timedwait(&c->changed, &c->queue->lock, until) == 0;
}

size_t call_read(struct call *c, void *buf, size_t n, int64_t wait_ms, enum call_end *end)
{
    struct timespec until = instant(wait_ms);
    size_t taken;

    pthread_mutex_lock(&c->queue->lock);
    while (c->buffer.n == 0 && c->end == CALL_RUNNING && wait_change(c, wait_ms, &until))
        ;
    taken = callbuf_take(&c->buffer, buf, n);
    /* Half of it free: the transfer goes on before the worker has nothing left to do. */
    if (c->paused && c->buffer.n <= c->most / 2)
        queue_put(c);
    *end = taken > 0 ? CALL_RUNNING : visible_end(c);
    pthread_mutex_unlock(&c->queue->lock);
    return taken;
}

int call_status(struct call *c, int64_t wait_ms, enum call_end *end)
{
    struct timespec until = instant(wait_ms);
    int status;

    pthread_mutex_lock(&c->queue->lock);
    while (c->status == 0 && c->end == CALL_RUNNING && wait_change(c, wait_ms, &until))
        ;
    status = c->status;
    *end = visible_end(c);
    pthread_mutex_unlock(&c->queue->lock);
    return status;
}

const char *call_content_type(const struct call *c)
{
    return c->type;
}

int64_t call_retry_after(const struct call *c)
{
    return c->retry_after_s;
}

bool call_was_sent(const struct call *c)
{
    bool sent;

    pthread_mutex_lock(&c->queue->lock);
    sent = c->end == CALL_RUNNING || c->sent; /* in doubt as long as it runs */
    pthread_mutex_unlock(&c->queue->lock);
    return sent;
}

const char *call_reason(const struct call *c)
{
    return c->reason;
}

bool call_lasted(const struct call *c)
{
    return c->reason == too_long;
}

static void ask_to_end(struct call *c)
{
    c->abort = true;
    queue_put(c);
}

void call_abort(struct call *c)
{
    pthread_mutex_lock(&c->queue->lock);
    ask_to_end(c);
    pthread_mutex_unlock(&c->queue->lock);
}

void call_free(struct call *c)
{
    if (c == NULL)
        return;
    pthread_mutex_lock(&c->queue->lock);
    ask_to_end(c);
    while (c->end == CALL_RUNNING)
        pthread_cond_wait(&c->changed, &c->queue->lock);
    pthread_mutex_unlock(&c->queue->lock);
    call_destroy(c);
}
