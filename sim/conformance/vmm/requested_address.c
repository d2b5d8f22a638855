/*
 * says: A reservation begins at the requested address, which must be a multiple of 1 GiB and free.
 * source: API, aclrtReserveMemAddress
 */
#include "../conformance.h"

RULE(requested_address)
{
	const uintptr_t giant = 1 << 30;
	void *found, *wanted, *va, *again;

	/* an address that was free a moment ago */
	OK(aclrtReserveMemAddress(&found, 2 * giant, 0, NULL, 1));
	OK(aclrtReleaseMemAddress(found));
	wanted = (void *)(((uintptr_t)found + giant - 1) / giant * giant);
	INVALID(aclrtReserveMemAddress(&va, giant, 0, (char *)wanted + (2 << 20), 1));
	OK(aclrtReserveMemAddress(&va, giant, 0, wanted, 1));
	CHECK(va == wanted);
	WANT(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtReserveMemAddress(&again, giant, 0, wanted, 1));
	OK(aclrtReleaseMemAddress(va));
}
