/*
 * says: aclrtDestroyStream waits for the work of the stream.
 * source: API, aclrtDestroyStream
 */
#include "../conformance.h"

RULE(destroy_waits)
{
	static struct gate g;
	aclrtStream s = new_stream();
	void *p = device(8);

	hold(&g, s);
	store(s, p, 3);
	at_gate(&g);
	open_later(&g);
	OK(aclrtDestroyStream(s));
	CHECK(word(p) == 3);
}
