/*
 * says: Memory mapped by aclrtMemMapNoAccess can be used after aclrtMemSetAccess.
 * source: API, aclrtMemMapNoAccess
 */
#include "../conformance.h"

RULE(mapped_without_access)
{
	aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE, .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};
	aclrtMemAccessDesc access = {.flags = ACL_RT_MEM_ACCESS_FLAGS_READWRITE, .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};
	const size_t unit = 2 << 20;
	aclrtDrvMemHandle h;
	void *va;

	OK(aclrtReserveMemAddress(&va, unit, 0, NULL, 0));
	OK(aclrtMallocPhysical(&h, unit, &prop, 0));
	OK(aclrtMemMapNoAccess(va, unit, 0, h, 0));
	INVALID(aclrtMemset(va, 64, 0, 64));
	OK(aclrtMemSetAccess(va, unit, &access, 1));
	OK(aclrtMemset(va, 64, 0, 64));
}
