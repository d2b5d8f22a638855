/*
 * says: A timeout of -1 means no limit.
 * source: API, aclrtSynchronizeStreamWithTimeout
 */
#include "../conformance.h"

RULE(synchronize_without_limit)
{
	static struct gate g;
	aclrtStream s = new_stream();

	hold(&g, s);
	open_later(&g);
	OK(aclrtSynchronizeStreamWithTimeout(s, -1));
	CHECK(atomic_load(&g.open));
}
