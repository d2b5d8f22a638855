/* The record of a call, from its beginning to its end, with the pieces of memory that belong to it. */
#include "parts.h"
#include "sys.h"

bool on_signal_stack(void)
{
	struct { void *sp; int flags; uint64_t size; } stack = {NULL, 0, 0};
	enum { ON_STACK = 1, NEAR = 1 << 20 };
	if (shim_filtered()) /* the kernel can't be asked: a stack that is not the thread's own lies elsewhere */
		return (uint64_t)__builtin_frame_address(0) - (uint64_t)shim_t.frame >= NEAR;
	return sys2(__NR_sigaltstack, NULL, &stack) != 0 || (stack.flags & ON_STACK);
}

bool shim_abandoned(void)
{
	struct shim_thread *t = &shim_t;
	if (on_signal_stack())
		return false;
	t->depth = 1;
	if (t->base == NULL)
		return true;
	/* What was published of the call stays; it never returned. A record behind it, if any, has moved head itself. */
	uint64_t head = __atomic_load_n(&t->ring->head, __ATOMIC_RELAXED);
	if (head != t->head) {
		struct record *r = (struct record *)(t->base + (t->head & (t->size - 1)));
		t->head = head;
		__atomic_store_n(&r->state, STATE_ABANDONED, __ATOMIC_RELEASE);
	}
	return true;
}

/*
 * Calls that enclose others. Room for the END record is kept from the BEGIN on, so that a ring that is full of what lies
 * between them loses some of that and not the result.
 */
enum { END_BYTES = 256 };

bool shim_begin_at(void *frame, struct shim_call *c, uint16_t func, const uint64_t *words, unsigned n, uint64_t reserve)
{
	struct shim_thread *t = &shim_t;
	c->rec = NULL;
	if (t->outer++ != 0) {
		if (frame < t->outer_frame || on_signal_stack())
			return false;
		t->outer = 1; /* the one before was left by a longjmp or an exception */
		t->capacity = t->size;
	}
	t->outer_frame = frame;
	if (t->base != NULL && t->capacity == t->size)
		t->capacity -= END_BYTES;
	/* The guard of the runtime's own calls is up while this one is written, and no longer. */
	bool on = shim_enter_at(frame, c, func, words, n, reserve);
	t->depth--;
	if (!on) {
		t->capacity = t->size;
		c->rec = NULL;
		return false;
	}
	if (t->capacity == t->size) /* the first call of the thread has made the ring just now */
		t->capacity -= END_BYTES;
	c->rec->h.type = REC_BEGIN;
	return true;
}

void shim_begun(struct shim_call *c)
{
	shim_commit(c);
	shim_exit(c);
}

void shim_ended(struct shim_call *c, uint16_t func, uint64_t ret)
{
	struct shim_thread *t = &shim_t;
	t->capacity = t->size;
	c->rec = NULL;
	if (t->base == NULL || t->generation != shim_p->generation || !shim_room(END_BYTES))
		return; /* a forked child, which has no part in it */
	struct call_record *r = (struct call_record *)(t->base + (t->head & (t->size - 1)));
	*r = (struct call_record){.h = {.func = func, .type = REC_END, .state = STATE_ENTERED}, .end = shim_now(), .ret = ret};
	c->rec = r;
	c->end = (uint8_t *)(r + 1);
	c->limit = (uint8_t *)r + END_BYTES;
}

void shim_finish(struct shim_call *c)
{
	if (c->rec != NULL)
		shim_exit(c);
}

bool grow(struct shim_call *c, uint64_t need)
{
	if (c->end + need <= c->limit)
		return true;
	if (!shim_room((uint64_t)(c->end - (uint8_t *)c->rec) + need + sizeof(struct lost_record)))
		return false;
	c->limit = c->end + need;
	return true;
}

