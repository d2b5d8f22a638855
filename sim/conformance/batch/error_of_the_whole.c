/*
 * says: failIndex is SIZE_MAX for an error that belongs to no single copy.
 * source: API, aclrtMemcpyBatch
 */
#include "../conformance.h"

RULE(error_of_the_whole)
{
	uint64_t from = 1;
	void *dst = device(8), *src = &from;
	size_t max = 8, size = 8, index = 1, fail = 5;
	aclrtMemcpyBatchAttr attr = {.dstLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE}, .srcLoc = {0, ACL_MEM_LOCATION_TYPE_HOST}};

	INVALID(aclrtMemcpyBatch(&dst, &max, &src, &size, 1, &attr, &index, 1, &fail));
	CHECK(fail == SIZE_MAX);
}
