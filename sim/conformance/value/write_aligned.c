/*
 * says: The address of aclrtValueWrite is a multiple of 8.
 * source: API, aclrtValueWrite; Errors, ACL_ERROR_RT_ADDR_UNALIGNED
 */
#include "../conformance.h"

RULE(write_aligned)
{
	WANT(ACL_ERROR_RT_ADDR_UNALIGNED, aclrtValueWrite((char *)device(16) + 4, 1, 0, new_stream()));
}
