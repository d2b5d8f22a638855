/*
 * says: Registered host memory can't be registered again.
 * source: Errors, ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED
 */
#include "../conformance.h"

RULE(registered_twice)
{
	char *h = aligned_alloc(4096, 4096);

	OK(aclrtHostRegisterV2(h, 4096, ACL_HOST_REG_MAPPED));
	WANT(ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED, aclrtHostRegisterV2(h, 4096, ACL_HOST_REG_MAPPED));
}
