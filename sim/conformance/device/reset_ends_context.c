/*
 * says: The last aclrtResetDevice ends the default context.
 * source: API, aclrtResetDevice
 */
#include "../conformance.h"

RULE(reset_ends_context)
{
	void *p;

	OK(aclrtResetDevice(0));
	WANT(ACL_ERROR_RT_CONTEXT_NULL, aclrtMalloc(&p, 32, ACL_MEM_MALLOC_HUGE_FIRST));
}
