/*
 * A copy during a capture becomes part of a graph. The shim assigns all of them to the capture that ends next. The trace's reader knows the graph
 * exactly.
 *
 * A graph may have parts: graphs that run if a condition holds on the device. An executable graph has the copies of its parts too. Whether such a
 * copy is made, only the device knows. So its memory is recorded before the run, and again after the program has waited for it.
 *
 * Host memory that a graph copies to the device is recorded at each run: the program may change it between runs without a call.
 */
#include "payload/captured.h"

#include "payload/events.h"
#include "payload/results.h"
#include "record/piece.h"
#include "task/devtime.h"

#define CAPTURED 4096
static struct captured {
	uint32_t state; /* atomic */
	bool maybe; /* in a part of its graph: made if a condition holds */
	bool made; /* the graph was instantiated from the one with the node */
	void *graph; /* NULL until the end of the capture */
	void *part; /* the entry is a part of the graph, not a copy */
	void *event; /* the entry is an event that each run records, not a copy */
	bool source; /* memory that the graph reads */
	const void *node; /* of the copy or the event; NULL under capture */
	uint64_t addr, len, pitch, width;
} captured[CAPTURED];
static uint32_t captured_used, captured_count;

enum { DEEPEST = 64 }; /* parts within parts */

static void add_entry(struct captured *c)
{
	if (__atomic_load_n(&captured_count, __ATOMIC_RELAXED) >= CAPTURED) {
		if (c->event != NULL)
			shim_events_unknown();
		return;
	}
	for (uint32_t i = 0; i < CAPTURED; i++) {
		uint32_t was = ENTRY_FREE;
		if (!__atomic_compare_exchange_n(&captured[i].state, &was, ENTRY_BUSY, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			continue;
		raise_to(&captured_used, i + 1);
		c->state = ENTRY_BUSY;
		captured[i] = *c;
		__atomic_add_fetch(&captured_count, 1, __ATOMIC_RELAXED);
		__atomic_store_n(&captured[i].state, ENTRY_FULL, __ATOMIC_RELEASE);
		return;
	}
}

void add_captured(void *graph, const void *node, bool source, uint64_t addr, uint64_t len, uint64_t pitch, uint64_t width)
{
	add_entry(&(struct captured){.graph = graph, .node = node, .source = source, .addr = addr, .len = len, .pitch = pitch, .width = width});
}

/* Returns the next entry from *at on, NULL at the end. */
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

void *drop_node(void *graph, const void *node)
{
	uint32_t at = 0;
	for (struct captured *e; node != NULL && (e = next_captured(&at)) != NULL;) {
		if (e->node != node || (graph == NULL ? e->made : e->graph != graph))
			continue;
		graph = e->graph;
		drop_captured(e);
	}
	return graph;
}

static void end_captured(const void *graph, int depth)
{
	uint32_t at = 0;
	for (struct captured *e; (e = next_captured(&at)) != NULL;) {
		if (e->graph != graph)
			continue;
		if (e->part != NULL && depth < DEEPEST)
			end_captured(e->part, depth + 1);
		drop_captured(e);
	}
}

void shim_graph_ended(void *graph)
{
	end_captured(graph, 0);
}

void shim_graph_records(void *graph, const void *node, void *event)
{
	graph = drop_node(graph, node);
	if (graph != NULL)
		add_entry(&(struct captured){.graph = graph, .node = node, .event = event});
	else
		shim_events_unknown();
}

bool shim_graph_external(void *event, uint64_t flags)
{
	if (flags == 0 || __atomic_load_n(&shim_captures, __ATOMIC_RELAXED) == 0)
		return false;
	add_entry(&(struct captured){.event = event});
	return true;
}

void shim_graph_parts(void *graph, const void *parts, uint64_t bytes)
{
	void *const *each = parts;
	for (uint64_t i = 0; i < bytes / sizeof *each; i++)
		add_entry(&(struct captured){.graph = graph, .part = each[i]});
}

static void copy_captured(void *to, const void *from, bool maybe, int depth)
{
	uint32_t at = 0;
	for (struct captured *e; (e = next_captured(&at)) != NULL;) {
		if (e->graph != from || from == to)
			continue;
		struct captured copy = *e;
		copy.graph = to;
		copy.maybe |= maybe;
		copy.made = true;
		if (e->part != NULL && depth < DEEPEST)
			copy_captured(to, e->part, true, depth + 1);
		else if (e->part == NULL)
			add_entry(&copy);
	}
}

void shim_graph_copied(void *to, void *from)
{
	copy_captured(to, from, false, 0);
}

/* Returns a graph's next copy to the host, or the next memory that it reads. */
static struct captured *next_of(uint32_t *at, const void *graph, bool source)
{
	struct captured *e;
	while ((e = next_captured(at)) != NULL && (e->graph != graph || e->part != NULL || e->event != NULL || e->source != source))
		;
	return e;
}

static struct captured *next_copy(uint32_t *at, const void *graph) { return next_of(at, graph, false); }
static struct captured *next_source(uint32_t *at, const void *graph) { return next_of(at, graph, true); }

void shim_graph_results(struct shim_call *c, uint8_t param, void *graph)
{
	uint64_t n = 0;
	uint32_t at = 0;
	while (next_copy(&at, graph) != NULL)
		n++;
	if (n > 0 && grow(c, sizeof(struct piece) + 8))
		shim_out(c, param, &n, 8);
}

void shim_graph_begins(struct shim_call *c, uint8_t param, void *graph)
{
	uint32_t at = 0, item = 0;
	bool pending = any_pending();
	for (struct captured *e; (e = next_captured(&at)) != NULL;) {
		if (e->graph != graph || e->part != NULL || e->source)
			continue;
		if (e->event != NULL) {
			shim_event_ends(e->event);
			continue;
		}
		item++;
		if (pending)
			give_up_pending(e->addr, extent_of(e->len, e->pitch, e->width), COPIED_OVER);
		if (e->maybe)
			payload_before(c, param, item, e->addr, e->len, e->pitch, e->width);
	}
	at = 0;
	for (struct captured *e; (e = next_source(&at, graph)) != NULL;)
		if (fits_before(e->len))
			payload_before(c, param, ++item, e->addr, e->len, e->pitch, e->width);
}

void shim_graph_run(struct shim_call *c, uint8_t param, void *graph, void *stream, bool async)
{
	uint32_t at = 0, item = 0;
	for (struct captured *e; (e = next_copy(&at, graph)) != NULL;) {
		struct payload d = payload_of(c->seq, param, PIECE_OUT, ++item, (const void *)e->addr, e->len);
		d.run = true;
		if (async) {
			if (!add_pending(&d, stream, e->pitch, e->width))
				payload_missing(&d, MISSING_TABLE_FULL);
			continue;
		}
		give_up_pending(e->addr, extent_of(e->len, e->pitch, e->width), COPIED_OVER);
		payload_rows(&d, e->pitch, e->width, true);
	}
	/* Sources that are too large for the call's record. */
	at = 0;
	for (struct captured *e; (e = next_source(&at, graph)) != NULL;)
		if (!fits_before(e->len) && e->len <= shim_control->payload_limit) {
			struct payload d = payload_of(c->seq, param, PIECE_EARLY, ++item, (const void *)e->addr, e->len);
			payload_rows(&d, e->pitch, e->width, true);
		}
}
