/*
 * says: Tasks after aclrtStreamWaitEvent begin when the work before the event's record is done.
 * source: API, aclrtStreamWaitEvent
 */
#include "../conformance.h"

RULE(stream_waits_for_event)
{
	static struct gate g;
	aclrtStream a = new_stream(), b = new_stream();
	aclrtEvent e = new_event();
	void *p = device(8);

	hold(&g, a);
	store(a, p, 1);
	OK(aclrtRecordEvent(e, a));
	OK(aclrtStreamWaitEvent(b, e));
	store(b, p, 2);
	pause_ms(50);
	CHECK(word(p) == 0);
	open_gate(&g);
	finish(b);
	CHECK(word(p) == 2);
}
