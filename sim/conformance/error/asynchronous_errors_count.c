/*
 * says: An error of a task becomes the last error when a synchronization returns it.
 * source: Guide, troubleshooting
 */
#include "../conformance.h"

RULE(asynchronous_errors_count)
{
	aclrtStream s = new_stream();

	store(s, (char *)device(64) + 4096, 1);
	OK(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL));
	WANT(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(s));
	WANT(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL));
}
