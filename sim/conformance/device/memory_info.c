/*
 * says: aclrtGetMemInfo returns the current amount of free memory.
 * source: API, aclrtGetMemInfo
 */
#include "../conformance.h"

RULE(memory_info)
{
	size_t before, after, total;

	OK(aclrtGetMemInfo(ACL_HBM_MEM, &before, &total));
	device(1 << 20);
	OK(aclrtGetMemInfo(ACL_HBM_MEM, &after, &total));
	CHECK(after <= before - (1 << 20) && total >= before);
}
