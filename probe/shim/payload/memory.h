/* Memory that the runtime has given out, or that the program has registered: whether an address is the host's or the device's. */
#ifndef ACLTRACE_SHIM_MEMORY_H
#define ACLTRACE_SHIM_MEMORY_H

#include "payload/visible.h"

#ifndef SHIM_FAR
#define SHIM_FAR 512 /* remembered ranges of each far_memory */
#endif

void shim_host_new(uint64_t addr, uint64_t len, bool registered);
void shim_host_end(uint64_t addr, bool registered);

/* Device memory outside the window of device addresses. Memory that is mapped into a reservation is not noted again. */
enum far_memory { ALLOCATED, RESERVED, FAR_KINDS };
void shim_far_new(enum far_memory kind, uint64_t addr, uint64_t len);
void shim_far_end(enum far_memory kind, uint64_t addr);
/* Managed memory. */
void shim_visible_new(enum far_memory kind, uint64_t addr, uint64_t len);

static inline bool shim_in_window(uint64_t addr) { return addr - shim_control->device_from < shim_control->device_to - shim_control->device_from; }

static inline void shim_device_new(enum far_memory kind, uint64_t addr, uint64_t len)
{
	if (__builtin_expect(!shim_in_window(addr), 0))
		shim_far_new(kind, addr, len);
}

static inline void shim_device_end(enum far_memory kind, uint64_t addr)
{
	if (__builtin_expect(shim_visible != 0, 0))
		shim_visible_end(addr);
	if (__builtin_expect(!shim_in_window(addr), 0))
		shim_far_end(kind, addr);
}

bool pinned(uint64_t addr);
/*
 * Whether the runtime has allocated all of this host memory, in this process, and has not freed it. It can be read during a call that uses it, and
 * while it has a pending result: shim_host_end waits for whoever records that.
 */
bool allocated(uint64_t addr, uint64_t len);
bool on_device(uint64_t addr);
/* Whether unknown memory may be pinned, or the device's: a table had no room. */
bool maybe_pinned(void);
bool maybe_on_device(void);

#endif
