/*
 * The log's bound: so many lines a second over all processes of the site, so that a flood of
 * refusals cannot fill the disk. The second and its lines are in one counter of the board, so
 * that no two processes can begin the same second.
 */
#include "platform/log.h"
#include "store/ledger_parts.h"

#define COUNT_BITS  12
#define COUNT_MASK  ((1U << COUNT_BITS) - 1)
#define SECOND_MASK (UINT32_MAX >> COUNT_BITS) /* comes round after twelve days */
_Static_assert(LEDGER_LOG_LINES_MAX == COUNT_MASK, "as many as can be counted");
/*
 * A process that comes so late with a second that another one has ended writes no line, or that
 * second would have more than it may. One that comes later still is of another boot, which the
 * board has outlived: waiting for it to catch up could silence the log for days.
 */
#define LATE_S 10

/* The counter for a line of the second after `word`; false: it may not be written. */
static bool next_line(uint32_t word, uint32_t now_s, uint32_t most, uint32_t *next)
{
    uint32_t behind = ((word >> COUNT_BITS) - now_s) & SECOND_MASK;
    uint32_t n = behind == 0 ? word & COUNT_MASK : 0;
    bool late = word != 0 && behind > 0 && behind <= LATE_S;

    *next = now_s << COUNT_BITS | (n + 1);
    return n < most && !late;
}

/* What was left out and not yet told of: of two that could tell it one does. */
static uint32_t take_left_out(struct board *b)
{
    uint32_t told = board_get(b, LIVE_LOG_TOLD);

    for (;;) {
        uint32_t all = board_get(b, LIVE_LOG_LEFT_OUT), n = all - told;

        if (n == 0 || n > INT32_MAX) /* another one has told of more already */
            return 0;
        if (board_exchange(b, LIVE_LOG_TOLD, &told, all))
            return n;
    }
}

bool ledger_log_line(struct ledger *l, uint32_t now_s, unsigned per_second, uint32_t *left_out)
{
    uint32_t most = per_second < LEDGER_LOG_LINES_MAX ? per_second : LEDGER_LOG_LINES_MAX;
    uint32_t word = board_get(l->board, LIVE_LOG_SECOND), next;

    /* Each turn that fails is a line of somebody else's: there are at most so many in a second. */
    while (next_line(word, now_s, most, &next)) {
        if (!board_exchange(l->board, LIVE_LOG_SECOND, &word, next))
            continue;
        *left_out = take_left_out(l->board);
        return true;
    }
    board_add(l->board, LIVE_LOG_LEFT_OUT, 1);
    return false;
}

uint32_t ledger_log_left_out(struct ledger *l)
{
    return take_left_out(l->board);
}

void ledger_log_tell(struct ledger *l, uint32_t more)
{
    if (!log_writes(LOG_LEVEL_INFO))
        return; /* nor taken */
    if (l != NULL)
        more += take_left_out(l->board);
    if (more > 0)
        log_line(LOG_LEVEL_INFO, "event=left_out left_out=%lu: requests without a line",
                 (unsigned long)more);
}
