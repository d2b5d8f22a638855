/*
 * Copies to the host that were asked for while a stream was captured: a graph may make them, each time that it runs. The capture
 * that ends next gets them all; which of them are in its graph the trace tells.
 */
#include "parts.h"

#define CAPTURED 4096
static struct captured {
	uint32_t state; /* atomic */
	void *graph; /* NULL until the end of the capture */
	uint64_t addr, len, pitch, width;
} captured[CAPTURED];
static uint32_t captured_used, captured_count;

void add_captured(void *graph, uint64_t addr, uint64_t len, uint64_t pitch, uint64_t width)
{
	if (__atomic_load_n(&captured_count, __ATOMIC_RELAXED) >= CAPTURED)
		return;
	for (uint32_t i = 0; i < CAPTURED; i++) {
		uint32_t was = ENTRY_FREE;
		if (!__atomic_compare_exchange_n(&captured[i].state, &was, ENTRY_BUSY, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			continue;
		uint32_t used = __atomic_load_n(&captured_used, __ATOMIC_RELAXED);
		while (used <= i && !__atomic_compare_exchange_n(&captured_used, &used, i + 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			;
		captured[i] = (struct captured){ENTRY_BUSY, graph, addr, len, pitch, width};
		__atomic_add_fetch(&captured_count, 1, __ATOMIC_RELAXED);
		__atomic_store_n(&captured[i].state, ENTRY_FULL, __ATOMIC_RELEASE);
		return;
	}
}

/* The next one that is there, from *at on; NULL at the end. */
static struct captured *next_captured(uint32_t *at)
{
	uint32_t used = __atomic_load_n(&captured_used, __ATOMIC_ACQUIRE);
	while (*at < used) {
		struct captured *e = &captured[(*at)++];
		if (__atomic_load_n(&e->state, __ATOMIC_ACQUIRE) == ENTRY_FULL)
			return e;
	}
	return NULL;
}

static void drop_captured(struct captured *e)
{
	__atomic_sub_fetch(&captured_count, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&e->state, ENTRY_FREE, __ATOMIC_RELEASE);
}

void forget_captured(uint64_t from, uint64_t to)
{
	uint32_t at = 0;
	for (struct captured *e; (e = next_captured(&at)) != NULL;)
		if (e->addr >= from && e->addr < to)
			drop_captured(e);
}

void shim_captured(void *graph)
{
	uint32_t at = 0;
	bool others = __atomic_load_n(&shim_captures, __ATOMIC_RELAXED) != 0;
	for (struct captured *e; (e = next_captured(&at)) != NULL;) {
		if (e->graph != NULL)
			continue;
		if (graph != NULL)
			e->graph = graph;
		else if (!others)
			drop_captured(e);
	}
}

void shim_graph_ended(void *graph)
{
	uint32_t at = 0;
	for (struct captured *e; (e = next_captured(&at)) != NULL;)
		if (e->graph == graph)
			drop_captured(e);
}

void shim_graph_copied(void *to, void *from)
{
	uint32_t at = 0;
	for (struct captured *e; (e = next_captured(&at)) != NULL;)
		if (e->graph == from && from != to)
			add_captured(to, e->addr, e->len, e->pitch, e->width);
}

void shim_graph_results(struct shim_call *c, uint8_t param, void *graph)
{
	uint64_t n = 0;
	uint32_t at = 0;
	for (struct captured *e; (e = next_captured(&at)) != NULL;)
		n += e->graph == graph;
	if (n > 0 && grow(c, sizeof(struct piece) + 8))
		shim_out(c, param, &n, 8);
}

void shim_graph_overwrites(void *graph)
{
	uint32_t at = 0;
	if (!any_pending())
		return;
	for (struct captured *e; (e = next_captured(&at)) != NULL;)
		if (e->graph == graph)
			give_up_pending(e->addr, extent_of(e->len, e->pitch, e->width), COPIED_OVER);
}

void shim_graph_run(struct shim_call *c, uint8_t param, void *graph, void *stream, bool async)
{
	uint32_t at = 0, item = 0;
	for (struct captured *e; (e = next_captured(&at)) != NULL;) {
		if (e->graph != graph)
			continue;
		struct payload d = payload_of(c->seq, param, PIECE_OUT, ++item, (const void *)e->addr, e->len);
		if (async) {
			if (!add_pending(&d, stream, e->pitch, e->width))
				payload_missing(&d, MISSING_TABLE_FULL);
			continue;
		}
		give_up_pending(e->addr, extent_of(e->len, e->pitch, e->width), COPIED_OVER);
		payload_rows(&d, e->pitch, e->width);
	}
}
