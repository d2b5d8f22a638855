/*
 * says: An event is complete when the work is done that the stream had at its record, whatever came behind.
 * source: API, aclrtRecordEvent
 */
#include "../conformance.h"

RULE(record_captures_earlier_work)
{
	static struct gate g;
	aclrtStream s = new_stream();
	aclrtEvent e = new_event();

	OK(aclrtMemsetAsync(device(8), 8, 1, 8, s));
	OK(aclrtRecordEvent(e, s));
	hold(&g, s);
	at_gate(&g);
	CHECK(event_done(e));
	open_gate(&g);
}
