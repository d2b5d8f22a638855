/*
 * says: The context that was set last is the current one.
 * source: API, aclrtSetCurrentContext
 */
#include "../conformance.h"

RULE(last_set_context_counts)
{
	aclrtContext first, second, now;

	OK(aclrtGetCurrentContext(&first));
	OK(aclrtCreateContext(&second, 0));
	OK(aclrtSetCurrentContext(first));
	OK(aclrtGetCurrentContext(&now));
	CHECK(now == first);
}
