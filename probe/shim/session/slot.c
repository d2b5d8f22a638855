#include "session/slot.h"

#include <linux/mman.h>

#include "base/cgroup.h"
#include "base/sys.h"
#include "session/session.h"

static uint64_t first_memory; /* bytes that the process could have when its first thread made a ring, 0 before */

uint32_t take_slot(void)
{
	struct control *c = shim_control;
	if (__atomic_load_n(&c->next_slot, __ATOMIC_RELAXED) < c->max_slots) {
		uint32_t n = __atomic_fetch_add(&c->next_slot, 1, __ATOMIC_RELAXED);
		if (n < c->max_slots)
			return n;
	}
	for (uint32_t i = 0; i < c->max_slots; i++) {
		uint32_t was = SLOT_GIVEN;
		if (__atomic_load_n(&c->slots[i].state, __ATOMIC_RELAXED) == SLOT_GIVEN &&
		    __atomic_compare_exchange_n(&c->slots[i].state, &was, SLOT_TAKEN, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return i;
	}
	return c->max_slots;
}

bool claim_memory(uint64_t size)
{
	struct control *c = shim_control;
	uint64_t used = __atomic_add_fetch(&c->memory_used, size, __ATOMIC_RELAXED), left = shim_memory_left();
	uint64_t whole_memory = left < ~(uint64_t)0 - used ? left + used - size : ~(uint64_t)0;
	/* Rings that other threads are making count as used, but the cgroup may not have charged them yet. So the limit is the first sum. */
	uint64_t first = 0, most = left < ~(uint64_t)0 - used_before ? left + used_before : left;
	if (!__atomic_compare_exchange_n(&first_memory, &first, most, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		most = first;
	if (whole_memory > most)
		whole_memory = most;
	if (used <= c->memory_limit && used <= whole_memory / 4)
		return true;
	return_memory(size);
	return false;
}

void return_memory(uint64_t size) { __atomic_sub_fetch(&shim_control->memory_used, size, __ATOMIC_RELAXED); }

bool map_ring(long at, long fd, uint64_t from, uint64_t size, long flags)
{
	flags |= MAP_SHARED | MAP_FIXED;
	return !sys_failed(sys_map(RING_HEADER + size, PROT_READ | PROT_WRITE, flags, fd, from, (void *)at)) &&
	       !sys_failed(sys_map(size, PROT_READ | PROT_WRITE, flags, fd, from + RING_HEADER, (void *)(at + RING_HEADER + (long)size)));
}
