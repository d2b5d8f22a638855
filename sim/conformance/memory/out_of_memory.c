/*
 * says: An allocation larger than the free memory fails, and the next one that fits succeeds.
 * source: public runtime: ACL_ERROR_RT_MEMORY_ALLOCATION if the driver is out of memory
 */
#include "../conformance.h"

RULE(out_of_memory)
{
	void *p;

	WANT(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMalloc(&p, (size_t)1 << 40, ACL_MEM_MALLOC_HUGE_FIRST));
	CHECK(device(32));
}
