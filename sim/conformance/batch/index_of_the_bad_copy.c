/*
 * says: failIndex is the number of the first copy whose memory contradicts its attribute.
 * source: API, aclrtMemcpyBatch
 */
#include "../conformance.h"

RULE(index_of_the_bad_copy)
{
	uint64_t from[2] = {1, 2}, other = 0;
	void *dsts[] = {device(8), &other}, *srcs[] = {&from[0], &from[1]};
	size_t maxs[] = {8, 8}, sizes[] = {8, 8}, index = 0, fail = 5;
	aclrtMemcpyBatchAttr attr = {.dstLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE}, .srcLoc = {0, ACL_MEM_LOCATION_TYPE_HOST}};

	INVALID(aclrtMemcpyBatch(dsts, maxs, srcs, sizes, 2, &attr, &index, 1, &fail));
	CHECK(fail == 1);
}
