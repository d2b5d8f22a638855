/*
 * A call's stack, by the chain of frame pointers, within the thread's own stack. Code without frame pointers ends the chain early. A call names
 * its stack by a hash. The addresses are written only if the ring has not had them lately.
 */
#include <asm/fcntl.h>

#include "base/maps.h"
#include "base/sys.h"
#include "record/piece.h"

enum { STACK_FRAMES = 64, STACKS = 128, STACK_WAYS = 8 };
/* In the page before the ring, not in TLS: with an auditing library loaded, little static TLS is left. */
_Static_assert(1024 + STACKS * sizeof(uint64_t) <= RING_HEADER, "stacks");
#define stacks_seen ((uint64_t *)((uint8_t *)shim_t.ring + 1024))

/* Adds the process's mappings to its first stack: it may be gone before the recorder reads them. The recorder reads later ones itself. */
static void add_maps(struct shim_call *c)
{
	if (__atomic_exchange_n(&shim_p->maps_written, 1, __ATOMIC_RELAXED))
		return;
	long fd = sys_open("/proc/self/maps", O_RDONLY);
	if (fd < 0)
		return;
	enum { AT_ONCE = 4096 };
	uint8_t *start = c->end;
	uint64_t len = 0;
	c->end += sizeof(struct piece);
	while (len < shim_t.size / 4 && grow(c, 2 * AT_ONCE)) {
		long n = sys3(__NR_read, fd, c->end, AT_ONCE);
		if (n <= 0)
			break;
		c->end += n;
		len += (uint64_t)n;
	}
	sys1(__NR_close, fd);
	*(struct piece *)start = (struct piece){.param = MAPS_PARAM, .flags = PIECE_BYTES, .len = (uint32_t)len};
	c->end = start + sizeof(struct piece) + round8(len);
}

void shim_stack(struct shim_call *c)
{
	struct shim_thread *t = &shim_t;
	uint64_t pcs[STACK_FRAMES];
	uint64_t *fp = t->frame, n = 0, hash = 0x9e3779b97f4a7c15ULL;
	uint64_t most = shim_control->stack_frames < STACK_FRAMES ? shim_control->stack_frames : STACK_FRAMES;
	/* Frames on another stack, as in signal handlers and coroutines, are not followed. */
	if (t->ring->stack_end == 0)
		t->ring->stack_end = find_mapping((uint64_t)fp).end;
	uint64_t stack_end = t->ring->stack_end;
	while (n < most) {
		if ((uint64_t)fp % 8 != 0 || (uint64_t)(fp + 2) > stack_end || stack_end - (uint64_t)fp > 1ULL << 30)
			break;
		uint64_t *next = (uint64_t *)fp[0];
		pcs[n] = fp[1];
		if (pcs[n] < 4096)
			break;
		hash = (hash ^ pcs[n++]) * 0xff51afd7ed558ccdULL;
		hash ^= hash >> 32;
		if (next <= fp)
			break;
		fp = next;
	}
	if (n == 0)
		return;
	if (!shim_p->maps_written && grow(c, sizeof(struct piece)))
		add_maps(c);
	if (!grow(c, 2 * sizeof(struct piece) + 8 + 8 * n))
		return;
	/* A set of STACK_WAYS hashes, the newest first. The oldest is dropped. */
	uint64_t *seen = &stacks_seen[hash % (STACKS / STACK_WAYS) * STACK_WAYS];
	size_t way = 0;
	while (way < STACK_WAYS && seen[way] != hash)
		way++;
	if (way == STACK_WAYS) {
		for (way = STACK_WAYS - 1; way > 0; way--)
			seen[way] = seen[way - 1];
		*seen = hash;
		shim_piece(c, STACK_PARAM, 0, pcs, 8 * n, true);
	}
	shim_out(c, STACK_PARAM, &hash, 8);
}
