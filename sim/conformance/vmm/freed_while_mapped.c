/*
 * says: Physical memory that is freed while mapped is valid until it is unmapped.
 * source: API, aclrtFreePhysical
 */
#include "../conformance.h"

RULE(freed_while_mapped)
{
	aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE, .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};
	const size_t unit = 2 << 20;
	size_t before, during, after, total;
	aclrtDrvMemHandle h;
	void *va;

	OK(aclrtReserveMemAddress(&va, unit, 0, NULL, 0));
	OK(aclrtGetMemInfo(ACL_HBM_MEM, &before, &total));
	OK(aclrtMallocPhysical(&h, unit, &prop, 0));
	OK(aclrtMapMem(va, unit, 0, h, 0));
	OK(aclrtFreePhysical(h));
	set_word(va, 1);
	OK(aclrtGetMemInfo(ACL_HBM_MEM, &during, &total));
	CHECK(word(va) == 1 && during == before - unit);
	OK(aclrtUnmapMem(va));
	OK(aclrtGetMemInfo(ACL_HBM_MEM, &after, &total));
	CHECK(after == before);
}
