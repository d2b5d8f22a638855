/*
 * says: An asynchronous copy from pageable memory waits for the stream's earlier tasks, and returns after the copy.
 * source: API, aclrtMemcpyAsync
 */
#include "../conformance.h"

RULE(pageable_copy_waits)
{
	static struct gate g;
	aclrtStream s = new_stream();
	uint64_t h = 4;
	void *d = device(8);

	hold(&g, s);
	store(s, d, 1);
	open_later(&g);
	OK(aclrtMemcpyAsync(d, 8, &h, 8, ACL_MEMCPY_HOST_TO_DEVICE, s));
	CHECK(atomic_load(&g.open) && word(d) == 4);
}
