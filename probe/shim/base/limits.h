/* What the process may still take of memory and addresses. */
#ifndef ACLTRACE_SHIM_LIMITS_H
#define ACLTRACE_SHIM_LIMITS_H

#include "base/state.h"

#define NO_LIMIT (~(uint64_t)0)

/* Bytes that the process's memory cgroup has left, NO_LIMIT if nothing limits it. */
uint64_t shim_memory_left(void);
/* Bytes left for mappings by RLIMIT_AS, and by RLIMIT_MEMLOCK if new mappings are locked; for the process's own memory by RLIMIT_DATA too. */
uint64_t shim_address_left(bool own);
/* A soft limit (RLIMIT_*). */
uint64_t shim_limit(int resource);
/* Maps len bytes of a file, or of private memory if fd is -1, and stores their address at *at, once in the process. False on failure, and if it took
 * more than an eighth of the addresses that are left. */
bool shim_map_once(void *at, uint64_t len, long fd);

#endif
