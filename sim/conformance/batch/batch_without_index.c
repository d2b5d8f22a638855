/*
 * says: aclrtMemcpyBatchAsync needs failIndex. aclrtMemcpyBatchAsyncV2 has no such argument.
 * source: Runtime, memory copies; API, aclrtMemcpyBatchAsyncV2
 */
#include "../conformance.h"

RULE(batch_without_index)
{
	aclrtStream s = new_stream();
	uint64_t *h = pinned(8);
	void *dst = device(8), *src = h;
	size_t max = 8, size = 8, index = 0;
	aclrtMemcpyBatchAttr attr = {.dstLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE}, .srcLoc = {0, ACL_MEM_LOCATION_TYPE_HOST}};

	REFUSED(aclrtMemcpyBatchAsync(&dst, &max, &src, &size, 1, &attr, &index, 1, NULL, s));
	OK(aclrtMemcpyBatchAsyncV2(&dst, &max, &src, &size, 1, &attr, &index, 1, s));
	finish(s);
}
