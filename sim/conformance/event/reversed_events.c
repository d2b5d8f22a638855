/*
 * says: aclrtEventElapsedTime fails if the end event is before the start event.
 * source: Errors, ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL
 */
#include "../conformance.h"

RULE(reversed_events)
{
	aclrtStream s = new_stream();
	aclrtEvent a = new_event(), b = new_event();
	uint64_t ms = 1;
	float t;

	OK(aclrtRecordEvent(a, s));
	OK(aclrtLaunchKernelWithHostArgs(kernel("last"), 1, s, NULL, &ms, sizeof ms, NULL, 0));
	OK(aclrtRecordEvent(b, s));
	finish(s);
	WANT(ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, aclrtEventElapsedTime(&t, b, a));
}
