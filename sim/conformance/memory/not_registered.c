/*
 * says: Only registered memory can be unregistered.
 * source: Errors, ACL_ERROR_HOST_MEMORY_NOT_REGISTERED
 */
#include "../conformance.h"

RULE(not_registered)
{
	WANT(ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, aclrtHostUnregister(aligned_alloc(4096, 4096)));
}
