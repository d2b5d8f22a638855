/*
 * says: An asynchronous copy from host to host is not supported.
 * source: API, aclrtMemcpyAsync
 */
#include "../conformance.h"

RULE(no_copy_inside_the_host)
{
	aclrtStream s = new_stream();

	WANT(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtMemcpyAsync(pinned(64), 64, pinned(64), 64, ACL_MEMCPY_HOST_TO_HOST, s));
}
