/*
 * says: A copy descriptor needs a copy inside a device.
 * source: API, aclrtGetMemcpyDescSize
 */
#include "../conformance.h"

RULE(descriptor_inside_the_device)
{
	size_t n;

	INVALID(aclrtGetMemcpyDescSize(ACL_MEMCPY_HOST_TO_DEVICE, &n));
}
