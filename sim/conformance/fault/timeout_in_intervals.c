/*
 * says: The runtime rounds the operator timeout up to the device's interval. The largest timeout is 254 intervals.
 * source: API, aclrtGetOpTimeOutInterval
 */
#include "../conformance.h"

RULE(timeout_in_intervals)
{
	uint64_t interval, actual;

	OK(aclrtGetOpTimeOutInterval(&interval));
	OK(aclrtSetOpExecuteTimeOutV2(1, &actual));
	CHECK(actual / interval == 1);
	OK(aclrtSetOpExecuteTimeOutV2(interval * 300, &actual));
	CHECK(actual / interval == 254);
}
