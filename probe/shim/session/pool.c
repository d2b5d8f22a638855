#include "session/pool.h"

#include <asm/fcntl.h>
#include <linux/mman.h>

#include "base/loader.h"
#include "base/sys.h"
#include "session/session.h"
#include "session/slot.h"

enum { RANGES = 32, READY = 4 };

static struct {
	uint8_t *at;
	uint32_t generation; /* of the process; a child has no pool */
} pool;

static uint64_t stride(void) { return RING_HEADER + 2 * shim_control->ring_bytes; }

uint8_t *range_at(uint32_t range)
{
	if (pool.generation != shim_p->generation || range >= RANGES || pool.at == NULL)
		return NULL;
	return pool.at + range * stride() + RING_HEADER;
}

/* Locks a recursive mutex: glibc stores the holder's thread id in it. */
uint32_t thread_id(uint32_t slot)
{
	enum { KIND = 4, OWNER = 2, RECURSIVE = 1, HIGHEST = 1 << 22 };
	int mutex[16] __attribute__((aligned(16))) = {[KIND] = RECURSIVE};
	int (*lock)(void *) = shim_next("gnu_get_libc_version") == NULL ? NULL : (int (*)(void *))shim_next("pthread_mutex_lock");
	if (lock != NULL && lock(mutex) == 0 && mutex[OWNER] > 0)
		return (uint32_t)mutex[OWNER];
	return HIGHEST + 1 + slot; /* above any thread id */
}

static void make_ready(long fd, uint32_t range)
{
	struct control *c = shim_control;
	uint64_t bytes = RING_HEADER + c->ring_bytes;
	if (!claim_memory(c->ring_bytes))
		return;
	uint32_t n = allocate(fd, range * bytes, bytes) ? take_slot() : c->max_slots;
	if (n >= c->max_slots) {
		return_memory(c->ring_bytes);
		return;
	}
	struct slot *s = &c->slots[n];
	s->pid = shim_p->pid;
	s->process = shim_p->generation;
	s->ring_bytes = c->ring_bytes;
	s->range = range + 1;
	__atomic_store_n(&s->state, SLOT_READY, __ATOMIC_RELEASE);
}

void make_pool(void)
{
	enum { FILE_SIZE = 1 };
	uint64_t size = shim_control->ring_bytes, bytes = RING_HEADER + size;
	struct { uint64_t soft, hard; } limit;
	if (pool.generation == shim_p->generation)
		return;
	if (sys4(__NR_prlimit64, 0, FILE_SIZE, NULL, &limit) < 0 || limit.soft < RANGES * bytes)
		return;
	long fd = open_in_session("pool.", shim_p->generation - 1, true, O_RDWR | O_CREAT | O_EXCL);
	if (fd < 0)
		return;
	sys2(__NR_fchmod, fd, 0660);
	long at = sys2(__NR_ftruncate, fd, RANGES * bytes) < 0 ? -1 : sys_map(RANGES * stride(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0, NULL);
	bool mapped = !sys_failed(at);
	for (uint32_t i = 0; mapped && i < RANGES; i++)
		mapped = map_ring(at + (long)(i * stride()), fd, i * bytes, size, 0);
	if (mapped) {
		pool.at = (uint8_t *)at;
		pool.generation = shim_p->generation;
		for (uint32_t i = 0; i < READY; i++)
			make_ready(fd, i);
	}
	sys1(__NR_close, fd);
}
