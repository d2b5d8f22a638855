/*
 * says: The default stream has a failure mode, too.
 * source: API, aclrtSetStreamFailureMode (A2 series)
 */
#include "../conformance.h"

RULE(mode_of_the_default_stream)
{
	void *p = device(64);

	OK(aclrtSetStreamFailureMode(NULL, ACL_STOP_ON_FAILURE));
	store(NULL, (char *)p + 4096, 1);
	WANT(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(NULL));
	WANT(ACL_ERROR_RT_AICORE_EXCEPTION, launch_store(NULL, p, 2));
	CHECK(word(p) == 0);
}
