/*
 * says: Asynchronous copies run in stream order.
 * source: Guide, stream management
 */
#include "../conformance.h"

RULE(copies_in_order)
{
	static struct gate g;
	aclrtStream s = new_stream();
	void *a = device(8), *b = device(8);

	hold(&g, s);
	store(s, a, 1);
	OK(aclrtMemcpyAsync(b, 8, a, 8, ACL_MEMCPY_DEVICE_TO_DEVICE, s));
	store(s, a, 2);
	open_gate(&g);
	finish(s);
	CHECK(word(b) == 1 && word(a) == 2);
}
