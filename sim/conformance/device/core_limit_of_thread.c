/*
 * says: A stream's core limit applies to a thread from aclrtUseStreamResInCurrentThread to aclrtUnuseStreamResInCurrentThread.
 * source: API, aclrtUseStreamResInCurrentThread
 */
#include "../conformance.h"

RULE(core_limit_of_thread)
{
	aclrtStream s = new_stream();
	uint32_t all, n;

	OK(aclrtGetResInCurrentThread(ACL_RT_DEV_RES_VECTOR_CORE, &all));
	OK(aclrtSetStreamResLimit(s, ACL_RT_DEV_RES_VECTOR_CORE, 3));
	OK(aclrtUseStreamResInCurrentThread(s));
	OK(aclrtGetResInCurrentThread(ACL_RT_DEV_RES_VECTOR_CORE, &n));
	CHECK(n == 3);
	OK(aclrtUnuseStreamResInCurrentThread(s));
	OK(aclrtGetResInCurrentThread(ACL_RT_DEV_RES_VECTOR_CORE, &n));
	CHECK(n == all);
}
