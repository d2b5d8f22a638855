/*
 * says: The address of device memory is a multiple of 64.
 * source: API, aclrtMalloc
 */
#include "../conformance.h"

RULE(aligned)
{
	for (int i = 0; i < 20; i++)
		CHECK((uintptr_t)device(33) % 64 == 0);
}
