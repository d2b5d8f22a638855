/*
 * says: aclrtMemsetAsync fills in stream order.
 * source: API, aclrtMemsetAsync
 */
#include "../conformance.h"

RULE(filled_later)
{
	static struct gate g;
	aclrtStream s = new_stream();
	void *d = device(64);

	hold(&g, s);
	OK(aclrtMemsetAsync(d, 64, 1, 64, s));
	CHECK(word(d) == 0);
	open_gate(&g);
	finish(s);
	CHECK(word(d) == 0x0101010101010101);
}
