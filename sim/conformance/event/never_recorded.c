/*
 * says: An event that was never recorded is complete.
 * source: API, aclrtRecordEvent
 */
#include "../conformance.h"

RULE(never_recorded)
{
	CHECK(event_done(new_event()));
}
