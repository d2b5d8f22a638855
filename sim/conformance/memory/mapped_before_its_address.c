/*
 * says: Host memory has a device address only if it is registered as mapped.
 * source: API, aclrtHostGetDevicePointer
 */
#include "../conformance.h"

RULE(mapped_before_its_address)
{
	char *h = aligned_alloc(4096, 4096);
	void *d = NULL;

	OK(aclrtHostRegisterV2(h, 4096, ACL_HOST_REG_PINNED));
	WANT(ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, aclrtHostGetDevicePointer(h, &d, 0));
	OK(aclrtHostUnregister(h));
	OK(aclrtHostRegisterV2(h, 4096, ACL_HOST_REG_MAPPED));
	OK(aclrtHostGetDevicePointer(h, &d, 0));
	CHECK(d);
}
