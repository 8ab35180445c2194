/*
 * GET /status: whether the next smallest request would be admitted, what is left of the
 * caller's own calls, and the bounds of a request, for a widget to show. Asks the same door as a
 * POST (gateway/admission.h), spends nothing and writes nothing.
 */
#ifndef GATEWAY_STATUS_H
#define GATEWAY_STATUS_H

#include "gateway/place.h"
#include "gateway/reply.h"
#include "gateway/site.h"

/*
 * Answers the exchange: 200 whenever there is a configuration, since a page has to be able to
 * read it; `why` is CODE_NONE, or why nobody is served now. Returns CODE_NONE or the code of
 * the error that was answered instead: who may not ask does not learn whether others may.
 */
enum code status_handle(struct site *site, const struct site_use *use, struct places *places,
                        enum code why, struct reply *reply);

#endif
