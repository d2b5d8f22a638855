/* The toy runtime, and its own simulator. Memory is mapped at ascending addresses. Work is done at once. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>

#include "toy.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT const int toy_simulated = 1;

static uint64_t next = 0x300000000000;
static _Thread_local uint64_t wanted;

/* As sim/libascendcl/include/aclsim/place.h describes it. */
EXPORT void aclsim_place(uint64_t addr);
void aclsim_place(uint64_t addr) { wanted = addr; }

EXPORT toyError toyOpen(toyQueue *queue)
{
	static char queues[4];
	static int n;
	*queue = &queues[n++ % 4];
	return TOY_OK;
}

EXPORT toyError toyAlloc(void **memory, size_t size)
{
	uint64_t at = wanted ? wanted : next;
	if (mmap((void *)at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != (void *)at)
		return TOY_NO_MEMORY;
	*memory = (void *)at;
	next = at + 0x100000;
	wanted = 0;
	return TOY_OK;
}

EXPORT toyError toyCopy(void *dst, const void *src, size_t size, toyDirection direction, toyQueue queue)
{
	(void)direction, (void)queue;
	memcpy(dst, src, size);
	return TOY_OK;
}

EXPORT toyError toyAdd(void *to, float number, uint32_t count, toyQueue queue)
{
	(void)queue;
	for (uint32_t i = 0; i < count; i++)
		((float *)to)[i] += number;
	return TOY_OK;
}

EXPORT toyError toyWait(toyQueue queue)
{
	(void)queue;
	return TOY_OK;
}
