/*
 * says: An attribute applies to the copies from its index to the next attribute's.
 * source: API, aclrtMemcpyBatch
 * env: ACLSIM_DEVICES=2
 */
#include "../conformance.h"

RULE(ranges_of_attributes)
{
	uint64_t from[3] = {1, 2, 3};
	void *dsts[3], *srcs[] = {&from[0], &from[1], &from[2]};
	size_t maxs[] = {8, 8, 8}, sizes[] = {8, 8, 8}, indexes[] = {0, 1}, fail;
	aclrtMemcpyBatchAttr attrs[2] = {
		{.dstLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE}, .srcLoc = {0, ACL_MEM_LOCATION_TYPE_HOST}},
		{.dstLoc = {1, ACL_MEM_LOCATION_TYPE_DEVICE}, .srcLoc = {0, ACL_MEM_LOCATION_TYPE_HOST}},
	};

	dsts[0] = device(8);
	OK(aclrtSetDevice(1));
	dsts[1] = device(8);
	dsts[2] = device(8);
	OK(aclrtMemcpyBatch(dsts, maxs, srcs, sizes, 3, attrs, indexes, 2, &fail));
	CHECK(word(dsts[0]) == 1 && word(dsts[1]) == 2 && word(dsts[2]) == 3);
}
