/*
 * says: aclrtFree accepts only addresses that an allocation returned.
 * source: API, aclrtFree
 */
#include "../conformance.h"

RULE(free_what_was_allocated)
{
	char *p = device(1024);

	INVALID(aclrtFree(p + 64));
}
