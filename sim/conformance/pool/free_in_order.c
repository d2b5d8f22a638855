/*
 * says: Pool memory is freed in stream order. Tasks before the free may use it.
 * source: API, ordered memory allocation
 */
#include "../conformance.h"

RULE(free_in_order)
{
	static struct gate g;
	aclrtMemPoolProps props = {.location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};
	aclrtStream s = new_stream();
	aclrtMemPool pool;
	void *p, *q = device(8);

	OK(aclrtMemPoolCreate(&pool, &props));
	OK(aclrtMemPoolMallocAsync(&p, 64, pool, s));
	hold(&g, s);
	store(s, p, 7);
	OK(aclrtMemcpyAsync(q, 8, p, 8, ACL_MEMCPY_DEVICE_TO_DEVICE, s));
	OK(aclrtMemPoolFreeAsync(p, s));
	open_gate(&g);
	finish(s);
	CHECK(word(q) == 7);
}
