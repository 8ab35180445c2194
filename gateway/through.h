/*
 * What `check --through` has seen, turned into lines for the owner (pure): what is well, what has
 * to be mended, and the exact line for the web server that is there. Which server that is shows
 * in SERVER_SOFTWARE, as it calls itself to the gateway; if the Server header of the answer
 * names another one, that stands before it as a proxy.
 */
#ifndef GATEWAY_THROUGH_H
#define GATEWAY_THROUGH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define THROUGH_WORD_MAX 201  /* of a variable, as the self-test shows it */
#define THROUGH_TEXT_MAX 512  /* a sentence or two */
#define THROUGH_FIX_MAX  320  /* a line of a configuration */
#define THROUGH_FIXES    3    /* the server's, the proxy's before it, our own */
#define THROUGH_JSON_MAX 8192 /* of the self-test's answer: 11 values of 200 bytes, escaped */

/* How a request arrived: the answer to SELFTEST_SEEN. Texts are printable ASCII. */
struct through_seen {
    char software[THROUGH_WORD_MAX]; /* SERVER_SOFTWARE */
    char peer[THROUGH_WORD_MAX], peer_port[THROUGH_WORD_MAX];
    char script[THROUGH_WORD_MAX], info[THROUGH_WORD_MAX];
    char host[THROUGH_WORD_MAX];
    char address[THROUGH_WORD_MAX]; /* the caller's, as it is counted */
    int64_t body;                   /* bytes that came */
    bool authorization, custom, cookie, proxy;
    bool forwarded, forwarded_for; /* headers that the probe has not sent */
    bool trusted, fastcgi, https, page;
};

/* Of JSON; false: it is not what a self-test answers. */
bool through_parse(const char *text, size_t n, struct through_seen *out);

/* A stream's arrival. */
struct through_stream {
    bool tried;
    int status;        /* HTTP's; 0: none came */
    bool whole;        /* its end has come */
    int64_t spread_ms; /* between its first and its last byte */
    int64_t ended_ms;  /* from the request to its end, whole or not */
    char encoding[32]; /* Content-Encoding, or "" */
};

struct through_facts {
    /* asked */
    bool https;                    /* the URL's scheme */
    char path[THROUGH_WORD_MAX];   /* of the URL, without a slash at its end; "": the root */
    char server[THROUGH_WORD_MAX]; /* Server header of the answer, or "" */
    char own_address[64];          /* from where this machine asked */
    char own_port[8];
    /* the site's configuration */
    const char *mount;               /* or NULL */
    int64_t heartbeat_ms, silent_ms; /* the longest silence of a stream, of a plain answer */
    int64_t body_bytes;              /* max-body-bytes */
    bool needs_authorization, needs_cookie, needs_custom;
    /* seen */
    struct through_seen seen;
    int body_status;   /* of a request of body_bytes; 0: none came */
    int64_t body_seen; /* bytes of it that came */
    struct through_stream stream, quiet;
    int64_t quiet_ms; /* how long it was asked to be silent */
};

enum through_mark { THROUGH_FINE, THROUGH_NOTE, THROUGH_FAULT };

struct through_line {
    enum through_mark mark;
    const char *topic; /* "stream" */
    char text[THROUGH_TEXT_MAX];
    unsigned n_fixes;
    struct {
        const char *where;          /* whose configuration has to be changed */
        char line[THROUGH_FIX_MAX]; /* what to write there */
    } fixes[THROUGH_FIXES];
};

/* Tells each line; how many faults there are. */
unsigned through_report(const struct through_facts *f,
                        void (*tell)(void *arg, const struct through_line *line), void *arg);

#endif
