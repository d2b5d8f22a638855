#include "payload/copies.h"

#include "base/copy.h"
#include "base/sys.h"
#include "payload/captured.h"
#include "payload/memory.h"
#include "payload/results.h"
#include "task/devtime.h"

/* From memory that is not pinned the runtime copies before it returns. */
static uint8_t early(const void *p, bool async) { return async && (maybe_pinned() || pinned((uint64_t)p)) ? PIECE_EARLY : 0; }

/*
 * The driver maps its window of device addresses when it starts. Memory that was mapped there before, or in a process without that driver,
 * is the program's: the direction of a copy then decides, not the window. The direction may be wrong, so the memory is read with care.
 */
static bool elsewhere(uint64_t addr, bool host) { return on_device(addr) && !(host && shim_in_window(addr)); }
static bool doubtful(uint64_t addr) { return maybe_on_device() || (shim_in_window(addr) && !pinned(addr)); }

/*
 * A synchronous copy that has succeeded has just read or written all of its host memory. So the memory is mapped, and stays mapped unless
 * another thread unmaps it before the call returns to the program: the payload is read directly. So is host memory that the runtime
 * has allocated and not freed. Otherwise it is read with care (base/copy.h): if the copy may run on after the call, or if so many allocations are
 * live that the address may be one of the device.
 */
void shim_reads_rows(struct shim_call *c, uint8_t param, uint32_t item, const void *p, uint64_t pitch, uint64_t width, uint64_t rows, bool host, bool async)
{
	if (p == NULL || width * rows == 0 || elsewhere((uint64_t)p, host))
		return;
	struct payload d = payload_of(c->seq, param, early(p, async), item, p, width * rows);
	/* A copy that may still run on has not touched all of it yet. */
	payload_rows(&d, pitch, width, async ? !allocated(d.addr, extent_of(d.len, pitch, width)) : doubtful(d.addr));
	if (async && __atomic_load_n(&shim_captures, __ATOMIC_RELAXED) != 0)
		add_captured(NULL, NULL, true, d.addr, d.len, pitch, width);
}

void shim_writes_rows(struct shim_call *c, uint8_t param, uint32_t item, const void *p, uint64_t pitch, uint64_t width, uint64_t rows, bool host, bool async, void *stream)
{
	if (p == NULL || width * rows == 0 || elsewhere((uint64_t)p, host))
		return;
	struct payload d = payload_of(c->seq, param, PIECE_OUT, item, p, width * rows);
	/* To memory that is not pinned the runtime copies before it returns. */
	if (!async || !pinned((uint64_t)p)) {
		give_up_pending(d.addr, extent_of(d.len, pitch, width), COPIED_OVER);
		if (async && maybe_pinned())
			payload_missing(&d, MISSING_TABLE_FULL);
		else
			payload_rows(&d, pitch, width, async || doubtful(d.addr));
		return;
	}
	if (__atomic_load_n(&shim_captures, __ATOMIC_RELAXED) != 0)
		add_captured(NULL, NULL, false, d.addr, d.len, pitch, width);
	d.allocated = allocated(d.addr, extent_of(d.len, pitch, width));
	if (!add_pending(&d, stream, pitch, width))
		payload_missing(&d, MISSING_TABLE_FULL);
}

bool shim_on_host(const void *p, uint64_t len)
{
	uint8_t ends[2];
	if (p == NULL || len == 0 || on_device((uint64_t)p))
		return false;
	return pinned((uint64_t)p) || shim_careful_rows(ends, p, len - 1, 1, 2);
}

static uint64_t field(const void *s, uint32_t at)
{
	uint64_t v = 0;
	if (at != SHIM_NO_FIELD)
		memcpy(&v, (const uint8_t *)s + at, 8);
	return v;
}

/* Computes the host memory of one side: rows from p on. False if it is not the host's. */
static bool host_side(const void *s, const struct shim_block *b, const struct shim_side *side, const uint8_t **p, uint64_t *pitch, uint64_t *rows)
{
	enum { HOST = 1, UNIFIED = 4 };
	uint32_t kind;
	memcpy(&kind, (const uint8_t *)s + side->kind, sizeof kind);
	if (kind != HOST && kind != UNIFIED)
		return false;
	uint64_t width = field(s, b->width), height = field(s, b->height), depth = b->depth == SHIM_NO_FIELD ? 1 : field(s, b->depth);
	uint64_t plane = side->rows == SHIM_NO_FIELD ? 0 : field(s, side->rows);
	*pitch = field(s, side->pitch);
	if (*pitch == 0)
		*pitch = width;
	if (width == 0 || height == 0 || depth == 0 || *pitch < width)
		return false;
	*p = (const uint8_t *)field(s, kind == HOST ? side->host : side->device);
	*p += field(s, side->x) + *pitch * (field(s, side->y) + plane * field(s, side->z));
	/* The gap between planes is included: its rows are the program's too. */
	*rows = depth == 1 || plane == 0 ? height * depth : plane * (depth - 1) + height;
	return kind == HOST || shim_on_host(*p, *pitch * (*rows - 1) + width);
}

void shim_block(struct shim_call *c, uint8_t param, uint32_t item, const void *s, const struct shim_block *b, const struct shim_side *side, bool async, void *stream)
{
	const uint8_t *p;
	uint64_t pitch, rows;
	if (!host_side(s, b, side, &p, &pitch, &rows))
		return;
	if (side == &b->from)
		shim_reads_rows(c, param, item, p, pitch, field(s, b->width), rows, false, async);
	else
		shim_writes_rows(c, param, item, p, pitch, field(s, b->width), rows, false, async, stream);
}

void shim_block_overwrites(const void *s, const struct shim_block *b)
{
	const uint8_t *p;
	uint64_t pitch, rows;
	if (any_pending() && s != NULL && host_side(s, b, &b->to, &p, &pitch, &rows) && rows != 0)
		shim_overwritten((uint64_t)p, pitch * (rows - 1) + field(s, b->width));
}

void shim_block_captured(void *graph, const void *node, const void *s, const struct shim_block *b)
{
	const uint8_t *p;
	uint64_t pitch, rows;
	graph = drop_node(graph, node);
	uint64_t width = field(s, b->width);
	/* Rows without gaps are one piece. */
	if (graph != NULL && host_side(s, b, &b->to, &p, &pitch, &rows))
		add_captured(graph, node, false, (uint64_t)p, width * rows, pitch == width ? 0 : pitch, width);
	if (graph != NULL && host_side(s, b, &b->from, &p, &pitch, &rows))
		add_captured(graph, node, true, (uint64_t)p, width * rows, pitch == width ? 0 : pitch, width);
}
