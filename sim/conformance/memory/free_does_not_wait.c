/*
 * says: aclrtFree frees at once and waits for no task that uses the memory.
 * source: API, aclrtFree
 */
#include "../conformance.h"

RULE(free_does_not_wait)
{
	static struct gate g;
	aclrtStream s = new_stream();
	void *p = device(32);

	hold(&g, s);
	OK(aclrtMemsetAsync(p, 32, 1, 32, s));
	AT_ONCE(OK(aclrtFree(p)));
	open_gate(&g);
}
