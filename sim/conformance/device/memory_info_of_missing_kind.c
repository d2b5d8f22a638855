/*
 * says: A memory kind that the hardware lacks has 0 free and 0 total bytes.
 * source: API, aclrtGetMemInfo
 */
#include "../conformance.h"

RULE(memory_info_of_missing_kind)
{
	size_t free_bytes = 1, total = 1;

	OK(aclrtGetMemInfo(ACL_DDR_MEM, &free_bytes, &total));
	CHECK(free_bytes == 0 && total == 0);
}
