/*
 * says: AscendCL refuses a size of 0 in allocations, reservations, mappings, registrations and appends.
 * source: Runtime, argument checks
 */
#include "../conformance.h"

RULE(zero_sizes)
{
	aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE, .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};
	static char page[8192];
	aclrtDrvMemHandle h;
	void *p;

	REFUSED(aclrtReserveMemAddress(&p, 0, 0, NULL, 0));
	REFUSED(aclrtMallocPhysical(&h, 0, &prop, 0));
	REFUSED(aclrtHostRegister(page, 0, ACL_HOST_REGISTER_MAPPED, &p));
	REFUSED(aclrtMallocAlign32(&p, 0, ACL_MEM_MALLOC_HUGE_FIRST));
}
