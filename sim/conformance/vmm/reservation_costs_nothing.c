/*
 * says: A reservation of addresses takes no memory.
 * source: API, aclrtReserveMemAddress
 */
#include "../conformance.h"

RULE(reservation_costs_nothing)
{
	size_t before, after, total;
	void *va;

	OK(aclrtGetMemInfo(ACL_HBM_MEM, &before, &total));
	OK(aclrtReserveMemAddress(&va, (size_t)1 << 30, 0, NULL, 0));
	OK(aclrtGetMemInfo(ACL_HBM_MEM, &after, &total));
	CHECK(before == after);
	OK(aclrtReleaseMemAddress(va));
}
