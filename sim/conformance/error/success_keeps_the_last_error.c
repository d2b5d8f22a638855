/*
 * says: A call that succeeds does not clear the last error.
 * source: Guide, troubleshooting
 */
#include "../conformance.h"

RULE(success_keeps_the_last_error)
{
	REFUSED(aclrtFree(NULL));
	CHECK(device(8));
	WANT(ACL_ERROR_INVALID_PARAM, aclrtGetLastError(ACL_RT_THREAD_LEVEL));
}
