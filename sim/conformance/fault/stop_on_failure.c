/*
 * says: A stream that stops on failure runs no task after a failed one, and accepts no new task.
 * source: API, aclrtSetStreamFailureMode
 */
#include "../conformance.h"

RULE(stop_on_failure)
{
	static struct gate g;
	aclrtStream s = new_stream();
	void *p = device(64);

	OK(aclrtSetStreamFailureMode(s, ACL_STOP_ON_FAILURE));
	hold(&g, s);
	store(s, (char *)p + 4096, 1);
	store(s, p, 2);
	open_gate(&g);
	WANT(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(s));
	CHECK(word(p) == 0);
	WANT(ACL_ERROR_RT_AICORE_EXCEPTION, launch_store(s, p, 3));
	WANT(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(s));
	CHECK(word(p) == 0);
}
