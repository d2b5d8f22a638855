/*
 * says: A second record of an event replaces the first.
 * source: API, aclrtRecordEvent
 */
#include "../conformance.h"

RULE(record_again)
{
	static struct gate g;
	aclrtStream s = new_stream();
	aclrtEvent e = new_event();

	OK(aclrtRecordEvent(e, s));
	finish(s);
	CHECK(event_done(e));
	hold(&g, s);
	OK(aclrtRecordEvent(e, s));
	CHECK(!event_done(e));
	open_gate(&g);
}
