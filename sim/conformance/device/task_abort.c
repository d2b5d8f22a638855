/*
 * says: aclrtDeviceTaskAbort discards the work of all streams of a device.
 * source: API, aclrtDeviceTaskAbort
 */
#include "../conformance.h"

RULE(task_abort)
{
	static struct gate g;
	aclrtStream a = new_stream(), b = new_stream();
	void *p = device(16);

	hold(&g, a);
	store(a, p, 1);
	hold(&g, b);
	store(b, (char *)p + 8, 1);
	at_gate(&g);
	open_later(&g);
	OK(aclrtDeviceTaskAbort(0, 0));
	finish(a);
	finish(b);
	CHECK(word(p) == 0 && word((char *)p + 8) == 0);
}
