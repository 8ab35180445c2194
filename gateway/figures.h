/* Which live figure (store/ledger.h) each code that is not an answer is counted as; besides, each
 * is counted as itself. */
#ifndef GATEWAY_FIGURES_H
#define GATEWAY_FIGURES_H

#include "gateway/code.h"
#include "store/ledger.h"

/* Counts it. Nothing without a ledger, and nothing for CODE_NONE; CODE_STOPPING is no fault and
 * counted only as itself. */
void figures_count(struct ledger *l, enum code code);

#endif
