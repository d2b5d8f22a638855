/*
 * says: AscendCL refuses null for a required object or result. The lower library refuses null with its own code.
 * source: Runtime, argument checks
 */
#include "../conformance.h"

RULE(null_pointers)
{
	void *p = device(64);

	REFUSED(aclrtMalloc(NULL, 1, ACL_MEM_MALLOC_HUGE_FIRST));
	REFUSED(aclrtMemcpy(NULL, 1, p, 1, ACL_MEMCPY_DEVICE_TO_DEVICE));
	REFUSED(aclrtMemcpyAsync(p, 1, NULL, 1, ACL_MEMCPY_HOST_TO_DEVICE, NULL));
	REFUSED(aclrtMemset(NULL, 1, 0, 1));
	REFUSED(aclrtCreateStream(NULL));
	REFUSED(aclrtDestroyStream(NULL));
	REFUSED(aclrtCreateEvent(NULL));
	REFUSED(aclrtRecordEvent(NULL, NULL));
	REFUSED(aclrtSynchronizeEvent(NULL));
	REFUSED(aclrtGetDeviceCount(NULL));
	REFUSED(aclrtLaunchKernel(NULL, 1, p, 8, NULL));
	REFUSED(aclmdlRIExecuteAsync(NULL, NULL));
	INVALID(aclrtStreamAbort(NULL));
	INVALID(aclrtLaunchHostFunc(NULL, NULL, NULL));
}
