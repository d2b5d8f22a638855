/*
 * says: aclrtCreateStreamV2 takes flags and priority from a set of options.
 * source: API, aclrtSetStreamConfigOpt
 */
#include "../conformance.h"

RULE(created_with_options)
{
	aclrtStreamConfigHandle *c = aclrtCreateStreamConfigHandle();
	uint64_t flag = ACL_STREAM_FAST_SYNC;
	uint32_t priority = 3, got;
	aclrtStream s;

	CHECK(c);
	OK(aclrtSetStreamConfigOpt(c, ACL_RT_STREAM_FLAG, &flag, sizeof flag));
	OK(aclrtSetStreamConfigOpt(c, ACL_RT_STREAM_PRIORITY, &priority, sizeof priority));
	OK(aclrtCreateStreamV2(&s, c));
	OK(aclrtDestroyStreamConfigHandle(c));
	OK(aclrtStreamGetFlags(s, &got));
	CHECK(got == ACL_STREAM_FAST_SYNC);
	OK(aclrtStreamGetPriority(s, &got));
	CHECK(got == 3);
}
