/*
 * says: aclrtHostRegisterV2 refuses read-only registrations, which are reserved.
 * source: API, aclrtHostRegisterV2
 */
#include "../conformance.h"

RULE(reserved_registrations)
{
	WANT(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtHostRegisterV2(aligned_alloc(4096, 4096), 4096, ACL_HOST_REG_READONLY));
}
