/*
 * says: A copy of 0 bytes succeeds.
 * source: Runtime, memory copies
 */
#include "../conformance.h"

RULE(copy_of_nothing)
{
	OK(aclrtMemcpy(NULL, 0, NULL, 0, ACL_MEMCPY_HOST_TO_DEVICE));
}
