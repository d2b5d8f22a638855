/* Memory that the program and the device both access without a call. */
#ifndef ACLTRACE_SHIM_VISIBLE_H
#define ACLTRACE_SHIM_VISIBLE_H

#include "base/state.h"

void visible_new(uint64_t addr, uint64_t len);
void shim_visible_end(uint64_t addr);
/* After a wait: records the content that the device has changed. */
void visible_after(void);
/* Before a task: records the content that the program has changed. Inside another call it returns at once. */
void shim_visible_before(bool async);

static inline void shim_visible_task(bool async)
{
	if (__builtin_expect(shim_visible != 0, 0))
		shim_visible_before(async);
}

#endif
