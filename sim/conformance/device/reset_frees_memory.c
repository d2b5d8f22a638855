/*
 * says: A reset frees all memory of the device.
 * source: API, aclrtResetDevice
 */
#include "../conformance.h"

RULE(reset_frees_memory)
{
	size_t before, after, total;

	OK(aclrtGetMemInfo(ACL_HBM_MEM, &before, &total));
	device(1 << 20);
	OK(aclrtResetDevice(0));
	OK(aclrtSetDevice(0));
	OK(aclrtGetMemInfo(ACL_HBM_MEM, &after, &total));
	CHECK(before == after);
}
