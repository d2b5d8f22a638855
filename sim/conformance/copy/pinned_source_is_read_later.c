/*
 * says: An asynchronous copy reads pinned memory when it runs.
 * source: API, aclrtMemcpyAsync
 */
#include "../conformance.h"

RULE(pinned_source_is_read_later)
{
	static struct gate g;
	aclrtStream s = new_stream();
	uint64_t *h = pinned(8);
	void *d = device(8);

	*h = 1;
	hold(&g, s);
	OK(aclrtMemcpyAsync(d, 8, h, 8, ACL_MEMCPY_HOST_TO_DEVICE, s));
	*h = 2;
	open_gate(&g);
	finish(s);
	CHECK(word(d) == 2);
}
