/*
 * says: A synchronization returns each failure once if the stream continues on failure.
 * source: Runtime, stream synchronization
 */
#include "../conformance.h"

RULE(error_is_told_once)
{
	aclrtStream s = new_stream();

	store(s, (char *)device(64) + 4096, 1);
	WANT(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(s));
	OK(aclrtSynchronizeStream(s));
}
