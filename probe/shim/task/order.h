/*
 * The order in which the process submits asynchronous work. Each task or copy whose end matters gets the next number; a wait for a stream, an event or a
 * device covers the numbers that were given before it began.
 */
#ifndef ACLTRACE_SHIM_ORDER_H
#define ACLTRACE_SHIM_ORDER_H

#include "base/state.h"

extern uint64_t shim_last_order HIDDEN; /* atomic */

/* The last number. Read before the wait: the wait does not cover work that other threads submit during it. */
static inline uint64_t shim_order(void) { return __atomic_load_n(&shim_last_order, __ATOMIC_ACQUIRE); }
static inline uint64_t next_order(void) { return __atomic_add_fetch(&shim_last_order, 1, __ATOMIC_ACQ_REL); }

enum reach { OF_STREAM, OF_DEVICE };

struct place {
	void *stream;
	uint64_t order;
	int32_t device; /* 1 + device that the thread had selected, 0 unknown */
};

/* The place for the work that the thread has just put on a stream. */
struct place shim_place(void *stream);
/* Whether a wait for a stream, or for the thread's device, up to a number covers a place. */
bool shim_reached(const struct place *p, enum reach which, const void *stream, uint64_t until);
void shim_set_device(int32_t device);

/*
 * The name of a stream in the shim, for a runtime whose handles up to `own` are constants. own stands for the thread's own default stream, as
 * NULL does if null_is_own; the others stand for the context's. The thread's own is named by the address of shim_t, where no stream can be.
 */
static inline void *shim_stream(const void *handle, uint64_t own, bool null_is_own)
{
	uint64_t h = (uint64_t)(uintptr_t)handle;
	if (__builtin_expect(h > own, 1))
		return (void *)(uintptr_t)h;
	return h == own || (h == 0 && null_is_own) ? (void *)&shim_t : (void *)0;
}

#endif
