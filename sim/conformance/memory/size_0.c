/*
 * says: An allocation of 0 bytes is refused.
 * source: Runtime, argument checks; API, aclrtMalloc
 */
#include "../conformance.h"

RULE(size_0)
{
	void *p;

	REFUSED(aclrtMalloc(&p, 0, ACL_MEM_MALLOC_HUGE_FIRST));
}
