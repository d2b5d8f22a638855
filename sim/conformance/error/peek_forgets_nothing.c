/*
 * says: aclrtPeekAtLastError returns the last error and does not clear it.
 * source: Guide, troubleshooting
 */
#include "../conformance.h"

RULE(peek_forgets_nothing)
{
	REFUSED(aclrtFree(NULL));
	WANT(ACL_ERROR_INVALID_PARAM, aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL));
	WANT(ACL_ERROR_INVALID_PARAM, aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL));
}
