/*
 * says: aclrtSynchronizeDeviceWithTimeout returns an error after the timeout in milliseconds.
 * source: API, aclrtSynchronizeDeviceWithTimeout; Errors, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT
 */
#include "../conformance.h"

RULE(synchronize_device_timeout)
{
	static struct gate g;

	hold(&g, new_stream());
	WANT(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeDeviceWithTimeout(20));
	open_gate(&g);
}
