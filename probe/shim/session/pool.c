#include "session/pool.h"

#include <asm/fcntl.h>
#include <linux/mman.h>
#include <linux/resource.h>

#include "base/limits.h"
#include "base/loader.h"
#include "base/sys.h"
#include "session/session.h"
#include "session/slot.h"

enum { RANGES = 32, READY = 4, SHARE = 4 /* of the addresses that are left, at most */ };

static struct {
	uint8_t *at;
	uint64_t size; /* of each ring */
	uint32_t generation; /* of the process; a child has no pool */
} pool;

uint8_t *range_at(uint32_t range)
{
	if (pool.generation != shim_p->generation || range >= RANGES || pool.at == NULL)
		return NULL;
	return pool.at + range * ring_addresses(pool.size) + RING_HEADER;
}

/* Locks a recursive mutex: glibc stores the holder's thread id in it. */
uint32_t thread_id(uint32_t slot)
{
	enum { KIND = 4, OWNER = 2, RECURSIVE = 1 };
	int mutex[16] __attribute__((aligned(16))) = {[KIND] = RECURSIVE};
	int (*lock)(void *) = shim_next("gnu_get_libc_version") == NULL ? NULL : (int (*)(void *))shim_next("pthread_mutex_lock");
	if (lock != NULL && lock(mutex) == 0 && mutex[OWNER] > 0)
		return (uint32_t)mutex[OWNER];
	return HIGHEST_ID + 1 + slot; /* above any thread id */
}

/* Makes a ring whose memory was claimed. */
static void make_ready(long fd, uint32_t range)
{
	struct control *c = shim_control;
	uint64_t bytes = RING_HEADER + pool.size;
	uint32_t n = allocate(fd, range * bytes, bytes) ? take_slot() : c->max_slots;
	if (n >= c->max_slots) {
		return_memory(pool.size);
		return;
	}
	struct slot *s = &c->slots[n];
	s->pid = shim_p->pid;
	s->process = shim_p->generation;
	s->ring_bytes = pool.size;
	s->range = range + 1;
	__atomic_store_n(&s->state, SLOT_READY, __ATOMIC_RELEASE);
}

/* Maps the pool at *at, each ring with a size. False on failure. */
static bool map_pool(long fd, uint64_t size, long *at)
{
	uint64_t bytes = RING_HEADER + size;
	sys2(__NR_fchmod, fd, 0660);
	*at = sys2(__NR_ftruncate, fd, RANGES * bytes) < 0 ? -1 : sys_map(RANGES * ring_addresses(size), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0, NULL);
	bool mapped = !sys_failed(*at);
	for (uint32_t i = 0; mapped && i < RANGES; i++)
		mapped = map_ring(*at + (long)(i * ring_addresses(size)), fd, i * bytes, size, false);
	return mapped;
}

void make_pool(void)
{
	enum refusal why;
	long at;
	if (pool.generation == shim_p->generation)
		return;
	uint64_t size = shim_control->ring_bytes, address = shim_address_left(false) / SHARE, file = shim_limit(RLIMIT_FSIZE);
	while (size > RING_LEAST && (RANGES * ring_addresses(size) > address || RANGES * (RING_HEADER + size) > file))
		size /= 2;
	if (RANGES * ring_addresses(size) > address || RANGES * (RING_HEADER + size) > file)
		return;
	size = claim_memory(READY, size, &why);
	if (size == 0)
		return;
	long fd = open_in_session("pool.", shim_p->generation - 1, true, O_RDWR | O_CREAT | O_EXCL);
	bool mapped = fd >= 0 && map_pool(fd, size, &at);
	if (mapped) {
		pool.at = (uint8_t *)at;
		pool.size = size;
		pool.generation = shim_p->generation;
	}
	for (uint32_t i = 0; i < READY; i++)
		if (mapped)
			make_ready(fd, i);
		else
			return_memory(size);
	if (fd >= 0)
		sys1(__NR_close, fd);
}
