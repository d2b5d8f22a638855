/*
 * A table with the last record of each event, and counts of records that have begun and ended. Other threads may record an event during a wait for it.
 * So the wait covers the last record only if that had ended before the wait began, and no record began until the wait ended. Of two simultaneous
 * records, neither is known as the last.
 *
 * Entries are chosen by address: events within 256 KiB of heap have an entry each. Of two events that share an entry, the one that was recorded later
 * has it. Results before the other one are released by the next wait for a stream or a device.
 */
#include "payload/events.h"

#include "payload/results.h"
#include "task/devtime.h"

#define EVENTS 16384
static struct {
	uint64_t begun, ended;
	uint64_t last; /* number of the record that the next fields describe */
	void *event, *stream;
	uint64_t order;
} events[EVENTS];

static uint32_t unknown; /* 1: a graph records unknown events */

static uint32_t event_slot(void *event) { return (uint32_t)((uint64_t)event >> 4) % EVENTS; }

uint64_t shim_event_begins(void *event)
{
	if (shim_t.depth > 1)
		return 0; /* part of the outer call */
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

void shim_stream_waits(void *stream, void *event)
{
	if (shim_control->time_every == 0)
		return;
	struct shim_recorded r = shim_event_last(event);
	if (r.number != 0)
		shim_times_joined(stream, r.stream, r.order);
}
