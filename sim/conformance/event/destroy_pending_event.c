/*
 * says: aclrtDestroyEvent does not wait, and streams still wait for the event.
 * source: API, aclrtDestroyEvent
 */
#include "../conformance.h"

RULE(destroy_pending_event)
{
	static struct gate g;
	aclrtStream a = new_stream(), b = new_stream();
	aclrtEvent e = new_event();

	hold(&g, a);
	OK(aclrtRecordEvent(e, a));
	OK(aclrtStreamWaitEvent(b, e));
	AT_ONCE(OK(aclrtDestroyEvent(e)));
	CHECK(!stream_done(b));
	open_gate(&g);
	finish(b);
}
