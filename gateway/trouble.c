/* A table of statuses. Security: what is not in it may have been billed. */
#include "gateway/trouble.h"

#include <stddef.h>
#include <string.h>

static const struct {
    int status;
    struct trouble trouble;
} rows[] = {
    {401, {.free = true, .about_us = true, .health = HEALTH_REFUSED}},
    {402, {.free = true, .about_us = true, .health = HEALTH_REFUSED}},
    {403, {.about_us = true, .health = HEALTH_DENIED}},
    {404, {.free = true, .health = HEALTH_FAILED}},
    {405, {.free = true, .health = HEALTH_FAILED}},
    {429, {.free = true, .about_us = true, .passes = true, .health = HEALTH_REFUSED}},
};

struct trouble trouble_of(int status)
{
    bool callers = status >= 400 && status < 500;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].status == status)
            return rows[i].trouble;
    }
    return (struct trouble){.health = callers ? HEALTH_UNKNOWN : HEALTH_FAILED};
}

/* A 429 that no waiting of ours ends. */
static bool needs_owner(const char *code)
{
    static const char *const codes[] = {"insufficient_quota", "billing_error",
                                        "billing_hard_limit_reached", "billing_not_active",
                                        "insufficient_credits"};

    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        if (strcmp(codes[i], code) == 0)
            return true;
    }
    return false;
}

int64_t trouble_again_ms(int status, int64_t retry_after_s, const char *code)
{
    struct trouble t = trouble_of(status);

    if (!t.free || !t.passes || needs_owner(code) || retry_after_s < 0 ||
        retry_after_s > TROUBLE_AGAIN_MAX_MS / 1000)
        return -1;
    return retry_after_s * 1000;
}
