/*
 * says: Streams run independently unless the program orders them.
 * source: Guide, stream management
 */
#include "../conformance.h"

RULE(streams_are_independent)
{
	static struct gate g;
	aclrtStream a = new_stream(), b = new_stream();
	void *p = device(8);

	hold(&g, a);
	at_gate(&g);
	AT_ONCE(store(b, p, 1));
	finish(b);
	CHECK(word(p) == 1);
	open_gate(&g);
}
