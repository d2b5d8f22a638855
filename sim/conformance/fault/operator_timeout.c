/*
 * says: A kernel that takes longer than the operator timeout fails.
 * source: API, aclrtSetOpExecuteTimeOutWithMs; Errors, ACL_ERROR_RT_AICORE_TIMEOUT
 */
#include "../conformance.h"

RULE(operator_timeout)
{
	aclrtStream s = new_stream();
	uint64_t ms = 300;

	OK(aclrtSetOpExecuteTimeOutWithMs(20));
	OK(aclrtLaunchKernelWithHostArgs(kernel("last"), 1, s, NULL, &ms, sizeof ms, NULL, 0));
	WANT(ACL_ERROR_RT_AICORE_TIMEOUT, aclrtSynchronizeStream(s));
}
