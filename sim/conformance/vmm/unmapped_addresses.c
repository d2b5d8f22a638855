/*
 * says: Reserved addresses without a mapping can't be used.
 * source: API, aclrtReserveMemAddress
 */
#include "../conformance.h"

RULE(unmapped_addresses)
{
	void *va;

	OK(aclrtReserveMemAddress(&va, 2 << 20, 0, NULL, 0));
	INVALID(aclrtMemset(va, 64, 0, 64));
}
