/*
 * The table of all ways in which a request is not answered. Security: fixed text alone, so that
 * nothing of an upstream, another caller or the configuration can show in it.
 */
#include "gateway/code.h"

#define INVALID "invalid_request_error"
#define RATE    "rate_limit_error"
#define SERVER  "server_error"

#define BAD_REQUEST     400, "Bad Request", INVALID
#define TOO_MANY        429, "Too Many Requests", RATE
#define UNAVAILABLE     503, "Service Unavailable", SERVER
#define BAD_GATEWAY     502, "Bad Gateway", SERVER
#define GATEWAY_TIMEOUT 504, "Gateway Timeout", SERVER

static const struct code_entry entries[CODES] = {
    [CODE_NOT_FOUND] = {1, "not_found", 404, "Not Found", INVALID,
                        "There is nothing at this address."},
    [CODE_METHOD] = {2, "method_not_allowed", 405, "Method Not Allowed", INVALID,
                     "This address does not take that method."},
    [CODE_CONTENT_TYPE] = {3, "unsupported_media_type", 415, "Unsupported Media Type", INVALID,
                           "Send the request as application/json."},
    [CODE_BODY_TOO_LARGE] = {4, "body_too_large", 413, "Content Too Large", INVALID,
                             "The request is too large."},
    [CODE_BODY_INCOMPLETE] = {5, "body_incomplete", BAD_REQUEST,
                              "The request did not arrive whole. Please try again."},
    [CODE_BAD_JSON] = {6, "bad_json", BAD_REQUEST, "The request is not valid JSON."},
    [CODE_BAD_REQUEST] = {7, "bad_request", BAD_REQUEST,
                          "The request does not have the expected shape."},
    [CODE_UNSUPPORTED] = {8, "unsupported", BAD_REQUEST,
                          "The request asks for something that is not offered here."},
    [CODE_TOO_LONG] = {9, "too_long", BAD_REQUEST,
                       "The message is too long. Please shorten it, or start anew."},
    [CODE_NO_ADDRESS] = {10, "no_address", BAD_REQUEST,
                         "The request did not come with an address to count it by."},
    [CODE_TIMEOUT_REQUEST] = {11, "request_timeout", 408, "Request Timeout", INVALID,
                              "The request took too long to arrive. Please try again."},

    [CODE_UNAUTHORIZED] = {12, "unauthorized", 401, "Unauthorized", "authentication_error",
                           "This is open to those who sign in or hold a key of this site."},
    [CODE_FORBIDDEN_ORIGIN] = {13, "forbidden_origin", 403, "Forbidden", "permission_error",
                               "Pages of other sites may not use this."},
    [CODE_DASHBOARD_CLOSED] = {14, "dashboard_closed", 403, "Forbidden", "permission_error",
                               "The owner's pages are closed. `pennygate dashboard-password` "
                               "makes a password for them."},

    [CODE_CONCURRENT_LIMIT] =
        {15, "concurrent_limit", TOO_MANY,
         "An earlier answer is still being written. Please wait for it to "
         "end."},
    [CODE_BURST_LIMIT] = {16, "burst_limit", TOO_MANY,
                          "That was a little fast. Please wait a moment and try again."},
    [CODE_ADDRESS_LIMIT] = {17, "address_limit", TOO_MANY,
                            "Everything allowed to your network for now has been used. Please "
                            "come back later."},
    [CODE_VISITOR_LIMIT] = {18, "visitor_limit", TOO_MANY,
                            "Everything allowed to you for now has been used. Please come back "
                            "later."},
    [CODE_ACCOUNT_LIMIT] = {19, "account_limit", TOO_MANY,
                            "Everything allowed to your account for now has been used. Please "
                            "come back later."},
    [CODE_KEY_LIMIT] =
        {20, "key_limit", TOO_MANY,
         "Everything allowed to this key for now has been used. Please come back "
         "later."},
    [CODE_ANONYMOUS_LIMIT] = {21, "anonymous_limit", TOO_MANY,
                              "Everything allowed to visitors without an account for now has "
                              "been used. Please come back later."},
    [CODE_SITE_LIMIT] = {22, "site_limit", TOO_MANY,
                         "This site has used what it allows itself for now. Please come back "
                         "later."},

    [CODE_BYPASS_LIMIT] = {23, "bypass_limit", TOO_MANY,
                           "The owner's own tests have used what is set aside for them."},

    [CODE_BUSY] = {24, "busy", UNAVAILABLE,
                   "Too much is going on just now. Please try again soon."},
    [CODE_PAUSED] = {25, "paused", UNAVAILABLE,
                     "The owner of this site has paused this feature."},
    [CODE_METER] = {26, "meter_unavailable", UNAVAILABLE,
                    "Use cannot be counted at the moment, so nothing is answered. Please try "
                    "again later."},
    [CODE_CLOCK] =
        {27, "clock", UNAVAILABLE,
         "The server does not know the time, so it cannot count use. Please try again "
         "later."},
    [CODE_CONFIGURATION] = {28, "configuration", UNAVAILABLE,
                            "This feature is not set up properly. Its owner has to mend it."},
    [CODE_STOPPING] = {29, "stopping", UNAVAILABLE,
                       "The server is restarting. Please try again in a moment."},
    [CODE_UPSTREAM_PAUSED] = {30, "upstream_paused", UNAVAILABLE,
                              "The model has not answered properly of late and is given a "
                              "rest. Please try again later."},
    [CODE_UPSTREAM_REFUSED] = {31, "upstream_refused", UNAVAILABLE,
                               "The model is not available to this site at the moment. Please "
                               "try again later."},

    [CODE_UPSTREAM_ERROR] = {32, "upstream_error", BAD_GATEWAY,
                             "The model did not give a proper answer."},
    [CODE_UPSTREAM_UNREACHABLE] = {33, "upstream_unreachable", BAD_GATEWAY,
                                   "The model could not be reached. Please try again later."},
    [CODE_UPSTREAM_TIMEOUT] = {34, "upstream_timeout", GATEWAY_TIMEOUT,
                               "The model took too long to answer."},
};

const struct code_entry *code_entry(enum code c)
{
    /* A code that is none of the table must still refuse. */
    return c > CODE_NONE && c < CODES ? &entries[c] : &entries[CODE_METER];
}

_Static_assert(CODE_BYPASS_LIMIT - CODE_CONCURRENT_LIMIT == REFUSALS - 1 &&
                   (int)REFUSAL_CONCURRENT == 0 && (int)REFUSAL_BYPASS == REFUSALS - 1,
               "the 429 codes follow enum refusal");

unsigned code_live(enum code c)
{
    return c == CODE_NONE ? 0 : code_entry(c)->live;
}

enum code code_of_refusal(enum refusal r)
{
    return r < REFUSALS ? (enum code)(CODE_CONCURRENT_LIMIT + (int)r) : CODE_SITE_LIMIT;
}

enum code code_of_error(enum error e)
{
    switch (e) {
    case ERROR_CLOCK:
        return CODE_CLOCK;
    case ERROR_PRICE:
        return CODE_CONFIGURATION;
    case ERROR_BUSY:
        return CODE_BUSY;
    case ERROR_STOPPING:
        return CODE_STOPPING;
    default:
        return CODE_METER;
    }
}
