/*
 * says: The default operator timeout is 1091 s.
 * source: API, aclrtSetOpExecuteTimeOut (A2 series)
 */
#include "../conformance.h"

RULE(default_timeout)
{
	uint32_t ms;

	OK(aclrtGetOpExecuteTimeout(&ms));
	CHECK(ms == 1091000);
}
