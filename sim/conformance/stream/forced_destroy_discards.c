/*
 * says: aclrtDestroyStreamForce ends a stream and discards the work that has not begun.
 * source: API, aclrtDestroyStreamForce
 */
#include "../conformance.h"

RULE(forced_destroy_discards)
{
	static struct gate g;
	aclrtStream s = new_stream();
	void *p = device(8);

	hold(&g, s);
	store(s, p, 3);
	at_gate(&g);
	open_later(&g);
	OK(aclrtDestroyStreamForce(s));
	CHECK(word(p) == 0);
}
