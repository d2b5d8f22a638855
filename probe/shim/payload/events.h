/* The last record of each event of the runtime. */
#ifndef ACLTRACE_SHIM_EVENTS_H
#define ACLTRACE_SHIM_EVENTS_H

#include "base/state.h"

/* Around a call that records an event, whether it is written down or not. The number is 0 inside another call. */
uint64_t shim_event_begins(void *event);
void shim_event_recorded(void *event, uint64_t number, bool ok, void *stream, uint64_t until);
/* Forgets the record of an event. */
void shim_event_ends(void *event);
/* Forgets all, for good: a graph records events that there was no room to remember. */
void shim_events_unknown(void);

/* Before a wait for an event, and after it: the stream and the place in it that the wait covers. */
struct shim_recorded {
	uint64_t number; /* 0: not known */
	void *stream;
	uint64_t order;
};
struct shim_recorded shim_event_last(void *event);
void shim_synced_event(void *event, const struct shim_recorded *r);
/* After a call by which a stream waits for an event. */
void shim_stream_waits(void *stream, void *event);

#endif
