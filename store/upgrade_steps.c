/*
 * The steps from each version of the store to the next. There is none yet: version 1 is the
 * first. Whoever raises RECORD_VERSION adds the step here, and a test with a store as the
 * program before wrote it.
 */
#include "store/upgrade.h"

upgrade_step *const upgrade_steps[RECORD_VERSION] = {NULL};
