/*
 * says: aclrtSynchronizeEventWithTimeout returns an error after the timeout in milliseconds.
 * source: API, aclrtSynchronizeEventWithTimeout; Errors, ACL_ERROR_RT_EVENT_SYNC_TIMEOUT
 */
#include "../conformance.h"

RULE(event_timeout)
{
	static struct gate g;
	aclrtStream s = new_stream();
	aclrtEvent e = new_event();

	hold(&g, s);
	OK(aclrtRecordEvent(e, s));
	WANT(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, aclrtSynchronizeEventWithTimeout(e, 20));
	open_gate(&g);
}
