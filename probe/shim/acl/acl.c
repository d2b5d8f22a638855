/* The functions of runtime.h for AscendCL. */
#include "base/loader.h"
#include "runtime.h"

const char *const shim_task_of[2] = {"aclrtGetThreadLastTaskId", "aclrtStreamGetId"};

/* The runtime reads the sizes from the kernel's binary (CANN 9.1 and later). */
bool shim_param_size(const void *func, uint32_t i, size_t *size)
{
	int (*count)(const void *, size_t *) = shim_optional(&shim_own[0], "aclrtFunctionGetParamCount");
	int (*info)(const void *, size_t, size_t *, size_t *) = shim_optional(&shim_own[1], "aclrtFunctionGetParamInfo");
	size_t n = 0, off;
	return count != NULL && info != NULL && count(func, &n) == 0 && i < n && info(func, i, &off, size) == 0;
}

/* ACL_EVENT_TIME_LINE alone: such events do not count against the limit of synchronizing events. */
const uint32_t shim_timing_flags = 8;

int32_t shim_event_status(void *function, void *event, bool *done)
{
	enum { COMPLETE = 1 };
	int32_t s = 0, e = ((int32_t (*)(void *, int32_t *))function)(event, &s);
	*done = s == COMPLETE;
	return e;
}

/* The lower layer serves a program that has not called aclInit. */
const char *const shim_timing[TIMING_LAYERS][TIMING_FUNCTIONS] = {
	[UPPER] = {[CONTEXT] = "aclrtGetCurrentContext", [CREATE] = "aclrtCreateEventExWithFlag", [DESTROY] = "aclrtDestroyEvent", [RECORD] = "aclrtRecordEvent",
		   [STATUS] = "aclrtQueryEventStatus", [ELAPSED] = "aclrtEventElapsedTime", [STAMP] = "aclrtEventGetTimestamp", [PEEK] = "aclrtPeekAtLastError",
		   [FORGET] = "aclrtGetLastError", [MESSAGE] = "aclGetRecentErrMsg", [TASK] = "aclrtGetThreadLastTaskId"},
	[LOWER] = {[CONTEXT] = "rtCtxGetCurrent", [CREATE] = "rtEventCreateExWithFlag", [DESTROY] = "rtEventDestroy", [RECORD] = "rtEventRecord",
		   [STATUS] = "rtEventQueryStatus", [ELAPSED] = "rtEventElapsedTime", [STAMP] = "rtEventGetTimeStamp", [PEEK] = "rtPeekAtLastError",
		   [FORGET] = "rtGetLastError", [MESSAGE] = "aclGetRecentErrMsg", [TASK] = "rtsGetThreadLastTaskId"},
};
