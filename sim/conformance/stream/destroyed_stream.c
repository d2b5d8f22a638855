/*
 * says: The handle of a destroyed stream is invalid.
 * source: Errors, ACL_ERROR_RT_INVALID_HANDLE
 */
#include "../conformance.h"

RULE(destroyed_stream)
{
	aclrtStream s = new_stream();

	OK(aclrtDestroyStream(s));
	WANT(ACL_ERROR_RT_INVALID_HANDLE, aclrtSynchronizeStream(s));
}
