/*
 * says: A read-only mapping can't be written.
 * source: API, aclrtMemSetAccess
 */
#include "../conformance.h"

RULE(read_only_mapping)
{
	aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE, .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};
	aclrtMemAccessDesc access = {.flags = ACL_RT_MEM_ACCESS_FLAGS_READ, .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};
	const size_t unit = 2 << 20;
	aclrtDrvMemHandle h;
	void *va;

	OK(aclrtReserveMemAddress(&va, unit, 0, NULL, 0));
	OK(aclrtMallocPhysical(&h, unit, &prop, 0));
	OK(aclrtMapMem(va, unit, 0, h, 0));
	OK(aclrtMemSetAccess(va, unit, &access, 1));
	INVALID(aclrtMemset(va, 64, 0, 64));
	CHECK(word(va) == 0);
}
