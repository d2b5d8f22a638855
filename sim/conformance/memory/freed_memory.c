/*
 * says: Freed memory can't be used.
 * source: API, aclrtFree; Simulator
 */
#include "../conformance.h"

RULE(freed_memory)
{
	void *p = device(32);
	char host[32];

	OK(aclrtFree(p));
	INVALID(aclrtMemcpy(host, 32, p, 32, ACL_MEMCPY_DEVICE_TO_HOST));
}
