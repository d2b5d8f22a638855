/*
 * says: A stream keeps its priority; the smaller number goes first.
 * source: API, aclrtStreamGetPriority
 */
#include "../conformance.h"

RULE(priority)
{
	aclrtStream s;
	int32_t least, greatest;
	uint32_t got = 99;

	OK(aclrtDeviceGetStreamPriorityRange(&least, &greatest));
	CHECK(greatest < least);
	OK(aclrtCreateStreamWithConfig(&s, (uint32_t)least - 1, 0));
	OK(aclrtStreamGetPriority(s, &got));
	CHECK(got == (uint32_t)least - 1);
}
