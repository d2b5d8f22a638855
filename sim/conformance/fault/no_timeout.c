/*
 * says: An operator timeout of 0 means no limit if the interval is below 100 ms.
 * source: API, aclrtSetOpExecuteTimeOutV2
 */
#include "../conformance.h"

RULE(no_timeout)
{
	uint64_t actual = 1;

	OK(aclrtSetOpExecuteTimeOutV2(0, &actual));
	CHECK(actual == UINT64_MAX);
}
