/*
 * says: aclrtSetOpWaitTimeout limits later waits of aclrtStreamWaitEvent.
 * source: API, aclrtSetOpWaitTimeout
 */
#include "../conformance.h"

RULE(timeout_of_all_waits)
{
	static struct gate g;
	aclrtStream a = new_stream(), b = new_stream();
	aclrtEvent e = new_event();

	OK(aclrtSetOpWaitTimeout(1));
	hold(&g, a);
	OK(aclrtRecordEvent(e, a));
	OK(aclrtStreamWaitEvent(b, e));
	WANT(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(b, patience));
	open_gate(&g);
}
