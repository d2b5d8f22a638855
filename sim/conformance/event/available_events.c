/*
 * says: aclrtGetEventAvailNum tells how many events can still be made; there are 65536.
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
