/*
 * says: A stream's core limit takes precedence over the device's.
 * source: API, aclrtGetStreamResLimit; Guide, core resource control
 */
#include "../conformance.h"

RULE(core_limit)
{
	aclrtStream s = new_stream();
	uint32_t all, n;

	OK(aclrtGetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, &all));
	OK(aclrtSetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, all - 1));
	OK(aclrtGetStreamResLimit(s, ACL_RT_DEV_RES_CUBE_CORE, &n));
	CHECK(n == all - 1);
	OK(aclrtSetStreamResLimit(s, ACL_RT_DEV_RES_CUBE_CORE, 2));
	OK(aclrtGetStreamResLimit(s, ACL_RT_DEV_RES_CUBE_CORE, &n));
	CHECK(n == 2);
	OK(aclrtResetStreamResLimit(s));
	OK(aclrtResetDeviceResLimit(0));
	OK(aclrtGetStreamResLimit(s, ACL_RT_DEV_RES_CUBE_CORE, &n));
	CHECK(n == all);
}
