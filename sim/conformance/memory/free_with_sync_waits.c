/*
 * says: aclrtFreeWithDevSync waits for the tasks before it frees.
 * source: API, aclrtFreeWithDevSync
 */
#include "../conformance.h"

RULE(free_with_sync_waits)
{
	static struct gate g;
	aclrtStream s = new_stream();
	void *p = device(8);

	hold(&g, s);
	store(s, p, 1);
	open_later(&g);
	OK(aclrtFreeWithDevSync(p));
	finish(s);
}
