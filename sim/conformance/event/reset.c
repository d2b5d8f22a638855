/*
 * says: aclrtResetEvent removes the record of an event, in stream order.
 * source: API, aclrtResetEvent
 */
#include "../conformance.h"

RULE(reset)
{
	aclrtStream s = new_stream();
	aclrtEvent e;
	uint64_t t;

	OK(aclrtCreateEventWithFlag(&e, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE));
	OK(aclrtRecordEvent(e, s));
	finish(s);
	OK(aclrtEventGetTimestamp(e, &t));
	OK(aclrtResetEvent(e, s));
	finish(s);
	WANT(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, aclrtEventGetTimestamp(e, &t));
}
