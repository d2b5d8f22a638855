/*
 * says: Physical memory keeps its bytes when it is unmapped and mapped elsewhere.
 * source: API, aclrtUnmapMem
 */
#include "../conformance.h"

RULE(remapped_memory_keeps_bytes)
{
	aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE, .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};
	const size_t unit = 2 << 20;
	aclrtDrvMemHandle h;
	char *va;

	OK(aclrtReserveMemAddress((void **)&va, 4 * unit, 0, NULL, 0));
	OK(aclrtMallocPhysical(&h, unit, &prop, 0));
	OK(aclrtMapMem(va, unit, 0, h, 0));
	set_word(va, 5);
	OK(aclrtUnmapMem(va));
	OK(aclrtMapMem(va + 2 * unit, unit, 0, h, 0));
	CHECK(word(va + 2 * unit) == 5);
}
