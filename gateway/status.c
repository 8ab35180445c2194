/* GET /status. Security: says of limits no more than the headers of an answer do (invariant 8). */
#include "gateway/status.h"

#include "gateway/admission.h"

static const struct admission_size smallest = {.bytes = 1, .messages = 1};

/* Whether the smallest request would be admitted now. */
static bool is_available(struct admission *a, struct places *places, struct reply_error *no)
{
    if (!admission_room(a, no))
        return false;
    admission_choose(a, NULL);
    if (!admission_weigh(a, &smallest, no))
        return false;
    if (places_free(places, admission_streams(a)))
        return true;
    *no = (struct reply_error){.code = CODE_BUSY};
    return false;
}

enum code status_handle(struct site *site, const struct site_use *use, struct places *places,
                        enum code why, struct reply *reply)
{
    struct reply_error no = {.code = why};
    struct admission a;

    if (why == CODE_NONE) {
        if (!admission_begin(&a, reply->x, site, use, reply->created_s, &no) ||
            (!is_available(&a, places, &no) && no.code == CODE_UNAUTHORIZED)) {
            reply_error(reply, &no, NULL);
            return no.code;
        }
    }
    reply_status(reply, use->config, &no, why == CODE_NONE ? &a.answer : NULL);
    return CODE_NONE;
}
