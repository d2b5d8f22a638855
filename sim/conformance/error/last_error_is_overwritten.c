/*
 * says: The last error belongs to the last call that failed.
 * source: Guide, troubleshooting
 */
#include "../conformance.h"

RULE(last_error_is_overwritten)
{
	REFUSED(aclrtFree(NULL));
	WANT(ACL_ERROR_RT_INVALID_DEVICEID, aclrtSetDevice(99));
	WANT(ACL_ERROR_RT_INVALID_DEVICEID, aclrtGetLastError(ACL_RT_THREAD_LEVEL));
}
