/*
 * says: A task group can contain only kernels.
 * source: API, aclmdlRICaptureTaskGrpBegin; Errors, ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT
 */
#include "../conformance.h"

RULE(group_of_kernels)
{
	aclrtStream s = new_stream();
	void *p = device(8);

	OK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	OK(aclmdlRICaptureTaskGrpBegin(s));
	WANT(ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT, aclrtMemsetAsync(p, 8, 1, 8, s));
}
