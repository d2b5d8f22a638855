/*
 * says: An event is complete when the work before its record is done; later work does not count.
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
