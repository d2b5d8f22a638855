/*
 * says: The default stream waits for no other stream, and no stream waits for it.
 * source: Guide, stream management
 */
#include "../conformance.h"

RULE(default_stream_is_independent)
{
	static struct gate g;
	aclrtStream s = new_stream();
	void *p = device(8);

	hold(&g, NULL);
	at_gate(&g);
	AT_ONCE(store(s, p, 1));
	finish(s);
	CHECK(word(p) == 1);
	open_gate(&g);
}
