/*
 * says: aclrtSynchronizeEvent waits for the work before the event's record.
 * source: API, aclrtSynchronizeEvent
 */
#include "../conformance.h"

RULE(synchronize_waits_for_event)
{
	static struct gate g;
	aclrtStream s = new_stream();
	aclrtEvent e = new_event();

	hold(&g, s);
	OK(aclrtRecordEvent(e, s));
	open_later(&g);
	OK(aclrtSynchronizeEvent(e));
	CHECK(atomic_load(&g.open));
}
