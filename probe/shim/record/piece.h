/*
 * Pieces: memory that belongs to the record of a call. They are added before the real call, between shim_enter and shim_commit, or after it,
 * between shim_return and shim_exit. `param` is the parameter that leads to the memory, or one of ring.h's numbers. `ok` is false if the call has
 * failed: then the memory may be unmapped, and is read with care.
 */
#ifndef ACLTRACE_SHIM_PIECE_H
#define ACLTRACE_SHIM_PIECE_H

#include "shim_hot.h"

/* A value with at most 8 bytes that the call has stored at p. The generated wrapper has reserved room for it. */
static inline void shim_out(struct shim_call *c, uint8_t param, const void *p, uint32_t len)
{
	if (p == NULL)
		return;
	struct piece *h = (struct piece *)c->end;
	*h = (struct piece){.param = param, .flags = PIECE_OUT | PIECE_BYTES, .len = len};
	uint64_t v = 0;
	__builtin_memcpy(&v, p, len);
	*(uint64_t *)(h + 1) = v;
	c->end += sizeof *h + 8;
}

/* The bytes to reserve for a piece at the beginning of a call. */
static inline uint64_t shim_piece_room(const void *p, uint64_t len)
{
	return p == NULL || len > RING_INLINE ? 0 : sizeof(struct piece) + round8(len);
}

void shim_any_piece(struct shim_call *c, uint8_t param, uint8_t flags, const void *p, uint64_t len, bool ok);

static inline void shim_piece(struct shim_call *c, uint8_t param, uint8_t flags, const void *p, uint64_t len, bool ok)
{
	if (p == NULL)
		return;
	/* Most argument blocks are a few whole words with reserved room. */
	if (__builtin_expect(ok && len <= 256 && (len & 7) == 0 && c->end + sizeof(struct piece) + len <= c->limit, 1)) {
		typedef uint64_t word __attribute__((may_alias, aligned(1)));
		struct piece *h = (struct piece *)c->end;
		*h = (struct piece){.param = param, .flags = (uint8_t)(flags | PIECE_BYTES), .len = (uint32_t)len};
		uint64_t *to = (uint64_t *)(h + 1);
		for (uint64_t i = 0; i < len / 8; i++)
			to[i] = ((const word *)p)[i];
		c->end += sizeof *h + len;
		return;
	}
	shim_any_piece(c, param, flags, p, len, ok);
}

/* As shim_piece, but skips memory larger than RING_INLINE: see shim_large. */
void shim_in(struct shim_call *c, uint8_t param, const void *p, uint64_t len, bool ok);
/* The elements of a structure {pointer, count}. */
void shim_any_list(struct shim_call *c, uint8_t param, const void *p, uint32_t elem, bool ok);

static inline void shim_list(struct shim_call *c, uint8_t param, const void *p, uint32_t elem, bool ok)
{
	if (p != NULL)
		shim_any_list(c, param, p, elem, ok);
}

/* Memory that no parameter points to directly, with its address. It must be readable. */
void shim_far(struct shim_call *c, uint8_t param, uint8_t flags, uint32_t item, const void *p, uint64_t len);
/* The elements of a structure {pointer, count} with their address. */
void shim_far_list(struct shim_call *c, uint8_t param, uint32_t item, const void *p, uint32_t elem);
void shim_far_string(struct shim_call *c, uint8_t param, uint32_t item, const char *s);

void shim_string(struct shim_call *c, uint8_t param, uint8_t flags, const char *s, uint64_t max, bool ok);
/* The array parameter's element with index i. */
void shim_array_item(struct shim_call *c, uint8_t param, uint32_t i, const void *p, uint64_t len);

/* Makes room for need more bytes in the record, which must be the last one in the ring. */
bool grow(struct shim_call *c, uint64_t need);
/*
 * Begins a piece with its own address. Returns where its bytes belong, NULL without room. The piece is in the record once c->end is after it. Inline:
 * a call that passes the structures through memory takes 10 ns, and a launch has a piece for each argument.
 */
static SHIM_INLINE uint8_t *begin_far(struct shim_call *c, struct piece p, struct far f, uint64_t bytes)
{
	if (!grow(c, sizeof p + sizeof f + round8(bytes)))
		return NULL;
	p.flags |= PIECE_FAR | (bytes ? PIECE_BYTES : 0);
	p.len = (uint32_t)bytes;
	*(struct piece *)c->end = p;
	*(struct far *)(c->end + sizeof p) = f;
	uint8_t *to = c->end + sizeof p + sizeof f;
	if (bytes)
		*(uint64_t *)(to + round8(bytes) - 8) = 0;
	return to;
}

/* A piece with its own address, without its bytes if they are more than RING_INLINE. */
void far_piece(struct shim_call *c, uint8_t param, uint32_t item, uint64_t addr, uint64_t len);

#endif
