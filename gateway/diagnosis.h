/*
 * Why a call to the model API failed, told to the owner: one line in the log with what is known
 * and where to look. The caller hears a code and no more.
 */
#ifndef GATEWAY_DIAGNOSIS_H
#define GATEWAY_DIAGNOSIS_H

#include "gateway/config.h"
#include "gateway/provider.h"

struct diagnosis {
    int status;                       /* of the answer; 0: there was none */
    char code[PROVIDER_CODE_MAX + 1]; /* what the provider calls the error; "" */
    const char *reason;               /* call_reason's; NULL or "": the call did not fail */
};

#define DIAGNOSIS_TEXT_MAX 320
/* The line's text. A code that has any part of the model's key in it is left out. */
void diagnosis_text(const struct config_model *m, const struct diagnosis *d,
                    char out[DIAGNOSIS_TEXT_MAX]);

/* Logs it; the same again only after a minute. */
void diagnosis_tell(const struct config_model *m, const struct diagnosis *d);

/* Logs that an answer which is paid for ended at the cap before its first word; as above. */
void diagnosis_tell_empty(const struct config_model *m);

#endif
