/*
 * says: Several streams may wait for one event.
 * source: API, aclrtStreamWaitEvent
 */
#include "../conformance.h"

RULE(many_wait_for_one)
{
	static struct gate g;
	aclrtStream a = new_stream(), b = new_stream(), c = new_stream();
	aclrtEvent e = new_event();

	hold(&g, a);
	OK(aclrtRecordEvent(e, a));
	OK(aclrtStreamWaitEvent(b, e));
	OK(aclrtStreamWaitEvent(c, e));
	CHECK(!stream_done(b) && !stream_done(c));
	open_gate(&g);
	finish(b);
	finish(c);
}
