/*
 * says: A stream fails if its wait for a notify reaches the timeout.
 * source: API, aclrtWaitAndResetNotify
 */
#include "../conformance.h"

RULE(notify_timeout)
{
	aclrtStream s = new_stream();
	aclrtNotify n;

	OK(aclrtCreateNotify(&n, ACL_NOTIFY_DEFAULT));
	OK(aclrtWaitAndResetNotify(n, s, 1));
	WANT(ACL_ERROR_RT_WAIT_TIMEOUT, aclrtSynchronizeStreamWithTimeout(s, patience));
}
