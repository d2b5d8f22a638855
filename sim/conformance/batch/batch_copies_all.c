/*
 * says: A batch makes all its copies.
 * source: API, aclrtMemcpyBatch
 */
#include "../conformance.h"

RULE(batch_copies_all)
{
	uint64_t from[2] = {1, 2};
	char *d = device(64);
	void *dsts[] = {d, d + 32}, *srcs[] = {&from[0], &from[1]};
	size_t maxs[] = {8, 8}, sizes[] = {8, 8}, index = 0, fail = 5;
	aclrtMemcpyBatchAttr attr = {.dstLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE}, .srcLoc = {0, ACL_MEM_LOCATION_TYPE_HOST}};

	OK(aclrtMemcpyBatch(dsts, maxs, srcs, sizes, 2, &attr, &index, 1, &fail));
	CHECK(word(d) == 1 && word(d + 32) == 2);
}
