/*
 * says: aclrtGetLastError returns the last error of the thread and forgets it.
 * source: Guide, troubleshooting
 */
#include "../conformance.h"

RULE(last_error_is_kept)
{
	INVALID(aclrtFree(NULL));
	WANT(ACL_ERROR_RT_PARAM_INVALID, aclrtGetLastError(ACL_RT_THREAD_LEVEL));
	OK(aclrtGetLastError(ACL_RT_THREAD_LEVEL));
}
