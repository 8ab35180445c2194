/* Which live figure (store/ledger.h) each code that is not an answer is counted as; besides, each
 * is counted as itself. */
#ifndef GATEWAY_FIGURES_H
#define GATEWAY_FIGURES_H

#include "gateway/code.h"
#include "store/ledger.h"

/*
 * Counts it. Nothing without a ledger, and nothing for CODE_NONE. Counted only as themselves are
 * CODE_STOPPING, which is no fault, and what is no request for the model: another path or method,
 * by which strangers look for other programs, and the owner's pages without a password.
 */
void figures_count(struct ledger *l, enum code code);

#endif
