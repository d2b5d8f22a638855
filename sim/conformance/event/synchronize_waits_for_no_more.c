/*
 * says: aclrtSynchronizeEvent does not wait for work after the record.
 * source: API, aclrtSynchronizeEvent
 */
#include "../conformance.h"

RULE(synchronize_waits_for_no_more)
{
	static struct gate g;
	aclrtStream s = new_stream();
	aclrtEvent e = new_event();

	OK(aclrtRecordEvent(e, s));
	hold(&g, s);
	AT_ONCE(OK(aclrtSynchronizeEventWithTimeout(e, patience)));
	open_gate(&g);
}