void shim_any_piece(struct shim_call *c, uint8_t param, uint8_t flags, const void *p, uint64_t len, bool ok)
{
	uint64_t padded = round8(len);
	if (len > shim_t.size / 4 || !grow(c, sizeof(struct piece) + padded))
		return;
	struct piece *h = (struct piece *)c->end;
	*h = (struct piece){.param = param, .flags = (uint8_t)(flags | PIECE_BYTES), .len = (uint32_t)len};
	if (padded)
		*(uint64_t *)(c->end + sizeof *h + padded - 8) = 0;
	if (ok && len <= 512)
		small_copy(h + 1, p, len);
	/* So many arguments are more likely a size that the runtime will refuse. */
	else if (ok && len <= RING_INLINE)
		memcpy(h + 1, p, len);
	else if (!shim_careful_copy(h + 1, p, len))
		return;
	c->end += sizeof *h + padded;
}

void shim_in(struct shim_call *c, uint8_t param, const void *p, uint64_t len, bool ok)
{
	if (len <= RING_INLINE)
		shim_piece(c, param, 0, p, len, ok);
}

void shim_any_list(struct shim_call *c, uint8_t param, const void *p, uint32_t elem, bool ok)
{
	struct { const void *elems; uint64_t n; } l;
	if (ok)
		small_copy(&l, p, sizeof l);
	else if (!shim_careful_copy(&l, p, sizeof l))
		return;
	if (l.elems != NULL && l.n != 0 && l.n <= RING_INLINE / elem)
		shim_piece(c, param, 0, l.elems, l.n * elem, ok);
}

void shim_string(struct shim_call *c, uint8_t param, uint8_t flags, const char *s, uint64_t max, bool ok)
{
	if (s == NULL)
		return;
	char copy[256];
	uint64_t n = 0;
	if (max > RING_INLINE)
		max = RING_INLINE;
	while (n < max) {
		if (!ok) {
			/* Not known to be readable: by parts that end with a page. */
			uint64_t part = 256 - ((uint64_t)(s + n) & 255);
			if (!shim_careful_copy(copy, s + n, part))
				return;
			uint64_t i = 0;
			while (i < part && copy[i])
				i++;
			n += i;
			if (i < part)
				break;
		} else if (s[n] == 0)
			break;
		else
			n++;
	}
	shim_piece(c, param, flags, s, n < max ? n : max, ok);
}

/* A piece with an address of its own, without its bytes where there are more than max. */
static void any_far(struct shim_call *c, uint8_t param, uint8_t flags, uint32_t item, uint64_t addr, uint64_t len, uint64_t max)
{
	uint64_t bytes = len <= max ? len : 0;
	uint64_t need = sizeof(struct piece) + sizeof(struct far) + round8(bytes);
	if (!grow(c, need))
		return;
	struct piece *h = (struct piece *)c->end;
	*h = (struct piece){.param = param, .flags = (uint8_t)(flags | PIECE_FAR | (bytes ? PIECE_BYTES : 0)), .missing = bytes ? 0 : MISSING_OVER_LIMIT, .len = (uint32_t)bytes};
	struct far *f = (struct far *)(h + 1);
	*f = (struct far){.addr = addr, .len = len, .item = item};
	if (bytes) {
		*(uint64_t *)((uint8_t *)(f + 1) + round8(bytes) - 8) = 0;
		memcpy(f + 1, (const void *)addr, bytes);
	}
	c->end += need;
}

void far_piece(struct shim_call *c, uint8_t param, uint32_t item, uint64_t addr, uint64_t len)
{
	any_far(c, param, 0, item, addr, len, RING_INLINE);
}

void shim_far(struct shim_call *c, uint8_t param, uint8_t flags, uint32_t item, const void *p, uint64_t len)
{
	if (p != NULL && len != 0)
		any_far(c, param, flags, item, (uint64_t)p, len, shim_t.size / 4);
}

void shim_far_string(struct shim_call *c, uint8_t param, uint32_t item, const char *s)
{
	uint64_t n = 0;
	if (s == NULL)
		return;
	while (n < RING_INLINE && s[n])
		n++;
	shim_far(c, param, 0, item, s, n);
}

void shim_array_item(struct shim_call *c, uint8_t param, uint32_t i, const void *p, uint64_t len)
{
	if (p != NULL && len <= RING_INLINE)
		far_piece(c, param, 1 + i, (uint64_t)p, len);
}
