/*
 * says: aclrtFree refuses a null pointer.
 * source: API, aclrtFree
 */
#include "../conformance.h"

RULE(free_null)
{
	INVALID(aclrtFree(NULL));
}
