/*
 * says: A copy of more bytes than the destination has is refused.
 * source: API, aclrtMemcpy
 */
#include "../conformance.h"

RULE(larger_than_destination)
{
	char h[64] = "";

	INVALID(aclrtMemcpy(device(64), 63, h, 64, ACL_MEMCPY_HOST_TO_DEVICE));
}
