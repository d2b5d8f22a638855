#ifndef ACLTRACE_SHIM_CGROUP_H
#define ACLTRACE_SHIM_CGROUP_H

#include <stdint.h>

/* Bytes that the process's memory cgroup has left, the largest number without a limit. */
uint64_t shim_memory_left(void);

#endif
