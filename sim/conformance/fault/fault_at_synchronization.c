/*
 * says: The launch of a kernel that accesses invalid memory succeeds. The next synchronization returns the error.
 * source: Guide, troubleshooting; Errors, ACL_ERROR_RT_AICORE_EXCEPTION
 */
#include "../conformance.h"

RULE(fault_at_synchronization)
{
	aclrtStream s = new_stream();

	OK(launch_store(s, (char *)device(64) + 4096, 1));
	WANT(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(s));
}
