/*
 * says: The address of pinned host memory is a multiple of 64.
 * source: API, aclrtMallocHost
 */
#include "../conformance.h"

RULE(host_aligned)
{
	for (int i = 0; i < 20; i++)
		CHECK((uintptr_t)pinned(33) % 64 == 0);
}
