/*
 * says: A mapping has the size of the physical memory, and no offset.
 * source: API, aclrtMapMem
 */
#include "../conformance.h"

RULE(mapped_as_a_whole)
{
	aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE, .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};
	const size_t unit = 2 << 20;
	aclrtDrvMemHandle h;
	void *va;

	OK(aclrtReserveMemAddress(&va, 4 * unit, 0, NULL, 0));
	OK(aclrtMallocPhysical(&h, 2 * unit, &prop, 0));
	INVALID(aclrtMapMem(va, unit, 0, h, 0));
	INVALID(aclrtMapMem(va, 2 * unit, unit, h, 0));
}
