/*
 * Rings for threads of a process that filters its system calls, and so can't make any. The file pool.N holds RANGES of them. The shim makes the
 * first ones before the filter is set, the recorder makes the others while the process lives, so that a few are always READY.
 */
#ifndef ACLTRACE_SHIM_POOL_H
#define ACLTRACE_SHIM_POOL_H

#include "base/state.h"

/* Maps the pool of this process and makes its first rings. No pool is made if a file may not be that large. */
void make_pool(void);
/* The first record of a ring in the pool, NULL if this process has no such ring. */
uint8_t *range_at(uint32_t range);
enum { HIGHEST_ID = 1 << 22 /* of the kernel's thread ids */ };
/* The id of the calling thread, found without a system call. `slot` makes the result unique if the C library does not show the id. */
uint32_t thread_id(uint32_t slot);

#endif
