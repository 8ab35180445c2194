/* The table of what is counted for which code. */
#include "gateway/figures.h"

#include <stdint.h>

#define NO_FIGURE FIGURES

void figures_count(struct ledger *l, enum code code)
{
    static const uint8_t figures[CODES] = {
        [CODE_NOT_FOUND] = NO_FIGURE,
        [CODE_METHOD] = NO_FIGURE,
        [CODE_UNAUTHORIZED] = FIGURE_DENIED,
        [CODE_FORBIDDEN_ORIGIN] = FIGURE_DENIED,
        [CODE_DASHBOARD_CLOSED] = NO_FIGURE,
        [CODE_TOO_LONG] = FIGURE_TOO_LONG,
        [CODE_BUSY] = FIGURE_BUSY,
        [CODE_PAUSED] = FIGURE_PAUSED,
        [CODE_METER] = FIGURE_METER,
        [CODE_CLOCK] = FIGURE_METER,
        [CODE_CONFIGURATION] = FIGURE_METER,
        [CODE_STOPPING] = NO_FIGURE,
        [CODE_UPSTREAM_PAUSED] = FIGURE_BREAKER,
    };
    enum figure f = (enum figure)figures[code];

    if (l == NULL || code == CODE_NONE)
        return;
    ledger_live_code(l, code_live(code));
    if (code >= CODE_CONCURRENT_LIMIT && code <= CODE_BYPASS_LIMIT)
        f = (enum figure)(FIGURE_REFUSED + (int)(code - CODE_CONCURRENT_LIMIT));
    else if (code >= CODE_UPSTREAM_REFUSED)
        f = FIGURE_UPSTREAM;
    else if (figures[code] == 0) /* FIGURE_REFUSED, of which only the codes above are */
        f = FIGURE_INVALID;
    if (f != NO_FIGURE)
        ledger_figure(l, f);
}
