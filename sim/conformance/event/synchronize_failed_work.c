/*
 * says: A synchronization with an event returns the failure of the work before it.
 * source: Simulator
 */
#include "../conformance.h"

RULE(synchronize_failed_work)
{
	static struct gate g;
	aclrtStream s = new_stream();
	aclrtEvent e = new_event();

	OK(aclrtSetStreamFailureMode(s, ACL_STOP_ON_FAILURE));
	hold(&g, s); /* a record after the failure is refused */
	store(s, (void *)0x123456789000, 1);
	OK(aclrtRecordEvent(e, s));
	open_gate(&g);
	WANT(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeEvent(e));
}
