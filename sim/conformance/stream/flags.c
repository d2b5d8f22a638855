/*
 * says: aclrtStreamGetFlags returns the creation flags of a stream; 0 for none.
 * source: API, aclrtStreamGetFlags
 */
#include "../conformance.h"

RULE(flags)
{
	aclrtStream s;
	uint32_t flags = 9;

	OK(aclrtCreateStreamWithConfig(&s, 0, ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC));
	OK(aclrtStreamGetFlags(s, &flags));
	CHECK(flags == (ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC));
	OK(aclrtStreamGetFlags(new_stream(), &flags));
	CHECK(flags == 0);
}
