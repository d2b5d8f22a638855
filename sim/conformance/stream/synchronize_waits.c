/*
 * says: aclrtSynchronizeStream returns when all tasks of the stream are done.
 * source: API, aclrtSynchronizeStream
 */
#include "../conformance.h"

RULE(synchronize_waits)
{
	static struct gate g;
	aclrtStream s = new_stream();
	void *p = device(8);

	hold(&g, s);
	store(s, p, 3);
	open_later(&g);
	OK(aclrtSynchronizeStream(s));
	CHECK(word(p) == 3);
}
