/*
 * says: The properties of a pool limit its memory.
 * source: API, aclrtMemPoolProps
 */
#include "../conformance.h"

RULE(pool_is_full)
{
	aclrtMemPoolProps props = {.location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}, .maxSize = 1 << 20};
	aclrtStream s = new_stream();
	aclrtMemPool pool;
	void *p;

	OK(aclrtMemPoolCreate(&pool, &props));
	OK(aclrtMemPoolMallocAsync(&p, 1 << 20, pool, s));
	WANT(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMemPoolMallocAsync(&p, 1 << 20, pool, s));
}
