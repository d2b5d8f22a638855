/*
 * says: A pool reports its used memory and the maximum so far.
 * source: API, aclrtMemPoolAttr
 */
#include "../conformance.h"

RULE(used_memory)
{
	aclrtMemPoolProps props = {.location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};
	aclrtStream s = new_stream();
	aclrtMemPool pool;
	uint64_t used = 9, high = 9;
	void *p;

	OK(aclrtMemPoolCreate(&pool, &props));
	OK(aclrtMemPoolMallocAsync(&p, 4096, pool, s));
	OK(aclrtMemPoolGetAttr(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT, &used));
	CHECK(used >= 4096);
	OK(aclrtMemPoolFreeAsync(p, s));
	finish(s);
	OK(aclrtMemPoolGetAttr(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT, &used));
	OK(aclrtMemPoolGetAttr(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH, &high));
	CHECK(used == 0 && high >= 4096);
}
