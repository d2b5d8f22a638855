/*
 * says: aclrtValueWrite stores 64 bits in stream order.
 * source: API, aclrtValueWrite
 */
#include "../conformance.h"

RULE(write_in_order)
{
	static struct gate g;
	aclrtStream s = new_stream();
	void *p = device(8);

	hold(&g, s);
	OK(aclrtValueWrite(p, 0x1122334455667788, 0, s));
	CHECK(word(p) == 0);
	open_gate(&g);
	finish(s);
	CHECK(word(p) == 0x1122334455667788);
}
