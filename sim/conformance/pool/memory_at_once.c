/*
 * says: An allocation from a pool returns the address at once, for later tasks of the stream.
 * source: API, ordered memory allocation
 */
#include "../conformance.h"

RULE(memory_at_once)
{
	aclrtMemPoolProps props = {.location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};
	aclrtStream s = new_stream();
	aclrtMemPool pool;
	void *p = NULL;

	OK(aclrtMemPoolCreate(&pool, &props));
	OK(aclrtMemPoolMallocAsync(&p, 64, pool, s));
	CHECK(p);
	store(s, p, 1);
	finish(s);
	CHECK(word(p) == 1);
}
