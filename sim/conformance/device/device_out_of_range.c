/*
 * says: A device number that is not below the count is refused.
 * source: API, aclrtSetDevice; Errors, ACL_ERROR_RT_INVALID_DEVICEID
 */
#include "../conformance.h"

RULE(device_out_of_range)
{
	uint32_t n;

	OK(aclrtGetDeviceCount(&n));
	WANT(ACL_ERROR_RT_INVALID_DEVICEID, aclrtSetDevice((int32_t)n));
}
