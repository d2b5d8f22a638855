/*
 * says: Each stream has its own overflow switch.
 * source: API, aclrtSetStreamOverflowSwitch
 */
#include "../conformance.h"

RULE(overflow_switch)
{
	aclrtStream a = new_stream(), b = new_stream();
	uint32_t on = 9;

	OK(aclrtSetStreamOverflowSwitch(a, 1));
	OK(aclrtGetStreamOverflowSwitch(a, &on));
	CHECK(on == 1);
	OK(aclrtGetStreamOverflowSwitch(b, &on));
	CHECK(on == 0);
}
