#ifndef ACLTRACE_SHIM_CGROUP_H
#define ACLTRACE_SHIM_CGROUP_H

#include <stdint.h>

/* Bytes that the memory cgroup of the process has left, the largest number if it has no limit. */
uint64_t shim_memory_left(void);

#endif
