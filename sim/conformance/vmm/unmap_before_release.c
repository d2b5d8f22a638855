/*
 * says: Reserved addresses can be released only without mappings.
 * source: API, aclrtReleaseMemAddress
 */
#include "../conformance.h"

RULE(unmap_before_release)
{
	aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE, .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};
	const size_t unit = 2 << 20;
	aclrtDrvMemHandle h;
	void *va;

	OK(aclrtReserveMemAddress(&va, unit, 0, NULL, 0));
	OK(aclrtMallocPhysical(&h, unit, &prop, 0));
	OK(aclrtMapMem(va, unit, 0, h, 0));
	INVALID(aclrtReleaseMemAddress(va));
	OK(aclrtUnmapMem(va));
	OK(aclrtReleaseMemAddress(va));
}
