/*
 * says: A copy may cross adjacent mappings.
 * source: API, aclrtReserveMemAddress
 */
#include "../conformance.h"

RULE(neighbouring_mappings)
{
	aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE, .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};
	const size_t unit = 2 << 20;
	aclrtDrvMemHandle h[2];
	char *va;

	OK(aclrtReserveMemAddress((void **)&va, 2 * unit, 0, NULL, 0));
	for (int i = 0; i < 2; i++) {
		OK(aclrtMallocPhysical(&h[i], unit, &prop, 0));
		OK(aclrtMapMem(va + i * unit, unit, 0, h[i], 0));
	}
	OK(aclrtMemset(va, 2 * unit, 1, 2 * unit));
	CHECK(word(va + 2 * unit - 8) == 0x0101010101010101);
}
