/*
 * says: aclrtFree refuses a null pointer.
 * source: Runtime, argument checks
 */
#include "../conformance.h"

RULE(free_null)
{
	REFUSED(aclrtFree(NULL));
}
