/*
 * says: The size of physical memory is a multiple of its granularity.
 * source: API, aclrtMallocPhysical
 */
#include "../conformance.h"

RULE(physical_memory_in_units)
{
	aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE, .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};
	aclrtDrvMemHandle h;

	INVALID(aclrtMallocPhysical(&h, 4096, &prop, 0));
}
