/*
 * says: An unknown allocation policy is not an error. The size determines the page size.
 * source: API, aclrtMalloc
 */
#include "../conformance.h"

RULE(unknown_policy)
{
	void *p;

	OK(aclrtMalloc(&p, 32, (aclrtMemMallocPolicy)77));
	OK(aclrtMemset(p, 32, 1, 32));
}
