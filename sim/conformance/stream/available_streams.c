/*
 * says: aclrtGetStreamAvailableNum returns the number of streams that can still be created.
 * source: API, aclrtGetStreamAvailableNum
 */
#include "../conformance.h"

RULE(available_streams)
{
	uint32_t before, after;

	OK(aclrtGetStreamAvailableNum(&before));
	new_stream();
	OK(aclrtGetStreamAvailableNum(&after));
	CHECK(after == before - 1);
}
