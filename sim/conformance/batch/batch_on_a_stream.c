/*
 * says: An asynchronous batch with pinned memory runs in stream order.
 * source: API, aclrtMemcpyBatchAsync
 */
#include "../conformance.h"

RULE(batch_on_a_stream)
{
	static struct gate g;
	aclrtStream s = new_stream();
	uint64_t *h = pinned(8);
	void *dst = device(8), *src = h;
	size_t max = 8, size = 8, index = 0, fail;
	aclrtMemcpyBatchAttr attr = {.dstLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE}, .srcLoc = {0, ACL_MEM_LOCATION_TYPE_HOST}};

	hold(&g, s);
	AT_ONCE(OK(aclrtMemcpyBatchAsync(&dst, &max, &src, &size, 1, &attr, &index, 1, &fail, s)));
	*h = 4;
	open_gate(&g);
	finish(s);
	CHECK(word(dst) == 4);
}
