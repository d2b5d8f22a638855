/*
 * says: A priority outside the range becomes the nearest one inside.
 * source: Runtime, creating streams
 */
#include "../conformance.h"

RULE(priority_out_of_range)
{
	aclrtStream s;
	int32_t least, greatest;
	uint32_t got = 99;

	OK(aclrtDeviceGetStreamPriorityRange(&least, &greatest));
	OK(aclrtCreateStreamWithConfig(&s, 1000, 0));
	OK(aclrtStreamGetPriority(s, &got));
	CHECK(got == (uint32_t)least);
}
