/*
 * says: An asynchronous copy of more bytes than the destination has is refused at the call.
 * source: API, aclrtMemcpyAsync
 */
#include "../conformance.h"

RULE(async_larger_than_destination)
{
	INVALID(aclrtMemcpyAsync(device(64), 32, pinned(64), 64, ACL_MEMCPY_HOST_TO_DEVICE, new_stream()));
}
