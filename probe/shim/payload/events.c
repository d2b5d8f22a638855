/*
 * The last record of each event, and how many have begun and ended in its place. Other threads may record an event while one waits for it: a
 * wait is for the last record where that had ended when the wait began and none has begun until its end. Of two records at once nobody knows which
 * is the last. Of two events that share a place the one that is recorded later has it, and what waits for the other one waits for the next
 * stream or device: places go by address, so that events within 256 KiB of the runtime's heap have one each. It is address space that a program has the less.
 */
#include "payload/events.h"

#include "payload/results.h"

#define EVENTS 16384
static struct {
	uint64_t begun, ended;
	uint64_t last; /* the one that the rest is of */
	void *event, *stream;
	uint64_t order;
} events[EVENTS];

static uint32_t unknown; /* 1: a graph records events that nothing knows of */

static uint32_t event_slot(void *event) { return (uint32_t)((uint64_t)event >> 4) % EVENTS; }

uint64_t shim_event_begins(void *event)
{
	if (shim_t.depth > 1)
		return 0; /* a part of the call around it */
	return __atomic_add_fetch(&events[event_slot(event)].begun, 1, __ATOMIC_SEQ_CST);
}

void shim_event_recorded(void *event, uint64_t number, bool ok, void *stream, uint64_t until)
{
	uint32_t i = event_slot(event);
	if (number == 0)
		return;
	if (ok && __atomic_load_n(&events[i].begun, __ATOMIC_SEQ_CST) == number && __atomic_load_n(&events[i].ended, __ATOMIC_SEQ_CST) == number - 1) {
		__atomic_thread_fence(__ATOMIC_RELEASE);
		events[i].event = event;
		events[i].stream = stream;
		events[i].order = until;
		events[i].last = number;
	}
	__atomic_add_fetch(&events[i].ended, 1, __ATOMIC_SEQ_CST);
}

void shim_events_unknown(void)
{
	__atomic_store_n(&unknown, 1, __ATOMIC_RELAXED);
}

void shim_event_ends(void *event)
{
	shim_event_recorded(event, shim_event_begins(event), false, NULL, 0);
}

struct shim_recorded shim_event_last(void *event)
{
	uint32_t i = event_slot(event);
	uint64_t number = __atomic_load_n(&events[i].ended, __ATOMIC_SEQ_CST);
	bool known = events[i].last == number && events[i].event == event;
	struct shim_recorded r = {number, events[i].stream, events[i].order};
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (!known || __atomic_load_n(&unknown, __ATOMIC_RELAXED) || __atomic_load_n(&events[i].begun, __ATOMIC_SEQ_CST) != number)
		r.number = 0;
	return r;
}

void shim_synced_event(void *event, const struct shim_recorded *r)
{
	if (r->number != 0 && __atomic_load_n(&events[event_slot(event)].begun, __ATOMIC_SEQ_CST) == r->number)
		release(OF_STREAM, r->stream, r->order);
}
