/* The shim's part for the toy runtime: it has no task ids, no kernel parameters and no timing. */
#include "runtime.h"
#include "toy.h"

const char *const shim_task_of[2];
const char *const shim_timing[TIMING_LAYERS][TIMING_FUNCTIONS];
const uint32_t shim_timing_flags;

bool shim_param_size(const void *func, uint32_t i, size_t *size)
{
	(void)func, (void)i, (void)size;
	return false;
}

int32_t shim_event_status(void *function, void *event, bool *done)
{
	(void)function, (void)event, (void)done;
	return TOY_UNSUPPORTED;
}
