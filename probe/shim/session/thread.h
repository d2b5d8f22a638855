/* The ring of the calling thread. */
#ifndef ACLTRACE_SHIM_THREAD_H
#define ACLTRACE_SHIM_THREAD_H

#include "base/state.h"

/* Makes the ring of the calling thread. False if the thread records nothing. */
bool shim_open_thread(void);
/*
 * Ends recording in the calling thread, which may no longer read the processor's counter. Its calls are counted. heirs: the same holds for the threads
 * that it creates.
 */
void shim_confine(bool heirs);
/* Makes room for need bytes: waits or gives up, by the session's policy. */
bool shim_make_room(uint64_t need);

static inline bool shim_room(uint64_t need)
{
	struct shim_thread *t = &shim_t;
	if (__builtin_expect(t->head + need - t->tail > t->capacity, 0))
		return shim_make_room(need);
	return true;
}

/* Where the thread's next record begins. */
static inline void *shim_next_record(void) { return shim_t.base + (shim_t.head & (shim_t.size - 1)); }

/* Makes a complete record of this size visible to the recorder. */
static inline void shim_publish(uint64_t size)
{
	shim_t.head += size;
	__atomic_store_n(&shim_t.ring->head, shim_t.head, __ATOMIC_RELEASE);
}

/* Sets the room for plain calls. To be called after a change of tail or lost. */
void shim_set_room(void);

/* Counts a call without room. The next record says how many there were. */
void shim_lose(void);
void shim_write_lost(void);
/* The same for calls inside another one, which have no record: see record/nested.c. A thread without a ring counts them too. */
void shim_add_nested(uint64_t calls);
void shim_write_nested(void);

#endif
