/*
 * says: aclrtQueryEventWaitStatus reports if the waits for an event are done.
 * source: API, aclrtQueryEventWaitStatus
 */
#include "../conformance.h"

RULE(wait_status)
{
	static struct gate g;
	aclrtStream a = new_stream(), b = new_stream();
	aclrtEvent e;
	aclrtEventWaitStatus status;

	OK(aclrtCreateEventWithFlag(&e, ACL_EVENT_SYNC));
	hold(&g, a);
	OK(aclrtRecordEvent(e, a));
	OK(aclrtStreamWaitEvent(b, e));
	OK(aclrtQueryEventWaitStatus(e, &status));
	CHECK(status == ACL_EVENT_WAIT_STATUS_NOT_READY);
	open_gate(&g);
	finish(b);
	OK(aclrtQueryEventWaitStatus(e, &status));
	CHECK(status == ACL_EVENT_WAIT_STATUS_COMPLETE);
}
