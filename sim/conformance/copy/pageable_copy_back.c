/*
 * says: An asynchronous copy to pageable memory is done when the call returns.
 * source: API, aclrtMemcpyAsync
 */
#include "../conformance.h"

RULE(pageable_copy_back)
{
	static struct gate g;
	aclrtStream s = new_stream();
	uint64_t h = 0;
	void *d = device(8);

	hold(&g, s);
	store(s, d, 6);
	open_later(&g);
	OK(aclrtMemcpyAsync(&h, 8, d, 8, ACL_MEMCPY_DEVICE_TO_HOST, s));
	CHECK(h == 6);
}
