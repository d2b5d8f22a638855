/*
 * says: A pool keeps the last value of an attribute. The default threshold is 0.
 * source: API, aclrtMemPoolSetAttr
 */
#include "../conformance.h"

RULE(attribute_set_last)
{
	aclrtMemPoolProps props = {.location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};
	aclrtMemPool pool;
	uint64_t v = 9;

	OK(aclrtMemPoolCreate(&pool, &props));
	OK(aclrtMemPoolGetAttr(pool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &v));
	CHECK(v == 0);
	v = 1 << 20;
	OK(aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &v));
	v = 2 << 20;
	OK(aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &v));
	OK(aclrtMemPoolGetAttr(pool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &v));
	CHECK(v == 2 << 20);
}
