/*
 * says: An event without ACL_EVENT_TIME_LINE has no time.
 * source: API, aclrtCreateEventWithFlag; Errors, ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID
 */
#include "../conformance.h"

RULE(time_needs_the_flag)
{
	aclrtStream s = new_stream();
	aclrtEvent e;
	uint64_t t;

	OK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_SYNC));
	OK(aclrtRecordEvent(e, s));
	finish(s);
	WANT(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, aclrtEventGetTimestamp(e, &t));
}
