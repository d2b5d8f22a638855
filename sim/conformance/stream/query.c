/*
 * says: aclrtStreamQuery reports, without waiting, if all tasks are done.
 * source: API, aclrtStreamQuery
 */
#include "../conformance.h"

RULE(query)
{
	static struct gate g;
	aclrtStream s = new_stream();

	hold(&g, s);
	CHECK(!stream_done(s));
	open_gate(&g);
	finish(s);
	CHECK(stream_done(s));
}
