/*
 * says: aclrtGetEventAvailNum returns the number of events that can still be created, of 65536.
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
