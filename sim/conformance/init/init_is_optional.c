/*
 * says: Functions of the runtime work before aclInit.
 * source: public runtime, src/acl/aclrt_impl: no check of the initialization
 */
#include "../conformance.h"

RULE_BARE(init_is_optional)
{
	uint32_t n = 0;
	void *p;

	OK(aclrtGetDeviceCount(&n));
	CHECK(n > 0);
	OK(aclrtSetDevice(0));
	OK(aclrtMalloc(&p, 32, ACL_MEM_MALLOC_HUGE_FIRST));
}
