/*
 * says: The address of registered host memory must be a multiple of 4096.
 * source: API, aclrtHostRegisterV2
 */
#include "../conformance.h"

RULE(register_whole_pages)
{
	char *h = aligned_alloc(4096, 8192);

	INVALID(aclrtHostRegisterV2(h + 64, 4096, ACL_HOST_REG_MAPPED));
}
