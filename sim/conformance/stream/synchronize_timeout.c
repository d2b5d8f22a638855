/*
 * says: aclrtSynchronizeStreamWithTimeout returns an error after the timeout in milliseconds. The work continues.
 * source: API, aclrtSynchronizeStreamWithTimeout; Errors, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT
 */
#include "../conformance.h"

RULE(synchronize_timeout)
{
	static struct gate g;
	aclrtStream s = new_stream();

	hold(&g, s);
	WANT(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(s, 20));
	open_gate(&g);
	OK(aclrtSynchronizeStream(s));
}
