/*
 * says: aclrtStreamAbort drops the tasks of a stream that have not begun.
 * source: API, aclrtStreamAbort
 */
#include "../conformance.h"

RULE(abort_discards)
{
	static struct gate g;
	aclrtStream s = new_stream();
	void *p = device(8);

	hold(&g, s);
	store(s, p, 1);
	at_gate(&g);
	open_later(&g);
	OK(aclrtStreamAbort(s));
	finish(s);
	CHECK(word(p) == 0);
}
