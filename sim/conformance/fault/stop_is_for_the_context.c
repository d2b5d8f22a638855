/*
 * says: If one stream stops on failure, all streams of its context do.
 * source: API, aclrtSetStreamFailureMode
 */
#include "../conformance.h"

RULE(stop_is_for_the_context)
{
	aclrtStream a = new_stream(), b = new_stream();
	void *p = device(64);

	OK(aclrtSetStreamFailureMode(a, ACL_STOP_ON_FAILURE));
	store(b, (char *)p + 4096, 1);
	WANT(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(b));
	WANT(ACL_ERROR_RT_AICORE_EXCEPTION, launch_store(a, p, 2));
	WANT(ACL_ERROR_RT_AICORE_EXCEPTION, launch_store(b, p, 2));
}
