/*
 * says: A thread whose context was destroyed has no context.
 * source: Errors, ACL_ERROR_RT_CONTEXT_NULL
 */
#include "../conformance.h"

RULE(destroyed_context)
{
	aclrtContext c;
	void *p;

	OK(aclrtCreateContext(&c, 0));
	OK(aclrtDestroyContext(c));
	WANT(ACL_ERROR_RT_CONTEXT_NULL, aclrtMalloc(&p, 32, ACL_MEM_MALLOC_HUGE_FIRST));
}
