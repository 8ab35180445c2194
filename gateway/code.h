/*
 * Every way in which a request is not answered with a completion: one table of stable codes
 * (pennygate-api(7) lists them; a test holds the two together), HTTP statuses, OpenAI error
 * types and messages. Messages are fixed text: no upstream text, address or figure enters one.
 */
#ifndef GATEWAY_CODE_H
#define GATEWAY_CODE_H

#include <stdbool.h>

#include "platform/error.h"
#include "store/rule.h"

enum code {
    CODE_NONE = 0,
    /* the request: 4xx */
    CODE_NOT_FOUND,       /* 404 not_found */
    CODE_METHOD,          /* 405 method_not_allowed */
    CODE_CONTENT_TYPE,    /* 415 unsupported_media_type */
    CODE_BODY_TOO_LARGE,  /* 413 body_too_large */
    CODE_BODY_INCOMPLETE, /* 400 body_incomplete: shorter than its Content-Length, or cut */
    CODE_BAD_JSON,        /* 400 bad_json */
    CODE_BAD_REQUEST,     /* 400 bad_request: wrong shape; `param` names the field */
    CODE_UNSUPPORTED,     /* 400 unsupported: a field this gateway refuses; `param` names it */
    CODE_TOO_LONG,        /* 400 too_long: a cap on input, or worst case above a limit's max */
    CODE_NO_ADDRESS,      /* 400 no_address: the web server told no address of the caller */
    CODE_TIMEOUT_REQUEST, /* 408 request_timeout: not complete within 5 s */
    CODE_UNAUTHORIZED,    /* 401 unauthorized: no key or account where one is required, or a key
                             that is not the site's */
    CODE_FORBIDDEN_ORIGIN, /* 403 forbidden_origin: a page of another site asks */
    CODE_DASHBOARD_CLOSED, /* 403 dashboard_closed: the owner's pages are open to nobody yet */
    /* limits: 429, in the order of enum refusal */
    CODE_CONCURRENT_LIMIT,
    CODE_BURST_LIMIT,
    CODE_ADDRESS_LIMIT,
    CODE_VISITOR_LIMIT,
    CODE_ACCOUNT_LIMIT,
    CODE_KEY_LIMIT,
    CODE_ANONYMOUS_LIMIT,
    CODE_SITE_LIMIT,
    CODE_BYPASS_LIMIT,
    /* not now: 503 */
    CODE_BUSY,             /* busy: all streams in use, or the meter did not answer in time */
    CODE_PAUSED,           /* paused: the owner has paused the feature */
    CODE_METER,            /* meter_unavailable: the store cannot count */
    CODE_CLOCK,            /* clock: the clock is not believable */
    CODE_CONFIGURATION,    /* configuration: the file does not parse or has faults */
    CODE_STOPPING,         /* stopping: the process is leaving */
    CODE_UPSTREAM_PAUSED,  /* upstream_paused: the model's breaker is open */
    CODE_UPSTREAM_REFUSED, /* 503 upstream_refused: it refuses us (our key, credit, rate) */
    /* upstream: 502, 504 */
    CODE_UPSTREAM_ERROR,       /* 502 upstream_error: it answered with an error or nonsense */
    CODE_UPSTREAM_UNREACHABLE, /* 502 upstream_unreachable: nothing was sent */
    CODE_UPSTREAM_TIMEOUT,     /* 504 upstream_timeout */
    CODES
};

struct code_entry {
    /* Of its live counter, from 1 (LIVE_CODES of store/ledger.h). The board has it beyond upgrades,
     * and beyond boots where the run directory is kept: a code keeps its number for ever, and one
     * that has gone leaves it to nobody. */
    unsigned live;
    const char *name;    /* "site_limit" */
    int status;          /* 429 */
    const char *reason;  /* "Too Many Requests": uhttpd answers 200 without it */
    const char *type;    /* OpenAI's error type: "rate_limit_error" */
    const char *message; /* for a person, one or two sentences */
};
const struct code_entry *code_entry(enum code c);
unsigned code_live(enum code c); /* its live number; 0 of CODE_NONE: answered */

enum code code_of_refusal(enum refusal r);
enum code code_of_error(enum error e); /* CODE_METER, CODE_CLOCK, CODE_BUSY, CODE_STOPPING */

#endif
