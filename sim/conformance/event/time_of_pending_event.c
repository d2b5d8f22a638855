/*
 * says: An event has no time until it is complete.
 * source: Errors, ACL_ERROR_RT_EVENT_NOT_COMPLETE
 */
#include "../conformance.h"

RULE(time_of_pending_event)
{
	static struct gate g;
	aclrtStream s = new_stream();
	aclrtEvent e = new_event();
	uint64_t t;

	hold(&g, s);
	OK(aclrtRecordEvent(e, s));
	WANT(ACL_ERROR_RT_EVENT_NOT_COMPLETE, aclrtEventGetTimestamp(e, &t));
	open_gate(&g);
}
