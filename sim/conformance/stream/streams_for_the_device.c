/*
 * says: A synchronization of a device-only stream succeeds at once.
 * source: API, aclrtSynchronizeStream
 */
#include "../conformance.h"

RULE(streams_for_the_device)
{
	static struct gate g;
	aclrtStream s;

	OK(aclrtCreateStreamWithConfig(&s, 0, ACL_STREAM_DEVICE_USE_ONLY));
	hold(&g, s);
	AT_ONCE(OK(aclrtSynchronizeStream(s)));
	AT_ONCE(OK(aclrtSynchronizeStreamWithTimeout(s, 5)));
	open_gate(&g);
}
