/*
 * says: aclrtResetEvent refuses an event of aclrtCreateEventExWithFlag.
 * source: API, aclrtCreateEventExWithFlag
 */
#include "../conformance.h"

RULE(ex_event_can_not_be_reset)
{
	WANT(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtResetEvent(new_event(), new_stream()));
}
