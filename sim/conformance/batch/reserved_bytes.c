/*
 * says: The reserved bytes of an attribute are 0.
 * source: API, aclrtMemcpyBatchAttr
 */
#include "../conformance.h"

RULE(reserved_bytes)
{
	uint64_t from = 1;
	void *dst = device(8), *src = &from;
	size_t max = 8, size = 8, index = 0, fail;
	aclrtMemcpyBatchAttr attr = {.dstLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE}, .srcLoc = {0, ACL_MEM_LOCATION_TYPE_HOST}, .rsv = {1}};

	REFUSED(aclrtMemcpyBatch(&dst, &max, &src, &size, 1, &attr, &index, 1, &fail));
}
