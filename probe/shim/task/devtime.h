/*
 * The device's time of a task (record --device-time): one event before it on the stream and one after it. The times are written into the ring
 * once the program has waited for the task.
 */
#ifndef ACLTRACE_SHIM_DEVTIME_H
#define ACLTRACE_SHIM_DEVTIME_H

#include "shim_hot.h"
#include "task/order.h"

/* Around a task: `on` is the handle by which the thread names the stream. */
void shim_time_begin(struct shim_call *c, void *on);
void shim_time_end(struct shim_call *c, void *stream);

static inline void shim_timed(struct shim_call *c, void *on)
{
	if (__builtin_expect(shim_control->time_every != 0, 0))
		shim_time_begin(c, on);
}

/* After a task: makes room if most pairs wait, as those of a program that never waits. */
void shim_times_spare(void);

static inline void shim_timed_later(void)
{
	if (__builtin_expect(shim_control->time_every != 0, 0))
		shim_times_spare();
}

/* Notes that a stream waits for the work on another one up to a number. */
void shim_times_joined(const void *stream, const void *from, uint64_t until);
/* Writes the times for tasks that a wait has covered, and for others that are complete. */
void shim_times_reached(enum reach which, void *stream, uint64_t until);

/* Before the program ends a stream, a context or a device: writes the times that are there, and destroys the shim's events in it. */
enum leave { STREAM_ENDS, CONTEXT_ENDS, DEVICE_ENDS, ALL_ENDS };
void shim_times_leave(enum leave which, const void *what, int32_t device);

/* The same in a wrapper, before shim_enter: no record may follow that of the call until the call ends. */
static inline void shim_leaving(enum leave which, const void *what, int32_t device)
{
	if (shim_t.depth != 0 || shim_p->ready != PROCESS_RECORDS || shim_stranger())
		return;
	shim_t.depth++;
	shim_times_leave(which, what, device);
	shim_t.depth--;
}

/* Called before a stream's capture begins, and after it has ended. */
void shim_capture(bool begins);
extern uint32_t shim_captures HIDDEN; /* atomic; captures in progress in the process */

/* Correct the runtime's answers to the program: they may refer to a call that the shim added. */
int32_t shim_last_error(int32_t ret, bool forget);
void shim_last_task(uint32_t *id);

#endif
