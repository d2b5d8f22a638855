/*
 * says: aclrtMallocAlign32 rounds up to 32 bytes without padding.
 * source: API, aclrtMallocAlign32
 */
#include "../conformance.h"

RULE(align32_has_no_pad)
{
	void *p;

	OK(aclrtMallocAlign32(&p, 33, ACL_MEM_MALLOC_HUGE_FIRST));
	OK(aclrtMemset(p, 64, 1, 64));
	INVALID(aclrtMemset(p, 65, 1, 65));
}
