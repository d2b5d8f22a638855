/*
 * says: A batch can copy only from host to device or back.
 * source: API, aclrtMemcpyBatch
 */
#include "../conformance.h"

RULE(batch_inside_the_device)
{
	void *dst = device(8), *src = device(8);
	size_t max = 8, size = 8, index = 0, fail;
	aclrtMemcpyBatchAttr attr = {.dstLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE}, .srcLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};

	WANT(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtMemcpyBatch(&dst, &max, &src, &size, 1, &attr, &index, 1, &fail));
}
