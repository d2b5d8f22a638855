/*
 * says: aclrtGetEventAvailNum returns how many more events can be made; the limit is 65536.
 * source: API, aclrtGetEventAvailNum, aclrtCreateEvent (A2 series)
 */
#include "../conformance.h"

RULE(available_events)
{
	uint32_t before, after;

	OK(aclrtGetEventAvailNum(&before));
	CHECK(before == 65536);
	new_event();
	OK(aclrtGetEventAvailNum(&after));
	CHECK(after == before - 1);
}
