/*
 * What the status of an answer that is none says (pure): of our key, of the money, of this
 * request, and whether asking again can help.
 */
#ifndef GATEWAY_TROUBLE_H
#define GATEWAY_TROUBLE_H

#include <stdbool.h>
#include <stdint.h>

#include "store/ledger.h"

/* What a caller waits for at most before the same model is asked once more. */
#define TROUBLE_AGAIN_MAX_MS 2000

struct trouble {
    /*
     * It is answered before a prompt is looked at. Others can follow a call that is billed: some
     * providers charge for what their filters stop, and answer 400 or 403 then, so that a caller
     * could spend without end; a 5xx can come from a proxy that gave up waiting. Money comes back
     * only where there can be no doubt, and nothing is asked for again where there is.
     */
    bool free;
    bool about_us;      /* our key, credit or rate, and not this request */
    bool passes;        /* in a time that the API tells */
    enum health health; /* UNKNOWN: this request may have caused it */
};

/* Of a status other than 200. */
struct trouble trouble_of(int status);

/*
 * Whether the same model may be asked once more, after how long (0 and up; the API's Retry-After,
 * -1: it sent none). `code`: what the API calls the error, "" if nothing. -1: it may not.
 */
int64_t trouble_again_ms(int status, int64_t retry_after_s, const char *code);

#endif
