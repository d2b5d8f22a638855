/* Questions to the runtime beside the program's own calls: task and stream ids, and properties of handles. */
#ifndef ACLTRACE_SHIM_IDS_H
#define ACLTRACE_SHIM_IDS_H

#include "shim_hot.h"

/* Adds the runtime's ids of the task that the call has just put on a stream, and ends the task's time. */
void shim_any_task(struct shim_call *c, void *stream);

static inline void shim_task(struct shim_call *c, void *stream)
{
	if (shim_after_task)
		shim_any_task(c, stream);
}

/* Ends the record of a plain call, with the ids of its task. */
void shim_plain_task(struct call_record *r, void *stream);
void shim_stream_ended(void);

/* The number that a runtime function stores for a handle, 0 on failure. The function must not change any state. The answer is kept until
 * shim_forget. */
uint64_t shim_query(const char *function, const void *handle);
void shim_forget(const void *handle);

#endif
