#include "session/slot.h"

#include <linux/mman.h>
#include <linux/resource.h>

#include "base/limits.h"
#include "base/sys.h"
#include "session/session.h"

static uint64_t first_memory; /* bytes that the process could have when its first thread made a ring, 0 before */
static uint64_t addresses; /* atomic; that the process's rings take */

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

void return_slot(uint32_t n) { __atomic_store_n(&shim_control->slots[n].state, SLOT_GIVEN, __ATOMIC_RELEASE); }

/* What rings may still take: all together a quarter of what there was without them. */
static uint64_t share(uint64_t left, uint64_t used)
{
	enum { SHARE = 4 };
	if (left > NO_LIMIT - used)
		return NO_LIMIT;
	uint64_t all = (left + used) / SHARE;
	return all > used ? all - used : 0;
}

/* Halves the size of `rings` rings until each takes a small part of what is left. So later threads get smaller rings, and many of them get one. 0 if
 * the smallest do not fit. */
static uint64_t fitting(uint64_t size, uint64_t left, uint32_t rings)
{
	enum { PART = 32 };
	while (size > RING_LEAST && size > left / PART / rings)
		size /= 2;
	return size <= left / rings ? size : 0;
}

/* The cgroup's memory without rings. Rings that other threads are making count as used, but the cgroup may not have charged them yet. So the first
 * sum is the most. */
static uint64_t cgroup_left(uint64_t used)
{
	uint64_t left = shim_memory_left(), first = 0, most = left < NO_LIMIT - used_before ? left + used_before : left;
	if (!__atomic_compare_exchange_n(&first_memory, &first, most, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		most = first;
	if (left < NO_LIMIT - used && left + used > most)
		return most > used ? most - used : 0;
	return left;
}

uint64_t claim_memory(uint32_t rings, uint64_t most, enum refusal *why)
{
	struct control *c = shim_control;
	uint64_t size, used = __atomic_load_n(&c->memory_used, __ATOMIC_RELAXED), mine = __atomic_load_n(&addresses, __ATOMIC_RELAXED);
	uint64_t folder = session_left(), cgroup = cgroup_left(used), address = shim_address_left(false), file = shim_limit(RLIMIT_FSIZE);
	do {
		/* The program may have filled the folder since the limit was set. */
		uint64_t budget = c->memory_limit > used ? c->memory_limit - used : 0, room = folder / 2;
		*why = REFUSED_MEMORY;
		size = fitting(most, room < budget ? room : budget, rings);
		if (size == 0)
			return 0;
		*why = REFUSED_CGROUP;
		size = fitting(size, share(cgroup, used), rings);
		if (size == 0)
			return 0;
		*why = REFUSED_LIMIT;
		size = fitting(size, share(address, mine) / 2, rings);
		while (size > RING_LEAST && RING_HEADER + size > file)
			size /= 2;
		if (size == 0 || RING_HEADER + size > file)
			return 0;
	} while (!__atomic_compare_exchange_n(&c->memory_used, &used, used + rings * size, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	__atomic_add_fetch(&addresses, rings * ring_addresses(size), __ATOMIC_RELAXED);
	return size;
}

void return_memory(uint64_t size)
{
	__atomic_sub_fetch(&shim_control->memory_used, size, __ATOMIC_RELAXED);
	__atomic_sub_fetch(&addresses, ring_addresses(size), __ATOMIC_RELAXED);
}

static bool map_part(long at, uint64_t size, long fd, uint64_t from, long flags)
{
	return !sys_failed(sys_map(size, PROT_READ | PROT_WRITE, flags | MAP_SHARED | MAP_FIXED, fd, from, (void *)at));
}

bool map_ring(long at, long fd, uint64_t from, uint64_t size, bool used)
{
	/* To touch all of a ring takes milliseconds, and most threads need a small part. Of the second mapping they need the first pages. */
	uint64_t whole = RING_HEADER + size, first = used && size > RING_TOUCHED ? RING_HEADER + RING_TOUCHED : whole;
	bool mapped = map_part(at, first, fd, from, used ? MAP_POPULATE : 0) &&
		      (first == whole || map_part(at + (long)first, whole - first, fd, from + first, 0)) &&
		      map_part(at + (long)whole, size, fd, from + RING_HEADER, 0);
	if (mapped) /* what the program may lock (RLIMIT_MEMLOCK) is its own, after mlockall too */
		sys2(__NR_munlock, at, ring_addresses(size));
	return mapped;
}
