/*
 * says: The mode of a stream that stops on failure can't be changed back.
 * source: API, aclrtSetStreamFailureMode
 */
#include "../conformance.h"

RULE(stop_for_good)
{
	aclrtStream s = new_stream();

	OK(aclrtSetStreamFailureMode(s, ACL_STOP_ON_FAILURE));
	WANT(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtSetStreamFailureMode(s, ACL_CONTINUE_ON_FAILURE));
}
