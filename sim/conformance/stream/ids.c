/*
 * says: Streams of a device have different ids.
 * source: API, aclrtStreamGetId
 */
#include "../conformance.h"

RULE(ids)
{
	int32_t a, b;

	OK(aclrtStreamGetId(new_stream(), &a));
	OK(aclrtStreamGetId(new_stream(), &b));
	CHECK(a != b);
}
