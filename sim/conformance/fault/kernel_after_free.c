/*
 * says: A kernel that touches freed memory fails.
 * source: Simulator; Errors, ACL_ERROR_RT_AICORE_EXCEPTION
 */
#include "../conformance.h"

RULE(kernel_after_free)
{
	aclrtStream s = new_stream();
	void *p = device(64);

	OK(aclrtFree(p));
	store(s, p, 1);
	WANT(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(s));
}
