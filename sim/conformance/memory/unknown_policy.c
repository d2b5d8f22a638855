/*
 * says: A policy that does not exist is no error: the size decides about the pages.
 * source: API, aclrtMalloc
 */
#include "../conformance.h"

RULE(unknown_policy)
{
	void *p;

	OK(aclrtMalloc(&p, 32, (aclrtMemMallocPolicy)77));
	OK(aclrtMemset(p, 32, 1, 32));
}
