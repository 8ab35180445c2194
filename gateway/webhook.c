/*
 * Posting an alert: a libcurl handle of its own each time, since one is posted a day, if that,
 * and a warm one would hold its memory meanwhile. A multi handle runs it, because only that can
 * be left at once, also while a name is being looked up.
 */
#include "gateway/webhook.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gateway/transfer.h"
#include "platform/clock.h"
#include "platform/mac.h"

#define ANSWER_MAX                                                                             \
    65536 /* it is not looked at: only so that the connection ends in good order */
#define BEARER              "Authorization: Bearer "
#define STATUS_OK           200
#define STATUS_MORE_THAN_OK 300

/* ---- what it says ---- */

/* The store's bytes are not ours to trust: whatever would need escaping becomes a '?'. */
static void copy_name(const char *name, char out[LIMIT_NAME_MAX])
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789-_.";
    size_t n = strnlen(name, LIMIT_NAME_MAX - 1);

    memcpy(out, name, n);
    out[n] = '\0';
    for (size_t i = 0; i < n; i++) {
        if (strchr(plain, out[i]) == NULL)
            out[i] = '?';
    }
}

static void write_time(int64_t time_s, char *out, size_t room)
{
    time_t t = (time_t)time_s;
    struct tm tm;

    if (gmtime_r(&t, &tm) == NULL || strftime(out, room, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
        snprintf(out, room, "1970-01-01T00:00:00Z");
}

/* One plain sentence for a person, without anything to escape. */
static void write_text(const struct ledger_alert *a, const char *name, char *out, size_t room)
{
    switch (a->kind) {
    case ALERT_THRESHOLD:
        snprintf(out, room, "Pennygate: limit %s has reached %u %% of its maximum.", name,
                 a->percent);
        break;
    case ALERT_UPSTREAM_REFUSED:
        snprintf(out, room,
                 "Pennygate: the API of model %s refuses us (key, credit or rate); the log has "
                 "its status.",
                 name);
        break;
    case ALERT_BREAKER_OPEN:
        snprintf(out, room,
                 "Pennygate: the API of model %s fails, so it is not called for a while.",
                 name);
        break;
    case ALERT_BOUND_EXCEEDED:
        snprintf(out, room,
                 "Pennygate: the API of model %s has counted more tokens than were reserved; "
                 "pennygate check shows what was learnt.",
                 name);
        break;
    case ALERT_METER:
    case ALERT_KINDS:
        snprintf(
            out, room,
            "Pennygate cannot count and therefore refuses all requests; the log says why.");
        break;
    }
}

void webhook_body(const struct ledger_alert *a, char out[WEBHOOK_BODY_MAX])
{
    char name[LIMIT_NAME_MAX], when[32], text[256], subject[80] = "";

    copy_name(a->name, name);
    write_time(a->time_s, when, sizeof when);
    write_text(a, name, text, sizeof text);
    if (a->kind == ALERT_THRESHOLD)
        snprintf(subject, sizeof subject, "\"limit\":\"%s\",\"percent\":%u,", name, a->percent);
    else if (a->kind != ALERT_METER)
        snprintf(subject, sizeof subject, "\"model\":\"%s\",", name);
    snprintf(out, WEBHOOK_BODY_MAX,
             "{\"event\":\"%s\",%s\"time\":\"%s\",\"text\":\"%s\",\"content\":\"%s\"}",
             alert_kind_name(a->kind), subject, when, text, text);
}

/* ---- sending it ---- */

static size_t discard(char *bytes, size_t size, size_t n, void *arg)
{
    size_t *got = arg;

    (void)bytes;
    *got += size * n;
    return *got <= ANSWER_MAX ? size * n : 0;
}

static bool add_token(struct curl_slist **headers, const char *token)
{
    size_t room = sizeof BEARER + strlen(token);
    char *line = malloc(room);
    bool ok = false;

    if (line == NULL)
        return false;
    snprintf(line, room, "%s%s", BEARER, token);
    ok = transfer_add_header(headers, line);
    mac_wipe(line, room);
    free(line);
    return ok;
}

#define SET(option, value) (libcurl.easy_setopt(easy, option, value) == CURLE_OK)

static bool set(CURL *easy, const struct webhook *w, const char *body, size_t *got,
                struct curl_slist **headers)
{
    return easy != NULL && transfer_add_header(headers, "Content-Type: application/json") &&
           transfer_add_header(headers, "Expect:") &&
           (w->token == NULL || add_token(headers, w->token)) && transfer_fix(easy) &&
           SET(CURLOPT_URL, w->url) && SET(CURLOPT_HTTPHEADER, *headers) &&
           SET(CURLOPT_POSTFIELDS, body) && SET(CURLOPT_WRITEFUNCTION, discard) &&
           SET(CURLOPT_WRITEDATA, got) && SET(CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1) &&
           transfer_trust(easy, w->ca_file);
}

/* NULL once the transfer has come to its end, or why it was left before. */
static const char *drive(CURLM *multi, int64_t until_ms, int stop_fd)
{
    struct curl_waitfd stop = {.fd = stop_fd, .events = CURL_WAIT_POLLIN};
    int running = 1;

    for (;;) {
        int64_t left = until_ms - clock_monotonic_ms();

        if (libcurl.multi_perform(multi, &running) != CURLM_OK)
            return "libcurl failed";
        if (running == 0)
            return NULL;
        if (left <= 0)
            return "no answer in time";
        if (libcurl.multi_poll(multi, &stop, stop_fd >= 0 ? 1 : 0,
                               left < INT_MAX ? (int)left : INT_MAX, NULL) != CURLM_OK)
            return "libcurl failed";
        if (stop.revents != 0)
            return "the process is leaving";
    }
}

static const char *reason_of(CURLM *multi)
{
    int left;
    const CURLMsg *m = libcurl.multi_info_read(multi, &left);

    return m != NULL && m->msg == CURLMSG_DONE ? libcurl.easy_strerror(m->data.result) : "";
}

static void run(CURLM *multi, CURL *easy, int64_t until_ms, int stop_fd,
                struct webhook_result *out)
{
    long status = 0;

    if (libcurl.multi_add_handle(multi, easy) != CURLM_OK)
        return;
    out->reason = drive(multi, until_ms, stop_fd);
    if (out->reason == NULL)
        out->reason = reason_of(multi);
    if (libcurl.easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status) == CURLE_OK)
        out->status = (int)status;
    out->delivered = out->status >= STATUS_OK && out->status < STATUS_MORE_THAN_OK;
    libcurl.multi_remove_handle(multi, easy);
}

void webhook_post(const struct webhook *w, const char *body, int stop_fd,
                  struct webhook_result *out)
{
    int64_t until = clock_monotonic_ms() + w->timeout_ms;
    struct curl_slist *headers = NULL;
    size_t got = 0;

    *out = (struct webhook_result){.reason = "libcurl did not take the request"};
    if (!libcurl_load()) {
        out->reason = "there is no libcurl";
        return;
    }
    CURL *easy = libcurl.easy_init();
    CURLM *multi = libcurl.multi_init();
    if (multi != NULL && set(easy, w, body, &got, &headers))
        run(multi, easy, until, stop_fd, out);
    if (easy != NULL)
        libcurl.easy_cleanup(easy);
    if (multi != NULL)
        libcurl.multi_cleanup(multi);
    transfer_wipe_headers(&headers);
}
