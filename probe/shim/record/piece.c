#include "record/piece.h"

#include "base/copy.h"
#include "base/sys.h"

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
	/* A larger block is probably a wrong size that the runtime will refuse. */
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
			/* May be unreadable: copy parts that do not cross a page. */
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

/* A piece with its own address, without its bytes if they are more than max. */
static void any_far(struct shim_call *c, uint8_t param, uint8_t flags, uint32_t item, uint64_t addr, uint64_t len, uint64_t max)
{
	uint64_t bytes = len <= max ? len : 0;
	uint8_t *to = begin_far(c, (struct piece){.param = param, .flags = flags, .missing = bytes ? 0 : MISSING_OVER_LIMIT},
		(struct far){.addr = addr, .len = len, .item = item}, bytes);
	if (to == NULL)
		return;
	if (bytes)
		memcpy(to, (const void *)addr, bytes);
	c->end = to + round8(bytes);
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

void shim_far_list(struct shim_call *c, uint8_t param, uint32_t item, const void *p, uint32_t elem)
{
	struct { const void *elems; uint64_t n; } l;
	if (p == NULL)
		return;
	small_copy(&l, p, sizeof l);
	if (l.n <= RING_INLINE / elem)
		shim_far(c, param, 0, item, l.elems, l.n * elem);
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
