/*
 * says: aclrtGetLastError returns the last error of the thread and clears it.
 * source: Guide, troubleshooting
 */
#include "../conformance.h"

RULE(last_error_is_kept)
{
	REFUSED(aclrtFree(NULL));
	WANT(ACL_ERROR_INVALID_PARAM, aclrtGetLastError(ACL_RT_THREAD_LEVEL));
	OK(aclrtGetLastError(ACL_RT_THREAD_LEVEL));
}
