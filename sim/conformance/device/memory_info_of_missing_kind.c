/*
 * says: A kind of memory that the hardware does not have is free for 0 of 0 bytes.
 * source: API, aclrtGetMemInfo
 */
#include "../conformance.h"

RULE(memory_info_of_missing_kind)
{
	size_t free_bytes = 1, total = 1;

	OK(aclrtGetMemInfo(ACL_DDR_MEM, &free_bytes, &total));
	CHECK(free_bytes == 0 && total == 0);
}
