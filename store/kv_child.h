/*
 * Work that a broken file can kill (LMDB has no checksums and dies by SIGBUS), done in a forked
 * child. The child may be forked from a process with threads: it must do nothing but system
 * calls, malloc and LMDB.
 */
#ifndef STORE_KV_CHILD_H
#define STORE_KV_CHILD_H

#include <stdint.h>

#include "platform/error.h"

/*
 * What `work` returned in the child; ERROR_STORE_BROKEN if the child died or took longer than
 * bound_ms (it is killed then). ERROR_SYSTEM, ERROR_MEMORY if there could be no child. The
 * child keeps no descriptor but 0, 1 and 2, takes signals as a new process does, and leaves no
 * core.
 */
enum error kv_child_run(enum error (*work)(void *arg), void *arg, int64_t bound_ms);

#endif
