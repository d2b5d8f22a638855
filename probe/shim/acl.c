/* What the shim asks AscendCL. */
#include "bind.h"
#include "shim.h"

const char *const shim_task_of[2] = {"aclrtGetThreadLastTaskId", "aclrtStreamGetId"};

/* Sizes of the arguments of a kernel, from the runtime, which knows them from the kernel's binary (9.1 and later). */
void shim_args_array(struct shim_call *c, uint8_t param, const void *func, void **args)
{
	int (*count)(const void *, size_t *) = shim_optional(&shim_own[0], "aclrtFunctionGetParamCount");
	int (*info)(const void *, size_t, size_t *, size_t *) = shim_optional(&shim_own[1], "aclrtFunctionGetParamInfo");
	size_t n = 0;
	if (args == NULL || count == NULL || info == NULL || count(func, &n) != 0)
		return;
	for (size_t i = 0; i < n && i < 512; i++) {
		size_t off = 0, size = 0;
		if (info(func, i, &off, &size) != 0)
			return;
		shim_array_item(c, param, (uint32_t)i, args[i], size);
	}
}

/*
 * The functions by which tasks are timed, and in the library below for a program that has not begun with aclInit.
 */
const char *const shim_timing[TIMING_LAYERS][TIMING_FUNCTIONS] = {
	[UPPER] = {[CONTEXT] = "aclrtGetCurrentContext", [CREATE] = "aclrtCreateEventExWithFlag", [DESTROY] = "aclrtDestroyEvent", [RECORD] = "aclrtRecordEvent",
		   [STATUS] = "aclrtQueryEventStatus", [ELAPSED] = "aclrtEventElapsedTime", [STAMP] = "aclrtEventGetTimestamp", [PEEK] = "aclrtPeekAtLastError",
		   [FORGET] = "aclrtGetLastError", [MESSAGE] = "aclGetRecentErrMsg", [TASK] = "aclrtGetThreadLastTaskId"},
	[LOWER] = {[CONTEXT] = "rtCtxGetCurrent", [CREATE] = "rtEventCreateExWithFlag", [DESTROY] = "rtEventDestroy", [RECORD] = "rtEventRecord",
		   [STATUS] = "rtEventQueryStatus", [ELAPSED] = "rtEventElapsedTime", [STAMP] = "rtEventGetTimeStamp", [PEEK] = "rtPeekAtLastError",
		   [FORGET] = "rtGetLastError", [MESSAGE] = "aclGetRecentErrMsg", [TASK] = "rtsGetThreadLastTaskId"},
};
