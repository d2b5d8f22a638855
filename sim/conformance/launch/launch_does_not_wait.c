/*
 * says: A launch returns before the kernel has run.
 * source: API, aclrtLaunchKernelWithHostArgs
 */
#include "../conformance.h"

RULE(launch_does_not_wait)
{
	static struct gate g;
	aclrtStream s = new_stream();
	void *p = device(8);

	hold(&g, s);
	AT_ONCE(store(s, p, 1));
	CHECK(word(p) == 0);
	open_gate(&g);
	finish(s);
}
