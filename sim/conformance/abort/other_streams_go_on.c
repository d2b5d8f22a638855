/*
 * says: aclrtStreamAbort does not affect other streams.
 * source: API, aclrtStreamAbort
 */
#include "../conformance.h"

RULE(other_streams_go_on)
{
	static struct gate g;
	aclrtStream a = new_stream(), b = new_stream();
	void *p = device(8);

	hold(&g, b);
	store(b, p, 1);
	at_gate(&g);
	open_later(&g);
	OK(aclrtStreamAbort(a));
	finish(b);
	CHECK(word(p) == 1);
}
