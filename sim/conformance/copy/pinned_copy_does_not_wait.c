/*
 * says: An asynchronous copy with pinned memory returns before it is done.
 * source: API, aclrtMemcpyAsync
 */
#include "../conformance.h"

RULE(pinned_copy_does_not_wait)
{
	static struct gate g;
	aclrtStream s = new_stream();
	uint64_t *h = pinned(8);
	void *d = device(8);

	hold(&g, s);
	*h = 3;
	AT_ONCE(OK(aclrtMemcpyAsync(d, 8, h, 8, ACL_MEMCPY_HOST_TO_DEVICE, s)));
	CHECK(word(d) == 0);
	open_gate(&g);
	finish(s);
	CHECK(word(d) == 3);
}
