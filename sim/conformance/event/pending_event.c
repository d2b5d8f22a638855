/*
 * says: An event is not ready until the work before its record is done.
 * source: API, aclrtQueryEventStatus
 */
#include "../conformance.h"

RULE(pending_event)
{
	static struct gate g;
	aclrtStream s = new_stream();
	aclrtEvent e = new_event();

	hold(&g, s);
	OK(aclrtRecordEvent(e, s));
	CHECK(!event_done(e));
	open_gate(&g);
	finish(s);
	CHECK(event_done(e));
}
