/*
 * says: The default stream has a failure mode, too.
 * source: API, aclrtSetStreamFailureMode (A2 series)
 */
#include "../conformance.h"

RULE(mode_of_the_default_stream)
{
	OK(aclrtSetStreamFailureMode(NULL, ACL_STOP_ON_FAILURE));
}
