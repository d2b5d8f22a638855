/*
 * says: Physical memory can be used at the reserved addresses where it is mapped.
 * source: API, aclrtMapMem
 */
#include "../conformance.h"

RULE(mapped_memory_works)
{
	aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE, .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};
	aclrtDrvMemHandle h;
	void *va;
	size_t unit;

	OK(aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &unit));
	CHECK(unit == 2 << 20);
	OK(aclrtReserveMemAddress(&va, 4 * unit, 0, NULL, 0));
	OK(aclrtMallocPhysical(&h, unit, &prop, 0));
	OK(aclrtMapMem((char *)va + unit, unit, 0, h, 0));
	set_word((char *)va + unit, 5);
	CHECK(word((char *)va + unit) == 5);
}
