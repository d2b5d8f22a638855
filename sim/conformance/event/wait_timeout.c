/*
 * says: A stream that waits for an event longer than allowed fails; the next synchronization returns the error.
 * source: API, aclrtStreamWaitEventWithTimeout
 */
#include "../conformance.h"

RULE(wait_timeout)
{
	static struct gate g;
	aclrtStream a = new_stream(), b = new_stream();
	aclrtEvent e = new_event();

	hold(&g, a);
	OK(aclrtRecordEvent(e, a));
	OK(aclrtStreamWaitEventWithTimeout(b, e, 1));
	WANT(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(b, patience));
	open_gate(&g);
}
